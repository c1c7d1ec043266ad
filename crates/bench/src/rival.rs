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
pub const BASELINE: &str = "baseline";
/// Another Envoy that is the same: what the two differ by is noise.
pub const AGAIN: &str = "baseline again";

/// An implementation, ready to be started.
#[derive(Debug, Clone)]
pub struct Rival {
    /// What it is called in tables.
    pub name: String,
    /// The shipped file.
    file: &'static str,
    config: Config,
    /// The module that it loads, if it loads one.
    pub module: Option<PathBuf>,
    /// Every module in it, by its name, whoever's cost that counts as.
    pub(crate) modules: Vec<(String, PathBuf)>,
    /// What the names of the counters begin with that tell which way requests went.
    counters: Vec<&'static str>,
    workers: u32,
    /// What its routes answer.
    upstream: Answer,
}

/// Envoy writes what its own access logs hold every 10 s.
const FLUSHED: Duration = Duration::from_secs(15);
/// A module's line is there at once.
const SOON: Duration = Duration::from_secs(1);

const LISTENER: &str = "/static_resources/listeners/0";
const HCM: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// The host whose answers tell what became of a request: asked by probes alone.
pub const TELLING: &str = "probe.example";

impl Rival {
    /// Envoy without a filter.
    pub fn baseline() -> anyhow::Result<Self> {
        Self::new(BASELINE, "envoy-configs/baseline.yaml", |_| Ok(()))
    }

    /// A shipped configuration, its connection manager changed as the behaviour needs.
    pub fn new(
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
        Ok(Self::made(name, file, config.with_context(|| file.to_owned())?))
    }

    /// Any other configuration as it stands, but for its ports, which are free ones.
    pub fn of(name: &str, config: Config) -> anyhow::Result<Self> {
        Ok(Self::made(name, "its configuration", config.on_free_ports()?))
    }

    /// With nothing that a behaviour adds.
    fn made(name: &str, file: &'static str, config: Config) -> Self {
        Self {
            name: name.to_owned(),
            file,
            config,
            module: None,
            modules: Vec::new(),
            counters: Vec::new(),
            workers: 1,
            upstream: PASSED,
        }
    }

    /// What its routes answer.
    pub(crate) fn upstream(&self) -> Answer {
        self.upstream
    }

    /// Another one that is the same but for its name.
    pub(crate) fn again(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// Lets routes that would answer by themselves lead to the cluster `upstream` instead, which is at that address.
    pub(crate) fn answered_by(self, upstream: SocketAddr) -> anyhow::Result<Self> {
        let answer = self.upstream;
        let config = self.config.edit(|bootstrap| {
            let hcm = bootstrap.pointer_mut(HCM).and_then(Value::as_object_mut);
            lead_on(hcm.context("there is no HTTP connection manager")?, answer)
        });
        let config = config.and_then(|config| config.upstream(UPSTREAM, upstream));
        Ok(Self { config: config.with_context(|| format!("{} ({})", self.name, self.file))?, ..self })
    }

    /// With this build of its module.
    pub fn with_module(self, module: &Path) -> anyhow::Result<Self> {
        let config = self.config.modules(|_| Ok(module.to_owned())).with_context(|| self.file.to_owned())?;
        let modules = vec![(self.name.clone(), module.to_owned())];
        Ok(Self { config, module: Some(module.to_owned()), modules, ..self })
    }

    /// With several modules, which are found by their names. What they cost together is a measure for others, not
    /// something that has a budget.
    pub fn with_modules(
        self,
        mut resolve: impl FnMut(&str) -> anyhow::Result<PathBuf>,
    ) -> anyhow::Result<Self> {
        let mut modules = Vec::new();
        let config = self.config.modules(|name| {
            let module = resolve(name)?;
            modules.push((name.to_owned(), module.clone()));
            Ok(module)
        });
        Ok(Self { config: config.with_context(|| self.file.to_owned())?, modules, ..self })
    }

    /// With the counters that tell which way requests went.
    pub fn counted_by(self, prefixes: &[&'static str]) -> Self {
        Self { counters: prefixes.to_vec(), ..self }
    }

    /// With so many workers, each of which is given as many connections as the others: without that, chance decides.
    pub fn with_workers(self, workers: u32) -> anyhow::Result<Self> {
        let config = self.config.edit(|bootstrap| {
            let listener = bootstrap.pointer_mut(LISTENER).and_then(Value::as_object_mut);
            let balance = json!({ "exact_balance": {} });
            listener.context("there is no listener")?.insert("connection_balance_config".to_owned(), balance);
            Ok(())
        })?;
        Ok(Self { config, workers, ..self })
    }

    /// With another answer of its routes, and of those of the baseline.
    pub fn answering(self, upstream: Answer) -> anyhow::Result<Self> {
        let config = self.config.edit(|bootstrap| {
            let hcm = bootstrap.pointer_mut(HCM).and_then(Value::as_object_mut);
            answer_by(hcm.context("there is no HTTP connection manager")?, upstream)
        })?;
        Ok(Self { config, upstream, ..self })
    }

    /// Starts it with so many workers, wherever they run, and waits until it serves.
    pub async fn start_with(&self, workers: u32) -> anyhow::Result<Envoy> {
        let options = Options { concurrency: workers, ..Options::default() };
        let envoy = Envoy::start(&self.config, &options).await;
        envoy.with_context(|| format!("{} ({})", self.name, self.file))
    }

    /// Starts it, and waits until it serves.
    pub async fn start(&self, pinning: &Pinning) -> anyhow::Result<Running> {
        let started = async {
            let options = Options { concurrency: self.workers, ..Options::default() };
            let envoy = Envoy::start(&self.config, &options).await?;
            let running = Running {
                name: self.name.clone(),
                ours: self.module.is_some(),
                address: envoy.listener()?,
                envoy,
                loads_modules: !self.modules.is_empty(),
                counters: self.counters.clone(),
                workers: self.workers,
                upstream: self.upstream,
            };
            running.pin(pinning)?;
            anyhow::Ok(running)
        };
        started.await.with_context(|| format!("{} ({})", self.name, self.file))
    }
}

/// Takes out what costs time and is not the filter's.
fn leave_the_filter_alone(hcm: &mut Map<String, Value>) -> anyhow::Result<()> {
    hcm.remove("access_log").context("there is no access log to take out")?;
    // What it does at every request, the baseline does not.
    hcm.remove("use_remote_address");
    for route in routes_of(hcm)? {
        let route = route.as_object_mut().context("a route is no object")?;
        route.remove("route").context("a route leads nowhere")?;
    }
    answer_by(hcm, PASSED)
}

fn routes_of(hcm: &mut Map<String, Value>) -> anyhow::Result<&mut Vec<Value>> {
    let routes = hcm.get_mut("route_config").and_then(|it| it.pointer_mut("/virtual_hosts/0/routes"));
    let routes = routes.and_then(Value::as_array_mut).context("there are no routes")?;
    ensure!(!routes.is_empty(), "there are no routes");
    Ok(routes)
}

/// Lets every route answer by itself.
fn answer_by(hcm: &mut Map<String, Value>, Answer { status, body }: Answer) -> anyhow::Result<()> {
    for route in routes_of(hcm)? {
        let route = route.as_object_mut().context("a route is no object")?;
        let answer = json!({ "status": status, "body": { "inline_string": body } });
        route.insert("direct_response".to_owned(), answer);
    }
    Ok(())
}

/// Gives the routes to a second host too, [`TELLING`], whose answers tell in headers what became of the request: names
/// of headers, and what they hold, as Envoy formats it.
pub(crate) fn tell(hcm: &mut Map<String, Value>, told: &[(&'static str, String)]) -> anyhow::Result<()> {
    let routes = routes_of(hcm)?.clone();
    let told: Vec<Value> =
        told.iter().map(|(name, value)| json!({ "header": { "key": name, "value": value } })).collect();
    let hosts = hcm.get_mut("route_config").and_then(|config| config.get_mut("virtual_hosts"));
    let hosts = hosts.and_then(Value::as_array_mut).context("there are no virtual hosts")?;
    hosts.push(json!({
        "name": "told", "domains": [TELLING], "routes": routes, "response_headers_to_add": told,
    }));
    Ok(())
}

/// Makes the first filter, which is a module of ours for one job, a list of that filter alone in the module of all of them.
/// Envoy is to enter that for `callbacks` only, as its README advises: it exports those of all filters.
pub(crate) fn fuse(hcm: &mut Map<String, Value>, filter: &str, callbacks: &[&str]) -> anyhow::Result<()> {
    let filters = hcm.get_mut("http_filters");
    let plugin = filters.and_then(|filters| filters.pointer_mut("/0/typed_config/config"));
    let plugin = plugin.and_then(Value::as_object_mut).context("there is no plugin")?;
    let configuration = plugin.get_mut("configuration").and_then(|it| it.get_mut("value"));
    let configuration = configuration.context("the plugin has no configuration")?;
    let mut link = Map::new();
    link.insert(filter.to_owned(), configuration.take());
    *configuration = json!({ "filters": [link] });
    let allowed: Map<String, Value> =
        NEEDED_BY_ALL.iter().chain(callbacks).map(|name| ((*name).to_owned(), json!({}))).collect();
    plugin.insert("capability_restriction_config".to_owned(), json!({ "allowed_capabilities": allowed }));
    Ok(())
}

/// Host calls of all filters, and the callbacks that every list needs.
const NEEDED_BY_ALL: &[&str] = &[
    "proxy_on_context_create",
    "proxy_on_configure",
    "proxy_on_delete",
    "proxy_on_tick",
    "proxy_get_buffer_bytes",
    "proxy_log",
    "proxy_get_log_level",
    "proxy_set_tick_period_milliseconds",
    "proxy_define_metric",
    "proxy_increment_metric",
    "proxy_get_header_map_pairs",
    "proxy_get_current_time_nanoseconds",
    "proxy_get_property",
    "proxy_set_property",
    "proxy_get_shared_data",
    "proxy_set_shared_data",
    "proxy_send_local_response",
    "random_get",
    "proxy_add_header_map_value",
    "proxy_remove_header_map_value",
    "proxy_replace_header_map_value",
    "proxy_call_foreign_function",
];

/// The cluster of all shipped configurations.
const UPSTREAM: &str = "upstream";

/// Undoes of [`leave_the_filter_alone`] that routes answer by themselves.
fn lead_on(hcm: &mut Map<String, Value>, upstream: Answer) -> anyhow::Result<()> {
    let hosts = hcm.get_mut("route_config").and_then(|it| it.get_mut("virtual_hosts"));
    let hosts = hosts.and_then(Value::as_array_mut).context("there are no virtual hosts")?;
    let mut led = 0_usize;
    for route in hosts.iter_mut().filter_map(|host| host.get_mut("routes")?.as_array_mut()).flatten() {
        let passes = |answer: &Value| {
            answer.get("status").and_then(Value::as_u64) == Some(upstream.status.into())
                && answer.pointer("/body/inline_string").and_then(Value::as_str) == Some(upstream.body)
        };
        let Some(route) = route.as_object_mut().filter(|it| it.get("direct_response").is_some_and(passes))
        else {
            continue;
        };
        route.remove("direct_response");
        route.insert("route".to_owned(), json!({ "cluster": UPSTREAM }));
        led = led.saturating_add(1);
    }
    ensure!(led > 0, "no route answers {:?} by itself", upstream.body);
    Ok(())
}

/// A rival that serves.
#[derive(Debug)]
pub struct Running {
    /// What it is called in tables.
    pub name: String,
    /// Whether it is a build of a module of ours, which has budgets.
    pub ours: bool,
    /// Where it listens.
    pub address: SocketAddr,
    /// The process.
    pub envoy: Envoy,
    pub(crate) loads_modules: bool,
    counters: Vec<&'static str>,
    workers: u32,
    upstream: Answer,
}

impl Running {
    /// Puts its threads, those too that it has started since, on the cores that are for it.
    pub fn pin(&self, pinning: &Pinning) -> anyhow::Result<()> {
        pinning.apply(self.envoy.pid(), self.workers)
    }

    /// Whether it has no filter.
    pub fn is_baseline(&self) -> bool {
        self.name == BASELINE || self.name == AGAIN
    }

    /// What it must answer where a rival answers `answer`: the baseline lets everything through.
    pub fn expected(&self, answer: Answer) -> Answer {
        if self.is_baseline() { self.upstream } else { answer }
    }

    /// What it gets wrong of a job; nothing, where it does it.
    pub async fn wrong(&self, probes: &[Probe]) -> anyhow::Result<Option<String>> {
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
    pub async fn counters(&self) -> anyhow::Result<std::collections::BTreeMap<String, u64>> {
        let mut counters = std::collections::BTreeMap::new();
        for prefix in &self.counters {
            counters.extend(self.envoy.stats_matching(prefix).await?);
        }
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_pass_lead_on_and_others_stay() {
        let answer = |status: u16, body: &str| json!({ "status": status, "body": { "inline_string": body } });
        let mut hcm = Map::new();
        hcm.insert(
            "route_config".to_owned(),
            json!({ "virtual_hosts": [
                { "routes": [{ "direct_response": answer(200, "ok") }, { "direct_response": answer(500, "ok") }] },
                { "routes": [{ "match": { "prefix": "/" }, "direct_response": answer(200, "ok") }] },
            ] }),
        );
        lead_on(&mut hcm, PASSED).unwrap();
        let hosts = &hcm["route_config"]["virtual_hosts"];
        assert_eq!(hosts[0]["routes"][0], json!({ "route": { "cluster": "upstream" } }));
        assert_eq!(hosts[0]["routes"][1]["direct_response"]["status"], 500);
        assert_eq!(hosts[1]["routes"][0]["match"], json!({ "prefix": "/" }));
        assert!(hosts[1]["routes"][0].get("direct_response").is_none());
        let error = lead_on(&mut hcm, PASSED).unwrap_err().to_string();
        assert_eq!(error, "no route answers \"ok\" by itself");
    }

    #[test]
    fn the_shipped_baseline_can_be_answered_by_an_upstream() {
        let upstream = Rival::baseline().unwrap().answered_by("127.0.0.1:7".parse().unwrap()).unwrap();
        let text = upstream.config.value().to_string();
        assert!(!text.contains("direct_response") && text.contains("\"port_value\":7"), "{text}");
    }
}
