//! Timing one workload: rounds in which every implementation has its turn, in an order that chance picks, so that
//! what disturbs the machine for a while disturbs all of them. Many short rounds do better at that than a few
//! long ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde::Serialize;

use crate::cpu::{self, Pinning};
use crate::load::{self, Requests};
use crate::rival::Running;
use crate::statistics::{self, Estimate, Numbers};
use crate::workload::{Budget, Workload};

/// How much is measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Amount {
    /// Rounds, in each of which every implementation has its turn.
    pub(crate) rounds: usize,
    /// Requests in a turn.
    pub(crate) requests: usize,
    /// Requests before the first round: until V8 has compiled what is hot, and caches are full.
    pub(crate) warm_up: usize,
}

/// What was measured with one workload.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) budgets: &'static [Budget],
    /// In the order of their turns; the baseline first.
    pub(crate) rivals: Vec<Turns>,
    /// Who does not do this job, and what it got wrong.
    pub(crate) left_out: BTreeMap<String, String>,
}

/// One implementation's turns.
#[derive(Debug, Serialize)]
pub(crate) struct Turns {
    pub(crate) name: String,
    /// Whether it is a build of a module of ours, which has budgets.
    pub(crate) ours: bool,
    /// Envoy's CPU time, in nanoseconds, of all requests of each turn.
    pub(crate) cpu_nanoseconds: Vec<u64>,
    /// How long each turn took, in nanoseconds.
    pub(crate) wall_nanoseconds: Vec<u64>,
    /// Requests in each turn.
    pub(crate) requests: usize,
    /// By how much the filters' counters rose, over all turns.
    pub(crate) counted: BTreeMap<String, u64>,
}

impl Turns {
    /// Envoy's CPU time a request, in microseconds, by round.
    pub(crate) fn per_request(&self) -> Vec<f64> {
        self.cpu_nanoseconds.iter().map(|total| *total as f64 / 1000.0 / self.requests as f64).collect()
    }

    /// The share of requests whose token was remembered, by whoever counts that.
    pub(crate) fn remembered(&self) -> Option<f64> {
        const HITS: [&str; 3] = ["cache.result.hit", "cache.result.forged", "jwt_authn.jwt_cache_hit"];
        let counts = |names: &[&str]| -> u64 {
            let named = self.counted.iter().filter(|(name, _)| names.iter().any(|end| name.ends_with(end)));
            named.map(|(_, count)| count).sum()
        };
        let hits = counts(&HITS);
        let asked = hits + counts(&["cache.result.miss", "jwt_authn.jwt_cache_miss"]);
        let all = (self.requests * self.cpu_nanoseconds.len()) as f64;
        (asked > 0).then_some(hits as f64 / all)
    }
}

impl Measured {
    pub(crate) fn rival(&self, name: &str) -> Option<&Turns> {
        self.rivals.iter().find(|rival| rival.name == name)
    }

    /// What it costs over the baseline in the same round, in microseconds a request.
    pub(crate) fn marginal(&self, rival: &Turns) -> Vec<f64> {
        let baseline = self.rivals.first().map(Turns::per_request).unwrap_or_default();
        rival.per_request().iter().zip(&baseline).map(|(own, base)| own - base).collect()
    }

    /// How many times as much it costs as another one, both over the baseline. None where the other one
    /// cannot be told from the baseline: a multiple of nothing says nothing.
    pub(crate) fn ratio(&self, rival: &Turns, other: &str) -> Option<Estimate> {
        let other = self.marginal(self.rival(other)?);
        statistics::estimate(&other).filter(|cost| cost.low > 0.0)?;
        statistics::ratio(&self.marginal(rival), &other)
    }
}

/// Checks who does the job, and times those.
pub(crate) async fn workload(
    workload: &Workload,
    rivals: &[Running],
    amount: Amount,
    pinning: &Pinning,
) -> anyhow::Result<Measured> {
    let mut left_out = BTreeMap::new();
    let mut turns = Vec::new();
    for running in rivals {
        match running.wrong(&workload.probes).await? {
            Some(wrong) if running.is_baseline() => bail!("{}: {}: {wrong}", running.name, workload.name),
            Some(wrong) => drop(left_out.insert(running.name.clone(), wrong)),
            None => turns.push((
                running,
                Turns {
                    name: running.name.clone(),
                    ours: running.ours,
                    cpu_nanoseconds: Vec::new(),
                    wall_nanoseconds: Vec::new(),
                    requests: amount.requests,
                    counted: BTreeMap::new(),
                },
                Arc::new(Requests::of(workload)?),
            )),
        }
    }
    for (running, turns, requests) in &mut turns {
        let expected = running.expected(workload.expected);
        let warm = load::run(running.address, requests, amount.warm_up, expected).await;
        warm.with_context(|| format!("{}: {}", running.name, workload.name))?;
        // Threads that it has started since.
        pinning.apply(running.envoy.pid())?;
        turns.counted = running.counters().await?;
    }
    let mut orders = Numbers(amount.rounds as u64);
    for _ in 0..amount.rounds {
        // Whose turn comes after whose matters: what ran before leaves its mark on the caches of the processor.
        for place in orders.shuffled(turns.len()) {
            let Some((running, turns, requests)) = turns.get_mut(place) else { continue };
            let expected = running.expected(workload.expected);
            let (cpu, wall) = (cpu::nanoseconds(running.envoy.pid())?, Instant::now());
            let turn = load::run(running.address, requests, amount.requests, expected).await;
            turn.with_context(|| format!("{}: {}", running.name, workload.name))?;
            turns.wall_nanoseconds.push(u64::try_from(wall.elapsed().as_nanos()).unwrap_or(u64::MAX));
            turns.cpu_nanoseconds.push(cpu::nanoseconds(running.envoy.pid())?.saturating_sub(cpu));
        }
    }
    for (running, turns, _) in &mut turns {
        let before = std::mem::take(&mut turns.counted);
        let rose = |(name, now): (String, u64)| {
            let by = now - before.get(&name).copied().unwrap_or_default();
            (by > 0).then_some((name, by))
        };
        turns.counted = running.counters().await?.into_iter().filter_map(rose).collect();
    }
    let rivals = turns.into_iter().map(|(_, turns, _)| turns).collect();
    Ok(Measured { name: workload.name, what: workload.what, budgets: workload.budgets, rivals, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(name: &str, microseconds: &[u64]) -> Turns {
        Turns {
            name: name.to_owned(),
            ours: name == "jwt_reject",
            cpu_nanoseconds: microseconds.iter().map(|each| each * 1000 * 10).collect(),
            wall_nanoseconds: vec![1; microseconds.len()],
            requests: 10,
            counted: BTreeMap::new(),
        }
    }

    fn measured() -> Measured {
        let rivals = vec![turns("baseline", &[30, 31, 50]), turns("native", &[90, 91, 110])];
        let rivals = rivals.into_iter().chain([turns("jwt_reject", &[45, 46, 65])]).collect();
        Measured { name: "x", what: "", budgets: &[], rivals, left_out: BTreeMap::new() }
    }

    #[test]
    fn what_is_told_is_the_cost_over_the_baseline_of_the_same_round() {
        let measured = measured();
        let ours = measured.rival("jwt_reject").unwrap();
        assert_eq!(ours.per_request(), [45.0, 46.0, 65.0]);
        assert_eq!(measured.marginal(ours), [15.0, 15.0, 15.0]);
        let ratio = measured.ratio(ours, "native").unwrap();
        assert_eq!((ratio.low, ratio.median, ratio.high), (0.25, 0.25, 0.25));
        assert_eq!(measured.ratio(ours, "lua"), None);
        // Not to be told from the baseline.
        assert_eq!(measured.ratio(ours, "baseline"), None);
    }

    #[test]
    fn the_share_remembered_is_of_all_requests() {
        let mut turns = turns("jwt_reject", &[1, 1]);
        assert_eq!(turns.remembered(), None);
        let prefix = "wasmcustom.foregate.jwt_reject.cache.result.";
        turns.counted = [(format!("{prefix}hit"), 15), (format!("{prefix}miss"), 5)].into();
        assert_eq!(turns.remembered(), Some(0.75));
    }
}
