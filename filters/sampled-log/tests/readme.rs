//! The README's tables say what the code does.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use filter_api::{Facts, Filter, HeadMap, HostMap};
use sampled_log::SampledLog;
use serde_json::{Value, json};

const README: &str = include_str!("../README.md");

/// A section, up to the next of any level.
fn section(heading: &str) -> &'static str {
    let text = README.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    text.split("\n#").next().unwrap()
}

/// The names in the first column of a section's tables.
fn listed(heading: &str) -> BTreeSet<String> {
    let cells = section(heading).lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect()
}

/// The fields that an object of the configuration may have, by its own account.
fn known(config: &Value) -> BTreeSet<String> {
    let errors = SampledLog::configure(config.to_string().as_bytes()).unwrap_err().to_string();
    let known = errors.split("unknown field `no-such-field-is-near`; known here: ").nth(1).unwrap();
    known.lines().next().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_in_the_table() {
    assert_eq!(listed("## Configuration"), known(&json!({ "no-such-field-is-near": 1 })));
    let conditions = known(&json!({ "always": [{ "no-such-field-is-near": 1 }] }));
    for condition in conditions {
        assert!(section("### Rules").contains(&format!("| `{condition}: ")), "{condition}");
    }
}

#[test]
fn every_member_of_a_line_is_in_the_table() {
    let config = json!({ "percent_sampled": 100 }).to_string();
    let filter = SampledLog::configure(config.as_bytes()).unwrap().filter;
    let host = HostMap { logs: true, ..HostMap::at(1) };
    host.ended.borrow_mut().insert("response.code_details", b"jwt_reject{token_missing}".to_vec());
    let work = filter.on_log(&HeadMap::get("/"), &HeadMap::default(), &host, &Facts::default());
    let line: Value = serde_json::from_str(&work.log.first().unwrap().text).unwrap();
    let members: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
    let mut table: BTreeSet<String> =
        listed("## A line").into_iter().filter(|name| !name.contains('%')).collect();
    for only_sometimes in ["dropped", "truncated"] {
        assert!(table.remove(only_sometimes), "{only_sometimes}");
    }
    assert_eq!(table, members);
}

#[test]
fn every_operator_and_counter_is_in_a_table() {
    let config = json!({ "fields": { "x": "%NONE%" } });
    let problem = SampledLog::configure(config.to_string().as_bytes()).unwrap_err().to_string();
    let own = problem.split("there are ").nth(1).unwrap().split(", REQ,").next().unwrap();
    for operator in own.split(", ") {
        assert!(section("## A line").contains(&format!("`%{operator}%`")), "{operator}");
    }
    for counter in SampledLog::COUNTERS {
        assert!(section("## Metrics").contains(&format!("`{counter}`")), "{counter}");
    }
}

/// What is between the marks of YAML.
fn examples() -> impl Iterator<Item = &'static str> {
    README.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap())
}

/// The recipe has three parts, which must fit each other.
#[test]
fn the_collector_of_the_recipe_is_the_cluster_of_the_sink() {
    let named = |what: &str| -> Value {
        let example = examples().find(|example| example.contains(what)).unwrap();
        serde_saphyr::from_str(example).unwrap()
    };
    let (sink, envoy, collector) = (named("sink:"), named("# Envoy"), named("# Collector"));
    let cluster = &envoy["clusters"][0];
    assert_eq!(cluster["name"], sink["sink"]["http"]["cluster"]);
    assert_eq!(cluster["load_assignment"]["cluster_name"], cluster["name"]);
    let endpoint = &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
    let port = endpoint["address"]["socket_address"]["port_value"].as_u64().unwrap();
    let listens = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].as_str().unwrap();
    assert_eq!(listens, format!("0.0.0.0:{port}"));
}

/// The examples are whole configurations, and are taken without a warning.
#[test]
fn every_example_can_be_used() {
    let mut count = 0;
    for example in examples().filter(|example| !example.starts_with('#')) {
        let config: Value = serde_saphyr::from_str(example).unwrap();
        let configured = SampledLog::configure(config.to_string().as_bytes());
        let configured = configured.unwrap_or_else(|errors| panic!("{example}\n{errors}"));
        assert!(configured.warnings.is_empty(), "{example}\n{:?}", configured.warnings);
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}
