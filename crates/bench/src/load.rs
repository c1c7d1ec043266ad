//! The load: a few connections, each of which sends its next request when it has the answer to the last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::workload::{Answer, Sent, Workload};

/// How many requests are under way at any time, each on a connection of its own that is kept open.
pub(crate) const CONNECTIONS: usize = 4;

/// However slow: a run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

type Request = hyper::Request<Empty<Bytes>>;

/// The requests of a workload, ready to be sent, in a circle: where one run ends the next goes on.
#[derive(Debug)]
pub(crate) struct Requests {
    all: Vec<Request>,
    next: AtomicUsize,
}

impl Requests {
    pub(crate) fn of(workload: &Workload) -> anyhow::Result<Self> {
        let request = |sent: &Sent| {
            let mut request = hyper::Request::get(sent.path)
                .header(HOST, "gateway.example")
                .header(USER_AGENT, "foregate-bench/1")
                .header("accept", "application/json")
                .header("accept-encoding", "gzip, deflate, br")
                .header("x-forwarded-for", "203.0.113.7")
                .body(Empty::new())?;
            for (name, value) in &sent.headers {
                let name = HeaderName::from_static(name);
                request.headers_mut().insert(name, HeaderValue::from_str(value)?);
            }
            anyhow::Ok(request)
        };
        let all: Vec<_> = workload.requests.iter().map(request).collect::<anyhow::Result<_>>()?;
        ensure!(!all.is_empty(), "{} has no requests", workload.name);
        Ok(Self { all, next: AtomicUsize::new(0) })
    }

    fn next(&self) -> Option<Request> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.get(number.checked_rem(self.all.len())?).cloned()
    }
}

/// Sends this many requests. Any answer but the expected one is an error.
pub(crate) async fn run(
    address: SocketAddr,
    requests: &Arc<Requests>,
    count: usize,
    expected: Answer,
) -> anyhow::Result<()> {
    let sent = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (requests, sent) = (Arc::clone(requests), Arc::clone(&sent));
        connections.spawn(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let driver = tokio::spawn(connection);
            while sent.fetch_add(1, Ordering::Relaxed) < count {
                let request = requests.next().context("there are no requests")?;
                sender.ready().await?;
                check(sender.send_request(request).await?, expected).await?;
            }
            driver.abort();
            anyhow::Ok(())
        });
    }
    let all = async {
        while let Some(connection) = connections.join_next().await {
            connection.context("a connection panicked")??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, all).await.with_context(|| format!("no end within {LIMIT:?}"))?
}

async fn check(response: hyper::Response<hyper::body::Incoming>, expected: Answer) -> anyhow::Result<()> {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(
        status == expected.status && body == expected.body,
        "the run is void: an answer was {status} {:?} and not {} {:?}",
        String::from_utf8_lossy(&body),
        expected.status,
        expected.body
    );
    Ok(())
}
