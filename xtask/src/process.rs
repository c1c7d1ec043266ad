//! Running other programs: within a time limit, with a clean environment, or in place of this one.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Where what is fetched once is kept; none where there is no home folder.
pub fn cache_folder() -> Option<PathBuf> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    home.map(|home| home.join(".cache/foregate"))
}

/// What a program that ended left behind.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The end of what the program said, for an error message: its last lines, indented.
    pub(crate) fn last_words(&self) -> String {
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let tail = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default();
        tail.iter().map(|line| format!("    {}", line.trim_end())).collect::<Vec<_>>().join("\n")
    }
}

/// Runs a program to its end without input, and keeps what it prints.
/// Fails if it cannot be started or takes longer than `limit`; any exit status is a success here.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let name = shown(command);
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{name}`"))?;
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let status = loop {
        if let Some(status) = child.try_wait().with_context(|| format!("could not wait for `{name}`"))? {
            break status;
        }
        if started.elapsed() > limit {
            // The program may end by itself in this moment: either way it is gone after the wait.
            let _ = child.kill();
            let _ = child.wait();
            bail!("`{name}` did not finish within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    };
    Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe ends the output; what came before it is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

/// The program and its arguments as one would type them.
pub(crate) fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Ends this process with the outcome of `command`. Returns only if the program cannot be started.
/// On Unix the program takes this process's place, so that Ctrl-C and the exit code are its own.
pub fn replace_with(command: &mut Command) -> anyhow::Error {
    let name = shown(command);
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(command);
    #[cfg(not(unix))]
    let error = match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    };
    anyhow::Error::new(error).context(format!("could not start `{name}`"))
}

/// The cargo that runs native commands: the one that runs this process, or the one on PATH.
/// Without the variables that describe the package which cargo thinks it runs.
pub fn native_cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::workspace_root());
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(describes_a_package) {
            cargo.env_remove(key);
        }
    }
    cargo
}

fn describes_a_package(key: &str) -> bool {
    const KEYS: [&str; 4] =
        ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE", "CARGO_TARGET_TMPDIR"];
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"].iter().any(|prefix| key.starts_with(prefix))
        || KEYS.contains(&key)
}

/// Takes from a command everything in the environment that would change how cargo compiles, so that a
/// module is the same whether it is built by hand, by `cargo test` or by `cargo clippy`.
/// What says where crates come from (proxies, registries, mirrors, CARGO_HOME) stays.
pub(crate) fn without_build_settings(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(changes_a_build) {
            command.env_remove(key);
        }
    }
}

fn changes_a_build(key: &str) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_BUILD_JOBS",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    let of_cargo = key == "CARGO" || key.starts_with("CARGO_");
    let of_rustc = key == "RUSTC" || key.starts_with("RUSTC_") || key.starts_with("RUSTDOC");
    let of_make = key == "MAKEFLAGS" || key == "MFLAGS";
    // LD_LIBRARY_PATH is set by `cargo run` and `cargo test` to the folders of their own toolchain.
    (of_cargo && !KEPT.iter().any(|kept| key.starts_with(kept)))
        || of_rustc
        || of_make
        || key == "RUSTFLAGS"
        || key == "LD_LIBRARY_PATH"
        || key == "DYLD_FALLBACK_LIBRARY_PATH"
}

/// The first executable file of that name on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Whether a file is there that may be run.
pub(crate) fn is_executable(file: &Path) -> bool {
    let Ok(facts) = file.metadata() else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    facts.is_file() && may_run
}

/// Whether this process may install packages of the system. Only ever true on Linux.
pub(crate) fn is_root() -> bool {
    #[cfg(target_os = "linux")]
    return std::fs::metadata("/proc/self")
        .is_ok_and(|facts| std::os::unix::fs::MetadataExt::uid(&facts) == 0);
    #[cfg(not(target_os = "linux"))]
    false
}

/// A variable of the environment. An empty one counts as not set.
pub fn variable(key: impl AsRef<OsStr>) -> Option<std::ffi::OsString> {
    std::env::var_os(key).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_output_and_status() {
        let finished =
            run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]), Duration::from_secs(20))
                .unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.last_words(), "    err");
    }

    #[test]
    fn ends_a_program_that_takes_too_long() {
        let error = run(Command::new("sleep").arg("60"), Duration::from_millis(50)).err().unwrap();
        assert_eq!(error.to_string(), "`sleep 60` did not finish within 0 s");
    }

    #[test]
    fn names_a_program_that_is_not_there() {
        let error = run(&mut Command::new("no-such-program"), Duration::from_secs(1)).err().unwrap();
        assert_eq!(error.to_string(), "could not start `no-such-program`");
    }

    #[test]
    fn strips_what_changes_a_build_and_keeps_what_fetches_crates() {
        for key in ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC"]
            .into_iter()
            .chain(["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_TARGET_DIR", "MAKEFLAGS"])
        {
            assert!(changes_a_build(key), "{key}");
        }
        for key in ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_HTTP_PROXY", "CARGO_REGISTRIES_X_INDEX", "PATH"]
        {
            assert!(!changes_a_build(key), "{key}");
        }
    }
}
