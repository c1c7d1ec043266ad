//! What does a line for every request cost, and what one for every tenth?

use real_envoy::Config;

use super::pair::{self, of};
use super::{About, Effort, Found};
use crate::cpu::Pinning;
use crate::load::CONNECTIONS;

pub(super) const ABOUT: About = About {
    name: "log-all-or-some",
    what: "Envoy's own access log with a JSON line for every request, and for one in ten, in front of an upstream; \
           sampled_log for one in ten beside it",
    claim: "published claim: a full access log takes more than 20 % of the CPU",
    pair: ["all", "some"],
    differs: "here the log is a file on the machine, of 18 members a line, written every 100 ms; requests have no body and \
              there is no other filter, so that the log's share is as large as it can be.",
};

const FILES: [&str; 4] = ["none", "all", "some", "sampled-log"];

pub(super) async fn run(effort: Effort, pinning: &Pinning) -> anyhow::Result<Found> {
    let upstream = pair::start_upstream(Config::load("benches/experiments/upstream.yaml")?, pinning).await?;
    let running = pair::start_all(ABOUT.name, &FILES, Some(upstream.address), pinning).await?;
    let times = pair::cpu(&running, &pair::plain()?, CONNECTIONS, effort, pinning).await?;
    let (none, all, some, ours) = (of(&times, 0)?, of(&times, 1)?, of(&times, 2)?, of(&times, 3)?);
    let mut found = Found::default();
    found.figure("CPU a request, all lines against one in ten", "us", all, some)?;
    let whole = found.figure("CPU a request, no line against all lines", "us", none, all)?;
    found.figure("CPU a request, no line against one in ten", "us", none, some)?;
    found.figure("CPU a request, no line against one in ten by sampled_log", "us", none, ours)?;
    found.beside("A line for every request", 20.0, whole);
    pair::stop(running.into_iter().chain([upstream]).collect()).await?;
    Ok(found)
}
