//! Where they rightly differ, and why.

use real_envoy::client::Request;

use super::{Phase, get};

/// A template that gives two different things.
pub(super) struct Difference {
    pub(super) native: &'static str,
    pub(super) ours: &'static str,
    pub(super) phase: Phase,
    pub(super) request: Request,
    pub(super) keep_empty: bool,
    pub(super) expected: [Option<&'static str>; 2],
    pub(super) why: &'static str,
}

/// Where they rightly differ.
pub(super) fn differences() -> Vec<Difference> {
    let same = |template, phase, request, expected, why| Difference {
        native: template,
        ours: template,
        phase,
        request,
        keep_empty: false,
        expected,
        why,
    };
    let left_out = "ours leaves out what misses a part; keep_empty_value: true writes the rest";
    let whole =
        "Envoy writes whichever is shorter; ours writes out whole numbers, which may be ids, up to 2^53";
    let spelling = "the same number, as JSON libraries write it";
    let number = |template, native, ours, why| {
        same(template, Phase::Request, get("/"), [Some(native), Some(ours)], why)
    };
    vec![
        same("%REQ(x-none)%-suffix", Phase::Request, get("/"), [Some("-suffix"), None], left_out),
        same("<%ROUTE_NAME%>", Phase::Request, get("/without-name"), [Some("<>"), None], left_out),
        same(
            "%DYNAMIC_METADATA(ns:none)%-suffix",
            Phase::Response,
            get("/"),
            [Some("-suffix"), None],
            left_out,
        ),
        same(
            "%REQ(:path)%",
            Phase::Response,
            get("/rewritten/x"),
            [Some("/x"), Some("/rewritten/x")],
            "a module cannot read the request's headers any more; what it writes is as they were when they came",
        ),
        same(
            "%PATH(NQ:ORIG)%",
            Phase::Response,
            get("/rewritten/x?a=1"),
            [Some("/rewritten/x"), None],
            "the route rewrites after the filter has seen the request",
        ),
        number("%DYNAMIC_METADATA(numbers:million)%", "1e+06", "1000000", whole),
        number("%DYNAMIC_METADATA(numbers:many)%", "1e+15", "1000000000000000", whole),
        number(
            "%DYNAMIC_METADATA(numbers:digits)%",
            "123456789012345680",
            "1.2345678901234568e+17",
            spelling,
        ),
        number("%DYNAMIC_METADATA(numbers:small)%", "1e-07", "1e-7", spelling),
        number("%DYNAMIC_METADATA(numbers:smaller)%", "1.234e-05", "0.00001234", spelling),
        number("%DYNAMIC_METADATA(numbers:ten_thousandth)%", "1e-04", "0.0001", spelling),
    ]
}

/// What ours alone has an operator for, and how Envoy's users write it.
pub(super) const ONLY_OURS: [(&str, &str); 4] = [
    ("%REQ(:method)%", "%METHOD%"),
    ("%REQ(:method):2%", "%METHOD:2%"),
    ("%REQ(x-request-id)%", "%REQUEST_ID%"),
    ("%STREAM_ID%", "%REQUEST_ID%"),
];

/// What Envoy takes and ours refuses, for requests, and in which words.
pub(super) const REFUSED: [(&str, &str); 10] = [
    ("%RESPONSE_CODE%", "has no value before the response has come"),
    ("%RESP(x-r)%", "has no value before the response has come"),
    ("%REQ(x-a):0%", "has the length \"0\""),
    ("%DYNAMIC_METADATA(ns:)%", "has an empty name in it"),
    ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(24)%", "takes nothing in brackets"),
    ("%START_TIME(%q)%", "%q is not known"),
    ("%START_TIME(%E*S)%", "of %E there is %E1S to %E9S alone"),
    ("%START_TIME(%10f)%", "%1 is not known"),
    ("%START_TIME(%)%", "% is not known"),
    ("%STREAM_ID%", "is not known"),
];
