//! The implementations that are compared: each an Envoy of its own with a shipped configuration. Changed in
//! that are where things are (ports, the module), what a behaviour says of it (keys, limits), and what would be
//! measured beside the filter and is the same for all: no access log, routes that answer by themselves instead of
//! an upstream, and who the client is, which `x-forwarded-for` tells.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use real_envoy::client;
use real_envoy::{Config, Envoy, Options};
use serde_json::{Map, Value, json};

use crate::cpu::Pinning;
use crate::workload::{Answer, PASSED, Probe};

/// Envoy without a filter: what the others' cost is told from.
pub(crate) const BASELINE: &str = "baseline";

/// An implementation, ready to be started.
#[derive(Debug, Clone)]
pub(crate) struct Rival {
    /// What it is called in tables.
    pub(crate) name: String,
    /// The shipped file.
    file: &'static str,
    config: Config,
    /// The module that it loads, if it loads one.
    pub(crate) module: Option<PathBuf>,
    /// What the names of the counters begin with that tell which way requests went.
    counters: Vec<&'static str>,
}

/// Envoy writes what its own access logs hold every 10 s.
const FLUSHED: Duration = Duration::from_secs(15);
/// A module's line is there at once.
const SOON: Duration = Duration::from_secs(1);

const HCM: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

impl Rival {
    /// Envoy without a filter.
    pub(crate) fn baseline() -> anyhow::Result<Self> {
        Self::new(BASELINE, "envoy-configs/baseline.yaml", |_| Ok(()))
    }

    /// A shipped configuration, its connection manager changed as the behaviour needs.
    pub(crate) fn new(
        name: &str,
        file: &'static str,
        change: impl FnOnce(&mut Map<String, Value>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let config = Config::load(file)?.on_free_ports()?.edit(|bootstrap| {
            let hcm = bootstrap.pointer_mut(HCM).and_then(Value::as_object_mut);
            let hcm = hcm.context("there is no HTTP connection manager")?;
            leave_the_filter_alone(hcm)?;
            change(hcm)
        });
        let config = config.with_context(|| file.to_owned())?;
        Ok(Self { name: name.to_owned(), file, config, module: None, counters: Vec::new() })
    }

    /// With this build of its module.
    pub(crate) fn with_module(self, module: &Path) -> anyhow::Result<Self> {
        let config = self.config.modules(|_| Ok(module.to_owned())).with_context(|| self.file.to_owned())?;
        Ok(Self { config, module: Some(module.to_owned()), ..self })
    }

    /// With several modules, which are found by their names. What they cost together is a measure for others, not
    /// something that has a budget.
    pub(crate) fn with_modules(
        self,
        resolve: impl FnMut(&str) -> anyhow::Result<PathBuf>,
    ) -> anyhow::Result<Self> {
        let config = self.config.modules(resolve).with_context(|| self.file.to_owned())?;
        Ok(Self { config, ..self })
    }

    /// With the counters that tell which way requests went.
    pub(crate) fn counted_by(self, prefixes: &[&'static str]) -> Self {
        Self { counters: prefixes.to_vec(), ..self }
    }

    /// Starts it with so many workers, wherever they run, and waits until it serves.
    pub(crate) async fn start_with(&self, workers: u32) -> anyhow::Result<Envoy> {
        let options = Options { concurrency: workers, ..Options::default() };
        let envoy = Envoy::start(&self.config, &options).await;
        envoy.with_context(|| format!("{} ({})", self.name, self.file))
    }

    /// Starts it, and waits until it serves.
    pub(crate) async fn start(&self, pinning: &Pinning) -> anyhow::Result<Running> {
        let started = async {
            let envoy = Envoy::start(&self.config, &Options { concurrency: 1, ..Options::default() }).await?;
            pinning.apply(envoy.pid())?;
            anyhow::Ok(Running {
                name: self.name.clone(),
                ours: self.module.is_some(),
                address: envoy.listener()?,
                envoy,
                counters: self.counters.clone(),
            })
        };
        started.await.with_context(|| format!("{} ({})", self.name, self.file))
    }
}

/// Takes out what costs time and is not the filter's.
fn leave_the_filter_alone(hcm: &mut Map<String, Value>) -> anyhow::Result<()> {
    hcm.remove("access_log").context("there is no access log to take out")?;
    // What it does at every request, the baseline does not.
    hcm.remove("use_remote_address");
    let routes = hcm.get_mut("route_config").and_then(|it| it.pointer_mut("/virtual_hosts/0/routes"));
    let routes = routes.and_then(Value::as_array_mut).context("there are no routes")?;
    ensure!(!routes.is_empty(), "there are no routes");
    for route in routes {
        let route = route.as_object_mut().context("a route is no object")?;
        route.remove("route").context("a route leads nowhere")?;
        let answer = json!({ "status": PASSED.status, "body": { "inline_string": PASSED.body } });
        route.insert("direct_response".to_owned(), answer);
    }
    Ok(())
}

/// A rival that serves.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    /// Whether it is a build of a module of ours, which has budgets.
    pub(crate) ours: bool,
    pub(crate) address: SocketAddr,
    pub(crate) envoy: Envoy,
    counters: Vec<&'static str>,
}

impl Running {
    pub(crate) fn is_baseline(&self) -> bool {
        self.name == BASELINE
    }

    /// What it must answer where a rival answers `answer`: the baseline lets everything through.
    pub(crate) fn expected(&self, answer: Answer) -> Answer {
        if self.is_baseline() { PASSED } else { answer }
    }

    /// What it gets wrong of a job; nothing, where it does it.
    pub(crate) async fn wrong(&self, probes: &[Probe]) -> anyhow::Result<Option<String>> {
        for probe in probes {
            let response = client::send(self.address, &probe.request.request()).await?;
            let expected = self.expected(probe.expected);
            let body = response.text();
            if (response.status, body.as_str()) != (expected.status, expected.body) {
                let Answer { status, body: wanted } = expected;
                return Ok(Some(format!(
                    "{} gets {} {body:?} instead of {status} {wanted:?}",
                    probe.what, response.status
                )));
            }
            if let Some(logged) = probe.logged.filter(|_| !self.is_baseline()) {
                let marker = format!("\"{}\"", probe.request.path);
                let found =
                    self.envoy.wait_for_log(&marker, if logged { FLUSHED } else { SOON }).await.is_ok();
                if found != logged {
                    let what = if logged { "no line" } else { "a line" };
                    return Ok(Some(format!("{} has {what} in the log", probe.what)));
                }
            }
            for (name, value) in probe.headers.iter().filter(|_| !self.is_baseline()) {
                let found = response.header(name);
                if found != [value.as_str()] {
                    return Ok(Some(format!("{} gets {name}: {found:?} instead of {value:?}", probe.what)));
                }
            }
        }
        Ok(None)
    }

    /// Counters that tell which way requests went: those of the filters.
    pub(crate) async fn counters(&self) -> anyhow::Result<std::collections::BTreeMap<String, u64>> {
        let mut counters = std::collections::BTreeMap::new();
        for prefix in &self.counters {
            counters.extend(self.envoy.stats_matching(prefix).await?);
        }
        Ok(counters)
    }
}
