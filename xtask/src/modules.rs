//! Builds the modules: compiles each filter for wasm32, prunes it, and writes `dist/<name>.wasm`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use sha2_tools::{Digest, Sha256};

use crate::toolchain::{self, TARGET, Toolchain};
use crate::{lock, process, prune, target_dir, workspace_root};

/// Every module: the package that it is made of, which is also its name in `dist/`.
pub const MODULES: &[&str] = &["jwt_reject", "local_rate_limit", "header_rewrite", "sampled_log", "foregate"];

/// Modules that only the tests load. They go to the target folder, not to `dist/`.
pub const TEST_MODULES: &[&str] = &["signature_probe"];

/// A module, built and pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// One of [`MODULES`] or [`TEST_MODULES`].
    pub name: &'static str,
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// What it exports to Envoy.
    pub exports: Vec<String>,
}

/// Builds every module of `dist/`. What is up to date is left alone, to the byte and to the time of its file.
pub fn build() -> Result<Vec<Module>> {
    build_all(MODULES)
}

/// The path of one module, which is built first if it is missing or stale. Once per process and module.
pub fn ensure(name: &str) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let Some(name) = MODULES.iter().chain(TEST_MODULES).find(|module| **module == name) else {
        bail!("no module is named {name:?}; there are {MODULES:?} and {TEST_MODULES:?}");
    };
    // A panic elsewhere leaves nothing half done here.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return Ok(path.clone());
    }
    let modules = build_all(&[name])?;
    let module = modules.into_iter().next().with_context(|| format!("{name} was not built"))?;
    built.insert(name, module.path.clone());
    Ok(module.path)
}

fn build_all(names: &[&'static str]) -> Result<Vec<Module>> {
    let toolchain = toolchain::provision()?;
    let _lock = lock::exclusive(&target_dir().join("foregate-build.lock"), "building the modules")?;
    names
        .iter()
        .map(|name| {
            let raw = compile(&toolchain, name)?;
            finish(name, &raw, &toolchain.target_dir())
                .with_context(|| format!("the module {name} (compiled to {raw:?}) is not fit for Envoy"))
        })
        .collect()
}

/// Compiles one package, and gives the path of what the compiler made.
fn compile(toolchain: &Toolchain, name: &str) -> Result<PathBuf> {
    let mut cargo = toolchain.cargo_rustc();
    // A cdylib is what this one is to be made into, and not what it always is: as a dependency of another module it would
    // be linked for nothing, and over the one that was made here, since the file of a cdylib has the name of its package.
    cargo.args([
        "--profile",
        "wasm",
        "--package",
        name,
        "--lib",
        "--crate-type",
        "cdylib",
        "--features",
        "module",
    ]);
    if process::variable("CI").is_some() {
        cargo.arg("--locked");
    }
    if std::io::stderr().is_terminal() {
        cargo.env("CARGO_TERM_COLOR", "always");
    }
    cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let shown = process::shown(&cargo);
    let mut child = cargo.spawn().with_context(|| format!("could not start `{shown}`"))?;
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // All that cargo says when there is nothing to do.
            if !line.contains("Finished") {
                eprintln!("{line}");
            }
        }
    }
    let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
    if !status.success() {
        bail!("could not compile the module {name}: `{shown}` ended with {status}");
    }
    Ok(toolchain.target_dir().join(TARGET).join("wasm").join(format!("{name}.wasm")))
}

/// Where a module goes.
fn folder_of(name: &str) -> PathBuf {
    if MODULES.contains(&name) { workspace_root().join("dist") } else { target_dir().join("test-modules") }
}

/// Prunes a compiled module into its folder, unless a note in `notes` says that this was done already.
fn finish(name: &'static str, raw: &Path, notes: &Path) -> Result<Module> {
    let path = folder_of(name).join(format!("{name}.wasm"));
    let compiled = fs::read(raw).with_context(|| format!("could not read {raw:?}"))?;
    let note_path = notes.join(format!("{name}.pruned"));
    // Pruning is done anew only if its input, its code, the library that it uses, or its output is not
    // what it was: in a debug build of this program it takes longer than all the rest of a repeated build.
    let library = fs::read(workspace_root().join("Cargo.lock")).unwrap_or_default();
    let input = format!("{} {} {}", hash(&compiled), hash(include_bytes!("prune.rs")), hash(&library));
    let note = fs::read_to_string(&note_path).ok();
    if let Some(exports) = note.as_deref().and_then(|note| up_to_date(note, &input, &path))
        && let Ok(facts) = fs::metadata(&path)
    {
        return Ok(Module { name, path, size: facts.len(), exports });
    }
    let pruned = prune::prune(&compiled)?;
    if fs::read(&path).ok().as_deref() != Some(&pruned.bytes) {
        replace(&path, &pruned.bytes)?;
    }
    let note = format!("{input}\n{}\n{}\n", hash(&pruned.bytes), pruned.exports.join("\n"));
    replace(&note_path, note.as_bytes())?;
    Ok(Module { name, path, size: pruned.bytes.len() as u64, exports: pruned.exports })
}

/// The exports of the module at `path`, if the note is about it.
fn up_to_date(note: &str, input: &str, path: &Path) -> Option<Vec<String>> {
    let mut lines = note.lines();
    let same_input = lines.next()? == input;
    let same_output = lines.next()? == hash(&fs::read(path).ok()?);
    (same_input && same_output).then(|| lines.map(String::from).collect())
}

/// Writes a file so that whoever reads it sees the old content or the new.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let quoted = || format!("could not write {path:?}");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(quoted)?;
    }
    let next = path.with_extension(format!("next-{}", std::process::id()));
    fs::write(&next, content).and_then(|()| fs::rename(&next, path)).with_context(quoted)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_module_is_named_with_those_there_are() {
        let message = ensure("jwt-reject").unwrap_err().to_string();
        assert!(
            message.starts_with(
                "no module is named \"jwt-reject\"; there are [\"jwt_reject\", \"local_rate_limit\", \""
            ),
            "{message}"
        );
    }

    #[test]
    fn a_note_holds_only_for_the_same_input_and_output() {
        let folder = std::env::temp_dir().join(format!("foregate-note-{}", std::process::id()));
        let path = folder.join("x.wasm");
        replace(&path, b"wasm").unwrap();
        let note = format!("in code\n{}\nmemory\n_initialize\n", hash(b"wasm"));
        let exports = Some(vec!["memory".to_string(), "_initialize".to_string()]);
        assert_eq!(up_to_date(&note, "in code", &path), exports);
        assert_eq!(up_to_date(&note, "other code", &path), None);
        assert_eq!(up_to_date("", "in code", &path), None);
        replace(&path, b"changed").unwrap();
        assert_eq!(up_to_date(&note, "in code", &path), None);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(up_to_date(&note, "in code", &path), None);
    }
}
