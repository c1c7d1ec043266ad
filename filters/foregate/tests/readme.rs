//! The README's tables say what the code does, and its examples can be used.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;

use filter_api::{Callback, CounterSet, Filter};
use foregate::Foregate;
use foregate::config::MOST_FILTERS;
use header_rewrite::HeaderRewrite;
use jwt_reject::JwtReject;
use local_rate_limit::LocalRateLimit;
use sampled_log::SampledLog;
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
    let errors = Foregate::configure(config.to_string().as_bytes()).unwrap_err().to_string();
    let known = errors.split("unknown field `no-such-field-is-near`; known here: ").nth(1).unwrap();
    known.lines().next().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_in_a_table() {
    let first_cells = section("## Configuration").lines().filter_map(|line| line.strip_prefix("| `"));
    let names = first_cells.flat_map(|line| {
        let cell = format!("`{}", line.split(" |").next().unwrap());
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    let mut both = known(&json!({ "no-such-field-is-near": 1 }));
    both.extend(known(&json!({ "filters": [{ "no-such-field-is-near": 1 }] })));
    assert_eq!(names.collect::<BTreeSet<String>>(), both);
}

#[test]
fn the_limits_are_those_of_the_code() {
    let text = section("## Configuration").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("list, 1 to {MOST_FILTERS} ")));
    let counters = format!(
        "at most {} counters between them: a `jwt_reject` has {}, a `local_rate_limit` {} and two for each of its \
         limits, a `header_rewrite` {}, a `sampled_log` {}.",
        CounterSet::MOST,
        JwtReject::COUNTERS.len(),
        LocalRateLimit::COUNTERS.len(),
        HeaderRewrite::COUNTERS.len(),
        SampledLog::COUNTERS.len()
    );
    assert!(text.contains(&counters), "{counters}");
    let with_name = |length: usize| {
        let config = json!({ "filters": [{ "name": "n".repeat(length), "sampled_log": {} }] });
        Foregate::configure(config.to_string().as_bytes())
    };
    assert!(text.contains("up to 64 in all") && with_name(64).is_ok() && with_name(65).is_err());
}

#[test]
fn every_callback_is_in_the_table() {
    let table = section("## What the host must allow");
    for callback in Foregate::CALLBACKS {
        assert!(table.contains(&format!("`{}`", callback.export())), "{callback:?}");
    }
    assert_eq!(table.matches("`proxy_on_").count(), Foregate::CALLBACKS.len());
}

fn configured<F: Filter>(config: &Value) -> F {
    let configured = F::configure(config.to_string().as_bytes());
    let configured = configured.unwrap_or_else(|errors| panic!("{config:#}\n{errors}"));
    assert!(configured.warnings.is_empty(), "{config:#}\n{:?}", configured.warnings);
    configured.filter
}

/// Reads the configuration of every plugin in a part of Envoy's, and gives how many there are.
fn read_plugins(node: &Value) -> usize {
    if let Some(file) = node.pointer("/vm_config/code/local/filename").and_then(Value::as_str) {
        let value = &node["configuration"]["value"];
        match file {
            "dist/foregate.wasm" => drop(configured::<Foregate>(value)),
            "dist/sampled_log.wasm" => {
                assert!(configured::<SampledLog>(value).needs(Callback::Log));
            }
            other => panic!("{other}"),
        }
        return 1;
    }
    match node {
        Value::Array(items) => items.iter().map(read_plugins).sum(),
        Value::Object(members) => members.values().map(read_plugins).sum(),
        _ => 0,
    }
}

/// The examples are whole configurations, or parts of Envoy's, and are taken without a warning.
#[test]
fn every_example_can_be_used() {
    let examples = README.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let (mut lists, mut plugins) = (0, 0);
    for example in examples {
        let config: Value = serde_saphyr::from_str(example).unwrap();
        if example.starts_with("# Envoy\n") {
            plugins += read_plugins(&config);
        } else {
            configured::<Foregate>(&config);
            lists += 1;
        }
    }
    assert_eq!((lists, plugins), (4, 3));
    assert_eq!(README.matches("```").count(), 2 * README.matches("```yaml\n").count(), "other blocks");
}
