use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{Fact, HostMap};

fn evaluated(text: &str, phase: Phase) -> (Written, String) {
    let request = HeadMap::get("/a/b?c=d")
        .with("x-a", "one")
        .with("x-a", "two")
        .with("x-empty", "")
        .with("x-envoy-original-path", "/v1/a?z")
        .with("x-request-id", "id");
    let response = HeadMap::default().with(":status", "404").with("x-r", "three");
    let host = HostMap::at(1_796_112_943_014_232_000);
    *host.source_address.borrow_mut() = "[2001:db8::1]:4711".to_owned();
    *host.route_name.borrow_mut() = "a route".to_owned();
    host.metadata.borrow_mut().insert("ns:a".to_owned(), b"meta".to_vec());
    host.properties.borrow_mut().insert("foregate.jwt.aud".to_owned(), b"api".to_vec());
    let mut facts = Facts::default();
    let claims = serde_json::json!({"sub": "alice", "realm": {"roles": ["a", "b"]}, "bad": "a\r\nb"});
    facts.0.push(Fact::Claims { provider: "main".into(), claims: Arc::new(claims) });
    let template = Template::parse(text, phase).unwrap_or_else(|error| panic!("{text}: {error}"));
    let at_request = Sources::of_request(&request, &host, &facts);
    let mut out = Vec::new();
    let written = match phase {
        Phase::Request => template.write(&at_request, &mut out),
        Phase::Log => template.write(&Sources::of_both(&request, &response, &host, &facts), &mut out),
        Phase::Response => {
            let settled = template.settled(&at_request);
            let at_response = Sources::of_response(&response, &host);
            settled.as_ref().unwrap_or(&template).write(&at_response, &mut out)
        }
    };
    (written, String::from_utf8(out).unwrap())
}

#[test]
fn every_operator_has_its_value_in_both_phases() {
    let rows = [
        ("", ""),
        ("plain", "plain"),
        ("100%%", "100%"),
        ("%%REQ(x-a)%%", "%REQ(x-a)%"),
        ("%REQ(X-A)%", "one"),
        ("%REQ(x-a):2%", "on"),
        ("%REQ(x-a):99%", "one"),
        ("%REQ(none?x-a)%", "one"),
        ("%REQ(x-a?x-empty)%", "one"),
        ("%REQ(x-empty?x-a)%", ""),
        ("%REQ(:path)%", "/a/b?c=d"),
        ("%REQ(host)% %REQ(:authority)%", "gateway.example gateway.example"),
        ("%PATH%", "/v1/a?z"),
        ("%PATH(NQ)%", "/v1/a"),
        ("%PATH(WQ:PATH)%", "/a/b?c=d"),
        ("%PATH(NQ:PATH):3%", "/a/"),
        ("%PATH(:ORIG)%", "/v1/a?z"),
        ("%METHOD%", "GET"),
        ("%PROTOCOL:4%", "HTTP"),
        ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "2001:db8::1"),
        ("%DYNAMIC_METADATA(ns:a)%", "meta"),
        ("%ROUTE_NAME%", "a route"),
        ("%REQUEST_ID%", "id"),
        ("%START_TIME%", "2026-12-01T08:15:43.014Z"),
        ("at %START_TIME(%H:%M)%!", "at 08:15!"),
        ("%CLAIM(sub)%", "alice"),
        ("%CLAIM(realm.roles)%", "a,b"),
        ("%CLAIM(aud)%", "api"),
        ("<%REQ(x-a)%|%METHOD%>", "<one|GET>"),
    ];
    for (text, expected) in rows {
        for phase in [Phase::Request, Phase::Response, Phase::Log] {
            assert_eq!(evaluated(text, phase), (Written::All, expected.to_owned()), "{text} {phase:?}");
        }
    }
    for (text, expected) in [("%RESPONSE_CODE%", "404"), ("%RESP(x-r)%", "three"), ("%RESP(no?X-R):2%", "th")]
    {
        assert_eq!(evaluated(text, Phase::Response), (Written::All, expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_known_at_the_end_is_for_logs() {
    let rows: &[(&str, Option<&str>)] = &[
        ("%RESPONSE_CODE%", Some("504")),
        ("%RESPONSE_CODE_DETAILS%", Some("response_timeout")),
        ("%RESPONSE_FLAGS%", Some("UT,DC")),
        ("%DURATION%", Some("1234.005")),
        ("%BYTES_RECEIVED%/%BYTES_SENT%", Some("7/0")),
        ("%UPSTREAM_HOST%", Some("192.0.2.9:80")),
        ("%UPSTREAM_CLUSTER%", None),
        ("%GRPC_STATUS_NUMBER%", None),
        ("%TRACE_ID%", Some("0af7651916cd43dd8448eb211c80319c")),
    ];
    let host = HostMap::at(0);
    let number = |number: u64| number.to_le_bytes().to_vec();
    host.ended.borrow_mut().extend([
        ("response.code", number(504)),
        ("response.code_details", b"response_timeout".to_vec()),
        ("response.flags", number(0x4004)),
        ("request.duration", number(1_234_005_678)),
        ("request.size", number(7)),
        ("response.size", number(0)),
        ("upstream.address", b"192.0.2.9:80".to_vec()),
        ("response.grpc_status", number(2)),
    ]);
    let head =
        HeadMap::get("/").with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for (text, expected) in rows {
        let template = Template::parse(text, Phase::Log).unwrap();
        let mut out = Vec::new();
        let facts = Facts::default();
        let written = template.write(&Sources::of_both(&head, &HeadMap::default(), &host, &facts), &mut out);
        assert_eq!(written == Written::All, expected.is_some(), "{text}");
        assert_eq!(String::from_utf8(out).unwrap(), expected.unwrap_or_default(), "{text}");
    }
}

#[test]
fn what_has_no_value_is_said_so() {
    let rows = [
        ("%REQ(none)%", Written::Missing, ""),
        ("a%REQ(none?no)%b", Written::Missing, "ab"),
        ("%CLAIM(none)%", Written::Missing, ""),
        ("%CLAIM(bad)%", Written::Unfit, ""),
        ("%CLAIM(bad)%%REQ(none)%", Written::Unfit, ""),
        ("%DYNAMIC_METADATA(ns)%", Written::Missing, ""),
    ];
    for (text, written, expected) in rows {
        for phase in [Phase::Request, Phase::Response] {
            assert_eq!(evaluated(text, phase), (written, expected.to_owned()), "{text} {phase:?}");
        }
    }
    assert_eq!(evaluated("%RESP(none)%", Phase::Response).0, Written::Missing);
}

#[test]
fn what_is_wrong_is_named() {
    let rows = [
        ("100%", "the % at byte 3 begins no operator"),
        ("a %REQ(x)", "the % at byte 2 begins no operator"),
        ("%req(a)%", "the % at byte 0 begins no operator"),
        ("%REQ(a):x%", "the % at byte 0 begins no operator"),
        ("%REQ()%", "lacks the name of a header"),
        ("%REQ%", "lacks the name of a header"),
        ("%REQ(a b)%", "\"a b\" is not a header name"),
        ("%REQ(a?b?c)%", "more than one alternative"),
        ("%REQ(a):0%", "has the length \"0\""),
        ("%REQ(a):99999999999999999999%", "has the length"),
        ("%RESP(a)%", "has no value before the response"),
        ("%RESPONSE_CODE%", "has no value before the response"),
        ("%PATH(X)%", "must be WQ"),
        ("%PATH(NQ:X)%", "must be ORIG_OR_PATH"),
        ("%PATH(\n)%", "%PATH(\\n)% must be WQ"),
        ("%METHOD(x)%", "takes nothing in brackets"),
        ("%DYNAMIC_METADATA%", "lacks a namespace"),
        ("%DYNAMIC_METADATA(a:)%", "empty name"),
        ("%CLAIM()%", "lacks the name of a claim"),
        ("%START_TIME(%q)%", "is not known"),
        ("%HOSTNAME%", "%HOSTNAME% is not known; there are REQ, RESP, PATH"),
        ("%UPSTREAM_HOST%", "%UPSTREAM_HOST% has no value before the request is over"),
        ("a\r\nb", "control character"),
    ];
    for (text, expected) in rows {
        let problem = Template::parse(text, Phase::Request).unwrap_err();
        assert!(problem.contains(expected), "{text:?}: {problem}");
    }
}

#[test]
fn paths_are_told_from_other_values() {
    let is_path = |text: &str| {
        let request = HeadMap::get("/a").with("x", "/b");
        let template = Template::parse(text, Phase::Request).unwrap();
        let mut paths = Vec::new();
        let host = HostMap::at(0);
        let written = template.each(&Sources::of_request(&request, &host, &Facts::default()), |piece| {
            if let Piece::Value { is_path, .. } = piece {
                paths.push(is_path);
            }
        });
        assert_eq!(written, Written::All);
        paths
    };
    assert_eq!(is_path("%PATH%%REQ(:path)%%REQ(x)%%REQ(x?:path)%"), [true, true, false, false]);
}

proptest! {
    #[test]
    fn any_text_is_refused_or_read(text in "[%A-Za-z0-9_():?. \\n\u{e9}]{0,40}") {
        let _ = Template::parse(&text, Phase::Response);
    }
}
