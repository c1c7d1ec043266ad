//! The load generator `oha`, which the benchmark measures throughput and latency with. In order:
//! 1. `$OHA`, which must be an oha of [`SERIES`],
//! 2. `oha` on PATH, if it is one,
//! 3. the crate `oha` of crates.io in [`VERSION`], compiled into `~/.cache/foregate`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{lock, process};

/// The version that is compiled where there is none.
pub const VERSION: &str = "1.16.0";
/// The versions whose options and output the benchmark knows.
pub const SERIES: &str = "1.16";
/// The variable that names the oha to use.
pub const VARIABLE: &str = "OHA";

/// What to do where it cannot be compiled.
const BY_HAND: &str = "set OHA to the path of an oha 1.16";
/// The executable in the folder that cargo installs it to.
const EXECUTABLE: &str = "bin/oha";
/// Longer than it takes on one slow core.
const COMPILED: Duration = Duration::from_secs(45 * 60);

/// An oha of the right version.
#[derive(Debug, Clone)]
pub struct Oha {
    /// The executable, as an absolute path.
    pub path: PathBuf,
    /// Its version, such as `1.16.0`.
    pub version: String,
    /// Which of the ways it came by, for a person.
    pub way: &'static str,
}

/// Finds oha, or compiles it, which takes minutes, and says so beforehand.
///
/// To be called before this process has pinned itself to a core: the compiler would have that one core only.
pub fn provision() -> Result<Oha> {
    if let Some(found) = find()? {
        return Ok(found);
    }
    let cache = process::cache_folder()
        .with_context(|| format!("there is no home folder to keep oha in: set HOME, or {BY_HAND}"))?;
    Ok(kept(compile(&cache)?))
}

/// Finds oha without compiling it: the one that is named, on PATH, or compiled before. It is an error if the one that
/// is named will not do.
pub fn find() -> Result<Option<Oha>> {
    if let Some(path) = process::variable(VARIABLE) {
        return named(Path::new(&path)).map(Some);
    }
    if let Some(path) = process::on_path("oha") {
        match version(&path) {
            Ok(version) if is_of_series(&version) => {
                let path = std::path::absolute(&path).with_context(|| format!("no such path: {path:?}"))?;
                return Ok(Some(Oha { path, version, way: "on PATH" }));
            }
            Ok(found) => eprintln!("skipping {path:?}: it is oha {found}, and {SERIES} is needed"),
            Err(error) => eprintln!("skipping {path:?}: {error:#}"),
        }
    }
    let before = process::cache_folder().map(|cache| folder(&cache).join(EXECUTABLE));
    Ok(before.filter(|path| process::is_executable(path)).map(kept))
}

/// The one of the cache, which only [`compile`] puts there.
fn kept(path: PathBuf) -> Oha {
    Oha { path, version: VERSION.to_owned(), way: "compiled from crates.io" }
}

/// Where in the cache it is installed.
fn folder(cache: &Path) -> PathBuf {
    cache.join(format!("oha-{VERSION}"))
}

/// The oha that the user names, or an error that says why it will not do.
fn named(path: &Path) -> Result<Oha> {
    let remedy = format!("point {VARIABLE} to an oha {SERIES}, or unset it to let xtask compile one");
    let absolute = std::path::absolute(path).with_context(|| format!("{VARIABLE} is {path:?}; {remedy}"))?;
    if !process::is_executable(&absolute) {
        bail!("{VARIABLE} is {path:?}, which is not an executable file; {remedy}");
    }
    let version = version(&absolute)
        .with_context(|| format!("{VARIABLE} is {path:?}, which is no working oha; {remedy}"))?;
    if !is_of_series(&version) {
        bail!("{VARIABLE} is {path:?}, which is version {version:?}; {remedy}");
    }
    Ok(Oha { path: absolute, version, way: "named by OHA" })
}

/// Compiles it into the cache, where no other process has meanwhile.
fn compile(cache: &Path) -> Result<PathBuf> {
    let kept = folder(cache);
    let executable = kept.join(EXECUTABLE);
    // Not the lock under which Envoy is fetched: nobody who wants that should wait for a compiler.
    let _lock = lock::exclusive(&cache.join("oha.lock"), "compiling oha")?;
    if process::is_executable(&executable) {
        return Ok(executable);
    }
    eprintln!(
        "compiling oha {VERSION}, which measures throughput and latency, from crates.io into {}: once, some 300 crates, \
         5 to 15 minutes on two cores",
        kept.display()
    );
    let answer = process::run(&mut installation(cache, &kept), COMPILED);
    let remedy = || {
        format!(
            "could not compile oha {VERSION}, which takes network and a C compiler: try again with both, or {BY_HAND}"
        )
    };
    let answer = answer.with_context(remedy)?;
    if !answer.status.success() {
        bail!("{}\n  cargo said:\n{}", remedy(), answer.last_words());
    }
    let found = version(&executable).with_context(remedy)?;
    ensure!(found == VERSION, "the oha from crates.io is version {found:?}, not {VERSION:?}");
    Ok(executable)
}

/// What compiles it: with the versions of dependencies that its release was tested with, and with its default
/// features. No benchmark here needs the TLS among these, but 1.16.0 does not compile without.
fn installation(cache: &Path, kept: &Path) -> Command {
    let mut cargo = process::native_cargo();
    process::without_build_settings(&mut cargo);
    // Outside of this workspace: its own settings for cargo are none of oha's.
    cargo.current_dir(cache).args(["install", "oha", "--version", VERSION, "--locked"]);
    cargo.arg("--root").arg(kept).args(["--color", "never"]);
    cargo
}

/// The version that an executable gives as oha does: `oha 1.16.0`.
fn version(path: &Path) -> Result<String> {
    let answer = process::run(Command::new(path).arg("--version"), Duration::from_secs(30))?;
    if !answer.status.success() {
        bail!("`{} --version` failed:\n{}", path.display(), answer.last_words());
    }
    parse_version(&answer.stdout).with_context(|| {
        let first = answer.stdout.lines().next().unwrap_or_default();
        format!("`{} --version` printed {first:?}, not oha's version", path.display())
    })
}

fn parse_version(text: &str) -> Option<String> {
    let version = text.trim().strip_prefix("oha ")?.trim();
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

fn is_of_series(version: &str) -> bool {
    version.strip_prefix(SERIES).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_that_oha_prints() {
        for (text, expected) in [
            ("oha 1.16.0\n", Some("1.16.0")),
            ("oha\n", None),
            ("hey 1.16.0", None),
            ("oha v1", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn any_patch_of_the_series_will_do_and_the_pinned_version_is_one() {
        for (version, expected) in
            [(VERSION, true), ("1.16.9", true), ("1.1.6", false), ("1.160.0", false), ("1.17.0", false)]
        {
            assert_eq!(is_of_series(version), expected, "{version:?}");
        }
        assert!(BY_HAND.contains(SERIES));
    }

    #[test]
    fn a_named_file_that_is_no_oha_is_an_error_with_the_remedy() {
        assert_eq!(
            named(Path::new("/nowhere/oha")).unwrap_err().to_string(),
            "OHA is \"/nowhere/oha\", which is not an executable file; \
             point OHA to an oha 1.16, or unset it to let xtask compile one"
        );
        let message = format!("{:#}", named(Path::new("/bin/echo")).unwrap_err());
        assert!(
            message.starts_with("OHA is \"/bin/echo\", which is no working oha; point OHA to"),
            "{message}"
        );
        assert!(message.contains("not oha's version"), "{message}");
    }

    #[test]
    fn it_is_compiled_as_its_release_was_and_apart_from_this_workspace() {
        let command = installation(Path::new("/cache"), Path::new("/cache/oha"));
        let shown = process::shown(&command);
        assert!(
            shown.ends_with(" install oha --version 1.16.0 --locked --root /cache/oha --color never"),
            "{shown}"
        );
        assert_eq!(command.get_current_dir(), Some(Path::new("/cache")));
    }
}
