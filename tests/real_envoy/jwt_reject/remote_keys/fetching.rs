//! How often the issuer is asked and what is made of its answers, good and bad.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use real_envoy::client::{self, Request};
use serde_json::json;

use super::super::host_failure::CAPABILITIES;
use super::{JWT_REJECT, bearer, becomes, gateway, token, with_remote_keys};
use crate::jwt;
use crate::jwt::issuer::{Answer, Issuer};
use crate::suite::{Gateway, Load, Next, SOON};

/// Keys are rotated as issuers do, the new one published before it signs, and at once, under load: no good
/// request fails, no forged one and none by a key taken away for good passes.
#[tokio::test(flavor = "multi_thread")]
async fn keys_rotate_under_load() -> anyhow::Result<()> {
    const KEYS: [&str; 4] = ["p256", "other_p256", "rsa", "other_rsa"];
    const PUBLISHED: [&[&str]; 4] =
        [&["p256"], &["p256", "other_p256"], &["other_p256", "rsa"], &["rsa", "other_rsa"]];
    let issuer = Issuer::start(Answer::Keys(PUBLISHED[0], &[])).await?;
    let gateway = gateway(&issuer, json!({ "wait_for_keys": "5s", "cache_duration": "60s" })).await?;
    let addr = gateway.addr()?;
    let current = Arc::new(AtomicUsize::new(0));
    let connection = |number: usize| {
        let current = Arc::clone(&current);
        let mut sent = 0_u64;
        Box::new(move || -> (Request, Vec<u16>) {
            sent += 1;
            let key = KEYS[current.load(Ordering::SeqCst)];
            // Every token is another; every third is forged in one way or the other.
            let mut spec = json!({ "key": key, "claims": { "jti": format!("{number}-{sent}") } });
            let status = if sent.is_multiple_of(3) { 401 } else { 200 };
            match sent % 6 {
                3 => spec["tamper"] = json!(["flip_signature"]),
                0 => {
                    // By a key that was never published, named as one that is: nothing to fetch for.
                    spec["key"] = json!("p384");
                    spec["header"] = json!({ "kid": key });
                }
                _ => {}
            }
            (bearer(&jwt::token::make(&spec).unwrap()), vec![status])
        }) as Next
    };
    let load = Load::start(addr, (0..6).map(connection).collect());
    load.wait_for_requests(200).await?;
    let mut fetches = vec![issuer.fetches()];
    for (round, published) in PUBLISHED.into_iter().enumerate().skip(1) {
        // An unknown key may be asked for once a second.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        issuer.answer(Answer::Keys(published, &[]));
        current.store(round, Ordering::SeqCst);
        load.wait_for_requests(200).await?;
        fetches.push(issuer.fetches());
    }
    let (sent, failed) = load.stop().await?;
    println!("{sent} requests; fetches after each rotation: {fetches:?}");
    assert_eq!(failed, Vec::<String>::new(), "of {sent} requests");
    assert_eq!(fetches, [1, 2, 3, 4], "each rotation costs one fetch");
    // What was taken away is gone, though tokens by it were remembered.
    assert_eq!(client::send(addr, &bearer(&token("p256")?)).await?.status, 401);
    assert_eq!(client::send(addr, &bearer(&token("rsa")?)).await?.status, 200);
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_keys_makes_few_fetches() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Keys(&["p256"], &[])).await?;
    let gateway = gateway(&issuer, json!({ "min_refetch_interval": "2s" })).await?;
    let addr = gateway.addr()?;
    becomes(addr, &bearer(&token("p256")?), 200).await?;
    let started = Instant::now();
    let connection = |number: usize| {
        let mut sent = 0_u64;
        Box::new(move || -> (Request, Vec<u16>) {
            sent += 1;
            let unknown = json!({ "key": "other_p256", "header": { "kid": format!("{number}-{sent}") } });
            (bearer(&jwt::token::make(&unknown).unwrap()), vec![401])
        }) as Next
    };
    let load = Load::start(addr, (0..6).map(connection).collect());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (sent, failed) = load.stop().await?;
    let most = 2 + started.elapsed().as_secs() as usize / 2;
    println!("{sent} requests with unknown keys in {:?}: {} fetches", started.elapsed(), issuer.fetches());
    assert_eq!(failed, Vec::<String>::new(), "of {sent} requests");
    assert!((2..=most).contains(&issuer.fetches()), "{} fetches", issuer.fetches());
    assert!(sent > 100, "{sent}");
    let counters = gateway.counters().await?;
    assert_eq!(counters["jwks_fetches.result.not_modified"] as usize, issuer.fetches() - 1, "{counters:?}");
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn old_keys_serve_through_every_kind_of_failure_but_not_for_ever() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Keys(&["p256"], &[])).await?;
    let settings = json!({
        "http_uri": { "uri": "http://issuer.example/", "cluster": "issuer", "timeout": "0.5s" },
        "cache_duration": "1s", "stale_if_error": "20s", "wait_for_keys": "0s", "max_body_bytes": 4096,
    });
    let gateway = gateway(&issuer, settings).await?;
    let addr = gateway.addr()?;
    let (good, forged) =
        (bearer(&token("p256")?), bearer(&jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?));
    becomes(addr, &good, 200).await?;
    let refused_before_the_first = gateway.counters().await?["refused.reason.jwks_unavailable"];

    let weak = json!({ "keys": [{ "kty": "oct", "k": "AAAA" }] }).to_string().into_bytes();
    let unusable = json!({ "keys": [{ "kty": "new" }] }).to_string().into_bytes();
    let failures = [
        (Answer::Status(500), "bad_status"),
        (Answer::Status(404), "bad_status"),
        (Answer::Status(301), "bad_status"),
        (Answer::Nothing, "bad_status"),
        (Answer::HalfABody, "no_response"),
        (Answer::Close, "bad_status"),
        (Answer::Body(Vec::new()), "unusable"),
        (Answer::Body(b"<html>moved</html>".to_vec()), "unusable"),
        (Answer::Body(b"{\"keys\": []}".to_vec()), "unusable"),
        (Answer::Body(weak), "unusable"),
        (Answer::Body(unusable), "unusable"),
        (Answer::Body(vec![0xff; 2000]), "unusable"),
        (Answer::Body(b"[".repeat(4000)), "unusable"),
        (Answer::Body(vec![b' '; 4097]), "too_large"),
        (Answer::Body(vec![b'1'; 10 << 20]), "too_large"),
    ];
    let mut table = Vec::new();
    for (answer, result) in failures {
        let (before, fetched) = (gateway.counters().await?, issuer.fetches());
        let name = format!("jwks_fetches.result.{result}");
        let shown: String = format!("{answer:?}").chars().take(60).collect();
        issuer.answer(answer);
        let seen = async {
            while gateway.counters().await?[&name] == before[&name] {
                assert_eq!(client::send(addr, &good).await?.status, 200, "{shown}");
                assert_eq!(client::send(addr, &forged).await?.status, 401, "{shown}");
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(SOON, seen).await.with_context(|| format!("no {result}: {shown}"))??;
        table.push(format!("{result}: {} fetches: {shown}", issuer.fetches() - fetched));
        issuer.answer(Answer::Keys(&["p256"], &[]));
        let recovered = async {
            let fresh = before["jwks_fetches.result.not_modified"];
            while gateway.counters().await?["jwks_fetches.result.not_modified"] == fresh {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(SOON, recovered).await.with_context(|| format!("no recovery: {shown}"))??;
    }
    println!("{}", table.join("\n"));
    let counters = gateway.counters().await?;
    assert_eq!(counters["jwks_fetches.result.new_keys"], 1, "the same keys all along: {counters:?}");
    assert_eq!(counters["refused.reason.jwks_unavailable"], refused_before_the_first);
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// Once the last set is older than `stale_if_error` allows, it is of no use any more: not even to tokens that
/// are remembered as good.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_too_old_are_not_used() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Keys(&["p256"], &[])).await?;
    let settings = json!({ "cache_duration": "1s", "stale_if_error": "2s", "wait_for_keys": "0s" });
    let gateway = gateway(&issuer, settings).await?;
    let addr = gateway.addr()?;
    let good = bearer(&token("p256")?);
    becomes(addr, &good, 200).await?;
    issuer.answer(Answer::Status(503));
    let down = Instant::now();
    becomes(addr, &good, 503).await?;
    assert!(down.elapsed() > Duration::from_millis(1500), "{:?}", down.elapsed());
    gateway.envoy.wait_for_log("the keys are too old to be used", SOON).await?;
    issuer.answer(Answer::Keys(&["p256"], &[]));
    becomes(addr, &good, 200).await?;
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn etag_and_max_age_are_honoured() -> anyhow::Result<()> {
    let headers: &[(&str, &str)] = &[("etag", "\"v1\""), ("cache-control", "public, max-age=2")];
    let issuer = Issuer::start(Answer::Keys(&["p256"], headers)).await?;
    let gateway = gateway(&issuer, json!({})).await?;
    let addr = gateway.addr()?;
    becomes(addr, &bearer(&token("p256")?), 200).await?;
    // Every two seconds, less a tenth at most, looked at once a second.
    let started = Instant::now();
    issuer.wait_for_fetches(4, SOON).await?;
    assert!(started.elapsed() > Duration::from_millis(3500), "{:?}", started.elapsed());
    let asked: Vec<_> = issuer.asked().into_iter().map(|asked| asked.if_none_match).collect();
    let tag = Some("\"v1\"".to_owned());
    assert_eq!(asked[..4], [None, tag.clone(), tag.clone(), tag]);
    let counters = gateway.counters().await?;
    assert_eq!(counters["jwks_fetches.result.new_keys"], 1);
    assert!(counters["jwks_fetches.result.not_modified"] >= 2, "{counters:?}");
    gateway.envoy.stop().await
}

/// What the host does not allow, or the operator has got wrong, is said; requests are refused, and answered.
#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_of_fetching_is_named() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Keys(&["p256"], &[])).await?;
    let good = bearer(&token("p256")?);
    let unknown = json!({ "wait_for_keys": "0.2s", "http_uri": {
        "uri": "http://issuer.example/", "cluster": "nowhere", "timeout": "1s" } });
    let envoy = gateway(&issuer, unknown).await?;
    envoy.envoy.wait_for_log("is there a cluster \"nowhere\"", SOON).await?;
    assert_eq!(client::send(envoy.addr()?, &good).await?.status, 503);
    envoy.check_health([].into_iter()).await?;
    envoy.envoy.stop().await?;

    let said = [
        ("proxy_http_call", "proxy_http_call allowed?"),
        ("proxy_set_shared_data", "the host refuses shared data"),
        ("proxy_get_shared_data", ""),
        ("proxy_set_tick_period_milliseconds", ""),
        ("proxy_set_effective_context", ""),
        ("proxy_get_current_time_nanoseconds", ""),
        ("", ""),
    ];
    for (missing, line) in said {
        let envoy = Gateway::start(&JWT_REJECT, |config| {
            let settings = json!({ "wait_for_keys": "0.2s" });
            CAPABILITIES.all_but(with_remote_keys(config, issuer.addr(), &settings)?, missing)
        })
        .await
        .with_context(|| missing.to_owned())?;
        let addr = envoy.addr()?;
        match missing {
            "" | "proxy_set_effective_context" => {
                becomes(addr, &good, 200).await.with_context(|| missing.to_owned())?
            }
            _ => {
                // Without a clock every token has expired.
                let status = if missing == "proxy_get_current_time_nanoseconds" { 401 } else { 503 };
                for _ in 0..4 {
                    assert_eq!(client::send(addr, &good).await?.status, status, "{missing}");
                }
            }
        }
        if !line.is_empty() {
            envoy.envoy.wait_for_log(line, SOON).await.with_context(|| missing.to_owned())?;
        }
        envoy.check_health([].into_iter()).await.with_context(|| missing.to_owned())?;
        envoy.envoy.stop().await?;
    }
    Ok(())
}
