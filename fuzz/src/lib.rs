//! What is fuzzed: bodies of fuzz targets, and the laws that they hold the code to, whatever comes in.
//!
//! The same bodies run in three places: under libFuzzer (`cargo xtask fuzz`), over the seeds and some
//! thousands of mutations of them in every `cargo test` (`tests/bounded.rs`), and over structured inputs
//! of proptest (`tests/properties`). An input that broke a law runs by itself with
//! `cargo run --package fuzz-targets -- TARGET FILE`.
//!
//! To add a target: a body here, a line in [`TARGETS`], a driver in `libfuzzer/fuzz_targets`, seeds in
//! `seeds/TARGET`, and words in `dictionaries/TARGET`.

// All of this is test code: a broken law is a panic.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub mod header_rewrite;
pub mod jwt_reject;
pub mod local_rate_limit;
pub mod sampled_log;

/// A body that is fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, also that of its driver, its folder of seeds and its dictionary.
    pub name: &'static str,
    /// Runs it on one input and panics where a law is broken. What it returns says what became of the
    /// input, so that a test can see that a set of inputs gets everywhere.
    pub run: fn(&[u8]) -> &'static str,
}

/// Every target.
pub const TARGETS: [Target; 10] = [
    Target { name: "header_rewrite_configuration", run: header_rewrite::configuration::run },
    Target { name: "header_rewrite_rewriting", run: header_rewrite::rewriting::run },
    Target { name: "header_rewrite_templates", run: header_rewrite::templates::run },
    Target { name: "jwt_reject_decision", run: jwt_reject::decision::run },
    Target { name: "jwt_reject_keys", run: jwt_reject::keys::run },
    Target { name: "local_rate_limit_configuration", run: local_rate_limit::configuration::run },
    Target { name: "local_rate_limit_decision", run: local_rate_limit::decision::run },
    Target { name: "sampled_log_configuration", run: sampled_log::configuration::run },
    Target { name: "sampled_log_line", run: sampled_log::line::run },
    Target { name: "sampled_log_sampling", run: sampled_log::sampling::run },
];
