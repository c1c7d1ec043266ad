//! jwt_reject against the real Envoy.

mod agreement;
mod behaviours;
mod budget;
mod configurations;
mod cost;
mod floods;
mod host_failure;
mod memory;
mod module;
mod native;
mod operation;
mod properties;
mod public_reports;
mod remote_keys;
mod updates;
mod vectors;

use anyhow::Context as _;
use real_envoy::Config;
use serde_json::Value;

use crate::jwt;
use crate::suite::{Behaviour, hcm_mut, insert_filter};

/// What the runner must know of the filter.
pub(crate) const JWT_REJECT: Behaviour = Behaviour {
    folder: "jwt-reject",
    config: "envoy-configs/jwt-reject/wasm.yaml",
    plugin: "jwt_reject",
    counters: "wasmcustom.foregate.jwt_reject.",
    make: jwt::token::make,
    complete: jwt::fill_in_keys,
    idle: r#"{
        "default": "allow",
        "providers": { "none": { "issuer": "https://nobody.example", "local_jwks": { "test_keys": ["p256"] } } },
        "rules": [{ "match": { "headers": [{ "name": "x-nobody-sends-this" }] }, "requires": "none" }]
    }"#,
};

/// A chain with jwt_reject in it, as it ships but for this configuration, at this place.
pub(crate) fn insert(config: Config, plugin: &Value, place: usize) -> anyhow::Result<Config> {
    let mut plugin = plugin.clone();
    (JWT_REJECT.complete)(&mut plugin)?;
    let shipped = Config::load(JWT_REJECT.config)?.modules(xtask::modules::ensure)?;
    let mut filter = None;
    shipped.plugin_configuration(JWT_REJECT.plugin, &plugin)?.edit(|value| {
        filter = hcm_mut(value)?["http_filters"].as_array().and_then(|filters| filters.first().cloned());
        Ok(())
    })?;
    insert_filter(config, filter.context("jwt_reject")?, place)
}
