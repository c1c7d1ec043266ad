//! Lines that are sent to a collector which is well, slow, fails, says no, is gone and comes back: every line arrives
//! once or is counted as lost, and no request is any the worse for it.

mod collector;
mod courses;
mod ending;
mod formats;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use real_envoy::client::Request;
use real_envoy::{Config, Options};
use serde_json::{Value, json};

use self::collector::Collector;
use super::{SAMPLED_LOG, end, start_with};
use crate::suite::{Behaviour, Gateway, SOON, crowd, plugin_mut, statuses};

const CONNECTIONS: usize = 8;

/// A configuration that logs everything, to this sink; `settings` are members of `sink.http`.
fn plugin(settings: &Value) -> Value {
    let mut http = json!({ "cluster": "collector", "flush_interval": "0.1s" });
    for (name, value) in settings.as_object().unwrap() {
        http[name] = value.clone();
    }
    json!({
        "percent_sampled": 100,
        "max_lines_per_second": "unlimited",
        "additional_fields": { "number": "%REQ(x-number)%" },
        "sink": { "http": http },
    })
}

/// With a cluster `collector` at this address.
fn with_collector(config: Config, addr: SocketAddr) -> anyhow::Result<Config> {
    let (host, port) = (addr.ip().to_string(), addr.port());
    config.edit(|value| {
        let clusters = value.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut);
        clusters.context("no clusters")?.push(json!({
            "name": "collector",
            "type": "STATIC",
            "connect_timeout": "1s",
            "load_assignment": { "cluster_name": "collector", "endpoints": [{ "lb_endpoints": [{ "endpoint": {
                "address": { "socket_address": { "address": host, "port_value": port } },
            } }] }] },
        }));
        Ok(())
    })
}

async fn start(addr: SocketAddr, settings: &Value) -> anyhow::Result<Gateway> {
    start_on(addr, settings, &Gateway::options()).await
}

async fn start_on(addr: SocketAddr, settings: &Value, options: &Options<'_>) -> anyhow::Result<Gateway> {
    start_with(&plugin(settings), options, |config| with_collector(config, addr)).await
}

/// Sends so many requests on each of the connections, numbered from `first` on; all are answered with 200, and none
/// takes long.
async fn send(gateway: &Gateway, first: usize, each: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    let counts = crowd(gateway.addr()?, CONNECTIONS, move |connection, number| {
        let request =
            Request::get("/orders").header("x-number", (first + connection * each + number).to_string());
        (number < each).then(|| request.limit(Duration::from_secs(1)))
    })
    .await?;
    assert_eq!(counts, statuses(&[(200, CONNECTIONS * each)]));
    println!("{} requests took {:?}", CONNECTIONS * each, begun.elapsed());
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    Ok(())
}

async fn wait_for(gateway: &Gateway, counter: &str, count: u64) -> anyhow::Result<()> {
    let name = format!("{}{counter}", SAMPLED_LOG.counters);
    gateway.envoy.wait_for_stat(&name, |found| found == count, 3 * SOON).await?;
    Ok(())
}

/// Counters: lines decided for, sent, and lost because the queue was full, after trying, and because they were refused.
async fn counted(gateway: &Gateway) -> anyhow::Result<[u64; 5]> {
    let counters = gateway.counters().await?;
    let names =
        ["lines.why.sampled", "sent", "lost.reason.queue_full", "lost.reason.gave_up", "lost.reason.refused"];
    Ok(names.map(|name| counters[name]))
}

/// Lines of the filter's in Envoy's log that tell of lost ones.
fn complaints(gateway: &Gateway) -> Vec<String> {
    let log = gateway.envoy.log();
    log.lines().filter(|line| line.contains("sampled_log: sink.http")).map(str::to_owned).collect()
}

/// Where nobody listens.
async fn nobody() -> anyhow::Result<SocketAddr> {
    Ok(tokio::net::TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

fn all(count: usize) -> Vec<u64> {
    (0..count as u64).collect()
}
