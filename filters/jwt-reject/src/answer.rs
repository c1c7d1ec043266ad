//! The answer to a refused request: status, challenge and body.

use std::borrow::Cow;

use filter_api::{GrpcStatus, Head, HeaderName, HeaderValue, LocalReply};

use crate::config::Refusal;
use crate::locate::without_parameters;
use crate::reason::Reason;

/// The most bytes of a realm, quotes not counted.
const MAX_REALM: usize = 256;

/// The local reply for this reason, as far as the configuration does not say otherwise.
pub(crate) fn refusal(head: &impl Head, reason: Reason, config: &Refusal) -> LocalReply {
    let mut headers = Vec::new();
    if !config.strip
        && !reason.is_ours()
        && let Ok(challenge) = HeaderValue::new(challenge(head, reason, config))
    {
        headers.push((HeaderName::from_static("www-authenticate"), challenge));
    }
    LocalReply {
        status: config.status.filter(|_| !reason.is_ours()).unwrap_or(reason.status()),
        grpc_status: match reason.status() {
            403 => GrpcStatus::PermissionDenied,
            503 => GrpcStatus::Unavailable,
            _ => GrpcStatus::Unauthenticated,
        },
        details: reason.details().into(),
        headers,
        body: match &config.body {
            _ if config.strip => "".into(),
            Some(body) if !reason.is_ours() => body.clone().into(),
            _ => reason.body().into(),
        },
    }
}

fn challenge(head: &impl Head, reason: Reason, config: &Refusal) -> Vec<u8> {
    // Room for all of it, but for very long URLs: it is made at every refusal.
    let mut challenge = Vec::with_capacity(192);
    challenge.extend_from_slice(b"Bearer realm=\"");
    push_realm(head, &config.token_params, &mut challenge);
    challenge.push(b'"');
    if reason == Reason::ScopeMissing {
        challenge.extend_from_slice(b", error=\"insufficient_scope\"");
    } else if reason.is_about_a_token() {
        challenge.extend_from_slice(b", error=\"invalid_token\"");
    }
    if let Some(url) = &config.resource_metadata {
        challenge.extend_from_slice(b", resource_metadata=\"");
        challenge.extend_from_slice(url.as_bytes());
        challenge.push(b'"');
    }
    challenge
}

/// The URL that was asked for, as the inside of a quoted string (RFC 9110 section 5.6.4), but for the
/// parameters that may hold the very token that was refused.
fn push_realm(head: &impl Head, token_params: &[String], out: &mut Vec<u8>) {
    let start = out.len();
    let path = match head.path() {
        plain if !plain.contains(&b'?') => Cow::Borrowed(plain),
        path => Cow::Owned(without_parameters(path, token_params)),
    };
    let scheme = head.scheme();
    let separator: &[u8] = if scheme.is_empty() { b"" } else { b"://" };
    for byte in scheme.iter().chain(separator).chain(head.authority()).chain(path.as_ref()) {
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
        let config = Refusal { token_params: vec!["access_token".to_owned()], ..Refusal::default() };
        let reply = refusal(head, reason, &config);
        let (name, value) = &reply.headers[0];
        assert_eq!(name.as_str(), "www-authenticate");
        String::from_utf8(value.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_challenge_names_the_url_but_no_token() {
        for path in ["/a?access_token=secret", "/a?access%5Ftoken=secret&access_token=other"] {
            let head = HeadMap::get(path);
            assert_eq!(challenge(&head, Reason::TokenMissing), "Bearer realm=\"http://gateway.example/a\"");
        }
        let head = HeadMap::get("/a?x=1&access_token=secret&y");
        assert_eq!(challenge(&head, Reason::TokenMissing), "Bearer realm=\"http://gateway.example/a?x=1&y\"");
        let head = HeadMap::get("/a");
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
        assert_eq!(
            refusal(&head, Reason::TokenExpired, &Refusal::default()).grpc_status,
            GrpcStatus::Unauthenticated
        );
        assert_eq!(
            refusal(&head, Reason::AudienceNotAllowed, &Refusal::default()).grpc_status,
            GrpcStatus::PermissionDenied
        );
    }

    #[test]
    fn the_configuration_may_say_otherwise() {
        let head = HeadMap::get("/");
        let own = Refusal {
            status: Some(404),
            body: Some("no".into()),
            resource_metadata: Some("https://a.example/meta".into()),
            ..Refusal::default()
        };
        let reply = refusal(&head, Reason::AudienceNotAllowed, &own);
        assert_eq!((reply.status, reply.body.as_ref()), (404, "no"));
        assert_eq!(reply.grpc_status, GrpcStatus::PermissionDenied);
        let challenge = String::from_utf8(reply.headers[0].1.as_bytes().to_vec()).unwrap();
        assert!(
            challenge.ends_with(", error=\"invalid_token\", resource_metadata=\"https://a.example/meta\"")
        );
        let stripped = refusal(&head, Reason::TokenExpired, &Refusal { strip: true, ..own });
        assert!(stripped.headers.is_empty() && stripped.body.is_empty());
        assert_eq!(stripped.details, "jwt_reject{token_expired}");
    }
}
