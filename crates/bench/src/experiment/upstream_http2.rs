//! How many connections does an upstream see over HTTP/1.1 and over HTTP/2, and what do they cost?

use anyhow::Context as _;

use super::pair::{self, of};
use super::{About, Effort, Found};
use crate::cpu::{self, Pinning};
use crate::load;
use crate::statistics::Numbers;

pub(super) const ABOUT: About = About {
    name: "upstream-http2",
    what: "200 clients with a request each under way, in front of an upstream that takes 10 ms, spoken to over HTTP/1.1 and \
           over HTTP/2",
    claim: "published claim: connections 1,800 to 87, and 65 % less CPU for connections",
    pair: ["http1", "http2"],
    differs: "here one worker speaks to one upstream over loopback without TLS, and connections stay open: the claim is of a \
              fleet, where each worker of each gateway has a connection to each upstream, and its CPU is that of making \
              connections, most likely with TLS, and not of requests.",
};

/// Clients at a time.
const CLIENTS: usize = 200;
const FILES: [&str; 2] = ["http1", "http2"];

pub(super) async fn run(effort: Effort, pinning: &Pinning) -> anyhow::Result<Found> {
    let upstream = pair::start_upstream(pair::config(ABOUT.name, "upstream")?, pinning).await?;
    let running = pair::start_all(ABOUT.name, &FILES, Some(upstream.address), pinning).await?;
    // Enough that each client has some.
    let effort = Effort { requests: effort.requests.max(10 * CLIENTS), ..effort };
    let requests = pair::plain()?;
    let times = pair::cpu(&running, &requests, CLIENTS, effort, pinning).await?;
    let mut connections = Vec::new();
    for running in &running {
        let opened = running.envoy.stat("cluster.upstream.upstream_cx_total").await?;
        connections.push([opened as f64]);
    }
    // The same turns again, for what the upstream takes of them.
    let mut behind = vec![Vec::new(); running.len()];
    let mut orders = Numbers(1);
    for _ in 0..effort.rounds {
        for place in orders.shuffled(running.len()) {
            let (Some(running), Some(behind)) = (running.get(place), behind.get_mut(place)) else { continue };
            let before = cpu::nanoseconds(upstream.envoy.pid())?;
            load::run_over(CLIENTS, running.address, &requests, effort.requests).await?;
            let used = cpu::nanoseconds(upstream.envoy.pid())?.saturating_sub(before);
            behind.push(used as f64 / 1000.0 / effort.requests as f64);
        }
    }
    let mut found = Found::default();
    let (one, two) = (connections.first(), connections.get(1));
    let (one, two) = (one.context("no connections")?, two.context("no connections")?);
    let change = found.figure("connections opened to the upstream", "", one, two)?;
    found.beside("Connections", -95.2, change);
    let change = found.figure("CPU a request, gateway", "us", of(&times, 0)?, of(&times, 1)?)?;
    found.beside("CPU of the gateway, for all of a request", -65.0, change);
    let change = found.figure("CPU a request, upstream", "us", of(&behind, 0)?, of(&behind, 1)?)?;
    found.beside("CPU of the upstream, for all of a request", -65.0, change);
    pair::stop(running.into_iter().chain([upstream]).collect()).await?;
    Ok(found)
}
