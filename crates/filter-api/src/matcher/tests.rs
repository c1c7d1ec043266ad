//! Tables of what matches, and the law that no reading of a path gets past its rule.

use proptest::prelude::*;

use super::path::{resolve_dots, reveal};
use super::{PathView, RequestMatcher, Selected, select};
use crate::HeadMap;
use crate::config::read;

fn matcher(json: &str) -> RequestMatcher {
    let text = format!("{{\"match\":{json}}}");
    match read(text.as_bytes(), |root| RequestMatcher::read(&root.required("match")?)) {
        Ok((matcher, _)) => matcher,
        Err(errors) => panic!("{json}: {errors}"),
    }
}

fn problem(json: &str) -> String {
    let text = format!("{{\"match\":{json}}}");
    read(text.as_bytes(), |root| RequestMatcher::read(&root.required("match")?)).unwrap_err().to_string()
}

#[test]
fn normal_forms() {
    let rows = [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b?x=/../y", "/a/b"),
        ("/a//b", "/a/b"),
        ("///", "/"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/../../b", "/b"),
        ("/a/..", "/"),
        ("/a/b/.", "/a/b/"),
        ("/a/b/..", "/a/"),
        ("/%61%2d%5f", "/a-_"),
        ("/%2e%2e/b", "/b"),
        ("/a/%2E/b", "/a/b"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/caf\u{e9}", "/caf%C3%A9"),
        ("/a b", "/a%20b"),
        ("/A/b", "/A/b"),
        ("/.well-known/x", "/.well-known/x"),
        ("/a/...", "/a/..."),
        ("/a%2fb", "/a%2Fb"),
        ("/a;b=c", "/a;b=c"),
        ("", ""),
    ];
    for (path, expected) in rows {
        assert_eq!(String::from_utf8_lossy(PathView::new(path.as_bytes()).normal()), expected, "{path}");
    }
}

#[test]
fn obscured_paths() {
    for path in
        ["/a%2fb", "/a%2Fb", "/a\\b", "/a%5cb", "/a%00", "/a%252fb", "/a%zz", "/a%", "/a#b", "*", "a/b"]
    {
        assert!(PathView::new(path.as_bytes()).is_obscured(), "{path}");
    }
    for path in ["/", "/a", "/a//b", "/a/../b", "/a;b", "/%61", "/100%25", "/a%20b", "", "/?a=%2f"] {
        assert!(!PathView::new(path.as_bytes()).is_obscured(), "{path}");
    }
}

#[test]
fn conditions() {
    let rows = [
        ("{}", true),
        (r#"{"prefix":"/"}"#, true),
        (r#"{"prefix":"/v1"}"#, true),
        (r#"{"prefix":"/v1/x/y"}"#, false),
        (r#"{"path":"/v1/x"}"#, true),
        (r#"{"path":"/v1/"}"#, false),
        (r#"{"path":[{"exact":"/a"},{"prefix":"/v1/"}]}"#, true),
        (r#"{"path":["/a","/b"]}"#, false),
        (r#"{"path_separated_prefix":"/v1"}"#, true),
        (r#"{"path_separated_prefix":"/v1/"}"#, true),
        (r#"{"path_separated_prefix":"/v"}"#, false),
        (r#"{"safe_regex":{"regex":"/v[0-9]+/.*"}}"#, true),
        (r#"{"regex":"/v1"}"#, false),
        (r#"{"host":"api.example"}"#, true),
        (r#"{"host":"API.example"}"#, true),
        (r#"{"host":["x.example","*.example"]}"#, true),
        (r#"{"host":"*.api.example"}"#, false),
        (r#"{"host":"*"}"#, true),
        (r#"{"method":"GET"}"#, true),
        (r#"{"method":["POST","PUT"]}"#, false),
        (r#"{"headers":[{"name":"X-Tenant","exact":"blue"}]}"#, true),
        (r#"{"headers":[{"name":"x-tenant","exact":["green","red"]}]}"#, true),
        (r#"{"headers":[{"name":"x-tenant","string_match":{"prefix":"bl"}}]}"#, true),
        (r#"{"headers":[{"name":"x-tenant"},{"name":"absent"}]}"#, false),
        (r#"{"headers":[{"name":"absent","invert_match":true}]}"#, true),
        (r#"{"headers":[{"name":"absent","present_match":false}]}"#, true),
        (r#"{"headers":[{"name":"x-tenant","exact":"red","invert_match":true}]}"#, false),
        (r#"{"prefix":"/v1/","method":"POST"}"#, false),
    ];
    let head = HeadMap::get("/v1/x?y=/v2")
        .with_only(":authority", "Api.Example.:8443")
        .with("x-tenant", "blue")
        .with("x-tenant", "red");
    let path = PathView::new(b"/v1/x?y=/v2");
    for (json, expected) in rows {
        assert_eq!(matcher(json).matches(&head, &path), expected, "{json}");
    }
}

#[test]
fn hosts() {
    let rows = [
        ("api.example", "api.example", true),
        ("api.example", "API.Example:443", true),
        ("api.example", "api.example.", true),
        ("api.example", "x.api.example", false),
        ("*.example", "api.example", true),
        ("*.example", "a.b.example:80", true),
        ("*.example", ".example", false),
        ("*.example", "example", false),
        ("*.example", "evil.test,api.example", false),
        ("api.example", "api.example,evil.test", false),
        ("api.example", "user@api.example", false),
        ("*", "anything", true),
        ("*", "", true),
        ("api.example", "", false),
        ("[::1]", "[::1]:8080", true),
        ("[::1]", "[::1]", true),
    ];
    for (host, authority, expected) in rows {
        let head = HeadMap::get("/").with_only(":authority", authority);
        let matcher = matcher(&format!("{{\"host\":{host:?}}}"));
        assert_eq!(matcher.matches(&head, &PathView::new(b"/")), expected, "{host} and {authority}");
    }
}

#[test]
fn what_could_never_match_is_refused_with_the_remedy() {
    let rows = [
        (r#"{"prefix":"v1"}"#, "match.prefix: \"v1\" can never match; a path begins with \"/\""),
        (
            r#"{"prefix":"/a//b"}"#,
            "can never match, since paths are normalised before they are compared; write \"/a/b\"",
        ),
        (r#"{"path":"/%61"}"#, "write \"/a\""),
        (r#"{"path":"/a?b=c"}"#, "holds a query"),
        (r#"{"prefix":"/a","path":"/b"}"#, "`path` and `prefix` are given; give one"),
        (r#"{"regex":"("}"#, "match.regex: \"(\" is not a regular expression"),
        (r#"{"host":"a.example:80"}"#, "names a port"),
        (r#"{"host":"*example"}"#, "is not a host"),
        (r#"{"method":"get"}"#, "\"get\" is not a method; they are compared with case"),
        (r#"{"method":[]}"#, "match.method: must not be an empty list"),
        (r#"{"headers":[{"name":"a b"}]}"#, "match.headers[0].name: \"a b\" is not a header name"),
        (r#"{"headers":[{"exact":"x"}]}"#, "match.headers[0]: `name` is missing"),
        (r#"{"pathh":"/"}"#, "unknown field `pathh`; did you mean `path`?"),
    ];
    for (json, expected) in rows {
        let message = problem(json);
        assert!(message.contains(expected), "{json}: {message}");
    }
}

/// The rules of a typical gateway; the number is the rule's name.
fn choose(rules: &[(&str, bool)], path: &str) -> Option<usize> {
    let rules: Vec<(usize, RequestMatcher, bool)> = rules
        .iter()
        .enumerate()
        .map(|(place, (prefix, lenient))| (place, matcher(&format!("{{\"prefix\":{prefix:?}}}")), *lenient))
        .collect();
    let head = HeadMap::get(path);
    match select(&rules, |rule| &rule.1, |rule| rule.2, &head, &PathView::new(path.as_bytes())) {
        Selected::Rule(rule) => Some(rule.0),
        Selected::Nothing | Selected::Ambiguous => None,
    }
}

#[test]
fn no_trick_gets_around_a_rule() {
    let public_then_private = [("/public", true), ("/", false)];
    let rows = [
        ("/public/x", Some(0)),
        ("/public//x", Some(0)),
        ("/public/./x", Some(0)),
        ("/public/a;v=1", Some(0)),
        ("/%70ublic/x", Some(0)),
        ("/x", Some(1)),
        // Each of these is served as /admin by some upstream or route table.
        ("/public/../admin", None),
        ("/public/%2e%2e/admin", None),
        ("/public/..;/admin", None),
        ("/public;x/../admin", None),
        ("/public/..%2fadmin", Some(1)),
        ("/public%2f..%2fadmin", Some(1)),
        ("/public/..%252fadmin", Some(1)),
        ("/public\\..\\admin", Some(1)),
        ("/public/..%5cadmin", Some(1)),
        ("/public%00/../admin", Some(1)),
        ("/public%zz", Some(1)),
    ];
    for (path, expected) in rows {
        assert_eq!(choose(&public_then_private, path), expected, "{path}");
    }
    let admin_then_users = [("/admin", false), ("/", false)];
    let rows = [
        ("/admin", Some(0)),
        ("/%61dmin", Some(0)),
        ("/user", Some(1)),
        ("//admin", None),
        ("/./admin", None),
        ("/x/..%2fadmin", None),
        ("/x/..;/admin", None),
        ("/;/admin", None),
        ("/admin//../user", None),
        ("/api/group%2Fname", Some(1)),
    ];
    for (path, expected) in rows {
        assert_eq!(choose(&admin_then_users, path), expected, "{path}");
    }
}

#[test]
fn a_path_too_long_to_be_read_in_every_way_decides_nothing() {
    let long = "x".repeat(5000);
    let rules = |texts: &[&str]| -> Vec<RequestMatcher> { texts.iter().map(|text| matcher(text)).collect() };
    let choose = |rules: &[RequestMatcher], path: &str| {
        let view = PathView::new(path.as_bytes());
        match select(rules, |rule| rule, |_| false, &HeadMap::get(path), &view) {
            Selected::Rule(rule) => rules.iter().position(|own| std::ptr::eq(own, rule)),
            Selected::Nothing => Some(99),
            Selected::Ambiguous => None,
        }
    };
    let escaped = format!("/%{}2fapi", "25".repeat(6));
    // Each of these may be served as /api; a rule for every request, or none at all, must not get it.
    for path in
        [format!("/{long}/..;/api"), format!("/{long}/..%2fapi"), format!("/{long}/;/../../api"), escaped]
    {
        assert!(PathView::new(path.as_bytes()).is_unreadable(), "{path}");
        for rules in [rules(&[r#"{"prefix":"/api"}"#, "{}"]), rules(&[r#"{"prefix":"/api"}"#])] {
            assert_eq!(choose(&rules, &path), None, "{path}");
            assert!(!rules[0].matches(&HeadMap::get(&path), &PathView::new(path.as_bytes())), "{path}");
        }
        // What does not depend on the path is decided all the same.
        assert_eq!(choose(&rules(&["{}"]), &path), Some(0));
    }
    // Length alone is nothing.
    let plain = format!("/{long}/api");
    assert_eq!(choose(&rules(&[r#"{"prefix":"/api"}"#, "{}"]), &plain), Some(1));
}

proptest! {
    /// However a path is scrambled, one way of reading it is what a naive upstream makes of it;
    /// that reading must be among those compared.
    #[test]
    fn the_readings_hold_what_a_decoding_upstream_sees(path in "/([a-c./;%2fF5cC\\\\]{0,14})") {
        let view = PathView::new(path.as_bytes());
        let decoded = percent_decode_once(path.as_bytes());
        let wanted = everything_decoded(&resolve_dots(&decoded));
        let given: Vec<Vec<u8>> = view.readings().map(everything_decoded).collect();
        prop_assert!(
            given.contains(&wanted) || view.is_unreadable(),
            "{} not among {:?}", String::from_utf8_lossy(&wanted), view,
        );
    }

    #[test]
    fn any_bytes_are_taken_and_the_normal_form_is_stable(path in proptest::collection::vec(any::<u8>(), 0..40)) {
        let view = PathView::new(&path);
        let again = PathView::new(view.normal());
        if path.starts_with(b"/") && !view.is_obscured() {
            prop_assert_eq!(again.normal(), view.normal());
        }
    }
}

/// Readings differ in what they leave escaped; what matters here is where the slashes are.
fn everything_decoded(path: &[u8]) -> Vec<u8> {
    let mut current = path.to_vec();
    loop {
        let next = reveal(&current);
        if next == current {
            return current;
        }
        current = next;
    }
}

fn percent_decode_once(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut i = 0;
    while i < path.len() {
        let hex = path
            .get(i + 1..i + 3)
            .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (path[i], hex) {
            (b'%', Some(byte)) if path[i + 1] != b'+' => {
                out.push(byte);
                i += 3;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    out
}
