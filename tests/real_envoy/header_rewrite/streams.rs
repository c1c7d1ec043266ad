//! Many requests at once on one worker: what is kept of each is its own, and nothing is kept of those that leave.

use std::time::Duration;

use anyhow::Context as _;
use real_envoy::Options;
use real_envoy::client::{Client, Http, Request};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::HEADER_REWRITE;
use crate::suite::Gateway;

async fn start() -> anyhow::Result<Gateway> {
    let plugin = json!({ "response_mutations": [
        { "set": { "name": "x-told", "value": "%REQ(x-number)% %RESPONSE_CODE%" } },
        { "match": { "prefix": "/odd" }, "set": { "name": "x-odd", "value": "yes" } },
    ] });
    let options = Options { concurrency: 1, ..Gateway::options() };
    Gateway::start_with(&HEADER_REWRITE, &options, |config| {
        config.plugin_configuration(HEADER_REWRITE.plugin, &plugin)
    })
    .await
}

/// Responses come in another order than their requests.
#[tokio::test(flavor = "multi_thread")]
async fn each_response_is_told_of_its_own_request() -> anyhow::Result<()> {
    let gateway = start().await?;
    let addr = gateway.addr()?;
    let connection = |connection: usize| {
        tokio::spawn(async move {
            let mut client = Client::connect(addr, [Http::H1, Http::H2][connection % 2]).await?;
            for number in 0..25 {
                let is_odd = (connection + number) % 2 == 1;
                let path = if is_odd { "/odd" } else { "/even" };
                let delay = (connection * 7 + number * 11) % 20;
                let sent = format!("{connection}-{number}");
                let request = Request::get(path)
                    .header("x-number", &sent)
                    .header("x-echo-delay", delay.to_string())
                    .header("x-echo-status", if number % 3 == 0 { "404" } else { "200" });
                let answer = client.send(&request).await?;
                assert_eq!(answer.header("x-told"), [format!("{sent} {}", answer.status)]);
                assert_eq!(!answer.header("x-odd").is_empty(), is_odd);
            }
            anyhow::Ok(())
        })
    };
    let connections: Vec<_> = (0..24).map(connection).collect();
    for connection in connections {
        connection.await??;
    }
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// A client that leaves before its response has come costs nothing afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_of_those_that_leave() -> anyhow::Result<()> {
    const EACH: usize = 3000;
    const AT_ONCE: usize = 100;
    const LONG: Duration = Duration::from_secs(60);
    let gateway = start().await?;
    let addr = gateway.addr()?;
    // What is kept of one is large enough to be seen.
    let request = format!(
        "GET /odd?delay=10000 HTTP/1.1\r\nhost: gateway.example\r\nx-number: {}\r\n\r\n",
        "n".repeat(8000)
    );
    let all_gone = async || {
        let all_gone = async {
            while gateway.envoy.stat("http.ingress.downstream_cx_active").await.unwrap_or(1) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, all_gone).await.context("connections stay open")
    };
    let leave = async || {
        let before = gateway.echo.requests();
        for _ in 0..EACH / AT_ONCE {
            for _ in 0..AT_ONCE {
                let mut stream = TcpStream::connect(addr).await?;
                stream.write_all(request.as_bytes()).await?;
                stream.shutdown().await?;
            }
            // Envoy keeps the memory of the most that were ever open.
            all_gone().await?;
        }
        assert!(gateway.echo.requests() > before, "no request came to the upstream");
        gateway.resident_kilobytes()
    };
    // What was kept would be 24 MB in every round; what the allocator takes for itself comes in one or another.
    let mut rounds = vec![leave().await?];
    let is_level = |rounds: &[u64]| rounds.windows(2).any(|pair| pair[1] < pair[0] + 8000);
    while rounds.len() < 5 && !is_level(&rounds) {
        rounds.push(leave().await?);
    }
    assert!(is_level(&rounds), "kB after each {EACH}: {rounds:?}");
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}
