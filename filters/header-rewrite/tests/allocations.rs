//! How many allocations a request or a response costs, by what is done to it: each is some 20 to 50 ns in a VM, and one
//! more, unnoticed, on the way of every request is how a filter becomes slow. Those of the host in memory are among
//! them: what it knows of a request is one.
//!
//! `cargo test -p header_rewrite --test allocations -- --nocapture` shows the table.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

use filter_api::{Facts, Filter, HeadMap, HostMap, Outcome};
use header_rewrite::HeaderRewrite;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// What is done, and how many blocks are allocated for it when the request comes, and when the response does.
const EXPECTED: &[(&str, u64, u64)] = &[
    ("nothing changes", 0, 0),
    ("one set", 1, 0),
    ("one set, of the client's address", 3, 0),
    ("one set, of a header", 2, 0),
    ("ten operations, two conditions", 7, 0),
    ("the path's beginning", 5, 0),
    ("a replacement", 6, 0),
    ("eleven headers of the response", 0, 4),
    ("a header of the response, of the request", 4, 1),
];

fn cases() -> Vec<(&'static str, Value)> {
    let set = |name: &str, value: &str| json!({ "set": { "name": name, "value": value } });
    let request = |operations: Value| json!({ "request_mutations": operations });
    vec![
        (
            "nothing changes",
            json!({
                "request_mutations": [
                    { "remove": ["x-a", { "prefix": "x-internal-" }] },
                    { "match": { "prefix": "/v1/" }, "path": { "prefix": "/v1/", "with": "/" } },
                    { "query": { "remove": "debug" } },
                ],
                "response_mutations": [{ "status": "5xx", "set": { "name": "x-a", "value": "1" } }],
            }),
        ),
        ("one set", request(json!([set("x-a", "1")]))),
        (
            "one set, of the client's address",
            request(json!([set("x-a", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%")])),
        ),
        ("one set, of a header", request(json!([set("x-a", "%REQ(user-agent)%")]))),
        (
            "ten operations, two conditions",
            request(json!([
                set("x-a", "1"),
                set("x-b", "2"),
                { "append": { "name": "x-c", "value": "3" } },
                { "add_if_absent": { "name": "x-d", "value": "4" } },
                { "remove": "user-agent" },
                { "remove": { "prefix": "x-internal-" } },
                { "rename": { "from": "accept", "to": "x-accept" } },
                { "copy": { "from": ":authority", "to": "x-host" } },
                { "match": { "method": "GET" }, "set": { "name": "x-e", "value": "%METHOD%" } },
                { "match": { "prefix": "/orders" }, "set": { "name": "x-f", "value": "6" } },
            ])),
        ),
        ("the path's beginning", request(json!([{ "path": { "prefix": "/orders", "with": "/" } }]))),
        (
            "a replacement",
            request(json!([{ "replace": { "name": "user-agent", "regex": "/([0-9]+)", "with": " \\1" } }])),
        ),
        (
            "eleven headers of the response",
            json!({ "response_mutations": [{ "preset": "security_headers" }] }),
        ),
        (
            "a header of the response, of the request",
            json!({ "response_mutations": [set("x-a", "%REQ(user-agent)%")] }),
        ),
    ]
}

/// The only test of this file: what others allocate at the same time would be counted too.
#[test]
fn each_way_allocates_what_it_did_before() {
    let host = HostMap::at(0);
    let head = HeadMap::get("/orders").with("user-agent", "curl/7.88.1").with("accept", "*/*");
    let response = HeadMap::default().with(":status", "200").with("content-type", "text/plain");
    let filters: Vec<_> = cases()
        .into_iter()
        .map(|(name, config)| (name, HeaderRewrite::configure(config.to_string().as_bytes()).unwrap().filter))
        .collect();
    let _profiler = dhat::Profiler::builder().testing().build();
    let blocks = || dhat::HeapStats::get().total_blocks;
    let mut measured = Vec::new();
    for (name, filter) in &filters {
        // The first time, a regular expression makes room for itself.
        let _ = filter.on_request(&head, &host, &Facts::default());
        let before = blocks();
        let outcome = filter.on_request(&head, &host, &Facts::default());
        let at_request = blocks() - before;
        let Outcome::Continue(effects) = outcome else { panic!("{name}") };
        let before = blocks();
        let kept = effects.kept.map(|kept| filter.on_response(&kept, &response, &host));
        let at_response = blocks() - before;
        let changes = !effects.headers.is_empty() || kept.is_some_and(|effects| !effects.headers.is_empty());
        assert_eq!(changes, *name != "nothing changes", "{name}");
        measured.push((*name, at_request, at_response));
    }
    for (name, at_request, at_response) in &measured {
        println!("{name:45} {at_request:4} {at_response:4} allocations");
    }
    assert_eq!(measured, EXPECTED, "better: update the table; worse: see what allocates");
}
