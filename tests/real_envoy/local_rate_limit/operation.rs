//! What an operator sees and does: waiting clients, metrics, access logs, an upstream that is gone, a host that
//! refuses calls.

use std::time::{Duration, Instant};

use real_envoy::client::{self, Client, Http, Request};
use serde_json::{Value, json};

use super::{LOCAL_RATE_LIMIT, start};
use crate::suite::{Capabilities, Gateway, SOON, hcm_mut};

/// What the module asks of the host.
const CAPABILITIES: Capabilities = Capabilities {
    plugin: LOCAL_RATE_LIMIT.plugin,
    own: &["proxy_on_response_headers", "proxy_get_property"],
};

/// A limit of one request, for each client.
fn one_for_each() -> Value {
    json!({
        "rate": "1/h",
        "descriptors": [{ "entries": ["client_address"], "rate": "1/h" }],
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
    })
}

async fn end(gateway: Gateway) -> anyhow::Result<()> {
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_as_long_as_it_is_told_passes() -> anyhow::Result<()> {
    let gateway = start(&json!({ "rate": "2/3s" }), &Gateway::options()).await?;
    let send = async || client::send(gateway.addr()?, &Request::get("/")).await;
    let mut waited = 0;
    for _ in 0..3 {
        let refused = loop {
            let answer = send().await?;
            if answer.status == 429 {
                break answer;
            }
            assert_eq!(answer.status, 200);
        };
        let told: u64 = refused.header("retry-after").concat().parse()?;
        assert!((1..=2).contains(&told), "{told}");
        tokio::time::sleep(Duration::from_secs(told)).await;
        assert_eq!(send().await?.status, 200, "after {told} s");
        waited += told;
    }
    assert!(waited >= 3);
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_a_call_lets_requests_pass_and_traps_nothing() -> anyhow::Result<()> {
    let answers = async |refused: &str| {
        let gateway = Gateway::start(&LOCAL_RATE_LIMIT, |config| {
            let config = config.plugin_configuration(LOCAL_RATE_LIMIT.plugin, &one_for_each())?;
            CAPABILITIES.all_but(config, refused)
        })
        .await?;
        let mut client = Client::connect(gateway.addr()?, Http::H1).await?;
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(client.send(&Request::get("/")).await?.status);
        }
        anyhow::Ok((statuses, gateway))
    };
    let limited = [200, 429, 429];
    for refused in [
        "",
        "proxy_set_property",
        "proxy_get_log_level",
        "proxy_define_metric",
        "proxy_replace_header_map_value",
    ] {
        assert_eq!(answers(refused).await?.0, limited, "without {refused}");
    }
    for refused in [
        "proxy_get_shared_data",
        "proxy_set_shared_data",
        "proxy_get_current_time_nanoseconds",
        "proxy_get_property",
    ] {
        let (statuses, gateway) = answers(refused).await?;
        // Without its address no client has a limit of its own, but the one for all is there.
        let expected = if refused == "proxy_get_property" { limited } else { [200; 3] };
        assert_eq!(statuses, expected, "without {refused}");
        if refused != "proxy_get_property" {
            assert_eq!(gateway.counters().await?["allowed.reason.host_failure"], 3, "without {refused}");
            gateway.envoy.wait_for_log("does not let it count requests, so all pass", SOON).await?;
        }
        end(gateway).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_is_gone_is_none_of_its_business() -> anyhow::Result<()> {
    let gateway = start(
        &json!({ "rate": "4/h", "enable_x_ratelimit_headers": "DRAFT_VERSION_03" }),
        &Gateway::options(),
    )
    .await?;
    let addr = gateway.addr()?;
    assert_eq!(client::send(addr, &Request::get("/")).await?.status, 200);
    let Gateway { envoy, echo, .. } = gateway;
    drop(echo);
    // Envoy's own answers tell of the limit too; ours comes when it is reached.
    for left in ["2", "1", "0"] {
        let answer = client::send(addr, &Request::get("/")).await?;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (503, vec![left.to_owned()]));
    }
    assert_eq!(client::send(addr, &Request::get("/")).await?.status, 429);
    envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_access_logs_name_the_limit() -> anyhow::Result<()> {
    let plugin = json!({
        "mode": "shadow",
        "rate": "1000/s",
        "descriptors": [{ "name": "per-client", "entries": ["client_address"], "rate": "1/h" }],
    });
    let gateway = Gateway::start(&LOCAL_RATE_LIMIT, |config| {
        config.plugin_configuration(LOCAL_RATE_LIMIT.plugin, &plugin)?.edit(|value| {
            hcm_mut(value)?["access_log"].as_array_mut().unwrap().push(json!({
                "name": "envoy.access_loggers.stdout",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                    "log_format": { "json_format": {
                        "path": "%PATH%",
                        "would": "%FILTER_STATE(wasm.foregate.local_rate_limit.refused:PLAIN)%",
                    } },
                },
            }));
            Ok(())
        })
    })
    .await?;
    for (path, would) in [("/one", Value::Null), ("/two", json!("per-client"))] {
        assert_eq!(client::send(gateway.addr()?, &Request::get(path)).await?.status, 200);
        let line = gateway.envoy.wait_for_stdout(&format!("\"path\":\"{path}\""), SOON).await?;
        assert_eq!(serde_json::from_str::<Value>(&line)?["would"], would);
    }
    gateway.envoy.wait_for_log("local_rate_limit: would refuse: per-client", SOON).await?;
    let page = gateway.envoy.admin_get("/stats/prometheus").await?;
    for line in [
        "foregate_local_rate_limit_shadow_refused{foregate_limit=\"per-client\"} 1",
        "foregate_local_rate_limit_refused{foregate_limit=\"default\"} 0",
        "foregate_local_rate_limit_allowed{foregate_reason=\"shadow\"} 1",
        "foregate_local_rate_limit_allowed{foregate_reason=\"within_limits\"} 1",
    ] {
        assert!(page.lines().any(|own| own == line), "{line}\nin\n{page}");
    }
    end(gateway).await
}

/// Clients that go before their answer comes leave nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_for_the_answer_has_taken_a_token_and_no_more() -> anyhow::Result<()> {
    let plugin = json!({
        "token_bucket": { "max_tokens": 100, "tokens_per_fill": 1, "fill_interval": "86400s" },
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
    });
    let gateway = start(&plugin, &Gateway::options()).await?;
    for _ in 0..60 {
        use tokio::io::AsyncWriteExt as _;
        let mut stream = tokio::net::TcpStream::connect(gateway.addr()?).await?;
        stream.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab").await?;
        stream.shutdown().await?;
    }
    let count = async || anyhow::Ok(gateway.counters().await?["allowed.reason.within_limits"]);
    let begun = Instant::now();
    while count().await? < 60 && begun.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(count().await?, 60);
    let answer = client::send(gateway.addr()?, &Request::get("/")).await?;
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, vec!["39".to_owned()]));
    end(gateway).await
}
