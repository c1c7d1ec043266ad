//! The process: starting it, knowing when it serves, reading its log, ending it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::config::Config;
use crate::listener_updates::ListenerFile;
use crate::process::Process;
use crate::{admin, wait};

/// How many of the last log lines an error shows.
const LOG_TAIL_LINES: usize = 40;

/// What stands between an error and the end of the log that explains it.
pub const LOG_FOLLOWS: &str = "; the end of Envoy's log:\n";

/// How long [`Envoy::stop`] lets it end by itself.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How to run Envoy.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The number of worker threads.
    pub concurrency: u32,
    /// The log level of all components: `trace` to `critical`, or `off`.
    pub log_level: &'a str,
    /// Levels of single components, such as `wasm:debug,http:trace`; none if empty.
    pub component_log_levels: &'a str,
    /// Further command line arguments. Access logs are flushed every 100 ms unless
    /// `--file-flush-interval-msec` is among them.
    pub extra_args: &'a [&'a str],
    /// How long it may take until Envoy serves (or, if it is to refuse, exits).
    pub ready_limit: Duration,
    /// The folder that it runs in, from which relative paths in a configuration are taken; the root of the
    /// workspace if none.
    pub folder: Option<&'a Path>,
}

impl Default for Options<'_> {
    /// Two workers, level `info`, 30 seconds, in the root of the workspace, as shipped files need it.
    fn default() -> Self {
        Self {
            concurrency: 2,
            log_level: "info",
            component_log_levels: "",
            extra_args: &[],
            ready_limit: Duration::from_secs(30),
            folder: None,
        }
    }
}

/// A running Envoy. Dropping it kills the process, waits for its end and removes its files.
#[derive(Debug)]
pub struct Envoy {
    // In this order: the process ends before its files go.
    process: Process,
    pub(crate) files: Files,
    admin: SocketAddr,
    pub(crate) listeners: BTreeMap<String, SocketAddr>,
    pub(crate) listener_file: Option<ListenerFile>,
}

impl Envoy {
    /// Starts Envoy and waits until it serves: it says LIVE, its workers run, and every configured
    /// listener is there. The error holds the end of Envoy's log.
    pub async fn start(config: &Config, options: &Options<'_>) -> anyhow::Result<Self> {
        config.ports_are_free()?;
        let files = Files::create()?;
        let mut bootstrap = config.clone();
        let listener_file = if config.listeners_from_file {
            Some(ListenerFile::split_off(&mut bootstrap, files.path())?)
        } else {
            None
        };
        let process = launch(&files, bootstrap.value(), options)?;
        let starting = &Starting { process: &process, files: &files };
        let ready = wait::until(options.ready_limit, "Envoy to be ready", || async move {
            let serving = starting.is_serving().await?;
            if let (None, Some(status)) = (serving, starting.process.exit_status()) {
                bail!("Envoy ended with {status} before it was ready");
            }
            Ok(serving)
        });
        let admin = ready.await.map_err(|error| files.explain(&error))?;
        let mut envoy = Self { process, files, admin, listeners: BTreeMap::new(), listener_file };
        envoy.learn_listeners().await?;
        if let Some(file) = &envoy.listener_file {
            file.all_present(&envoy.listeners).map_err(|error| envoy.files.explain(&error))?;
        }
        Ok(envoy)
    }

    /// Starts Envoy with a configuration that it must refuse, and returns the whole log. It is an error
    /// if Envoy serves, ends by a signal (a crash is no refusal), or does neither in time.
    pub async fn expect_refusal(config: &Config, options: &Options<'_>) -> anyhow::Result<String> {
        ensure!(!config.listeners_from_file, "listeners that come from a file are not refused at the start");
        let files = Files::create()?;
        let process = launch(&files, config.value(), options)?;
        let starting = &Starting { process: &process, files: &files };
        wait::until(options.ready_limit, "Envoy to refuse its configuration", || async move {
            if starting.is_serving().await?.is_some() {
                bail!("Envoy accepted a configuration that it was to refuse");
            }
            Ok(starting.process.exit_status())
        })
        .await
        .and_then(|status| match status.code() {
            Some(0) | None => bail!("Envoy ended with {status} where it was to refuse its configuration"),
            Some(_) => Ok(files.log()),
        })
        .map_err(|error| files.explain(&error))
    }

    /// Asks Envoy anew which listeners it has.
    pub(crate) async fn learn_listeners(&mut self) -> anyhow::Result<()> {
        self.listeners = admin::listeners(self.admin).await?;
        Ok(())
    }

    /// Where the only listener can be reached.
    pub fn listener(&self) -> anyhow::Result<SocketAddr> {
        let mut all = self.listeners.values();
        match (all.next(), all.next()) {
            (Some(only), None) => Ok(*only),
            _ => bail!("there is not one listener but these: {:?}", self.listeners.keys()),
        }
    }

    /// Where the listener of that name can be reached.
    pub fn listener_named(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let found = self.listeners.get(name).copied();
        found.with_context(|| format!("no listener {name:?}, only {:?}", self.listeners.keys()))
    }

    /// Where the admin interface can be reached.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its resident memory, in kilobytes.
    pub fn resident_kilobytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        self.process.exit_status().is_none()
    }

    /// All that Envoy logged so far (its standard error).
    pub fn log(&self) -> String {
        self.files.log()
    }

    /// The file that it is in, for as long as this Envoy is there.
    pub fn log_file(&self) -> PathBuf {
        self.files.path().join(Files::LOG)
    }

    /// What Envoy wrote to its standard output so far: the lines of `stdout` access logs.
    pub fn stdout(&self) -> String {
        read(&self.files.path().join(Files::STDOUT))
    }

    /// Waits until a line of the log contains `text`, and returns the first such line.
    pub async fn wait_for_log(&self, text: &str, limit: Duration) -> anyhow::Result<String> {
        wait::until(limit, &format!("{text:?} in the log"), || async { Ok(line_with(&self.log(), text)) })
            .await
            .map_err(|error| self.files.explain(&error))
    }

    /// As [`wait_for_log`](Self::wait_for_log), on the standard output.
    pub async fn wait_for_stdout(&self, text: &str, limit: Duration) -> anyhow::Result<String> {
        wait::until(limit, &format!("{text:?} in the output"), || async {
            Ok(line_with(&self.stdout(), text))
        })
        .await
        .with_context(|| format!("the output so far:\n{}", self.stdout()))
    }

    /// Ends Envoy: asks it to, and kills it if it takes too long. It is an error if it had ended already
    /// or ends other than well, with the end of its log.
    pub async fn stop(self) -> anyhow::Result<()> {
        let ended = async {
            ensure!(self.is_alive(), "Envoy had ended before it was stopped");
            // The answer may be cut off by the end that it announces.
            let _ = self.admin_post("/quitquitquit").await;
            wait::until(STOP_LIMIT, "Envoy to end", || async { Ok(self.process.exit_status()) }).await
        };
        let status = ended.await.map_err(|error| self.files.explain(&error))?;
        if !status.success() {
            return Err(self.files.explain(&anyhow!("Envoy ended with {status}")));
        }
        Ok(())
    }
}

/// The folder that holds an Envoy's configuration and what it writes.
#[derive(Debug)]
pub(crate) struct Files(TempDir);

impl Files {
    const BOOTSTRAP: &str = "bootstrap.json";
    const ADMIN_ADDRESS: &str = "admin-address";
    const LOG: &str = "envoy.log";
    const STDOUT: &str = "stdout.log";

    fn create() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("real-envoy-").tempdir();
        Ok(Self(folder.context("cannot make a temporary folder")?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn log(&self) -> String {
        read(&self.path().join(Self::LOG))
    }

    /// The error together with the end of the log, where its cause is most likely told.
    pub(crate) fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let (_, tail) = lines.split_at(lines.len().saturating_sub(LOG_TAIL_LINES));
        anyhow!("{error:#}{LOG_FOLLOWS}{}", tail.join("\n"))
    }
}

/// An Envoy that may not serve yet.
struct Starting<'a> {
    process: &'a Process,
    files: &'a Files,
}

impl Starting<'_> {
    /// The address of the admin interface, once Envoy serves.
    async fn is_serving(&self) -> anyhow::Result<Option<SocketAddr>> {
        // Written in one go, but not atomically: half an address does not parse, or does not answer.
        let address = read(&self.files.path().join(Files::ADMIN_ADDRESS));
        let Ok(address) = address.trim().parse() else { return Ok(None) };
        let serving = self.process.exit_status().is_none() && admin::is_serving(address).await;
        Ok(serving.then_some(address))
    }
}

fn launch(files: &Files, bootstrap: &Value, options: &Options<'_>) -> anyhow::Result<Process> {
    ensure!(bootstrap.pointer("/admin/address").is_some(), "the configuration has no admin interface");
    let bootstrap_path = files.path().join(Files::BOOTSTRAP);
    std::fs::write(&bootstrap_path, bootstrap.to_string()).context("cannot write the configuration")?;
    // To append, since several writers share them: the logger, V8, and the handler of crashes.
    let open = |name: &str| {
        let file = OpenOptions::new().create(true).append(true).open(files.path().join(name));
        file.with_context(|| format!("cannot write {name}"))
    };

    let mut command = Process::command(&envoy_binary()?);
    command
        .current_dir(options.folder.unwrap_or_else(|| xtask::workspace_root()))
        .arg("--config-path")
        .arg(&bootstrap_path)
        .arg("--admin-address-path")
        .arg(files.path().join(Files::ADMIN_ADDRESS))
        .args(["--disable-hot-restart", "--concurrency", &options.concurrency.to_string()])
        .args(["--log-level", options.log_level])
        .stdout(open(Files::STDOUT)?)
        .stderr(open(Files::LOG)?);
    if !options.component_log_levels.is_empty() {
        command.args(["--component-log-level", options.component_log_levels]);
    }
    const FLUSH: &str = "--file-flush-interval-msec";
    if !options.extra_args.contains(&FLUSH) {
        command.args([FLUSH, "100"]);
    }
    command.args(options.extra_args);
    Process::spawn(command).context("cannot run Envoy")
}

/// The Envoy to run.
fn envoy_binary() -> anyhow::Result<PathBuf> {
    xtask::envoy::locate()
}

fn line_with(text: &str, wanted: &str) -> Option<String> {
    text.lines().find(|line| line.contains(wanted)).map(str::to_owned)
}

/// The text of a file that may not be there yet, or hold half a character.
fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
