//! Many clients at once, and how many of their requests got which status.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use real_envoy::client::{Client, Http, Request};

use super::SOON;

/// How many requests got which status.
pub(crate) type Statuses = BTreeMap<u16, usize>;

/// Opens so many connections, waits until all are open, and then sends on each, one after the other, what `next`
/// makes of the connection's number and the request's, until it makes nothing more.
pub(crate) async fn crowd(
    addr: SocketAddr,
    connections: usize,
    next: impl Fn(usize, usize) -> Option<Request> + Send + Sync + 'static,
) -> anyhow::Result<Statuses> {
    let next = Arc::new(next);
    let ready = Arc::new(tokio::sync::Barrier::new(connections));
    let client = |connection: usize| {
        let (next, ready) = (Arc::clone(&next), Arc::clone(&ready));
        tokio::spawn(async move {
            let mut client = Client::connect(addr, Http::H1).await?;
            tokio::time::timeout(SOON, ready.wait()).await.context("not all connections could be opened")?;
            let mut statuses = Statuses::new();
            for number in 0.. {
                let Some(request) = next(connection, number) else { break };
                *statuses.entry(client.send(&request).await?.status).or_default() += 1;
            }
            anyhow::Ok(statuses)
        })
    };
    let clients: Vec<_> = (0..connections).map(client).collect();
    let mut all = Statuses::new();
    for client in clients {
        for (status, count) in client.await?? {
            *all.entry(status).or_default() += count;
        }
    }
    Ok(all)
}

/// The statuses that are expected, where no other is.
pub(crate) fn statuses(counts: &[(u16, usize)]) -> Statuses {
    counts.iter().copied().filter(|(_, count)| *count > 0).collect()
}
