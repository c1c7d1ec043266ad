//! What is sent and what comes back.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Uri};
use serde_json::Value;

use super::DEFAULT_LIMIT;
use super::target::{PLACEHOLDER, Slot};

/// The protocol of a connection, in clear text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1
    #[default]
    H1,
    /// HTTP/2 with prior knowledge
    H2,
}

/// A request. The fields may be set directly or through the methods.
#[derive(Clone, Debug)]
pub struct Request {
    /// The protocol that [`send`](super::send) uses.
    pub http: Http,
    /// Any token.
    pub method: String,
    /// The request target, sent as it is. Over HTTP/2 it must be one that `hyper` can hold.
    pub path: String,
    /// `Host` or `:authority`; the address of the peer if there is none. A `host` header stands instead
    /// of it over HTTP/1.1 and beside it over HTTP/2.
    pub authority: Option<String>,
    /// Names and values, in the order in which they are sent (equal names together).
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, sent with a `content-length`.
    pub body: Vec<u8>,
    /// How long it may take from the connection to the end of the answer.
    pub limit: Duration,
}

impl Request {
    /// A request over HTTP/1.1 without headers or body.
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            http: Http::H1,
            method: method.to_owned(),
            path: path.to_owned(),
            authority: None,
            headers: Vec::new(),
            body: Vec::new(),
            limit: DEFAULT_LIMIT,
        }
    }

    /// A GET.
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// A POST with this body.
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new("POST", path) }
    }

    /// Uses this protocol.
    #[must_use]
    pub fn over(self, http: Http) -> Self {
        Self { http, ..self }
    }

    /// Adds a header, whether one of that name is there or not.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Uses this `Host` or `:authority`.
    #[must_use]
    pub fn authority(self, authority: &str) -> Self {
        Self { authority: Some(authority.to_owned()), ..self }
    }

    /// Allows this long.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub(super) fn for_http1(
        &self,
        peer: SocketAddr,
        slot: &Slot,
    ) -> anyhow::Result<hyper::Request<Full<Bytes>>> {
        // What hyper cannot hold, or would change, is put in place when it is written.
        let (uri, raw) = match self.plain_target() {
            Some(target) => (Uri::from(target), None),
            None => (Uri::from_static(PLACEHOLDER), Some(self.path.as_str())),
        };
        slot.set(raw)?;
        let mut request = self.with_uri(uri)?;
        if !request.headers().contains_key(HOST) {
            let authority = HeaderValue::from_str(&self.authority_for(peer));
            request.headers_mut().insert(HOST, authority.context("not an authority")?);
        }
        Ok(request)
    }

    pub(super) fn for_http2(&self, peer: SocketAddr) -> anyhow::Result<hyper::Request<Full<Bytes>>> {
        let target = self.plain_target();
        let target = target.with_context(|| format!("hyper cannot send {:?} over HTTP/2", self.path))?;
        let authority = self.authority_for(peer);
        let uri = Uri::builder().scheme("http").authority(authority.as_str()).path_and_query(target).build();
        self.with_uri(uri.with_context(|| format!("not an authority: {authority:?}"))?)
    }

    /// The target, if hyper would send it unchanged.
    fn plain_target(&self) -> Option<PathAndQuery> {
        self.path.parse().ok().filter(|target: &PathAndQuery| target.as_str() == self.path)
    }

    fn authority_for(&self, peer: SocketAddr) -> String {
        self.authority.clone().unwrap_or_else(|| peer.to_string())
    }

    fn with_uri(&self, uri: Uri) -> anyhow::Result<hyper::Request<Full<Bytes>>> {
        let mut request = hyper::Request::new(Full::new(Bytes::copy_from_slice(&self.body)));
        *request.uri_mut() = uri;
        let method = Method::from_bytes(self.method.as_bytes());
        *request.method_mut() = method.with_context(|| format!("not a method: {:?}", self.method))?;
        for (name, value) in &self.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes());
            let parsed = parsed.with_context(|| format!("hyper cannot send the header name {name:?}"))?;
            let value = HeaderValue::from_bytes(value)
                .with_context(|| format!("hyper cannot send the value of {name:?}"))?;
            request.headers_mut().append(parsed, value);
        }
        Ok(request)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case and values, in order of arrival, except that a repeated name is listed where
    /// it was first seen, its values in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// As the headers.
    pub trailers: Vec<(String, Vec<u8>)>,
}

impl Response {
    /// The values of a header, with what is not UTF-8 replaced. The name is in lower case.
    pub fn header(&self, name: &str) -> Vec<String> {
        let values = self.headers.iter().filter(|(candidate, _)| candidate == name);
        values.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// The body as text, with what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {:?}", self.text()))
    }
}

pub(super) fn pairs(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}
