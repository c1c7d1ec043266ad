//! How many allocations a request costs that passes a chain: each is some 20 to 50 ns in a VM, and one more, unnoticed,
//! on the way of every request is how a chain becomes slow. Those of the host in memory are among them.
//!
//! `cargo test -p foregate --test allocations -- --nocapture` shows the table.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

use base64ct::{Base64UrlUnpadded, Encoding as _};
use filter_api::{Facts, Filter, HeadMap, HostMap, Outcome};
use foregate::Foregate;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const NOW: u64 = 1_796_000_000;
const SECRET: [u8; 32] = [7; 32];

/// What is in the list, and how many blocks are allocated for it when the request comes, when the response does, and at
/// the end.
const EXPECTED: &[(&str, u64, u64, u64)] = &[
    ("limit", 3, 0, 0),
    ("token", 2, 0, 0),
    ("edits", 2, 0, 0),
    ("limit, token", 5, 0, 0),
    ("limit, token, edits", 7, 0, 0),
    ("limit, token, edits, of the response too", 7, 2, 0),
    ("limit, token, edits, log: not in the sample", 7, 0, 0),
];

fn encode(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

fn token() -> String {
    let claims = json!({ "iss": "https://issuer.example", "sub": "alice", "exp": NOW + 600 });
    let text = format!("{}.{}", encode(br#"{"alg":"HS256"}"#), encode(claims.to_string().as_bytes()));
    let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(&SECRET).unwrap();
    mac.update(text.as_bytes());
    format!("{text}.{}", encode(&mac.finalize().into_bytes()))
}

fn cases() -> Vec<(&'static str, Value)> {
    let limit = json!({ "local_rate_limit": { "rate": "1000/s" } });
    let keys = json!({ "keys": [{ "kty": "oct", "k": encode(&SECRET) }] });
    let token = json!({ "jwt_reject": {
        "providers": { "main": {
            "issuer": "https://issuer.example",
            "local_jwks": { "inline_string": keys.to_string() },
            "claim_to_headers": [{ "header_name": "x-user", "claim_name": "sub" }],
        } },
        "rules": [{ "match": {}, "requires": { "provider_name": "main" } }],
    } });
    let requests =
        json!([{ "set": { "name": "x-gateway", "value": "1" } }, { "remove": { "prefix": "x-internal-" } }]);
    let edits = json!({ "header_rewrite": { "request_mutations": requests } });
    let of_both = json!({ "header_rewrite": {
        "request_mutations": requests,
        "response_mutations": [{ "set": { "name": "x-served-by", "value": "gateway" } }],
    } });
    let log = json!({ "sampled_log": { "percent_sampled": 0 } });
    vec![
        ("limit", json!([limit])),
        ("token", json!([token])),
        ("edits", json!([edits])),
        ("limit, token", json!([limit, token])),
        ("limit, token, edits", json!([limit, token, edits])),
        ("limit, token, edits, of the response too", json!([limit, token, of_both])),
        ("limit, token, edits, log: not in the sample", json!([limit, token, edits, log])),
    ]
}

/// The only test of this file: what others allocate at the same time would be counted too.
#[test]
fn each_list_allocates_what_it_did_before() {
    let host = HostMap { logs: true, ..HostMap::at(NOW * 1_000_000_000) };
    let head = HeadMap::get("/orders")
        .with("user-agent", "curl/7.88.1")
        .with("x-request-id", "4f1c")
        .with("authorization", format!("Bearer {}", token()));
    let response = HeadMap::default().with(":status", "200").with("content-type", "text/plain");
    let chains: Vec<_> = cases()
        .into_iter()
        .map(|(name, filters)| {
            let config = json!({ "filters": filters });
            let chain = Foregate::configure(config.to_string().as_bytes()).unwrap().filter;
            chain.on_start(&host);
            (name, chain)
        })
        .collect();
    let _profiler = dhat::Profiler::builder().testing().build();
    let blocks = || dhat::HeapStats::get().total_blocks;
    let mut measured = Vec::new();
    for (name, chain) in &chains {
        // The first finds cells missing, and a token that nobody has seen.
        for _ in 0..2 {
            assert!(
                matches!(chain.on_request(&head, &host, &Facts::default()), Outcome::Continue(_)),
                "{name}"
            );
        }
        let before = blocks();
        let outcome = chain.on_request(&head, &host, &Facts::default());
        let at_request = blocks() - before;
        let Outcome::Continue(effects) = outcome else { panic!("{name}") };
        let before = blocks();
        let done = effects.kept.map(|kept| chain.on_response(&kept, &response, &host));
        let at_response = blocks() - before;
        assert_eq!(done.is_some(), name.ends_with("the response too"), "{name}");
        let before = blocks();
        let work = chain.on_log(&head, &response, &host, &effects.facts);
        let at_end = blocks() - before;
        assert!(work.log.is_empty());
        measured.push((*name, at_request, at_response, at_end));
    }
    for (name, at_request, at_response, at_end) in &measured {
        println!("{name:45} {at_request:4} {at_response:4} {at_end:4} allocations");
    }
    assert_eq!(measured, EXPECTED, "better: update the table; worse: see what allocates");
}
