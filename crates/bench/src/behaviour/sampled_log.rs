//! sampled_log, as a filter and as an access logger, Envoy's own access log, and Lua, at several shares. All write to
//! Envoy's standard error, as they are shipped; the harness keeps that in a file.

use anyhow::Context as _;
use real_envoy::Config;
use serde_json::{Map, Value, json};

use super::{Behaviour, Module, Setup};
use crate::rival::Rival;
use crate::workload::{Budget, PASSED, Probe, Sent, Workload, budget};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "sampled-log", workloads: NAMES, quick: &["log-10"], prepare };

const NAMES: &[&str] = &["log-none", "log-1", "log-10", "log-all"];

const NATIVE: &str = "envoy-configs/sampled-log/native.yaml";
const LUA: &str = "envoy-configs/sampled-log/lua.yaml";
const FILTER: &str = "envoy-configs/sampled-log/wasm.yaml";
const LOGGER: &str = "envoy-configs/sampled-log/access-logger.yaml";

/// Envoy's own log at 100 %, whatever the share of the others is.
const NATIVE_ALL: &str = "native-all";

const BUDGETS: &[Budget] = &[budget("lua", 1.0)];

/// Each workload has a share, and so Envoys, of its own.
fn prepare(names: &[&'static str], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    names.iter().map(|name| setup(name, modules)).collect()
}

fn setup(name: &'static str, modules: &[Module]) -> anyhow::Result<Setup> {
    let (percent, what) = match name {
        "log-none" => (0, "no line is written"),
        "log-1" => (1, "a line is written for a hundredth of the requests"),
        "log-10" => (10, "a line is written for a tenth of the requests"),
        _ => (100, "a line is written for every request"),
    };
    let request = Sent::plain("/orders?page=2");
    let probe = |path| Probe {
        // Of shares between, nobody knows which requests are in them.
        logged: [(0, false), (100, true)]
            .into_iter()
            .find(|(of, _)| *of == percent)
            .map(|(_, logged)| logged),
        ..Probe::new("a request", Sent::plain(path), PASSED)
    };
    let workload = Workload {
        name,
        what,
        requests: vec![request],
        expected: PASSED,
        probes: vec![probe("/probe-of-lines")],
        budgets: BUDGETS,
    };
    Ok(Setup { rivals: rivals(percent, modules)?, workloads: vec![workload] })
}

fn rivals(percent: u32, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let mut rivals = vec![Rival::baseline()?, native("native", percent)?];
    if percent != 100 {
        rivals.push(native(NATIVE_ALL, 100)?);
    }
    rivals.push(Rival::new("lua", LUA, |hcm| set_rate(hcm, percent))?);
    let shipped = Module { name: "sampled_log".to_owned(), file: xtask::modules::ensure("sampled_log")? };
    for module in std::iter::once(&shipped).chain(modules) {
        let as_filter = Rival::new(&module.name, FILTER, |hcm| {
            let filter =
                hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config"));
            let plugin = filter.and_then(|filter| filter.pointer_mut("/config/configuration/value"));
            *plugin.context("the filter has no configuration")? = plugin_of(percent);
            Ok(())
        })?;
        rivals.push(as_filter.with_module(&module.file)?);
        let name = format!("{}, access logger", module.name);
        let as_logger = Rival::new(&name, LOGGER, |hcm| {
            let mut logger = access_log(LOGGER, percent)?;
            let plugin = logger.pointer_mut("/typed_config/config/configuration/value");
            *plugin.context("the logger has no configuration")? = plugin_of(100);
            hcm.insert("access_log".to_owned(), json!([logger]));
            Ok(())
        })?;
        rivals.push(as_logger.with_module(&module.file)?);
    }
    Ok(rivals)
}

fn native(name: &str, percent: u32) -> anyhow::Result<Rival> {
    Rival::new(name, NATIVE, |hcm| {
        hcm.insert("access_log".to_owned(), json!([access_log(NATIVE, percent)?]));
        Ok(())
    })
}

/// The second access log of a shipped configuration, which is the one that samples, at this share.
pub(super) fn access_log(file: &str, percent: u32) -> anyhow::Result<Value> {
    const PLACE: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/access_log/1";
    const SHARE: &str =
        "/filter/or_filter/filters/3/and_filter/filters/1/runtime_filter/percent_sampled/numerator";
    let mut found = None;
    let _ = Config::load(file)?.edit(|bootstrap| {
        found = bootstrap.pointer(PLACE).cloned();
        Ok(())
    })?;
    let mut log = found.with_context(|| format!("{file} has no second access log"))?;
    *log.pointer_mut(SHARE).with_context(|| format!("the access log of {file} has no share"))? =
        percent.into();
    Ok(log)
}

fn plugin_of(percent: u32) -> Value {
    json!({ "percent_sampled": percent, "max_lines_per_second": "unlimited" })
}

fn set_rate(hcm: &mut Map<String, Value>, percent: u32) -> anyhow::Result<()> {
    let code = hcm
        .get_mut("http_filters")
        .and_then(|filters| filters.pointer_mut("/0/typed_config/default_source_code/inline_string"))
        .context("there is no script")?;
    let script = code.as_str().context("the script is no text")?;
    let rate = f64::from(percent) / 100.0;
    anyhow::ensure!(script.contains("local RATE = 0.1\n"), "the script has no rate");
    *code = script.replace("local RATE = 0.1\n", &format!("local RATE = {rate}\n")).into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::BASELINE;

    #[test]
    fn the_shipped_configurations_take_every_share() {
        for name in NAMES {
            let rivals = setup(name, &[]).unwrap().rivals;
            let names: Vec<&str> = rivals.iter().map(|rival| rival.name.as_str()).collect();
            let mut expected = vec![BASELINE, "native", "lua", "sampled_log", "sampled_log, access logger"];
            if *name != "log-all" {
                expected.insert(2, NATIVE_ALL);
            }
            assert_eq!(names, expected, "{name}");
        }
    }
}
