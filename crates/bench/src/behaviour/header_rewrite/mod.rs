//! header_rewrite, Envoy's own header_mutation, and Lua, each with nothing but the operations of one job.
//!
//! Envoy answers by itself, so that what became of a request would not be seen: a second virtual host tells, in
//! headers of its answers, and is asked by the probes alone.

mod job;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use self::job::Job;
use super::{Behaviour, FUSED, Module, Setup};
use crate::rival::{self, BASELINE, Rival, TELLING};
use crate::workload::{Budget, Kind, PASSED, Unfair, Workload, budget, unfair};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "header-rewrite", workloads: KINDS, smoke: &["ten-operations"], prepare };

const KINDS: &[Kind] = &[
    kind("one-set", "one header of the request is set to a constant", ALL, &[budget("lua", 1.0)], &[]),
    kind(
        "ten-operations",
        "ten operations on the request: two removals, two sets, an addition where there is none, a further line, a \
         renaming, a copy, and two sets by conditions on path and header",
        ALL,
        &[budget("lua", 0.75)],
        &[unfair("native", "its conditions are routes, which cost the router and not the filter")],
    ),
    kind(
        "regex",
        "the tokens in the referer are cut after four characters, by a regular expression with a capture; Envoy's \
         header_mutation has no such operation",
        &[BASELINE, "lua", OURS_ALONE, FUSED],
        &[],
        &[unfair("lua", "its patterns are no regular expressions: they know no alternatives")],
    ),
    kind("response-headers", "the eleven security headers on the response", ALL, &[], &[]),
];

const ALL: &[&str] = &[BASELINE, "native", "lua", OURS_ALONE, FUSED];
/// Our module that does nothing else.
const OURS_ALONE: &str = "header_rewrite";

const fn kind(
    name: &'static str,
    what: &'static str,
    rivals: &'static [&'static str],
    budgets: &'static [Budget],
    unfair: &'static [Unfair],
) -> Kind {
    Kind { name, what, answers: &[PASSED], rivals, budgets, unfair }
}

const NATIVE: &str = "envoy-configs/header-rewrite/native.yaml";
const LUA: &str = "envoy-configs/header-rewrite/lua.yaml";
const OURS: &str = "envoy-configs/header-rewrite/wasm.yaml";

/// Each workload has operations, and so Envoys, of its own.
fn prepare(kinds: &[&'static Kind], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    kinds.iter().map(|kind| setup(kind, modules)).collect()
}

fn setup(kind: &'static Kind, modules: &[Module]) -> anyhow::Result<Setup> {
    let mut job = job::named(kind.name)?;
    for probe in &mut job.probes {
        probe.request.headers.push(("host", TELLING.to_owned()));
    }
    let rivals = rivals(&job, modules)?;
    let workload = Workload::of(kind, job.requests).probed(job.probes);
    Ok(Setup { rivals, workloads: vec![workload] })
}

fn rivals(job: &Job, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let plain = [json!({ "match": { "prefix": "/" } })];
    let changed = |hcm: &mut Map<String, Value>, routes: &[Value], place: &str, new: &Value| {
        set_routes(hcm, routes, &job.told)?;
        let filter = hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config"));
        let old = filter.context("there is no filter")?.pointer_mut(place);
        *old.with_context(|| format!("the filter has no {place}"))? = new.clone();
        anyhow::Ok(())
    };
    let rival = |name: &str, file: &'static str, routes: &[Value], place: &str, new: &Value| {
        Rival::new(name, file, |hcm| changed(hcm, routes, place, new))
    };
    const PLACE: &str = "/config/configuration/value";
    let mut rivals =
        vec![Rival::new(BASELINE, "envoy-configs/baseline.yaml", |hcm| set_routes(hcm, &plain, &job.told))?];
    if let Some(native) = &job.native {
        rivals.push(rival("native", NATIVE, &native.routes, "/mutations", &native.mutations)?);
    }
    rivals.push(rival("lua", LUA, &plain, "/default_source_code/inline_string", &job.lua.clone().into())?);
    let alone = Module { name: OURS_ALONE.to_owned(), file: xtask::modules::ensure("header_rewrite")? };
    rivals.push(rival(&alone.name, OURS, &plain, PLACE, &job.ours)?.with_module(&alone.file)?);
    let fused = Rival::new(FUSED, OURS, |hcm| {
        changed(hcm, &plain, PLACE, &job.ours)?;
        let needs: &[&str] = match job.ours.get("response_mutations") {
            Some(_) => &["proxy_on_request_headers", "proxy_on_response_headers"],
            None => &["proxy_on_request_headers"],
        };
        rival::fuse(hcm, "header_rewrite", needs)
    })?;
    rivals.push(fused.with_module(&xtask::modules::ensure("foregate")?)?);
    for module in modules {
        rivals.push(rival(&module.name, OURS, &plain, PLACE, &job.ours)?.with_module(&module.file)?);
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
    let hosts = hcm.get_mut("route_config").and_then(|config| config.get_mut("virtual_hosts"));
    *hosts.context("there are no virtual hosts")? =
        json!([{ "name": "all", "domains": ["*"], "routes": routes }]);
    rival::tell(hcm, told)
}

#[cfg(test)]
mod tests {
    use super::super::assert_is_as_told;
    use super::*;

    #[test]
    fn the_shipped_configurations_take_every_job() {
        for kind in KINDS {
            assert_is_as_told(&setup(kind, &[]).unwrap(), &[kind]);
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
