//! The filter as a whole, natively.

use std::sync::Arc;

use filter_api::{Fact, HeadMap, HostMap, ResponseFlags};
use serde_json::{Value, json};

use super::*;

/// 1 December 2026, 08:15:43 and 14 ms.
const START: u64 = 1_796_112_943_014_232_000;

fn filter(config: &Value) -> SampledLog {
    let configured = SampledLog::configure(config.to_string().as_bytes());
    configured.unwrap_or_else(|errors| panic!("{config}\n{errors}")).filter.on_its_own_worker()
}

fn problems(config: &Value) -> Vec<String> {
    match SampledLog::configure(config.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

/// A request that is over: its status, flags and milliseconds.
fn ended(status: u64, flags: u64, millis: u64) -> HostMap {
    let host = HostMap { logs: true, ..HostMap::at(START) };
    let number = |number: u64| number.to_le_bytes().to_vec();
    host.ended.borrow_mut().extend([
        ("response.code", number(status)),
        ("response.flags", number(flags)),
        ("request.duration", number(millis * 1_000_000)),
        ("response.code_details", b"via_upstream".to_vec()),
        ("response.grpc_status", number(2)),
        ("request.size", number(3)),
        ("response.size", number(5)),
        ("upstream.address", b"192.0.2.9:80".to_vec()),
        ("xds.cluster_name", b"upstream".to_vec()),
    ]);
    host
}

fn log(filter: &SampledLog, request: &HeadMap, host: &HostMap) -> Option<Value> {
    let response = HeadMap::default().with(":status", "200").with("content-type", "text/plain");
    let mut work = filter.on_log(request, &response, host, &Facts::default());
    assert!(work.log.len() <= 1 && !work.resume);
    let line = work.log.pop()?;
    assert_eq!(line.level, Level::Info);
    Some(serde_json::from_str(&line.text).unwrap_or_else(|error| panic!("{error}: {}", line.text)))
}

/// Nothing of a sample, so that only rules of `always` count.
fn without_sample(mut config: Value) -> SampledLog {
    config["percent_sampled"] = 0.into();
    filter(&config)
}

#[test]
fn a_line_has_all_fields_with_their_types() {
    let request = HeadMap::get("/orders?token=secret")
        .with("x-request-id", "9d5e6f7a-0000-4000-8000-000000000000")
        .with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let line = log(&filter(&json!({ "percent_sampled": 100 })), &request, &ended(200, 0, 12)).unwrap();
    assert_eq!(
        line,
        json!({
            "time": "2026-12-01T08:15:43.014232Z", "method": "GET", "host": "gateway.example", "path": "/orders",
            "protocol": "HTTP/1.1", "status": 200, "flags": null, "details": "via_upstream", "duration_ms": 12.0,
            "upstream": "192.0.2.9:80", "cluster": "upstream", "route": null, "bytes_received": 3, "bytes_sent": 5,
            "request_id": "9d5e6f7a-0000-4000-8000-000000000000", "trace_id": "0af7651916cd43dd8448eb211c80319c",
            "client": "192.0.2.1", "grpc_status": null, "subject": null, "refused_by": null, "reason": null,
            "sample_rate": 1, "why": "sampled",
        })
    );
}

#[test]
fn failures_are_always_logged() {
    let filter = without_sample(json!({}));
    let rows = [
        (ended(200, 0, 999), false),
        (ended(404, 0, 1), false),
        (ended(500, 0, 1), true),
        (ended(599, 0, 1), true),
        (ended(200, 0, 1000), true),
        (ended(200, ResponseFlags::named("DC").unwrap().0, 1), true),
        (ended(0, ResponseFlags::named("UF").unwrap().0, 1), true),
    ];
    for (host, expected) in rows {
        let line = log(&filter, &HeadMap::get("/"), &host);
        assert_eq!(line.is_some(), expected, "{line:?}");
        if let Some(line) = line {
            assert_eq!((&line["why"], &line["sample_rate"]), (&json!("always"), &json!(1)));
        }
    }
}

#[test]
fn every_condition_of_a_rule() {
    let with_details = |details: &str| {
        let host = ended(401, 0, 1);
        host.ended.borrow_mut().insert("response.code_details", details.as_bytes().to_vec());
        host
    };
    let grpc = |status: u64| {
        let host = ended(200, 0, 1);
        host.ended.borrow_mut().insert("response.grpc_status", status.to_le_bytes().to_vec());
        host
    };
    let plain = HeadMap::get("/orders");
    let of_grpc = HeadMap::get("/svc/M").with("content-type", "application/grpc");
    let rows = [
        (json!({ "status": [404, "0"] }), &plain, ended(404, 0, 1), true),
        (json!({ "status": 0 }), &plain, ended(0, 0, 1), true),
        (json!({ "status": "4xx" }), &plain, ended(500, 0, 1), false),
        (json!({ "duration": "0.5s" }), &plain, ended(200, 0, 500), true),
        (json!({ "response_flags": ["UT", "NR"] }), &plain, ended(404, 1 << 8, 1), true),
        (json!({ "response_flags": "UT" }), &plain, ended(404, 1 << 8, 1), false),
        (json!({ "grpc_status": "any_error" }), &of_grpc, grpc(14), true),
        (json!({ "grpc_status": "any_error" }), &of_grpc, grpc(0), false),
        (json!({ "grpc_status": "any_error" }), &plain, grpc(14), false),
        (json!({ "grpc_status": [4, 14] }), &of_grpc, grpc(14), true),
        (json!({ "grpc_status": 4 }), &of_grpc, grpc(14), false),
        (json!({ "refused": "any" }), &plain, with_details("jwt_reject{token_expired}"), true),
        (json!({ "refused": ["local_rate_limit"] }), &plain, with_details("local_rate_limited{login}"), true),
        (json!({ "refused": ["jwt_reject"] }), &plain, with_details("local_rate_limited{login}"), false),
        (json!({ "refused": "any" }), &plain, with_details("jwt_rejected{x}"), false),
        (json!({ "refused": "any" }), &plain, with_details("via_upstream"), false),
        (json!({ "match": { "prefix": "/orders", "method": "GET" } }), &plain, ended(200, 0, 1), true),
        (json!({ "match": { "prefix": "/x" }, "status": 200 }), &plain, ended(200, 0, 1), false),
        (json!({ "status": "5xx", "duration": "1s" }), &plain, ended(500, 0, 1), false),
    ];
    for (rule, request, host, expected) in rows {
        let filter = without_sample(json!({ "always": [rule] }));
        assert_eq!(log(&filter, request, &host).is_some(), expected, "{rule}");
    }
    assert!(log(&without_sample(json!({ "always": [] })), &plain, &ended(500, 0, 1)).is_none());
}

#[test]
fn the_first_rule_that_holds_says_which_share() {
    let filter = filter(&json!({
        "always": [],
        "percent_sampled": 100,
        "max_lines_per_second": "unlimited",
        "rules": [
            { "match": { "path": "/health" }, "percent_sampled": 0 },
            { "status": "4xx", "percent_sampled": { "numerator": 1, "denominator": "TEN_THOUSAND" } },
            { "match": { "prefix": "/h" }, "percent_sampled": 100 },
        ],
    }));
    let count = |path: &str, status: u64| {
        let host = ended(status, 0, 1);
        let with = |n: u64| HeadMap::get(path).with("x-request-id", format!("request {n}"));
        (0..10_000).filter(|n| log(&filter, &with(*n), &host).is_some()).count()
    };
    assert_eq!(count("/health", 404), 0);
    assert!((0..=6).contains(&count("/h", 404)));
    assert_eq!(count("/h", 200), 10_000);
}

#[test]
fn who_refused_and_why_is_told() {
    let host = ended(401, 0, 1);
    let filter = filter(&json!({ "percent_sampled": 100 }));
    for (details, by, reason) in [
        ("jwt_reject{token_expired}", json!("jwt_reject"), json!("token_expired")),
        ("local_rate_limited{per-client}", json!("local_rate_limit"), json!("per-client")),
        ("header_rewrite{host_failure}", json!("header_rewrite"), json!("host_failure")),
        ("jwt_reject{", Value::Null, Value::Null),
        ("direct_response", Value::Null, Value::Null),
    ] {
        host.ended.borrow_mut().insert("response.code_details", details.as_bytes().to_vec());
        let line = log(&filter, &HeadMap::get("/"), &host).unwrap();
        assert_eq!((&line["refused_by"], &line["reason"]), (&by, &reason), "{details}");
        assert_eq!(line["details"], details);
    }
}

#[test]
fn facts_of_the_same_module_are_seen() {
    let mut facts = Facts::default();
    let claims = json!({ "sub": "alice" });
    facts.0.push(Fact::Claims { provider: "main".into(), claims: Arc::new(claims) });
    let filter = filter(&json!({ "percent_sampled": 100, "fields": { "who": "%CLAIM(sub)%" } }));
    let work = filter.on_log(&HeadMap::get("/"), &HeadMap::default(), &ended(200, 0, 1), &facts);
    assert!(work.log[0].text.contains(r#""who":"alice""#));
}

#[test]
fn secrets_are_not_written() {
    let fields = json!({ "a": "%REQ(authorization)%", "b": "<%REQ(x-none?Cookie)%>", "c": "%REQ(:path)%", "d": "%RESP(set-cookie)%",
                         "e": "%REQ(x-secret)%", "f": "%REQ(x-api-key):2%", "g": "%PATH%" });
    let config = |redact: &str| {
        json!({ "percent_sampled": 100, "fields": fields, "redact": redact, "hash_key": "k", "query_values": ["page"],
                "redacted_headers": ["X-Secret"],
                "request_headers": ["Authorization", "cookie", "x-open", "x-none"], "response_headers": ["set-cookie"] })
    };
    let request = HeadMap::get("/p?page=2&token=s3cret")
        .with("AUTHORIZATION", "Bearer s3cret")
        .with("cookie", "s3cret")
        .with("cookie", "s3cret")
        .with("x-secret", "s3cret")
        .with("x-api-key", "s3cret")
        .with("x-open", "1");
    let response = HeadMap::default().with("Set-Cookie", "a=s3cret");
    let line = |redact: &str| {
        let work = filter(&config(redact)).on_log(&request, &response, &ended(200, 0, 1), &Facts::default());
        assert!(!work.log[0].text.contains("s3"), "{}", work.log[0].text);
        serde_json::from_str::<Value>(&work.log[0].text).unwrap()
    };
    let masked = line("mask");
    assert_eq!(masked["a"], "***");
    assert_eq!(masked["b"], "<***>");
    assert_eq!(masked["c"], "/p?page=2&token=***");
    assert_eq!(masked["g"], "/p?page=2&token=***");
    assert_eq!(
        masked["request_headers"],
        json!({ "authorization": "***", "cookie": "***, ***", "x-open": "1" })
    );
    assert_eq!(masked["response_headers"], json!({ "set-cookie": "***" }));
    let dropped = line("drop");
    assert_eq!((&dropped["a"], &dropped["d"], &dropped["e"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!(dropped["c"], "/p?page=2&token=");
    assert_eq!(dropped["request_headers"], json!({ "x-open": "1" }));
    let hashed = line("hash");
    assert!(hashed["e"].as_str().unwrap().starts_with("h:") && hashed["e"] == line("hash")["e"]);
}

#[test]
fn a_query_is_not_written_as_a_header_either() {
    let request = HeadMap::get("/p?page=2&token=s3cret").with("x-envoy-original-path", "/o?s3cret");
    let response = HeadMap::default().with("x-envoy-original-path", "/r?token=s3cret");
    for (redact, path, original) in
        [("mask", "/p?page=2&token=***", Some("/o?***")), ("drop", "/p?page=2&token=", Some("/o?"))]
    {
        let filter = filter(&json!({
            "percent_sampled": 100,
            "redact": redact,
            "query_values": ["page"],
            "request_headers": [":path", "X-Envoy-Original-Path"],
            "response_headers": "x-envoy-original-path",
        }));
        let work = filter.on_log(&request, &response, &ended(200, 0, 1), &Facts::default());
        assert!(!work.log[0].text.contains("s3"), "{}", work.log[0].text);
        let line: Value = serde_json::from_str(&work.log[0].text).unwrap();
        let headers = &line["request_headers"];
        assert_eq!(headers[":path"], path);
        assert_eq!(headers["x-envoy-original-path"].as_str(), original);
    }
}

#[test]
fn a_header_that_is_listed_twice_is_written_once() {
    let config = json!({ "percent_sampled": 100, "request_headers": ["x-a", "X-A"] });
    let configured = SampledLog::configure(config.to_string().as_bytes()).unwrap();
    let warnings: Vec<String> = configured.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["request_headers[1]: \"x-a\" is listed already"]);
    let request = HeadMap::get("/").with("x-a", "1");
    let work = configured.filter.on_log(&request, &HeadMap::default(), &ended(200, 0, 1), &Facts::default());
    assert!(work.log[0].text.contains(r#""request_headers":{"x-a":"1"}"#), "{}", work.log[0].text);
}

#[test]
fn long_values_are_cut_between_characters_and_it_is_said() {
    let filter =
        filter(&json!({ "percent_sampled": 100, "max_field_bytes": 17, "fields": { "v": "%REQ(v)%" } }));
    let with = |value: &str| log(&filter, &HeadMap::get("/").with("v", value), &ended(200, 0, 1)).unwrap();
    assert_eq!(with("12345678901234567")["v"], "12345678901234567");
    let cut = with(&"é".repeat(30));
    assert_eq!((&cut["v"], &cut["truncated"]), (&json!(format!("{}...", "é".repeat(8))), &json!(true)));
    // What only looks like the rest of a character takes nothing along.
    let request = HeadMap::get("/").with("v", [b"evil".as_slice(), &[0x80; 30]].concat());
    let cut = log(&filter, &request, &ended(200, 0, 1)).unwrap();
    assert_eq!(cut["v"], format!("evil{}...", "\\x80".repeat(13)));
}

#[test]
fn a_number_that_is_cut_is_a_text() {
    let filter = filter(&json!({
        "percent_sampled": 100,
        "fields": { "a": "%DURATION:3%", "b": "%RESPONSE_CODE:1%", "c": "%DURATION%" },
    }));
    let line = log(&filter, &HeadMap::get("/"), &ended(200, 0, 12)).unwrap();
    assert_eq!((&line["a"], &line["b"], &line["c"]), (&json!("12."), &json!("2"), &json!(12.0)));
}

#[test]
fn how_a_line_was_chosen_is_in_it_however_long_it_would_be() {
    let filter = filter(&json!({
        "percent_sampled": 100,
        "max_line_bytes": 512,
        "max_lines_per_second": { "lines": 1, "burst": 1 },
    }));
    let host = ended(200, 0, 12);
    for length in 0..300 {
        let request = HeadMap::get("/").with("x-request-id", "x".repeat(length));
        host.wait(1_000_000_000);
        let line = log(&filter, &request, &host).unwrap();
        assert_eq!((&line["sample_rate"], &line["why"]), (&json!(1), &json!("sampled")));
        assert_eq!(line.get("dropped"), (length > 0).then_some(&json!(1)));
        assert!(log(&filter, &request, &host).is_none());
    }
}

#[test]
fn a_storm_keeps_within_its_budget_and_the_next_line_tells_of_it() {
    let filter = filter(&json!({ "max_lines_per_second": { "lines": 10, "burst": 3 } }));
    let host = ended(500, 0, 1);
    let written: Vec<Option<Value>> = (0..10).map(|_| log(&filter, &HeadMap::get("/"), &host)).collect();
    assert_eq!(written.iter().flatten().count(), 3);
    host.wait(1_000_000_000);
    let line = log(&filter, &HeadMap::get("/"), &host).unwrap();
    assert_eq!(line["dropped"], 7);
    assert_eq!(log(&filter, &HeadMap::get("/"), &host).unwrap().get("dropped"), None);
}

#[test]
fn what_would_not_be_written_is_not_decided() {
    let host = HostMap { logs: false, ..HostMap::at(START) };
    let work = filter(&json!({ "percent_sampled": 100 })).on_log(
        &HeadMap::get("/"),
        &HeadMap::default(),
        &host,
        &Facts::default(),
    );
    assert_eq!(work, Work::default());
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    let rows = [
        (json!({ "always": {} }), "always: must be an array, not an object"),
        (json!({ "always": [{}] }), "always[0]: has no condition; there are match, status"),
        (
            json!({ "always": [{ "stauts": 500 }] }),
            "always[0]: unknown field `stauts`; did you mean `status`?",
        ),
        (json!({ "always": [{ "status": "6xx" }] }), "always[0].status: \"6xx\" is no status"),
        (json!({ "always": [{ "response_flags": "XX" }] }), "\"XX\" is no response flag; there are any, LH"),
        (json!({ "always": [{ "grpc_status": "error" }] }), "\"error\" must be any_error"),
        (json!({ "always": [{ "refused": "rbac" }] }), "\"rbac\" must be any, jwt_reject"),
        (
            json!({ "always": [{ "status": 500, "refused": [] }] }),
            "always[0].refused: must not be an empty list",
        ),
        (
            json!({ "always": [{ "response_flags": [] }] }),
            "always[0].response_flags: must not be an empty list",
        ),
        (json!({ "always": [{ "grpc_status": [] }] }), "always[0].grpc_status: must not be an empty list"),
        (json!({ "percent_sampled": "10%" }), "percent_sampled: \"10%\" is not a number of percent from 0"),
        (json!({ "percent_sampled": 101 }), "percent_sampled: 101 is not a number of percent from 0 to 100"),
        (json!({ "rules": [{ "status": 404 }] }), "rules[0]: `percent_sampled` is missing"),
        (json!({ "max_lines_per_second": 0 }), "max_lines_per_second: 0 is not a whole number from 1"),
        (
            json!({ "fields": { "x": "%NONE%" } }),
            "fields.x: %NONE% is not known; there are RESPONSE_CODE_DETAILS",
        ),
        (json!({ "fields": { "why": "%METHOD%" } }), "fields.why: \"why\" cannot be the name of a field"),
        (json!({ "additional_fields": { "time": "x" } }), "additional_fields: \"time\" is a field already"),
        (json!({ "redact": "hash" }), "redact: `hash` needs a `hash_key`"),
        (json!({ "redact": "hide" }), "redact: \"hide\" must be mask, drop or hash"),
        (json!({ "max_line_bytes": 10 }), "max_line_bytes: 10 is not a whole number from 512"),
        (json!({ "request_headers": ["a b"] }), "request_headers[0]: \"a b\" is not a header name"),
        (json!({ "sampling": 1 }), "unknown field `sampling`"),
    ];
    for (config, expected) in rows {
        let found = problems(&config);
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{config}\n{found:#?}\nlacks {expected}"
        );
    }
    let config = json!({ "hash_key": "k" });
    let warnings = SampledLog::configure(config.to_string().as_bytes()).unwrap().warnings;
    assert!(warnings[0].to_string().contains("has no effect"));
}

#[test]
fn with_a_collector_the_log_level_does_not_matter() {
    let host = HostMap { logs: false, ..ended(404, 0, 1) };
    let filter = filter(&json!({
        "percent_sampled": 100,
        "sink": { "http": { "cluster": "collector", "flush_interval": "0.1s" } },
    }));
    let log = || filter.on_log(&HeadMap::get("/"), &HeadMap::default(), &host, &Facts::default());
    let work = log();
    assert!(work.log.is_empty() && work.soon);
    assert_eq!(work.counters.iter().collect::<Vec<_>>(), [counters::SAMPLED]);
    // This host fetches nothing, so what was to be sent is lost, and that is told.
    host.wait(1_000_000_000);
    let work = filter.on_tick(&host);
    assert_eq!(work.counts, [(counters::LOST_REFUSED, 1)]);
    assert_eq!((work.log.len(), work.log[0].level, work.soon), (1, Level::Error, false));
}

#[test]
fn a_line_for_an_access_log_is_a_property() {
    let filter = filter(&json!({ "sink": "access_log", "request_headers": ["x"] }));
    let host = HostMap { logs: false, ..ended(503, 0, 1) };
    let request = HeadMap::get("/orders").with("x", b"\r\n\xff\x85\xc2\x85");
    let work = filter.on_log(&request, &HeadMap::default(), &host, &Facts::default());
    assert!(work.log.is_empty());
    let [property] = work.properties.try_into().unwrap();
    assert_eq!(property.name.as_ref(), "foregate.sampled_log.line");
    let line: Value = serde_json::from_slice(property.value.as_bytes()).unwrap();
    assert_eq!((&line["status"], &line["why"]), (&503.into(), &"always".into()));
    assert_eq!(line["request_headers"]["x"], "\r\n\\xff\\x85\u{85}");
    assert_eq!(
        problems(&json!({ "sink": "file" })),
        ["sink: \"file\" is no sink; there are envoy_log, access_log and {http: {...}}"]
    );
}

/// A head that knows how often it was looked at.
struct Watched<'h>(&'h HeadMap, std::cell::Cell<usize>);

impl Head for Watched<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.1.set(self.1.get() + 1);
        self.0.lines()
    }
}

#[test]
fn what_is_foreseen_of_a_sample_changes_nothing_but_spares_looking_at_the_headers() {
    let rules = json!([
        { "match": { "path": "/health" }, "percent_sampled": 0 },
        { "match": { "path": "/orders" }, "percent_sampled": 40 },
        { "match": { "path": "/all" }, "percent_sampled": 100 },
    ]);
    let rows = [
        (json!({ "percent_sampled": 10 }), true),
        (json!({ "percent_sampled": 10, "rules": [rules[0], rules[1]] }), true),
        // Any may be in the sample of somebody.
        (json!({ "percent_sampled": 10, "rules": rules }), false),
        (json!({ "percent_sampled": 100 }), false),
        (json!({ "percent_sampled": 0 }), false),
    ];
    for (mut config, foreseen) in rows {
        config["max_lines_per_second"] = json!("unlimited");
        let filter = filter(&config);
        let mut spared = 0;
        for number in 0..600 {
            let path = ["/health", "/orders", "/all", "/"][number % 4];
            let request = HeadMap::get(path).with("x-request-id", format!("id-{number}"));
            let facts = Facts(filter.foresee(&request).into_iter().collect());
            assert_eq!(!facts.0.is_empty(), foreseen, "{config}");
            let watched = Watched(&request, 0.into());
            let host = ended(200, 0, 12);
            let with = filter.on_log(&watched, &HeadMap::default(), &host, &facts);
            let without = filter.on_log(&request, &HeadMap::default(), &host, &Facts::default());
            assert_eq!(with.log, without.log, "{config} {number}");
            spared += usize::from(with.log.is_empty() && watched.1.get() == 0);
            // Failures are logged all the same.
            assert_eq!(filter.on_log(&request, &HeadMap::default(), &ended(500, 0, 12), &facts).log.len(), 1);
        }
        let nothing = config["percent_sampled"] == 0;
        assert!(if nothing { spared == 600 } else { (spared > 250) == foreseen }, "{config}: {spared}");
        // Without an id it is a trace that counts, which may yet begin, or chance.
        assert_eq!(filter.foresee(&HeadMap::get("/")), None);
        assert_eq!(filter.foresee(&HeadMap::get("/").with("x-request-id", "")), None);
    }
}
