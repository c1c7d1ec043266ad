//! When operations run.

use super::*;

#[test]
fn conditions_on_the_request_are_of_it_as_it_came() {
    let filter = filter(&json!({
        "request_mutations": [
            { "path": { "prefix": "/v1/", "with": "/" } },
            { "remove": "x-a" },
            { "set": { "name": "one", "value": "1" }, "match": { "prefix": "/v1/" } },
            { "set": { "name": "two", "value": "2" }, "match": { "headers": [{ "name": "x-a" }] } },
            { "set": { "name": "three", "value": "3" }, "if_header": { "name": "x-a" } },
            { "set": { "name": "four", "value": "4" }, "if_header": [{ "name": "one", "exact": "1" }, { "name": "x-a", "present_match": false }] },
        ],
        "response_mutations": [
            { "set": { "name": "five", "value": "5" }, "match": { "prefix": "/v1/", "method": "GET" } },
            { "set": { "name": "six", "value": "6" }, "match": { "prefix": "/v2/" } },
        ],
    }));
    let head = HeadMap::get("/v1/x").with("x-a", "1");
    let done = request(&filter, &head);
    for (name, expected) in [("one", true), ("two", true), ("three", false), ("four", true)] {
        assert_eq!(done.head.first(name).is_some(), expected, "{name}");
    }
    let done = response(&filter, &head, &status("200"));
    assert_eq!((done.lines("five"), done.lines("six")), (vec!["5".to_owned()], vec![]));
}

#[test]
fn conditions_on_the_response() {
    let with = |condition: Value| {
        let mut operation = condition;
        operation["set"] = json!({ "name": "x", "value": "1" });
        on_response(&json!([{ "set": { "name": "own", "value": "1" } }, operation]))
    };
    let rows = [
        (json!({ "status": 404 }), "404", true),
        (json!({ "status": 404.0 }), "404", true),
        (json!({ "status": ["200", "5xx"] }), "503", true),
        (json!({ "status": ["200", "5xx"] }), "404", false),
        (json!({ "status": "400-404" }), "404", true),
        (json!({ "status": "400-404" }), "405", false),
        (json!({ "response_headers": { "name": "content-type", "prefix": "text/" } }), "200", true),
        (
            json!({ "response_headers": [{ "name": "content-type", "exact": "text/plain" }, { "name": "none" }] }),
            "200",
            false,
        ),
        (json!({ "response_headers": [{ "name": "own" }] }), "200", false),
        (json!({ "if_header": [{ "name": "own" }] }), "200", true),
        (json!({ "status": 200, "if_header": [{ "name": "content-type", "suffix": "html" }] }), "200", false),
    ];
    for (condition, code, expected) in rows {
        let done = response(&with(condition.clone()), &HeadMap::get("/"), &status(code));
        assert_eq!(done.head.first("x").is_some(), expected, "{condition} {code}");
    }
}

#[test]
fn a_group_has_conditions_for_all_that_is_in_it() {
    let filter = filter(&json!({
        "request_mutations": [
            { "match": { "prefix": "/a" }, "mutations": [
                { "set": { "name": "one", "value": "1" } },
                { "match": { "method": "POST" }, "set": { "name": "two", "value": "2" } },
                { "if_header": { "name": "one" }, "mutations": [{ "set": { "name": "three", "value": "3" } }] },
            ] },
        ],
        "response_mutations": [
            { "match": { "prefix": "/a" }, "status": "2xx", "mutations": [
                { "match": { "method": "GET" }, "set": { "name": "one", "value": "%REQ(y)%" } },
                { "match": { "method": "POST" }, "set": { "name": "two", "value": "%REQ(y)%" } },
            ] },
        ],
    }));
    let names = |done: &Done| {
        ["one", "two", "three"].into_iter().filter(|name| done.head.first(name).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(names(&request(&filter, &HeadMap::get("/a"))), ["one", "three"]);
    assert_eq!(
        names(&request(&filter, &HeadMap::get("/a").with_only(":method", "POST"))),
        ["one", "two", "three"]
    );
    assert_eq!(names(&request(&filter, &HeadMap::get("/b"))), [""; 0]);
    assert_eq!(names(&response(&filter, &HeadMap::get("/a").with("y", "1"), &status("200"))), ["one"]);
    assert_eq!(names(&response(&filter, &HeadMap::get("/a").with("y", "1"), &status("404"))), [""; 0]);
    assert_eq!(names(&response(&filter, &HeadMap::get("/b").with("y", "1"), &status("200"))), [""; 0]);
}

/// A path that can be read in several ways: what should be taken away is, nothing is given.
#[test]
fn nobody_keeps_a_header_by_writing_the_path_in_another_way() {
    let filter = filter(&json!({
        "request_mutations": [{ "match": { "prefix": "/admin" }, "mutations": [
            { "remove": "x-role" },
            { "set": { "name": "x-admin", "value": "yes" } },
        ] }],
        "response_mutations": [
            { "match": { "prefix": "/admin" }, "remove": "x-debug" },
            { "match": { "prefix": "/admin" }, "set": { "name": "x-admin", "value": "yes" } },
        ],
    }));
    for (path, removed, written) in [
        ("/admin/x", true, true),
        ("/public/..;/admin", true, false),
        ("/public/%2e%2e%2fadmin", true, false),
        ("//admin", true, false),
        ("/public", false, false),
    ] {
        let head = HeadMap::get(path).with("x-role", "root");
        let done = request(&filter, &head);
        assert_eq!(done.lines("x-role").is_empty(), removed, "{path}");
        assert_eq!(!done.lines("x-admin").is_empty(), written, "{path}");
        let done = response(&filter, &head, &status("200").with("x-debug", "1"));
        assert_eq!(done.lines("x-debug").is_empty(), removed, "{path}");
        assert_eq!(!done.lines("x-admin").is_empty(), written, "{path}");
    }
}

#[test]
fn the_preset_adds_what_is_not_there() {
    let of = |preset: Value| {
        let head = status("200").with("x-frame-options", "sameorigin");
        response(&on_response(&json!([{ "preset": preset }])), &HeadMap::get("/"), &head)
    };
    let done = of(json!("security_headers"));
    for (name, value) in crate::preset::HEADERS {
        let expected = if name == "x-frame-options" { "sameorigin" } else { value };
        assert_eq!(done.lines(name), [expected]);
    }
    assert_eq!(done.operations.len(), crate::preset::HEADERS.len() - 1);
    let done = of(json!({ "name": "security_headers", "overwrite": true, "except": ["Permissions-Policy"],
                          "values": { "Content-Security-Policy": "default-src %REQ(:authority)%" } }));
    assert_eq!(done.lines("x-frame-options"), ["deny"]);
    assert_eq!(done.lines("permissions-policy"), [""; 0]);
    assert_eq!(done.lines("content-security-policy"), ["default-src gateway.example"]);
}
