//! A server that publishes keys, well or badly, and remembers who asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Bytes, Frame};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// What is answered to who asks for keys.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A set of these keys of the suite's, with these header lines.
    Keys(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// The set, after a while.
    Late(Duration, &'static [&'static str]),
    /// This status, and a text that is no set.
    Status(u16),
    /// Status 200 and this body.
    Body(Vec<u8>),
    /// Nothing, for ever.
    Nothing,
    /// Headers, the beginning of a body, and then nothing.
    HalfABody,
    /// The connection is closed.
    Close,
}

/// One question.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `if-none-match`.
    pub(crate) if_none_match: Option<String>,
    /// Method, authority and path.
    pub(crate) line: String,
}

/// The server. Dropping it stops it.
pub(crate) struct Issuer {
    addr: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    accepting: AbortHandle,
}

struct Shared {
    answer: Answer,
    asked: Vec<Asked>,
}

impl Issuer {
    /// Listens on a free port, with this answer.
    pub(crate) async fn start(answer: Answer) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared { answer, asked: Vec::new() }));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { addr, shared, accepting })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers so from now on.
    pub(crate) fn answer(&self, answer: Answer) {
        self.shared.lock().unwrap().answer = answer;
    }

    /// Who has asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.lock().unwrap().asked.clone()
    }

    /// How often it was asked so far.
    pub(crate) fn fetches(&self) -> usize {
        self.shared.lock().unwrap().asked.len()
    }

    /// Waits until it was asked this often.
    pub(crate) async fn wait_for_fetches(&self, count: usize, limit: Duration) -> anyhow::Result<()> {
        let waiting = async {
            while self.fetches() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let outcome = tokio::time::timeout(limit, waiting).await;
        outcome.with_context(|| format!("asked {} times, not {count}", self.fetches()))
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Body = BoxBody<Bytes, std::io::Error>;

async fn answer(
    request: Request<hyper::body::Incoming>,
    shared: Arc<Mutex<Shared>>,
) -> Result<Response<Body>, std::io::Error> {
    let text = |name: &str| {
        let value = request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let line = format!("{} {}{}", request.method(), text("host").unwrap_or_default(), request.uri());
    let if_none_match = text("if-none-match");
    let answer = {
        let mut shared = shared.lock().unwrap();
        shared.asked.push(Asked { if_none_match: if_none_match.clone(), line });
        shared.answer.clone()
    };
    let response = Response::builder().status(StatusCode::OK);
    let response = match answer {
        Answer::Keys(names, headers) => {
            let etag = headers.iter().find(|(name, _)| *name == "etag").map(|(_, value)| *value);
            let mut response = response;
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            if if_none_match.is_some() && if_none_match.as_deref() == etag {
                response.status(304).body(whole(Vec::new()))
            } else {
                response.body(whole(set(names)))
            }
        }
        Answer::Late(delay, names) => {
            tokio::time::sleep(delay).await;
            response.body(whole(set(names)))
        }
        Answer::Status(status) => response.status(status).body(whole(b"no keys here".to_vec())),
        Answer::Body(body) => response.body(whole(body)),
        Answer::Nothing => std::future::pending().await,
        Answer::HalfABody => response.header("content-length", "1000").body(half()),
        Answer::Close => return Err(std::io::Error::other("closed on purpose")),
    };
    response.map_err(std::io::Error::other)
}

fn set(names: &[&str]) -> Vec<u8> {
    super::jwks(&json!(names)).unwrap().to_string().into_bytes()
}

fn whole(body: Vec<u8>) -> Body {
    Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {}).boxed()
}

/// A body that begins and never ends.
fn half() -> Body {
    let mut begun = false;
    let frames = futures_util::stream::poll_fn(move |_| {
        if std::mem::replace(&mut begun, true) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{\"keys\": [")))))
    });
    http_body_util::StreamBody::new(frames).boxed()
}
