//! What a request costs in calls of the host, by Envoy's own trace of them.

use std::collections::BTreeMap;

use real_envoy::Options;
use real_envoy::client::{Client, Http, Request};

use super::Gateway;

/// How an Envoy runs whose calls are counted: one worker, and a line for each.
pub(crate) fn traced() -> Options<'static> {
    Options { concurrency: 1, component_log_levels: "wasm:trace", ..Gateway::options() }
}

/// The calls, by name, that this request takes until the access log has it. It is sent twice, and is asked about the second time:
/// what is done once is no part of what a request costs.
pub(crate) async fn host_calls(
    gateway: &Gateway,
    request: &Request,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut client = Client::connect(gateway.addr()?, Http::H1).await?;
    client.send(&request.clone().header("x-case", "1")).await?;
    gateway.details(1).await?;
    let before = gateway.envoy.log().len();
    client.send(&request.clone().header("x-case", "2")).await?;
    gateway.details(2).await?;
    let log = gateway.envoy.log();
    let mut calls = BTreeMap::new();
    // A timer may fire in between, which asks for the log level.
    for line in log.get(before..).unwrap_or_default().lines().filter(|line| line.contains("[vm->host]")) {
        let name = line.split("env.proxy_").nth(1).and_then(|rest| rest.split('(').next());
        if let Some(name) = name.filter(|name| !["get_log_level", "log"].contains(name)) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    Ok(calls)
}
