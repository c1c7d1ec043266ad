//! What a flood of distinct clients does to Envoy's memory: the README says how much is kept, and it stays within.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::LOCAL_RATE_LIMIT;
use crate::suite::{Gateway, hcm_mut};

/// Each with one request under way at a time: Envoy closes one with many.
const CONNECTIONS: u32 = 20;
/// However slow.
const LIMIT: Duration = Duration::from_secs(240);

/// Sends a request of each of these clients, and expects that every one passes.
async fn flood(addr: SocketAddr, clients: std::ops::Range<u32>) -> anyhow::Result<()> {
    let share = (clients.end - clients.start) / CONNECTIONS;
    let connection = |number: u32| {
        let start = clients.start + number * share;
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            let mut received = Vec::new();
            for client in start..start + share {
                stream.write_all(request_of(client).as_bytes()).await?;
                received.clear();
                while !received.ends_with(b"passed\n") {
                    ensure!(stream.read_buf(&mut received).await? > 0, "Envoy closed the connection");
                    ensure!(received.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&received));
                }
            }
            anyhow::Ok(())
        })
    };
    let all: Vec<_> = (0..CONNECTIONS).map(connection).collect();
    for connection in all {
        tokio::time::timeout(LIMIT, connection).await.context("the flood has no end")???;
    }
    Ok(())
}

fn request_of(client: u32) -> String {
    // Spread, so that neighbours are no more alike than any others.
    let address = std::net::Ipv4Addr::from(client.wrapping_mul(0x9e37_79b1));
    format!("GET / HTTP/1.1\r\nhost: gateway.example\r\nx-forwarded-for: {address}\r\n\r\n")
}

/// The gateway answers by itself, and writes no access log.
fn without_the_rest(bootstrap: &mut Value) -> anyhow::Result<()> {
    let hcm = hcm_mut(bootstrap)?;
    hcm.remove("access_log");
    hcm.insert("use_remote_address".to_owned(), false.into());
    let route = json!({
        "match": { "prefix": "/" },
        "direct_response": { "status": 200, "body": { "inline_string": "passed\n" } },
    });
    hcm["route_config"]["virtual_hosts"][0]["routes"] = json!([route]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_clients_take_no_more_than_ten_thousand() -> anyhow::Result<()> {
    let plugin = json!({ "descriptors": [{
        "entries": [{ "client_address": { "trusted_hops": 0 } }],
        "token_bucket": { "max_tokens": 5, "tokens_per_fill": 1, "fill_interval": "86400s" },
    }] });
    let gateway = Gateway::start(&LOCAL_RATE_LIMIT, |config| {
        config.plugin_configuration(LOCAL_RATE_LIMIT.plugin, &plugin)?.edit(without_the_rest)
    })
    .await?;
    let addr = gateway.addr()?;
    // Until everything that any request needs is there, the memory for keys not.
    flood(addr, 0..1000).await?;
    let mut before = gateway.resident_kilobytes()?;
    let mut grown = || {
        let now = gateway.resident_kilobytes()?;
        anyhow::Ok(now.saturating_sub(std::mem::replace(&mut before, now)))
    };
    flood(addr, 1000..41_000).await?;
    let first = grown()?;
    flood(addr, 41_000..1_000_000).await?;
    let rest = grown()?;
    println!("the first 40,000 clients: {first} kB; 959,000 more: {rest} kB");
    let counters = gateway.counters().await?;
    assert_eq!(counters["allowed.reason.within_limits"], 1_000_000);
    assert!(counters["keys_forgotten"] >= 1_000_000 - 625 * 40, "{counters:?}");
    assert!(first < 4_000, "{first} kB");
    assert!(rest < 3_000, "{rest} kB");
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}
