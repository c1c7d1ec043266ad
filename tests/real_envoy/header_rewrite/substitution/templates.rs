//! The templates, and what is sent for them.

use real_envoy::client::Request;
use serde_json::{Value, json};

use super::{PHASES, Phase, get};

/// The host that there are routes for.
pub(super) const HOST: &str = "gateway.example";

/// Templates, and the requests for which they are compared.
pub(super) struct Section {
    pub(super) phases: &'static [Phase],
    /// Those of which all is there, or nothing.
    pub(super) templates: &'static [&'static str],
    /// Those of which a part may be missing, in whose place is nothing where `keep_empty_value` says so.
    pub(super) mixed: &'static [&'static str],
    /// Those that never have a value.
    pub(super) never: &'static [&'static str],
    pub(super) requests: Vec<(&'static str, Request)>,
}

/// What set_metadata sets.
pub(super) fn metadata() -> Value {
    let numbers = json!({
        "three": 3, "zero": 0, "minus": -7, "fraction": 1.5, "tenth": 0.1, "third": 1.0 / 3.0, "hundred": 100,
        "thousands": 1000, "million": 1_000_000, "many": 1e15, "more": 1e21, "digits": 123_456_789_012_345_678_u64,
        "small": 1e-7, "smaller": 1.234e-5, "least": 5e-324, "most": f64::MAX, "port": 65_535,
        "big": 4_294_967_296_u64, "seconds": 1_696_112_943.25, "mixed": 1_234_567.5, "thousandth": 0.001,
        "ten_thousandth": 0.0001,
    });
    let others = json!({
        "text": "text with \"quotes\"", "empty": "", "percent": "100%REQ(x-a)%", "wide": "grüß dich", "tab": "a\tb",
        "blanks": "  x  ", "true": true, "false": false, "null": null,
        "list": [1, "a", null, { "x": 1 }, 1.5, "q\"", true, []], "empty_list": [], "empty_object": {},
        "object": { "k": "v", "n": { "m": "deep", "l": [1] }, "a": 1, "B": 2, "aa": 3, "a.b": 4, "": 5 },
        "escapes": ["\\", "/", "<>&'", "\u{1}\u{1f}", "\u{e9}", "\u{1F600}", "a\tb\nc"],
        "dotted.name": "dotted", "with blank": "blank", "Upper": "upper",
    });
    json!([
        { "metadata_namespace": "ns", "value": others },
        { "metadata_namespace": "numbers", "value": numbers },
        { "metadata_namespace": "other.namespace", "value": { "k": "v" } },
        { "metadata_namespace": "hostile", "value": { "line": "a\r\nx-split: yes", "delete": "a\u{7f}b" } },
    ])
}

/// All of them.
pub(super) fn sections() -> Vec<Section> {
    vec![headers(), paths(), connection(), metadata_values(), times(), responses()]
}

fn headers() -> Section {
    Section {
        phases: &PHASES,
        templates: &[
            "%REQ(x-a)%",
            "%REQ(X-A)%",
            "%REQ(x-b)%",
            "%REQ(x-empty)%",
            "%REQ(x-none)%",
            "%REQ(x-none?x-a)%",
            "%REQ(x-a?x-b)%",
            "%REQ(x-empty?x-a)%",
            "%REQ(x-none?x-none-either)%",
            "%REQ(x-none?X-B)%",
            "%REQ(x-ten):1%",
            "%REQ(x-ten):3%",
            "%REQ(x-ten):10%",
            "%REQ(x-ten):11%",
            "%REQ(x-ten):99999%",
            "%REQ(x-none?x-ten):4%",
            "%REQ(x-b):2%",
            "%REQ(x-wide)%",
            "%REQ(x-wide):3%",
            "%REQ(x-wide):4%",
            "%REQ(x-bytes)%",
            "%REQ(x-bytes):1%",
            "%REQ(x-percent)%",
            "%REQ(x-tab)%",
            "%REQ(:method)%",
            "%REQ(:authority)%",
            "%REQ(host)%",
            "%REQ(:scheme)%",
            "%REQ(cookie)%",
            "%REQ(user-agent?x-a)%",
            "%REQ(:authority):7%",
        ],
        mixed: &[
            "<%REQ(x-a)%>",
            "%REQ(x-none)%-suffix",
            "prefix-%REQ(x-none)%",
            "%REQ(x-empty)%-suffix",
            "%REQ(x-a)% and %REQ(x-b)% and %REQ(x-none)%",
            "%REQ(x-none)%%REQ(x-a)%",
            "%REQ(x-none)%%REQ(x-none)%",
            "%REQ(x-a):1%%REQ(x-b):1%%%",
        ],
        never: &["%REQ(x-none?x-none-either)%", "%REQ(x-none)%", "%REQ(x-empty)%"],
        requests: vec![
            ("nothing", get("/")),
            (
                "much",
                get("/?a=1")
                    .header("x-a", "one")
                    .header("x-b", "first")
                    .header("x-b", "second")
                    .header("x-empty", "")
                    .header("x-ten", "0123456789")
                    .header("x-wide", "grüße")
                    .header("x-bytes", b"\xff\xfe!")
                    .header("x-percent", "%41%REQ(x-a)%")
                    .header("x-tab", "a\tb")
                    .header("cookie", "a=1; b=2")
                    .header("user-agent", "foregate-tests"),
            ),
            (
                "an empty line before another",
                get("/").header("x-b", "").header("x-b", "second").header("x-a", ""),
            ),
            ("POST", Request::post("/", "body").authority(HOST).header("x-a", "a").header("x-ten", "short")),
        ],
    }
}

fn paths() -> Section {
    let original = |value: &str| get("/now?b=2").header("x-envoy-original-path", value);
    Section {
        phases: &PHASES,
        templates: &[
            "%PATH%",
            "%PATH()%",
            "%PATH(WQ)%",
            "%PATH(NQ)%",
            "%PATH(WQ:ORIG)%",
            "%PATH(NQ:ORIG)%",
            "%PATH(WQ:PATH)%",
            "%PATH(NQ:PATH)%",
            "%PATH(WQ:ORIG_OR_PATH)%",
            "%PATH(NQ:ORIG_OR_PATH)%",
            "%PATH(:ORIG)%",
            "%PATH(:PATH)%",
            "%PATH:5%",
            "%PATH():2%",
            "%PATH(NQ):4%",
            "%PATH(NQ:ORIG):3%",
            "%REQ(:path)%",
            "%REQ(:path):3%",
            "%REQ(x-envoy-original-path)%",
            "%REQ(x-envoy-original-path?:path)%",
            "<%PATH(NQ)%>",
        ],
        mixed: &["<%PATH(NQ:ORIG)%>"],
        never: &[],
        requests: vec![
            ("a path", get("/v1/orders")),
            ("a path with a query", get("/v1/orders?a=1&b=?x")),
            ("an empty query", get("/?")),
            ("escapes", get("/a%20b%C3%BC;x=1?c=%26")),
            ("an original path", original("/before?a=1")),
            ("an original path without a query", original("/before")),
            ("an empty original path", original("")),
            ("two original paths", original("/first?x").header("x-envoy-original-path", "/second")),
        ],
    }
}

fn connection() -> Section {
    let forwarded = |value: &str| get("/").header("x-forwarded-for", value);
    Section {
        phases: &PHASES,
        templates: &[
            "%PROTOCOL%",
            "<%PROTOCOL%>",
            "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
            "[%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%]",
            "%ROUTE_NAME%",
            "%PROTOCOL()%",
            "%ROUTE_NAME()%",
            "%%",
            "%%%%",
            "100%%",
            "a%%b",
            "%%REQ(x-a)%%",
            "plain",
            "grüße",
            "a  b",
            "a\tb",
            "{}[]()\\1\"'",
            "%PROTOCOL%%%%PROTOCOL%",
            "%PROTOCOL% for %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% at %REQ(:authority)%",
        ],
        mixed: &["<%ROUTE_NAME%>", "<%ROUTE_NAME%|%PROTOCOL%>"],
        never: &[],
        requests: vec![
            ("whoever is connected", get("/")),
            ("IPv4", forwarded("198.51.100.7")),
            ("the last of several", forwarded("192.0.2.1, 198.51.100.7")),
            ("IPv6", forwarded("2001:DB8:0:0::1")),
            ("IPv6 in full", forwarded("2001:0db8:0000:0000:0000:0000:0000:0001")),
            ("the loopback of IPv6", forwarded("::1")),
            ("IPv4 in IPv6", forwarded("::ffff:198.51.100.7")),
            ("no address", forwarded("unknown")),
            ("an address with a port", forwarded("198.51.100.7:443")),
            ("an IPv6 address with a port", forwarded("[2001:db8::1]:443")),
            ("a route without a name", get("/without-name")),
            ("a route that answers itself", get("/direct")),
            ("no route", get("/").authority("other.example")),
        ],
    }
}

fn metadata_values() -> Section {
    Section {
        phases: &PHASES,
        templates: &[
            "%DYNAMIC_METADATA(ns:text)%",
            "%DYNAMIC_METADATA(ns:text):4%",
            "%DYNAMIC_METADATA(ns:empty)%",
            "%DYNAMIC_METADATA(ns:percent)%",
            "%DYNAMIC_METADATA(ns:wide)%",
            "%DYNAMIC_METADATA(ns:wide):3%",
            "%DYNAMIC_METADATA(ns:tab)%",
            "<%DYNAMIC_METADATA(ns:blanks)%>",
            "%DYNAMIC_METADATA(ns:true)%",
            "%DYNAMIC_METADATA(ns:false)%",
            "%DYNAMIC_METADATA(ns:null)%",
            "%DYNAMIC_METADATA(numbers:three)%",
            "%DYNAMIC_METADATA(numbers:zero)%",
            "%DYNAMIC_METADATA(numbers:minus)%",
            "%DYNAMIC_METADATA(numbers:fraction)%",
            "%DYNAMIC_METADATA(numbers:tenth)%",
            "%DYNAMIC_METADATA(numbers:third)%",
            "%DYNAMIC_METADATA(numbers:hundred)%",
            "%DYNAMIC_METADATA(numbers:thousands)%",
            "%DYNAMIC_METADATA(numbers:more)%",
            "%DYNAMIC_METADATA(numbers:least)%",
            "%DYNAMIC_METADATA(numbers:most)%",
            "%DYNAMIC_METADATA(numbers:port)%",
            "%DYNAMIC_METADATA(numbers:big)%",
            "%DYNAMIC_METADATA(numbers:seconds)%",
            "%DYNAMIC_METADATA(numbers:mixed)%",
            "%DYNAMIC_METADATA(numbers:thousandth)%",
            "%DYNAMIC_METADATA(ns:list)%",
            "%DYNAMIC_METADATA(ns:list):5%",
            "%DYNAMIC_METADATA(ns:empty_list)%",
            "%DYNAMIC_METADATA(ns:empty_object)%",
            "%DYNAMIC_METADATA(ns:object)%",
            "%DYNAMIC_METADATA(ns:object:k)%",
            "%DYNAMIC_METADATA(ns:object:n)%",
            "%DYNAMIC_METADATA(ns:object:n:m)%",
            "%DYNAMIC_METADATA(ns:object:n:l)%",
            "%DYNAMIC_METADATA(ns:object:a.b)%",
            "%DYNAMIC_METADATA(ns:object:none)%",
            "%DYNAMIC_METADATA(ns:text:k)%",
            "%DYNAMIC_METADATA(ns:list:0)%",
            "%DYNAMIC_METADATA(ns:escapes)%",
            "%DYNAMIC_METADATA(ns:dotted.name)%",
            "%DYNAMIC_METADATA(ns:with blank)%",
            "%DYNAMIC_METADATA(ns:Upper)%",
            "%DYNAMIC_METADATA(ns:upper)%",
            "%DYNAMIC_METADATA(ns:none)%",
            "%DYNAMIC_METADATA(none:none)%",
            "%DYNAMIC_METADATA(none)%",
            "%DYNAMIC_METADATA(ns)%",
            "%DYNAMIC_METADATA(ns):20%",
            "%DYNAMIC_METADATA(other.namespace)%",
            "%DYNAMIC_METADATA(other.namespace:k)%",
            "%DYNAMIC_METADATA(ns:text)%-%DYNAMIC_METADATA(numbers:three)%-%REQ(:method)%",
        ],
        mixed: &[
            "%DYNAMIC_METADATA(ns:none)%-suffix",
            "%DYNAMIC_METADATA(ns:null)%-suffix",
            "<%DYNAMIC_METADATA(ns:empty)%>",
        ],
        never: &[
            "%DYNAMIC_METADATA(ns:empty)%",
            "%DYNAMIC_METADATA(ns:null)%",
            "%DYNAMIC_METADATA(ns:object:none)%",
            "%DYNAMIC_METADATA(ns:text:k)%",
            "%DYNAMIC_METADATA(ns:list:0)%",
            "%DYNAMIC_METADATA(ns:upper)%",
            "%DYNAMIC_METADATA(ns:none)%",
            "%DYNAMIC_METADATA(none:none)%",
            "%DYNAMIC_METADATA(none)%",
        ],
        requests: vec![("nothing", get("/")), ("what its route answers", get("/direct"))],
    }
}

fn times() -> Section {
    Section {
        phases: &PHASES,
        templates: &[
            "%START_TIME%",
            "%START_TIME()%",
            "%START_TIME(%Y-%m-%dT%H:%M:%S%z)%",
            "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
            "%START_TIME(%Y/%m/%d %H:%M:%S.%6f)%",
            "%START_TIME(%a, %d %b %Y %T GMT)%",
            "%START_TIME(%A, %e %B %Y, %I:%M:%S %p %Z)%",
            "%START_TIME(%s)%",
            "%START_TIME(%s.%3f)%",
            "%START_TIME(%s%3f)%",
            "%START_TIME(%f)%",
            "%START_TIME(%1f %2f %3f %4f %5f)%",
            "%START_TIME(%6f %7f %8f %9f)%",
            "%START_TIME(%F %R %D)%",
            "%START_TIME(%c)%",
            "%START_TIME(%x %X)%",
            "%START_TIME(%r)%",
            "%START_TIME(%y %C %g %G)%",
            "%START_TIME(%j %U %W %V %u %w)%",
            "%START_TIME(%h %k %l %P)%",
            "%START_TIME(%E1S %E3S %E6S %E9S)%",
            "%START_TIME(50%%)%",
            "%START_TIME(plain)%",
            "%START_TIME(a:b %H:%M)%",
            "%START_TIME( %Y )%",
            "%START_TIME(grüße %Y)%",
            "x%START_TIME(%Y)%y",
            "[%START_TIME(%t)%]",
        ],
        mixed: &[],
        never: &[],
        requests: vec![("nothing", get("/"))],
    }
}

/// What only a response has.
fn responses() -> Section {
    let answered = |status: &str| {
        ["x-r: first", "x-r: second", "x-empty:", "x-ten: 0123456789", "x-wide: grüße"]
            .iter()
            .fold(get("/"), |request, line| request.header("x-echo-header", line))
            .header("x-echo-status", status)
            .header("x-a", "of the request")
    };
    Section {
        phases: &[Phase::Response],
        templates: &[
            "%RESPONSE_CODE%",
            "<%RESPONSE_CODE%>",
            "%RESP(:status)%",
            "%RESP(x-r)%",
            "%RESP(X-R)%",
            "%RESP(x-none)%",
            "%RESP(x-empty)%",
            "%RESP(x-empty?x-r)%",
            "%RESP(x-none?x-r)%",
            "%RESP(x-r?x-none)%",
            "%RESP(x-ten):3%",
            "%RESP(x-none?x-ten):4%",
            "%RESP(x-wide):3%",
            "%RESP(content-type)%",
            "%RESP(content-length)%",
            "%RESPONSE_CODE% of %REQ(:method)% %PATH(NQ)% by %PROTOCOL%",
            // What was written just before.
            "%RESP(x-native-0?x-ours-0)%",
        ],
        mixed: &["%RESP(x-none)%-suffix", "%REQ(x-a)%|%RESP(x-r)%|%RESP(x-none)%"],
        never: &["%RESP(x-none)%", "%RESP(x-empty)%", "%RESP(x-empty?x-r)%"],
        requests: vec![
            ("200", answered("200")),
            ("404", answered("404")),
            ("503", answered("503")),
            ("no header", get("/")),
            ("418 of the route itself", get("/direct")),
            ("404 without a route", get("/").authority("other.example")),
        ],
    }
}
