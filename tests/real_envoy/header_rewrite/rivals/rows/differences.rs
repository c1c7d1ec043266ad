//! Where they do not, and why.

use super::{H1, H2, PATH, Row, USER, answered, client, get, upstream};

const NO_COOKIES: &str = "header_mutation edits no cookies";
const DECODED: &str = "header_mutation decodes and sorts the whole query, and does not encode it again";

/// Where the upstream sees other requests.
pub(in super::super) fn differences_upstream() -> Vec<Row> {
    [renamed(), cookies(), queries(), routes()].into_iter().flatten().collect()
}

fn renamed() -> Vec<Row> {
    vec![
        upstream(
            "two lines of a name that is renamed",
            get("/x").header("x-legacy-user", "a").header("x-legacy-user", "b"),
            USER,
        )
        .each(
            "GET /x | x-user: a => 200",
            "GET /x | x-user: a,b => 200",
            "GET /x | x-user: a | x-user: b => 200",
            "%REQ()% is the first line, and a script reads all lines as one",
        ),
        upstream(
            "a name without a value that is renamed",
            get("/x").header("x-user", "forged").header("x-legacy-user", ""),
            USER,
        )
        .each(
            "GET /x | x-user: forged => 200",
            "GET /x | x-user:  => 200",
            "GET /x | x-user:  => 200",
            "header_mutation writes nothing where the value is empty, and lets stand what is there",
        ),
    ]
}

fn cookies() -> Vec<Row> {
    let row = |what, cookies: &[&str], canaries: &[&str]| {
        let request = cookies.iter().fold(get("/x"), |request, line| request.header("cookie", line));
        let request = canaries.iter().fold(request, |request, line| request.header("x-canary", line));
        upstream(what, request, &["cookie"])
    };
    let canary = |what, cookies: &[&str], native, others| {
        row(what, cookies, &["v2"]).each(native, others, others, NO_COOKIES)
    };
    let two_lines = || row("a canary, and two lines of cookies", &["a=1", "canary=old; b=2"], &["v2"]);
    vec![
        canary("a canary", &[], "GET /x => 200", "GET /x | cookie: canary=v2 => 200"),
        canary(
            "a canary beside cookies",
            &["a=1; b=2"],
            "GET /x | cookie: a=1; b=2 => 200",
            "GET /x | cookie: a=1; b=2; canary=v2 => 200",
        ),
        canary(
            "a canary instead of another",
            &["a=1; canary=old; b=2"],
            "GET /x | cookie: a=1; canary=old; b=2 => 200",
            "GET /x | cookie: a=1; canary=v2; b=2 => 200",
        ),
        canary(
            "a canary instead of several",
            &["canary=1; a=1;canary=2; b=2"],
            "GET /x | cookie: canary=1; a=1;canary=2; b=2 => 200",
            "GET /x | cookie: canary=v2; a=1; b=2 => 200",
        ),
        canary(
            "cookies with much alike",
            &["canary2=1; xcanary=2; Canary=3; a=canary=4"],
            "GET /x | cookie: canary2=1; xcanary=2; Canary=3; a=canary=4 => 200",
            "GET /x | cookie: canary2=1; xcanary=2; Canary=3; a=canary=4; canary=v2 => 200",
        ),
        two_lines().over(H1).each(
            "GET /x | cookie: a=1 | cookie: canary=old; b=2 => 200",
            "GET /x | cookie: a=1; canary=v2; b=2 => 200",
            "GET /x | cookie: a=1 | cookie: canary=v2; b=2 => 200",
            "header_mutation edits no cookies; a script writes one line of them",
        ),
        // Envoy makes one line of them.
        two_lines().over(H2).each(
            "GET /x | cookie: a=1; canary=old; b=2 => 200",
            "GET /x | cookie: a=1; canary=v2; b=2 => 200",
            "GET /x | cookie: a=1; canary=v2; b=2 => 200",
            NO_COOKIES,
        ),
        row("two lines of the canary's value", &["a=1"], &["v2", "v3"]).each(
            "GET /x | cookie: a=1 => 200",
            "GET /x | cookie: a=1 => 200",
            "GET /x | cookie: a=1; canary=v2 => 200",
            "a script reads all lines as one, with a comma, which no cookie may hold",
        ),
    ]
}

fn queries() -> Vec<Row> {
    let row = |path, native, lua, ours, why| upstream(path, get(path), &[]).each(native, lua, ours, why);
    let kept = |path, native, others| row(path, native, others, others, DECODED);
    vec![
        kept("/x?b=2&a=1", "GET /x?a=1&b=2 => 200", "GET /x?b=2&a=1 => 200"),
        kept("/x?a", "GET /x?a= => 200", "GET /x?a => 200"),
        kept("/x?a=%41%2F+c", "GET /x?a=A/+c => 200", "GET /x?a=%41%2F+c => 200"),
        kept("/x?a=%26admin=1", "GET /x?a=&admin=1 => 200", "GET /x?a=%26admin=1 => 200"),
        kept("/x?a=%26debug=1", "GET /x?a=&debug=1 => 200", "GET /x?a=%26debug=1 => 200"),
        kept("/x?a=%23b", "GET /x?a= => 200", "GET /x?a=%23b => 200"),
        kept("/x?a=b%20c", "- => 400", "GET /x?a=b%20c => 200"),
        kept("/x?a=%0d%0a", "- => 503", "GET /x?a=%0d%0a => 200"),
        kept("/x?", "GET /x => 200", "GET /x? => 200"),
        kept("/x?a&&=b&c=", "GET /x?=&=b&a=&c= => 200", "GET /x?a&&=b&c= => 200"),
        row(
            "/x?%64ebug=1",
            "GET /x => 200",
            "GET /x?%64ebug=1 => 200",
            "GET /x => 200",
            "a script compares what is written",
        ),
    ]
}

fn routes() -> Vec<Row> {
    vec![
        upstream("/v1/x?a=1&debug=1", get("/v1/x?a=1&debug=1"), PATH).each(
            "GET /x?a=1 | x-envoy-original-path: /v1/x?a=1 | x-route: rest => 200",
            "GET /x?a=1 | x-envoy-original-path: /v1/x?a=1&debug=1 | x-route: rest => 200",
            "GET /x?a=1 | x-envoy-original-path: /v1/x?a=1&debug=1 | x-route: rest => 200",
            "a route rewrites last, when the query has been edited",
        ),
        upstream("/v1/direct, which the routes have not twice", get("/v1/direct"), PATH).each(
            "GET /direct | x-envoy-original-path: /v1/direct | x-route: rest => 200",
            "- => 418",
            "- => 418",
            "a route that rewrites the path leads where it led before",
        ),
    ]
}

/// Where the client sees other answers.
pub(in super::super) fn differences_at_the_client() -> Vec<Row> {
    [statuses(), attributes()].into_iter().flatten().collect()
}

fn statuses() -> Vec<Row> {
    let why = "header_mutation knows no status";
    let row = |what, request, without, with| {
        client(what, request, &["x-robots-tag"]).each(without, with, with, why)
    };
    vec![
        row(
            "404",
            get("/x").header("x-echo-status", "404"),
            "GET /x => 404",
            "GET /x => 404 | x-robots-tag: noindex",
        ),
        row(
            "503 that lets robots in",
            answered("/x", &["x-robots-tag: all", "x-robots-tag: index"]).header("x-echo-status", "503"),
            "GET /x => 503 | x-robots-tag: all | x-robots-tag: index",
            "GET /x => 503 | x-robots-tag: noindex",
        ),
        row("418 of the route itself", get("/direct"), "- => 418", "- => 418 | x-robots-tag: noindex"),
        row(
            "404 without a route",
            get("/x").authority("other.example"),
            "- => 404",
            "- => 404 | x-robots-tag: noindex",
        ),
        client("400 of Envoy itself", get("/a%2Fb"), &["x-frame-options", "x-robots-tag"]).each(
            "- => 400 | x-frame-options: deny",
            "- => 400 | x-frame-options: deny | x-robots-tag: noindex",
            "- => 400",
            "Envoy asks no module about the answer to a request that never came to its filters",
        ),
        row(
            "503 of Envoy itself",
            get("/x").header("x-echo-close", "before"),
            "- => 503",
            "- => 503 | x-robots-tag: noindex",
        ),
    ]
}

fn attributes() -> Vec<Row> {
    let row = |what, lines: &[&str], native, others| {
        client(what, answered("/x", lines), &["set-cookie"]).each(native, others, others, NO_COOKIES)
    };
    vec![
        row(
            "a cookie",
            &["set-cookie: a=1"],
            "GET /x => 200 | set-cookie: a=1",
            "GET /x => 200 | set-cookie: a=1; Secure; HttpOnly; SameSite=Lax",
        ),
        row(
            "several cookies",
            &[
                "set-cookie: a=1; Path=/",
                "set-cookie: b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT",
                "set-cookie: a=3",
            ],
            "GET /x => 200 | set-cookie: a=1; Path=/ | set-cookie: b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT \
             | set-cookie: a=3",
            "GET /x => 200 | set-cookie: a=1; Path=/; Secure; HttpOnly; SameSite=Lax \
             | set-cookie: b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Secure; HttpOnly; SameSite=Lax \
             | set-cookie: a=3; Secure; HttpOnly; SameSite=Lax",
        ),
        row(
            "a cookie that has some of the attributes",
            &["set-cookie: a=1; HttpOnly; SameSite=None; Path=/; secure"],
            "GET /x => 200 | set-cookie: a=1; HttpOnly; SameSite=None; Path=/; secure",
            "GET /x => 200 | set-cookie: a=1; HttpOnly; Path=/; secure; SameSite=Lax",
        ),
        row(
            "cookies that are called like attributes",
            &["set-cookie: secure=1; Path=/", "set-cookie: samesite=None"],
            "GET /x => 200 | set-cookie: secure=1; Path=/ | set-cookie: samesite=None",
            "GET /x => 200 | set-cookie: secure=1; Path=/; Secure; HttpOnly; SameSite=Lax \
             | set-cookie: samesite=None; Secure; HttpOnly; SameSite=Lax",
        ),
    ]
}
