//! Templates: texts with operators in them, as Envoy's access logs and header rules have them.
//!
//! | operator | value |
//! |---|---|
//! | `%REQ(name?alternative)%` | of the first line of a request header, else of the other one |
//! | `%RESP(name?alternative)%` | the same of the response |
//! | `%PATH(WQ or NQ:ORIG_OR_PATH, ORIG or PATH)%` | the path with its query or without: `x-envoy-original-path` or else `:path`, or one of them alone |
//! | `%METHOD%`, `%REQUEST_ID%` | `:method`, `x-request-id` |
//! | `%PROTOCOL%` | what the client speaks, `HTTP/1.1` |
//! | `%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%` | the client's address |
//! | `%RESPONSE_CODE%` | the response's status |
//! | `%DYNAMIC_METADATA(namespace:name:...)%` | what another filter has left |
//! | `%ROUTE_NAME%` | the name of the route |
//! | `%START_TIME(format)%` | when the request began, in UTC |
//! | `%CLAIM(name)%` | a claim of a verified token, members of members joined by dots |
//! | `%%` | a percent sign |
//!
//! When a request is over, for logs, there are besides
//!
//! | operator | value |
//! |---|---|
//! | `%RESPONSE_CODE_DETAILS%`, `%RESPONSE_FLAGS%` | why the response is as it is: in words, and as short names joined by commas |
//! | `%DURATION%` | how long it took, in milliseconds with a fraction |
//! | `%BYTES_RECEIVED%`, `%BYTES_SENT%` | bytes of the bodies |
//! | `%UPSTREAM_HOST%`, `%UPSTREAM_CLUSTER%` | where the request was sent |
//! | `%GRPC_STATUS_NUMBER%` | the status of a gRPC request |
//! | `%TRACE_ID%` | the trace of `traceparent` (W3C Trace Context) |
//!
//! Every operator may end in `:length`, which cuts its value after so many bytes. They are read when the
//! configuration is, and evaluated without a text in between.

mod operator;
mod parse;
mod time;

use self::operator::Operator;
use crate::config::Node;
use crate::{Facts, Head, HeadMap, HeaderName, HeaderValue, Host};

pub use self::operator::trace_id;
pub use self::time::TimeFormat;

/// When a template is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// When the request has come: nothing is known of a response yet.
    Request,
    /// When the response has come.
    Response,
    /// When it is over. The request's headers can be seen again.
    Log,
}

/// A text with operators in it.
#[derive(Debug, Clone)]
pub struct Template {
    parts: Vec<Part>,
    /// The text, where there is no operator.
    constant: Option<HeaderValue>,
}

/// A part of a template.
#[derive(Debug, Clone)]
pub enum Part {
    /// This text.
    Text(Box<[u8]>),
    /// The value of an operator.
    Value(Value),
}

/// An operator, and the most bytes of its value.
#[derive(Debug, Clone)]
pub struct Value {
    operator: Operator,
    most: Option<usize>,
}

/// What came of evaluating a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Written {
    /// Every operator had a value.
    All,
    /// One had none; nothing stands in its place.
    Missing,
    /// One had a value that is not fit to be written.
    Unfit,
}

/// What is written in the course of evaluating a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text of the template's own.
    Text(&'a [u8]),
    /// The value of an operator; `is_path` says that it is a path, with what must be escaped in one escaped.
    Value {
        /// The value.
        bytes: &'a [u8],
        /// Whether it is a path.
        is_path: bool,
    },
}

/// What the values of operators are taken from.
#[derive(Debug)]
pub struct Sources<'a, Q, R, T> {
    request: Option<&'a Q>,
    response: Option<&'a R>,
    host: &'a T,
    facts: Option<&'a Facts>,
}

impl<'a, Q: Head, T: Host> Sources<'a, Q, HeadMap, T> {
    /// Of a request.
    pub fn of_request(request: &'a Q, host: &'a T, facts: &'a Facts) -> Self {
        Self { request: Some(request), response: None, host, facts: Some(facts) }
    }
}

impl<'a, Q: Head, R: Head, T: Host> Sources<'a, Q, R, T> {
    /// Of a request that is over.
    pub fn of_both(request: &'a Q, response: &'a R, host: &'a T, facts: &'a Facts) -> Self {
        Self { request: Some(request), response: Some(response), host, facts: Some(facts) }
    }
}

impl<'a, R: Head, T: Host> Sources<'a, HeadMap, R, T> {
    /// Of a response, when the request's headers cannot be seen any more. What depends on these must have been settled
    /// before, by [`Template::settled`].
    pub fn of_response(response: &'a R, host: &'a T) -> Self {
        Self { request: None, response: Some(response), host, facts: None }
    }
}

impl Template {
    /// Reads a template. What is wrong with it is noted.
    pub fn read(node: &Node<'_>, phase: Phase) -> Option<Self> {
        let text = node.string()?;
        match Self::parse(text, phase) {
            Ok(template) => Some(template),
            Err(problem) => {
                node.error(problem);
                None
            }
        }
    }

    /// Reads a template for this phase.
    ///
    /// # Errors
    /// What is wrong, and the remedy.
    pub fn parse(text: &str, phase: Phase) -> Result<Self, String> {
        parse::parts(text, phase).map(Self::of_parts)
    }

    /// A template of these parts.
    pub fn of_parts(parts: Vec<Part>) -> Self {
        let constant = match parts.as_slice() {
            [] => HeaderValue::new("").ok(),
            [Part::Text(text)] => HeaderValue::new(text).ok(),
            _ => None,
        };
        Self { parts, constant }
    }

    /// Its parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text, where it is the same for all requests.
    pub fn constant(&self) -> Option<&HeaderValue> {
        self.constant.as_ref()
    }

    /// Whether a value in it comes from what no client can send: a verified token, or another filter.
    pub fn is_of_trusted_origin(&self) -> bool {
        self.values().any(|value| value.operator.is_of_trusted_origin())
    }

    /// Whether it cannot be evaluated without the request's headers, or what was found out about them.
    pub fn needs_request(&self) -> bool {
        self.values().any(|value| value.operator.needs_request())
    }

    /// This template with what depends on the request written out, so that the rest can be evaluated when the response
    /// comes; none where nothing does.
    pub fn settled<Q: Head, R: Head, T: Host>(&self, sources: &Sources<'_, Q, R, T>) -> Option<Self> {
        if !self.needs_request() {
            return None;
        }
        let settle = |part: &Part| match part {
            Part::Value(value) if value.operator.needs_request() => value.settled(sources),
            other => other.clone(),
        };
        // A control character makes it no constant, and what is written of it unfit.
        Some(Self::of_parts(self.parts.iter().map(settle).collect()))
    }

    /// Evaluates it.
    pub fn write<Q: Head, R: Head, T: Host>(
        &self,
        sources: &Sources<'_, Q, R, T>,
        out: &mut Vec<u8>,
    ) -> Written {
        self.each(sources, |piece| match piece {
            Piece::Text(bytes) | Piece::Value { bytes, .. } => out.extend_from_slice(bytes),
        })
    }

    /// Evaluates it piece by piece.
    pub fn each<Q: Head, R: Head, T: Host>(
        &self,
        sources: &Sources<'_, Q, R, T>,
        mut take: impl FnMut(Piece<'_>),
    ) -> Written {
        let mut written = Written::All;
        for part in &self.parts {
            match part {
                Part::Text(text) => take(Piece::Text(text)),
                Part::Value(value) => written = written.max(value.give(sources, &mut take)),
            }
        }
        written
    }

    fn values(&self) -> impl Iterator<Item = &Value> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(value) => Some(value),
            Part::Text(_) => None,
        })
    }
}

impl Value {
    /// Whether it is a number. One that is cut need not be: of `12.5` there is `12.` left.
    pub fn is_number(&self) -> bool {
        self.most.is_none() && self.operator.is_number()
    }

    /// Whether it is a path with its query.
    pub fn is_path_with_query(&self) -> bool {
        self.operator.is_path_with_query()
    }

    /// The headers that it may be of.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.operator.headers()
    }

    /// Evaluates it.
    pub fn give<Q: Head, R: Head, T: Host>(
        &self,
        sources: &Sources<'_, Q, R, T>,
        mut take: impl FnMut(Piece<'_>),
    ) -> Written {
        let is_path = self.operator.is_path();
        self.operator.give(sources, |bytes| {
            let bytes = self.most.and_then(|most| bytes.get(..most)).unwrap_or(bytes);
            take(Piece::Value { bytes, is_path });
        })
    }

    fn settled<Q: Head, R: Head, T: Host>(&self, sources: &Sources<'_, Q, R, T>) -> Part {
        let mut text = Vec::new();
        let written = self.give(sources, |piece| {
            if let Piece::Value { bytes, .. } = piece {
                text.extend_from_slice(bytes);
            }
        });
        match written {
            Written::All => Part::Text(text.into()),
            Written::Missing => Part::Value(Self { operator: Operator::Missing, most: None }),
            Written::Unfit => Part::Value(Self { operator: Operator::Unfit, most: None }),
        }
    }
}

#[cfg(test)]
mod tests;
