//! The JSON answer and the bodies that carry it.
//!
//! ```json
//! {"method": "GET", "path": "/a?b=c", "authority": "example.com", "version": "HTTP/1.1",
//!  "headers": [["accept", "*/*"], ["x-raw", {"base64": "/w=="}]], "body_bytes": 0}
//! ```
//! - `path` is the request target as received, the query included.
//! - What the HTTP library does by itself: a fragment, which no client should send, is cut off; a target
//!   with `<`, `>`, `` ` `` or bytes that are not UTF-8 (in the query also `"`), and a request with more
//!   than 100 headers over HTTP/1.1, get an empty 400 or 431.
//! - `authority` is `:authority`, or `Host`, or null.
//! - `headers` has lower-case names in order of arrival, except that a repeated name is listed where it
//!   was first seen, its values in order. A value that is not UTF-8 becomes `{"base64": "..."}`.
//! - `body_bytes` counts the body without its framing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64ct::Encoding as _;
use hyper::Version;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::HOST;
use hyper::http::request::Parts;
use tokio::time::Sleep;

/// What a generated body consists of; sent over and over, never copied.
static FILLER: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// How long a body that breaks off waits first, so that what was already written reaches the peer.
const BEFORE_BREAKING_OFF: Duration = Duration::from_millis(20);

/// What the request was, as the JSON described above.
pub fn json(head: &Parts, body_bytes: u64) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"{\"method\":");
    string(&mut out, head.method.as_str());
    out.extend_from_slice(b",\"path\":");
    target(&mut out, head);
    out.extend_from_slice(b",\"authority\":");
    match (head.uri.authority(), head.headers.get(HOST)) {
        (Some(authority), _) => string(&mut out, authority.as_str()),
        (None, Some(host)) => value(&mut out, host.as_bytes()),
        (None, None) => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"version\":");
    string(&mut out, if head.version == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" });
    out.extend_from_slice(b",\"headers\":[");
    for (position, (name, content)) in head.headers.iter().enumerate() {
        out.extend_from_slice(if position == 0 { b"[" } else { b",[" });
        string(&mut out, name.as_str());
        out.push(b',');
        value(&mut out, content.as_bytes());
        out.push(b']');
    }
    out.extend_from_slice(b"],\"body_bytes\":");
    out.extend_from_slice(body_bytes.to_string().as_bytes());
    out.extend_from_slice(b"}\n");
    out.into()
}

fn target(out: &mut Vec<u8>, head: &Parts) {
    match head.uri.path_and_query() {
        // HTTP/2 has scheme and authority in fields of their own; in HTTP/1.1 they are part of the target.
        Some(target) if head.version == Version::HTTP_2 || head.uri.authority().is_none() => {
            string(out, target.as_str());
        }
        _ => string(out, &head.uri.to_string()),
    }
}

fn value(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => string(out, text),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":");
            string(out, &base64ct::Base64::encode_string(bytes));
            out.push(b'}');
        }
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Writing a string to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// The body of an answer, of a length known beforehand.
#[derive(Debug)]
pub struct AnswerBody {
    content: Content,
    /// What `content-length` says, also when the body breaks off before.
    announced: u64,
    sent: u64,
    breaks_off: Option<BreaksOff>,
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    Filler,
}

#[derive(Debug)]
struct BreaksOff {
    after: u64,
    pause: Option<Pin<Box<Sleep>>>,
}

impl AnswerBody {
    /// No bytes at all.
    pub fn empty() -> Self {
        Self::of_bytes(Bytes::new())
    }

    /// These bytes.
    pub fn of_bytes(bytes: Bytes) -> Self {
        let announced = bytes.len() as u64;
        Self { content: Content::Bytes(bytes), announced, sent: 0, breaks_off: None }
    }

    /// `size` bytes of filler, made as they are sent.
    pub fn of_size(size: u64) -> Self {
        Self { content: Content::Filler, announced: size, sent: 0, breaks_off: None }
    }

    /// The same body, but failing after half of its bytes.
    pub fn breaking_off_halfway(mut self) -> Self {
        self.breaks_off = Some(BreaksOff { after: self.announced / 2, pause: None });
        self
    }

    /// The length that it announces.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    fn next_chunk(&self, most: u64) -> Bytes {
        let at_most = |length: usize| usize::try_from(most).map_or(length, |most| most.min(length));
        match &self.content {
            Content::Bytes(bytes) => bytes.slice(..at_most(bytes.len())),
            Content::Filler => {
                let (chunk, _) = FILLER.split_at(at_most(FILLER.len()));
                Bytes::from_static(chunk)
            }
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let end = self.breaks_off.as_ref().map_or(self.announced, |breaks_off| breaks_off.after);
        if self.sent < end {
            let chunk = self.next_chunk(end - self.sent);
            self.sent += chunk.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        let Some(breaks_off) = &mut self.breaks_off else { return Poll::Ready(None) };
        let pause = breaks_off.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(BEFORE_BREAKING_OFF)));
        ready!(pause.as_mut().poll(cx));
        Poll::Ready(Some(Err(io::Error::other("breaking off halfway, as asked"))))
    }

    fn is_end_stream(&self) -> bool {
        self.breaks_off.is_none() && self.sent >= self.announced
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced.saturating_sub(self.sent))
    }
}
