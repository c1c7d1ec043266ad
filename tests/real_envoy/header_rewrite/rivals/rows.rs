//! The rows: what is sent, and what upstream and client see of it.
//!
//! What is seen is one text: the request as it arrived, the lines of the headers that the row looks at, and behind
//! `=>` the status and lines of the answer. `-` stands for no request, or none that an HTTP library can read.

use real_envoy::client::{Http, Request};

use super::implementation::HOST;

/// A row: what is sent, and what is seen of it.
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) request: Request,
    pub(super) over: &'static [Http],
    /// The headers of the request that it looks at.
    pub(super) upstream: &'static [&'static str],
    /// The headers of the answer that it looks at.
    pub(super) client: &'static [&'static str],
    /// By native, Lua and ours.
    pub(super) expected: [&'static str; 3],
    /// Why they are not the same; empty where they are.
    pub(super) why: &'static str,
}

const H1: &[Http] = &[Http::H1];
const H2: &[Http] = &[Http::H2];
const BOTH: &[Http] = &[Http::H1, Http::H2];

fn get(path: &str) -> Request {
    Request::get(path).authority(HOST)
}

/// A GET whose answer has these lines.
fn answered(path: &str, lines: &[&str]) -> Request {
    lines.iter().fold(get(path), |request, line| request.header("x-echo-header", line))
}

/// A row that looks at these headers of the request.
fn upstream(what: &'static str, request: Request, names: &'static [&'static str]) -> Row {
    Row { what, request, over: BOTH, upstream: names, client: &[], expected: [""; 3], why: "" }
}

/// A row that looks at these headers of the answer.
fn client(what: &'static str, request: Request, names: &'static [&'static str]) -> Row {
    Row { client: names, ..upstream(what, request, &[]) }
}

impl Row {
    fn all(self, seen: &'static str) -> Self {
        Self { expected: [seen; 3], ..self }
    }

    fn each(self, native: &'static str, lua: &'static str, ours: &'static str, why: &'static str) -> Self {
        Self { expected: [native, lua, ours], why, ..self }
    }

    fn over(self, over: &'static [Http]) -> Self {
        Self { over, ..self }
    }
}

const PATH: &[&str] = &["x-envoy-original-path", "x-route"];
const USER: &[&str] = &["x-legacy-user", "x-user"];

/// Where all three do the same.
pub(super) fn agreement() -> Vec<Row> {
    [always(), paths(), answers()].into_iter().flatten().collect()
}

fn always() -> Vec<Row> {
    vec![
        Row {
            client: &["x-powered-by", "x-frame-options", "cache-control", "x-robots-tag", "set-cookie"],
            ..upstream(
                "a plain request",
                get("/x"),
                &[
                    "x-gateway",
                    "x-client-ip",
                    "x-tenant",
                    "x-user",
                    "cookie",
                    "x-envoy-original-path",
                    "x-route",
                ],
            )
        }
        .all(
            "GET /x | x-gateway: foregate | x-client-ip: 127.0.0.1 | x-tenant: public | x-route: rest \
             => 200 | x-frame-options: deny",
        ),
        upstream(
            "names that begin with x-internal-",
            get("/x")
                .header("x-internal-a", "1")
                .header("x-internal-b", "2")
                .header("x-internal-b", "3")
                .header("x-internal-", "")
                .header("x-internal", "kept"),
            &["x-internal-a", "x-internal-b", "x-internal-", "x-internal"],
        )
        .all("GET /x | x-internal: kept => 200"),
        upstream(
            "two lines of a name that is set",
            get("/x").header("x-gateway", "a").header("x-gateway", "b"),
            &["x-gateway"],
        )
        .all("GET /x | x-gateway: foregate => 200"),
        upstream("a forged address", get("/x").header("x-client-ip", "192.0.2.1"), &["x-client-ip"])
            .all("GET /x | x-client-ip: 127.0.0.1 => 200"),
        upstream(
            "the address of a client behind a proxy",
            get("/x").header("x-forwarded-for", "192.0.2.1, 198.51.100.7"),
            &["x-client-ip"],
        )
        .all("GET /x | x-client-ip: 198.51.100.7 => 200"),
        upstream("an IPv6 client", get("/x").header("x-forwarded-for", "2001:DB8:0::1"), &["x-client-ip"])
            .all("GET /x | x-client-ip: 2001:db8::1 => 200"),
        upstream(
            "a name that is added where it is absent, there",
            get("/x").header("x-tenant", "a"),
            &["x-tenant"],
        )
        .all("GET /x | x-tenant: a => 200"),
        upstream(
            "the same of two lines",
            get("/x").header("x-tenant", "a").header("x-tenant", "b"),
            &["x-tenant"],
        )
        .all("GET /x | x-tenant: a | x-tenant: b => 200"),
        upstream("the same without a value", get("/x").header("x-tenant", ""), &["x-tenant"])
            .all("GET /x | x-tenant:  => 200"),
        upstream("a name that is renamed", get("/x").header("x-legacy-user", "u"), USER)
            .all("GET /x | x-user: u => 200"),
        upstream(
            "the same where lines of the new name are there",
            get("/x").header("x-user", "a").header("x-user", "b").header("x-legacy-user", "u"),
            USER,
        )
        .all("GET /x | x-user: u => 200"),
        upstream("nothing to rename", get("/x").header("x-user", "a"), USER).all("GET /x | x-user: a => 200"),
        upstream("a value that is not UTF-8", get("/x").header("x-legacy-user", b"\xff\xfe"), USER)
            .all(r#"GET /x | x-user: {"base64":"//4="} => 200"#),
        upstream("cookies without a canary", get("/x").header("cookie", "a=1; canary=old"), &["cookie"])
            .all("GET /x | cookie: a=1; canary=old => 200"),
        upstream(
            "a canary without a value",
            get("/x").header("cookie", "a=1; canary=old").header("x-canary", ""),
            &["cookie"],
        )
        .all("GET /x | cookie: a=1; canary=old => 200"),
        upstream(
            "a canary that would be two cookies",
            get("/x").header("cookie", "a=1").header("x-canary", "v2; admin=1"),
            &["cookie"],
        )
        .all("GET /x | cookie: a=1 => 200"),
    ]
}

fn paths() -> Vec<Row> {
    let row = |path, seen| upstream(path, get(path), PATH).all(seen);
    vec![
        row("/v1", "GET /v1 | x-route: rest => 200"),
        row("/v1/", "GET / | x-envoy-original-path: /v1/ | x-route: rest => 200"),
        row("/v1/x", "GET /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
        row("/v1/v1/x", "GET /v1/x | x-envoy-original-path: /v1/v1/x | x-route: rest => 200"),
        row("/v1/orders/1", "GET /orders/1 | x-envoy-original-path: /v1/orders/1 | x-route: orders => 200"),
        row("/orders", "GET /orders | x-route: orders => 200"),
        row("/v10/x", "GET /v10/x | x-route: rest => 200"),
        row("/V1/x", "GET /V1/x | x-route: rest => 200"),
        row("/x/v1/y", "GET /x/v1/y | x-route: rest => 200"),
        row("//v1/x", "GET /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
        row("/v1//x", "GET /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
        row("/%76%31/x", "GET /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
        row("/a/../v1/x", "GET /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
        row("/v1/../x", "GET /x | x-route: rest => 200"),
        row("/v1/x%20y", "GET /x%20y | x-envoy-original-path: /v1/x%20y | x-route: rest => 200"),
        row("/v1/x?a=1", "GET /x?a=1 | x-envoy-original-path: /v1/x?a=1 | x-route: rest => 200"),
        row("/v1/x?a=/v1/", "GET /x?a=/v1/ | x-envoy-original-path: /v1/x?a=/v1/ | x-route: rest => 200"),
        row("/x?debug", "GET /x | x-route: rest => 200"),
        row("/x?debug=1", "GET /x | x-route: rest => 200"),
        row("/x?a=1&debug=1&b=2&debug", "GET /x?a=1&b=2 | x-route: rest => 200"),
        row("/x?a=debug&debugger=1&nodebug=1", "GET /x?a=debug&debugger=1&nodebug=1 | x-route: rest => 200"),
        row("/x?DEBUG=1", "GET /x?DEBUG=1 | x-route: rest => 200"),
        row("/x?a=1&a=2", "GET /x?a=1&a=2 | x-route: rest => 200"),
        row("/x?a=%zz&b=%", "GET /x?a=%zz&b=% | x-route: rest => 200"),
        upstream("another method", Request::post("/v1/x", "body").authority(HOST), PATH)
            .all("POST /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
        upstream("a forged original path", get("/x").header("x-envoy-original-path", "/account"), PATH)
            .all("GET /x | x-route: rest => 200"),
        upstream(
            "a forged original path where it is rewritten",
            get("/v1/x").header("x-envoy-original-path", "/account"),
            PATH,
        )
        .all("GET /x | x-envoy-original-path: /v1/x | x-route: rest => 200"),
    ]
}

const FRAMES: &[&str] = &["x-powered-by", "x-frame-options"];
const CACHING: &[&str] = &["cache-control"];

fn answers() -> Vec<Row> {
    vec![
        client(
            "the security headers",
            get("/x"),
            &[
                "content-security-policy",
                "cross-origin-embedder-policy",
                "cross-origin-opener-policy",
                "cross-origin-resource-policy",
                "permissions-policy",
                "referrer-policy",
                "strict-transport-security",
                "x-content-type-options",
                "x-dns-prefetch-control",
                "x-frame-options",
                "x-permitted-cross-domain-policies",
            ],
        )
        .all(concat!(
            "GET /x => 200",
            " | content-security-policy: default-src 'self'; form-action 'self'; base-uri 'self'; ",
            "object-src 'none'; frame-ancestors 'none'; upgrade-insecure-requests",
            " | cross-origin-embedder-policy: require-corp",
            " | cross-origin-opener-policy: same-origin",
            " | cross-origin-resource-policy: same-origin",
            " | permissions-policy: accelerometer=(), autoplay=(), camera=(), cross-origin-isolated=(), ",
            "display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), ",
            "keyboard-map=(), magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), ",
            "publickey-credentials-get=(), screen-wake-lock=(), sync-xhr=(self), usb=(), web-share=(), ",
            "xr-spatial-tracking=(), clipboard-read=(), clipboard-write=(), gamepad=(), hid=(), ",
            "idle-detection=(), interest-cohort=(), serial=(), unload=()",
            " | referrer-policy: no-referrer",
            " | strict-transport-security: max-age=63072000; includeSubDomains",
            " | x-content-type-options: nosniff",
            " | x-dns-prefetch-control: off",
            " | x-frame-options: deny",
            " | x-permitted-cross-domain-policies: none",
        )),
        client("a name that is removed", answered("/x", &["x-powered-by: a", "x-powered-by: b"]), FRAMES)
            .all("GET /x => 200 | x-frame-options: deny"),
        client("a security header of the upstream", answered("/x", &["x-frame-options: sameorigin"]), FRAMES)
            .all("GET /x => 200 | x-frame-options: sameorigin"),
        client(
            "the same of two lines",
            answered("/x", &["x-frame-options: sameorigin", "x-frame-options: deny"]),
            FRAMES,
        )
        .all("GET /x => 200 | x-frame-options: sameorigin | x-frame-options: deny"),
        client("the same without a value", answered("/x", &["x-frame-options:"]), FRAMES)
            .all("GET /x => 200 | x-frame-options: "),
        client("/account", get("/account"), CACHING).all("GET /account => 200 | cache-control: no-store"),
        client("/accounting", get("/accounting"), CACHING)
            .all("GET /accounting => 200 | cache-control: no-store"),
        client("/account?x", get("/account?x=1"), CACHING)
            .all("GET /account?x=1 => 200 | cache-control: no-store"),
        client("//account", get("//account"), CACHING).all("GET /account => 200 | cache-control: no-store"),
        client("what was /v1/account", get("/v1/account"), CACHING).all("GET /account => 200"),
        client(
            "/account of which the upstream says otherwise",
            answered("/account", &["cache-control: public", "cache-control: max-age=60"]),
            CACHING,
        )
        .all("GET /account => 200 | cache-control: no-store"),
        client("another path", answered("/x", &["cache-control: public"]), CACHING)
            .all("GET /x => 200 | cache-control: public"),
        client(
            "200 that robots are not kept from",
            answered("/x", &["x-robots-tag: all"]),
            &["x-robots-tag"],
        )
        .all("GET /x => 200 | x-robots-tag: all"),
        client("302", get("/x").header("x-echo-status", "302"), &["x-robots-tag"]).all("GET /x => 302"),
        client("an answer of the route itself", get("/direct"), FRAMES)
            .all("- => 418 | x-frame-options: deny"),
        client("no route", get("/x").authority("other.example"), FRAMES)
            .all("- => 404 | x-frame-options: deny"),
        client("a path that Envoy refuses", get("/a%2Fb"), FRAMES).all("- => 400 | x-frame-options: deny"),
        client(
            "an upstream that breaks off",
            get("/x").header("x-echo-close", "before").header("x-tenant", "a"),
            FRAMES,
        )
        .all("- => 503 | x-frame-options: deny"),
        client("HEAD", Request::new("HEAD", "/x").authority(HOST), FRAMES)
            .all("- => 200 | x-frame-options: deny"),
    ]
}

const NO_COOKIES: &str = "header_mutation edits no cookies";
const DECODED: &str = "header_mutation decodes and sorts the whole query, and does not encode it again";

/// Where the upstream sees other requests.
pub(super) fn differences_upstream() -> Vec<Row> {
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
    let three = "GET /x | cookie: a=1; b=2; canary=v2 => 200";
    vec![
        canary("a canary", &[], "GET /x => 200", "GET /x | cookie: canary=v2 => 200"),
        canary("a canary beside cookies", &["a=1; b=2"], "GET /x | cookie: a=1; b=2 => 200", three),
        canary(
            "a canary instead of another",
            &["a=1; canary=old; b=2"],
            "GET /x | cookie: a=1; canary=old; b=2 => 200",
            three,
        ),
        canary(
            "a canary instead of several",
            &["canary=1; a=1;canary=2; b=2"],
            "GET /x | cookie: canary=1; a=1;canary=2; b=2 => 200",
            three,
        ),
        canary(
            "cookies with much alike",
            &["canary2=1; xcanary=2; Canary=3; a=canary=4"],
            "GET /x | cookie: canary2=1; xcanary=2; Canary=3; a=canary=4 => 200",
            "GET /x | cookie: canary2=1; xcanary=2; Canary=3; a=canary=4; canary=v2 => 200",
        ),
        canary(
            "a canary, and two lines of cookies",
            &["a=1", "canary=old; b=2"],
            "GET /x | cookie: a=1 | cookie: canary=old; b=2 => 200",
            three,
        )
        .over(H1),
        // Envoy makes one line of them.
        canary(
            "a canary, and two lines of cookies",
            &["a=1", "canary=old; b=2"],
            "GET /x | cookie: a=1; canary=old; b=2 => 200",
            three,
        )
        .over(H2),
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
pub(super) fn differences_at_the_client() -> Vec<Row> {
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
        row("400 of Envoy itself", get("/a%2Fb"), "- => 400", "- => 400 | x-robots-tag: noindex"),
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
            "GET /x => 200 | set-cookie: a=1; Path=/; Secure; HttpOnly; SameSite=Lax",
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
