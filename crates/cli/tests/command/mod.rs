//! Runs the built command, on files of a test's own.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The command's exit code, standard output and standard error.
#[allow(dead_code, reason = "not every test runs it where it stands itself")]
pub(crate) fn foregate(arguments: &[&str], input: impl AsRef<[u8]>) -> (i32, String, String) {
    foregate_in(Path::new("."), arguments, input)
}

/// The same, in a folder.
pub(crate) fn foregate_in(
    folder: &Path,
    arguments: &[&str],
    input: impl AsRef<[u8]>,
) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_foregate"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading it.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A folder of files for one test.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Writes a file, and the folders that it is in; gives its whole path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[allow(dead_code, reason = "not every test that has files needs it")]
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }
}
