//! What experiments have in common: Envoys with configurations of their own, an upstream, and CPU time in turns.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use real_envoy::Config;

use super::Effort;
use crate::cpu::{self, Pinning};
use crate::load::{self, Requests};
use crate::rival::{Rival, Running};
use crate::statistics::Numbers;
use crate::workload::{PASSED, Sent};

/// The configuration of that name in the folder of an experiment, with the modules that it loads.
pub(super) fn config(experiment: &str, name: &str) -> anyhow::Result<Config> {
    let config = Config::load(format!("benches/experiments/{experiment}/{name}.yaml"))?;
    if config.value().to_string().contains(".wasm\"") {
        config.modules(xtask::modules::ensure)
    } else {
        Ok(config)
    }
}

/// Starts an Envoy with a configuration.
pub(super) async fn start(name: &str, config: Config, pinning: &Pinning) -> anyhow::Result<Running> {
    Rival::of(name, config)?.start(pinning).await
}

/// Starts those of an experiment, in front of that upstream.
pub(super) async fn start_all(
    experiment: &str,
    names: &[&str],
    upstream: Option<SocketAddr>,
    pinning: &Pinning,
) -> anyhow::Result<Vec<Running>> {
    let mut running = Vec::with_capacity(names.len());
    for name in names {
        let mut config = config(experiment, name)?;
        if let Some(address) = upstream {
            config = config.upstream("upstream", address)?;
        }
        running.push(start(name, config, pinning).await?);
    }
    Ok(running)
}

/// Starts what stands behind them, on the load's core: Envoy's is to have nothing but Envoy.
pub(super) async fn start_upstream(config: Config, pinning: &Pinning) -> anyhow::Result<Running> {
    let upstream = start("upstream", config, pinning).await?;
    pinning.apply_to_upstream(upstream.envoy.pid())?;
    Ok(upstream)
}

/// Ends all of them.
pub(super) async fn stop(all: Vec<Running>) -> anyhow::Result<()> {
    for running in all {
        running.envoy.stop().await?;
    }
    Ok(())
}

/// A plain request that is let through.
pub(super) fn plain() -> anyhow::Result<Arc<Requests>> {
    requests(&[Sent::plain("/orders/17")])
}

/// These requests, which are let through if they say nothing else.
pub(super) fn requests(all: &[Sent]) -> anyhow::Result<Arc<Requests>> {
    Ok(Arc::new(Requests::from_sent(all, |sent| sent.expected.unwrap_or(PASSED))?))
}

/// The CPU time that a request takes of each Envoy, in microseconds, by round. All are warm when the first begins, and have
/// their turns in an order that chance picks.
pub(super) async fn cpu(
    all: &[Running],
    requests: &Arc<Requests>,
    connections: usize,
    effort: Effort,
    pinning: &Pinning,
) -> anyhow::Result<Vec<Vec<f64>>> {
    for running in all {
        let warm = load::run_over(connections, running.address, requests, effort.warm_up).await;
        warm.with_context(|| format!("{}, before the first round", running.name))?;
        // Threads that it has started since.
        running.pin(pinning)?;
    }
    let mut times = vec![Vec::with_capacity(effort.rounds); all.len()];
    let mut orders = Numbers(effort.rounds as u64);
    for round in 1..=effort.rounds {
        for place in orders.shuffled(all.len()) {
            let (Some(running), Some(times)) = (all.get(place), times.get_mut(place)) else { continue };
            let before = cpu::nanoseconds(running.envoy.pid())?;
            let turn = load::run_over(connections, running.address, requests, effort.requests).await;
            turn.with_context(|| format!("{}, round {round}", running.name))?;
            let used = cpu::nanoseconds(running.envoy.pid())?.saturating_sub(before);
            times.push(used as f64 / 1000.0 / effort.requests as f64);
        }
    }
    Ok(times)
}

/// The values of the one in that place.
pub(super) fn of(times: &[Vec<f64>], place: usize) -> anyhow::Result<&[f64]> {
    times.get(place).map(Vec::as_slice).with_context(|| format!("nothing was measured of number {place}"))
}
