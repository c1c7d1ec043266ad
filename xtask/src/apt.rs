//! Installing packages of Debian and Ubuntu, where this process may.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process;

/// Why packages cannot be installed by this process, or nothing if they can.
pub(crate) fn obstacle() -> Option<&'static str> {
    if process::on_path("apt-get").is_none() {
        Some("there is no apt-get here")
    } else if !process::is_root() {
        Some("only root may install packages")
    } else {
        None
    }
}

/// What a person would run to install `packages`.
pub(crate) fn by_hand(packages: &[&str]) -> String {
    format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// Installs `packages` of the system, and says so beforehand. Removes no package for it.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    eprintln!("installing system packages with apt-get: {}", packages.join(" "));
    // A list that cannot be fetched is a warning to apt-get: the installation tells whether it mattered.
    let update = apt_get(&["update"], Duration::from_secs(300))?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends", "--no-remove"];
    arguments.extend_from_slice(packages);
    let install = apt_get(&arguments, Duration::from_secs(900))?;
    if !install.status.success() {
        let mut said = install.last_words();
        if !update.stderr.trim().is_empty() {
            said = format!("{}\n{said}", update.last_words());
        }
        bail!("`{}` failed:\n{said}", by_hand(packages));
    }
    Ok(())
}

fn apt_get(arguments: &[&str], limit: Duration) -> Result<process::Finished> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    // Another apt-get may be at work, as it often is just after a machine has started.
    command.args(["-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2"]).args(arguments);
    process::run(&mut command, limit)
}
