//! What the filter's own logic takes, natively: `cargo bench -p jwt_reject`. In a VM the same steps take
//! some two to three times as long, and Envoy's part comes on top: that is what `cargo xtask bench` measures.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark may fail loudly"
)]

mod cases;

use std::hint::black_box;

use cases::{Case, Keys};
use criterion::{Criterion, criterion_group, criterion_main};
use jwt_reject::keys::KeySet;

fn benchmark(criterion: &mut Criterion) {
    let keys = Keys::make();
    for (group, cases) in [
        ("verify here", cases::algorithms(&keys)),
        ("without a signature check", cases::cheap(&keys)),
        ("rules", cases::many_rules(&keys)),
    ] {
        time(criterion, group, &cases);
    }

    let mut group = criterion.benchmark_group("read keys");
    for algorithm in ["HS256", "RS256", "ES256", "ES512", "EdDSA"] {
        let jwks = keys.jwks(algorithm);
        group.bench_function(algorithm, |bencher| {
            bencher.iter(|| KeySet::parse(black_box(&jwks), false).unwrap());
        });
    }
    group.finish();
}

fn time(criterion: &mut Criterion, name: &str, cases: &[Case]) {
    let mut group = criterion.benchmark_group(name);
    for case in cases {
        case.check();
        group.bench_function(&case.name, |bencher| bencher.iter(|| black_box(case).decide()));
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
