//! The runner of cases: a case is data, in a YAML file; one Envoy serves the cases of a file.
//!
//! It knows HTTP and Envoy, and nothing of what a filter does: that is in a [`Behaviour`] and in the
//! case files.

mod case;
mod expect;
mod gateway;
mod load;
mod runner;
mod text;

pub(crate) use case::Cases;
pub(crate) use gateway::{Gateway, SOON, as_string_value, hcm_mut, plugin_mut};
pub(crate) use load::{Load, Next};
pub(crate) use runner::check_file;
pub(crate) use text::fill;

use serde_json::Value;

/// What the runner must know of the filter under test.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour {
    /// The folder of its cases, below `tests/cases`.
    pub(crate) folder: &'static str,
    /// The shipped configuration that the cases start from.
    pub(crate) config: &'static str,
    /// The name of the Wasm plugin in it.
    pub(crate) plugin: &'static str,
    /// What the names of its counters begin with.
    pub(crate) counters: &'static str,
    /// Makes what a file declares under `values`.
    pub(crate) make: fn(&Value) -> anyhow::Result<String>,
    /// Completes the plugin's configuration.
    pub(crate) complete: fn(&mut Value) -> anyhow::Result<()>,
}
