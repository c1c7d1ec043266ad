//! Paths, hosts, queries, cookies.

use super::*;

/// What the path becomes, and what `x-envoy-original-path` says.
fn path(operations: &Value, before: &str) -> (String, Vec<String>, Vec<Skipped>) {
    let head =
        HeadMap::get(before).with("x-tenant", "a b/c?d#e%41").with("x-up", "..").with("x-plain", "acme");
    let done = request(&on_request(operations), &head);
    (done.lines(":path").concat(), done.lines("x-envoy-original-path"), done.skipped())
}

#[test]
fn paths_are_rewritten_and_their_queries_stay() {
    let prefix = json!([{ "path": { "prefix": "/v1/", "with": "/" } }]);
    let regex = json!([{ "path": { "regex": "^/users/([^/]+)/(.*)$", "with": "/\\2/of/\\1" } }]);
    let set = |value: &str| json!([{ "path": { "set": value } }]);
    let rows = [
        (&prefix, "/v1/orders?a=1&a=", Some("/orders?a=1&a=")),
        (&prefix, "/v1/", Some("/")),
        (&prefix, "/v1", None),
        (&prefix, "/v10/x", None),
        (&prefix, "/x/v1/", None),
        (&prefix, "/v1/?", Some("/?")),
        (&prefix, "*", None),
        (&prefix, "/v1/v1/x", Some("/v1/x")),
        (&prefix, "/v1/a%2Fb?/v1/", Some("/a%2Fb?/v1/")),
        (&regex, "/users/7/orders?x", Some("/orders/of/7?x")),
        (&regex, "/users/7", None),
        (&set("/new"), "/old?q=%20", Some("/new?q=%20")),
        (&set("/new"), "/new?q", None),
        (&set("/t/%REQ(x-plain)%/x"), "/", Some("/t/acme/x")),
        (&set("/t/%REQ(x-tenant)%/x"), "/?q", Some("/t/a%20b%2Fc%3Fd%23e%2541/x?q")),
        (&set("/pre%PATH%"), "/a%2Fb?q=1", Some("/pre/a%2Fb?q=1")),
        (&set("%PATH(NQ)%/x"), "/a?q=1", Some("/a/x?q=1")),
        (&set("/t/%REQ(none)%"), "/a", None),
    ];
    for (operations, before, after) in rows {
        let (new, original, skipped) = path(operations, before);
        assert_eq!(new, after.unwrap_or(before), "{operations} {before}");
        let expected: Vec<&str> = after.map(|_| before).into_iter().collect();
        assert_eq!(original, expected, "{operations} {before}");
        assert_eq!(skipped, [], "{operations} {before}");
    }
}

#[test]
fn a_path_that_would_be_another_is_not_written() {
    let rows = [
        (json!([{ "path": { "set": "/t/%REQ(x-up)%/admin" } }]), "/a"),
        (json!([{ "path": { "set": "/t/.%REQ(x-up):1%" } }]), "/a"),
        (json!([{ "path": { "regex": "^/", "with": "" } }]), "/a"),
        (json!([{ "path": { "regex": "a", "with": "/../" } }]), "/a"),
        (json!([{ "path": { "prefix": "/v1", "with": "/x" } }]), "/v1/../b"),
    ];
    for (operations, before) in rows {
        assert_eq!(
            path(&operations, before),
            (before.to_owned(), vec![], vec![Skipped::InvalidValue]),
            "{operations}"
        );
    }
}

#[test]
fn the_original_path_is_the_first() {
    let head = HeadMap::get("/v1/a?q").with("x-envoy-original-path", "/forged");
    let filter = on_request(&json!([
        { "path": { "prefix": "/v1", "with": "/v2" } },
        { "query": { "set": { "name": "q", "value": "1" } } },
        { "path": { "prefix": "/v2", "with": "/v3" } },
    ]));
    let done = request(&filter, &head);
    assert_eq!(done.lines(":path"), ["/v3/a?q=1"]);
    assert_eq!(done.lines("x-envoy-original-path"), ["/v1/a?q"]);
    // Where none is rewritten, nothing is said of it.
    let done = request(&filter, &HeadMap::get("/a?q=1"));
    assert!(done.operations.is_empty());
}

#[test]
fn hosts() {
    let set = |value: &str| json!([{ "host": { "set": value } }]);
    let regex = json!([{ "host": { "regex": "^([^.]+)\\.example", "with": "\\1.internal", "append_x_forwarded_host": true } }]);
    let rows = [
        (set("b.example:8080"), Some("b.example:8080"), false),
        (set("%REQ(x-host)%"), Some("c.example"), false),
        (set("%REQ(x-bad)%"), None, false),
        (set("%REQ(none)%"), None, false),
        (set("gateway.example"), None, false),
        (regex, Some("gateway.internal"), true),
    ];
    for (operations, after, tells) in rows {
        let head = HeadMap::get("/").with("x-host", "c.example").with("x-bad", "a.example/b");
        let done = request(&on_request(&operations), &head);
        assert_eq!(done.lines(":authority"), [after.unwrap_or("gateway.example")], "{operations}");
        let told: &[&str] = if tells { &["gateway.example"] } else { &[] };
        assert_eq!(done.lines("x-forwarded-host"), told, "{operations}");
        assert_eq!(done.operations.len(), usize::from(after.is_some()) + usize::from(tells), "{operations}");
    }
}

#[test]
fn queries() {
    let rows = [
        (json!({ "set": { "name": "a", "value": "x" } }), "/?a=1&b=2&a=3&&c", "/?a=x&b=2&&c"),
        (json!({ "set": { "name": "a", "value": "x y&z=%%" } }), "/p", "/p?a=x%20y%26z%3D%25"),
        (json!({ "set": { "name": "a b", "value": "" } }), "/p?a%20b=1&a+b=2", "/p?a%20b="),
        (json!({ "set": { "name": "a", "value": "1" } }), "/p?a=1", "/p?a=1"),
        (json!({ "set": { "name": "a", "value": "1" } }), "/p?", "/p?a=1"),
        (json!({ "add": { "name": "a", "value": "%METHOD%" } }), "/p?a=1", "/p?a=1&a=GET"),
        (json!({ "add_if_absent": { "name": "a", "value": "2" } }), "/p?a", "/p?a"),
        (json!({ "add_if_absent": { "name": "a", "value": "2" } }), "/p?b=%zz&", "/p?b=%zz&&a=2"),
        (json!({ "overwrite_if_exists": { "name": "a", "value": "2" } }), "/p?b", "/p?b"),
        (json!({ "overwrite_if_exists": { "name": "a", "value": "2" } }), "/p?%61=1", "/p?a=2"),
        (json!({ "remove": "a" }), "/p?a=1&b=&a&c=3", "/p?b=&c=3"),
        (json!({ "remove": "a" }), "/p?a=1", "/p"),
        (json!({ "remove": "a" }), "/p?", "/p?"),
        (json!({ "remove": "a" }), "/p?b=a&&", "/p?b=a&&"),
        (json!({ "remove": { "prefix": "utm_" } }), "/p?utm_x=1&a=%41&utm_y", "/p?a=%41"),
        (json!({ "remove": ["a", { "regex": "b+" }] }), "/p?bb&a&ab", "/p?ab"),
        (
            json!({ "rename": { "from": "a", "to": "b c" } }),
            "/p?a=1%20&x&%61=&a",
            "/p?b%20c=1%20&x&b%20c=&b%20c",
        ),
        (json!({ "rename": { "from": "a", "to": "b" } }), "/p?A=1", "/p?A=1"),
        (json!({ "set": { "name": "a", "value": "1" } }), "*", "*"),
    ];
    for (operation, before, after) in rows {
        let done = request(&on_request(&json!([{ "query": operation }])), &HeadMap::get(before));
        assert_eq!(done.lines(":path"), [after], "{operation} {before}");
        assert_eq!(done.operations.len(), usize::from(before != after), "{operation} {before}");
    }
}

#[test]
fn envoys_own_edits_of_the_query_run_last() {
    let filter = filter(&json!({ "mutations": {
        "query_parameter_mutations": [
            { "append": { "record": { "key": "a", "value": "%REQ(x)%" }, "action": "OVERWRITE_IF_EXISTS_OR_ADD" } },
            { "append": { "record": { "key": "b", "value": "1" } } },
            { "remove": "c" },
        ],
        "request_mutations": [{ "append": { "header": { "key": "x", "value": "y" } } }],
    } }));
    assert_eq!(request(&filter, &HeadMap::get("/?c=1&a=2")).lines(":path"), ["/?a=y&b=1"]);
}

#[test]
fn cookies_of_requests() {
    let set = json!({ "set": { "name": "c", "value": "%REQ(x-v)%" } });
    let remove = json!({ "remove": ["c", { "prefix": "_" }] });
    let rows: &[(&Value, &[&str], &str, &[&str])] = &[
        (&set, &[], "1", &["c=1"]),
        (&set, &["a=1; b=2"], "1", &["a=1; b=2; c=1"]),
        (&set, &["a=1;c=0; b=\"2\"; c=9"], "1", &["a=1; c=1; b=\"2\""]),
        (&set, &["a=1", "c=0"], "1", &["a=1", "c=1"]),
        (&set, &["c=1"], "1", &["c=1"]),
        (&set, &["a=1"], "x; admin=1", &["a=1"]),
        (&set, &["a=1"], "x y", &["a=1"]),
        (&remove, &["a=1; c=2; _x=3"], "", &["a=1"]),
        (&remove, &["c=2", "_x"], "", &[]),
        (&remove, &["cc=2; d"], "", &["cc=2; d"]),
    ];
    for (operation, before, value, after) in rows {
        let head =
            before.iter().fold(HeadMap::get("/").with("x-v", value), |head, line| head.with("cookie", line));
        let done = request(&on_request(&json!([{ "cookie": operation }])), &head);
        assert_eq!(done.lines("cookie"), *after, "{operation} {before:?} {value}");
    }
}

#[test]
fn cookies_of_responses_stay_lines_of_their_own() {
    let set = json!({ "set": { "name": "c", "value": "%REQ(x-v)%", "path": "/", "max_age": "3600s", "secure": true,
                               "http_only": true, "same_site": "lax", "domain": "a.example", "partitioned": true } });
    let attributes = json!({ "attributes": { "names": ["a", "b"], "secure": true, "same_site": "Strict" } });
    let written = "c=1; Path=/; Domain=a.example; Max-Age=3600; SameSite=Lax; Secure; HttpOnly; Partitioned";
    let rows: &[(&Value, &[&str], &[&str])] = &[
        (&set, &["a=1; Path=/", "c=0", "b=2"], &["a=1; Path=/", "b=2", written]),
        (&set, &[], &[written]),
        (
            &json!({ "remove": "a" }),
            &["a=1", "b=2; Expires=Thu, 01 Dec 2026 08:00:00 GMT", "a"],
            &["b=2; Expires=Thu, 01 Dec 2026 08:00:00 GMT"],
        ),
        (
            &attributes,
            &["a=1", "c=2", "b=3; Secure; SameSite=None"],
            &["a=1; Secure; SameSite=Strict", "c=2", "b=3; Secure; SameSite=Strict"],
        ),
    ];
    for (operation, before, after) in rows {
        let head = before.iter().fold(status("200"), |head, line| head.with("set-cookie", line));
        let filter = on_response(&json!([{ "cookie": operation }]));
        let done = response(&filter, &HeadMap::get("/").with("x-v", "1"), &head);
        assert_eq!(done.lines("set-cookie"), *after, "{operation} {before:?}");
    }
    let injected = HeadMap::get("/").with("x-v", "1; Domain=evil.example");
    let done = response(&on_response(&json!([{ "cookie": set }])), &injected, &status("200"));
    assert_eq!((done.lines("set-cookie"), done.skipped()), (vec![], vec![Skipped::InvalidValue]));
}
