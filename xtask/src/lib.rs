//! What it takes to build and try Foregate on a machine that has Rust and little else.
//!
//! The `cargo xtask` command line (`main.rs`) and the tests and tools of this repository call the same
//! functions:
//! - [`toolchain::provision`] finds or installs what compiles for wasm32-wasip1,
//! - [`envoy::locate`] finds or fetches Envoy,
//! - [`oha::provision`] finds or compiles the load generator,
//! - [`modules::build`] and [`modules::ensure`] write the modules to `dist/`,
//! - [`fuzz::run`] fuzzes what comes from outside.
//!
//! All of them can be called again, and at the same time from several processes.
#![allow(clippy::disallowed_methods, reason = "a tool that waits for other programs needs the clock")]

mod apt;
pub mod envoy;
pub mod fuzz;
mod lock;
pub mod modules;
pub mod oha;
pub mod process;
pub mod prune;
pub mod toolchain;

use std::path::{Path, PathBuf};

/// The folder of the workspace's `Cargo.toml`.
pub fn workspace_root() -> &'static Path {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    this_crate.parent().unwrap_or(this_crate)
}

/// The folder that build products and lock files go to: `$CARGO_TARGET_DIR`, or `target/` of the workspace.
/// A relative `$CARGO_TARGET_DIR` is taken from the workspace root, since tests run in other folders.
pub fn target_dir() -> PathBuf {
    let base = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    workspace_root().join(base.unwrap_or_else(|| "target".into()))
}
