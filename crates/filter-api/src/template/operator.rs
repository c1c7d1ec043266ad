//! The operators, and where each takes its value from.

use std::sync::Arc;

use super::{Sources, TimeFormat, Written};
use crate::{Attribute, ClaimText, Facts, Head, HeaderName, Host, Protocol, ResponseFlags};

const PATH: &str = ":path";
const ORIGINAL_PATH: &str = "x-envoy-original-path";

/// An operator.
#[derive(Debug, Clone)]
pub(super) enum Operator {
    /// The first line of a header, or else of another.
    Header { message: Message, name: HeaderName, or: Option<HeaderName> },
    /// A path of the request.
    Path { which: Which, cut: Cut },
    /// What the client speaks.
    Protocol,
    /// The client's address, without its port.
    ClientAddress,
    /// The route's name.
    RouteName,
    /// When the request began.
    StartTime(TimeFormat),
    /// A namespace, then names of members.
    DynamicMetadata(Box<[Box<str>]>),
    /// A claim of a verified token, and the property that holds it where another module has verified it.
    Claim(ClaimText, Arc<str>),
    /// Something that is known at the end.
    AtEnd(AtEnd),
    /// The trace id of `traceparent`.
    TraceId,
    /// Has no value: one that was looked for when the request came, and was not there.
    Missing,
    /// One that was not fit to be written.
    Unfit,
}

/// Something that is known of a request when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    ResponseCode,
    Details,
    Flags,
    Duration,
    BytesReceived,
    BytesSent,
    UpstreamHost,
    UpstreamCluster,
    GrpcStatus,
}

/// Whose headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    Request,
    Response,
}

/// Which path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// As it is now.
    Path,
    /// As it was before it was rewritten, if it was.
    Original,
    /// As it was before it was rewritten, or is. An empty header tells of none.
    OriginalOrPath,
}

/// What of a path is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// All of it.
    Nothing,
    /// Of a path, what stands before the query.
    Query,
}

impl Operator {
    pub(super) fn is_of_trusted_origin(&self) -> bool {
        matches!(self, Self::Claim(..) | Self::DynamicMetadata(_))
    }

    pub(super) fn needs_request(&self) -> bool {
        matches!(self, Self::Header { message: Message::Request, .. } | Self::Path { .. } | Self::Claim(..))
    }

    pub(super) fn is_number(&self) -> bool {
        use AtEnd::{BytesReceived, BytesSent, Duration, GrpcStatus, ResponseCode};
        matches!(self, Self::AtEnd(ResponseCode | Duration | BytesReceived | BytesSent | GrpcStatus))
    }

    pub(super) fn is_path_with_query(&self) -> bool {
        match self {
            Self::Path { cut, .. } => *cut == Cut::Nothing,
            _ => self.headers().any(|name| matches!(name.as_str(), PATH | ORIGINAL_PATH)),
        }
    }

    /// The headers that its value may be of.
    pub(super) fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        let (name, or) = match self {
            Self::Header { name, or, .. } => (Some(name), or.as_ref()),
            _ => (None, None),
        };
        name.into_iter().chain(or)
    }

    /// Whether its value is a path, so that what must be escaped in one is.
    pub(super) fn is_path(&self) -> bool {
        match self {
            Self::Path { .. } => true,
            Self::Header { message, name, or } => {
                let is_path = |name: &HeaderName| matches!(name.as_str(), PATH | ORIGINAL_PATH);
                *message == Message::Request && is_path(name) && or.as_ref().is_none_or(is_path)
            }
            _ => false,
        }
    }

    /// Gives its value, if it has one, and says whether it has.
    pub(super) fn give<Q: Head, R: Head, T: Host>(
        &self,
        sources: &Sources<'_, Q, R, T>,
        take: impl FnOnce(&[u8]),
    ) -> Written {
        let attribute = |attribute| sources.host.attribute(attribute);
        match self {
            Self::Header { message: Message::Request, name, or } => {
                given(header(sources.request, name, or.as_ref()), take)
            }
            Self::Header { message: Message::Response, name, or } => {
                given(header(sources.response, name, or.as_ref()), take)
            }
            Self::Path { which, cut } => {
                let first = |name| sources.request.and_then(|head| head.first(name));
                let path = match which {
                    Which::Path => first(PATH),
                    Which::Original => first(ORIGINAL_PATH),
                    Which::OriginalOrPath => {
                        first(ORIGINAL_PATH).filter(|path| !path.is_empty()).or_else(|| first(PATH))
                    }
                };
                let cut = |path| match cut {
                    Cut::Nothing => path,
                    Cut::Query => before_query(path),
                };
                given(path.map(cut), take)
            }
            Self::Protocol => given(attribute(Attribute::Protocol).as_deref(), take),
            Self::ClientAddress => {
                let address = attribute(Attribute::SourceAddress);
                given(address.as_deref().map(without_port), take)
            }
            Self::RouteName => {
                let name = attribute(Attribute::RouteName);
                given(name.as_deref().filter(|name| !name.is_empty()), take)
            }
            Self::StartTime(format) => {
                let time = attribute(Attribute::StartTime).and_then(|bytes| Some(*bytes.first_chunk::<8>()?));
                let Some(time) = time else { return Written::Missing };
                let mut text = Vec::new();
                format.write(u64::from_le_bytes(time), &mut text);
                given(Some(&text), take)
            }
            Self::DynamicMetadata(path) => {
                given(attribute(Attribute::DynamicMetadata(path)).as_deref(), take)
            }
            Self::Claim(claim, property) => match sources.facts.and_then(|facts| of_token(claim, facts)) {
                Some(Ok(value)) => given(Some(value.as_bytes()), take),
                Some(Err(())) => Written::Unfit,
                None => given(attribute(Attribute::Property(property)).as_deref(), take),
            },
            Self::AtEnd(what) => {
                let is_grpc = *what == AtEnd::GrpcStatus
                    && sources.request.is_some_and(|head| Protocol::of(head) == Protocol::Grpc);
                given(what.text(&|attribute| sources.host.attribute(attribute), is_grpc).as_deref(), take)
            }
            Self::TraceId => {
                given(sources.request.and_then(|head| trace_id(head.first("traceparent")?)), take)
            }
            Self::Missing => Written::Missing,
            Self::Unfit => Written::Unfit,
        }
    }
}

impl AtEnd {
    /// The value as text. Not generic: each kind of message and of host would have a copy of it.
    fn text(self, ask: &dyn Fn(Attribute<'_>) -> Option<Vec<u8>>, is_grpc: bool) -> Option<Vec<u8>> {
        let text = |attribute| ask(attribute).filter(|text| !text.is_empty());
        let number = |attribute| number(&ask(attribute)?);
        let whole = |number: u64| number.to_string().into_bytes();
        match self {
            Self::Details => text(Attribute::ResponseDetails),
            Self::UpstreamHost => text(Attribute::UpstreamAddress),
            Self::UpstreamCluster => text(Attribute::ClusterName),
            Self::Flags => {
                let names: Vec<&str> =
                    ResponseFlags(number(Attribute::ResponseFlags).unwrap_or(0)).names().collect();
                Some(names.join(",").into_bytes()).filter(|names| !names.is_empty())
            }
            Self::Duration => number(Attribute::Duration)
                .map(|nanos| format!("{}.{:03}", nanos / 1_000_000, nanos / 1000 % 1000).into_bytes()),
            // Where nothing was sent, that is no status.
            Self::ResponseCode => Some(whole(number(Attribute::ResponseCode).unwrap_or(0))),
            Self::BytesReceived => number(Attribute::BytesReceived).map(whole),
            Self::BytesSent => number(Attribute::BytesSent).map(whole),
            Self::GrpcStatus => is_grpc.then(|| number(Attribute::GrpcStatus)).flatten().map(whole),
        }
    }
}

/// A number of 8 bytes, as the host hands it over; none where it is negative.
fn number(bytes: &[u8]) -> Option<u64> {
    u64::try_from(i64::from_le_bytes(*bytes.first_chunk::<8>()?)).ok()
}

/// The trace id of a `traceparent`: 32 digits between the first two dashes, not all of them 0 (W3C Trace Context section
/// 3.2.2).
pub fn trace_id(traceparent: &[u8]) -> Option<&[u8]> {
    let id = traceparent.split(|byte| *byte == b'-').nth(1)?;
    let is_one =
        id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit) && id.iter().any(|byte| *byte != b'0');
    is_one.then_some(id)
}

fn given(value: Option<&[u8]>, take: impl FnOnce(&[u8])) -> Written {
    match value {
        Some(value) => {
            take(value);
            Written::All
        }
        None => Written::Missing,
    }
}

fn header<'h>(
    head: Option<&'h impl Head>,
    name: &'h HeaderName,
    or: Option<&'h HeaderName>,
) -> Option<&'h [u8]> {
    let head = head?;
    head.first(name.as_str()).or_else(|| head.first(or?.as_str()))
}

fn before_query(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// Of `192.0.2.1:40000` and `[2001:db8::1]:40000`; anything else as it is.
fn without_port(address: &[u8]) -> &[u8] {
    let host = crate::matcher::without_port(address);
    host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
}

/// The claim, of the token found last that has it.
fn of_token(claim: &ClaimText, facts: &Facts) -> Option<Result<crate::HeaderValue, ()>> {
    facts.claims().filter_map(|(_, claims)| claims.as_object()).find_map(|claims| claim.value(claims))
}
