//! The README's tables say what the code does.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use filter_api::Filter;
use local_rate_limit::LocalRateLimit;
use local_rate_limit::counters::Allowed;
use serde_json::{Value, json};

const README: &str = include_str!("../README.md");

/// The names in the first column of the tables of a section, up to its first subsection.
fn listed(heading: &str) -> BTreeSet<String> {
    let section = README.split(&format!("\n{heading}\n")).nth(1).unwrap();
    let section = section.split("\n#").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect()
}

/// The fields that an object of the configuration may have, by its own account.
fn known(config: &Value) -> BTreeSet<String> {
    let errors = LocalRateLimit::configure(config.to_string().as_bytes()).unwrap_err().to_string();
    let known = errors.split("unknown field `no-such-field-is-near`; known here: ").nth(1).unwrap();
    known.lines().next().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_in_the_table() {
    let mut own = known(&json!({"no-such-field-is-near": 1}));
    // Of Envoy's filter, taken so that a configuration can be moved over; not to be recommended.
    for moved in ["stat_prefix", "local_rate_limit_per_downstream_connection"] {
        assert!(own.remove(moved) && README.contains(&format!("`{moved}")), "{moved}");
    }
    assert_eq!(listed("## Configuration"), own);
    let mut of_limit = listed("### Limits");
    // The lists of entries, and of what stands beside them, are in the same section.
    of_limit.retain(|name| {
        !name.contains(':') && !["path", "method", "host", "client_address"].contains(&name.as_str())
    });
    of_limit.extend(["token_bucket", "rate", "burst"].map(str::to_owned));
    let of_limit: BTreeSet<String> = of_limit.into_iter().filter(|name| !name.contains(' ')).collect();
    assert_eq!(of_limit, known(&json!({"descriptors": [{"no-such-field-is-near": 1}]})));
}

#[test]
fn every_counter_is_in_the_table() {
    let table = README.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    for counter in LocalRateLimit::COUNTERS {
        let name = counter.strip_prefix("allowed.reason.").map_or(*counter, |_| "allowed.reason.REASON");
        assert!(table.contains(&format!("| `{name}` |")), "{counter}");
    }
    for allowed in Allowed::ALL {
        assert!(table.contains(&format!("`{}`", allowed.label())), "{allowed:?}");
    }
    let config = json!({"descriptors": [{"name": "NAME", "match": {}, "rate": "1/s"}]}).to_string();
    for counter in LocalRateLimit::configure(config.as_bytes()).unwrap().filter.own_counters() {
        assert!(table.contains(&format!("| `{counter}` |")), "{counter}");
    }
}

/// The examples are whole configurations, and are taken without a warning.
#[test]
fn every_example_can_be_used() {
    let examples = README.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for example in examples {
        let config: Value = serde_saphyr::from_str(example).unwrap();
        let configured = LocalRateLimit::configure(config.to_string().as_bytes());
        let configured = configured.unwrap_or_else(|errors| panic!("{example}\n{errors}"));
        assert!(configured.warnings.is_empty(), "{example}\n{:?}", configured.warnings);
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}
