//! Listeners that Envoy takes from a file, and their replacement while it runs.
//!
//! Envoy reacts to a file that is moved into place, so a new version is written beside and renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::wait;

/// How long Envoy may take to accept or reject an update.
const UPDATE_LIMIT: Duration = Duration::from_secs(20);

/// What Envoy made of an update of its listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// It was accepted. New connections get the new listeners within moments (each worker switches by
    /// itself). Open connections stay with the old ones, which Envoy drains for 600 seconds unless
    /// `--drain-time-s` says otherwise, and closes then.
    Accepted,
    /// It was rejected, for this reason, and the old listeners keep serving.
    Rejected(String),
}

impl Envoy {
    /// Replaces the listeners by those of `config` and waits until Envoy has accepted or rejected them.
    /// Only the listeners of `config` are looked at. Envoy must have been started with
    /// [`Config::with_file_lds`].
    pub async fn update_listeners(&mut self, config: &Config) -> anyhow::Result<Update> {
        const ACCEPTED: &str = "listener_manager.lds.update_success";
        const REJECTED: &str = "listener_manager.lds.update_rejected";
        let before = (self.stat(ACCEPTED).await?, self.stat(REJECTED).await?);
        let logged_before = self.log().len();
        let file = self.listener_file.as_mut().context("the listeners do not come from a file")?;
        let listeners = config.clone().listeners_mut()?.to_vec();
        file.write(listeners)?;

        let envoy = &*self;
        let accepted = wait::until(UPDATE_LIMIT, "Envoy to take up the new listeners", || async move {
            let now = (envoy.stat(ACCEPTED).await?, envoy.stat(REJECTED).await?);
            Ok((now != before).then_some(now.0 > before.0))
        });
        if !accepted.await.map_err(|error| self.files.explain(&error))? {
            let log = self.log();
            let news = log.get(logged_before..).unwrap_or(&log);
            return Ok(Update::Rejected(rejection(news)));
        }
        self.wait_for_stat("listener_manager.total_listeners_warming", |warming| warming == 0, UPDATE_LIMIT)
            .await?;
        self.learn_listeners().await?;
        Ok(Update::Accepted)
    }
}

/// The file, and the ports that its listeners were given.
#[derive(Debug)]
pub(crate) struct ListenerFile {
    path: PathBuf,
    /// Where a new version is written first, outside of the watched folder.
    draft: PathBuf,
    ports: BTreeMap<String, ReservedPort>,
    names: BTreeSet<String>,
    version: u64,
}

impl ListenerFile {
    /// Moves the static listeners of `bootstrap` to a file in `folder` and lets it refer to that.
    pub(crate) fn split_off(bootstrap: &mut Config, folder: &Path) -> anyhow::Result<Self> {
        let draft = folder.join("listeners-draft.json");
        let folder = folder.join("listeners");
        std::fs::create_dir(&folder).context("cannot make the folder of the listeners")?;
        let path = folder.join("listeners.json");
        let mut file = Self { path, draft, ports: BTreeMap::new(), names: BTreeSet::new(), version: 0 };
        file.write(bootstrap.listeners_mut()?.to_vec())?;
        let source = json!({
            "resource_api_version": "V3",
            "path_config_source": {
                "path": text(&file.path)?,
                "watched_directory": { "path": text(&folder)? },
            },
        });
        *bootstrap = bootstrap.clone().edit(|value| {
            let top = value.as_object_mut().context("not a mapping at the top")?;
            if let Some(resources) = top.get_mut("static_resources").and_then(Value::as_object_mut) {
                resources.remove("listeners");
            }
            // Envoy takes no resources from outside without a node.
            top.entry("node").or_insert_with(|| json!({ "id": "real-envoy", "cluster": "real-envoy" }));
            let dynamic = top.entry("dynamic_resources").or_insert_with(|| json!({}));
            let dynamic = dynamic.as_object_mut().context("dynamic_resources is not a mapping")?;
            dynamic.insert("lds_config".to_owned(), source);
            Ok(())
        })?;
        Ok(file)
    }

    /// Fails unless Envoy has all of the listeners: it starts without those that it rejects.
    pub(crate) fn all_present(&self, present: &BTreeMap<String, SocketAddr>) -> anyhow::Result<()> {
        let missing: Vec<_> = self.names.iter().filter(|name| !present.contains_key(*name)).collect();
        ensure!(missing.is_empty(), "Envoy rejected the listeners {missing:?}");
        Ok(())
    }

    /// Puts a new version into place, in one step.
    fn write(&mut self, mut listeners: Vec<Value>) -> anyhow::Result<()> {
        self.names.clear();
        for listener in &mut listeners {
            let name = listener.get("name").and_then(Value::as_str).context("a listener has no name")?;
            let name = name.to_owned();
            if let Some(port) = listener.pointer_mut("/address/socket_address/port_value")
                && *port == 0
            {
                *port = self.port_of(&name)?.into();
            }
            if let Some(fields) = listener.as_object_mut() {
                fields.insert(
                    "@type".to_owned(),
                    "type.googleapis.com/envoy.config.listener.v3.Listener".into(),
                );
            }
            self.names.insert(name);
        }
        self.version += 1;
        let content = json!({ "version_info": self.version.to_string(), "resources": listeners });
        std::fs::write(&self.draft, content.to_string()).context("cannot write the listeners")?;
        std::fs::rename(&self.draft, &self.path).context("cannot move the listeners into place")
    }

    fn port_of(&mut self, listener: &str) -> anyhow::Result<u16> {
        if let Some(port) = self.ports.get(listener) {
            return Ok(port.number);
        }
        let port = ReservedPort::take().context("cannot reserve a free port")?;
        let number = port.number;
        self.ports.insert(listener.to_owned(), port);
        Ok(number)
    }
}

/// A port of 127.0.0.1 that nobody else is given while this lives.
///
/// The socket is bound and never listens. Envoy may bind beside it, since both allow that; a port that
/// were only looked up and let go could be given to a second Envoy too, which would then share the
/// traffic without an error (`SO_REUSEPORT`, Envoy's default).
#[derive(Debug)]
struct ReservedPort {
    number: u16,
    _socket: TcpSocket,
}

impl ReservedPort {
    fn take() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { number: socket.local_addr()?.port(), _socket: socket })
    }
}

/// The reason of a rejection, as the log has it.
fn rejection(log: &str) -> String {
    log.lines().find(|line| line.contains("rejected")).unwrap_or(log).to_owned()
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
