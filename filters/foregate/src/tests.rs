//! The chain, natively.

mod configuration;
mod course;
mod envoy;
mod laws;
mod separate;
mod setups;
mod tokens;
mod waiting;

use filter_api::{HeadMap, HeaderOp, HostMap};
use serde_json::{Value, json};

use super::*;

const SECOND: u64 = 1_000_000_000;

/// 1 December 2026, 08:15:43.
const START: u64 = tokens::NOW * SECOND;

/// A chain of these filters.
fn chain(filters: &Value) -> Foregate {
    let config = json!({ "filters": filters });
    let configured = Foregate::configure(config.to_string().as_bytes());
    configured.unwrap_or_else(|errors| panic!("{config}\n{errors}")).filter
}

/// A chain that has taken its first step.
fn started(filters: &Value, host: &HostMap) -> Foregate {
    let chain = chain(filters);
    chain.on_start(host);
    chain
}

/// The names of the counters of these effects, lowest place first.
fn counted<K>(chain: &Foregate, effects: &filter_api::Effects<K>) -> Vec<String> {
    let names = chain.counter_names();
    effects.counters.iter().map(|counter| names[usize::from(counter.0)].clone()).collect()
}

/// An operation in one line: `x-a: 1` sets, `+x-a: 1` adds, `-x-a` removes.
fn shown(operations: &[HeaderOp]) -> Vec<String> {
    let text = |value: &filter_api::HeaderValue| value.as_bytes().escape_ascii().to_string();
    let one = |operation: &HeaderOp| match operation {
        HeaderOp::Set(name, value) => format!("{}: {}", name.as_str(), text(value)),
        HeaderOp::Add(name, value) => format!("+{}: {}", name.as_str(), text(value)),
        HeaderOp::Remove(name) => format!("-{}", name.as_str()),
    };
    operations.iter().map(one).collect()
}

fn bearer(token: &str) -> HeadMap {
    HeadMap::get("/").with("authorization", format!("Bearer {token}"))
}

/// A filter that sets these headers of requests.
fn set(headers: &[(&str, &str)]) -> Value {
    let sets: Vec<Value> =
        headers.iter().map(|(name, value)| json!({ "set": { "name": name, "value": value } })).collect();
    json!({ "header_rewrite": { "request_mutations": sets } })
}
