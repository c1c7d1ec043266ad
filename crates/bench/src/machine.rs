//! Where a run was made, and of what: figures mean nothing without.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2_tools::{Digest as _, Sha256};

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its model, as the kernel has it.
    pub processor: String,
    /// How many cores it has.
    pub cores: usize,
    /// The release of its Linux.
    pub kernel: String,
    /// How busy it was when the run began: processes that wanted a core, over the last minute.
    pub load_average: String,
    /// How the kernel chooses the clock of its first core, such as "performance"; virtual machines do not tell.
    pub governor: String,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// As `envoy --version` has it.
    pub envoy: String,
    /// The compiler of the load.
    pub rustc: String,
    /// The commit, and whether files differed from it.
    pub commit: String,
}

const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

impl Machine {
    /// Looks at the machine; what cannot be learned is "unknown".
    pub fn look() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let unknown = || "unknown".to_owned();
        let load = read("/proc/loadavg").and_then(|text| Some(text.split_whitespace().next()?.to_owned()));
        Self {
            processor: model.unwrap_or_else(unknown),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            load_average: load.unwrap_or_else(unknown),
            governor: read(GOVERNOR).unwrap_or_else(|| "not told".to_owned()),
        }
    }
}

impl Versions {
    /// Asks Envoy, rustc and git.
    pub fn look() -> anyhow::Result<Self> {
        let git = |arguments: &[&str]| {
            said(Command::new("git").args(arguments).current_dir(xtask::workspace_root()))
        };
        let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let changed = git(&["status", "--porcelain"]).is_some_and(|text| !text.is_empty());
        Ok(Self {
            envoy: envoy_version()?,
            rustc: said(Command::new("rustc").arg("--version")).unwrap_or_else(|| "unknown".to_owned()),
            commit: if changed { format!("{commit}, with changes") } else { commit },
        })
    }
}

/// The version of the Envoy that is started, as it gives it itself.
pub(crate) fn envoy_version() -> anyhow::Result<String> {
    let said = said(Command::new(xtask::envoy::locate()?).arg("--version"));
    // `envoy  version: HASH/1.40.0/Clean/RELEASE/BoringSSL`
    let version = said.and_then(|text| Some(text.split_once("version:")?.1.trim().to_owned()));
    version.context("Envoy does not say its version")
}

/// What a program prints.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The SHA-256 of a file.
pub fn hash(file: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
