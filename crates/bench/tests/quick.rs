//! The benchmark runs, and says what it should: one short round.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::process::Command;

#[test]
fn a_quick_run_times_all_who_do_the_job_and_says_who_does_not() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).arg("--quick").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));

    let (surroundings, tables) = text.split_once("\nmissing: ").unwrap();
    for module in ["jwt_reject", "local_rate_limit"] {
        assert_eq!(surroundings.matches(&format!("\nmodule     {module}")).count(), 1, "{text}");
        assert!(surroundings.contains(&format!("\nmodule     {module}: sha256 ")), "{text}");
    }
    let (missing, tables) = tables.split_once("\ngood-repeated: ").unwrap();
    let (good, limit) = tables.split_once("\nlimit-per-client: ").unwrap();
    let figure = |table: &str, name: &str| -> f64 {
        let row = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        row.and_then(|row| row.split_whitespace().nth(1)).unwrap_or("none").parse().unwrap()
    };
    for name in ["baseline", "native", "native-cache", "lua", "jwt_reject"] {
        let microseconds = figure(missing, name);
        assert!((1.0..10_000.0).contains(&microseconds), "{name}: {microseconds}\n{text}");
    }
    assert!(good.contains("lua does not do this: a forged token gets 200"), "{text}");
    // The one difference that no busy machine hides: a signature is checked, or nothing at all is done.
    assert!(figure(good, "native") > figure(good, "baseline"), "{text}");
    let limits = ["local_rate_limit", "local_rate_limit{lease:100}", "local_rate_limit{scope:worker}"];
    for name in ["baseline", "native", "lua"].into_iter().chain(limits) {
        let microseconds = figure(limit, name);
        assert!((1.0..10_000.0).contains(&microseconds), "{name}: {microseconds}\n{text}");
    }
    assert!(!limit.contains("does not do this"), "{text}");
    assert!(limits.iter().all(|name| limit.contains(&format!("{name} may cost 1 x lua"))), "{text}");
    let remembered = good.lines().find(|line| line.trim().starts_with("jwt_reject ")).unwrap();
    assert!(remembered.trim().ends_with("100 %"), "{text}");
}
