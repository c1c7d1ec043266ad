//! What is fuzzed of header_rewrite: templates, the reading of configurations, and what becomes of messages.

pub mod configuration;
pub mod exchange;
mod interpreter;
mod laws;
pub mod rewriting;
pub mod templates;
