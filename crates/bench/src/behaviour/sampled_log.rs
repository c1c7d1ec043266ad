//! sampled_log, as a filter and as an access logger, Envoy's own access log, and Lua, at several shares. All write to
//! Envoy's standard error, as they are shipped; the harness keeps that in a file.

use anyhow::Context as _;
use real_envoy::Config;
use serde_json::{Map, Value, json};

use super::{Behaviour, FUSED, Module, Setup};
use crate::rival::{self, BASELINE, Rival};
use crate::workload::{Answer, Budget, Kind, PASSED, Probe, Sent, Unfair, Workload, budget, unfair};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "sampled-log", workloads: KINDS, smoke: &["log-10"], prepare };

const NATIVE: &str = "envoy-configs/sampled-log/native.yaml";
const LUA: &str = "envoy-configs/sampled-log/lua.yaml";
const FILTER: &str = "envoy-configs/sampled-log/wasm.yaml";
const LOGGER: &str = "envoy-configs/sampled-log/access-logger.yaml";

/// Envoy's own log at 100 %, whatever the share of the others is.
const NATIVE_ALL: &str = "native-all";

const BUDGETS: &[Budget] = &[budget("lua", 1.0)];

/// Our module that does nothing else, as a filter and as an access logger.
const OURS_ALONE: &str = "sampled_log";
const LOGGING: &str = "sampled_log, access logger";
/// The same with the bound on lines that it ships with.
const BOUNDED: &str = "sampled_log{1000 lines/s}";

const AT_A_SHARE: &[&str] = &[BASELINE, "native", NATIVE_ALL, "lua", OURS_ALONE, LOGGING, FUSED];
const AT_ALL: &[&str] = &[BASELINE, "native", "lua", OURS_ALONE, LOGGING, FUSED];
const IN_A_STORM: &[&str] = &[BASELINE, "native", "lua", OURS_ALONE, LOGGING, FUSED, BOUNDED];

/// What the upstream answers in a storm.
const FAILED: Answer = Answer { status: 503, body: "overloaded" };

const LUA_KNOWS_LESS: Unfair = unfair(
    "lua",
    "it ends when the response begins: its lines have no response flags, bytes, details, nor the time that the whole took",
);
const WRITES_MORE: Unfair = unfair(NATIVE_ALL, "it writes a line for every request: what sampling spares");

const KINDS: &[Kind] = &[
    kind("log-none", "no line is written", &[PASSED], AT_A_SHARE, &[LUA_KNOWS_LESS, WRITES_MORE]),
    kind(
        "log-1",
        "a line is written for a hundredth of the requests",
        &[PASSED],
        AT_A_SHARE,
        &[LUA_KNOWS_LESS, WRITES_MORE],
    ),
    kind(
        "log-10",
        "a line is written for a tenth of the requests",
        &[PASSED],
        AT_A_SHARE,
        &[LUA_KNOWS_LESS, WRITES_MORE],
    ),
    kind("log-all", "a line is written for every request", &[PASSED], AT_ALL, &[LUA_KNOWS_LESS]),
    kind(
        "log-errors",
        "an error storm: the upstream fails every request, and each is logged whatever the share is",
        &[FAILED],
        IN_A_STORM,
        &[LUA_KNOWS_LESS, unfair(BOUNDED, "it writes no more than 1000 lines a second, and counts the rest")],
    ),
];

const fn kind(
    name: &'static str,
    what: &'static str,
    answers: &'static [Answer],
    rivals: &'static [&'static str],
    unfair: &'static [Unfair],
) -> Kind {
    Kind { name, what, answers, rivals, budgets: BUDGETS, unfair }
}

/// Which requests are logged, and with how many lines a second at most.
#[derive(Debug, Clone, Copy)]
struct Lines {
    percent: u32,
    bounded: bool,
}

/// Each workload has a share, and so Envoys, of its own.
fn prepare(kinds: &[&'static Kind], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    kinds.iter().map(|kind| setup(kind, modules)).collect()
}

fn setup(kind: &'static Kind, modules: &[Module]) -> anyhow::Result<Setup> {
    let percent = match kind.name {
        // Of what does not fail.
        "log-none" | "log-errors" => 0,
        "log-1" => 1,
        "log-10" => 10,
        "log-all" => 100,
        name => anyhow::bail!("no workload is called {name:?}"),
    };
    let workload = Workload::of(kind, vec![Sent::plain("/orders?page=2")]);
    let fails = workload.expected == FAILED;
    let probe = Probe {
        // Of shares between, nobody knows which requests are in them.
        logged: match (fails, percent) {
            (true, _) | (_, 100) => Some(true),
            (_, 0) => Some(false),
            _ => None,
        },
        ..Probe::new("a request", Sent::plain("/probe-of-lines"), workload.expected)
    };
    let rivals = rivals(percent, fails, modules)?;
    Ok(Setup { rivals, workloads: vec![workload.probed(vec![probe])] })
}

fn rivals(percent: u32, fails: bool, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let filter = |name: &str, bounded: bool, fused: bool| {
        Rival::new(name, FILTER, |hcm| {
            let filter =
                hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config"));
            let plugin = filter.and_then(|filter| filter.pointer_mut("/config/configuration/value"));
            *plugin.context("the filter has no configuration")? =
                plugin_of(Lines { percent, bounded }, fails);
            if fused { rival::fuse(hcm, "sampled_log", &["proxy_on_log"]) } else { Ok(()) }
        })
    };
    let logger = |name: &str| {
        Rival::new(name, LOGGER, |hcm| {
            let mut logger = access_log(LOGGER, percent)?;
            let plugin = logger.pointer_mut("/typed_config/config/configuration/value");
            *plugin.context("the logger has no configuration")? =
                plugin_of(Lines { percent: 100, bounded: false }, fails);
            hcm.insert("access_log".to_owned(), json!([logger]));
            Ok(())
        })
    };
    let mut rivals = vec![Rival::baseline()?, native("native", percent)?];
    if percent != 100 && !fails {
        rivals.push(native(NATIVE_ALL, 100)?);
    }
    let alone = xtask::modules::ensure("sampled_log")?;
    rivals.extend([
        Rival::new("lua", LUA, |hcm| set_rate(hcm, percent))?,
        filter(OURS_ALONE, false, false)?.with_module(&alone)?,
        logger(LOGGING)?.with_module(&alone)?,
        filter(FUSED, false, true)?.with_module(&xtask::modules::ensure("foregate")?)?,
    ]);
    if fails {
        rivals.push(filter(BOUNDED, true, false)?.with_module(&alone)?);
    }
    for module in modules {
        rivals.push(filter(&module.name, false, false)?.with_module(&module.file)?);
        rivals.push(logger(&format!("{}, access logger", module.name))?.with_module(&module.file)?);
    }
    if fails {
        rivals = rivals.into_iter().map(|rival| rival.answering(FAILED)).collect::<anyhow::Result<_>>()?;
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

fn plugin_of(Lines { percent, bounded }: Lines, fails: bool) -> Value {
    let most = if bounded { json!({ "lines": 1000, "burst": 2000 }) } else { "unlimited".into() };
    let mut plugin = json!({ "percent_sampled": percent, "max_lines_per_second": most });
    if let Some(plugin) = plugin.as_object_mut().filter(|_| fails) {
        plugin.insert("always".to_owned(), json!([{ "status": "5xx" }]));
    }
    plugin
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
    use super::super::assert_is_as_told;
    use super::*;

    #[test]
    fn the_shipped_configurations_take_every_share() {
        for kind in KINDS {
            assert_is_as_told(&setup(kind, &[]).unwrap(), &[kind]);
        }
    }
}
