//! Bodies, requests and configurations.

use super::*;

#[test]
fn lines_as_opentelemetry_has_them() {
    let line = |text: &str, status| Waiting { text: text.into(), status, time: 5, since: 7 };
    let id = "0af7651916cd43dd8448eb211c80319c";
    let first = json!({ "s": "é\"\n", "n": -3, "f": 12.5, "w": 1.0, "b": true, "z": null, "o": { "a": "b" }, "trace_id": id,
                        "u": u64::MAX })
    .to_string();
    let lines = [
        line(&first, 200),
        line(r#"{"trace_id":"00000000000000000000000000000000"}"#, 404),
        line(r#"{"trace_id":7}"#, 0),
        line("{}", 503),
    ];
    let body: Value = serde_json::from_slice(&otlp::body(lines.iter())).unwrap();
    let scope = &body["resourceLogs"][0]["scopeLogs"][0];
    assert_eq!(
        body["resourceLogs"][0]["resource"],
        json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "envoy" } }] })
    );
    assert_eq!(scope["scope"], json!({ "name": "foregate.sampled_log" }));
    assert_eq!(
        scope["logRecords"][0],
        json!({
            "timeUnixNano": "5", "observedTimeUnixNano": "7", "severityNumber": 9, "severityText": "INFO",
            "body": { "stringValue": first },
            "attributes": [
                { "key": "b", "value": { "boolValue": true } },
                { "key": "f", "value": { "doubleValue": 12.5 } },
                { "key": "n", "value": { "intValue": "-3" } },
                { "key": "s", "value": { "stringValue": "é\"\n" } },
                { "key": "trace_id", "value": { "stringValue": id } },
                { "key": "u", "value": { "doubleValue": u64::MAX } },
                { "key": "w", "value": { "doubleValue": 1.0 } },
            ],
            "traceId": id,
        })
    );
    let of = |place: usize| {
        let record = &scope["logRecords"][place];
        (
            record["severityNumber"].as_u64().unwrap(),
            record["severityText"].as_str().unwrap(),
            record.get("traceId"),
        )
    };
    assert_eq!([of(1), of(2), of(3)], [(13, "WARN", None), (17, "ERROR", None), (17, "ERROR", None)]);
}

#[test]
fn requests_as_the_configuration_has_them() {
    let lines = |members: Value| {
        let settings = settings(members);
        settings.headers.iter().map(|line| format!("{line:?}").replace('"', "")).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(json!({})),
        [
            "(:method, POST)",
            "(:scheme, http)",
            "(:authority, collector)",
            "(:path, /v1/logs)",
            "(content-type, application/json)",
            "(user-agent, foregate)"
        ]
    );
    assert_eq!(
        lines(json!({ "format": "NDJSON", "path": "/in?x=1", "host": "logs.example",
                      "headers": [{ "name": "Authorization", "value": "Bearer x" }, { "name": "user-agent", "value": "y" }] })),
        [
            "(:method, POST)",
            "(:scheme, http)",
            "(:authority, logs.example)",
            "(:path, /in?x=1)",
            "(content-type, application/x-ndjson)",
            "(authorization, Bearer x)",
            "(user-agent, y)"
        ]
    );
    let config = json!({ "sink": "envoy_log" }).to_string();
    assert!(matches!(
        crate::config::Config::read(config.as_bytes()).unwrap().0.1,
        super::super::Sink::EnvoyLog
    ));
    assert!(
        !format!("{:?}", settings(json!({ "headers": [{ "name": "a", "value": "secret" }] })))
            .contains("secret")
    );
}

#[test]
fn what_is_wrong_with_a_sink_is_named_with_its_path() {
    let http = |members: Value| json!({ "sink": { "http": members } });
    let rows = [
        (
            json!({ "sink": "file" }),
            "sink: \"file\" is no sink; there are envoy_log, access_log and {http: {...}}",
        ),
        (json!({ "sink": {} }), "sink: `http` is missing"),
        (http(json!({})), "sink.http: `cluster` is missing"),
        (
            http(json!({ "cluster": "c", "format": "XML" })),
            "sink.http.format: \"XML\" must be OTLP or NDJSON",
        ),
        (http(json!({ "cluster": "c", "path": "v1" })), "sink.http.path: \"v1\" is not a path"),
        (http(json!({ "cluster": "c", "host": "a\r\nb" })), "sink.http.host: a header value cannot hold"),
        (http(json!({ "cluster": "c", "timeout": "0s" })), "sink.http.timeout: is not from 0.001s to 60s"),
        (
            http(json!({ "cluster": "c", "flush_interval": "1h" })),
            "sink.http.flush_interval: \"1h\" is not a duration",
        ),
        (http(json!({ "cluster": "c", "max_batch_lines": 0 })), "sink.http.max_batch_lines: 0 is not"),
        (http(json!({ "cluster": "c", "retries": 101 })), "sink.http.retries: 101 is not"),
        (http(json!({ "cluster": "c", "retry": 1 })), "sink.http: unknown field `retry`"),
        (
            http(json!({ "cluster": "c", "headers": [{ "name": "Content-Type", "value": "x" }] })),
            "sink.http.headers[0].name: \"content-type\" cannot be set here",
        ),
        (
            http(json!({ "cluster": "c", "headers": [{ "name": "a" }] })),
            "sink.http.headers[0]: `value` is missing",
        ),
    ];
    for (config, expected) in rows {
        let Err(errors) = SampledLog::configure(config.to_string().as_bytes()) else { panic!("{config}") };
        let found: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|problem| problem.contains(expected)), "{found:#?}\nlacks {expected}");
    }
    let small = http(json!({ "cluster": "c", "max_queued_bytes": 600 })).to_string();
    assert_eq!(SampledLog::configure(small.as_bytes()).unwrap().warnings.len(), 2);
}
