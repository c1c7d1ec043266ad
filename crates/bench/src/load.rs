//! The load: a few connections, each of which sends its next request when it has the answer to the last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

use crate::workload::{Answer, Sent, Workload};

/// How many requests are under way at any time, each on a connection of its own that is kept open.
pub const CONNECTIONS: usize = 4;

/// However slow: a run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// A request as it is sent.
pub type Request = hyper::Request<Empty<Bytes>>;

/// What must come back.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    status: u16,
    /// None where any will do.
    body: Option<&'static str>,
}

/// The requests of a workload, ready to be sent, in a circle: where one run ends the next goes on.
#[derive(Debug)]
pub struct Requests {
    all: Vec<(Request, Wanted)>,
    next: AtomicUsize,
}

impl Requests {
    /// Those of a workload, in its order, for one who must answer `expected` of what is asked of the others.
    pub fn of(workload: &Workload, expected: impl Fn(Answer) -> Answer) -> anyhow::Result<Self> {
        let answer = |sent: &Sent| expected(sent.expected.unwrap_or(workload.expected));
        Self::from_sent(&workload.requests, answer).with_context(|| workload.name)
    }

    /// These, each with the answer that it must get.
    pub(crate) fn from_sent(all: &[Sent], answer: impl Fn(&Sent) -> Answer) -> anyhow::Result<Self> {
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
            let Answer { status, body } = answer(sent);
            anyhow::Ok((request, Wanted { status, body: Some(body) }))
        };
        let all: Vec<_> = all.iter().map(request).collect::<anyhow::Result<_>>()?;
        ensure!(!all.is_empty(), "there are no requests");
        Ok(Self { all, next: AtomicUsize::new(0) })
    }

    /// One request, again and again, whose answer must have this status and may have any body.
    pub fn same(request: Request, status: u16) -> Self {
        Self { all: vec![(request, Wanted { status, body: None })], next: AtomicUsize::new(0) }
    }

    /// The only one with the status of its answer, where all that is sent is the same.
    pub(crate) fn only(&self) -> Option<(&Request, u16)> {
        match self.all.as_slice() {
            [(only, wanted)] => Some((only, wanted.status)),
            _ => None,
        }
    }

    fn next(&self) -> Option<(Request, Wanted)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.get(number.checked_rem(self.all.len())?).cloned()
    }
}

/// A connection that is kept open until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: tokio::spawn(async { drop(connection.await) }).abort_handle() })
    }

    /// Sends the next request, and looks at its answer.
    pub(crate) async fn exchange(&mut self, requests: &Requests) -> anyhow::Result<()> {
        let (request, expected) = requests.next().context("there are no requests")?;
        self.sender.ready().await?;
        check(self.sender.send_request(request).await?, expected).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Sends this many requests. Any answer but the expected one is an error.
pub async fn run(address: SocketAddr, requests: &Arc<Requests>, count: usize) -> anyhow::Result<()> {
    run_over(CONNECTIONS, address, requests, count).await
}

/// The same with another number of connections.
pub(crate) async fn run_over(
    connections: usize,
    address: SocketAddr,
    requests: &Arc<Requests>,
    count: usize,
) -> anyhow::Result<()> {
    let sent = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for _ in 0..connections {
        let (requests, sent) = (Arc::clone(requests), Arc::clone(&sent));
        running.spawn(async move {
            let mut connection = Connection::open(address).await?;
            while sent.fetch_add(1, Ordering::Relaxed) < count {
                connection.exchange(&requests).await?;
            }
            anyhow::Ok(())
        });
    }
    let all = async {
        while let Some(connection) = running.join_next().await {
            connection.context("a connection panicked")??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, all).await.with_context(|| format!("no end within {LIMIT:?}"))?
}

async fn check(response: hyper::Response<hyper::body::Incoming>, wanted: Wanted) -> anyhow::Result<()> {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    let as_wanted = status == wanted.status && wanted.body.is_none_or(|wanted| body == wanted);
    ensure!(
        as_wanted,
        "the run is void: an answer was {status} {:?} and not {} {:?}",
        String::from_utf8_lossy(&body),
        wanted.status,
        wanted.body.unwrap_or("with any body")
    );
    Ok(())
}
