//! The suite against the real Envoy: filters as they ship, in the Envoy that users run, asked over
//! HTTP.
//!
//! Most cases are data: `tests/cases/<filter>/*.yaml`, one file for an area of behaviour, run by
//! [`suite`]. What needs a course of events (an update under load, a flood, a refused start) is code,
//! in a module for each filter. A missing module or Envoy fails; nothing is skipped in silence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this target is tests, their helpers too"
)]
#![allow(clippy::disallowed_methods, reason = "tokens are made for the present")]

mod check;
mod documents;
mod foregate;
mod header_rewrite;
mod jwt;
mod jwt_reject;
mod least_privilege;
mod local_rate_limit;
mod sampled_log;
mod shipped;
mod suite;
