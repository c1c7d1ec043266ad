//! Configuration updates while requests run: a bad one changes nothing, a good one takes over, and no
//! request fails through either.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use real_envoy::client::{self, Client, Http, Request};
use real_envoy::{Config, Update};
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::Gateway;

/// Connections of each protocol under load, and how often each of them is opened anew.
const CONNECTIONS: usize = 3;
const REQUESTS_PER_CONNECTION: usize = 50;

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

    let load = Load::start(addr)?;
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

/// Requests with good tokens, on and on.
struct Load {
    sent: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(addr: SocketAddr) -> anyhow::Result<Self> {
        let (sent, stopping) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = Vec::new();
        for number in 0..2 * CONNECTIONS {
            let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
            let key = if number % 3 == 0 { "rsa" } else { "p256" };
            let token =
                jwt::token::make(&json!({ "key": key, "claims": { "sub": format!("client-{number}") } }))?;
            let request = Request::get("/load").over(http).header("authorization", format!("Bearer {token}"));
            tasks.push(tokio::spawn(run(addr, http, request, Arc::clone(&sent), Arc::clone(&stopping))));
        }
        Ok(Self { sent, stopping, tasks })
    }

    /// Waits until so many more requests were sent.
    async fn wait_for_requests(&self, more: u64) -> anyhow::Result<()> {
        let wanted = self.sent.load(Ordering::Relaxed) + more;
        let waiting = async {
            while self.sent.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.context("the load has come to a halt")
    }

    /// How many requests were sent, and what became of those that failed.
    async fn stop(self) -> anyhow::Result<(u64, Vec<String>)> {
        self.stopping.store(true, Ordering::Relaxed);
        let mut failed = Vec::new();
        for task in self.tasks {
            failed.extend(task.await?);
        }
        Ok((self.sent.load(Ordering::Relaxed), failed))
    }
}

async fn run(
    addr: SocketAddr,
    http: Http,
    request: Request,
    sent: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
) -> Vec<String> {
    let mut failed = Vec::new();
    while !stopping.load(Ordering::Relaxed) {
        let mut client = match Client::connect(addr, http).await {
            Ok(client) => client,
            Err(error) => {
                failed.push(format!("{http:?}: {error:#}"));
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        for _ in 0..REQUESTS_PER_CONNECTION {
            if stopping.load(Ordering::Relaxed) || !client.is_open() {
                break;
            }
            sent.fetch_add(1, Ordering::Relaxed);
            match client.send(&request).await {
                Ok(response) if response.status == 200 => {}
                Ok(response) => failed.push(format!("{http:?}: {}: {}", response.status, response.text())),
                Err(error) => failed.push(format!("{http:?}: {error:#}")),
            }
        }
    }
    failed
}
