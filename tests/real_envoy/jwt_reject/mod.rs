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

use crate::jwt;
use crate::suite::Behaviour;

/// What the runner must know of the filter.
pub(crate) const JWT_REJECT: Behaviour = Behaviour {
    folder: "jwt-reject",
    config: "envoy-configs/jwt-reject/wasm.yaml",
    plugin: "jwt_reject",
    counters: "wasmcustom.foregate.jwt_reject.",
    make: jwt::token::make,
    complete: jwt::fill_in_keys,
};
