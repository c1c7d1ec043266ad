//! sampled_log against the real Envoy.

/// For each of these checks a test with the filter in its own module, and some with it in a list of filters.
macro_rules! in_lists {
    ($($check:ident: $($place:ident $setup:ident),+;)+) => {
        $(mod $check {
            #[tokio::test(flavor = "multi_thread")]
            async fn alone() -> anyhow::Result<()> {
                super::$check(None).await
            }

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $place() -> anyhow::Result<()> {
                super::$check(Some($crate::suite::Setup::$setup)).await
            })+
        })+
    };
}

mod access_log_sink;
mod access_logger;
mod configurations;
mod fields;
mod forgery;
mod http_sink;
mod module;
mod operation;
mod redaction;
mod rivals;
mod sampling;
mod storm;
mod streams;

use anyhow::{Context as _, bail};
use real_envoy::{Config, Envoy, Options};
use serde_json::Value;

use crate::suite::{Behaviour, Gateway, SOON, Setup, hcm_mut, insert_filter};

/// What the runner must know of the filter.
pub(crate) const SAMPLED_LOG: Behaviour = Behaviour {
    folder: "sampled-log",
    config: "envoy-configs/sampled-log/wasm.yaml",
    plugin: "sampled_log",
    counters: "wasmcustom.foregate.sampled_log.",
    make: |_| bail!("no values are made for these cases"),
    complete: |_| Ok(()),
    idle: r#"{ "percent_sampled": 100 }"#,
};

/// The shipped gateway with this configuration of the plugin.
async fn start(plugin: &Value) -> anyhow::Result<Gateway> {
    start_with(plugin, &Gateway::options(), Ok).await
}

/// The same with the filter in a list, if that is given.
async fn start_in(setup: Option<Setup>, plugin: &Value) -> anyhow::Result<Gateway> {
    start_with(plugin, &Gateway::options(), |config| in_setup(setup, config)).await
}

fn in_setup(setup: Option<Setup>, config: Config) -> anyhow::Result<Config> {
    match setup {
        Some(setup) => setup.apply(config, &SAMPLED_LOG),
        None => Ok(config),
    }
}

/// The same with other options, and whatever else is to change.
async fn start_with(
    plugin: &Value,
    options: &Options<'_>,
    change: impl FnOnce(Config) -> anyhow::Result<Config>,
) -> anyhow::Result<Gateway> {
    Gateway::start_with(&SAMPLED_LOG, options, |config| {
        change(config.plugin_configuration(SAMPLED_LOG.plugin, plugin)?)
    })
    .await
}

/// The routes of the only virtual host.
fn set_routes(bootstrap: &mut Value, routes: Value) -> anyhow::Result<()> {
    let config = hcm_mut(bootstrap)?.get_mut("route_config").context("route_config")?;
    *config.pointer_mut("/virtual_hosts/0/routes").context("routes")? = routes;
    Ok(())
}

/// A chain with the first filter of another shipped configuration in it, at this place.
fn insert(config: Config, of: &Behaviour, plugin: &Value, place: usize) -> anyhow::Result<Config> {
    let shipped = Config::load(of.config)?.modules(xtask::modules::ensure)?;
    let mut filter = None;
    shipped.plugin_configuration(of.plugin, plugin)?.edit(|value| {
        filter = hcm_mut(value)?["http_filters"].as_array().and_then(|filters| filters.first().cloned());
        Ok(())
    })?;
    insert_filter(config, filter.context(of.plugin)?, place)
}

/// Every line of Envoy's log that is the filter's to write: what stands behind Envoy's own prefix, as JSON. What is
/// not JSON is an error.
pub(crate) fn lines(envoy: &Envoy) -> anyhow::Result<Vec<Value>> {
    let log = envoy.log();
    let texts = log.lines().filter_map(|line| line.split_once("] wasm log ")?.1.split_once(": {"));
    texts
        .map(|(_, rest)| {
            serde_json::from_str(&format!("{{{rest}")).with_context(|| format!("not JSON: {rest}"))
        })
        .collect()
}

/// Waits until there are as many lines as `enough` wants, and returns all.
pub(crate) async fn lines_when(
    envoy: &Envoy,
    enough: impl Fn(&[Value]) -> bool,
) -> anyhow::Result<Vec<Value>> {
    let waiting = async {
        loop {
            // The last line may be half written.
            if let Ok(lines) = lines(envoy)
                && enough(&lines)
            {
                return lines;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(SOON, waiting).await {
        Ok(lines) => Ok(lines),
        Err(_) => bail!("the lines do not come; there are {:?}", lines(envoy)),
    }
}

/// The only line whose field `name` has this value.
pub(crate) async fn line_of(envoy: &Envoy, name: &str, value: &Value) -> anyhow::Result<Value> {
    let own = |lines: &[Value]| lines.iter().filter(|line| line[name] == *value).cloned().collect::<Vec<_>>();
    let all = lines_when(envoy, |lines| !own(lines).is_empty()).await?;
    let [line] = own(&all).try_into().map_err(|lines| anyhow::anyhow!("several lines: {lines:?}"))?;
    Ok(line)
}

/// Ends a gateway that nothing went wrong in.
async fn end(gateway: Gateway) -> anyhow::Result<()> {
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// That a number of chosen ones is likely: within four standard deviations.
fn assert_likely(chosen: usize, of: usize, rate: f64) {
    let (chosen, of) = (f64::from(u32::try_from(chosen).unwrap()), f64::from(u32::try_from(of).unwrap()));
    let deviation = (of * rate * (1.0 - rate)).sqrt();
    assert!((chosen - of * rate).abs() <= 4.0 * deviation, "{chosen} of {of} at {rate}");
}
