//! Requests and responses that operations do something to, and hostile ones.

use filter_api::HeadMap;
use fuzz_targets::header_rewrite::exchange::{Exchange, with_line};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::{any_json, head_value};

/// A value that means something somewhere, or any bytes; control characters among them only where it need not be fit to
/// be written again.
fn telling_value(fit: bool) -> BoxedStrategy<Vec<u8>> {
    let telling = select(vec![
        "1",
        "",
        "blue",
        "a, b",
        "b.example",
        "..",
        "a/b?c#d e",
        "banana",
        "theme=dark; a=1; session=\"x\"",
        "a=1;;b; =c ; A=2",
        "session=1; Path=/; SameSite=None; secure",
        "theme=dark;HttpOnly;SAMESITE = lax",
        "/old?x",
        "é",
    ]);
    let plain = vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..24);
    let telling = telling.prop_map(|text| text.as_bytes().to_vec());
    if fit {
        prop_oneof![4 => telling, 1 => plain].boxed()
    } else {
        prop_oneof![2 => telling, 1 => head_value()].boxed()
    }
}

fn path(fit: bool) -> BoxedStrategy<Vec<u8>> {
    let telling = select(vec![
        "/",
        "/v1/orders?a=1&debug&a=2",
        "/v1/",
        "/a?b=1&debug=&utm_x=%20&debug",
        "/?session=1&theme&a=a&b",
        "/account?%61=1&a+b=2&&utm_x",
        "/account/..;/v1/x",
        "/v1/%2e%2e/account",
        "/a%2Fb?",
        "*",
        "",
        "/a b#c",
    ]);
    let telling = telling.prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![8 => telling, 1 => telling_value(fit)].boxed()
}

pub(super) fn exchange() -> impl Strategy<Value = Exchange> {
    prop_oneof![5 => exchange_of(true), 1 => exchange_of(false)]
}

fn exchange_of(fit: bool) -> impl Strategy<Value = Exchange> {
    let line = || {
        let name = select(vec![
            "x-a",
            "x-a",
            "x-a",
            "x-b",
            "x-b",
            "x-canary",
            "x-internal-role",
            "cookie",
            "set-cookie",
            "server",
            "x-envoy-original-path",
            "x-frame-options",
            "x-request-id",
            "connection",
            "content-length",
            "te",
            ":authority",
            ":method",
        ]);
        (name, telling_value(fit))
    };
    let status = select(vec!["200", "404", "503", "", "x"]);
    let found = || prop_oneof![2 => Just(Vec::new()), 1 => vec(any::<u8>(), 0..8), 2 => telling_value(fit)];
    let claims = prop_oneof![
        2 => Just(None),
        1 => any_json().prop_map(|sub| Some(json!({ "sub": sub, "realm": { "roles": ["a", 1] } }))),
    ];
    let text = || {
        select(vec!["", "orders", "a\r\nb", "192.0.2.1:80", "[2001:db8::1]:443", "HTTP/2"])
            .prop_map(str::to_owned)
    };
    (
        path(fit),
        vec(line(), 0..8),
        status,
        vec(line(), 0..6),
        claims,
        (found(), found()),
        (text(), text(), text()),
        any::<u64>(),
    )
        .prop_map(
            |(
                path,
                request,
                status,
                response,
                claims,
                (property, metadata),
                (route, peer, protocol),
                started,
            )| {
                let head = HeadMap::get("/").with_only(":path", path);
                let request = request.iter().fold(head, |head, (name, value)| with_line(head, name, value));
                let head = HeadMap::default().with(":status", status);
                let response = response.iter().filter(|(name, _)| !name.starts_with(':'));
                let response = response.fold(head, |head, (name, value)| with_line(head, name, value));
                Exchange {
                    request,
                    response,
                    claims,
                    properties: vec![("foregate.jwt.sub".to_owned(), property)],
                    metadata: vec![("ns:a".to_owned(), metadata)],
                    route,
                    peer,
                    protocol,
                    started,
                }
            },
        )
}
