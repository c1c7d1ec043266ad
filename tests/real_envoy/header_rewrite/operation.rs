//! What an operator sees and does: metrics, updates under load, a host that refuses calls; and what a request costs
//! in calls of the host.

use std::collections::BTreeMap;

use real_envoy::Update;
use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::HEADER_REWRITE;
use crate::suite::{Capabilities, Gateway, Load, Next, SOON, host_calls, traced};

/// What the module asks of the host.
const CAPABILITIES: Capabilities = Capabilities {
    plugin: HEADER_REWRITE.plugin,
    own: &["proxy_on_response_headers", "proxy_get_property", "proxy_remove_header_map_value"],
};

fn stripping() -> Value {
    json!({
        "request_mutations": [{ "remove": { "prefix": "x-internal-" } }, { "set": { "name": "x-a", "value": "1" } }],
        "response_mutations": [{ "status": 200, "set": { "name": "x-b", "value": "2" } }],
    })
}

/// A request that cannot be stripped is not let through.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_a_call_lets_nothing_through_unedited() -> anyhow::Result<()> {
    let rows = [
        ("", 200, true),
        ("proxy_get_header_map_pairs", 503, false),
        ("proxy_remove_header_map_value", 503, false),
        ("proxy_replace_header_map_value", 503, false),
        ("proxy_get_log_level", 200, true),
        ("proxy_define_metric", 200, true),
        ("proxy_on_response_headers", 200, false),
    ];
    for (refused, status, edits_response) in rows {
        let gateway = Gateway::start(&HEADER_REWRITE, |config| {
            CAPABILITIES.all_but(config.plugin_configuration(HEADER_REWRITE.plugin, &stripping())?, refused)
        })
        .await?;
        let request = Request::get("/").header("x-internal-user", "root").header("x-case", "1");
        let answer = client::send(gateway.addr()?, &request).await?;
        assert_eq!(answer.status, status, "without {refused}");
        assert_eq!(!answer.header("x-b").is_empty(), edits_response, "without {refused}");
        if status == 503 {
            assert_eq!(gateway.details(1).await?, "header_rewrite{host_failure}", "without {refused}");
            assert_eq!(gateway.echo.requests(), 0, "without {refused}");
        } else {
            assert!(!answer.text().contains("x-internal"), "without {refused}");
        }
        gateway.envoy.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_gets_the_reason_as_a_label() -> anyhow::Result<()> {
    let plugin = json!({ "request_mutations": [{ "path": { "set": "/p/%REQ(x-v)%" } }] });
    let gateway =
        Gateway::start(&HEADER_REWRITE, |config| config.plugin_configuration(HEADER_REWRITE.plugin, &plugin))
            .await?;
    for value in ["..", "."] {
        let answer = client::send(gateway.addr()?, &Request::get("/").header("x-v", value)).await?;
        assert_eq!(answer.status, 200);
    }
    let page = gateway.envoy.admin_get("/stats/prometheus").await?;
    for line in [
        "foregate_header_rewrite_skipped{foregate_reason=\"invalid_value\"} 2",
        "foregate_header_rewrite_skipped{foregate_reason=\"too_long\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in:\n{page}");
    }
    gateway.envoy.stop().await
}

/// Good updates take effect, bad ones do not, and no request fails for either.
#[tokio::test(flavor = "multi_thread")]
async fn updates_under_load() -> anyhow::Result<()> {
    let with = |value: &str| {
        json!({
            "request_mutations": [{ "set": { "name": "x-version", "value": value } }],
            "response_mutations": [{ "set": { "name": "x-version", "value": format!("{value}%REQ(none)%"), "keep_empty_value": true } }],
        })
    };
    let mut first = None;
    let mut gateway = Gateway::start(&HEADER_REWRITE, |config| {
        let config = config.plugin_configuration(HEADER_REWRITE.plugin, &with("0"))?.with_file_lds()?;
        first = Some(config.clone());
        Ok(config)
    })
    .await?;
    let first = first.expect("it was started");
    let next = || Box::new(|| (Request::get("/orders"), vec![200_u16])) as Next;
    let load = Load::start(gateway.addr()?, (0..4).map(|_| next()).collect());
    for version in 1..=3_u32 {
        let bad = json!({ "request_mutations": [{ "set": { "name": ":path", "value": "/" } }] });
        let bad = first.clone().plugin_configuration(HEADER_REWRITE.plugin, &bad)?;
        assert!(matches!(gateway.envoy.update_listeners(&bad).await?, Update::Rejected(_)));
        let good = first.clone().plugin_configuration(HEADER_REWRITE.plugin, &with(&version.to_string()))?;
        assert_eq!(gateway.envoy.update_listeners(&good).await?, Update::Accepted);
        let begun = std::time::Instant::now();
        loop {
            let answer = client::send(gateway.addr()?, &Request::get("/")).await?;
            // A response is edited by the configuration that its request was.
            let sent = answer.json()?["headers"].to_string();
            let told = answer.header("x-version").concat();
            assert!(sent.contains(&format!("[\"x-version\",\"{told}\"]")), "{told}: {sent}");
            if told == version.to_string() {
                break;
            }
            assert!(begun.elapsed() < SOON, "the update never takes effect");
        }
        load.wait_for_requests(200).await?;
    }
    let (sent, failed) = load.stop().await?;
    assert!(failed.is_empty(), "of {sent} requests: {failed:#?}");
    assert!(gateway.envoy.log().contains("\":path\" is changed by the operations `path` and `query`"));
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// The calls of the host, by name, that a request and its response take.
async fn calls(plugin: &Value, request: &Request) -> anyhow::Result<BTreeMap<String, usize>> {
    let gateway = Gateway::start_with(&HEADER_REWRITE, &traced(), |config| {
        config.plugin_configuration(HEADER_REWRITE.plugin, plugin)
    })
    .await?;
    let calls = host_calls(&gateway, request).await?;
    gateway.envoy.stop().await?;
    Ok(calls)
}

/// Only what changes is written, and the headers are read once, if at all.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_calls_nobody() -> anyhow::Result<()> {
    let all = json!({
        "request_mutations": [
            { "remove": ["x-a", { "prefix": "x-internal-" }] },
            { "rename": { "from": "x-b", "to": "x-c" } },
            { "overwrite_if_exists": { "name": "x-d", "value": "1" } },
            { "set": { "name": "x-e", "value": "same" } },
            { "replace": { "name": "x-e", "regex": "s", "with": "s" } },
            { "dedupe": { "name": "x-e", "keep": "first" } },
            { "append": { "name": "x-f", "value": "%REQ(none)%" } },
            { "path": { "prefix": "/v1/", "with": "/" } },
            { "query": { "remove": "debug" } },
            { "cookie": { "remove": "session" } },
        ],
        "response_mutations": [
            { "remove": "x-powered-by" },
            { "cookie": { "attributes": { "secure": true } } },
            { "status": "5xx", "set": { "name": "x-g", "value": "1" } },
        ],
    });
    let set = |name: &str| json!([{ "set": { "name": name, "value": "1" } }, { "set": { "name": name, "value": "2" } }]);
    let rows = [
        (all, vec![("get_header_map_pairs", 2)]),
        (json!({ "request_mutations": set("x-a") }), vec![("replace_header_map_value", 1)]),
        (
            json!({ "request_mutations": set("x-a"), "response_mutations": set("x-a") }),
            vec![("replace_header_map_value", 2)],
        ),
        (
            json!({ "request_mutations": [{ "set": { "name": "x-a", "value": "%REQ(x-e)%" } }] }),
            vec![("get_header_map_pairs", 1), ("replace_header_map_value", 1)],
        ),
        (
            json!({ "response_mutations": [{ "match": { "prefix": "/else" }, "remove": "x-a" }] }),
            vec![("get_header_map_pairs", 1)],
        ),
    ];
    for (plugin, expected) in rows {
        let found = calls(&plugin, &Request::get("/orders").header("x-e", "same")).await?;
        let expected: BTreeMap<String, usize> =
            expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        assert_eq!(found, expected, "{plugin}");
    }
    Ok(())
}
