//! Templates, evaluated as they are read.

use filter_api::ClaimPath;
use filter_api::ClaimText;
use filter_api::template::TimeFormat;

use super::super::exchange::Exchange;
use super::{Message, fit};

/// The lines of a name that is not there.
pub(super) const NO_BYTES: &[Vec<u8>] = &[];

/// The most bytes of a value.
pub(super) const MOST_BYTES: usize = 65_536;

/// Why there is nothing to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Fault {
    /// A value is missing.
    Missing,
    /// It is too long.
    TooLong,
    /// It cannot be written.
    Invalid,
}

/// What values are taken from.
pub(in super::super) struct Source<'s> {
    pub(in super::super) exchange: &'s Exchange,
    /// The request: as it stands, or as it was sent where there is a response.
    pub(in super::super) request: &'s Message,
    /// The response as it stands.
    pub(in super::super) response: Option<&'s Message>,
}

/// A part of a template.
#[derive(Debug)]
pub(super) enum Part<'t> {
    Text(String),
    Operator { name: &'t str, argument: &'t str, most: Option<usize> },
}

/// The parts of a template.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        literal.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            literal.push('%');
            rest = after;
            continue;
        }
        if !literal.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut literal)));
        }
        let end = after.find(['(', ':', '%']).unwrap();
        let (name, mut after) = after.split_at(end);
        let mut argument = "";
        if let Some(inner) = after.strip_prefix('(') {
            (argument, after) = inner.split_once(')').unwrap();
        }
        let (length, after) = after.split_once('%').unwrap();
        let most = length.strip_prefix(':').map(|digits| digits.parse().unwrap());
        parts.push(Part::Operator { name, argument, most });
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    parts
}

/// Whether a value in it comes from what no client can send.
pub(super) fn is_of_trusted_origin(text: &str) -> bool {
    parts(text).iter().any(|part| matches!(part, Part::Operator { name: "CLAIM" | "DYNAMIC_METADATA", .. }))
}

impl Source<'_> {
    /// The value of a template; `write` makes of each operator's value what is written in its place, and is told
    /// whether that is a path.
    pub(in super::super) fn value(
        &self,
        text: &str,
        keep_empty: bool,
        write: impl Fn(&[u8], Kind) -> Vec<u8>,
    ) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        let mut missing = false;
        let mut unfit = false;
        for part in parts(text) {
            match self.part(&part, &write) {
                Ok(bytes) => out.extend(bytes),
                Err(Fault::Missing) => missing = true,
                Err(_) => unfit = true,
            }
        }
        if unfit {
            return Err(Fault::Invalid);
        }
        if (missing || out.is_empty()) && !keep_empty {
            return Err(Fault::Missing);
        }
        if out.len() > MOST_BYTES { Err(Fault::TooLong) } else { Ok(out) }
    }

    /// The value of a part.
    pub(super) fn part(
        &self,
        part: &Part<'_>,
        write: impl Fn(&[u8], Kind) -> Vec<u8>,
    ) -> Result<Vec<u8>, Fault> {
        match part {
            Part::Text(text) => Ok(write(text.as_bytes(), Kind::Text)),
            Part::Operator { name, argument, most } => {
                let value = self.operator(name, argument)?;
                let cut = most.filter(|most| *most < value.len()).map_or(&value[..], |most| &value[..most]);
                let kind = if is_path(name, argument) { Kind::Path } else { Kind::Value };
                Ok(write(cut, kind))
            }
        }
    }

    fn operator(&self, name: &str, argument: &str) -> Result<Vec<u8>, Fault> {
        let first = |message: Option<&Message>, name: &str| {
            message?.get(&name.to_ascii_lowercase())?.first().cloned()
        };
        let request = |name: &str| first(Some(self.request), name);
        let host = |name: &str| match name {
            "host" | "Host" => ":authority".to_owned(),
            other => other.to_owned(),
        };
        let given = |value: Option<Vec<u8>>| value.ok_or(Fault::Missing);
        match name {
            "REQ" => {
                let mut names = argument.split('?').map(host);
                let (one, other) = (names.next().unwrap(), names.next().filter(|name| !name.is_empty()));
                given(request(&one).or_else(|| request(&other?)))
            }
            "RESP" => {
                let mut names = argument.split('?');
                let (one, other) = (names.next().unwrap(), names.next().filter(|name| !name.is_empty()));
                given(first(self.response, one).or_else(|| first(self.response, other?)))
            }
            "PATH" => {
                let (query, which) = argument.split_once(':').unwrap_or((argument, ""));
                let (original, path) = (request("x-envoy-original-path"), request(":path"));
                let value = given(match which {
                    "ORIG" => original,
                    "PATH" => path,
                    // A path is never empty: such a header tells of none.
                    _ => original.filter(|original| !original.is_empty()).or(path),
                })?;
                let end = value.iter().position(|byte| *byte == b'?').filter(|_| query == "NQ");
                Ok(value[..end.unwrap_or(value.len())].to_vec())
            }
            "METHOD" => given(request(":method")),
            "REQUEST_ID" => given(request("x-request-id")),
            "RESPONSE_CODE" => given(first(self.response, ":status")),
            "PROTOCOL" => Ok(self.exchange.protocol.clone().into_bytes()),
            "ROUTE_NAME" => {
                given(Some(self.exchange.route.clone().into_bytes()).filter(|name| !name.is_empty()))
            }
            "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => {
                let peer = self.exchange.peer.as_bytes();
                let host = filter_api::matcher::without_port(peer);
                let inner = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
                given(Some(inner.unwrap_or(host).to_vec()).filter(|_| !peer.is_empty()))
            }
            "START_TIME" => {
                let mut out = Vec::new();
                TimeFormat::parse(argument).unwrap().write(self.exchange.started, &mut out);
                Ok(out)
            }
            "DYNAMIC_METADATA" => {
                // Of two values of one name the host has the last.
                let found = self.exchange.metadata.iter().rev().find(|(name, _)| name == argument);
                given(found.map(|(_, value)| value.clone()))
            }
            "CLAIM" => {
                let claim = ClaimText { path: ClaimPath::new(argument), arrays_as_json: false };
                let claims = self.exchange.claims.as_ref().and_then(|claims| claims.as_object());
                match claims.and_then(|claims| claim.value(claims)) {
                    Some(Ok(value)) => Ok(value.as_bytes().to_vec()),
                    Some(Err(())) => Err(Fault::Invalid),
                    None => {
                        let name = format!("foregate.jwt.{argument}");
                        let found = self.exchange.properties.iter().rev().find(|(own, _)| *own == name);
                        given(found.map(|(_, value)| value.clone()))
                    }
                }
            }
            other => panic!("what is %{other}%?"),
        }
    }
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// Text of the template's own.
    Text,
    /// A value.
    Value,
    /// A value that is a path, with what must be escaped in one escaped.
    Path,
}

/// Whether an operator's value is a path.
fn is_path(name: &str, argument: &str) -> bool {
    let of_paths = |name: &str| matches!(&*name.to_ascii_lowercase(), ":path" | "x-envoy-original-path");
    name == "PATH" || (name == "REQ" && argument.split('?').filter(|name| !name.is_empty()).all(of_paths))
}

/// A value as a header may have it.
pub(super) fn plain(bytes: &[u8], _: Kind) -> Vec<u8> {
    bytes.to_vec()
}

/// A value as a part of a path.
pub(super) fn in_path(bytes: &[u8], kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Text => bytes.to_vec(),
        Kind::Path => bytes.split(|byte| *byte == b'?').next().unwrap().to_vec(),
        Kind::Value => escaped(bytes),
    }
}

/// Everything escaped but letters, digits and `-._~`.
pub(super) fn escaped(bytes: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    bytes.iter().map(one).collect::<String>().into_bytes()
}

/// A value of a header that is fit to be one.
pub(super) fn header(source: &Source<'_>, text: &str) -> Result<Vec<u8>, Fault> {
    source.value(text, false, plain).and_then(fit)
}
