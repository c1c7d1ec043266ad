//! header_rewrite, Envoy's own header_mutation, and Lua, each with nothing but the operations of one job.
//!
//! Envoy answers by itself, so that what became of a request would not be seen: a second virtual host tells, in
//! headers of its answers, and is asked by the probes alone.

mod job;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use self::job::Job;
use super::{Behaviour, Module, Setup};
use crate::rival::{BASELINE, Rival};
use crate::workload::{PASSED, Workload};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "header-rewrite", workloads: NAMES, quick: &["ten-operations"], prepare };

const NAMES: &[&str] = &["one-set", "ten-operations", "regex", "response-headers"];

const NATIVE: &str = "envoy-configs/header-rewrite/native.yaml";
const LUA: &str = "envoy-configs/header-rewrite/lua.yaml";
const OURS: &str = "envoy-configs/header-rewrite/wasm.yaml";

/// The host whose answers tell what became of the request.
const TELLING: &str = "probe.example";

/// Each workload has operations, and so Envoys, of its own.
fn prepare(names: &[&'static str], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    names.iter().map(|name| setup(name, modules)).collect()
}

fn setup(name: &'static str, modules: &[Module]) -> anyhow::Result<Setup> {
    let mut job = job::named(name)?;
    for probe in &mut job.probes {
        probe.request.headers.push(("host", TELLING.to_owned()));
    }
    let rivals = rivals(&job, modules)?;
    let Job { what, requests, probes, budgets, .. } = job;
    let workload = Workload { name, what, requests, expected: PASSED, probes, budgets };
    Ok(Setup { rivals, workloads: vec![workload] })
}

fn rivals(job: &Job, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let plain = [json!({ "match": { "prefix": "/" } })];
    let rival = |name: &str, file: &'static str, routes: &[Value], place: &str, new: &Value| {
        Rival::new(name, file, |hcm| {
            set_routes(hcm, routes, &job.told)?;
            let filter =
                hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config"));
            let old = filter.context("there is no filter")?.pointer_mut(place);
            *old.with_context(|| format!("the filter has no {place}"))? = new.clone();
            Ok(())
        })
    };
    let mut rivals =
        vec![Rival::new(BASELINE, "envoy-configs/baseline.yaml", |hcm| set_routes(hcm, &plain, &job.told))?];
    if let Some(native) = &job.native {
        rivals.push(rival("native", NATIVE, &native.routes, "/mutations", &native.mutations)?);
    }
    rivals.push(rival("lua", LUA, &plain, "/default_source_code/inline_string", &job.lua.clone().into())?);
    let shipped =
        Module { name: "header_rewrite".to_owned(), file: xtask::modules::ensure("header_rewrite")? };
    for module in std::iter::once(&shipped).chain(modules) {
        let ours = rival(&module.name, OURS, &plain, "/config/configuration/value", &job.ours)?;
        rivals.push(ours.with_module(&module.file)?);
    }
    Ok(rivals)
}

/// Routes that answer by themselves, and the same again on the host that tells: names of headers, and what they
/// hold, as Envoy formats it.
fn set_routes(
    hcm: &mut Map<String, Value>,
    routes: &[Value],
    told: &[(&'static str, String)],
) -> anyhow::Result<()> {
    let answer = json!({ "status": PASSED.status, "body": { "inline_string": PASSED.body } });
    let mut routes = routes.to_vec();
    for route in &mut routes {
        let route = route.as_object_mut().context("a route is no object")?;
        route.insert("direct_response".to_owned(), answer.clone());
    }
    let told: Vec<Value> =
        told.iter().map(|(name, value)| json!({ "header": { "key": name, "value": value } })).collect();
    let hosts = hcm.get_mut("route_config").and_then(|config| config.get_mut("virtual_hosts"));
    *hosts.context("there are no virtual hosts")? = json!([
        { "name": "all", "domains": ["*"], "routes": routes },
        { "name": "told", "domains": [TELLING], "routes": routes, "response_headers_to_add": told },
    ]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_configurations_take_every_job() {
        for name in NAMES {
            let rivals = setup(name, &[]).unwrap().rivals;
            assert_eq!(rivals.len(), if *name == "regex" { 3 } else { 4 }, "{name}");
        }
    }

    #[test]
    fn a_configuration_without_virtual_hosts_is_an_error() {
        let error = set_routes(&mut Map::new(), &[], &[]).unwrap_err();
        assert_eq!(error.to_string(), "there are no virtual hosts");
    }

    #[test]
    fn the_host_that_tells_has_the_same_routes() {
        let mut hcm = Map::new();
        hcm.insert("route_config".to_owned(), json!({ "virtual_hosts": [] }));
        set_routes(&mut hcm, &[json!({ "match": { "prefix": "/" } })], &[("x-seen", "%REQ(a)%".to_owned())])
            .unwrap();
        let hosts = &hcm["route_config"]["virtual_hosts"];
        assert_eq!(hosts[0]["routes"], hosts[1]["routes"]);
        assert_eq!(hosts[0]["routes"][0]["direct_response"]["status"], 200);
        assert_eq!(hosts[0].get("response_headers_to_add"), None);
        let told = json!([{ "header": { "key": "x-seen", "value": "%REQ(a)%" } }]);
        assert_eq!(hosts[1]["response_headers_to_add"], told);
    }
}
