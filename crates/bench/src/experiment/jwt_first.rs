//! Is an attack cheaper where tokens are checked before anything else?

use anyhow::Context as _;
use real_envoy::Config;
use serde_json::Value;

use super::pair::{self, of};
use super::{About, Effort, Found};
use crate::behaviour::attack;
use crate::behaviour::jwt_reject::tokens::{Algorithm, Keys, forged};
use crate::behaviour::jwt_reject::{FORGED, MISSING, set_keys};
use crate::cpu::Pinning;
use crate::load::CONNECTIONS;
use crate::workload::Sent;

pub(super) const ABOUT: About = About {
    name: "jwt-first",
    what: "An attack (no token, malformed, expired and forged ones) on a gateway that checks tokens after everything else, \
           and on one that checks them first: limit, token, headers and log, as four modules and in one",
    claim: "published claim: rejecting bad tokens first takes 40 % less CPU under attack",
    pair: ["last", "first"],
    differs: "here nothing stands ahead of the token but a limit and edits of headers, which cost microseconds; where \
              something does that asks another service or reads bodies, refusing before it saves more. Refused requests \
              are logged in both orders.",
};

/// Tokens that are forged and not seen before: more than a run sends.
const NEVER_SEEN: usize = 60_000;
const FILES: [&str; 4] = ["last", "first", "fused-last", "fused-first"];

pub(super) async fn run(effort: Effort, pinning: &Pinning) -> anyhow::Result<Found> {
    let keys = Keys::make()?;
    let jwks = keys.jwks();
    let good = keys.good(Algorithm::Rs256, 0)?;
    let mut running = Vec::new();
    for name in FILES {
        let config = with_keys(pair::config(ABOUT.name, name)?, &jwks)?;
        running.push(pair::start(name, config, pinning).await?);
    }
    let sent = || Sent::plain("/orders/17");
    let forged: Vec<Sent> = (0..NEVER_SEEN)
        .map(|number| {
            let token = format!("Bearer {}", forged(&good, number)?);
            Ok(sent().with("authorization", token).answered(FORGED))
        })
        .collect::<anyhow::Result<_>>()?;
    let traffics = [
        ("an attack of four kinds", attack(&good, &keys.expired(Algorithm::Rs256)?)?),
        ("no token", vec![sent()]),
        ("forged tokens not seen before", forged),
    ];
    let mut found = Found::default();
    for (what, mut traffic) in traffics {
        for sent in &mut traffic {
            // What the gateway answers if the request itself does not say.
            sent.expected.get_or_insert(MISSING);
        }
        let times = pair::cpu(&running, &pair::requests(&traffic)?, CONNECTIONS, effort, pinning).await;
        let times = times.with_context(|| what.to_owned())?;
        for (place, modules) in [(0, "four modules"), (2, "one module")] {
            let title = format!("CPU a request, {modules}, {what}");
            let change = found.figure(&title, "us", of(&times, place)?, of(&times, place + 1)?)?;
            if what == "an attack of four kinds" {
                found.beside(&title, -40.0, change);
            }
        }
    }
    pair::stop(running).await?;
    Ok(found)
}

/// The same with keys for which there are tokens.
fn with_keys(config: Config, jwks: &str) -> anyhow::Result<Config> {
    config.edit(|bootstrap| {
        let hcm =
            bootstrap.pointer_mut("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config");
        set_keys(hcm.and_then(Value::as_object_mut).context("no HTTP connection manager")?, jwks, None)
    })
}
