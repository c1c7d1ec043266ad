//! What compiles for wasm32-wasip1, and how to get it. The ways, in order:
//! 1. the standard library of the target is beside the active rustc: a rustup target, or a distribution's;
//! 2. Debian's own packages of rustc, the library's sources and wasi-libc are installed;
//! 3. `rustup target add wasm32-wasip1` gets the target;
//! 4. apt-get installs Debian's packages, if this process may.
//!
//! `FOREGATE_WASM_TOOLCHAIN=rustup` allows only 1 and 3, `FOREGATE_WASM_TOOLCHAIN=debian` only 2 and 4.

mod debian;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{apt, lock, process, target_dir, workspace_root};

/// The target of every module.
pub const TARGET: &str = "wasm32-wasip1";
/// The variable that forces one way; its values are `rustup` and `debian`.
pub const FORCE: &str = "FOREGATE_WASM_TOOLCHAIN";

/// A toolchain that is there and complete.
#[derive(Debug)]
pub struct Toolchain {
    /// Which of the two kinds it is.
    pub kind: Kind,
    /// Where its compiler's files are.
    pub sysroot: PathBuf,
}

/// How a toolchain comes by the standard library of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Compiled already, beside the active rustc.
    Rustup,
    /// Compiled from Debian's `rust-web-src` with Debian's rustc, and linked with Debian's wasi-libc.
    Debian,
}

impl Toolchain {
    /// One line for a person: which way was taken, and where it is.
    pub fn describe(&self) -> String {
        let way = match self.kind {
            Kind::Rustup => "the target of the active Rust toolchain",
            Kind::Debian => "Debian's rustc-web with the standard library from source",
        };
        format!("{way}, in {}", self.sysroot.display())
    }

    /// The folder for what it compiles. Each kind has its own, for they share nothing.
    pub fn target_dir(&self) -> PathBuf {
        target_dir().join(match self.kind {
            Kind::Rustup => "wasm-rustup",
            Kind::Debian => "wasm-debian",
        })
    }

    /// `cargo rustc` for the target, in the workspace, in an environment of its own.
    pub(crate) fn cargo_rustc(&self) -> Command {
        let mut flags = remapped_paths(&self.sysroot);
        let mut cargo = match self.kind {
            Kind::Rustup => Command::new("cargo"),
            Kind::Debian => Command::new(debian::CARGO),
        };
        process::without_build_settings(&mut cargo);
        cargo.current_dir(workspace_root()).args(["rustc", "--target", TARGET, "--target-dir"]);
        cargo.arg(self.target_dir());
        if self.kind == Kind::Debian {
            debian::configure(&mut cargo, &mut flags);
        }
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        cargo
    }
}

/// Keeps the folders of whoever compiles out of the module, where panic messages would show them.
fn remapped_paths(sysroot: &Path) -> Vec<String> {
    let home = std::env::home_dir();
    let cargo_home = process::variable("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| home.map(|home| home.join(".cargo")));
    let from_to =
        [(cargo_home.as_deref(), "/cargo"), (Some(sysroot), "/rust"), (Some(workspace_root()), "/foregate")];
    from_to
        .into_iter()
        .filter_map(|(from, to)| Some(format!("--remap-path-prefix={}={to}", from?.to_str()?)))
        .collect()
}

/// Finds a toolchain, or installs one. Fast and silent if one is there.
pub fn provision() -> Result<Toolchain> {
    let forced = forced(process::variable(FORCE))?;
    let mut tried = Vec::new();
    if let Some(found) = find(forced, &mut tried) {
        return Ok(found);
    }
    let _lock = lock::exclusive(&target_dir().join("foregate-provision.lock"), "provisioning")?;
    tried.clear();
    if let Some(found) = find(forced, &mut tried) {
        return Ok(found);
    }
    if forced != Some(Kind::Debian) {
        match add_with_rustup() {
            Ok(found) => return Ok(found),
            Err(error) => tried.push(format!("{error:#}")),
        }
    }
    if forced != Some(Kind::Rustup) {
        match install_with_apt() {
            Ok(found) => return Ok(found),
            Err(error) => tried.push(format!("{error:#}")),
        }
    }
    bail!(failure(forced, &tried))
}

fn forced(value: Option<std::ffi::OsString>) -> Result<Option<Kind>> {
    match value.as_deref().map(|value| value.to_string_lossy()).as_deref() {
        None => Ok(None),
        Some("rustup") => Ok(Some(Kind::Rustup)),
        Some("debian") => Ok(Some(Kind::Debian)),
        Some(other) => bail!("{FORCE} is {other:?}; it may be \"rustup\" or \"debian\", or not be set"),
    }
}

/// Looks for what is there, without installing anything.
fn find(forced: Option<Kind>, tried: &mut Vec<String>) -> Option<Toolchain> {
    for kind in [Kind::Rustup, Kind::Debian] {
        if forced.is_some_and(|forced| forced != kind) {
            continue;
        }
        let found = match kind {
            Kind::Rustup => active(),
            Kind::Debian => debian::installed(),
        };
        match found {
            Ok(found) => return Some(found),
            Err(error) => tried.push(format!("{error:#}")),
        }
    }
    None
}

/// The toolchain that is active in the workspace, if it has the target.
fn active() -> Result<Toolchain> {
    let mut rustc = Command::new("rustc");
    process::without_build_settings(&mut rustc);
    rustc.current_dir(workspace_root()).args(["--print", "sysroot"]);
    let answer = process::run(&mut rustc, Duration::from_secs(60))?;
    let sysroot = PathBuf::from(answer.stdout.trim());
    if !answer.status.success() || !sysroot.is_absolute() {
        bail!("`rustc --print sysroot` failed:\n{}", answer.last_words());
    }
    let library = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    if !library.is_dir() {
        bail!("the active Rust toolchain has no target {TARGET} in {}", sysroot.display());
    }
    Ok(Toolchain { kind: Kind::Rustup, sysroot })
}

fn add_with_rustup() -> Result<Toolchain> {
    if process::on_path("rustup").is_none() {
        bail!("there is no rustup on PATH");
    }
    eprintln!("adding the Rust target {TARGET} with rustup (it may take up to 120 s)");
    let mut rustup = Command::new("rustup");
    // A backtrace of rustup would push what went wrong out of the message.
    rustup.current_dir(workspace_root()).env_remove("RUST_BACKTRACE").args(["target", "add", TARGET]);
    let answer = process::run(&mut rustup, Duration::from_secs(120))?;
    if !answer.status.success() {
        bail!("`rustup target add {TARGET}` failed:\n{}", answer.last_words());
    }
    active().context("rustup added the target, but not to the active toolchain")
}

fn install_with_apt() -> Result<Toolchain> {
    if let Some(obstacle) = apt::obstacle() {
        bail!("Debian's packages cannot be installed by this process: {obstacle}");
    }
    apt::install(&debian::PACKAGES)?;
    debian::installed().context("apt-get installed the packages, but something is amiss")
}

fn failure(forced: Option<Kind>, tried: &[String]) -> String {
    let mut message = format!("there is no Rust toolchain for {TARGET}, and none could be installed:");
    for line in tried {
        message.push_str("\n- ");
        message.push_str(line);
    }
    message.push_str("\nto go on, do one of these and try again:");
    if forced != Some(Kind::Debian) {
        message.push_str(&format!("\n- with network:         rustup target add {TARGET}"));
    }
    if forced != Some(Kind::Rustup) {
        message.push_str(&format!("\n- as root on Debian 12: {}", apt::by_hand(&debian::PACKAGES)));
    }
    if let Some(kind) = forced {
        let value = if kind == Kind::Debian { "debian" } else { "rustup" };
        message.push_str(&format!("\n- unset {FORCE}, which is {value:?} and so forbids the other way"));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forced_way_is_one_of_two() {
        assert_eq!(forced(None).unwrap(), None);
        assert_eq!(forced(Some("rustup".into())).unwrap(), Some(Kind::Rustup));
        assert_eq!(forced(Some("debian".into())).unwrap(), Some(Kind::Debian));
        assert_eq!(
            forced(Some("Debian".into())).unwrap_err().to_string(),
            "FOREGATE_WASM_TOOLCHAIN is \"Debian\"; it may be \"rustup\" or \"debian\", or not be set"
        );
    }

    #[test]
    fn a_failure_says_what_was_tried_and_what_to_run() {
        let tried = ["there is no rustup on PATH".to_string()];
        let message = failure(None, &tried);
        assert!(message.contains("\n- there is no rustup on PATH\n"));
        assert!(message.contains("rustup target add wasm32-wasip1"));
        assert!(
            message.contains("apt-get install -y --no-install-recommends rustc-web cargo-web rust-web-src")
        );
        assert!(!failure(Some(Kind::Rustup), &tried).contains("apt-get"));
        assert!(
            failure(Some(Kind::Debian), &tried)
                .contains("unset FOREGATE_WASM_TOOLCHAIN, which is \"debian\"")
        );
    }

    #[test]
    fn the_builders_folders_are_remapped() {
        let flags = remapped_paths(Path::new("/opt/rust"));
        assert!(flags.contains(&"--remap-path-prefix=/opt/rust=/rust".to_string()), "{flags:?}");
        assert!(flags.iter().any(|flag| flag.ends_with("=/foregate")), "{flags:?}");
    }
}
