//! The order of the list: who sees what, who refuses first, and what of those before it stands. It is that of Envoy's own
//! chain, so the same list in modules of its own does the same.

use real_envoy::client::{self, Http, Request};
use serde_json::{Value, json};

use super::{WAYS, arrived, guard, start, start_both};
use crate::jwt;
use crate::sampled_log::line_of;

/// A request over each protocol, with a number that tells it from all others.
fn numbered() -> impl FnMut(&Request, Http) -> (u64, Request) {
    let mut number = 0;
    move |request, http| {
        number += 1;
        (number, request.clone().over(http).header("x-case", number.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_are_seen_by_those_behind_and_stand_though_they_refuse() -> anyhow::Result<()> {
    let mut guard = guard();
    // Modules of their own tell each other by properties alone.
    guard["providers"]["main"]["claim_to_properties"] = json!(["sub"]);
    let list = json!([
        { "header_rewrite": {
            "request_mutations": [
                { "set": { "name": "x-both", "value": "first" } },
                { "set": { "name": "x-first", "value": "%PATH(NQ)%" } },
                { "path": { "prefix": "/v1/", "with": "/" } },
            ],
            "response_mutations": [
                { "append": { "name": "x-answer", "value": "first" } },
                { "set": { "name": "x-both", "value": "first" } },
                { "set": { "name": "x-code", "value": "%RESPONSE_CODE% %REQ(x-case)%" } },
                { "set": { "name": "x-heard", "value": "%RESP(x-second)%" } },
            ],
        } },
        { "jwt_reject": guard },
        { "local_rate_limit": {
            "descriptors": [{ "name": "few", "match": { "path": "/few" }, "entries": [{ "header": "x-run" }], "rate": "1/h" }],
            "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        } },
        { "header_rewrite": {
            "request_mutations": [
                { "set": { "name": "x-second", "value": "%REQ(x-both)% %REQ(x-first)% %REQ(:path)%" } },
                { "set": { "name": "x-both", "value": "second" } },
            ],
            "response_mutations": [
                { "append": { "name": "x-answer", "value": "second" } },
                { "set": { "name": "x-both", "value": "second" } },
                { "set": { "name": "x-second", "value": "%RESPONSE_CODE%" } },
            ],
        } },
        { "sampled_log": {
            "percent_sampled": 100,
            "additional_fields": { "case": "%REQ(x-case)%", "first": "%REQ(x-first)%", "second": "%REQ(x-second)%", "both": "%REQ(x-both)%" },
        } },
    ]);
    let gateway = start_both(&list).await?;
    let good =
        Request::get("/v1/few").header("authorization", format!("Bearer {}", jwt::token::make(&json!({}))?));
    let mut numbered = numbered();
    for way in WAYS {
        let addr = gateway.envoy.listener_named(way)?;
        for http in [Http::H1, Http::H2] {
            let run = format!("{way}-{http:?}");

            let (number, request) = numbered(&good.clone().header("x-run", &run), http);
            let answer = client::send(addr, &request).await?;
            assert_eq!(answer.status, 200, "{run}: {}", answer.text());
            let seen = answer.json()?;
            assert_eq!(seen["path"], "/few", "{run}");
            assert_eq!(arrived(&seen, "x-first"), ["/v1/few"], "{run}");
            assert_eq!(arrived(&seen, "x-both"), ["second"], "{run}");
            assert_eq!(arrived(&seen, "x-second"), ["first /v1/few /few"], "{run}");
            // Of a response the last of the list has the first turn.
            assert_eq!(answer.header("x-answer"), ["second", "first"], "{run}");
            assert_eq!(answer.header("x-both"), ["first"], "{run}");
            assert_eq!(answer.header("x-code"), [format!("200 {number}")], "{run}");
            assert_eq!(answer.header("x-heard"), ["200"], "{run}");
            assert_eq!(answer.header("x-ratelimit-remaining"), ["0"], "{run}");
            assert_eq!(gateway.details(number).await?, "via_upstream", "{run}");
            let line = line_of(&gateway.envoy, "case", &json!(number.to_string())).await?;
            let told = ["subject", "refused_by", "path", "first", "second", "both"].map(|name| &line[name]);
            let expected = [
                json!("alice"),
                Value::Null,
                json!("/v1/few"),
                json!("/v1/few"),
                json!("first /v1/few /few"),
                json!("second"),
            ];
            assert_eq!(told, expected.each_ref(), "{run}: {line}");

            // Refused by the third and by the second: what those before it edited stands, and those behind it were not asked.
            let reached = gateway.echo.requests();
            let without_token = Request::get("/v1/few").header("x-run", &run);
            for (request, status, details, limits, subject, [by, reason]) in [
                (
                    good.clone().header("x-run", &run),
                    429,
                    "local_rate_limited{few}",
                    vec!["1"],
                    json!("alice"),
                    ["local_rate_limit", "few"],
                ),
                (
                    without_token,
                    401,
                    "jwt_reject{token_missing}",
                    vec![],
                    Value::Null,
                    ["jwt_reject", "token_missing"],
                ),
            ] {
                let (number, request) = numbered(&request, http);
                let answer = client::send(addr, &request).await?;
                assert_eq!(answer.status, status, "{run}: {}", answer.text());
                assert_eq!(answer.header("x-answer"), ["first"], "{run}");
                assert_eq!(answer.header("x-both"), ["first"], "{run}");
                assert_eq!(answer.header("x-code"), [format!("{status} {number}")], "{run}");
                assert_eq!(answer.header("x-heard"), [""; 0], "{run}");
                assert_eq!(answer.header("x-ratelimit-limit"), limits, "{run}");
                assert_eq!(gateway.details(number).await?, details, "{run}");
                let line = line_of(&gateway.envoy, "case", &json!(number.to_string())).await?;
                let told = ["subject", "refused_by", "reason", "details", "path", "first", "second", "both"]
                    .map(|name| &line[name]);
                let expected = [
                    subject,
                    json!(by),
                    json!(reason),
                    json!(details),
                    json!("/v1/few"),
                    json!("/v1/few"),
                    Value::Null,
                    json!("first"),
                ];
                assert_eq!(told, expected.each_ref(), "{run}: {line}");
            }
            assert_eq!(gateway.echo.requests(), reached, "{run}");
        }
    }
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// A client may be limited before anybody looks at its tokens, and a user only once it is known who that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_counts_what_comes_to_its_place() -> anyhow::Result<()> {
    let limit = |name: &str, entry: Value, rate: &str| json!({ "descriptors": [{ "name": name, "entries": [entry], "rate": rate }] });
    let list = json!([
        { "name": "too-early", "local_rate_limit": limit("user", json!({ "jwt_claim": "sub" }), "1/h") },
        { "name": "ahead", "local_rate_limit": limit("client", json!({ "header": "x-client" }), "3/h") },
        { "jwt_reject": guard() },
        { "name": "behind", "local_rate_limit": limit("user", json!({ "jwt_claim": "sub" }), "2/h") },
    ]);
    let gateway = start(&list).await?;
    let mut numbered = numbered();
    let (alice, bob) =
        (jwt::token::make(&json!({}))?, jwt::token::make(&json!({ "claims": { "sub": "bob" } }))?);
    let rows = [
        // What is refused for want of a token has cost the client one of its own.
        ("a", None, 401, "jwt_reject{token_missing}"),
        ("a", None, 401, "jwt_reject{token_missing}"),
        ("a", None, 401, "jwt_reject{token_missing}"),
        ("a", Some(&alice), 429, "local_rate_limited{client}"),
        // And what the first limit refuses has cost the user nothing.
        ("b", Some(&alice), 200, "via_upstream"),
        ("b", Some(&alice), 200, "via_upstream"),
        ("b", Some(&alice), 429, "local_rate_limited{user}"),
        ("b", Some(&bob), 429, "local_rate_limited{client}"),
        ("c", Some(&bob), 200, "via_upstream"),
        ("c", Some(&alice), 429, "local_rate_limited{user}"),
    ];
    for (place, (client, token, status, details)) in rows.iter().enumerate() {
        let http = if place % 2 == 0 { Http::H1 } else { Http::H2 };
        let mut request = Request::get("/orders").header("x-client", client);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let (number, request) = numbered(&request, http);
        let answer = client::send(gateway.addr()?, &request).await?;
        assert_eq!((answer.status, gateway.details(number).await?.as_str()), (*status, *details), "{place}");
    }
    let counters = gateway.counters().await?;
    for (name, expected) in [
        ("local_rate_limit.too-early.allowed.reason.no_limit", 10),
        ("local_rate_limit.too-early.refused.limit.user", 0),
        ("local_rate_limit.ahead.allowed.reason.within_limits", 8),
        ("local_rate_limit.ahead.refused.limit.client", 2),
        ("jwt_reject.refused.reason.token_missing", 3),
        ("jwt_reject.allowed.reason.verified", 5),
        ("local_rate_limit.behind.allowed.reason.within_limits", 3),
        ("local_rate_limit.behind.refused.limit.user", 2),
    ] {
        assert_eq!(counters.get(name), Some(&expected), "{name} of {counters:?}");
    }
    gateway.check_health([alice.as_str(), bob.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

/// Whether a caller speaks gRPC is what it said itself: Envoy answers by that, whatever a filter has made of it since.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_speaks_to_the_caller_as_it_came() -> anyhow::Result<()> {
    const GRPC: &str = "application/grpc";
    let list = json!([
        { "header_rewrite": { "request_mutations": [
            { "match": { "path": "/grpc" }, "set": { "name": "content-type", "value": GRPC } },
            { "match": { "path": "/json" }, "set": { "name": "content-type", "value": "application/json" } },
            { "match": { "path": "/none" }, "remove": "content-type" },
        ] } },
        { "local_rate_limit": { "descriptors": [{ "name": "none", "entries": [{ "query": "limited" }], "token_bucket": { "max_tokens": 0, "fill_interval": "1s" } }] } },
        { "jwt_reject": guard() },
    ]);
    let gateway = start_both(&list).await?;
    for (way, http) in WAYS.into_iter().flat_map(|way| [(way, Http::H1), (way, Http::H2)]) {
        for path in ["/same", "/grpc", "/json", "/none"] {
            // A module of its own sees what is left of the content-type, and leaves to Envoy what it takes for HTTP; and
            // Envoy has another status of gRPC for 429.
            let unseen = way == "modules" && ["/json", "/none"].contains(&path);
            for (content_type, query, status, grpc_status, body) in [
                (GRPC, "", 200, "16", ""),
                ("application/json", "", 401, "", "Jwt is missing"),
                (GRPC, "?limited=1", 200, if unseen { "14" } else { "8" }, ""),
                ("application/json", "?limited=1", 429, "", "local_rate_limited"),
            ] {
                let request = Request::post(&format!("{path}{query}"), "x").over(http);
                let request = request.header("content-type", content_type);
                let answer = client::send(gateway.envoy.listener_named(way)?, &request).await?;
                let found = (answer.status, answer.header("grpc-status").concat(), answer.text());
                let expected = (status, grpc_status.to_owned(), body.to_owned());
                assert_eq!(found, expected, "{way}, {http:?}: {content_type} {path}{query}");
            }
        }
    }
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}
