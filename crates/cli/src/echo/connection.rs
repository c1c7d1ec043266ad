//! One connection: each request is counted, drained, and answered as its controls say.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Poll;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use super::answer::{self, AnswerBody};
use super::control::{Close, Control};

/// How many streams of one HTTP/2 connection may be open at once: enough for any load generator.
const MAX_CONCURRENT_STREAMS: u32 = 1024;

/// The largest header block taken over HTTP/2, in bytes; HTTP/1.1 takes about as much by default.
const MAX_HEADER_LIST_BYTES: u32 = 256 * 1024;

/// What the requests of a connection want to become of it; the boldest wish wins.
#[derive(Default)]
struct Fate(AtomicU8);

impl Fate {
    const FINISH: u8 = 1;
    const DROP: u8 = 2;

    fn wish(&self, fate: u8) {
        self.0.fetch_max(fate, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(stream: TcpStream, requests: Arc<AtomicU64>) {
    // Small answers must not wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    let fate = Arc::new(Fate::default());
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST_BYTES);
    let service = service_fn({
        let fate = Arc::clone(&fate);
        move |request| {
            requests.fetch_add(1, Ordering::Relaxed);
            let fate = Arc::clone(&fate);
            async move { answer(request, &fate).await }
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut finishing = false;
    poll_fn(|cx| {
        loop {
            if fate.get() == Fate::DROP {
                return Poll::Ready(());
            }
            // Errors are the peer's business: it broke off, or was told to see an answer break off.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            match fate.get() {
                Fate::DROP => return Poll::Ready(()),
                Fate::FINISH if !finishing => {
                    finishing = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ => return Poll::Pending,
            }
        }
    })
    .await;
}

/// Answers one request. An error ends the connection (HTTP/1.1) or the stream (HTTP/2).
async fn answer(request: Request<Incoming>, fate: &Fate) -> io::Result<Response<AnswerBody>> {
    let (head, body) = request.into_parts();
    let body_bytes = drain(body).await?;
    let control = match Control::of_request(&head.uri, &head.headers) {
        Ok(control) => control,
        Err(problem) => return Ok(bad_control(&problem)),
    };
    if let Some(delay) = control.delay {
        tokio::time::sleep(delay).await;
    }
    if control.close == Some(Close::Before) {
        fate.wish(Fate::DROP);
        // The error ends the connection by itself over HTTP/1.1, and wakes its task over HTTP/2.
        return Err(io::Error::other("closing without an answer, as asked"));
    }

    let status = control.status.unwrap_or(StatusCode::OK);
    let mut body = match control.size {
        // RFC 9110: these have no content.
        _ if matches!(status.as_u16(), 204 | 205 | 304) => AnswerBody::empty(),
        Some(size) => AnswerBody::of_size(size),
        None => AnswerBody::of_bytes(answer::json(&head, body_bytes)),
    };
    let announced = body.announced();
    if head.method == Method::HEAD {
        body = AnswerBody::empty();
    } else if control.close == Some(Close::During) {
        body = body.breaking_off_halfway();
    }

    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if !matches!(status.as_u16(), 204 | 304) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(announced));
    }
    let json = control.size.is_none() && announced > 0;
    for (name, value) in control.headers {
        headers.append(name, value);
    }
    if announced > 0 && !headers.contains_key(CONTENT_TYPE) {
        let kind = if json { "application/json" } else { "application/octet-stream" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if control.close == Some(Close::After) {
        if head.version != Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        fate.wish(Fate::FINISH);
    }
    Ok(response)
}

/// Reads the body to its end and says how many bytes it had.
async fn drain(mut body: Incoming) -> io::Result<u64> {
    let mut bytes = 0;
    if body.is_end_stream() {
        return Ok(bytes);
    }
    while let Some(frame) = body.frame().await {
        bytes += frame.map_err(io::Error::other)?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(bytes)
}

fn bad_control(problem: &str) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::of_bytes(Bytes::from(format!("{problem}\n"))));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
