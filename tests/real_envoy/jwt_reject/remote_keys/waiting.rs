//! Who waits for keys and for how long: nobody hangs, and nobody slips by.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use real_envoy::Update;
use real_envoy::client::{self, Client, Http, Request};
use serde_json::{Value, json};

use super::{JWT_REJECT, bearer, becomes, gateway, token, with_remote_keys};
use crate::jwt;
use crate::jwt::issuer::{Answer, Issuer};
use crate::suite::{Gateway, Load, SOON, plugin_mut};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_requests_wait_for_the_keys() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Late(Duration::from_millis(1500), &["p256", "rsa"])).await?;
    let settings = json!({ "wait_for_keys": "5s", "min_refetch_interval": "30s" });
    let gateway = gateway(&issuer, settings).await?;
    let addr = gateway.addr()?;
    issuer.wait_for_fetches(1, SOON).await?;

    // None of these need keys to be refused, or to pass.
    let expired = jwt::token::make(&json!({ "claims": { "exp": "now-3600" } }))?;
    let foreign = jwt::token::make(&json!({ "claims": { "iss": "https://else.example" } }))?;
    let started = Instant::now();
    assert_eq!(client::send(addr, &bearer(&expired)).await?.status, 401);
    assert_eq!(client::send(addr, &bearer(&foreign)).await?.status, 401);
    assert_eq!(client::send(addr, &Request::get("/api")).await?.status, 401);
    assert_eq!(client::send(addr, &Request::get("/open")).await?.status, 200);
    assert!(started.elapsed() < Duration::from_millis(1000), "nobody of these waits");

    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    let mut waiting = Vec::new();
    for number in 0..40 {
        let (http, token, status) = match number % 4 {
            0 => (Http::H1, token("p256")?, 200),
            1 => (Http::H2, token("rsa")?, 200),
            2 => (Http::H2, forged.clone(), 401),
            // A token of a key that is not in the set.
            _ => (Http::H1, token("other_p256")?, 401),
        };
        let mut request = Request::post("/api", vec![b'x'; 100_000 + number]).over(http);
        request = request.header("authorization", format!("Bearer {token}"));
        waiting.push(tokio::spawn(async move {
            let response = client::send(addr, &request).await?;
            anyhow::ensure!(response.status == status, "{number}: {}, not {status}", response.status);
            let whole = response.text().contains(&format!("\"body_bytes\":{}", 100_000 + number));
            anyhow::ensure!(status != 200 || whole, "the body came whole: {}", response.text());
            anyhow::Ok(())
        }));
    }
    for request in waiting {
        request.await??;
    }
    assert_eq!(issuer.fetches(), 1, "two workers and the main thread, one fetch: {:?}", issuer.asked());
    assert_eq!(issuer.asked()[0].line, "GET issuer.example/keys?v=1");
    let counters = gateway.counters().await?;
    assert_eq!(counters["jwks_fetches.result.new_keys"], 1);
    assert_eq!(counters["allowed.reason.verified"], 20);
    assert!((20..=40).contains(&counters["requests_waited"]), "{counters:?}");
    assert_eq!(counters["refused.reason.jwks_unavailable"], 0);
    gateway.check_health([forged.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_longer_than_allowed() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Nothing).await?;
    let gateway = gateway(&issuer, json!({ "wait_for_keys": "1s" })).await?;
    let addr = gateway.addr()?;
    let good = bearer(&token("p256")?);
    // Some do not wait for the answer: their streams are gone when it is due.
    for _ in 0..20 {
        let impatient = Request { limit: Duration::from_millis(100), ..good.clone() };
        assert!(client::send(addr, &impatient).await.is_err());
    }
    let mut waiting = Vec::new();
    for number in 0..60 {
        let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
        let request = good.clone().over(http);
        waiting.push(tokio::spawn(async move {
            let started = Instant::now();
            anyhow::Ok((client::send(addr, &request).await?, started.elapsed()))
        }));
    }
    for request in waiting {
        let (response, took) = request.await??;
        assert_eq!((response.status, response.text()), (503, "Jwks remote fetch is failed".into()));
        assert_eq!(response.headers.iter().find(|(name, _)| name == "www-authenticate"), None);
        let expected = Duration::from_millis(900)..Duration::from_millis(4000);
        assert!(expected.contains(&took), "{took:?}");
    }
    let request =
        good.clone().header("x-case", "1").over(Http::H2).header("content-type", "application/grpc");
    let response = client::send(addr, &request).await?;
    let grpc_status = response.headers.iter().find(|(name, _)| name == "grpc-status");
    assert_eq!(grpc_status.map(|(_, value)| value.as_slice()), Some(b"14".as_slice()));
    assert_eq!(gateway.details(1).await?, "jwt_reject{jwks_unavailable}");
    // Whoever may come with a token that is not verified need not be kept, but is.
    let lenient = Request { path: "/lenient".to_owned(), ..good.clone() };
    assert_eq!(client::send(addr, &lenient).await?.status, 200);

    // The fetches have failed meanwhile, each after its two seconds, which Envoy tells as 504; now there are
    // keys.
    issuer.answer(Answer::Keys(&["p256"], &[]));
    becomes(addr, &good, 200).await?;
    let counters = gateway.counters().await?;
    assert!(counters["jwks_fetches.result.bad_status"] >= 1, "{counters:?}");
    assert_eq!(counters["jwks_fetches.result.new_keys"], 1);
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn by_choice_nobody_waits() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Status(500)).await?;
    let settings = json!({ "wait_for_keys": "0s", "async_fetch": { "failed_refetch_duration": "2s" } });
    let gateway = gateway(&issuer, settings).await?;
    let addr = gateway.addr()?;
    let good = bearer(&token("p256")?);
    issuer.wait_for_fetches(1, SOON).await?;
    for _ in 0..20 {
        let started = Instant::now();
        assert_eq!(client::send(addr, &good).await?.status, 503);
        assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    }
    let line = "[warning][wasm]";
    let log =
        gateway.envoy.wait_for_log("fetching failed (1 in a row): the response has status 500", SOON).await?;
    assert!(log.contains(line) && log.contains("providers.main.remote_jwks"), "{log}");
    issuer.answer(Answer::Keys(&["p256"], &[]));
    becomes(addr, &good, 200).await?;
    let counters = gateway.counters().await?;
    assert_eq!(counters["requests_waited"], 0);
    assert!(counters["refused.reason.jwks_unavailable"] >= 20);
    // A failed fetch is tried again every other second, less a quarter at most; the time till now was short.
    assert!(issuer.fetches() <= 5, "{:?}", issuer.asked());
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// A new configuration begins with the keys that the old one fetched; requests that wait under the old one are
/// answered.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_keeps_the_keys_and_loses_no_request_that_waits() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Late(Duration::from_millis(2500), &["p256"])).await?;
    let addr_of_issuer = issuer.addr();
    let settings = json!({ "wait_for_keys": "8s", "http_uri": {
        "uri": "http://issuer.example/", "cluster": "issuer", "timeout": "5s" } });
    let mut first = None;
    let mut gateway = Gateway::start(&JWT_REJECT, |config| {
        let config = with_remote_keys(config, addr_of_issuer, &settings)?.with_file_lds()?;
        first = Some(config.clone());
        Ok(config)
    })
    .await?;
    let first = first.context("the configuration")?;
    let addr = gateway.addr()?;
    let good = bearer(&token("p256")?);
    let mut waiting = Vec::new();
    for number in 0..20 {
        let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
        let mut client = Client::connect(addr, http).await?;
        let request = good.clone();
        waiting.push(tokio::spawn(async move { client.send(&request).await }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second = first.edit(|value| set_remote_jwks(value, "stale_if_error", json!("7200s")))?;
    assert_eq!(gateway.envoy.update_listeners(&second).await?, Update::Accepted);
    for request in waiting {
        let response = request.await??;
        assert_eq!((response.status, response.text().contains("\"path\":\"/api\"")), (200, true));
    }
    let before = issuer.fetches();
    // From now on nothing more can be fetched, and need not.
    issuer.answer(Answer::Status(500));
    let third = second.edit(|value| set_remote_jwks(value, "stale_if_error", json!("7300s")))?;
    let load_token = good.clone();
    let load = Load::start(addr, vec![Box::new(move || (load_token.clone(), vec![200]))]);
    load.wait_for_requests(50).await?;
    assert_eq!(gateway.envoy.update_listeners(&third).await?, Update::Accepted);
    load.wait_for_requests(200).await?;
    let (sent, failed) = load.stop().await?;
    assert_eq!(failed, Vec::<String>::new(), "of {sent} requests");
    assert_eq!(issuer.fetches(), before, "the new configuration found the keys");
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

fn set_remote_jwks(bootstrap: &mut Value, name: &str, new: Value) -> anyhow::Result<()> {
    let configuration = plugin_mut(bootstrap, JWT_REJECT.plugin)?.get_mut("configuration");
    let remote = configuration.and_then(|it| it.pointer_mut("/value/providers/main/remote_jwks"));
    remote.context("no remote_jwks")?[name] = new;
    Ok(())
}

/// With this option Envoy does not hold back the body of a request whose headers a filter has stopped, and lets
/// the request go on when the filter lets the body. That must not become a way around the filter.
#[tokio::test(flavor = "multi_thread")]
async fn no_body_takes_a_request_past_the_filter() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Late(Duration::from_millis(1500), &["p256"])).await?;
    let gateway = Gateway::start(&JWT_REJECT, |config| {
        with_remote_keys(config, issuer.addr(), &json!({ "wait_for_keys": "5s" }))?.edit(|value| {
            let plugin = plugin_mut(value, JWT_REJECT.plugin)?;
            plugin.insert("allow_on_headers_stop_iteration".to_owned(), json!(true));
            Ok(())
        })
    })
    .await?;
    let addr = gateway.addr()?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    let mut waiting = Vec::new();
    for number in 0..12 {
        let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
        let (token, status) = if number % 3 == 0 { (token("p256")?, 200) } else { (forged.clone(), 401) };
        let size = 100_000 + number;
        let request = Request::post("/api", vec![b'x'; size]).over(http);
        let request = request.header("authorization", format!("Bearer {token}"));
        waiting.push(tokio::spawn(async move {
            let response = client::send(addr, &request).await?;
            anyhow::ensure!(response.status == status, "{number}: {}, not {status}", response.status);
            let whole = response.text().contains(&format!("\"body_bytes\":{size}"));
            anyhow::ensure!(status != 200 || whole, "the body came whole: {}", response.text());
            anyhow::Ok(())
        }));
    }
    for request in waiting {
        request.await??;
    }
    assert_eq!(gateway.echo.requests(), 4, "only the good ones arrived");
    assert!(gateway.counters().await?["requests_waited"] > 0);
    gateway.check_health([forged.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
