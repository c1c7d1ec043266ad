//! A child process that cannot be left behind.
//!
//! A thread of its own spawns the child, keeps it and reaps it. Dropping the [`Process`] kills the child
//! and waits until it is reaped. On Linux the kernel also kills the child when this process dies by
//! SIGKILL and cannot clean up (`setpriv --pdeathsig`, from util-linux, where it is installed). That
//! signal is tied to the thread that spawned the child, which is why the thread stays until its end.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the keeper looks whether the child has ended by itself.
const LOOK: Duration = Duration::from_millis(20);

/// A running (or ended) child process.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    exit: Arc<OnceLock<ExitStatus>>,
    /// Dropping it tells the keeper to kill.
    kill: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `command`, which must have been made by [`Process::command`].
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let exit = Arc::new(OnceLock::new());
        let (kill, killed) = channel();
        let (started, outcome) = channel();
        let keeper = std::thread::Builder::new().name("envoy-keeper".to_owned()).spawn({
            let exit = Arc::clone(&exit);
            move || match command.spawn() {
                Ok(child) => {
                    let _ = started.send(Ok(child.id()));
                    keep(child, &killed, &exit);
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        })?;
        let pid = outcome.recv().map_err(|_| io::Error::other("the thread that spawns ended early"))??;
        Ok(Self { pid, exit, kill: Some(kill), keeper: Some(keeper) })
    }

    /// A command that runs `program`, dies with this process where that can be had, and reads nothing.
    pub(crate) fn command(program: &Path) -> Command {
        let mut command = if has_parent_death_signal() {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.stdin(Stdio::null());
        command
    }

    /// The id of the process (of the program itself: `setpriv` replaces itself with it).
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, once it has.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        self.exit.get().copied()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.kill.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Waits for the end of the child, or for the order to end it.
fn keep(mut child: Child, killed: &Receiver<()>, exit: &OnceLock<ExitStatus>) {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            let _ = exit.set(status);
            return;
        }
        if killed.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            let _ = child.kill();
            if let Ok(status) = child.wait() {
                let _ = exit.set(status);
            }
            return;
        }
    }
}

/// Whether a `setpriv` that knows `--pdeathsig` is installed (BusyBox has one that does not).
fn has_parent_death_signal() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        cfg!(target_os = "linux") && succeeds("setpriv", &["--pdeathsig", "KILL", "--", "true"])
    })
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let args = args.iter().map(OsStr::new);
    let silent = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    silent.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_and_reaps_on_drop() {
        let mut command = Process::command(Path::new("sleep"));
        command.arg("60");
        let process = Process::spawn(command).unwrap();
        let proc_dir = format!("/proc/{}", process.pid());
        assert!(Path::new(&proc_dir).exists());
        assert_eq!(process.exit_status(), None);
        drop(process);
        assert!(!Path::new(&proc_dir).exists());
    }

    #[test]
    fn tells_how_it_ended_and_why_it_could_not_start() {
        let process = Process::spawn(Process::command(Path::new("false"))).unwrap();
        let status = (0..500).find_map(|_| {
            std::thread::sleep(LOOK);
            process.exit_status()
        });
        assert_eq!(status.unwrap().code(), Some(1));
        let error = Process::spawn(Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
