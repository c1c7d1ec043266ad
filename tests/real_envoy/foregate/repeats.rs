//! A filter that is in the list more than once: each has its own state, and counters by its name if it has one.

use real_envoy::client::{self, Http, Request};
use real_envoy::{Options, Update};
use serde_json::{Value, json};

use super::{FOREGATE, chained, start};
use crate::sampled_log::lines_when;
use crate::suite::{Gateway, SOON};

async fn statuses(gateway: &Gateway, requests: usize) -> anyhow::Result<Vec<u16>> {
    let mut statuses = Vec::new();
    for number in 0..requests {
        let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
        statuses.push(client::send(gateway.addr()?, &Request::get("/").over(http)).await?.status);
    }
    Ok(statuses)
}

/// Limits alike in all else have buckets of their own. A name takes its buckets along when others come and go.
#[tokio::test(flavor = "multi_thread")]
async fn each_has_buckets_of_its_own() -> anyhow::Result<()> {
    let limit = || json!({ "rate": "3/d" });
    let list = json!([
        { "local_rate_limit": limit() },
        { "name": "b", "local_rate_limit": limit() },
        { "local_rate_limit": limit() },
        { "name": "c", "local_rate_limit": limit() },
    ]);
    let mut first = None;
    let mut gateway =
        Gateway::start_with(&FOREGATE, &Options { concurrency: 1, ..Gateway::options() }, |config| {
            let config = chained(config, &list)?.with_file_lds()?;
            first = Some(config.clone());
            Ok(config)
        })
        .await?;
    assert_eq!(statuses(&gateway, 4).await?, [200, 200, 200, 429]);
    let counters = gateway.counters().await?;
    for (name, expected) in [
        // Those without a name count together.
        ("local_rate_limit.allowed.reason.within_limits", 6),
        ("local_rate_limit.refused.limit.default", 1),
        ("local_rate_limit.b.allowed.reason.within_limits", 3),
        ("local_rate_limit.b.refused.limit.default", 0),
        ("local_rate_limit.c.allowed.reason.within_limits", 3),
    ] {
        assert_eq!(counters.get(name), Some(&expected), "{name} of {counters:?}");
    }
    let rows = [
        (json!([{ "name": "d", "local_rate_limit": limit() }]), vec![200, 200, 200, 429]),
        (
            json!([{ "name": "d", "local_rate_limit": { "rate": "1000/s" } }, { "name": "b", "local_rate_limit": limit() }]),
            vec![429],
        ),
    ];
    let first = first.expect("it was started");
    for (list, expected) in rows {
        let listener = first.clone().edit(|bootstrap| {
            let plugin = crate::suite::plugin_mut(bootstrap, FOREGATE.plugin)?;
            plugin["configuration"]["value"] = json!({ "filters": list });
            Ok(())
        })?;
        assert_eq!(gateway.envoy.update_listeners(&listener).await?, Update::Accepted);
        gateway
            .envoy
            .wait_for_stat("listener_manager.total_listeners_draining", |count| count == 0, SOON)
            .await?;
        assert_eq!(statuses(&gateway, expected.len()).await?, expected, "{list}");
    }
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// Lines of each, where each wants them.
#[tokio::test(flavor = "multi_thread")]
async fn each_writes_lines_of_its_own() -> anyhow::Result<()> {
    let list = json!([
        { "name": "all", "sampled_log": { "percent_sampled": 100, "fields": { "of": "all", "status": "%RESPONSE_CODE%" } } },
        { "name": "errors", "sampled_log": { "percent_sampled": 0, "always": [{ "status": "5xx" }], "fields": { "of": "errors", "status": "%RESPONSE_CODE%" } } },
    ]);
    let gateway = start(&list).await?;
    for status in [200, 404, 503] {
        let answer = client::send(gateway.addr()?, &Request::get(&format!("/?status={status}"))).await?;
        assert_eq!(answer.status, status);
    }
    let all = lines_when(&gateway.envoy, |lines| lines.len() >= 4).await?;
    let of = |name: &str| -> Vec<&Value> {
        all.iter().filter(|line| line["of"] == name).map(|line| &line["status"]).collect()
    };
    assert_eq!(of("all"), [&json!(200), &json!(404), &json!(503)]);
    assert_eq!(of("errors"), [&json!(503)]);
    assert_eq!(all.len(), 4, "{all:?}");
    let counters = gateway.counters().await?;
    assert_eq!(counters["sampled_log.all.lines.why.sampled"], 2, "{counters:?}");
    assert_eq!(counters["sampled_log.all.lines.why.always"], 1, "by default, errors are");
    assert_eq!(counters["sampled_log.errors.lines.why.always"], 1);
    assert_eq!(counters["sampled_log.errors.lines.why.sampled"], 0);
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}
