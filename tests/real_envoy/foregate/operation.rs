//! What a request costs in calls of the host, and what a host costs that refuses one.

use std::collections::BTreeMap;

use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::{FOREGATE, chained, guard};
use crate::jwt;
use crate::suite::{Capabilities, Gateway, host_calls, traced};

/// What the module asks of the host.
const CAPABILITIES: Capabilities = Capabilities {
    plugin: FOREGATE.plugin,
    own: &[
        "proxy_on_request_body",
        "proxy_on_request_trailers",
        "proxy_on_response_headers",
        "proxy_on_http_call_response",
        "proxy_on_log",
        "proxy_get_property",
        "proxy_remove_header_map_value",
        "proxy_call_foreign_function",
        "proxy_http_call",
        "proxy_continue_stream",
    ],
};

fn rewrite(request: Value, response: Value) -> Value {
    json!({ "header_rewrite": { "request_mutations": request, "response_mutations": response } })
}

fn set(name: &str, value: &str) -> Value {
    json!({ "set": { "name": name, "value": value } })
}

/// The headers are read once, however many look at them, and what a later filter overwrites is never written.
#[tokio::test(flavor = "multi_thread")]
async fn what_all_of_them_want_is_done_at_once() -> anyhow::Result<()> {
    let token = jwt::token::make(&json!({}))?;
    let rows = [
        (
            "of several edits to a header, the last",
            json!([
                rewrite(
                    json!([set("x-a", "1"), set("x-b", "1"), set("x-e", "other")]),
                    json!([set("x-r", "1"), set("x-s", "1")])
                ),
                rewrite(
                    json!([set("x-a", "2"), { "remove": "x-b" }, set("x-e", "same")]),
                    json!([set("x-r", "2")])
                ),
                rewrite(json!([set("x-c", "%REQ(x-a)%")]), json!([set("x-r", "3"), { "remove": "x-s" }])),
            ]),
            // On the request x-a and x-c; x-e is what it was, and x-b is not there. On the response x-r and x-s, by the first;
            // whether there is an x-s to remove, the last has to look.
            vec![("get_header_map_pairs", 2), ("replace_header_map_value", 4)],
        ),
        (
            "who looks at nothing reads nothing",
            json!([
                rewrite(json!([set("x-a", "1")]), json!([])),
                rewrite(json!([set("x-a", "2")]), json!([]))
            ]),
            vec![("replace_header_map_value", 1)],
        ),
        (
            "one read for all, and each counts for itself",
            json!([
                { "local_rate_limit": { "rate": "1000000/s", "lease": 1000 } },
                { "name": "more", "local_rate_limit": { "descriptors": [{ "name": "key", "entries": [{ "header": "x-e" }], "rate": "1000000/s", "lease": 1000 }] } },
                { "jwt_reject": guard() },
                rewrite(json!([set("x-a", "%REQ(x-e)%")]), json!([])),
            ]),
            vec![
                ("get_header_map_pairs", 1),
                ("get_current_time_nanoseconds", 1),
                // Both limits, and jwt_reject: that it passed, and that its token was remembered.
                ("increment_metric", 4),
                // The token is taken out.
                ("remove_header_map_value", 1),
                ("replace_header_map_value", 1),
            ],
        ),
        (
            "headers that were read are not read again to learn that there is no line",
            json!([
                rewrite(json!([set("x-a", "%REQ(x-e)%")]), json!([])),
                { "sampled_log": { "always": [{ "status": "5xx" }], "percent_sampled": 0.0001 } },
            ]),
            vec![("get_header_map_pairs", 1), ("replace_header_map_value", 1), ("get_property", 1)],
        ),
        (
            "and where there never is one, not even once",
            json!([
                rewrite(json!([set("x-a", "1")]), json!([])),
                { "sampled_log": { "always": [], "percent_sampled": 0 } },
            ]),
            vec![("replace_header_map_value", 1)],
        ),
        (
            "the second is not asked when the first refuses",
            json!([
                { "jwt_reject": { "providers": { "main": { "local_jwks": { "test_keys": ["rsa"] } } }, "rules": [{ "match": {}, "requires": { "provider_name": "main" } }] } },
                { "local_rate_limit": { "rate": "1000000/s" } },
                rewrite(json!([set("x-a", "1")]), json!([set("x-r", "1")])),
            ]),
            vec![("get_header_map_pairs", 1), ("increment_metric", 1), ("send_local_response", 1)],
        ),
    ];
    for (what, list, expected) in rows {
        let gateway = Gateway::start_with(&FOREGATE, &traced(), |config| chained(config, &list)).await?;
        let request =
            Request::get("/orders").header("x-e", "same").header("authorization", format!("Bearer {token}"));
        let found = host_calls(&gateway, &request).await?;
        let expected: BTreeMap<String, usize> =
            expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        assert_eq!(found, expected, "{what}");
        gateway.envoy.stop().await?;
    }
    Ok(())
}

/// A chain with a filter that guards lets nothing pass where the host fails it; one without stands in nobody's way.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_a_call_opens_no_chain_that_guards() -> anyhow::Result<()> {
    let limit = json!({ "local_rate_limit": { "descriptors": [{ "name": "key", "entries": [{ "header": "x-e" }], "rate": "1/d" }] } });
    let log = json!({ "sampled_log": { "percent_sampled": 100 } });
    let guarded = json!([limit, { "jwt_reject": guard() }, log]);
    let rows = [
        (&guarded, "", 200),
        (&guarded, "proxy_get_header_map_pairs", 503),
        (&guarded, "proxy_get_shared_data", 200),
        (&guarded, "proxy_remove_header_map_value", 503),
        (&json!([limit, log]), "proxy_get_header_map_pairs", 200),
    ];
    let token = jwt::token::make(&json!({}))?;
    for (list, refused, status) in rows {
        let gateway =
            Gateway::start(&FOREGATE, |config| CAPABILITIES.all_but(chained(config, list)?, refused)).await?;
        let request =
            Request::get("/").header("x-case", "1").header("authorization", format!("Bearer {token}"));
        let answer = client::send(gateway.addr()?, &request).await?;
        assert_eq!(answer.status, status, "without {refused:?}: {list}");
        let details = gateway.details(1).await?;
        if status == 503 {
            assert_eq!(details, "foregate{host_failure}", "without {refused:?}");
            assert_eq!(gateway.echo.requests(), 0, "without {refused:?}");
        } else {
            assert_eq!(details, "via_upstream", "without {refused:?}");
        }
        gateway.envoy.stop().await?;
    }
    Ok(())
}
