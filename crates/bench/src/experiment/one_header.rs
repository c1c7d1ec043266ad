//! What does the same work on headers cost natively, as a Wasm module and in Lua?

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use real_envoy::client::{self, Request};

use super::pair::{self, of};
use super::{About, Effort, Found};
use crate::cpu::Pinning;
use crate::latency::{self, Mode, Outcome};
use crate::load::{CONNECTIONS, Requests};
use crate::rival::Running;
use crate::statistics::Numbers;

pub(super) const ABOUT: About = About {
    name: "one-header-three-ways",
    what: "A header set on the request and one on the response by Envoy's header_mutation, by header_rewrite (Wasm) and by \
           Lua: latency at half of what an Envoy without a filter can answer, and CPU",
    claim: "published claim: latency over native is +33 % with Wasm and +167 % with Lua",
    pair: ["native", "Wasm or Lua"],
    differs: "here Envoy answers by itself, so that there is no time of an upstream in the figures, and load and Envoy have a \
              core each of one machine; the claim does not say what its filters did.",
};

const FILES: [&str; 4] = ["none", "native", "wasm", "lua"];

pub(super) async fn run(effort: Effort, pinning: &Pinning) -> anyhow::Result<Found> {
    let running = pair::start_all(ABOUT.name, &FILES, None, pinning).await?;
    for running in &running {
        does_the_job(running).await?;
    }
    let requests = pair::plain()?;
    let cpu = pair::cpu(&running, &requests, CONNECTIONS, effort, pinning).await?;
    let held = held(&running, &requests, effort).await?;
    let latency = |place: usize, of: fn(&Outcome) -> f64| -> Vec<f64> {
        held.get(place).into_iter().flatten().map(of).collect()
    };
    let mut found = Found::default();
    for (place, who, claimed) in [(2, "Wasm", 33.0), (3, "Lua", 167.0)] {
        let percentiles: [Percentile; 2] = [("p50", |it| it.latency.p50), ("p99", |it| it.latency.p99)];
        for (percentile, value) in percentiles {
            let title = format!("latency {percentile}, native against {who}");
            let change = found.figure(&title, "us", &latency(1, value), &latency(place, value))?;
            found.beside(&title, claimed, change);
        }
        found.figure(
            &format!("CPU a request, native against {who}"),
            "us",
            of(&cpu, 1)?,
            of(&cpu, place)?,
        )?;
    }
    found.figure("CPU a request, no filter against native", "us", of(&cpu, 0)?, of(&cpu, 1)?)?;
    pair::stop(running).await?;
    Ok(found)
}

/// What it is called, and where it is.
type Percentile = (&'static str, fn(&Outcome) -> f64);

/// Whether the header of the response is there; without that there is nothing to compare.
async fn does_the_job(running: &Running) -> anyhow::Result<()> {
    let response = client::send(running.address, &Request::get("/orders/17")).await?;
    let expected: &[&str] = if running.name == "none" { &[] } else { &["foregate"] };
    let found = response.header("x-served-by");
    ensure!(found == expected, "{}: x-served-by is {found:?} and not {expected:?}", running.name);
    Ok(())
}

/// Half of the rate that the first answers at its fastest, held with each, by round.
async fn held(
    all: &[Running],
    requests: &Arc<Requests>,
    effort: Effort,
) -> anyhow::Result<Vec<Vec<Outcome>>> {
    let first = all.first().context("there is no Envoy")?;
    let fastest = latency::run(first.address, requests, Mode::Closed, effort.held).await?;
    let rate = Mode::Held(fastest.requests_per_second / 2.0);
    let mut outcomes = vec![Vec::new(); all.len()];
    let mut orders = Numbers(effort.long_rounds as u64);
    for round in 1..=effort.long_rounds {
        for place in orders.shuffled(all.len()) {
            let (Some(running), Some(outcomes)) = (all.get(place), outcomes.get_mut(place)) else { continue };
            let outcome = latency::run(running.address, requests, rate, effort.held).await;
            outcomes.push(outcome.with_context(|| format!("{}, latency, round {round}", running.name))?);
        }
    }
    Ok(outcomes)
}
