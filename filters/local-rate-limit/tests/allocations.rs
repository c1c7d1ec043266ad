//! How many allocations a request costs, by the way that it takes: each is some 20 to 50 ns in a VM, and
//! one more, unnoticed, on the way of every request is how a filter becomes slow. Those of the host in memory are
//! among them: where the host hands over a cell, that is one, and the writing of one is another.
//!
//! `cargo test -p local_rate_limit --test allocations -- --nocapture` shows the table.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

use filter_api::{CounterSet, Facts, Filter, HeadMap, HostMap, Outcome};
use local_rate_limit::LocalRateLimit;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SECOND: u64 = 1_000_000_000;

/// What happens, and how many blocks are allocated for it.
const EXPECTED: &[(&str, u64)] = &[
    ("exempt", 0),
    ("no limit", 0),
    ("one bucket for all", 3),
    ("the same, scope worker", 1),
    ("the same, from a lease", 0),
    ("per client, by Envoy's verdict", 4),
    ("per client, by x-forwarded-for", 3),
    ("per header", 3),
    ("for all and per client", 6),
    ("told in headers", 11),
    ("refused", 1),
];

fn limiter(host: &HostMap, config: &Value) -> LocalRateLimit {
    let filter = LocalRateLimit::configure(config.to_string().as_bytes()).unwrap().filter;
    let filter = filter.on_its_own_worker();
    filter.on_start(host);
    filter
}

fn cases() -> Vec<(&'static str, Value, HeadMap)> {
    let plenty = "1000/s";
    let head = HeadMap::get("/orders").with("x-forwarded-for", "192.0.2.1").with("x-api-key", "k");
    let by = |entry: Value| json!({ "descriptors": [{ "entries": [entry], "rate": plenty }] });
    let hops = json!({ "client_address": { "trusted_hops": 0 } });
    let mut both = by(hops.clone());
    both["rate"] = plenty.into();
    vec![
        ("exempt", json!({ "rate": plenty, "exempt": { "match": { "path": "/orders" } } }), head.clone()),
        (
            "no limit",
            json!({ "descriptors": [{ "match": { "path": "/else" }, "rate": plenty }] }),
            head.clone(),
        ),
        ("one bucket for all", json!({ "rate": plenty }), head.clone()),
        ("the same, scope worker", json!({ "rate": plenty, "scope": "worker" }), head.clone()),
        ("the same, from a lease", json!({ "rate": plenty, "lease": 100 }), head.clone()),
        ("per client, by Envoy's verdict", by("client_address".into()), head.clone()),
        ("per client, by x-forwarded-for", by(hops), head.clone()),
        ("per header", by(json!({ "header": "x-api-key" })), head.clone()),
        ("for all and per client", both, head.clone()),
        (
            "told in headers",
            json!({ "rate": plenty, "enable_x_ratelimit_headers": "DRAFT_VERSION_03" }),
            head.clone(),
        ),
        ("refused", json!({ "token_bucket": { "max_tokens": 0, "fill_interval": "1s" } }), head),
    ]
}

/// The only test of this file: what others allocate at the same time would be counted too.
#[test]
fn each_way_allocates_what_it_did_before() {
    let host = HostMap::at(1_796_000_000 * SECOND);
    let cases: Vec<_> =
        cases().into_iter().map(|(name, config, head)| (name, limiter(&host, &config), head)).collect();
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut measured = Vec::new();
    for (name, filter, head) in &cases {
        // The first finds cells missing, and no room for their names.
        for _ in 0..2 {
            let outcome = filter.on_request(head, &host, &Facts::default());
            let refuses = matches!(outcome, Outcome::Reply(..));
            assert_eq!(refuses, *name == "refused", "{name}");
            assert_ne!(outcome.effects().counters, CounterSet::default());
        }
        let before = dhat::HeapStats::get();
        let outcome = filter.on_request(head, &host, &Facts::default());
        let after = dhat::HeapStats::get();
        drop(outcome);
        measured.push((*name, after.total_blocks - before.total_blocks));
    }
    for (name, blocks) in &measured {
        println!("{name:40} {blocks:4} allocations");
    }
    assert_eq!(measured, EXPECTED, "better: update the table; worse: see what allocates");
}
