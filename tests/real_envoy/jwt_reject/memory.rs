//! What Envoy's memory grows by when a worker remembers tokens: the README says how much, and it stays within.

use anyhow::Context as _;
use real_envoy::client::{Client, Http, Request};
use serde_json::json;

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::Gateway;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_of_tokens_stays_within_its_bounds() -> anyhow::Result<()> {
    let mut plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] },
        } },
        "rules": [{ "match": {}, "requires": { "provider_name": "main" } }],
    });
    (JWT_REJECT.complete)(&mut plugin)?;
    let gateway =
        Gateway::start(&JWT_REJECT, |config| config.plugin_configuration(JWT_REJECT.plugin, &plugin)).await?;
    let mut client = Client::connect(gateway.addr()?, Http::H1).await?;
    let padding = "x".repeat(330);
    let token = |number: u32| {
        jwt::token::make(&json!({ "claims": { "jti": number.to_string(), "padding": padding } }))
    };
    let mut send = async |token: &str, status: u16| {
        let request = Request::get("/").header("authorization", format!("Bearer {token}"));
        anyhow::ensure!(client.send(&request).await?.status == status);
        anyhow::Ok(())
    };
    // Until everything that any request needs is there.
    let warm = token(0)?;
    for _ in 0..500 {
        send(&warm, 200).await?;
    }
    let mut before = gateway.resident_kilobytes()?;
    let mut grown = |what: &str| {
        let now = gateway.resident_kilobytes()?;
        let by = now.saturating_sub(before);
        before = now;
        anyhow::Ok((format!("{what}: {by} kB"), by))
    };
    let mut table = Vec::new();
    for number in 1..=1000 {
        send(&token(number)?, 200).await?;
    }
    table.push(grown(&format!("1000 tokens of {} bytes", warm.len()))?);
    for number in 1001..=5000 {
        send(&token(number)?, 200).await?;
    }
    table.push(grown("4000 more")?);
    let (signed, signature) = warm.rsplit_once('.').context("a token")?;
    for number in 0..10_000 {
        // Another signature each time: the first characters of the old one give way to a number.
        let start = jwt::keys::encode(format!("{number:09}"));
        send(&format!("{signed}.{start}{}", &signature[start.len()..]), 401).await?;
    }
    table.push(grown("10,000 forged ones")?);
    println!("{}", table.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>().join("\n"));
    let most = [6_000, 3_000, 2_000];
    for ((line, by), most) in table.iter().zip(most) {
        assert!(*by < most, "{line}; the most is {most}");
    }
    let counters = gateway.counters().await?;
    assert_eq!(counters["cache_evictions"], 4001 + 10_000 - 4096, "{counters:?}");
    gateway.check_health([warm.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
