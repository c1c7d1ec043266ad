//! Where all three do the same.

use real_envoy::client::Request;

use super::{HOST, PATH, Row, USER, answered, client, get, upstream};

/// The rows of it.
pub(in super::super) fn agreement() -> Vec<Row> {
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
        client(
            "a cookie that has all attributes",
            answered("/x", &["set-cookie: a=1; HttpOnly; Secure; SameSite=Lax"]),
            &["set-cookie"],
        )
        .all("GET /x => 200 | set-cookie: a=1; HttpOnly; Secure; SameSite=Lax"),
        client("302", get("/x").header("x-echo-status", "302"), &["x-robots-tag"]).all("GET /x => 302"),
        client("an answer of the route itself", get("/direct"), FRAMES)
            .all("- => 418 | x-frame-options: deny"),
        client("no route", get("/x").authority("other.example"), FRAMES)
            .all("- => 404 | x-frame-options: deny"),
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
