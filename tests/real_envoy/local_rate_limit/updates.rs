//! Configuration updates while requests run: what a limit has left is not changed by an update that does not
//! change the limit.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Update};
use serde_json::{Value, json};

use super::LOCAL_RATE_LIMIT;
use crate::suite::{Gateway, Load, Next, SOON};

/// Connections under load.
const CONNECTIONS: usize = 6;

/// A limit for all, which no update changes, and one for each key, of this size and name.
fn plugin(name: &str, tokens: u32) -> Value {
    let bucket = |max: u32| json!({ "max_tokens": max, "tokens_per_fill": 1, "fill_interval": "86400s" });
    json!({
        "token_bucket": bucket(100_000),
        "descriptors": [{ "name": name, "entries": [{ "header": "x-key" }], "token_bucket": bucket(tokens) }],
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
    })
}

fn with(config: &Config, plugin: &Value) -> anyhow::Result<Config> {
    config.clone().plugin_configuration(LOCAL_RATE_LIMIT.plugin, plugin)
}

struct Updated {
    gateway: Gateway,
    first: Config,
}

impl Updated {
    async fn start() -> anyhow::Result<Self> {
        let mut first = None;
        let gateway = Gateway::start(&LOCAL_RATE_LIMIT, |config| {
            let config = with(&config, &plugin("per-key", 5))?.with_file_lds()?;
            first = Some(config.clone());
            Ok(config)
        })
        .await?;
        Ok(Self { gateway, first: first.context("the configuration")? })
    }

    /// Updates, and waits until every worker serves by it, which the header `x-ratelimit-limit` of a key tells.
    async fn update(&mut self, plugin: &Value, shown: &str) -> anyhow::Result<()> {
        let update = with(&self.first, plugin)?;
        assert_eq!(self.gateway.envoy.update_listeners(&update).await?, Update::Accepted);
        let (mut in_a_row, begun) = (0, Instant::now());
        while in_a_row < 40 {
            assert!(begun.elapsed() < SOON, "the update never takes effect");
            // A new key each time, so that none is used up.
            let key = format!("probe-{}", begun.elapsed().as_nanos());
            let answer = self.send(&key).await?;
            let took = answer.header("x-ratelimit-limit") == [shown];
            in_a_row = if took { in_a_row + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn send(&self, key: &str) -> anyhow::Result<client::Response> {
        client::send(self.gateway.addr()?, &Request::get("/").header("x-key", key)).await
    }

    /// How many of ten requests of this key pass.
    async fn passed(&self, key: &str) -> anyhow::Result<usize> {
        let mut passed = 0;
        for _ in 0..10 {
            passed += usize::from(self.send(key).await?.status == 200);
        }
        Ok(passed)
    }

    /// What the limit for all has left, by a request that has no key and so takes one.
    async fn left(&self) -> anyhow::Result<u64> {
        let answer = client::send(self.gateway.addr()?, &Request::get("/")).await?;
        Ok(answer.header("x-ratelimit-remaining").concat().parse()?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_update_does_not_change_keeps_its_tokens_under_load() -> anyhow::Result<()> {
    let mut updated = Updated::start().await?;
    let before = updated.gateway.echo.requests();
    // The load has keys of its own, each used once, so that it is never refused.
    let connection = |number: usize| {
        let mut sent = 0;
        Box::new(move || {
            sent += 1;
            (Request::get("/load").header("x-key", format!("load-{number}-{sent}")), vec![200_u16])
        }) as Next
    };
    let load = Load::start(updated.gateway.addr()?, (0..CONNECTIONS).map(connection).collect());
    load.wait_for_requests(100).await?;
    assert_eq!(updated.passed("a").await?, 5);

    // Another bucket for keys: they start afresh, the limit for all does not.
    updated.update(&plugin("per-key", 3), "3").await?;
    assert_eq!(updated.passed("a").await?, 3);
    load.wait_for_requests(100).await?;

    // A bad one changes nothing.
    let bad = with(&updated.first, &json!({ "rate": "often" }))?;
    assert!(matches!(updated.gateway.envoy.update_listeners(&bad).await?, Update::Rejected(_)));
    assert_eq!(updated.passed("a").await?, 0);

    // Back to the first: what it had given out it has not forgotten.
    updated.update(&plugin("per-key", 5), "5").await?;
    assert_eq!(updated.passed("a").await?, 0);
    load.wait_for_requests(100).await?;

    let (sent, failed) = load.stop().await?;
    assert_eq!(failed, Vec::<String>::new(), "of {sent} requests");
    // Whatever passed has taken one token of the limit for all, over all updates.
    let passed = updated.gateway.echo.requests() - before;
    assert_eq!(updated.left().await?, 100_000 - passed - 1);
    updated.gateway.check_health([].into_iter()).await?;
    updated.gateway.envoy.stop().await
}

/// Updates without end, each with a limit of another name: what is removed is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn limits_that_come_and_go_leave_little_behind() -> anyhow::Result<()> {
    let mut updated = Updated::start().await?;
    let keys = async |updated: &Updated| {
        for key in 0..50 {
            assert_eq!(updated.send(&format!("k{key}")).await?.status, 200);
        }
        anyhow::Ok(())
    };
    let round = async |updated: &mut Updated, number: u32| {
        let mut plugin = plugin(&format!("limit-{number}"), 4 + number % 2);
        // Full again within moments: then there is nothing to be known of it.
        plugin["descriptors"][0]["token_bucket"] =
            json!({ "max_tokens": 4 + number % 2, "tokens_per_fill": 100, "fill_interval": "1s" });
        updated.update(&plugin, &(4 + number % 2).to_string()).await?;
        keys(updated).await
    };
    for number in 0..4 {
        round(&mut updated, number).await?;
    }
    let before = updated.gateway.resident_kilobytes()?;
    for number in 4..16 {
        round(&mut updated, number).await?;
    }
    let grown = updated.gateway.resident_kilobytes()?.saturating_sub(before);
    println!("12 updates: {grown} kB");
    assert!(grown < 12_000, "{grown} kB");
    updated.gateway.check_health([].into_iter()).await?;
    updated.gateway.envoy.stop().await
}
