//! The filters as a chain in one module, against the real Envoy.
//!
//! That each of them does in a chain what it does alone is shown by its own cases, which run in both: see
//! [`crate::suite::Setup`]. Here is what a chain adds.

mod chain;
mod claims;
mod configurations;
mod logs;
mod module;
mod operation;
mod repeats;
mod waiting;

use anyhow::{Context as _, bail};
use real_envoy::Config;
use serde_json::{Value, json};

use crate::header_rewrite::HEADER_REWRITE;
use crate::jwt;
use crate::jwt_reject::JWT_REJECT;
use crate::local_rate_limit::LOCAL_RATE_LIMIT;
use crate::sampled_log::SAMPLED_LOG;
use crate::suite::{Behaviour, Gateway, SOON, chain, hcm_mut, modules};

/// The filters of the suite, in an order in which they may well stand.
pub(crate) const FILTERS: [Behaviour; 4] = [LOCAL_RATE_LIMIT, JWT_REJECT, HEADER_REWRITE, SAMPLED_LOG];

/// The chain, in the place of the filter of a configuration that ships.
pub(crate) const FOREGATE: Behaviour = Behaviour {
    folder: "foregate",
    config: SAMPLED_LOG.config,
    plugin: "foregate",
    counters: "wasmcustom.foregate.",
    make: |_| bail!("no values are made for these cases"),
    complete: jwt::fill_in_keys,
    idle: r#"{ "filters": [{ "sampled_log": {} }] }"#,
};

/// A gateway with this list of filters, and whatever else is to change.
async fn start_with(
    list: &Value,
    change: impl FnOnce(Config) -> anyhow::Result<Config>,
) -> anyhow::Result<Gateway> {
    Gateway::start(&FOREGATE, |config| change(chained(config, list)?)).await
}

/// A gateway with this list of filters.
async fn start(list: &Value) -> anyhow::Result<Gateway> {
    start_with(list, Ok).await
}

fn chained(config: Config, list: &Value) -> anyhow::Result<Config> {
    chain(config, SAMPLED_LOG.plugin, list)
}

/// The listeners of [`start_both`]: the list in one module, and its filters in modules of their own.
const WAYS: [&str; 2] = ["one-module", "modules"];

/// A gateway that runs the list in both ways.
async fn start_both(list: &Value) -> anyhow::Result<Gateway> {
    Gateway::start(&FOREGATE, |config| {
        let mut listeners = Vec::new();
        for (way, config) in WAYS
            .into_iter()
            .zip([chained(config.clone(), list)?, modules(config.clone(), SAMPLED_LOG.plugin, list)?])
        {
            let mut listener = config.value()["static_resources"]["listeners"][0].clone();
            listener["name"] = way.into();
            listeners.push(listener);
        }
        config.edit(|bootstrap| {
            bootstrap["static_resources"]["listeners"] = listeners.into();
            Ok(())
        })
    })
    .await
}

/// jwt_reject as most lists have it: everything needs a token, but for what is below `/open`.
fn guard() -> Value {
    json!({
        "providers": { "main": { "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] } } },
        "rules": [
            { "match": { "prefix": "/open" }, "requires": "allow_missing_or_failed" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    })
}

/// Has the access log tell of these things too, by format operators.
fn told_by_envoy(config: Config, fields: &Value) -> anyhow::Result<Config> {
    config.edit(|bootstrap| {
        let logs = hcm_mut(bootstrap)?.get_mut("access_log").and_then(Value::as_array_mut);
        let own = logs.and_then(|logs| logs.last_mut()).context("the suite's own access log")?;
        let format = own.pointer_mut("/typed_config/log_format/json_format").and_then(Value::as_object_mut);
        format.context("its format")?.extend(fields.as_object().cloned().context("no object")?);
        Ok(())
    })
}

/// What the access log tells of the request with this number.
async fn told(gateway: &Gateway, number: u64) -> anyhow::Result<Value> {
    let line = gateway.envoy.wait_for_stdout(&format!("\"case\":\"{number}\""), SOON).await?;
    serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
}

/// The values that the upstream saw of a header.
fn arrived(account: &Value, name: &str) -> Vec<String> {
    let pairs = account["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_name = pairs.iter().filter(|pair| pair[0] == name);
    of_name.map(|pair| pair[1].as_str().unwrap_or_default().to_owned()).collect()
}
