//! What is sent where and when, as the configuration has it.

use std::fmt;

use filter_api::config::{Node, Object};
use filter_api::{HeaderName, HeaderValue};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The settings of the sink. Times are in nanoseconds unless they say otherwise.
pub(crate) struct Settings {
    /// The cluster of Envoy's that lines are sent to.
    pub(crate) cluster: String,
    /// What a body is.
    pub(crate) format: Format,
    /// All header lines of a request.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// How long the collector may take to answer.
    pub(crate) timeout_millis: u32,
    /// How long a line waits for others to go with.
    pub(crate) flush_interval: u64,
    /// The most lines that are sent at once.
    pub(crate) max_batch_lines: usize,
    /// The most bytes of lines that are sent at once. A longer line goes alone.
    pub(crate) max_batch_bytes: usize,
    /// The most bytes of lines that wait, those under way among them.
    pub(crate) max_queued_bytes: usize,
    /// How often a batch is sent again.
    pub(crate) retries: u32,
}

/// Header lines may hold a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// OTLP/HTTP in JSON.
    Otlp,
    /// Lines, each with a line feed.
    Ndjson,
}

/// Header lines that say how the request is sent, which is not for a configuration to say.
const OURS: [&str; 6] =
    ["host", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection"];

/// Where lines go, as the configuration has it.
#[derive(Debug)]
pub(crate) enum Sink {
    /// To Envoy's own log.
    EnvoyLog,
    /// To Envoy's access logs, as a property of the request.
    AccessLog,
    /// To a collector.
    Http(Settings),
}

/// Reads `envoy_log`, `access_log` or `{http: {...}}`. `max_line_bytes` is that of the filter.
pub(crate) fn read_sink(node: &Node<'_>, max_line_bytes: Option<usize>) -> Option<Sink> {
    if let Some(name) = node.value().as_str() {
        return match name {
            "envoy_log" => Some(Sink::EnvoyLog),
            "access_log" => Some(Sink::AccessLog),
            _ => {
                let known = "envoy_log, access_log and {http: {...}}";
                node.error(format!("{} is no sink; there are {known}", node.value()));
                None
            }
        };
    }
    let object = node.object()?;
    let settings = object.required("http").and_then(|node| Settings::read(&node, max_line_bytes));
    object.finish();
    settings.map(Sink::Http)
}

impl Settings {
    fn read(node: &Node<'_>, max_line_bytes: Option<usize>) -> Option<Self> {
        let object = node.object()?;
        let settings = Self::read_members(&object);
        object.finish();
        let settings = settings?;
        if settings.max_batch_bytes > settings.max_queued_bytes {
            node.warning("max_batch_bytes is more than max_queued_bytes: no batch becomes so large");
        }
        if max_line_bytes.is_some_and(|most| most > settings.max_queued_bytes) {
            node.warning("max_queued_bytes is less than max_line_bytes: the longest lines are lost");
        }
        Some(settings)
    }

    fn read_members(object: &Object<'_>) -> Option<Self> {
        let number =
            |name, usual, least, most| object.get(name).map_or(Some(usual), |node| node.integer(least, most));
        let bytes = |name, usual, least, most| usize::try_from(number(name, usual, least, most)?).ok();
        let duration = |name, usual, least: u64, most: u64| {
            let Some(node) = object.get(name) else { return Some(usual) };
            let nanos = node.duration()?;
            if !(least..=most).contains(&nanos) {
                let seconds = |nanos: u64| std::time::Duration::from_nanos(nanos).as_secs_f64();
                node.error(format!("is not from {}s to {}s", seconds(least), seconds(most)));
                return None;
            }
            Some(nanos)
        };
        let cluster = object.required("cluster").and_then(|node| node.filled_string().map(str::to_owned));
        let format = match object.get("format") {
            None => Some(Format::Otlp),
            Some(node) => node
                .second_of("OTLP", "NDJSON")
                .map(|is_lines| if is_lines { Format::Ndjson } else { Format::Otlp }),
        };
        let path = match (object.get("path"), format) {
            (Some(node), _) => read_path(&node),
            (None, Some(Format::Ndjson)) => Some(HeaderValue::from_static("/")),
            (None, _) => Some(HeaderValue::from_static("/v1/logs")),
        };
        let host = match object.get("host") {
            Some(node) => read_value(&node),
            // A name that no header can hold is no cluster's either.
            None => cluster.as_ref().and_then(|cluster| HeaderValue::new(cluster).ok()),
        };
        let headers = object.get("headers").map_or(Some(Vec::new()), |node| read_headers(&node));
        let timeout = duration("timeout", 2 * SECOND, MILLISECOND, 60 * SECOND);
        let flush_interval = duration("flush_interval", SECOND, 20 * MILLISECOND, 60 * SECOND);
        let max_batch_lines = bytes("max_batch_lines", 200, 1, 10_000);
        let max_batch_bytes = bytes("max_batch_bytes", 262_144, 512, 4_194_304);
        let max_queued_bytes = bytes("max_queued_bytes", 1_048_576, 512, 268_435_456);
        let retries = number("retries", 5, 0, 100);
        let format = format?;
        Some(Self {
            cluster: cluster?,
            format,
            headers: format.headers(path?, host?, headers?),
            timeout_millis: u32::try_from(timeout? / MILLISECOND).ok()?,
            flush_interval: flush_interval?,
            max_batch_lines: max_batch_lines?,
            max_batch_bytes: max_batch_bytes?,
            max_queued_bytes: max_queued_bytes?,
            retries: u32::try_from(retries?).ok()?,
        })
    }
}

impl Format {
    fn headers(
        self,
        path: HeaderValue,
        host: HeaderValue,
        further: Vec<(HeaderName, HeaderValue)>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let content_type = match self {
            Self::Otlp => "application/json",
            Self::Ndjson => "application/x-ndjson",
        };
        let mut headers = vec![
            (HeaderName::from_static(":method"), HeaderValue::from_static("POST")),
            (HeaderName::from_static(":scheme"), HeaderValue::from_static("http")),
            (HeaderName::from_static(":authority"), host),
            (HeaderName::from_static(":path"), path),
            (HeaderName::from_static("content-type"), HeaderValue::from_static(content_type)),
        ];
        if !further.iter().any(|(name, _)| name.as_str() == "user-agent") {
            headers.push((HeaderName::from_static("user-agent"), HeaderValue::from_static("foregate")));
        }
        headers.extend(further);
        headers
    }
}

fn read_path(node: &Node<'_>) -> Option<HeaderValue> {
    let text = node.filled_string()?;
    if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        node.error(format!("{text:?} is not a path; it must begin with / and have no spaces"));
        return None;
    }
    read_value(node)
}

fn read_value(node: &Node<'_>) -> Option<HeaderValue> {
    match HeaderValue::new(node.filled_string()?) {
        Ok(value) => Some(value),
        Err(error) => {
            node.error(error.to_string());
            None
        }
    }
}

/// Reads `[{name, value}]`.
fn read_headers(node: &Node<'_>) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let read = |item: &Node<'_>| {
        let object = item.object()?;
        let name = object.required("name").and_then(|node| {
            let name = node.header_name()?;
            if name.as_str().starts_with(':') || OURS.contains(&name.as_str()) {
                node.error(format!("{:?} cannot be set here", name.as_str()));
                return None;
            }
            Some(name)
        });
        let value = object.required("value").and_then(|node| read_value(&node));
        object.finish();
        Some((name?, value?))
    };
    let headers: Vec<Option<_>> = node.array()?.iter().map(read).collect();
    headers.into_iter().collect()
}
