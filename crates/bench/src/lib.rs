//! What a filter costs in a real Envoy, beside its rivals: `cargo xtask bench`.
//!
//! For each kind of request ([`workload`]) of each behaviour every implementation ([`rival`]) that gives the
//! right answers has its turn in each round ([`measure`]): it is sent requests ([`load`]), and the CPU time of its Envoy is read
//! before and after ([`cpu`]). Told is the cost of a request over that of an Envoy without a filter, its
//! median with a 95 % interval ([`statistics`]). Beside that are throughput and latency, by [`oha`] or by a load of our own
//! ([`latency`]), memory, and calls of the host. All of it is told as a table and, if asked for, as files ([`report`]), with
//! how far it can be trusted ([`noise`]); two runs can be [compared](compare). Beside the workloads are
//! experiments: pairs of configurations of which somebody claims that one saves something. The command line is in [`command`].

#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks")]

mod behaviour;
pub mod command;
pub mod compare;
pub mod cpu;
mod experiment;
mod footprint;
mod host_calls;
pub mod latency;
mod list;
pub mod load;
pub mod machine;
pub mod measure;
pub mod noise;
pub mod oha;
pub mod pair;
pub mod progress;
pub mod report;
pub mod rival;
pub mod statistics;
mod upstream;
pub mod workload;
