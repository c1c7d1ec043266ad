//! local_rate_limit against the real Envoy.

mod behaviours;
mod claims;
mod configurations;
mod exactness;
mod memory;
mod module;
mod operation;
mod public_reports;
mod rivals;
mod updates;

use anyhow::bail;

use real_envoy::Options;
use serde_json::Value;

use crate::suite::{Behaviour, Gateway};

/// What the runner must know of the filter.
pub(crate) const LOCAL_RATE_LIMIT: Behaviour = Behaviour {
    folder: "local-rate-limit",
    config: "envoy-configs/local-rate-limit/wasm.yaml",
    plugin: "local_rate_limit",
    counters: "wasmcustom.foregate.local_rate_limit.",
    make: |_| bail!("no values are made for these cases"),
    complete: |_| Ok(()),
    idle: r#"{ "rate": "1000000/s" }"#,
};

/// The shipped gateway with this configuration of the plugin.
async fn start(plugin: &Value, options: &Options<'_>) -> anyhow::Result<Gateway> {
    Gateway::start_with(&LOCAL_RATE_LIMIT, options, |config| {
        config.plugin_configuration(LOCAL_RATE_LIMIT.plugin, plugin)
    })
    .await
}
