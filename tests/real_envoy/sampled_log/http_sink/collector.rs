//! A collector of log lines that takes them well or badly, and keeps what it took.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// What is answered to a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// 200: it is taken.
    Take,
    /// The same, after a while.
    TakeLate(Duration),
    /// This status, and for how many seconds to stay away.
    Status(u16, Option<u32>),
    /// Nothing, for ever.
    Nothing,
}

/// A batch that was taken.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// Method, authority and path.
    pub(super) line: String,
    pub(super) headers: hyper::HeaderMap,
    pub(super) body: String,
}

/// The server. Dropping it stops it, and closes its connections.
pub(super) struct Collector {
    pub(super) addr: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    accepting: AbortHandle,
}

struct Shared {
    answer: Answer,
    taken: Vec<Batch>,
    asked: usize,
    at_once: usize,
    most_at_once: usize,
}

impl Collector {
    /// Listens on a free port.
    pub(super) async fn start(answer: Answer) -> anyhow::Result<Self> {
        Self::start_at("127.0.0.1:0".parse()?, answer).await
    }

    /// Listens there.
    pub(super) async fn start_at(addr: SocketAddr, answer: Answer) -> anyhow::Result<Self> {
        Self::listen(addr, answer, false).await
    }

    /// As [`start`](Self::start), and takes what has come whole even if the client has left since, which not every server
    /// does.
    pub(super) async fn start_patient(answer: Answer) -> anyhow::Result<Self> {
        Self::listen("127.0.0.1:0".parse()?, answer, true).await
    }

    async fn listen(addr: SocketAddr, answer: Answer, is_patient: bool) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let shared = Shared { answer, taken: Vec::new(), asked: 0, at_once: 0, most_at_once: 0 };
        let shared = Arc::new(Mutex::new(shared));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), is_patient)).abort_handle();
        Ok(Self { addr, shared, accepting })
    }

    /// Answers so from now on.
    pub(super) fn answer(&self, answer: Answer) {
        self.shared.lock().unwrap().answer = answer;
    }

    /// What it has taken so far.
    pub(super) fn taken(&self) -> Vec<Batch> {
        self.shared.lock().unwrap().taken.clone()
    }

    /// How many batches have come, taken or not.
    pub(super) fn asked(&self) -> usize {
        self.shared.lock().unwrap().asked
    }

    /// The most that it had at a time.
    pub(super) fn most_at_once(&self) -> usize {
        self.shared.lock().unwrap().most_at_once
    }

    /// The field `number` of every line taken, in numerical order.
    pub(super) fn numbers(&self) -> anyhow::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for batch in self.taken() {
            for line in batch.lines()? {
                numbers.push(line["number"].as_str().unwrap().parse()?);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Batch {
    /// The records of OpenTelemetry.
    pub(super) fn records(&self) -> anyhow::Result<Vec<Value>> {
        let body: Value = serde_json::from_str(&self.body)?;
        let records = body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array();
        Ok(records.cloned().unwrap_or_default())
    }

    /// The lines, whichever way they came.
    pub(super) fn lines(&self) -> anyhow::Result<Vec<Value>> {
        if self.headers["content-type"] == "application/x-ndjson" {
            return self.body.lines().map(|line| Ok(serde_json::from_str(line)?)).collect();
        }
        let records = self.records()?;
        let text = |record: &Value| record["body"]["stringValue"].as_str().unwrap().to_owned();
        records.iter().map(|record| Ok(serde_json::from_str(&text(record))?)).collect()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Mutex<Shared>>, is_patient: bool) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            let _ = hyper::server::conn::http1::Builder::new()
                .half_close(is_patient)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Counts itself as long as it is there: a client that leaves takes it away.
struct AtOnce(Arc<Mutex<Shared>>);

impl AtOnce {
    fn new(shared: Arc<Mutex<Shared>>) -> Self {
        {
            let mut shared = shared.lock().unwrap();
            shared.at_once += 1;
            shared.most_at_once = shared.most_at_once.max(shared.at_once);
        }
        Self(shared)
    }
}

impl Drop for AtOnce {
    fn drop(&mut self) {
        self.0.lock().unwrap().at_once -= 1;
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Mutex<Shared>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let _here = AtOnce::new(Arc::clone(&shared));
    let (head, body) = request.into_parts();
    let body = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
    let host = head.headers.get("host").map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let line = format!("{} {}{}", head.method, host.unwrap_or_default(), head.uri);
    let batch = Batch { line, headers: head.headers, body };
    let answer = {
        let mut shared = shared.lock().unwrap();
        shared.asked += 1;
        shared.answer
    };
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    match answer {
        Answer::Take => shared.lock().unwrap().taken.push(batch),
        Answer::TakeLate(delay) => {
            tokio::time::sleep(delay).await;
            shared.lock().unwrap().taken.push(batch);
        }
        Answer::Status(status, retry_after) => {
            *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
            if let Some(seconds) = retry_after {
                response.headers_mut().insert("retry-after", seconds.into());
            }
        }
        Answer::Nothing => std::future::pending().await,
    }
    Ok(response)
}
