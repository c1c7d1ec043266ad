//! How many allocations a request costs, by the way that it takes: each is some 20 to 50 ns in a VM, and
//! one more, unnoticed, on the way of every request is how a filter becomes slow.
//!
//! `cargo test -p jwt_reject --test allocations -- --nocapture` shows the table.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

#[path = "../benches/cases/mod.rs"]
mod cases;

use cases::Keys;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The name of a case, and how many blocks are allocated for it.
const EXPECTED: &[(&str, u64)] = &[
    ("no requirement", 0),
    ("missing", 3),
    ("malformed", 3),
    ("too long", 3),
    ("header not base64url", 4),
    ("alg none", 7),
    ("key not found", 33),
    ("expired", 35),
    ("wrong issuer", 35),
    ("wrong audience", 35),
    ("revoked", 35),
    ("good, seen before", 1),
    ("good, seen before, forwarded", 0),
    ("good, seen before, 2 claim headers", 1),
    ("forged, seen before", 3),
];

/// The only test of this file: what others allocate at the same time would be counted too.
#[test]
fn each_way_allocates_what_it_did_before() {
    let cases = cases::cheap(&Keys::make());
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut measured = Vec::new();
    for case in &cases {
        case.check();
        let before = dhat::HeapStats::get();
        let outcome = case.decide();
        let after = dhat::HeapStats::get();
        drop(outcome);
        measured.push((
            case.name.as_str(),
            after.total_blocks - before.total_blocks,
            after.total_bytes - before.total_bytes,
        ));
    }
    for (name, blocks, bytes) in &measured {
        println!("{name:40} {blocks:4} allocations {bytes:6} bytes");
    }
    let counted: Vec<(&str, u64)> = measured.iter().map(|(name, blocks, _)| (*name, *blocks)).collect();
    assert_eq!(counted, EXPECTED, "better: update the table; worse: see what allocates");
}
