//! The implementations that are compared: each an Envoy of its own with a shipped configuration. Changed in
//! that are where things are (ports, the module), the keys, and what would be measured beside the filter and
//! is the same for all: no access log, and a route that answers by itself instead of an upstream.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};
use serde_json::{Value, json};

use crate::cpu::Pinning;
use crate::workload::{Answer, PASSED, Probe};

/// Envoy without a filter: what the others' cost is told from.
pub(crate) const BASELINE: &str = "baseline";

/// An implementation, and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Rival {
    /// What it is called in tables.
    pub(crate) name: String,
    /// The shipped configuration.
    config: &'static str,
    /// The module that it loads, if it loads one.
    pub(crate) module: Option<PathBuf>,
    /// Whether Envoy's own filter remembers tokens, which it does not unless told to.
    native_cache: bool,
}

const HCM: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

impl Rival {
    /// All that ship: no filter, Envoy's own without and with its cache of tokens, Lua, and jwt_reject.
    pub(crate) fn shipped() -> anyhow::Result<Vec<Self>> {
        let rival =
            |name: &str, config| Self { name: name.to_owned(), config, module: None, native_cache: false };
        let native = rival("native", "envoy-configs/jwt-reject/native.yaml");
        let cached = Self { name: "native-cache".to_owned(), native_cache: true, ..native.clone() };
        let module = xtask::modules::ensure("jwt_reject")?;
        Ok(vec![
            rival(BASELINE, "envoy-configs/baseline.yaml"),
            native,
            cached,
            rival("lua", "envoy-configs/jwt-reject/lua.yaml"),
            Self::of_module("jwt_reject", module),
        ])
    }

    /// The shipped configuration with this build of the module.
    pub(crate) fn of_module(name: &str, module: PathBuf) -> Self {
        let config = "envoy-configs/jwt-reject/wasm.yaml";
        Self { name: name.to_owned(), config, module: Some(module), native_cache: false }
    }

    fn configuration(&self, jwks: &str) -> anyhow::Result<Config> {
        let mut config = Config::load(self.config)?.on_free_ports()?.edit(|bootstrap| {
            let hcm = bootstrap.pointer_mut(HCM).and_then(Value::as_object_mut);
            let hcm = hcm.context("there is no HTTP connection manager")?;
            hcm.remove("access_log").context("there is no access log to take out")?;
            let routes = hcm.get_mut("route_config").and_then(|it| it.pointer_mut("/virtual_hosts/0/routes"));
            *routes.context("there are no routes")? = json!([{
                "match": { "prefix": "/" },
                "direct_response": { "status": PASSED.status, "body": { "inline_string": PASSED.body } },
            }]);
            let providers =
                hcm.get_mut("http_filters").map(|filters| set_keys(filters, jwks, self.native_cache));
            let expected = usize::from(self.config.contains("native") || self.config.contains("wasm"));
            ensure!(providers == Some(expected), "{providers:?} providers of keys, not {expected}");
            Ok(())
        })?;
        if let Some(module) = &self.module {
            config = config.modules(|_| Ok(module.clone()))?;
        }
        Ok(config)
    }

    /// Starts it, and waits until it serves.
    pub(crate) async fn start(&self, jwks: &str, pinning: &Pinning) -> anyhow::Result<Running> {
        let started = async {
            let config = self.configuration(jwks)?;
            let envoy = Envoy::start(&config, &Options { concurrency: 1, ..Options::default() }).await?;
            pinning.apply(envoy.pid())?;
            let address = envoy.listener()?;
            anyhow::Ok(Running { name: self.name.clone(), ours: self.module.is_some(), address, envoy })
        };
        started.await.with_context(|| format!("{} ({})", self.name, self.config))
    }
}

/// Sets the keys of every provider, however deep, and says how many there were.
fn set_keys(value: &mut Value, jwks: &str, native_cache: bool) -> usize {
    match value {
        Value::Object(members) => {
            let mut found = 0;
            if let Some(keys) = members.get_mut("local_jwks").and_then(|keys| keys.get_mut("inline_string")) {
                *keys = jwks.into();
                found += 1;
                if native_cache {
                    // As many as jwt_reject remembers.
                    members.insert("jwt_cache_config".to_owned(), json!({ "jwt_cache_size": 1000 }));
                }
            }
            found + members.values_mut().map(|inner| set_keys(inner, jwks, native_cache)).sum::<usize>()
        }
        Value::Array(items) => items.iter_mut().map(|inner| set_keys(inner, jwks, native_cache)).sum(),
        _ => 0,
    }
}

/// A rival that serves.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    /// Whether it is a build of jwt_reject, which has budgets.
    pub(crate) ours: bool,
    pub(crate) address: SocketAddr,
    pub(crate) envoy: Envoy,
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
            let mut request = Request::get(probe.path);
            if let Some(token) = &probe.token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let response = client::send(self.address, &request).await?;
            let expected = self.expected(probe.expected);
            let body = response.text();
            if (response.status, body.as_str()) != (expected.status, expected.body) {
                let Answer { status, body: wanted } = expected;
                return Ok(Some(format!(
                    "{} gets {} {body:?} instead of {status} {wanted:?}",
                    probe.what, response.status
                )));
            }
        }
        Ok(None)
    }

    /// Counters that tell which way requests went: those of the filters.
    pub(crate) async fn counters(&self) -> anyhow::Result<std::collections::BTreeMap<String, u64>> {
        let mut counters = self.envoy.stats_matching("wasmcustom.foregate.").await?;
        counters.extend(self.envoy.stats_matching("http.ingress.jwt_authn.").await?);
        Ok(counters)
    }
}
