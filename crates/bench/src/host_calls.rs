//! How many calls of the host a request takes, by Envoy's own trace of them.
//!
//! Envoy writes a line for each call from a module to itself, of proxy-wasm's and of WASI's, at the level `trace` of
//! its logger `wasm`. A module that asks for the level and then writes more lines itself would count these, too, so
//! that `proxy_get_log_level` and `proxy_log` are left out: a line that is written as the filter's job is not counted.

use std::time::Duration;

use crate::load::{Connection, Requests};
use crate::rival::Running;
use crate::statistics::median;

/// Requests that are looked at. What comes between them, such as a timer, moves no median.
const REQUESTS: usize = 5;
/// Until the log has all of a request, and a module has learned that the level changed (it asks once a second).
const WRITTEN: Duration = Duration::from_millis(20);

/// The median of a few requests, sent one after the other.
pub(crate) async fn count(running: &Running, requests: &Requests) -> anyhow::Result<Option<f64>> {
    running.envoy.admin_post("/logging?wasm=trace").await?;
    let counted = each(running, requests).await;
    running.envoy.admin_post("/logging?wasm=info").await?;
    Ok(median(&counted?))
}

async fn each(running: &Running, requests: &Requests) -> anyhow::Result<Vec<f64>> {
    let mut connection = Connection::open(running.address).await?;
    let mut counted = Vec::new();
    for _ in 0..REQUESTS {
        let before = running.envoy.log().len();
        connection.exchange(requests).await?;
        tokio::time::sleep(WRITTEN).await;
        counted.push(calls(running.envoy.log().get(before..).unwrap_or_default()) as f64);
    }
    Ok(counted)
}

/// The calls in a part of a log.
fn calls(log: &str) -> usize {
    let name = |line: &str| {
        let (_, call) = line.split_once("[vm->host] ")?;
        let (name, _) = call.split_once('(')?;
        let (_, name) = name.rsplit_once('.')?;
        Some(!["proxy_get_log_level", "proxy_log"].contains(&name))
    };
    log.lines().filter_map(name).filter(|counts| *counts).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_host_are_counted_and_nothing_else() {
        let log = "[2026][12][trace][wasm] [x.h:1] [host->vm] proxy_on_request_headers(2, 9, 1)\n\
                   [2026][12][trace][wasm] [x.h:1] [vm->host] env.proxy_get_header_map_pairs(0, 1, 2)\n\
                   [2026][12][trace][wasm] [x.h:1] [vm<-host] env.proxy_get_header_map_pairs return: 0\n\
                   [2026][12][trace][wasm] [x.h:1] [vm->host] env.proxy_get_log_level(1)\n\
                   [2026][12][trace][wasm] [x.h:1] [vm->host] env.proxy_log(1, 2, 3)\n\
                   [2026][12][trace][wasm] [x.h:1] [vm->host] wasi_snapshot_preview1.random_get(1, 2)\n\
                   [2026][12][debug][wasm] a line that says [vm->host] and no more\n";
        assert_eq!(calls(log), 2);
    }
}
