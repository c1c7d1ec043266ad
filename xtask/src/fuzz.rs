//! Fuzzing with libFuzzer: the targets of `fuzz/`, each for a stated time.
//!
//! It takes a nightly compiler (the instrumentation has no stable flags), a C++ compiler (libFuzzer is
//! compiled from source) and `cargo-fuzz`, which is installed into `~/.cache/foregate` on first use.
//! What is found goes to ignored folders of `fuzz/libfuzzer`: new inputs to `corpus`, inputs that broke a law
//! to `artifacts`.

mod report;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{apt, lock, process, workspace_root};
use report::Report;

/// The version of cargo-fuzz that is installed.
const CARGO_FUZZ: &str = "0.13.2";
const CXX_PACKAGES: [&str; 1] = ["g++"];

/// Fuzzes these targets, or all where none is named, for so many seconds each.
pub fn run(names: &[String], seconds: u32) -> Result<()> {
    let targets = chosen(names)?;
    let nightly = nightly()?;
    cxx_compiler()?;
    let tools = cargo_fuzz()?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new("rustup");
        process::without_build_settings(&mut cargo);
        cargo.current_dir(workspace_root());
        cargo.args(["run", &nightly, "cargo", "fuzz"]).args(arguments);
        cargo.args(["--fuzz-dir", FOLDER, "--sanitizer", SANITIZER]);
        // A backtrace would push what went wrong out of what is shown; it is there when the input runs again.
        cargo.env("RUST_BACKTRACE", "0");
        // cargo finds its subcommands there.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(tools.clone()).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            cargo.env("PATH", path);
        }
        cargo
    };
    println!("building the fuzz targets with {nightly} (some minutes the first time)");
    let status = cargo(&["build"]).status().context("could not start rustup")?;
    ensure!(status.success(), "the fuzz targets could not be built; the compiler says why above");
    let mut broken = Vec::new();
    for target in &targets {
        println!("{target}: fuzzing for {seconds} s");
        let corpus = corpus(target);
        fs::create_dir_all(&corpus).with_context(|| format!("could not create {corpus:?}"))?;
        let mut command = cargo(&["run"]);
        command.arg(target).args([corpus, seeds(target)]).arg("--").args(options(target, seconds));
        let report = fuzz(command)?;
        println!("{target}: {}", report.summary());
        if !report.passed {
            broken.push(report.failure(target));
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    bail!("{}", broken.join("\n"))
}

/// The drivers' folder, from the workspace's root.
const FOLDER: &str = "fuzz/libfuzzer";

/// The code is safe Rust, in which a law is broken by a panic, not by a stray pointer; without a sanitizer
/// there are some times more runs in the same time.
const SANITIZER: &str = "none";

/// What libFuzzer is told: the longest input is well over the longest token of the configurations, and a
/// run that takes seconds, or memory without end, breaks a law too.
fn options(target: &str, seconds: u32) -> Vec<String> {
    let dictionary = workspace_root().join("fuzz/dictionaries").join(target);
    vec![
        format!("-max_total_time={seconds}"),
        format!("-dict={}", dictionary.display()),
        "-max_len=4096".to_owned(),
        "-timeout=10".to_owned(),
        "-rss_limit_mb=1024".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]
}

fn seeds(target: &str) -> PathBuf {
    workspace_root().join("fuzz/seeds").join(target)
}

fn corpus(target: &str) -> PathBuf {
    workspace_root().join(FOLDER).join("corpus").join(target)
}

/// The targets that there are: each has a folder of seeds.
pub fn targets() -> Result<Vec<String>> {
    let folder = workspace_root().join("fuzz/seeds");
    let entries = fs::read_dir(&folder).with_context(|| format!("could not read {folder:?}"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

fn chosen(names: &[String]) -> Result<Vec<String>> {
    let all = targets()?;
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        bail!("no fuzz target is named {unknown:?}; there are: {}", all.join(", "));
    }
    Ok(if names.is_empty() { all } else { names.to_vec() })
}

/// The installed nightly toolchain, as rustup names it.
fn nightly() -> Result<String> {
    const REMEDY: &str =
        "fuzzing takes a nightly compiler: rustup toolchain install nightly --profile minimal";
    ensure!(process::on_path("rustup").is_some(), "there is no rustup on PATH; {REMEDY}");
    let mut rustup = Command::new("rustup");
    let answer = process::run(rustup.args(["toolchain", "list"]), std::time::Duration::from_secs(60))?;
    first_nightly(&answer.stdout).with_context(|| format!("rustup has no nightly toolchain; {REMEDY}"))
}

fn first_nightly(list: &str) -> Option<String> {
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.into_iter().find(|name| name.starts_with("nightly")).map(str::to_owned)
}

fn cxx_compiler() -> Result<()> {
    if process::variable("CXX").is_some() || process::on_path("c++").is_some() {
        return Ok(());
    }
    bail!(
        "there is no C++ compiler (`c++` on PATH, or CXX), and libFuzzer is compiled from source; as root on Debian: {}",
        apt::by_hand(&CXX_PACKAGES)
    )
}

/// The folder with `cargo-fuzz`, which is installed there if it is not.
fn cargo_fuzz() -> Result<PathBuf> {
    let cache = process::cache_folder().context("there is no home folder to keep cargo-fuzz in: set HOME")?;
    let kept = cache.join(format!("cargo-fuzz-{CARGO_FUZZ}"));
    let tools = kept.join("bin");
    if process::is_executable(&tools.join("cargo-fuzz")) {
        return Ok(tools);
    }
    let _lock = lock::exclusive(&cache.join("lock"), "installing cargo-fuzz")?;
    if process::is_executable(&tools.join("cargo-fuzz")) {
        return Ok(tools);
    }
    println!("installing cargo-fuzz {CARGO_FUZZ} from crates.io into {} (a minute or two)", kept.display());
    let mut cargo = process::native_cargo();
    cargo
        .args(["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked", "--quiet", "--root"])
        .arg(&kept);
    let status = cargo.status().context("could not start cargo")?;
    ensure!(status.success(), "`cargo install cargo-fuzz --version {CARGO_FUZZ}` failed; it says why above");
    Ok(tools)
}

/// Runs the fuzzer to its end. Of what it prints, what a person wants to see is shown; all of the end, where
/// a law was broken.
fn fuzz(mut command: Command) -> Result<Report> {
    let name = process::shown(&command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{name}`"))?;
    let mut report = Report::default();
    if let Some(pipe) = child.stderr.take() {
        // Hostile inputs are printed as they are: not all is UTF-8.
        for line in BufReader::new(pipe).split(b'\n') {
            let line = line.context("could not read what the fuzzer prints")?;
            let line = String::from_utf8_lossy(&line);
            if report.take(&line) {
                println!("  {line}");
            }
        }
    }
    report.passed = child.wait().with_context(|| format!("could not wait for `{name}`"))?.success();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_nightly_will_do() {
        for (list, expected) in [
            (
                "stable-x86_64-unknown-linux-gnu (active, default)\nnightly-x86_64-unknown-linux-gnu\n",
                Some("nightly-x86_64-unknown-linux-gnu"),
            ),
            (
                "nightly-2026-05-19-aarch64-apple-darwin (default)",
                Some("nightly-2026-05-19-aarch64-apple-darwin"),
            ),
            ("1.95.0-x86_64-unknown-linux-gnu\n", None),
            ("no installed toolchains\n", None),
        ] {
            assert_eq!(first_nightly(list).as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn an_unknown_target_is_an_error_that_names_those_there_are() {
        let error = chosen(&["jwt".to_owned()]).unwrap_err().to_string();
        let there_are = targets().unwrap();
        assert!(there_are.iter().any(|target| target == "jwt_reject_keys"), "{there_are:?}");
        assert_eq!(error, format!("no fuzz target is named \"jwt\"; there are: {}", there_are.join(", ")));
        assert_eq!(chosen(&[]).unwrap(), there_are);
    }
}
