//! Configuration updates while requests run: a bad one changes nothing, a good one takes over, and no
//! request fails through either.

use std::time::Duration;

use anyhow::Context as _;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Update};
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Gateway, Load, Next};

/// Connections under load.
const CONNECTIONS: usize = 6;

fn with_rules(config: &Config, rules: &Value) -> anyhow::Result<Config> {
    let mut plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256", "rsa"] },
        } },
        "rules": rules,
    });
    (JWT_REJECT.complete)(&mut plugin)?;
    config.clone().plugin_configuration(JWT_REJECT.plugin, &plugin)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_through_a_bad_update_and_a_good_one() -> anyhow::Result<()> {
    let closed = json!([{ "match": { "prefix": "/" }, "requires": { "provider_name": "main" } }]);
    let opened = json!([
        { "match": { "prefix": "/open" }, "requires": "none" },
        { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
    ]);
    let mut first = None;
    let mut gateway = Gateway::start(&JWT_REJECT, |config| {
        let config = with_rules(&config, &closed)?.with_file_lds()?;
        first = Some(config.clone());
        Ok(config)
    })
    .await?;
    let first = first.context("the configuration")?;
    let addr = gateway.addr()?;
    let open_without_token = async || client::send(addr, &Request::get("/open")).await.map(|it| it.status);
    assert_eq!(open_without_token().await?, 401);

    let load = Load::start(addr, good_tokens()?);
    load.wait_for_requests(200).await?;

    let bad = with_rules(&first, &json!([{ "match": {}, "requires": { "provider_name": "nobody" } }]))?;
    let Update::Rejected(_) = gateway.envoy.update_listeners(&bad).await? else {
        panic!("a bad update was accepted")
    };
    assert!(gateway.envoy.log().contains("no provider is named \"nobody\""));
    load.wait_for_requests(200).await?;
    assert_eq!(open_without_token().await?, 401, "the old rules hold on");

    let good = with_rules(&first, &opened)?;
    assert_eq!(gateway.envoy.update_listeners(&good).await?, Update::Accepted);
    load.wait_for_requests(400).await?;
    // Each worker switches by itself, so the old rules may answer for moments; then never again.
    let mut in_a_row = 0;
    for _ in 0..400 {
        in_a_row = if open_without_token().await? == 200 { in_a_row + 1 } else { 0 };
        if in_a_row == 40 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(in_a_row, 40, "the new rules hold for new connections");
    assert_eq!(client::send(addr, &Request::get("/else")).await?.status, 401);

    let (sent, failed) = load.stop().await?;
    assert_eq!(failed, Vec::<String>::new(), "of {sent} requests");
    assert_eq!(gateway.envoy.stat("listener_manager.lds.update_rejected").await?, 1);
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// Connections that send good tokens, each its own.
fn good_tokens() -> anyhow::Result<Vec<Next>> {
    let connection = |number: usize| {
        let key = if number.is_multiple_of(3) { "rsa" } else { "p256" };
        let token =
            jwt::token::make(&json!({ "key": key, "claims": { "sub": format!("client-{number}") } }))?;
        let request = Request::get("/load").header("authorization", format!("Bearer {token}"));
        Ok(Box::new(move || (request.clone(), vec![200_u16])) as Next)
    };
    (0..CONNECTIONS).map(connection).collect()
}
