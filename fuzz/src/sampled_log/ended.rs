//! A request that is over, and how one is written in an input.
//!
//! | line | what it is |
//! |---|---|
//! | `name: value` | a line of the head: of the request's, behind `@response` of the response's. Any bytes; `\r`, `\n` and `\0` are what they say |
//! | `@response: 404` | the response has this status; what follows is of it |
//! | `@flags: UF`, `@flags: 32` | one more response flag, by its name or as bits |
//! | `@duration: 1500` | it took so many milliseconds; with `ns` at the end, nanoseconds |
//! | `@grpc: 14` | Envoy's `response.grpc_status` |
//! | `@details: via_upstream`, `@upstream: 192.0.2.9:80`, `@cluster: name`, `@received: 3`, `@sent: 5` | what Envoy knows at the end |
//! | `@route: name`, `@peer: 192.0.2.1:80`, `@protocol: HTTP/2`, `@started: 1796112943014` | what it knows besides; the last in milliseconds |
//! | `@metadata: ns:name value`, `@property: foregate.jwt.sub value` | what other filters and modules have left |
//! | `@claims: {"sub": "alice"}` | the claims of a token that a filter before this one has verified |
//! | `@dice: 7` | what chance says |
//! | `@forget: response.code` | Envoy does not tell this |

use std::collections::BTreeMap;
use std::sync::Arc;

use filter_api::{Fact, Facts, HeadMap, HostMap, ResponseFlags};
use serde_json::Value;

/// When requests begin and end, unless something else is said: 1 December 2026, 08:15:43.
pub const START: u64 = 1_796_112_943_014_232_000;

/// A request that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The head of the request.
    pub request: HeadMap,
    /// The head of the response.
    pub response: HeadMap,
    /// What is known at the end, by Envoy's names.
    pub known: BTreeMap<&'static str, Vec<u8>>,
    /// The claims of a token that a filter before this one has verified.
    pub claims: Option<Value>,
    /// What other modules have left, by its name.
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
    /// What chance says.
    pub dice: u64,
}

impl Default for Ended {
    fn default() -> Self {
        let mut ended = Self {
            request: HeadMap::get("/"),
            response: HeadMap::default(),
            known: BTreeMap::new(),
            claims: None,
            properties: Vec::new(),
            metadata: Vec::new(),
            route: String::new(),
            peer: "192.0.2.1:4711".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            started: START,
            dice: 1,
        };
        ended.answer("200");
        ended.know("response.flags", 0);
        ended.know("request.duration", 12_000_000);
        ended.known.insert("response.code_details", b"via_upstream".to_vec());
        ended
    }
}

impl Ended {
    /// The host that knows of it, at this moment.
    pub fn host(&self, now: u64) -> HostMap {
        let host = HostMap { logs: true, ..HostMap::at(now) };
        host.started.set(self.started);
        host.dice.set(self.dice);
        host.properties.borrow_mut().extend(self.properties.iter().cloned());
        host.metadata.borrow_mut().extend(self.metadata.iter().cloned());
        host.route_name.replace(self.route.clone());
        host.source_address.replace(self.peer.clone());
        host.protocol.replace(self.protocol.clone());
        host.ended.borrow_mut().extend(self.known.clone());
        host
    }

    /// What filters before this one have found out.
    pub fn facts(&self) -> Facts {
        let claims =
            |claims: &Value| Fact::Claims { provider: "main".into(), claims: Arc::new(claims.clone()) };
        Facts(self.claims.iter().map(claims).collect())
    }

    /// A number that is known at the end; 0 where it is not, or is none.
    pub(super) fn number(&self, name: &str) -> u64 {
        let bytes = self.known.get(name).and_then(|bytes| bytes.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::try_from(i64::from_le_bytes(*bytes)).unwrap_or(0))
    }

    /// Takes a line of an input. What is none of the above changes nothing.
    pub(super) fn take(&mut self, of_response: &mut bool, line: &[u8]) {
        // A pseudo-header's name begins with a colon.
        let Some(colon) = line.windows(2).skip(1).position(|pair| pair == b": ") else { return };
        let (name, value) = (&line[..=colon], unescaped(&line[colon + 3..]));
        let text = || String::from_utf8_lossy(&value).into_owned();
        let number = |text: &str| text.parse::<i64>().unwrap_or(1);
        let named = || -> Option<(String, Vec<u8>)> {
            let space = value.iter().position(|byte| *byte == b' ')?;
            Some((String::from_utf8_lossy(&value[..space]).into_owned(), value[space + 1..].to_vec()))
        };
        match name {
            b"@response" => {
                *of_response = true;
                self.answer(&text());
            }
            b"@flags" => {
                let flags =
                    ResponseFlags::named(&text()).map_or_else(|| number(&text()), |flag| flag.0 as i64);
                self.know("response.flags", flags | self.number("response.flags") as i64);
            }
            b"@duration" => {
                let text = text();
                let nanos = match text.strip_suffix("ns") {
                    Some(nanos) => number(nanos),
                    None => number(&text).saturating_mul(1_000_000),
                };
                self.know("request.duration", nanos);
            }
            b"@grpc" => self.know("response.grpc_status", number(&text())),
            b"@received" => self.know("request.size", number(&text())),
            b"@sent" => self.know("response.size", number(&text())),
            b"@details" => drop(self.known.insert("response.code_details", value)),
            b"@upstream" => drop(self.known.insert("upstream.address", value)),
            b"@cluster" => drop(self.known.insert("xds.cluster_name", value)),
            b"@forget" => drop(self.known.remove(text().as_str())),
            b"@metadata" => self.metadata.extend(named()),
            b"@property" => self.properties.extend(named()),
            b"@claims" => self.claims = serde_json::from_slice(&value).ok(),
            b"@route" => self.route = text(),
            b"@peer" => self.peer = text(),
            b"@protocol" => self.protocol = text(),
            b"@started" => self.started = text().parse::<u64>().unwrap_or(0).saturating_mul(1_000_000),
            b"@dice" => self.dice = text().parse().unwrap_or(0),
            _ if name.starts_with(b"@") => {}
            _ => {
                let head = if *of_response { &mut self.response } else { &mut self.request };
                *head = with_line(head.clone(), name, &value);
            }
        }
    }

    /// The response has this status.
    pub(super) fn answer(&mut self, status: &str) {
        self.response = self.response.clone().with_only(":status", status);
        self.know("response.code", status.parse().unwrap_or(0));
    }

    /// A number is known at the end.
    pub(super) fn know(&mut self, name: &'static str, number: i64) {
        self.known.insert(name, number.to_le_bytes().to_vec());
    }
}

/// A head with one more line. There is one line of each pseudo-header.
fn with_line(head: HeadMap, name: &[u8], value: &[u8]) -> HeadMap {
    match std::str::from_utf8(name) {
        Ok(name) if name.starts_with(':') => head.with_only(name, value),
        _ => head.with(name, value),
    }
}

/// What an input, which is read line by line, writes as `\r`, `\n` and `\0`.
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
