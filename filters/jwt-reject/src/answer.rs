//! The answer to a refused request: status, challenge and body.

use filter_api::{GrpcStatus, Head, HeaderName, HeaderValue, LocalReply};

use crate::reason::Reason;

/// The most bytes of a realm, quotes not counted.
const MAX_REALM: usize = 256;

/// The local reply for this reason.
pub(crate) fn refusal(head: &impl Head, reason: Reason) -> LocalReply {
    let mut challenge = b"Bearer realm=\"".to_vec();
    push_realm(head, &mut challenge);
    challenge.push(b'"');
    if reason.is_about_a_token() {
        challenge.extend_from_slice(b", error=\"invalid_token\"");
    }
    let headers = match HeaderValue::new(challenge) {
        Ok(challenge) => vec![(HeaderName::from_static("www-authenticate"), challenge)],
        Err(_) => Vec::new(),
    };
    LocalReply {
        status: reason.status(),
        grpc_status: match reason.status() {
            403 => GrpcStatus::PermissionDenied,
            _ => GrpcStatus::Unauthenticated,
        },
        details: reason.details().into(),
        headers,
        body: reason.body().into(),
    }
}

/// The URL that was asked for, as the inside of a quoted string (RFC 9110 section 5.6.4). Without
/// its query, which may hold the very token that was refused.
fn push_realm(head: &impl Head, out: &mut Vec<u8>) {
    let start = out.len();
    let path = head.path().split(|byte| *byte == b'?').next().unwrap_or_default();
    let scheme = head.scheme();
    let separator: &[u8] = if scheme.is_empty() { b"" } else { b"://" };
    for byte in scheme.iter().chain(separator).chain(head.authority()).chain(path) {
        let escaped: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b' '..=b'~' => std::slice::from_ref(byte),
            // Neither control characters nor bytes of an unknown encoding belong there.
            _ => b"?",
        };
        if out.len().saturating_sub(start).saturating_add(escaped.len()) > MAX_REALM {
            break;
        }
        out.extend_from_slice(escaped);
    }
}

#[cfg(test)]
mod tests {
    use filter_api::HeadMap;

    use super::*;

    fn challenge(head: &HeadMap, reason: Reason) -> String {
        let reply = refusal(head, reason);
        let (name, value) = &reply.headers[0];
        assert_eq!(name.as_str(), "www-authenticate");
        String::from_utf8(value.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_challenge_names_the_url_but_not_its_query() {
        let head = HeadMap::get("/a?access_token=secret");
        assert_eq!(challenge(&head, Reason::TokenMissing), "Bearer realm=\"http://gateway.example/a\"");
        assert_eq!(
            challenge(&head, Reason::TokenExpired),
            "Bearer realm=\"http://gateway.example/a\", error=\"invalid_token\""
        );
        assert_eq!(challenge(&head, Reason::NoRuleMatched), "Bearer realm=\"http://gateway.example/a\"");
    }

    #[test]
    fn no_url_gets_out_of_its_quotes() {
        let head = HeadMap::default().with(":path", b"/\"\\\r\n\0\xff").with(":authority", "h");
        assert_eq!(challenge(&head, Reason::TokenMissing), "Bearer realm=\"h/\\\"\\\\????\"");
        let head = HeadMap::default().with(":path", "\"".repeat(1000));
        let realm = "\\\"".repeat(128);
        assert_eq!(challenge(&head, Reason::TokenMissing), format!("Bearer realm=\"{realm}\""));
        let head = HeadMap::default().with(":path", format!("/{}", "\"".repeat(1000)));
        assert_eq!(challenge(&head, Reason::TokenMissing).len(), "Bearer realm=\"\"".len() + 255);
    }

    #[test]
    fn a_grpc_caller_gets_the_status_that_fits() {
        let head = HeadMap::get("/");
        assert_eq!(refusal(&head, Reason::TokenExpired).grpc_status, GrpcStatus::Unauthenticated);
        assert_eq!(refusal(&head, Reason::AudienceNotAllowed).grpc_status, GrpcStatus::PermissionDenied);
    }
}
