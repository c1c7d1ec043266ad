//! What ships beside the filter for comparison does what it says: Envoy's own access log, and Lua.

use foregate_cli::echo::Echo;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::assert_likely;
use crate::suite::{Gateway, SOON, crowd, statuses};

async fn start(file: &str, echo: &Echo) -> anyhow::Result<Envoy> {
    let config = Config::load(format!("envoy-configs/sampled-log/{file}"))?;
    Envoy::start(&config.on_free_ports()?.upstream("upstream", echo.addr())?, &Gateway::options()).await
}

/// The JSON lines of the log: all of a line, or what follows `begins`.
fn lines(envoy: &Envoy, begins: &str) -> anyhow::Result<Vec<Value>> {
    let log = envoy.log();
    let texts = log.lines().filter_map(|line| {
        let text = if begins.is_empty() { line } else { line.split_once(begins)?.1 };
        text.starts_with('{').then_some(text)
    });
    texts.map(|text| Ok(serde_json::from_str(text)?)).collect()
}

/// Errors always, a tenth of the rest, and no checks of health: of 2400 requests.
async fn check_policy(envoy: &Envoy, begins: &str) -> anyhow::Result<Vec<Value>> {
    let counts = crowd(envoy.listener()?, 4, |_, number| match number {
        0..500 => Some(Request::get("/orders?token=secret-of-the-query")),
        500..510 => Some(Request::get("/orders?status=500")),
        510..600 => Some(Request::get("/health")),
        _ => None,
    })
    .await?;
    assert_eq!(counts, statuses(&[(200, 2360), (500, 40)]));
    let broken = Request::get("/broken\"?close=before");
    assert_eq!(client::send(envoy.listener()?, &broken).await?.status, 503);
    envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    // A file's lines are written at intervals.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let all = lines(envoy, begins)?;
    let of = |status: u16| all.iter().filter(|line| line["status"] == status).count();
    assert_eq!((of(500), of(503)), (40, 1));
    assert_likely(of(200), 2000, 0.1);
    for line in all.iter().filter(|line| line["status"] != 503) {
        assert_eq!(
            (&line["path"], &line["method"], &line["route"]),
            (&json!("/orders"), &json!("GET"), &json!("orders"))
        );
        assert_eq!((&line["protocol"], &line["client"]), (&json!("HTTP/1.1"), &json!("127.0.0.1")));
        assert!(
            line["duration_ms"].is_number() && line["request_id"].as_str().is_some_and(|id| id.len() == 36)
        );
    }
    assert!(!envoy.log().contains("secret-of-the-query"));
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn envoys_own_log_follows_the_policy_but_for_the_rate_of_each_line() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let envoy = start("native.yaml", &echo).await?;
    let all = check_policy(&envoy, "").await?;
    let broken = all.iter().find(|line| line["status"] == 503).unwrap();
    assert_eq!((&broken["flags"], &broken["path"]), (&json!("UC"), &json!("/broken%22")));
    assert!(all.iter().all(|line| line.get("sample_rate").is_none()));
    envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn lua_follows_the_policy_but_for_what_it_cannot_know() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let envoy = start("lua.yaml", &echo).await?;
    let all = check_policy(&envoy, "script log: ").await?;
    assert!(all.iter().all(|line| line["sample_rate"] == if line["status"] == 200 { 0.1 } else { 1.0 }));
    assert!(all.iter().all(|line| line.get("flags").is_none() && line.get("bytes_sent").is_none()));
    // Who does not wait is not told of.
    let before = echo.requests();
    let mut stream = tokio::net::TcpStream::connect(envoy.listener()?).await?;
    stream.write_all(b"GET /left?delay=60000 HTTP/1.1\r\nhost: a\r\n\r\n").await?;
    tokio::time::timeout(SOON, async {
        while echo.requests() == before {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await?;
    drop(stream);
    envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    assert_eq!(envoy.stat("http.ingress.lua.errors").await?, 0);
    assert!(!envoy.log().contains("/left"));
    envoy.stop().await
}
