//! Locks that keep two processes from building or provisioning the same thing at once.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// Held until dropped, or until the process ends in whatever way.
pub(crate) struct Lock {
    _file: File,
}

/// Waits until no other process holds the lock file `path`, and says so if that takes time.
pub(crate) fn exclusive(path: &Path, purpose: &str) -> Result<Lock> {
    let quoted = || format!("could not lock {path:?}; its folder must be writable");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(quoted)?;
    }
    let file = File::options().create(true).truncate(false).write(true).open(path).with_context(quoted)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that is {purpose}");
            file.lock().with_context(quoted)?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(quoted),
    }
    Ok(Lock { _file: file })
}
