//! The benchmark runs, says what it should, and writes its files: the smallest round.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

use std::path::Path;
use std::process::{Command, Output};

use bench::report::json::{RivalSummary, SCHEMA, Summary, WorkloadSummary};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn rival<'s>(workload: &'s WorkloadSummary, name: &str) -> &'s RivalSummary {
    workload.rival(name).unwrap_or_else(|| panic!("{name}: {workload:#?}"))
}

#[test]
fn a_smoke_run_times_all_who_do_the_job_and_says_who_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["--smoke", "--out", path(folder.path())]);
    let text = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}\n{told}");
    let summary = Summary::read(&folder.path().join("summary.json")).unwrap();
    assert_eq!(summary.schema, SCHEMA);
    assert!(summary.noise.noisy, "one round tells nothing for certain: {:?}", summary.noise);
    assert!(text.contains("\nRead the intervals with care: "), "{text}");

    for module in ["jwt_reject", "local_rate_limit"] {
        assert_eq!(summary.modules.get(module).map(String::len), Some(64), "{:?}", summary.modules);
        assert_eq!(text.matches(&format!("\nmodule     {module}: sha256 ")).count(), 1, "{text}");
    }
    // Nothing but sanity: what is there was measured, and is what it says.
    for workload in &summary.workloads {
        let name = &workload.name;
        assert!(text.contains(&format!("\n{name}: {}\n", workload.what)), "{name}\n{text}");
        assert!(told.contains(name.as_str()), "progress: {told}");
        for it in &workload.rivals {
            let cpu = it.cpu_us.unwrap().median;
            assert!((1.0..100_000.0).contains(&cpu), "{name}: {it:?}");
            assert!(it.requests_per_second.unwrap().median > 1.0, "{name}: {it:?}");
            let latency = it.latency_us.as_ref().unwrap();
            let mut before = 0.0;
            for (_, percentile) in latency.percentiles() {
                assert!(percentile.median >= before && percentile.median > 0.0, "{name}: {it:?}");
                before = percentile.median;
            }
            assert!(it.resident_kb.unwrap() > 10_000, "{name}: {it:?}");
            let has_calls = it.host_calls.is_some_and(|calls| (0.0..200.0).contains(&calls));
            let loads_modules = it.ours || it.name == "four-modules";
            assert!(if loads_modules { has_calls } else { it.host_calls.is_none() }, "{name}: {it:?}");
        }
    }
    let workload = |name: &str| summary.workload(name).unwrap();
    let missing = workload("missing");
    for name in ["baseline", "baseline again", "native", "native-cache", "lua", "jwt_reject"] {
        rival(missing, name);
    }
    let good = workload("good-repeated");
    assert!(good.left_out.get("lua").unwrap().starts_with("a forged token gets 200"), "{:?}", good.left_out);
    assert!(text.contains("lua does not do this: a forged token gets 200"), "{text}");
    // The one difference that no busy machine hides: a signature is checked, or nothing at all is done.
    assert!(rival(good, "native").over_baseline_us.unwrap().median > 0.0, "{good:#?}");
    assert_eq!(rival(good, "jwt_reject").remembered, Some(1.0));
    let limit = workload("limit-per-client");
    assert!(limit.left_out.is_empty(), "{:?}", limit.left_out);
    for name in ["local_rate_limit", "local_rate_limit{lease:100}", "local_rate_limit{scope:worker}"] {
        assert!(limit.budgets.iter().any(|it| it.name == name && it.rival == "lua"), "{:?}", limit.budgets);
    }

    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let rows = file("raw.csv");
    assert!(rows.starts_with("behaviour,workload,rival,round,figure,value,unit\n"), "{rows}");
    assert!(rows.contains("\njwt-reject,missing,baseline again,1,cpu,"), "{rows}");
    assert!(file("README.md").contains("cargo xtask bench --smoke --out "));
    assert!(file("summary.md").contains("\n## good-repeated: "));
    let page = file("report.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && !page.contains("<script"));

    // With itself, a run compares well; with one that cost next to nothing it does not.
    let json = folder.path().join("summary.json");
    let same = bench(&["--compare", path(&json), "--with", path(&json)]);
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stderr));
    assert!(String::from_utf8_lossy(&same.stdout).contains("cannot be judged without an interval"));
    let many = |factor: f64| {
        let mut summary = summary.clone();
        for workload in &mut summary.workloads {
            (workload.rounds, workload.latency_rounds) = (100, 100);
            for rival in workload.rivals.iter_mut().filter(|it| it.ours) {
                let cost = rival.cpu_us.map(|mut cost| {
                    (cost.low, cost.median, cost.high) =
                        (cost.low * factor, cost.median * factor, cost.high * factor);
                    cost
                });
                rival.over_baseline_us = cost;
            }
        }
        let file = folder.path().join(format!("times-{factor}.json"));
        std::fs::write(&file, summary.to_json().unwrap()).unwrap();
        file
    };
    let worse = bench(&["--compare", path(&many(1.0)), "--with", path(&many(1.5))]);
    assert_eq!(worse.status.code(), Some(1));
    let text = String::from_utf8_lossy(&worse.stdout);
    assert!(
        text.contains("missing, jwt_reject: cost over the baseline, us: ") && text.contains(": WORSE\n"),
        "{text}"
    );
    let within = bench(&["--compare", path(&many(1.0)), "--with", path(&many(1.5)), "--threshold", "60"]);
    assert!(within.status.success(), "{}", String::from_utf8_lossy(&within.stdout));
}

#[test]
fn a_summary_of_another_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("summary.json");
    std::fs::write(&file, "{\"schema\": 99}").unwrap();
    let output = bench(&["--compare", path(&file), "--with", path(&file)]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("its schema is version 99, and this program reads version 1 only"), "{told}");
}
