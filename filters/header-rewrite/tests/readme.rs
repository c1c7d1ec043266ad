//! The README's tables say what the code does.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use filter_api::Filter;
use header_rewrite::HeaderRewrite;
use header_rewrite::counters::Skipped;
use serde_json::{Value, json};

const README: &str = include_str!("../README.md");

/// A section, up to the next of its own or a higher level.
fn section(heading: &str) -> &'static str {
    let level = heading.split(' ').next().unwrap();
    let text = README.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    text.split(&format!("\n{level} ")).next().unwrap().split("\n## ").next().unwrap()
}

/// The fields that an object of the configuration may have, by its own account.
fn known(config: &Value) -> BTreeSet<String> {
    let errors = HeaderRewrite::configure(config.to_string().as_bytes()).unwrap_err().to_string();
    let known = errors.split("unknown field `no-such-field-is-near`; known here: ").nth(1).unwrap();
    known.lines().next().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_in_the_table() {
    let table = section("## Configuration").split("\n### ").next().unwrap();
    let listed: BTreeSet<String> = table
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned()))
        .collect();
    let mut own = known(&json!({ "no-such-field-is-near": 1 }));
    // Of Envoy's filter, taken so that a configuration can be moved over; not to be recommended.
    assert!(own.remove("most_specific_header_mutations_wins"));
    assert_eq!(listed, own);
}

#[test]
fn every_operation_and_condition_is_in_a_table() {
    let mut both = known(&json!({ "request_mutations": [{ "no-such-field-is-near": 1 }] }));
    both.extend(known(&json!({ "response_mutations": [{ "no-such-field-is-near": 1 }] })));
    let tables = section("## Configuration");
    for name in both {
        assert!(tables.contains(&format!("`{name}: ")) || tables.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_operator_is_in_the_table() {
    let config = json!({ "request_mutations": [{ "set": { "name": "x", "value": "%NONE%" } }] });
    let problem = HeaderRewrite::configure(config.to_string().as_bytes()).unwrap_err().to_string();
    let operators = problem.split("there are ").nth(1).unwrap().replace(" and ", ", ");
    let table = section("### Values");
    for operator in operators.split(", ") {
        assert!(table.contains(&format!("`%{operator}")), "{operator}");
    }
}

#[test]
fn every_header_of_the_preset_is_in_the_table() {
    let table = section("### The preset");
    for (name, value) in header_rewrite::preset::HEADERS {
        let shown = if name == "permissions-policy" { &value[..41] } else { value };
        assert!(table.contains(&format!("| `{name}` | `{shown}")), "{name}");
    }
}

#[test]
fn every_guarded_name_is_in_the_table() {
    let table = section("## Names that are not for every operation");
    let names = table.lines().filter(|line| line.starts_with("| `")).flat_map(|line| {
        let cell = line.split(" | ").next().unwrap_or_default();
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 12, "{names:?}");
    for name in names.iter().filter(|name| *name != "protected") {
        let config = json!({ "request_mutations": [{ "remove": name }] });
        assert!(HeaderRewrite::configure(config.to_string().as_bytes()).is_err(), "{name}");
    }
}

#[test]
fn every_counter_is_in_the_table() {
    let table = section("## Metrics");
    for counter in HeaderRewrite::COUNTERS {
        assert!(table.contains(&format!("| `{counter}` |")), "{counter}");
    }
    assert_eq!(HeaderRewrite::COUNTERS.len(), Skipped::ALL.len());
}

/// The examples are whole configurations, and are taken without a warning.
#[test]
fn every_example_can_be_used() {
    let examples = README.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for example in examples {
        let config: Value = serde_saphyr::from_str(example).unwrap();
        let configured = HeaderRewrite::configure(config.to_string().as_bytes());
        let configured = configured.unwrap_or_else(|errors| panic!("{example}\n{errors}"));
        assert!(configured.warnings.is_empty(), "{example}\n{:?}", configured.warnings);
        count += 1;
    }
    assert!(count >= 6, "{count} examples");
}
