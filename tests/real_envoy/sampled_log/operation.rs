//! What an operator does: log levels, updates of the configuration, a host that refuses calls.

use std::time::Duration;

use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::{SAMPLED_LOG, end, lines, lines_when, start, start_with};
use crate::suite::{Capabilities, Gateway, SOON};

/// What the module asks of the host.
const CAPABILITIES: Capabilities =
    Capabilities { plugin: SAMPLED_LOG.plugin, own: &["proxy_on_log", "proxy_get_property"] };

async fn ask(gateway: &Gateway, path: &str) -> anyhow::Result<u16> {
    Ok(client::send(gateway.addr()?, &Request::get(path)).await?.status)
}

/// Where nobody would see the lines, none is made; and they come again.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_log_level_takes_effect_within_moments() -> anyhow::Result<()> {
    let gateway = start(&json!({ "percent_sampled": 100 })).await?;
    for (level, is_written) in [("warning", false), ("info", true)] {
        gateway.envoy.admin_post(&format!("/logging?wasm={level}")).await?;
        let written = async || {
            let before = gateway.counters().await?["lines.why.sampled"];
            for _ in 0..8 {
                ask(&gateway, "/a").await?;
            }
            gateway
                .envoy
                .wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON)
                .await?;
            anyhow::Ok(gateway.counters().await?["lines.why.sampled"] - before)
        };
        let taking_effect = async {
            // Of both workers.
            while written().await? != if is_written { 8 } else { 0 } {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(SOON, taking_effect).await??;
    }
    let told = gateway.counters().await?["lines.why.sampled"];
    let all = lines_when(&gateway.envoy, |lines| lines.len() as u64 >= 8).await?;
    assert!(all.len() as u64 <= told, "{} lines, {told} counted", all.len());
    end(gateway).await
}

/// A line tells what can be known; no request is the worse for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_a_call_costs_no_request_and_no_more_than_a_field() -> anyhow::Result<()> {
    let plugin = json!({ "percent_sampled": 100, "request_headers": ["x-a"] });
    let of = async |refused: &str| {
        let change = |config| CAPABILITIES.all_but(config, refused);
        let gateway = start_with(&plugin, &Gateway::options(), change).await?;
        let request = Request::get("/orders?a=b").header("x-a", "1");
        assert_eq!(client::send(gateway.addr()?, &request).await?.status, 200, "without {refused}");
        let all = lines_when(&gateway.envoy, |lines| !lines.is_empty()).await?;
        assert_eq!(all.len(), 1);
        end(gateway).await?;
        anyhow::Ok(all[0].clone())
    };
    let whole = of("").await?;
    assert_eq!((&whole["status"], &whole["path"]), (&json!(200), &json!("/orders")));
    for refused in [
        "proxy_get_log_level",
        "proxy_define_metric",
        "proxy_get_property",
        "proxy_get_header_map_pairs",
        "proxy_get_current_time_nanoseconds",
    ] {
        let line = of(refused).await?;
        assert_eq!(line["sample_rate"], 1, "without {refused}: {line}");
        match refused {
            "proxy_get_property" => {
                assert_eq!((&line["path"], &line["details"]), (&json!("/orders"), &Value::Null));
            }
            "proxy_get_header_map_pairs" => {
                assert_eq!((&line["path"], &line["details"]), (&Value::Null, &json!("via_upstream")));
            }
            _ => assert_eq!((&line["path"], &line["status"]), (&json!("/orders"), &json!(200)), "{refused}"),
        }
    }
    Ok(())
}

/// The budget is of the worker, and outlasts a configuration: updates must not open it again and again.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_takes_effect_and_fills_no_budget() -> anyhow::Result<()> {
    let plugin = |field: &str| {
        json!({
            "percent_sampled": 100,
            "max_lines_per_second": { "lines": 1, "burst": 5 },
            "fields": { "version": field },
        })
    };
    let options = real_envoy::Options { concurrency: 1, ..Gateway::options() };
    let mut gateway = start_with(&plugin("1"), &options, |config| config.with_file_lds()).await?;
    let begun = std::time::Instant::now();
    for version in ["1", "2", "3"] {
        if version != "1" {
            let upstream = gateway.echo.addr();
            let config = Gateway::config(&SAMPLED_LOG, upstream)?
                .plugin_configuration(SAMPLED_LOG.plugin, &plugin(version))?
                .with_file_lds()?;
            assert_eq!(gateway.envoy.update_listeners(&config).await?, real_envoy::Update::Accepted);
        }
        for _ in 0..20 {
            ask(&gateway, "/").await?;
        }
    }
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    let most = 5.0 + begun.elapsed().as_secs_f64().ceil();
    let all = lines(&gateway.envoy)?;
    assert!(f64::from(u32::try_from(all.len())?) <= most, "{} lines, at most {most}", all.len());
    let counters = gateway.counters().await?;
    assert_eq!(all.len() as u64 + counters["dropped"], 60);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    ask(&gateway, "/").await?;
    let all =
        lines_when(&gateway.envoy, |lines| lines.last().is_some_and(|line| line["version"] == "3")).await?;
    assert!(all.iter().any(|line| line["version"] == "1"));
    let dropped: u64 = all.iter().filter_map(|line| line["dropped"].as_u64()).sum();
    assert_eq!(dropped, gateway.counters().await?["dropped"]);
    end(gateway).await
}
