//! Values: what is missing, what cannot be written, where they come from.

use std::sync::Arc;

use filter_api::Fact;

use super::*;

fn set(value: &str) -> Value {
    json!([{ "set": { "name": "x", "value": value } }])
}

#[test]
fn what_is_missing_leaves_the_operation_out() {
    for value in ["%REQ(none)%", "user-%REQ(none)%", "%REQ(none)%%METHOD%", "%REQ(empty)%", "%ROUTE_NAME%"] {
        let head = HeadMap::get("/").with("empty", "");
        let done = request(&on_request(&set(value)), &head);
        assert!(done.operations.is_empty(), "{value}: {:?}", done.operations);
        assert_eq!(done.skipped(), [], "{value}");
        // What is there stays, as with Envoy's own.
        let done = request(&on_request(&set(value)), &head.with("x", "own"));
        assert_eq!(done.lines("x"), ["own"], "{value}");
    }
    let kept = json!([{ "set": { "name": "x", "value": "user-%REQ(none)%", "keep_empty_value": true } }]);
    assert_eq!(request(&on_request(&kept), &HeadMap::get("/")).lines("x"), ["user-"]);
    let empty = json!([{ "set": { "name": "x", "value": "", "keep_empty_value": true } }]);
    assert_eq!(request(&on_request(&empty), &HeadMap::get("/").with("x", "own")).lines("x"), [""]);
}

/// Who reads a header that is set from a token believes that it is of one.
#[test]
fn what_a_client_sends_does_not_stand_in_for_a_claim() {
    let head = HeadMap::get("/").with("x", "mallory");
    for value in ["%CLAIM(sub)%", "%DYNAMIC_METADATA(ns:user)%"] {
        let done = request(&on_request(&set(value)), &head);
        assert_eq!(done.lines("x"), [""; 0], "{value}");
        assert!(request(&on_request(&set(value)), &HeadMap::get("/")).operations.is_empty());
    }
    let claims = |sub: Value| {
        let mut facts = Facts::default();
        facts.0.push(Fact::Claims { provider: "main".into(), claims: Arc::new(json!({ "sub": sub })) });
        sent(&on_request(&set("%CLAIM(sub)%")), &head, &host(), &facts).0
    };
    assert_eq!(claims(json!("alice")).lines("x"), ["alice"]);
    let done = claims(json!("alice\r\nx-admin: yes"));
    assert_eq!((done.lines("x"), done.skipped()), (vec![], vec![Skipped::InvalidValue]));
    // As a property of another module.
    let host = host();
    host.properties.borrow_mut().insert("foregate.jwt.sub".to_owned(), b"bob".to_vec());
    let done = sent(&on_request(&set("%CLAIM(sub)%")), &head, &host, &Facts::default()).0;
    assert_eq!(done.lines("x"), ["bob"]);
}

#[test]
fn what_would_split_a_message_is_not_written() {
    for bytes in [&b"a\r\nb"[..], b"a\nb", b"a\rb", b"a\0b", b"\x7f", b"\x1b"] {
        let host = host();
        host.metadata.borrow_mut().insert("ns:a".to_owned(), bytes.to_vec());
        for action in ["set", "append", "add_if_absent"] {
            let operations = json!([{ action: { "name": "x", "value": "<%DYNAMIC_METADATA(ns:a)%>" } }]);
            let done = sent(&on_request(&operations), &HeadMap::get("/"), &host, &Facts::default()).0;
            assert!(done.operations.is_empty(), "{bytes:?}");
            assert_eq!(done.skipped(), [Skipped::InvalidValue], "{bytes:?}");
            let filter = on_response(&operations);
            let (_, kept) = sent(&filter, &HeadMap::get("/"), &host, &Facts::default());
            let effects = filter.on_response(&kept.unwrap(), &status("200"), &host);
            assert!(effects.headers.is_empty() && effects.counters.contains(Skipped::InvalidValue.counter()));
        }
    }
    // Beyond ASCII there is no such thing.
    let done = request(&on_request(&set("%REQ(y)%")), &HeadMap::get("/").with("y", [0xff, 0x80]));
    assert_eq!(done.head.first("x"), Some(&[0xff, 0x80][..]));
}

#[test]
fn a_response_is_told_of_the_request_as_it_was_sent() {
    let filter = filter(&json!({
        "request_mutations": [{ "set": { "name": "a", "value": "rewritten" } }],
        "response_mutations": [
            { "set": { "name": "x", "value": "%REQ(a)% %METHOD% %RESPONSE_CODE% %PROTOCOL%" } },
            { "set": { "name": "y", "value": "%REQ(none?b)%:%RESP(content-type):4%" } },
            { "set": { "name": "z", "value": "%REQ(none)%" } },
            { "replace": { "name": "content-type", "regex": "^", "with": "%REQ(b)%/" } },
        ],
    }));
    let done = response(&filter, &HeadMap::get("/").with("a", "1").with("b", "2"), &status("404"));
    assert_eq!(done.lines("x"), ["rewritten GET 404 HTTP/1.1"]);
    assert_eq!(done.lines("y"), ["2:text"]);
    assert_eq!(done.lines("z"), [""; 0]);
    assert_eq!(done.lines("content-type"), ["2/text/plain"]);
}

#[test]
fn nothing_is_kept_of_a_request_that_no_operation_needs() {
    let kept = |config: &Value, path: &str| {
        sent(&filter(config), &HeadMap::get(path), &host(), &Facts::default()).1.is_some()
    };
    assert!(!kept(&json!({ "request_mutations": [{ "remove": "x" }] }), "/"));
    let of_account =
        json!({ "response_mutations": [{ "match": { "prefix": "/a" }, "mutations": [{ "remove": "x" }] }] });
    assert!(kept(&of_account, "/a"));
    assert!(!kept(&of_account, "/b"));
}

#[test]
fn an_unconditional_constant_reads_no_head() {
    struct Unread;
    impl Head for Unread {
        fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
            panic!("was read");
            #[allow(unreachable_code)]
            std::iter::empty()
        }
    }
    let operations = json!([
        { "set": { "name": "x", "value": "1" } },
        { "append": { "name": "y", "value": "%PROTOCOL%" } },
        { "match": {}, "set": { "name": "z", "value": "%START_TIME%" } },
    ]);
    let config = json!({ "request_mutations": operations, "response_mutations": operations });
    let filter = filter(&config);
    let Outcome::Continue(effects) = filter.on_request(&Unread, &host(), &Facts::default()) else { panic!() };
    assert_eq!(effects.headers.len(), 3);
    let effects = filter.on_response(&effects.kept.unwrap(), &Unread, &host());
    assert_eq!(effects.headers.len(), 3);
}
