//! An Envoy with a filter in it and an upstream behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use foregate_cli::echo::Echo;
use real_envoy::{Config, Envoy, Options};
use serde_json::{Map, Value, json};

use super::Behaviour;
use super::case::CASE_HEADER;

/// How long anything may take that should take moments.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Workers of every Envoy here: more than one, so that what a worker keeps to itself shows.
const CONCURRENCY: u32 = 2;

/// A running Envoy and its upstream.
pub(crate) struct Gateway {
    pub(crate) envoy: Envoy,
    pub(crate) echo: Echo,
    behaviour: Behaviour,
}

impl Gateway {
    /// Starts an upstream, and an Envoy with the shipped configuration as `change` changes it.
    pub(crate) async fn start(
        behaviour: &Behaviour,
        change: impl FnOnce(Config) -> anyhow::Result<Config>,
    ) -> anyhow::Result<Self> {
        Self::start_with(behaviour, &Self::options(), change).await
    }

    /// The same with other options.
    pub(crate) async fn start_with(
        behaviour: &Behaviour,
        options: &Options<'_>,
        change: impl FnOnce(Config) -> anyhow::Result<Config>,
    ) -> anyhow::Result<Self> {
        let echo = Echo::start("127.0.0.1:0".parse()?).await?;
        let config = change(Self::config(behaviour, echo.addr())?)?;
        let envoy = Envoy::start(&config, options).await?;
        Ok(Self { envoy, echo, behaviour: *behaviour })
    }

    /// The shipped configuration with ports of our own, the module as it is now, and a second access
    /// log that tells the response-code details of each case.
    pub(crate) fn config(behaviour: &Behaviour, upstream: SocketAddr) -> anyhow::Result<Config> {
        let config = Config::load(behaviour.config)?.on_free_ports()?.upstream("upstream", upstream)?;
        config.modules(xtask::modules::ensure)?.edit(|value| {
            let logs = hcm_mut(value)?.entry("access_log").or_insert_with(|| json!([]));
            logs.as_array_mut().context("access_log is no list")?.push(json!({
                "name": "envoy.access_loggers.stdout",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                    "log_format": { "json_format": {
                        "case": format!("%REQ({CASE_HEADER})%"),
                        "details": "%RESPONSE_CODE_DETAILS%",
                    } },
                },
            }));
            Ok(())
        })
    }

    /// How every Envoy here runs. The filter's debug lines are on, so that what they must not hold
    /// would be seen.
    pub(crate) fn options() -> Options<'static> {
        Options {
            concurrency: CONCURRENCY,
            component_log_levels: "wasm:debug",
            extra_args: &["--file-flush-interval-msec", "20"],
            ..Options::default()
        }
    }

    /// Where requests go.
    pub(crate) fn addr(&self) -> anyhow::Result<SocketAddr> {
        self.envoy.listener()
    }

    /// The filter's counters, without what their names have in common.
    pub(crate) async fn counters(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let stats = self.envoy.stats_matching(self.behaviour.counters).await?;
        let prefix = self.behaviour.counters;
        Ok(stats.into_iter().map(|(name, value)| (name.replacen(prefix, "", 1), value)).collect())
    }

    /// The response-code details of the request with this number, once the access log has them.
    pub(crate) async fn details(&self, number: u64) -> anyhow::Result<String> {
        let line = self.envoy.wait_for_stdout(&format!("\"case\":\"{number}\""), SOON).await?;
        let line: Value = serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))?;
        Ok(line["details"].as_str().unwrap_or_default().to_owned())
    }

    /// The response-code details of every request with a number that the access log has by now.
    pub(crate) fn all_details(&self) -> BTreeMap<u64, String> {
        let stdout = self.envoy.stdout();
        let lines = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let numbered = lines.filter_map(|line| {
            Some((
                line["case"].as_str()?.parse().ok()?,
                line["details"].as_str().unwrap_or_default().to_owned(),
            ))
        });
        numbered.collect()
    }

    /// Envoy's resident memory, in kilobytes.
    pub(crate) fn resident_kilobytes(&self) -> anyhow::Result<u64> {
        self.envoy.resident_kilobytes()
    }

    /// That nothing went wrong which no answer shows: no VM trapped, was reloaded or is gone, and none
    /// of these secrets stands in a log.
    pub(crate) async fn check_health(&self, secrets: impl Iterator<Item = &str>) -> anyhow::Result<()> {
        ensure!(self.envoy.is_alive(), "Envoy has ended: {}", self.envoy.log());
        let reloads = self.envoy.stats_matching("wasm.").await?;
        let reloads: Vec<_> =
            reloads.iter().filter(|(name, value)| name.contains("vm_reload") && **value > 0).collect();
        ensure!(reloads.is_empty(), "a VM was reloaded: {reloads:?}");
        let log = self.envoy.log();
        for sign in ["panic", "Function: ", "Uncaught", "host_failure"] {
            let line = log.lines().find(|line| line.contains(sign));
            ensure!(
                line.is_none(),
                "Envoy's log has a sign of trouble, {sign:?}: {}",
                line.unwrap_or_default()
            );
        }
        let written = log + &self.envoy.stdout();
        for secret in secrets.filter(|secret| secret.len() >= 16) {
            ensure!(!written.contains(secret), "a log holds {secret:?}");
        }
        Ok(())
    }
}

/// The fields of the HTTP connection manager.
pub(crate) fn hcm_mut(bootstrap: &mut Value) -> anyhow::Result<&mut Map<String, Value>> {
    let listener = bootstrap.pointer_mut("/static_resources/listeners/0").context("no listener")?;
    hcm_of(listener)
}

/// The fields of the HTTP connection manager of a listener.
pub(crate) fn hcm_of(listener: &mut Value) -> anyhow::Result<&mut Map<String, Value>> {
    let hcm = listener.pointer_mut("/filter_chains/0/filters/0/typed_config").and_then(Value::as_object_mut);
    hcm.context("no connection manager where one is expected")
}

/// The fields of the Wasm plugin in the filter of this name.
pub(crate) fn plugin_mut<'v>(
    bootstrap: &'v mut Value,
    name: &str,
) -> anyhow::Result<&'v mut Map<String, Value>> {
    let filters = hcm_mut(bootstrap)?.get_mut("http_filters").and_then(Value::as_array_mut);
    let filter = filters.into_iter().flatten().find(|filter| filter["name"] == name);
    let plugin = filter.and_then(|filter| filter.pointer_mut("/typed_config/config")?.as_object_mut());
    plugin.with_context(|| format!("no plugin {name:?}"))
}

/// A chain with this filter in it.
pub(crate) fn insert_filter(config: Config, filter: Value, place: usize) -> anyhow::Result<Config> {
    config.edit(|value| {
        let filters = hcm_mut(value)?.get_mut("http_filters").and_then(Value::as_array_mut);
        filters.context("http_filters")?.insert(place, filter);
        Ok(())
    })
}

/// Makes the plugin's configuration a StringValue, to be given its text.
pub(crate) fn as_string_value(config: Config, plugin: &str) -> anyhow::Result<Config> {
    config.edit(|value| {
        let configuration = plugin_mut(value, plugin)?.get_mut("configuration");
        *configuration.with_context(|| format!("plugin {plugin:?} has no configuration"))? =
            json!({ "@type": "type.googleapis.com/google.protobuf.StringValue", "value": "" });
        Ok(())
    })
}
