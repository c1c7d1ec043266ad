//! What a line tells, beside what Envoy's own access log tells of the same request.

use std::net::SocketAddr;

use anyhow::Context as _;
use real_envoy::client::{self, Http, Request};
use serde_json::{Value, json};

use super::{end, in_setup, insert, line_of, set_routes, start_with};
use crate::local_rate_limit::LOCAL_RATE_LIMIT;
use crate::suite::{Gateway, SOON, Setup, hcm_mut};
use crate::{jwt, jwt_reject};

/// Every field of a line that has neither dropped nor cut anything, with what its value may be.
const FIELDS: &[(&str, &[Kind])] = &[
    ("time", &[Kind::Text]),
    ("method", &[Kind::Text]),
    ("host", &[Kind::Text]),
    ("path", &[Kind::Text]),
    ("protocol", &[Kind::Text]),
    ("status", &[Kind::Number]),
    ("flags", &[Kind::Text, Kind::Null]),
    ("details", &[Kind::Text, Kind::Null]),
    ("duration_ms", &[Kind::Number]),
    ("upstream", &[Kind::Text, Kind::Null]),
    ("cluster", &[Kind::Text, Kind::Null]),
    ("route", &[Kind::Text, Kind::Null]),
    ("bytes_received", &[Kind::Number]),
    ("bytes_sent", &[Kind::Number]),
    ("request_id", &[Kind::Text]),
    ("trace_id", &[Kind::Text, Kind::Null]),
    ("client", &[Kind::Text]),
    ("grpc_status", &[Kind::Number, Kind::Null]),
    ("subject", &[Kind::Text, Kind::Null]),
    ("refused_by", &[Kind::Text, Kind::Null]),
    ("reason", &[Kind::Text, Kind::Null]),
    ("sample_rate", &[Kind::Number]),
    ("why", &[Kind::Text]),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Number,
    Null,
}

impl Kind {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(_) => Some(Self::Text),
            Value::Number(_) => Some(Self::Number),
            Value::Null => Some(Self::Null),
            _ => None,
        }
    }
}

/// What Envoy itself says of a request, under the names of ours.
fn envoys_own() -> Value {
    json!({
        "name": "envoy.access_loggers.stdout",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
            "log_format": { "json_format": {
                "number": "%REQ(X-NUMBER)%",
                "time": "%START_TIME(%Y-%m-%dT%H:%M:%S.%6fZ)%",
                "method": "%REQ(:METHOD)%",
                "host": "%REQ(:AUTHORITY)%",
                "path": "%PATH(NQ)%",
                "protocol": "%PROTOCOL%",
                "status": "%RESPONSE_CODE%",
                "flags": "%RESPONSE_FLAGS%",
                "details": "%RESPONSE_CODE_DETAILS%",
                "duration_ms": "%DURATION%",
                "upstream": "%UPSTREAM_HOST%",
                "cluster": "%UPSTREAM_CLUSTER%",
                "route": "%ROUTE_NAME%",
                "bytes_received": "%BYTES_RECEIVED%",
                "bytes_sent": "%BYTES_SENT%",
                "request_id": "%REQ(X-REQUEST-ID)%",
                "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
            } },
        },
    })
}

/// A gateway in which much can go wrong, and which logs all; `further` are clusters beside the upstream.
pub(super) async fn start(setup: Option<Setup>, further: &[(&str, SocketAddr)]) -> anyhow::Result<Gateway> {
    let plugin = json!({ "percent_sampled": 100, "additional_fields": { "number": "%REQ(x-number)%" } });
    let guard = json!({
        "providers": { "main": { "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] }, "claim_to_properties": ["sub"] } },
        "rules": [
            { "match": { "prefix": "/guarded" }, "requires": { "provider_name": "main" } },
            { "match": { "prefix": "/" }, "requires": "none" },
        ],
    });
    let limit = json!({
        "rate": "1000000/s",
        "descriptors": [{ "name": "few", "match": { "prefix": "/few" }, "entries": ["client_address"], "rate": "1/h" }],
    });
    start_with(&plugin, &Gateway::options(), |config| {
        let config = jwt_reject::insert(config, &guard, 1)?;
        let config = insert(config, &LOCAL_RATE_LIMIT, &limit, 2)?.edit(|bootstrap| {
            let clusters = &mut bootstrap["static_resources"]["clusters"];
            for (name, address) in further {
                let mut cluster = clusters[0].clone();
                let endpoint = json!({ "address": { "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } } });
                cluster["name"] = json!(name);
                cluster["load_assignment"] =
                    json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [{ "endpoint": endpoint }] }] });
                clusters.as_array_mut().context("clusters")?.push(cluster);
            }
            let mut routes = vec![
                json!({ "name": "direct", "match": { "prefix": "/direct" }, "direct_response": { "status": 418, "body": { "inline_string": "tea" } } }),
                json!({ "name": "late", "match": { "prefix": "/late" }, "route": { "cluster": "upstream", "timeout": "0.1s" } }),
            ];
            routes.extend(further.iter().map(|(name, _)| {
                json!({ "name": name, "match": { "prefix": format!("/{name}") }, "route": { "cluster": name } })
            }));
            routes.extend(["/up", "/guarded", "/few"].map(|prefix| {
                json!({ "name": "up", "match": { "prefix": prefix }, "route": { "cluster": "upstream", "timeout": "0s" } })
            }));
            set_routes(bootstrap, routes.into())?;
            let hcm = hcm_mut(bootstrap)?;
            hcm.insert("upgrade_configs".to_owned(), json!([{ "upgrade_type": "websocket" }]));
            hcm["access_log"].as_array_mut().context("access_log")?.push(envoys_own());
            Ok(())
        })?;
        in_setup(setup, config)
    })
    .await
}

/// The line of the request with this number: every field is there, is what it may be, is what Envoy's own log says,
/// and is as expected.
pub(super) async fn check(gateway: &Gateway, number: &str, expected: Value) -> anyhow::Result<Value> {
    let line = line_of(&gateway.envoy, "number", &json!(number)).await?;
    let members = line.as_object().context("no object")?;
    for (name, kinds) in FIELDS {
        let kind = members.get(*name).and_then(Kind::of);
        assert!(kind.is_some_and(|kind| kinds.contains(&kind)), "{number}: {name} in {line}");
    }
    assert_eq!(members.len(), FIELDS.len() + 1, "{number}: {line}");
    let own = gateway.envoy.wait_for_stdout(&format!("\"number\":\"{number}\""), SOON).await?;
    let own: Value = serde_json::from_str(&own).with_context(|| own.clone())?;
    for (name, value) in own.as_object().context("no object")? {
        match name.as_str() {
            // Where the two are to differ, the row says so.
            name if expected.get(name).is_some_and(|told| told != value && name != "flags") => {}
            // Envoy's own log cuts it to whole milliseconds.
            "duration_ms" => {
                let (ours, envoys) = (line[name].as_f64(), value.as_f64());
                let apart = ours.zip(envoys).map(|(ours, envoys)| (ours - envoys).abs());
                assert!(apart.is_some_and(|apart| apart <= 1.5), "{number}: {ours:?} ms, {envoys:?} ms");
            }
            // Which it writes where there are none.
            "flags" if value == "-" => assert_eq!(line[name], Value::Null, "{number}"),
            _ => assert_eq!(line[name], *value, "{number}: {name}\nours:    {line}\nEnvoy's: {own}"),
        }
    }
    for (name, value) in expected.as_object().context("expected")? {
        assert_eq!(line[name], *value, "{number}: {name} in {line}");
    }
    Ok(line)
}

/// What a request that got its answer from an upstream is told of.
fn passed() -> Value {
    json!({
        "status": 200, "flags": null, "details": "via_upstream", "cluster": "upstream", "route": "up",
        "refused_by": null, "reason": null, "grpc_status": null, "sample_rate": 1, "why": "sampled",
    })
}

fn with(base: Value, further: Value) -> Value {
    let (Value::Object(mut base), Value::Object(further)) = (base, further) else { panic!("no objects") };
    base.extend(further);
    base.into()
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

in_lists! {
    every_field_of_every_answer_is_what_envoy_says: in_a_list OnlyInList, among_others AmongOthers;
}

async fn every_field_of_every_answer_is_what_envoy_says(setup: Option<Setup>) -> anyhow::Result<()> {
    let gateway = start(setup, &[]).await?;
    let upstream = gateway.echo.addr().to_string();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let large = vec![b'x'; 5_000_000];
    let get = Request::get;
    let rows = [
        (
            "plain",
            get("/up/a?token=secret").authority("shop.example"),
            with(
                passed(),
                json!({
                    "method": "GET", "host": "shop.example", "path": "/up/a", "upstream": upstream,
                    "bytes_received": 0, "trace_id": null, "client": "127.0.0.1",
                }),
            ),
        ),
        (
            "post",
            Request::post("/up", "twelve bytes"),
            with(passed(), json!({ "method": "POST", "bytes_received": 12 })),
        ),
        (
            "traced",
            get("/up").header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")),
            with(passed(), json!({ "trace_id": trace })),
        ),
        (
            "not-traced",
            get("/up").header("traceparent", "00-zz-00f067aa0ba902b7-01"),
            with(passed(), json!({ "trace_id": null })),
        ),
        ("large", get("/up?size=5000000"), with(passed(), json!({ "bytes_sent": 5_000_000 }))),
        ("large-post", Request::post("/up", large), with(passed(), json!({ "bytes_received": 5_000_000 }))),
        ("head", Request::new("HEAD", "/up"), with(passed(), json!({ "method": "HEAD", "bytes_sent": 0 }))),
        ("not-found", get("/up?status=404"), with(passed(), json!({ "status": 404 }))),
        ("error", get("/up?status=503"), with(passed(), json!({ "status": 503, "why": "always" }))),
        ("slow", get("/up?delay=1050"), with(passed(), json!({ "why": "always" }))),
        (
            "no-route",
            get("/none"),
            json!({
                "status": 404, "flags": "NR", "details": "route_not_found", "upstream": null, "cluster": null, "route": null,
                "refused_by": null, "why": "always",
            }),
        ),
        (
            "direct",
            get("/direct"),
            json!({
                "status": 418, "flags": null, "details": "direct_response", "upstream": null, "cluster": null, "route": "direct",
                "bytes_sent": 3, "refused_by": null, "why": "sampled",
            }),
        ),
        (
            "timeout",
            get("/late?delay=2000"),
            json!({
                "status": 504, "flags": "UT", "details": "response_timeout", "upstream": upstream, "route": "late",
                "refused_by": null, "reason": null, "why": "always",
            }),
        ),
        (
            "broken",
            get("/up?close=before"),
            json!({ "status": 503, "flags": "UC", "refused_by": null, "reason": null }),
        ),
        (
            "no-token",
            get("/guarded"),
            json!({
                "status": 401, "details": "jwt_reject{token_missing}", "refused_by": "jwt_reject", "reason": "token_missing",
                "upstream": null, "why": "sampled",
            }),
        ),
        (
            "good-token",
            get("/guarded").header("authorization", format!("Bearer {}", jwt::token::make(&json!({}))?)),
            with(passed(), json!({ "subject": "alice" })),
        ),
        (
            "bad-token",
            get("/guarded").header("authorization", "Bearer x"),
            json!({ "status": 401, "refused_by": "jwt_reject" }),
        ),
        ("first", get("/few"), passed()),
        (
            "second",
            get("/few"),
            json!({
                "status": 429, "details": "local_rate_limited{few}", "refused_by": "local_rate_limit", "reason": "few", "upstream": null,
            }),
        ),
        (
            "grpc",
            Request::post("/up", "")
                .header(GRPC.0, GRPC.1)
                .header("x-echo-header", "content-type: application/grpc")
                .header("x-echo-header", "grpc-status: 5"),
            with(passed(), json!({ "grpc_status": 5 })),
        ),
        (
            "grpc-ok",
            Request::post("/up", "")
                .header(GRPC.0, GRPC.1)
                .header("x-echo-header", "content-type: application/grpc")
                .header("x-echo-header", "grpc-status: 0"),
            with(passed(), json!({ "grpc_status": 0 })),
        ),
        // Envoy's own answer to gRPC is a 200 with a status of gRPC.
        (
            "grpc-no-route",
            Request::post("/none", "").header(GRPC.0, GRPC.1),
            json!({ "status": 200, "flags": "NR", "grpc_status": 12 }),
        ),
        // Who does not speak gRPC has no such status, whatever the headers say.
        (
            "no-grpc",
            get("/up").header("x-echo-header", "grpc-status: 5"),
            with(passed(), json!({ "grpc_status": null })),
        ),
    ];
    for (protocol, http) in [("HTTP/1.1", Http::H1), ("HTTP/2", Http::H2)] {
        for (name, request, expected) in &rows {
            // One token for an hour.
            let expected = match (*name, http) {
                ("first", Http::H2) => &json!({ "status": 429, "refused_by": "local_rate_limit" }),
                _ => expected,
            };
            let number = format!("{name}-{protocol}");
            let request = request.clone().over(http).header("x-number", &number);
            let answer = client::send(gateway.addr()?, &request).await.with_context(|| number.clone())?;
            assert_eq!(json!(answer.status), expected["status"], "{number}");
            let line = check(&gateway, &number, expected.clone()).await?;
            assert_eq!(line["protocol"], protocol);
            if *name == "slow" {
                let duration = line["duration_ms"].as_f64().unwrap();
                assert!((1050.0..2000.0).contains(&duration), "{duration}");
            }
        }
    }
    end(gateway).await
}

/// In the order of the documentation, `time` first, so that lines can be read and sorted as text.
#[tokio::test(flavor = "multi_thread")]
async fn time_is_first() -> anyhow::Result<()> {
    let gateway = start(None, &[]).await?;
    client::send(gateway.addr()?, &Request::get("/up").header("x-number", "1")).await?;
    line_of(&gateway.envoy, "number", &json!("1")).await?;
    let log = gateway.envoy.log();
    let text = log
        .lines()
        .find_map(|line| line.split_once(": {\"time\":\""))
        .context("no line begins with the time")?
        .1;
    let form: String = text.chars().take(28).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000000Z\"");
    end(gateway).await
}
