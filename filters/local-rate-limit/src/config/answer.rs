//! The answer to a refused request, and headers for those that pass.

use filter_api::config::{Node, Object};
use filter_api::{GrpcStatus, HeaderName, HeaderValue, Text};
use serde_json::Value;

/// Headers that would break a message, or that a route depends on.
const FORBIDDEN: [&str; 5] = ["content-length", "transfer-encoding", "connection", "host", "upgrade"];

/// What a refused request is answered with.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) grpc_status: GrpcStatus,
    pub(crate) body: Text,
    pub(crate) headers: Vec<Add>,
}

/// A header to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Add {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
    pub(crate) when: When,
}

/// What becomes of lines of that name that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// They stay.
    Always,
    /// They stay, and this one is not added.
    Absent,
    /// This one takes their place.
    Instead,
}

impl Refusal {
    pub(crate) fn read(root: &Object<'_>) -> Option<Self> {
        let status = root.get("status").map_or(Some(429), |node| read_status(&node));
        let body = match root.get("body") {
            Some(node) => node.string().map(|text| Text::from(text.to_owned())),
            None => Some(Text::from("local_rate_limited")),
        };
        let headers = root.get("response_headers_to_add").map(|node| read_headers(&node)).unwrap_or_default();
        let exhausted = root.get("rate_limited_as_resource_exhausted").map_or(Some(true), |node| node.bool());
        let grpc_status = if exhausted? { GrpcStatus::ResourceExhausted } else { GrpcStatus::Unavailable };
        Some(Self { status: status?, grpc_status, body: body?, headers })
    }
}

/// `429`, or Envoy's `{code: TooManyRequests}`.
fn read_status(node: &Node<'_>) -> Option<u16> {
    let named =
        [("TooManyRequests", 429), ("ServiceUnavailable", 503), ("Forbidden", 403), ("BadRequest", 400)];
    let code = match node.value() {
        Value::Object(_) => {
            let object = node.object()?;
            let code = object.required("code");
            object.finish();
            code?
        }
        _ => node.clone(),
    };
    if let Value::String(name) = code.value()
        && let Some((_, status)) = named.iter().find(|(own, _)| own == name)
    {
        return Some(*status);
    }
    code.integer(400, 599).and_then(|status| u16::try_from(status).ok())
}

/// Envoy's list of `{header: {key, value}, append_action}`; `{key, value}` will do.
pub(crate) fn read_headers(node: &Node<'_>) -> Vec<Add> {
    let items = node.array().unwrap_or_default();
    items.iter().filter_map(read_header).collect()
}

fn read_header(node: &Node<'_>) -> Option<Add> {
    let object = node.object()?;
    let line = match object.get("header") {
        Some(inner) => {
            let inner = inner.object()?;
            let line = read_line(&inner);
            inner.finish();
            line
        }
        None => read_line(&object),
    };
    let when = match object.get("append_action") {
        None => Some(When::Always),
        Some(action) => match action.string() {
            Some("APPEND_IF_EXISTS_OR_ADD") => Some(When::Always),
            Some("ADD_IF_ABSENT") => Some(When::Absent),
            Some("OVERWRITE_IF_EXISTS_OR_ADD") => Some(When::Instead),
            Some(other) => {
                action.error(format!(
                    "{other:?} must be APPEND_IF_EXISTS_OR_ADD, ADD_IF_ABSENT or OVERWRITE_IF_EXISTS_OR_ADD"
                ));
                None
            }
            None => None,
        },
    };
    object.finish();
    let (name, value) = line?;
    Some(Add { name, value, when: when? })
}

fn read_line(object: &Object<'_>) -> Option<super::Line> {
    let key = object.required("key");
    let value = object.required("value");
    let name = key.and_then(|node| {
        let name = node.header_name()?;
        if name.as_str().starts_with(':') || FORBIDDEN.contains(&name.as_str()) {
            node.error(format!("{:?} cannot be added: a message depends on it", name.as_str()));
            return None;
        }
        Some(name)
    });
    let value = value.and_then(|node| {
        let text = node.string()?;
        if text.replace("%%", "").contains('%') {
            node.error("format operators are not read here; write %% for a percent sign");
            return None;
        }
        match HeaderValue::new(text.replace("%%", "%")) {
            Ok(value) => Some(value),
            Err(error) => {
                node.error(error.to_string());
                None
            }
        }
    });
    Some((name?, value?))
}
