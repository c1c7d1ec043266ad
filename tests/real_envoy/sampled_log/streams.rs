//! Requests that end otherwise than by an answer: an upstream that is gone, a client that leaves, a connection that
//! becomes another.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use real_envoy::client::{self, Request};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::end;
use super::fields::{check, start};
use crate::suite::{SOON, Setup};

in_lists! {
    an_upstream_that_is_gone_is_told_of: in_a_list OnlyInList, among_others AmongOthers;
    a_client_that_leaves_is_told_of: in_a_list OnlyInList, among_others AmongOthers;
    an_upgraded_connection_is_told_of_at_its_end: in_a_list OnlyInList, among_others AmongOthers;
}

/// Where nobody listens.
async fn nobody() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

async fn an_upstream_that_is_gone_is_told_of(setup: Option<Setup>) -> anyhow::Result<()> {
    let dead = nobody().await?;
    let gateway = start(setup, &[("dead", dead)]).await?;
    let answer = client::send(gateway.addr()?, &Request::get("/dead").header("x-number", "1")).await?;
    assert_eq!(answer.status, 503);
    let line = check(
        &gateway,
        "1",
        json!({
            "status": 503, "flags": "UF", "cluster": "dead", "route": "dead", "upstream": dead.to_string(),
            "refused_by": null, "reason": null, "why": "always", "sample_rate": 1,
        }),
    )
    .await?;
    let details = line["details"].as_str().unwrap();
    assert!(details.starts_with("upstream_reset_before_response_started{"), "{details}");
    end(gateway).await
}

async fn a_client_that_leaves_is_told_of(setup: Option<Setup>) -> anyhow::Result<()> {
    let gateway = start(setup, &[]).await?;
    // What a property of Envoy's tells is the content-length, where there is one, and not what came.
    let rows = [
        (
            "before-the-answer",
            "GET /up?delay=60000 HTTP/1.1\r\nhost: a\r\nx-number: before-the-answer\r\n\r\n",
            0,
        ),
        (
            "with-half-a-body",
            "POST /up HTTP/1.1\r\nhost: a\r\nx-number: with-half-a-body\r\ncontent-length: 5\r\n\r\nab",
            5,
        ),
    ];
    for (name, request, received) in rows {
        let before = gateway.echo.requests();
        let mut stream = TcpStream::connect(gateway.addr()?).await?;
        stream.write_all(request.as_bytes()).await?;
        let arrived = async {
            while gateway.echo.requests() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, arrived).await.context(name)?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(stream);
        let expected = json!({
            "status": 0, "flags": "DC", "bytes_received": received, "bytes_sent": 0, "route": "up",
            "refused_by": null, "why": "always",
        });
        let line = check(&gateway, name, expected).await?;
        assert!(line["duration_ms"].as_f64().is_some_and(|ms| ms >= 100.0), "{line}");
    }
    end(gateway).await
}

/// Takes an upgrade, says a word and hears one.
async fn switching_protocols() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await? == 0 {
                    break;
                }
            }
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello")
                .await?;
            let mut said = [0; 4];
            stream.read_exact(&mut said).await?;
        }
        std::io::Result::Ok(())
    });
    Ok(address)
}

async fn an_upgraded_connection_is_told_of_at_its_end(setup: Option<Setup>) -> anyhow::Result<()> {
    let switches = switching_protocols().await?;
    let gateway = start(setup, &[("switches", switches)]).await?;
    let mut stream = TcpStream::connect(gateway.addr()?).await?;
    stream
        .write_all(b"GET /switches HTTP/1.1\r\nhost: a\r\nx-number: 1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        .await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        assert!(tokio::time::timeout(SOON, stream.read_buf(&mut answer)).await?? > 0, "{answer:?}");
    }
    assert!(super::lines(&gateway.envoy)?.is_empty());
    stream.write_all(b"word").await?;
    tokio::time::timeout(SOON, stream.read_buf(&mut answer)).await??;
    drop(stream);
    check(&gateway, "1", json!({ "status": 101, "bytes_received": 4, "bytes_sent": 5 })).await?;
    end(gateway).await
}
