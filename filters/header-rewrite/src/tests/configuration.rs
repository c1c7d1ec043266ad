//! What is refused, and in which words.

use super::*;

#[test]
fn what_is_wrong_is_named_with_its_path() {
    let request = |operation: Value| json!({ "request_mutations": [operation] });
    let response = |operation: Value| json!({ "response_mutations": [operation] });
    let x = |value: &str| json!({ "name": "x", "value": value });
    let rows = [
        (json!({}), "does nothing: give `request_mutations` or `response_mutations`"),
        (json!({ "request_mutations": [] }), "does nothing"),
        (json!({ "requests": [] }), "unknown field `requests`"),
        (
            request(json!({ "sett": x("1") })),
            "request_mutations[0]: unknown field `sett`; did you mean `set`?",
        ),
        (
            request(json!({ "set": x("1"), "remove": "y" })),
            "request_mutations[0]: `set` and `remove` are given; give one of them",
        ),
        (request(json!({ "set": { "name": "x" } })), "request_mutations[0].set: `value` is missing"),
        (
            request(json!({ "set": { "value": "x" } })),
            "request_mutations[0].set: one of `name`, `key` is missing",
        ),
        (
            request(json!({ "set": x("") })),
            "request_mutations[0].set.value: is empty, so nothing would be written",
        ),
        (
            request(json!({ "set": x("100%") })),
            "request_mutations[0].set.value: the % at byte 3 begins no operator",
        ),
        (request(json!({ "set": x("%FOO%") })), "%FOO% is not known; there are REQ"),
        (request(json!({ "set": x("%RESPONSE_CODE%") })), "has no value before the response"),
        (request(json!({ "set": x("a\r\nb: c") })), "control character"),
        (request(json!({ "set": { "name": "x y", "value": "1" } })), "\"x y\" is not a header name"),
        (
            request(json!({ "set": { "name": ":path", "value": "/" } })),
            "\":path\" is changed by the operations `path` and `query`",
        ),
        (
            request(json!({ "set": { "name": "Host", "value": "a" } })),
            "\"host\" is changed by the operation `host`",
        ),
        (
            request(json!({ "set": { "name": ":authority", "value": "a" } })),
            "is changed by the operation `host`",
        ),
        (
            request(json!({ "set": { "name": ":method", "value": "GET" } })),
            "\":method\" is not for any operation to change",
        ),
        (
            response(json!({ "set": { "name": ":status", "value": "200" } })),
            "\":status\" is not for any operation to change",
        ),
        (
            response(json!({ "remove": "Content-Length" })),
            "response_mutations[0].remove: \"content-length\" is Envoy's own",
        ),
        (
            request(json!({ "remove": ["a", "transfer-encoding"] })),
            "request_mutations[0].remove[1]: \"transfer-encoding\" is Envoy's own",
        ),
        (
            request(json!({ "rename": { "from": "connection", "to": "x" } })),
            "rename.from: \"connection\" is Envoy's own",
        ),
        (request(json!({ "copy": { "from": "x", "to": "upgrade" } })), "copy.to: \"upgrade\" is Envoy's own"),
        (request(json!({ "copy": { "from": "x", "to": "X" } })), "names the same header twice"),
        (request(json!({ "remove": [] })), "must not be an empty list"),
        (request(json!({ "remove": { "prefix": "" } })), "must not be empty"),
        (
            request(json!({ "replace": { "name": "x", "regex": "(", "with": "" } })),
            "\"(\" is not a regular expression that can be used",
        ),
        (
            request(json!({ "replace": { "name": "x", "regex": "(a{1000}){1000}", "with": "" } })),
            "is not a regular expression that can be used",
        ),
        (
            request(json!({ "replace": { "name": "x", "regex": "a".repeat(1025), "with": "" } })),
            "is 1025 bytes long; the most is 1024",
        ),
        (
            request(json!({ "replace": { "name": "x", "regex": "(a)", "with": "\\2" } })),
            "\\2 is not a group of the pattern, which has 1",
        ),
        (
            request(json!({ "replace": { "name": "x", "regex": "a", "with": "\\n" } })),
            "a \\ is followed by the number of a group",
        ),
        (
            request(json!({ "dedupe": { "name": "x", "keep": "all" } })),
            "\"all\" must be first, last or unique",
        ),
        (request(json!({ "path": { "set": "new" } })), "request_mutations[0].path.set: is no path"),
        (request(json!({ "path": { "set": "/a?b" } })), "is no path"),
        (request(json!({ "path": { "set": "/a b" } })), "is no path"),
        (request(json!({ "path": { "prefix": "v1", "with": "/" } })), "\"v1\" is no beginning of a path"),
        (request(json!({ "path": { "prefix": "/v1" } })), "`with` is missing"),
        (request(json!({ "path": { "prefix": "/v1", "regex": "a", "with": "/" } })), "give one of them"),
        (request(json!({ "host": { "set": "a/b" } })), "is no host"),
        (response(json!({ "path": { "set": "/" } })), "`path` is for `request_mutations`"),
        (response(json!({ "query": { "remove": "a" } })), "`query` is for `request_mutations`"),
        (
            request(json!({ "query": { "rename": { "from": "a", "to": "a" } } })),
            "names the same parameter twice",
        ),
        (
            request(json!({ "cookie": { "set": { "name": "a b", "value": "1" } } })),
            "\"a b\" is no name of a cookie",
        ),
        (request(json!({ "cookie": { "attributes": { "secure": true } } })), "unknown field `attributes`"),
        (response(json!({ "cookie": { "attributes": {} } })), "changes nothing; give `secure`"),
        (response(json!({ "cookie": { "attributes": { "same_site": "None" } } })), "needs `secure: true`"),
        (
            response(json!({ "cookie": { "set": { "name": "__Host-a", "value": "1", "secure": true } } })),
            "needs `path: /`",
        ),
        (
            response(json!({ "cookie": { "set": { "name": "__Secure-a", "value": "1" } } })),
            "needs `secure: true`",
        ),
        (
            response(json!({ "cookie": { "set": { "name": "a", "value": "1", "path": "/;x" } } })),
            "holds what no attribute",
        ),
        (
            response(json!({ "cookie": { "set": { "name": "a", "value": "1", "same_site": "No" } } })),
            "\"No\" must be Strict, Lax or None",
        ),
        (response(json!({ "preset": "owasp" })), "\"owasp\" is no preset; there is security_headers"),
        (
            response(json!({ "preset": { "name": "security_headers", "except": ["server"] } })),
            "\"server\" is not of this preset, which has",
        ),
        (
            response(json!({ "preset": { "name": "security_headers", "values": { "x frame": "deny" } } })),
            "\"x frame\" is not a header name",
        ),
        (request(json!({ "preset": "security_headers" })), "is for `response_mutations`"),
        (
            request(json!({ "set": x("1"), "status": 200 })),
            "request_mutations[0].status: is not known before the response has come",
        ),
        (response(json!({ "set": x("1"), "status": "20x" })), "\"20x\" is no status"),
        (response(json!({ "set": x("1"), "status": "500-400" })), "\"500-400\" is no status"),
        (response(json!({ "set": x("1"), "status": 600 })), "600 is not a whole number from 100 to 599"),
        (response(json!({ "set": x("1"), "status": [] })), "must not be an empty list"),
        (
            request(json!({ "set": x("1"), "match": { "prefix": "a" } })),
            "request_mutations[0].match.prefix: \"a\" can never match",
        ),
        (request(json!({ "mutations": [] })), "request_mutations[0].mutations: must not be empty"),
        (
            request(json!({ "mutations": [{ "set": x("%") }] })),
            "request_mutations[0].mutations[0].set.value: the % at byte 0",
        ),
        (
            request(json!({ "append": { "header": { "key": "x", "value": "1" }, "append_action": "SET" } })),
            "\"SET\" must be APPEND_IF_EXISTS_OR_ADD",
        ),
        (
            json!({ "protected": ["x"], "request_mutations": [{ "set": x("1") }] }),
            "\"x\" is on the list `protected`",
        ),
        (
            json!({ "protected": [{ "prefix": "X-A" }], "request_mutations": [{ "rename": { "from": "x-ab", "to": "y" } }] }),
            "\"x-ab\" is on the list `protected`",
        ),
        (
            json!({ "protected": ["cookie"], "request_mutations": [{ "cookie": { "remove": "a" } }] }),
            "request_mutations[0].cookie: writes \"cookie\", which is on the list `protected`",
        ),
        (
            json!({ "protected": ["set-cookie"], "response_mutations": [{ "cookie": { "remove": "a" } }] }),
            "writes \"set-cookie\", which is on the list `protected`",
        ),
        (
            json!({ "protected": [{ "prefix": "x-" }], "request_mutations": [{ "path": { "set": "/a" } }] }),
            "writes \"x-envoy-original-path\", which is on the list `protected`",
        ),
        (
            json!({ "protected": [{ "prefix": "x-" }],
                    "request_mutations": [{ "host": { "set": "a", "append_x_forwarded_host": true } }] }),
            "writes \"x-forwarded-host\", which is on the list `protected`",
        ),
        (request(json!({ "path": { "regex": "a", "with": "b c" } })), "path.with: is no part of a path"),
        (request(json!({ "path": { "regex": "a", "with": "b?c" } })), "path.with: is no part of a path"),
        (request(json!({ "path": { "regex": "a", "with": "é" } })), "path.with: is no part of a path"),
        (
            json!({ "protected": ["referrer-policy"], "response_mutations": [{ "preset": "security_headers" }] }),
            "which is on the list `protected`; name it under `except`",
        ),
        (
            json!({ "request_mutations": [{ "remove": "x" }], "mutations": { "request_mutations": [{ "remove": "x" }] } }),
            "is given here and under `mutations`; give it once",
        ),
        (json!({ "mutations": [] }), "mutations: must be an object, not an array"),
    ];
    for (config, expected) in rows {
        let found = problems(&config);
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{config}\n{found:#?}\nlacks {expected}"
        );
    }
}

#[test]
fn every_mistake_is_named_at_once() {
    let found = problems(&json!({
        "request_mutations": [{ "set": { "name": ":path", "value": "%" } }, { "remove": "te" }],
        "response_mutations": [{ "preset": "x", "status": "y" }],
        "protectd": [],
    }));
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let config =
        json!({ "most_specific_header_mutations_wins": true, "request_mutations": [{ "remove": "x" }] });
    let warnings = HeaderRewrite::configure(config.to_string().as_bytes()).unwrap().warnings;
    assert!(warnings[0].to_string().contains("has no effect here"));
}
