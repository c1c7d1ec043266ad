//! What holds whatever comes in.

use filter_api::HeaderValue;
use proptest::prelude::*;

use super::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        "[a-z;=%&?/. \\r\\n]{0,20}".prop_map(String::into_bytes),
    ]
}

proptest! {
    /// Response splitting is impossible, whatever a value holds and whatever writes it.
    #[test]
    fn nothing_that_is_written_ends_its_line(value in bytes(), query in "[a-z&=%+]{0,12}") {
        let host = host();
        host.metadata.borrow_mut().insert("ns:a".to_owned(), value.clone());
        host.properties.borrow_mut().insert("foregate.jwt.sub".to_owned(), value.clone());
        *host.route_name.borrow_mut() = String::from_utf8_lossy(&value).into_owned();
        let head = HeadMap::get(&format!("/p?{query}")).with("x-v", &value).with("cookie", &value);
        let mut operations = Vec::new();
        for text in ["%REQ(x-v)%", "%DYNAMIC_METADATA(ns:a):7%", "%CLAIM(sub)%", "<%ROUTE_NAME%>"] {
            let written = json!({ "name": "x", "value": text });
            operations.extend([
                json!({ "set": { "name": "x-set", "value": text } }),
                json!({ "append": written }),
                json!({ "replace": { "name": "x-v", "regex": "[a-m]", "with": format!("\\0{text}") } }),
                json!({ "cookie": { "set": { "name": "c", "value": text } } }),
            ]);
        }
        let mut on_request = operations.clone();
        on_request.extend(["%REQ(x-v)%", "%DYNAMIC_METADATA(ns:a)%"].into_iter().flat_map(|text| [
            json!({ "path": { "set": format!("/t/{text}") } }),
            json!({ "host": { "set": text } }),
            json!({ "query": { "set": { "name": "q", "value": text } } }),
        ]));
        let filter = filter(&json!({ "request_mutations": on_request, "response_mutations": operations }));
        let (done, kept) = sent(&filter, &head, &host, &Facts::default());
        let response = status("200").with("x-v", &value).with("set-cookie", &value);
        let effects = filter.on_response(&kept.unwrap(), &response, &host);
        for operation in done.operations.iter().chain(&effects.headers) {
            if let HeaderOp::Set(name, value) | HeaderOp::Add(name, value) = operation {
                prop_assert!(HeaderValue::new(value.as_bytes()).is_ok());
                prop_assert!(!name.as_str().starts_with(':') || [":path", ":authority"].contains(&name.as_str()));
            }
        }
        // One path, one host, no more parameters than were asked for.
        let path = done.lines(":path");
        prop_assert!(path[0].starts_with('/') && path[0].is_ascii());
        prop_assert!(!path[0].contains(['#', ' ']));
        prop_assert_eq!(path[0].matches('?').count(), 1);
    }

    /// A value in a path is one segment of it.
    #[test]
    fn a_value_is_one_segment(value in bytes()) {
        let filter = on_request(&json!([{ "path": { "set": "/t/%REQ(x-v)%/end" } }]));
        let done = request(&filter, &HeadMap::get("/old?q").with("x-v", &value));
        let path = done.lines(":path").concat();
        if path != "/old?q" {
            prop_assert_eq!(path.matches('/').count(), 3, "{}", path);
            prop_assert!(path.ends_with("/end?q"));
            let segment = path.split('/').nth(2).unwrap();
            prop_assert_eq!(&*filter_api::parts::form_decoded(segment.as_bytes()), &value[..]);
        }
    }

    /// What no edit is for stays as it was written.
    #[test]
    fn other_parameters_stay(query in "[ab&=%2+]{0,16}") {
        let before = format!("/p?{query}");
        let filter = on_request(&json!([
            { "query": { "set": { "name": "zz", "value": "1" } } },
            { "query": { "rename": { "from": "zz", "to": "yy" } } },
            { "query": { "remove": "yy" } },
        ]));
        let after = request(&filter, &HeadMap::get(&before)).lines(":path").concat();
        prop_assert_eq!(after, if query.is_empty() { "/p".to_owned() } else { before });
    }

    #[test]
    fn any_configuration_is_refused_or_read(text in "[{}\\[\\]\":,a-z_0-9%() ]{0,60}") {
        let _ = HeaderRewrite::configure(text.as_bytes());
    }
}
