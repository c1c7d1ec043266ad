//! What is fuzzed of sampled_log: the reading of configurations, lines, and which requests have one.

pub mod configuration;
pub mod ended;
mod laws;
pub mod line;
mod oracle;
pub mod sampling;
mod secrets;
mod setups;
