//! What shipped configurations allow their modules is all that these need, and nothing else.
//!
//! What a module calls is read from Envoy's trace while it does all that the configuration has it do. Which callbacks it
//! needs, its filter says. A list that has more than both is not minimal; one that has less is not complete.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use filter_api::{Callback, Filter};
use foregate::Foregate;
use foregate_cli::echo::Echo;
use header_rewrite::HeaderRewrite;
use jwt_reject::JwtReject;
use local_rate_limit::LocalRateLimit;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};
use sampled_log::SampledLog;
use serde_json::{Value, json};

use crate::jwt;
use crate::suite::{SOON, hcm_mut, plugin_mut};

const FUSED: &str = "envoy-configs/chain/fused.yaml";
const FUSED_ACCESS_LOGGER: &str = "envoy-configs/chain/fused-access-logger.yaml";
const SEPARATE: &str = "envoy-configs/chain/separate.yaml";

/// Callbacks that no filter declares, since every module has them.
const OF_EVERY_MODULE: [&str; 3] = ["proxy_on_context_create", "proxy_on_configure", "proxy_on_delete"];

/// The shipped file with a key that tokens can be made for, and a limit that can be reached.
fn config(file: &str, upstream: &Echo) -> anyhow::Result<Config> {
    let config = Config::load(file)?.on_free_ports()?.upstream("upstream", upstream.addr())?;
    config.modules(xtask::modules::ensure)?.edit(|bootstrap| {
        let filters = hcm_mut(bootstrap)?.get_mut("http_filters").and_then(Value::as_array_mut);
        for filter in filters.context("http_filters")? {
            let name = filter["name"].as_str().unwrap_or_default().to_owned();
            let Some(value) = filter.pointer_mut("/typed_config/config/configuration/value") else {
                continue;
            };
            match value.get_mut("filters").and_then(Value::as_array_mut) {
                Some(list) => {
                    for entry in list.iter_mut().filter_map(Value::as_object_mut) {
                        entry.iter_mut().try_for_each(|(name, own)| prepare(name, own))?;
                    }
                }
                None => prepare(&name, value)?,
            }
        }
        Ok(())
    })
}

fn prepare(filter: &str, plugin: &mut Value) -> anyhow::Result<()> {
    match filter {
        "jwt_reject" => {
            *plugin.pointer_mut("/providers/main/local_jwks").context("local_jwks")? =
                json!({ "test_keys": ["p256"] });
            jwt::fill_in_keys(plugin)
        }
        "local_rate_limit" => {
            *plugin.pointer_mut("/descriptors/0/token_bucket").context("token_bucket")? =
                json!({ "max_tokens": MOST, "tokens_per_fill": 1, "fill_interval": "86400s" });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Requests for other paths than the open one, until the limit is reached.
const MOST: usize = 5;

/// Only this plugin of the chain, with nothing to restrict it.
fn alone(config: Config, plugin: &str) -> anyhow::Result<Config> {
    config.edit(|bootstrap| {
        plugin_mut(bootstrap, plugin)?
            .remove("capability_restriction_config")
            .context("restricts nothing")?;
        let filters = hcm_mut(bootstrap)?.get_mut("http_filters").and_then(Value::as_array_mut);
        let filters = filters.context("http_filters")?;
        filters.retain(|filter| filter["name"] == plugin || filter["name"] == "envoy.filters.http.router");
        Ok(())
    })
}

/// What the shipped file allows the plugin.
fn allowed(config: &Config, plugin: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut bootstrap = config.value().clone();
    let plugin = plugin_mut(&mut bootstrap, plugin)?;
    let list =
        plugin.get("capability_restriction_config").and_then(|it| it["allowed_capabilities"].as_object());
    Ok(list.context("no list")?.keys().cloned().collect())
}

/// The callbacks that the plugin's configuration needs.
fn needed(config: &Config, plugin: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut bootstrap = config.value().clone();
    let plugin_config = plugin_mut(&mut bootstrap, plugin)?;
    let json = plugin_config.get("configuration").context("configuration")?["value"].to_string();
    let needs = match plugin {
        "foregate" => needs_of::<Foregate>(&json)?,
        "jwt_reject" => needs_of::<JwtReject>(&json)?,
        "local_rate_limit" => needs_of::<LocalRateLimit>(&json)?,
        "header_rewrite" => needs_of::<HeaderRewrite>(&json)?,
        _ => needs_of::<SampledLog>(&json)?,
    };
    Ok(needs.into_iter().map(Callback::export).chain(OF_EVERY_MODULE).map(str::to_owned).collect())
}

fn needs_of<F: Filter>(json: &str) -> anyhow::Result<Vec<Callback>> {
    let filter = F::configure(json.as_bytes()).map_err(|errors| anyhow::anyhow!("{errors}"))?.filter;
    Ok(F::CALLBACKS.iter().copied().filter(|callback| filter.needs(*callback)).collect())
}

fn options(log_levels: &'static str) -> Options<'static> {
    Options { component_log_levels: log_levels, ..Options::default() }
}

/// What the answers were to: an open path, a good token, a forged one, none, and one request too many.
#[derive(Debug, PartialEq)]
struct Seen {
    statuses: Vec<u16>,
    user: Vec<String>,
    told: Vec<String>,
}

/// Has the configuration do all that it does.
async fn exercise(envoy: &Envoy) -> anyhow::Result<Seen> {
    let address = envoy.listener()?;
    let bearer = |token: &str| Request::get("/orders").header("authorization", format!("Bearer {token}"));
    let good = jwt::token::make(&json!({}))?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    let mut statuses = Vec::new();
    // Of an error there is always a line.
    let broken = Request::get("/health").header("x-echo-status", "500");
    let rich = bearer(&good).header("x-internal-a", "1").header("x-echo-header", "x-powered-by: test");
    let rich = client::send(address, &rich).await?;
    for request in [Request::get("/health"), broken, bearer(&good), bearer(&forged), Request::get("/orders")]
    {
        statuses.push(client::send(address, &request).await?.status);
    }
    for _ in 0..MOST {
        client::send(address, &Request::get("/orders")).await?;
    }
    statuses.push(client::send(address, &bearer(&good)).await?.status);
    let seen: Value = serde_json::from_str(&rich.text()).unwrap_or_default();
    let user = seen["headers"].as_array().into_iter().flatten();
    let user = user.filter(|line| line[0] == "x-user").map(|line| line[1].to_string()).collect();
    let told = rich.header("x-content-type-options").iter().map(ToString::to_string).collect();
    Ok(Seen { statuses, user, told })
}

/// What the module calls, by Envoy's trace.
async fn calls(config: &Config) -> anyhow::Result<BTreeSet<String>> {
    let envoy = Envoy::start(config, &options("wasm:trace")).await?;
    exercise(&envoy).await?;
    // The timer fires once a second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let log = envoy.log();
    envoy.stop().await?;
    Ok(called(&log))
}

/// What the module calls where its configuration cannot be used: then it says why.
async fn calls_of_refusal(config: Config, plugin: &str) -> anyhow::Result<BTreeSet<String>> {
    let config = config.edit(|bootstrap| {
        let configuration =
            plugin_mut(bootstrap, plugin)?.get_mut("configuration").context("configuration")?;
        configuration["value"] = json!({ "mistake": true });
        Ok(())
    })?;
    let log = Envoy::expect_refusal(&config, &options("wasm:trace")).await?;
    ensure!(log.contains("unknown field `mistake`"), "it does not say why: {log}");
    Ok(called(&log))
}

/// The calls of the host in a trace, by name.
fn called(log: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in log.lines() {
        let Some((_, call)) = line.split_once("[vm->host] ") else { continue };
        let name = call.split('(').next().and_then(|name| name.split('.').nth(1));
        names.extend(name.map(str::to_owned));
    }
    names
}

/// The list against what is called and what is needed; says what is wrong with it.
async fn check_list(file: &str, plugin: &str) -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let config = config(file, &echo)?;
    let allowed = allowed(&config, plugin)?;
    let mut used = needed(&config, plugin)?;
    let alone = alone(config, plugin)?;
    used.extend(calls(&alone).await?);
    used.extend(calls_of_refusal(alone, plugin).await?);
    let missing: Vec<_> = used.difference(&allowed).collect();
    let idle: Vec<_> = allowed.difference(&used).collect();
    ensure!(
        missing.is_empty() && idle.is_empty(),
        "{plugin} of {file}: missing {missing:?}, not needed {idle:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lists_of_the_fused_chains_are_complete_and_minimal() -> anyhow::Result<()> {
    check_list(FUSED, "foregate").await?;
    check_list(FUSED_ACCESS_LOGGER, "foregate").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lists_of_the_separate_modules_are_complete_and_minimal() -> anyhow::Result<()> {
    for plugin in ["local_rate_limit", "jwt_reject", "header_rewrite", "sampled_log"] {
        check_list(SEPARATE, plugin).await?;
    }
    Ok(())
}

/// All that a chain does, it does within its list.
#[tokio::test(flavor = "multi_thread")]
async fn within_their_lists_all_chains_do_all_they_do() -> anyhow::Result<()> {
    for file in [FUSED, FUSED_ACCESS_LOGGER, SEPARATE] {
        let echo = Echo::start("127.0.0.1:0".parse()?).await?;
        let envoy = Envoy::start(&config(file, &echo)?, &options("wasm:info")).await?;
        let seen = exercise(&envoy).await?;
        assert_eq!(seen.statuses, [200, 500, 200, 401, 401, 429], "{file}");
        assert_eq!((seen.user.len(), seen.told.concat().as_str()), (1, "nosniff"), "{file}");
        envoy.wait_for_log("\"status\":500", SOON).await.context(file)?;
        // The log level is asked for at every tick: an operator who turns it up sees why requests are refused.
        envoy.admin_post("/logging?wasm=debug").await?;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        client::send(envoy.listener()?, &Request::get("/orders")).await?;
        envoy.wait_for_log("local_rate_limit: refused: per-client", SOON).await.context(file)?;
        for sign in ["host_failure", "refused the counter", "allow "] {
            assert!(!envoy.log().contains(sign), "{file}: {sign}: {}", envoy.log());
        }
        envoy.stop().await?;
    }
    Ok(())
}
