//! A filter of the list that has requests wait: they go on where they stopped, and what was done before is done once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use real_envoy::client::{self, Http, Request};
use serde_json::{Value, json};

use super::{arrived, start_with};
use crate::jwt;
use crate::jwt::issuer::{Answer, Issuer};
use crate::sampled_log::line_of;
use crate::suite::SOON;

/// jwt_reject with keys from this cluster, and tokens in this header.
fn remote(cluster: &str, header: &str) -> Value {
    json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "from_headers": [{ "name": header, "value_prefix": "Bearer " }],
            "remote_jwks": {
                "http_uri": { "uri": "http://issuer.example/keys", "cluster": cluster, "timeout": "5s" },
                "wait_for_keys": "8s",
            },
        } },
        "rules": [
            { "match": { "prefix": "/open" }, "requires": "none" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    })
}

/// Requests wait at one filter, and then at another; each limit before, between and behind is charged once for each, and
/// edits of before are there at the end.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_not_charged_twice() -> anyhow::Result<()> {
    const GOOD: usize = 12;
    let first = Issuer::start(Answer::Late(Duration::from_millis(1200), &["p256"])).await?;
    let second = Issuer::start(Answer::Late(Duration::from_millis(2400), &["rsa"])).await?;
    let limit =
        |rate: usize| json!({ "match": { "prefix": "/api" }, "rate": format!("{rate}/d"), "name": "all" });
    let limits = |rate: usize| json!({ "descriptors": [limit(rate)], "enable_x_ratelimit_headers": "DRAFT_VERSION_03" });
    let list = json!([
        { "name": "before", "local_rate_limit": limits(GOOD + 4) },
        { "header_rewrite": {
            "request_mutations": [{ "append": { "name": "x-before", "value": "%REQ(x-number)%" } }],
            "response_mutations": [{ "append": { "name": "x-before", "value": "%RESPONSE_CODE% %REQ(x-number)%" } }],
        } },
        { "name": "one", "jwt_reject": remote("first", "x-first") },
        { "name": "between", "local_rate_limit": { "descriptors": [{ "entries": [{ "jwt_claim": "sub" }], "rate": "16/d", "name": "user" }] } },
        { "name": "other", "jwt_reject": remote("second", "x-second") },
        { "header_rewrite": { "request_mutations": [
            { "set": { "name": "x-user", "value": "%CLAIM(sub)%" } },
            { "append": { "name": "x-behind", "value": "%REQ(x-before)%" } },
        ] } },
        { "name": "behind", "local_rate_limit": limits(GOOD) },
        { "sampled_log": { "percent_sampled": 100, "additional_fields": { "number": "%REQ(x-number)%" } } },
    ]);
    let gateway = start_with(&list, |config| {
        config.edit(|bootstrap| {
            let clusters = bootstrap["static_resources"]["clusters"].as_array_mut().context("clusters")?;
            for (name, issuer) in [("first", &first), ("second", &second)] {
                let mut cluster = clusters[0].clone();
                cluster["name"] = name.into();
                cluster["load_assignment"]["cluster_name"] = name.into();
                *cluster.pointer_mut("/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address").context("address")? =
                    json!({ "socket_address": { "address": "127.0.0.1", "port_value": issuer.addr().port() } });
                clusters.push(cluster);
            }
            Ok(())
        })
    })
    .await?;
    let addr = gateway.addr()?;
    let (p256, rsa) = (jwt::token::make(&json!({}))?, jwt::token::make(&json!({ "key": "rsa" }))?);
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    first.wait_for_fetches(1, SOON).await?;
    let started = Instant::now();
    assert_eq!(client::send(addr, &Request::get("/open")).await?.status, 200);
    ensure!(started.elapsed() < Duration::from_millis(1000), "this one needs no key");
    let mut waiting = Vec::new();
    for number in 0..GOOD + 4 {
        let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
        // Of the others, two fail where they wait first and two where they wait next.
        let (one, other, status) = match number.checked_sub(GOOD) {
            None => (&p256, &rsa, 200),
            Some(0 | 1) => (&forged, &rsa, 401),
            Some(_) => (&p256, &p256, 401),
        };
        let size = 50_000 + number;
        let request = Request::post("/api", vec![b'x'; size])
            .over(http)
            .header("x-number", number.to_string())
            .header("x-first", format!("Bearer {one}"))
            .header("x-second", format!("Bearer {other}"));
        waiting.push(tokio::spawn(async move {
            let answer = client::send(addr, &request).await?;
            ensure!(answer.status == status, "{number}: {}, not {status}: {}", answer.status, answer.text());
            ensure!(
                answer.header("x-before") == [format!("{status} {number}")],
                "{number}: {:?}",
                answer.headers
            );
            ensure!(answer.header("x-ratelimit-limit").len() == 1, "{number}: {:?}", answer.headers);
            if status == 200 {
                let seen = answer.json()?;
                ensure!(seen["body_bytes"] == size, "{number}: {seen}");
                for (name, value) in [
                    ("x-before", number.to_string()),
                    ("x-behind", number.to_string()),
                    ("x-user", "alice".to_owned()),
                ] {
                    ensure!(arrived(&seen, name) == [value], "{number}: {name} in {seen}");
                }
            }
            anyhow::Ok(())
        }));
    }
    for request in waiting {
        request.await??;
    }
    ensure!(gateway.echo.requests() == GOOD as u64 + 1, "only the good ones arrived");
    let counters = gateway.counters().await?;
    for (name, expected) in [
        ("local_rate_limit.before.allowed.reason.within_limits", GOOD + 4),
        ("local_rate_limit.between.allowed.reason.within_limits", GOOD + 2),
        ("local_rate_limit.behind.allowed.reason.within_limits", GOOD),
        ("jwt_reject.one.allowed.reason.verified", GOOD + 2),
        ("jwt_reject.one.refused.reason.signature_wrong", 2),
        ("jwt_reject.other.allowed.reason.verified", GOOD),
        ("jwt_reject.one.requests_waited", GOOD + 4),
        ("jwt_reject.other.requests_waited", GOOD + 2),
    ] {
        assert_eq!(counters.get(name), Some(&(expected as u64)), "{name} of {counters:?}");
    }
    // None is left, of the first bucket and of the last: as many as came were charged.
    let over =
        Request::post("/api", "x").header("x-number", "over").header("x-first", format!("Bearer {p256}"));
    let answer = client::send(addr, &over).await?;
    assert_eq!(answer.status, 429, "{}", answer.text());
    let line = line_of(&gateway.envoy, "number", &json!("over")).await?;
    assert_eq!(line["details"], "local_rate_limited{all}");
    let line = line_of(&gateway.envoy, "number", &json!("0")).await?;
    assert_eq!((&line["subject"], &line["status"]), (&json!("alice"), &json!(200)));
    let line = line_of(&gateway.envoy, "number", &json!((GOOD + 2).to_string())).await?;
    assert_eq!(
        (&line["refused_by"], &line["subject"]),
        (&json!("jwt_reject"), &json!("alice")),
        "the first has verified it"
    );
    gateway.check_health([p256.as_str(), rsa.as_str(), forged.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
