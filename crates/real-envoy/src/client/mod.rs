//! An HTTP client for tests: it sends what it is told to, also what a good client would not.
//!
//! - [`send`] opens a connection for one request; a [`Client`] keeps one open for many.
//! - Header values may be any bytes that HTTP allows, names are sent in lower case, and repeated ones
//!   stay apart. Over HTTP/1.1 the request target may be any text without line breaks.
//! - [`send_raw`] is for everything else, such as bytes that are not HTTP at all.
//!
//! Everything is bounded in time.

mod message;
mod target;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

pub use message::{Http, Request, Response};
use target::TargetWriter;

/// How long a request may take unless it says otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(10);

/// How long [`send_raw`] listens on after the last byte of an answer.
const SILENCE: Duration = Duration::from_millis(500);

/// The largest header block taken over HTTP/2, in bytes.
const MAX_HEADER_LIST_BYTES: u32 = 256 * 1024;

/// Sends one request over a connection of its own.
pub async fn send(addr: SocketAddr, request: &Request) -> anyhow::Result<Response> {
    let exchange = async { Client::connect(addr, request.http).await?.exchange(request).await };
    within(request, exchange).await.with_context(|| format!("{} {} at {addr}", request.method, request.path))
}

/// Writes `bytes` to a new connection and returns all that comes back until the peer closes (or breaks)
/// the connection, or has been silent for half a second after its first byte. It is an error if nothing
/// happens for ten seconds. Ask for `connection: close` to be quick and sure.
pub async fn send_raw(addr: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let exchange = async {
        let mut stream = TcpStream::connect(addr).await?;
        // A peer may refuse and close before it has read everything; what it said still counts.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        loop {
            let patience = if answer.is_empty() { DEFAULT_LIMIT } else { SILENCE };
            match tokio::time::timeout(patience, stream.read_buf(&mut answer)).await {
                Ok(Ok(0)) => return Ok(answer),
                Ok(Ok(_)) => {}
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(answer),
                Ok(Err(error)) => return Err(error),
                Err(_) if answer.is_empty() => return Err(io::ErrorKind::TimedOut.into()),
                Err(_) => return Ok(answer),
            }
        }
    };
    match tokio::time::timeout(DEFAULT_LIMIT, exchange).await {
        Ok(answer) => answer.with_context(|| format!("raw bytes to {addr}")),
        Err(_) => bail!("raw bytes to {addr}: no end of the answer within {DEFAULT_LIMIT:?}"),
    }
}

/// A connection that is kept open. Dropping it closes it.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    sender: Sender,
    connection: AbortHandle,
}

#[derive(Debug)]
enum Sender {
    H1(http1::SendRequest<Full<Bytes>>, target::Slot),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// Opens a connection.
    pub async fn connect(addr: SocketAddr, http: Http) -> anyhow::Result<Self> {
        let connect = async {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            Self::handshake(addr, http, stream).await
        };
        match tokio::time::timeout(DEFAULT_LIMIT, connect).await {
            Ok(client) => client.with_context(|| format!("cannot connect to {addr}")),
            Err(_) => bail!("cannot connect to {addr} within {DEFAULT_LIMIT:?}"),
        }
    }

    async fn handshake(addr: SocketAddr, http: Http, stream: TcpStream) -> anyhow::Result<Self> {
        let (sender, connection) = match http {
            Http::H1 => {
                let slot = target::Slot::default();
                let io = TokioIo::new(TargetWriter::new(stream, slot.clone()));
                let (sender, connection) = http1::handshake(io).await?;
                (Sender::H1(sender, slot), tokio::spawn(async { drop(connection.await) }).abort_handle())
            }
            Http::H2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.max_header_list_size(MAX_HEADER_LIST_BYTES);
                let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
                (Sender::H2(sender), tokio::spawn(async { drop(connection.await) }).abort_handle())
            }
        };
        Ok(Self { addr, sender, connection })
    }

    /// Sends one request and reads the whole answer. The request's own protocol is not looked at: that
    /// of the connection holds.
    pub async fn send(&mut self, request: &Request) -> anyhow::Result<Response> {
        let addr = self.addr;
        within(request, self.exchange(request))
            .await
            .with_context(|| format!("{} {} at {addr}", request.method, request.path))
    }

    /// Whether the peer has left the connection open, as far as is known.
    pub fn is_open(&self) -> bool {
        match &self.sender {
            Sender::H1(sender, _) => !sender.is_closed(),
            Sender::H2(sender) => !sender.is_closed(),
        }
    }

    async fn exchange(&mut self, request: &Request) -> anyhow::Result<Response> {
        let response = match &mut self.sender {
            Sender::H1(sender, slot) => {
                let request = request.for_http1(self.addr, slot)?;
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::H2(sender) => {
                let request = request.for_http2(self.addr)?;
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        read(response).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

async fn read(response: hyper::Response<Incoming>) -> anyhow::Result<Response> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.with_context(|| format!("the body of a {} broke off", head.status))?;
    let trailers = body.trailers().map(message::pairs).unwrap_or_default();
    Ok(Response {
        status: head.status.as_u16(),
        headers: message::pairs(&head.headers),
        body: body.to_bytes().to_vec(),
        trailers,
    })
}

async fn within<T>(request: &Request, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    match tokio::time::timeout(request.limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => bail!("no answer within {:?}", request.limit),
    }
}
