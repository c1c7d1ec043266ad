//! The answer that a filter gives instead of the upstream.

use crate::{Head, HeaderName, HeaderValue, Text};

/// A local reply, with what a gRPC caller gets instead of status and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalReply {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// The status for a gRPC caller, who gets HTTP 200 and the body as `grpc-message`.
    pub grpc_status: GrpcStatus,
    /// Response-code details: `%RESPONSE_CODE_DETAILS%` in an access log. No spaces.
    pub details: Text,
    /// Headers to add; Envoy adds `content-length`, and `content-type: text/plain` to a body.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body. A HEAD request gets none.
    pub body: Text,
}

/// The gRPC status codes that a gateway's filter has a use for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum GrpcStatus {
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A limit was reached.
    ResourceExhausted = 8,
    /// The gateway cannot say now; try again.
    Unavailable = 14,
    /// The caller did not say who it is, or was not believed.
    Unauthenticated = 16,
}

/// What the caller speaks, as far as a local reply must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Plain HTTP.
    Http,
    /// gRPC: `content-type` is `application/grpc`, alone or followed by `+` or `;`.
    Grpc,
}

impl Protocol {
    /// What the sender of this head speaks. A gRPC status sent to a caller who does not speak
    /// gRPC would turn the refusal into a plain 200, so this looks at the content type, as Envoy
    /// does.
    pub fn of(head: &impl Head) -> Self {
        let Some(rest) = head.first("content-type").and_then(|value| value.strip_prefix(b"application/grpc"))
        else {
            return Self::Http;
        };
        match rest.first() {
            None | Some(b'+' | b';') => Self::Grpc,
            Some(_) => Self::Http,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadMap;

    #[test]
    fn only_grpc_content_types_are_grpc() {
        let rows = [
            ("application/grpc", Protocol::Grpc),
            ("application/grpc+proto", Protocol::Grpc),
            ("application/grpc;charset=utf-8", Protocol::Grpc),
            ("application/grpc-web", Protocol::Http),
            ("application/grpcx", Protocol::Http),
            ("application/json", Protocol::Http),
            ("", Protocol::Http),
        ];
        for (value, expected) in rows {
            assert_eq!(Protocol::of(&HeadMap::get("/").with("content-type", value)), expected, "{value}");
        }
        assert_eq!(Protocol::of(&HeadMap::get("/")), Protocol::Http);
    }
}
