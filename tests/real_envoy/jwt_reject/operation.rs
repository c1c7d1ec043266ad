//! What an operator sees and does: log levels, metrics, an upstream that is gone.

use std::time::Duration;

use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};
use serde_json::json;

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Gateway, SOON};

const REFUSED: &str = "jwt_reject: refused: token_missing";

/// A gateway that takes tokens of `p256`.
async fn gateway() -> anyhow::Result<Gateway> {
    Gateway::start(&JWT_REJECT, with_test_key).await
}

fn with_test_key(config: Config) -> anyhow::Result<Config> {
    let mut plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] },
        } },
        "rules": [{ "match": { "prefix": "/" }, "requires": { "provider_name": "main" } }],
    });
    (JWT_REJECT.complete)(&mut plugin)?;
    config.plugin_configuration(JWT_REJECT.plugin, &plugin)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_log_level_takes_effect_within_moments() -> anyhow::Result<()> {
    let echo = foregate_cli::echo::Echo::start("127.0.0.1:0".parse()?).await?;
    let config = with_test_key(Gateway::config(&JWT_REJECT, echo.addr())?)?;
    // Unlike the other tests', this log begins at the level that Envoy has by default.
    let envoy = Envoy::start(&config, &Options::default()).await?;
    let addr = envoy.listener()?;
    assert_eq!(client::send(addr, &Request::get("/")).await?.status, 401);
    assert!(!envoy.log().contains(REFUSED), "a debug line at level info");

    envoy.admin_post("/logging?wasm=debug").await?;
    wait_until_refusals_are_told(&envoy, true).await?;

    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    let good = jwt::token::make(&json!({}))?;
    envoy.admin_post("/logging?wasm=trace").await?;
    // The refusal of a token is told, the token is not.
    for token in [&forged, &good] {
        let status = if token == &good { 200 } else { 401 };
        for place in 0..4 {
            let request = match place {
                0 => Request::get(&format!("/?access_token={token}")),
                _ => Request::get("/").header("authorization", format!("Bearer {token}")),
            };
            assert_eq!(client::send(addr, &request).await?.status, status);
        }
    }
    envoy.wait_for_log("jwt_reject: refused: signature_wrong", SOON).await?;
    envoy.wait_for_stdout("jwt_reject{signature_wrong}", SOON).await?;
    let written = envoy.log() + &envoy.stdout();
    for token in [&forged, &good] {
        for part in token.split('.').skip(1) {
            assert!(!written.contains(part), "a log holds a token");
        }
    }

    envoy.admin_post("/logging?wasm=info").await?;
    wait_until_refusals_are_told(&envoy, false).await?;
    envoy.stop().await
}

/// Waits until every worker tells of a refusal in the log, or none does: each asks for the level once
/// a second.
async fn wait_until_refusals_are_told(envoy: &Envoy, told: bool) -> anyhow::Result<()> {
    const AT_ONCE: usize = 16;
    const MOST: u32 = 40;
    for _ in 0..MOST {
        let before = envoy.log().matches(REFUSED).count();
        for _ in 0..AT_ONCE {
            assert_eq!(client::send(envoy.listener()?, &Request::get("/")).await?.status, 401);
        }
        let lines = envoy.log().matches(REFUSED).count() - before;
        if lines == if told { AT_ONCE } else { 0 } {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the log level has not taken effect after {MOST} looks: {}", envoy.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubtful_configuration_is_used_and_the_log_says_what_is_doubtful() -> anyhow::Result<()> {
    let mut keys = jwt::jwks(&json!(["p256"]))?;
    keys["keys"].as_array_mut().unwrap().push(json!({ "kty": "new", "k": "not-for-the-log-at-all" }));
    let plugin = json!({
        "providers": {
            "anyone": { "local_jwks": { "inline_string": keys.to_string() } },
            "forgotten": { "issuer": "https://issuer.example", "local_jwks": { "inline_string": keys.to_string() } },
        },
        "rules": [
            { "match": {}, "requires": { "provider_name": "anyone" } },
            { "match": { "prefix": "/never" }, "requires": "none" },
        ],
    });
    let gateway =
        Gateway::start(&JWT_REJECT, |config| config.plugin_configuration(JWT_REJECT.plugin, &plugin)).await?;
    assert_eq!(client::send(gateway.addr()?, &Request::get("/never")).await?.status, 401);
    let log = gateway.envoy.log();
    for warning in [
        "providers.anyone: neither issuer nor audiences are set",
        "providers.anyone.local_jwks.inline_string: keys[1]: `kty` \"new\" is not supported; the key is passed over",
        "no rule requires provider \"forgotten\"",
        "rules[0]: matches every request, so the rules after it are never reached",
    ] {
        let line = log.lines().find(|line| line.contains(warning));
        assert!(line.is_some_and(|line| line.contains("[warning][wasm]")), "{warning:?} is not in:\n{log}");
    }
    gateway.check_health(["not-for-the-log-at-all"].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_gets_the_reason_as_a_label() -> anyhow::Result<()> {
    let gateway = gateway().await?;
    let addr = gateway.addr()?;
    let good = jwt::token::make(&json!({}))?;
    let expired = jwt::token::make(&json!({ "claims": { "exp": "now-3600" } }))?;
    let with = |token: &str| Request::get("/").header("authorization", format!("Bearer {token}"));
    for (request, status) in
        [(Request::get("/"), 401), (Request::get("/"), 401), (with(&expired), 401), (with(&good), 200)]
    {
        assert_eq!(client::send(addr, &request).await?.status, status);
    }
    let page = gateway.envoy.admin_get("/stats/prometheus").await?;
    for line in [
        "foregate_jwt_reject_refused{foregate_reason=\"token_missing\"} 2",
        "foregate_jwt_reject_refused{foregate_reason=\"token_expired\"} 1",
        "foregate_jwt_reject_allowed{foregate_reason=\"verified\"} 1",
        "foregate_jwt_reject_signature_checks{foregate_by=\"host\"} 1",
        "foregate_jwt_reject_cache{foregate_result=\"miss\"} 1",
        "foregate_jwt_reject_jwks_fetches{foregate_result=\"new_keys\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not among:\n{}", foregate_lines(&page));
    }
    gateway.envoy.stop().await
}

fn foregate_lines(page: &str) -> String {
    page.lines().filter(|line| line.contains("foregate")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_upstream_is_no_matter_of_the_filter() -> anyhow::Result<()> {
    // Bound and not listening: whoever connects is refused, and nobody else is given the port.
    let nobody = tokio::net::TcpSocket::new_v4()?;
    nobody.bind("127.0.0.1:0".parse()?)?;
    let upstream = nobody.local_addr()?;
    let gateway =
        Gateway::start(&JWT_REJECT, |config| with_test_key(config.upstream("upstream", upstream)?)).await?;
    let addr = gateway.addr()?;
    let good = jwt::token::make(&json!({}))?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    for (number, token, status) in [(1, &good, 503), (2, &forged, 401), (3, &good, 503)] {
        let request = Request::get("/").header("authorization", format!("Bearer {token}"));
        let response = client::send(addr, &request.header("x-case", number.to_string())).await?;
        assert_eq!(response.status, status);
        let details = gateway.details(number).await?;
        assert_eq!(details.contains("jwt_reject"), status == 401, "{details}");
    }
    let counters = gateway.counters().await?;
    assert_eq!((counters["allowed.reason.verified"], counters["refused.reason.signature_wrong"]), (2, 1));
    gateway.check_health([good.as_str(), forged.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_worker_verifies_a_token_once() -> anyhow::Result<()> {
    const REQUESTS: u64 = 60;
    let gateway = gateway().await?;
    let good = jwt::token::make(&json!({}))?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    for (token, status) in [(&good, 200), (&forged, 401)] {
        for _ in 0..REQUESTS {
            let request = Request::get("/").header("authorization", format!("Bearer {token}"));
            assert_eq!(client::send(gateway.addr()?, &request).await?.status, status);
        }
    }
    let counters = gateway.counters().await?;
    let workers = u64::from(Gateway::options().concurrency);
    let checks = counters["signature_checks.by.host"];
    assert!((2..=2 * workers).contains(&checks), "{counters:?}");
    assert_eq!(counters["cache.result.miss"], checks);
    assert_eq!(counters["cache.result.hit"] + counters["cache.result.forged"], 2 * REQUESTS - checks);
    assert_eq!(counters["cache_evictions"], 0);
    gateway.check_health([good.as_str(), forged.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
