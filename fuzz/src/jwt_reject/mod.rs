//! What is fuzzed of jwt_reject: decisions, and the reading of keys.

pub mod decision;
pub mod keys;
pub mod mint;
mod setups;
