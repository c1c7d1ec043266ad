//! An upstream for demos, tests and benchmarks: answers each request with what it received, as JSON.
//!
//! It speaks HTTP/1.1 and HTTP/2 (prior knowledge) in clear text on one port. What the JSON holds is
//! said in [`answer`]; how a request asks for another answer (a status, a delay, a body of some size,
//! a broken connection) is said in [`control`].

pub mod answer;
mod connection;
pub mod control;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use crate::stop::StopSignals;

/// Serve what was received, as JSON, over HTTP/1.1 and HTTP/2 (prior knowledge)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
}

/// Runs `foregate echo` until SIGINT or SIGTERM.
pub fn run(args: &Args) -> anyhow::Result<()> {
    tokio::runtime::Runtime::new().context("cannot start the runtime")?.block_on(async {
        let mut stop = StopSignals::new()?;
        let echo = Echo::start(args.listen).await?;
        println!("echo: listening on http://{}", echo.addr());
        stop.received().await
    })
}

/// A running server. Dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct Echo {
    addr: SocketAddr,
    requests: Arc<AtomicU64>,
    accepting: AbortHandle,
}

impl Echo {
    /// Binds `addr` (port 0 takes a free one) and serves on the current runtime. Ready when this returns.
    pub async fn start(addr: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr}"))?;
        let addr = listener.local_addr().with_context(|| format!("no local address for {addr}"))?;
        let requests = Arc::new(AtomicU64::new(0));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&requests))).abort_handle();
        Ok(Self { addr, requests, accepting })
    }

    /// The address that it listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests were seen so far, counted when their head has arrived.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // The task owns the set of connections, which are aborted with it.
        self.accepting.abort();
    }
}

/// Accepts for ever. The connections live in a set owned by this future, so that they end when it does.
async fn accept(listener: TcpListener, requests: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // A set that were never emptied would keep every finished connection.
                while connections.try_join_next().is_some() {}
                connections.spawn(connection::serve(stream, Arc::clone(&requests)));
            }
            // Out of descriptors, most likely: wait for some to be closed instead of spinning.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[cfg(test)]
mod tests;
