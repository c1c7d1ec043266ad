//! Operations on headers by name.

use super::*;

/// Operations, the lines before, those of `x` after them, and how many host calls that takes.
type Row<'r> = (Value, &'r [(&'r str, &'r str)], &'r [&'r str], usize);

/// Checks the lines of `x` (or `:name`) after operations on a request, and how many host calls that takes.
fn check(rows: &[Row<'_>]) {
    for (operations, before, after, calls) in rows {
        let lines = |head: HeadMap| before.iter().fold(head, |head, (name, value)| head.with(name, value));
        for done in [
            request(&on_request(operations), &lines(HeadMap::get("/"))),
            response(&on_response(operations), &HeadMap::get("/"), &lines(status("200"))),
        ] {
            assert_eq!(done.lines("x"), *after, "{operations} on {before:?}");
            assert_eq!(done.operations.len(), *calls, "{operations} on {before:?}: {:?}", done.operations);
        }
    }
}

#[test]
fn each_way_to_write() {
    let of = |name: &str| json!([{ name: { "name": "X", "value": "new" } }]);
    check(&[
        (of("set"), &[], &["new"], 1),
        (of("set"), &[("x", "a"), ("X", "b")], &["new"], 1),
        (of("append"), &[], &["new"], 1),
        (of("append"), &[("x", "a"), ("x", "b")], &["a", "b", "new"], 1),
        (of("add_if_absent"), &[], &["new"], 1),
        (of("add_if_absent"), &[("x", "")], &[""], 0),
        (of("overwrite_if_exists"), &[], &[], 0),
        (of("overwrite_if_exists"), &[("x", "a"), ("x", "b")], &["new"], 1),
        (of("overwrite_if_exists"), &[("x", "new")], &["new"], 0),
        (json!([{ "set": { "key": "x", "value": "new" } }]), &[("x", "a")], &["new"], 1),
    ]);
}

#[test]
fn envoys_own_form_is_read() {
    let of = |action: &str| json!([{ "append": { "header": { "key": "x", "value": "new" }, "append_action": action } }]);
    check(&[
        (
            json!([{ "append": { "header": { "key": "x", "value": "new" } } }]),
            &[("x", "a")],
            &["a", "new"],
            1,
        ),
        (of("APPEND_IF_EXISTS_OR_ADD"), &[("x", "a")], &["a", "new"], 1),
        (of("ADD_IF_ABSENT"), &[("x", "a")], &["a"], 0),
        (of("OVERWRITE_IF_EXISTS_OR_ADD"), &[("x", "a")], &["new"], 1),
        (of("OVERWRITE_IF_EXISTS"), &[], &[], 0),
        (
            json!([{ "remove_on_match": { "key_matcher": { "prefix": "X" } } }]),
            &[("x", "a"), ("y", "b")],
            &[],
            1,
        ),
    ]);
}

#[test]
fn removing() {
    check(&[
        (json!([{ "remove": "X" }]), &[("x", "a"), ("X", "b"), ("xy", "c")], &[], 1),
        (json!([{ "remove": "x" }]), &[("y", "a")], &[], 0),
        (json!([{ "remove": ["y", "x"] }]), &[("x", "a"), ("y", "b")], &[], 2),
        (json!([{ "remove": { "prefix": "X" } }]), &[("x", "a"), ("xy", "b"), ("x", "c")], &[], 2),
        (json!([{ "remove": { "suffix": "x" } }]), &[("x", "a"), ("a-x", "b")], &[], 2),
        (json!([{ "remove": [{ "regex": "[w-y]" }, "z"] }]), &[("x", "a"), ("z", "b")], &[], 2),
        (json!([{ "remove": { "contains": "q" } }]), &[("x", "a")], &["a"], 0),
    ]);
}

#[test]
fn what_a_message_depends_on_stays_whatever_matches() {
    let head = HeadMap::get("/")
        .with("content-length", "3")
        .with("connection", "x")
        .with("te", "trailers")
        .with("upgrade", "x")
        .with("x-kept", "1")
        .with("x-gone", "2");
    let config = json!({ "protected": ["x-kept"], "request_mutations": [{ "remove": { "regex": ".*" } }] });
    let done = request(&filter(&config), &head);
    assert_eq!(done.operations, [HeaderOp::Remove(filter_api::HeaderName::from_static("x-gone"))]);
}

#[test]
fn renaming_and_copying() {
    check(&[
        (
            json!([{ "rename": { "from": "y", "to": "x" } }]),
            &[("y", "1"), ("y", "2"), ("x", "mine")],
            &["1", "2"],
            3,
        ),
        (json!([{ "rename": { "from": "y", "to": "x" } }]), &[("x", "mine")], &["mine"], 0),
        (json!([{ "rename": { "from": "x", "to": "y" } }]), &[("x", "1")], &[], 2),
        (json!([{ "copy": { "from": "y", "to": "x" } }]), &[("y", "1"), ("x", "mine")], &["1"], 1),
        (json!([{ "copy": { "from": "y", "to": "x" } }]), &[("y", "1"), ("x", "1")], &["1"], 0),
    ]);
    let done =
        request(&on_request(&json!([{ "copy": { "from": ":path", "to": "x" } }])), &HeadMap::get("/a?b"));
    assert_eq!(done.lines("x"), ["/a?b"]);
}

#[test]
fn replacing() {
    let of = |regex: &str, with: &str| json!([{ "replace": { "name": "x", "regex": regex, "with": with } }]);
    check(&[
        (of("a", "b"), &[("x", "banana"), ("x", "pear")], &["bbnbnb", "pebr"], 2),
        (of("q", "b"), &[("x", "banana")], &["banana"], 0),
        (of("a", "a"), &[("x", "banana")], &["banana"], 0),
        (
            of(r"(\w+)@(\w+)", r"\2 at \1 (\0) \\"),
            &[("x", "me@here, you@there")],
            &[r"here at me (me@here) \, there at you (you@there) \"],
            1,
        ),
        (of("(a)|(b)", r"<\1\2>"), &[("x", "abc")], &["<a><b>c"], 1),
        (of("q*", "-"), &[("x", "ab")], &["-a-b-"], 1),
        (of("^", "v"), &[("x", "")], &["v"], 1),
        (of(".+", ""), &[("x", "ab")], &[""], 1),
        (of("a", "100%%"), &[("x", "a")], &["100%"], 1),
        (of("é", "e"), &[("x", "né")], &["ne"], 1),
        (
            json!([{ "replace": { "name": "x", "regex": { "google_re2": {}, "regex": "a" }, "with": "b" } }]),
            &[("x", "a")],
            &["b"],
            1,
        ),
    ]);
    // Of the request.
    let done = request(&on_request(&of("^", "%METHOD% ")), &HeadMap::get("/").with("x", "1"));
    assert_eq!(done.lines("x"), ["GET 1"]);
    let done = request(&on_request(&of("^", "%REQ(none)%")), &HeadMap::get("/").with("x", "1"));
    assert_eq!((done.lines("x"), done.skipped()), (vec!["1".to_owned()], vec![]));
    // Not UTF-8.
    let done = request(&on_request(&of("a", "b")), &HeadMap::get("/").with("x", [b'a', 0xff]));
    assert!(done.operations.is_empty());
}

#[test]
fn replacing_makes_nothing_that_is_too_long() {
    let filter = on_request(&json!([
        { "replace": { "name": "x", "regex": ".", "with": r"\0\0\0\0\0\0\0\0\0\0" } },
        { "replace": { "name": "x", "regex": ".", "with": r"\0\0\0\0\0\0\0\0\0\0" } },
    ]));
    let done = request(&filter, &HeadMap::get("/").with("x", "a".repeat(1000)));
    assert_eq!(done.lines("x")[0].len(), 10_000);
    assert_eq!(done.skipped(), [Skipped::TooLong]);
}

#[test]
fn deduplicating() {
    let of = |keep: &str| json!([{ "dedupe": { "name": "x", "keep": keep } }]);
    let lines = &[("x", "a"), ("x", "b"), ("x", "a"), ("x", "A")][..];
    check(&[
        (of("first"), lines, &["a"], 1),
        (of("last"), lines, &["A"], 1),
        (of("unique"), lines, &["a", "b", "A"], 3),
        (of("unique"), &[("x", "a"), ("x", "b")], &["a", "b"], 0),
        (of("first"), &[("x", "a")], &["a"], 0),
    ]);
}

#[test]
fn operations_run_in_list_order_and_see_each_other() {
    check(&[
        (json!([{ "remove": "x" }, { "append": { "name": "x", "value": "1" } }]), &[("x", "a")], &["1"], 1),
        (json!([{ "append": { "name": "x", "value": "1" } }, { "remove": "x" }]), &[("x", "a")], &[], 1),
        (json!([{ "append": { "name": "x", "value": "1" } }, { "remove": "x" }]), &[], &[], 0),
        (
            json!([{ "set": { "name": "x", "value": "1" } }, { "set": { "name": "x", "value": "2" } }]),
            &[],
            &["2"],
            1,
        ),
        (
            json!([{ "rename": { "from": "x", "to": "y" } }, { "rename": { "from": "y", "to": "x" } }]),
            &[("x", "a")],
            &["a"],
            0,
        ),
    ]);
    let filter = on_request(&json!([
        { "set": { "name": "a", "value": "1" } },
        { "set": { "name": "b", "value": "%REQ(a)%2" } },
        { "replace": { "name": "b", "regex": "^", "with": "%REQ(a)%" } },
        { "add_if_absent": { "name": "b", "value": "3" } },
    ]));
    assert_eq!(request(&filter, &HeadMap::get("/").with("a", "client's")).lines("b"), ["112"]);
}
