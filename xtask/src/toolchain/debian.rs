//! The toolchain that Debian's packages make up, for machines where rustup cannot download.
//!
//! Debian has no compiled standard library for wasm32-wasip1, but its sources, a wasi-libc and a linker:
//! cargo compiles the library along with the module. That is an unstable feature of cargo, which
//! RUSTC_BOOTSTRAP allows on a stable compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Kind, Toolchain};
use crate::process;

/// What apt-get has to install.
pub(super) const PACKAGES: [&str; 5] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19", "wasi-libc"];
/// Debian's cargo, whichever comes first on PATH.
pub(super) const CARGO: &str = "/usr/bin/cargo";
const RUSTC: &str = "/usr/bin/rustc";
const LINKER: &str = "/usr/bin/wasm-ld-19";
const LIBC: &str = "/usr/lib/wasm32-wasi";
/// The least minor version of Rust 1, as `rust-version` of the workspace says.
const LEAST_MINOR: &str = env!("CARGO_PKG_RUST_VERSION");

/// The toolchain, if all of it is installed; otherwise an error that names what is missing.
pub(super) fn installed() -> Result<Toolchain> {
    let mut missing = Vec::new();
    for program in [RUSTC, CARGO, LINKER] {
        if !process::is_executable(Path::new(program)) {
            missing.push(program.to_string());
        }
    }
    if !Path::new(LIBC).join("libc.a").is_file() {
        missing.push(LIBC.to_string());
    }
    if !missing.is_empty() {
        bail!("of Debian's packages these are missing: {}", missing.join(", "));
    }
    let version = ask(&["--version"])?;
    if minor(&version).is_none_or(|found| minor(LEAST_MINOR).is_some_and(|least| found < least)) {
        bail!("{RUSTC} is {version:?}, too old: {LEAST_MINOR} is needed (package rustc-web)");
    }
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?);
    let sources = sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml");
    if !sources.is_file() {
        bail!("of Debian's packages this is missing: {} (package rust-web-src)", sources.display());
    }
    Ok(Toolchain { kind: Kind::Debian, sysroot })
}

/// Makes a `cargo build` use these packages, and adds what rustc must be told.
pub(super) fn configure(cargo: &mut Command, flags: &mut Vec<String>) {
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", RUSTC).env_remove("RUSTUP_TOOLCHAIN");
    cargo.arg("-Zbuild-std=std,panic_abort");
    flags.extend(["-Clinker-flavor=wasm-ld", "-Clink-self-contained=no"].map(String::from));
    flags.extend([format!("-Clinker={LINKER}"), format!("-L{LIBC}")]);
}

fn ask(arguments: &[&str]) -> Result<String> {
    let mut rustc = Command::new(RUSTC);
    process::without_build_settings(&mut rustc);
    let answer = process::run(rustc.args(arguments), Duration::from_secs(60))?;
    if !answer.status.success() {
        bail!("`{}` failed:\n{}", process::shown(&rustc), answer.last_words());
    }
    Some(answer.stdout.trim().to_string())
        .filter(|text| !text.is_empty())
        .with_context(|| format!("`{}` printed nothing", process::shown(&rustc)))
}

/// The minor version in "rustc 1.96.0 (...)" or "1.95".
fn minor(version: &str) -> Option<u32> {
    let number = version.split_whitespace().find(|word| word.starts_with("1."))?;
    number.split('.').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_minor_version() {
        for (text, expected) in [
            ("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)", Some(96)),
            ("1.95", Some(95)),
            ("rustc 2.0.0", None),
            ("", None),
        ] {
            assert_eq!(minor(text), expected, "{text:?}");
        }
    }
}
