//! A request, its response, and what a host knows beside them; and how both are written in an input.
//!
//! | line | what it is |
//! |---|---|
//! | `name: value` | a line of the head: of the request's, behind `@response` of the response's |
//! | `@response: 404` | the response has this status; what follows is of it |
//! | `@metadata: ns:name value` | dynamic metadata that another filter has left |
//! | `@property: sub value` | a claim that another module has verified |
//! | `@claims: {"sub": "alice"}` | the claims of a token that a filter before this one has verified |
//! | `@route: name`, `@peer: 192.0.2.1:80`, `@protocol: HTTP/2`, `@started: 1796112943014` | what Envoy knows; the last in milliseconds |

use std::sync::Arc;

use filter_api::{Fact, Facts, Head, HeadMap, HeaderName, HostMap};
use serde_json::Value;

/// A request, its response, and what a host knows beside them.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The head of the request.
    pub request: HeadMap,
    /// The head of the response.
    pub response: HeadMap,
    /// The claims of a token that a filter before this one has verified.
    pub claims: Option<Value>,
    /// What other modules have found out, by the names of properties.
    pub properties: Vec<(String, Vec<u8>)>,
    /// Dynamic metadata, by namespace and names joined by colons.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// Envoy's `xds.route_name`.
    pub route: String,
    /// Envoy's `source.address`; nobody knows where it is empty.
    pub peer: String,
    /// Envoy's `request.protocol`.
    pub protocol: String,
    /// When the request began, in nanoseconds since 1970.
    pub started: u64,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            request: HeadMap::get("/"),
            response: HeadMap::default().with(":status", "200"),
            claims: None,
            properties: Vec::new(),
            metadata: Vec::new(),
            route: String::new(),
            peer: "192.0.2.1:4711".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            started: 1_796_112_943_014_000_000,
        }
    }
}

impl Exchange {
    /// The host that knows it.
    pub fn host(&self) -> HostMap {
        let host = HostMap::at(self.started);
        host.properties.borrow_mut().extend(self.properties.iter().cloned());
        host.metadata.borrow_mut().extend(self.metadata.iter().cloned());
        host.route_name.replace(self.route.clone());
        host.source_address.replace(self.peer.clone());
        host.protocol.replace(self.protocol.clone());
        host
    }

    /// What filters before this one have found out.
    pub fn facts(&self) -> Facts {
        let claims =
            |claims: &Value| Fact::Claims { provider: "main".into(), claims: Arc::new(claims.clone()) };
        Facts(self.claims.iter().map(claims).collect())
    }

    /// Whether every value of both heads can be written again, as is so of all that Envoy lets in.
    pub fn is_fit(&self) -> bool {
        let is_fit = |head: &HeadMap| {
            head.lines().all(|(_, value)| value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()))
        };
        is_fit(&self.request) && is_fit(&self.response)
    }

    /// Takes a line of an input. What is none of the above changes nothing.
    pub(super) fn take(&mut self, of_response: &mut bool, line: &[u8]) {
        let Some(colon) = line.windows(2).position(|pair| pair == b": ") else { return };
        let Ok(name) = std::str::from_utf8(&line[..colon]) else { return };
        let mut value = line[colon + 2..].to_vec();
        // Envoy hands over no value with one of these bytes.
        value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        let text = || String::from_utf8_lossy(&value).into_owned();
        let named = || -> Option<(String, Vec<u8>)> {
            let space = value.iter().position(|byte| *byte == b' ')?;
            Some((String::from_utf8_lossy(&value[..space]).into_owned(), value[space + 1..].to_vec()))
        };
        match name {
            "@response" => {
                *of_response = true;
                self.response = self.response.clone().with_only(":status", &value);
            }
            "@metadata" => self.metadata.extend(named().map(|(name, value)| (name, unescaped(&value)))),
            "@property" => self
                .properties
                .extend(named().map(|(name, value)| (format!("foregate.jwt.{name}"), unescaped(&value)))),
            "@claims" => self.claims = serde_json::from_slice(&value).ok(),
            "@route" => self.route = text(),
            "@peer" => self.peer = text(),
            "@protocol" => self.protocol = text(),
            "@started" => self.started = text().parse::<u64>().unwrap_or(0).saturating_mul(1_000_000),
            _ => {
                let Ok(name) = HeaderName::new(name) else { return };
                let head = if *of_response { &mut self.response } else { &mut self.request };
                *head = with_line(head.clone(), name.as_str(), &value);
            }
        }
    }
}

/// A head with one more line. There is one line of each pseudo-header.
pub fn with_line(head: HeadMap, name: &str, value: &[u8]) -> HeadMap {
    if name.starts_with(':') { head.with_only(name, value) } else { head.with(name, value) }
}

/// What no client sends may hold line ends, which an input writes as `\r` and `\n`.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = match (byte, bytes.peek()) {
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b'0')) => Some(0),
            _ => None,
        };
        if escaped.is_some() {
            bytes.next();
        }
        out.push(escaped.unwrap_or(byte));
    }
    out
}
