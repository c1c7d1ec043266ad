//! local_rate_limit against the real Envoy.

use anyhow::bail;

use crate::suite::Behaviour;

/// What the runner must know of the filter.
pub(crate) const LOCAL_RATE_LIMIT: Behaviour = Behaviour {
    folder: "local-rate-limit",
    config: "envoy-configs/local-rate-limit/wasm.yaml",
    plugin: "local_rate_limit",
    counters: "wasmcustom.foregate.local_rate_limit.",
    make: |_| bail!("no values are made for these cases"),
    complete: |_| Ok(()),
};
