//! header_rewrite against the real Envoy.

mod behaviours;
mod claims;
mod configurations;
mod local_replies;
mod module;
mod operation;
mod public_reports;
mod recipes;
mod rivals;
mod splitting;
mod streams;
mod substitution;

use anyhow::bail;

use crate::suite::Behaviour;

/// What the runner must know of the filter.
pub(crate) const HEADER_REWRITE: Behaviour = Behaviour {
    folder: "header-rewrite",
    config: "envoy-configs/header-rewrite/wasm.yaml",
    plugin: "header_rewrite",
    counters: "wasmcustom.foregate.header_rewrite.",
    make: |_| bail!("no values are made for these cases"),
    complete: |_| Ok(()),
    idle: r#"{
        "request_mutations": [
            { "match": { "headers": [{ "name": "x-nobody-sends-this" }] }, "set": { "name": "x-nobody-sees-this", "value": "1" } },
            { "rename": { "from": "x-nobody-sends-this", "to": "x-nobody-sees-this" } }
        ],
        "response_mutations": [{ "remove": "x-nobody-sends-this" }]
    }"#,
};
