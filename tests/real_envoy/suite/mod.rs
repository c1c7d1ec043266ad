//! The runner of cases: a case is data, in a YAML file; one Envoy serves the cases of a file, and one those of all files in every other [`Setup`].
//!
//! It knows HTTP and Envoy, and nothing of what a filter does: that is in a [`Behaviour`] and in the
//! case files.

mod calls;
mod case;
mod crowd;
mod expect;
mod gateway;
mod load;
mod module;
mod refusals;
mod runner;
mod setup;
mod text;

pub(crate) use calls::{host_calls, traced};
pub(crate) use case::Cases;
pub(crate) use crowd::{crowd, statuses};
pub(crate) use gateway::{Gateway, SOON, as_string_value, hcm_mut, insert_filter, plugin_mut};
pub(crate) use load::{Load, Next};
pub(crate) use module::{Capabilities, check_module};
pub(crate) use refusals::{check_refusals, check_refused_lists};
pub(crate) use runner::{check_elsewhere, check_file};
pub(crate) use setup::{Setup, chain, modules};
pub(crate) use text::fill;

use serde_json::Value;

/// A test for each case file of a behaviour, one for all of them in other setups, and one that none is forgotten; `FILES`
/// names them.
macro_rules! case_files {
    ($behaviour:expr; $($test:ident $file:literal;)*) => {
        const FILES: &[&str] = &[$($file,)*];

        #[test]
        fn every_case_file_has_a_test() {
            assert_eq!($crate::suite::Cases::of(&$behaviour).names().unwrap(), FILES);
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn every_case_holds_in_a_list_and_among_four_modules() {
            if let Err(error) = $crate::suite::check_elsewhere(&$behaviour, FILES).await {
                panic!("{error:#}");
            }
        }

        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Err(error) = $crate::suite::check_file(&$behaviour, $file).await {
                    panic!("{error:#}");
                }
            }
        )*
    };
}
pub(crate) use case_files;

/// What the runner must know of the filter under test.
#[derive(Clone, Copy, Debug)]
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
    /// A configuration (JSON) with which it does nothing that a case of another filter would notice.
    pub(crate) idle: &'static str,
}
