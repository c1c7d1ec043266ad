//! Requests on and on, over several connections of both protocols, each with the answer that it should get.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use real_envoy::client::{Client, Http, Request};

/// How often each connection is opened anew.
const REQUESTS_PER_CONNECTION: usize = 50;

/// What a connection sends next, and the statuses of which it should get one.
pub(crate) type Next = Box<dyn FnMut() -> (Request, Vec<u16>) + Send>;

/// The load under way.
pub(crate) struct Load {
    sent: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    /// Starts a connection for each of these, by turns over HTTP/1.1 and HTTP/2.
    pub(crate) fn start(addr: SocketAddr, connections: Vec<Next>) -> Self {
        let (sent, stopping) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let tasks = connections.into_iter().enumerate().map(|(number, next)| {
            let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
            tokio::spawn(run(addr, http, next, Arc::clone(&sent), Arc::clone(&stopping)))
        });
        let tasks = tasks.collect();
        Self { sent, stopping, tasks }
    }

    /// Waits until so many more requests were sent.
    pub(crate) async fn wait_for_requests(&self, more: u64) -> anyhow::Result<()> {
        let wanted = self.sent.load(Ordering::Relaxed) + more;
        let waiting = async {
            while self.sent.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.context("the load has come to a halt")
    }

    /// How many requests were sent, and what became of those that got another answer.
    pub(crate) async fn stop(self) -> anyhow::Result<(u64, Vec<String>)> {
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
    mut next: Next,
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
            let (request, statuses) = next();
            match client.send(&request).await {
                Ok(response) if statuses.contains(&response.status) => {}
                Ok(response) => {
                    failed.push(format!(
                        "{http:?}: {}, not {statuses:?}: {}",
                        response.status,
                        response.text()
                    ));
                }
                Err(error) => failed.push(format!("{http:?}: {error:#}")),
            }
        }
    }
    failed
}
