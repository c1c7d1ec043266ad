//! What is fuzzed of local_rate_limit: the reading of configurations, and decisions.

pub mod configuration;
pub mod decision;
mod laws;
mod limits;
mod setups;
pub mod world;
