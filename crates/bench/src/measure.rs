//! Timing one workload: rounds in which every implementation has its turn, in an order that chance picks, so that
//! what disturbs the machine for a while disturbs all of them. Many short rounds do better at that than a few
//! long ones. After them come a few rounds of throughput and latency, which take long turns, and at the end what needs
//! no rounds: memory, and calls of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Serialize;

use crate::cpu::{self, Pinning};
use crate::latency::{self, Latency, Mode, Outcome};
use crate::load::{self, Requests};
use crate::progress::Progress;
use crate::rival::{AGAIN, Running};
use crate::statistics::{self, Estimate, Numbers};
use crate::workload::{Budget, Workload};
use crate::{host_calls, oha};

/// How much is measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amount {
    /// Rounds, in each of which every implementation has its turn.
    pub rounds: usize,
    /// Requests in a turn.
    pub requests: usize,
    /// Requests before the first round: until V8 has compiled what is hot, and caches are full.
    pub warm_up: usize,
}

/// How long throughput and latency are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sustained {
    /// Rounds, in each of which every implementation has both.
    pub rounds: usize,
    /// How long the next request waits for an answer to the last.
    pub closed: Duration,
    /// How long a rate is held.
    pub open: Duration,
}

impl Sustained {
    /// Neither.
    pub const NOTHING: Self = Self { rounds: 0, closed: Duration::ZERO, open: Duration::ZERO };

    fn seconds(self, rivals: usize) -> f64 {
        self.rounds as f64 * rivals as f64 * (self.closed + self.open).as_secs_f64()
    }
}

/// What is measured of a workload.
#[derive(Debug, Clone)]
pub struct Plan {
    /// CPU time.
    pub amount: Amount,
    /// Throughput and latency.
    pub sustained: Sustained,
    /// Requests a second at which latency is measured; otherwise half of what the baseline answers without pause.
    pub held_rate: Option<f64>,
    /// All of it in that time: there are fewer rounds then, as far as need be.
    pub within: Option<Duration>,
    /// The load tool for throughput and latency, where all requests are the same.
    pub oha: Option<PathBuf>,
    /// Whether calls of the host are counted.
    pub host_calls: bool,
}

/// Fewer rounds than these are worth nothing.
const FEWEST: usize = 3;
/// The share of a held rate that must be answered to have kept up with it.
pub(crate) const KEPT_UP: f64 = 0.95;
/// Whoever answers, without pause, fewer requests than the held rate divided by this will hardly keep up with it.
const WITH_EASE: f64 = 0.85;

impl Plan {
    /// As many rounds as fit, if one of turns takes so long: half of the time is for them, and what they leave for
    /// throughput and latency.
    fn fit(&self, within: Duration, turns: Duration, rivals: usize) -> (Amount, Sustained) {
        let turns = turns.as_secs_f64().max(1e-9);
        let rounds = (within.as_secs_f64() / 2.0 / turns) as usize;
        let rounds = rounds.clamp(FEWEST.min(self.amount.rounds), self.amount.rounds);
        let left = within.as_secs_f64() - rounds as f64 * turns;
        let each = Sustained { rounds: 1, ..self.sustained }.seconds(rivals).max(1e-9);
        // One closed run each is before the first of these, to find the rate.
        let sustained = ((left / each) as usize).saturating_sub(1).clamp(1, self.sustained.rounds.max(1));
        let sustained = sustained.min(self.sustained.rounds);
        (Amount { rounds, ..self.amount }, Sustained { rounds: sustained, ..self.sustained })
    }
}

/// About how long that takes, for saying how far it is.
fn seconds_of(amount: Amount, sustained: Sustained, rivals: usize) -> f64 {
    const REQUEST: f64 = 80e-6;
    (amount.rounds * amount.requests * rivals) as f64 * REQUEST + sustained.seconds(rivals)
}

/// What was measured with one workload.
#[derive(Debug)]
pub struct Measured {
    /// The workload.
    pub name: &'static str,
    /// It in words.
    pub what: &'static str,
    /// What our modules may cost.
    pub budgets: &'static [Budget],
    /// Requests a second at which latency was measured.
    pub held_rate: Option<f64>,
    /// Whether that was given by hand.
    pub rate_was_given: bool,
    /// Rounds in which CPU time was read.
    pub rounds: usize,
    /// Rounds for throughput and latency.
    pub sustained: Sustained,
    /// In the order of their turns; the baseline first.
    pub rivals: Vec<Turns>,
    /// Who does not do this job, and what it got wrong.
    pub left_out: BTreeMap<String, String>,
}

/// One implementation's turns.
#[derive(Debug)]
pub struct Turns {
    /// What it is called in tables.
    pub name: String,
    /// Whether it is a build of a module of ours, which has budgets.
    pub ours: bool,
    /// Envoy's CPU time, in nanoseconds, of all requests of each turn.
    pub cpu_nanoseconds: Vec<u64>,
    /// How long each turn took, in nanoseconds.
    pub wall_nanoseconds: Vec<u64>,
    /// Requests in each turn.
    pub requests: usize,
    /// By how much the filters' counters rose, over all turns.
    pub counted: BTreeMap<String, u64>,
    /// Answers a second without pause, by round.
    pub requests_per_second: Vec<f64>,
    /// Latencies at the held rate, by round.
    pub latencies: Vec<Latency>,
    /// Answers a second at the held rate, by round.
    pub answered_per_second: Vec<f64>,
    /// Whether it can hold that rate, as far as is known before it is tried.
    pub(crate) can_keep_up: bool,
    /// Who made the load for latency: "own" or "oha", or one after the other.
    pub tools: BTreeSet<&'static str>,
    /// Envoy's resident memory after the last turn.
    pub resident_kilobytes: Option<u64>,
    /// Calls of the host that a request takes; none where there is no module.
    pub host_calls: Option<f64>,
    /// Why comparisons with it say less than they seem to.
    pub unfair: Option<&'static str>,
}

impl Turns {
    /// Without any turn yet, each of so many requests.
    pub fn new(name: &str, ours: bool, requests: usize) -> Self {
        Self {
            name: name.to_owned(),
            ours,
            cpu_nanoseconds: Vec::new(),
            wall_nanoseconds: Vec::new(),
            requests,
            counted: BTreeMap::new(),
            requests_per_second: Vec::new(),
            latencies: Vec::new(),
            answered_per_second: Vec::new(),
            can_keep_up: true,
            tools: BTreeSet::new(),
            resident_kilobytes: None,
            host_calls: None,
            unfair: None,
        }
    }

    /// Envoy's CPU time a request, in microseconds, by round.
    pub fn per_request(&self) -> Vec<f64> {
        self.cpu_nanoseconds.iter().map(|total| *total as f64 / 1000.0 / self.requests as f64).collect()
    }

    /// The share of requests whose token was remembered, by whoever counts that.
    pub fn remembered(&self) -> Option<f64> {
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
    /// The turns of the one of that name.
    pub fn rival(&self, name: &str) -> Option<&Turns> {
        self.rivals.iter().find(|rival| rival.name == name)
    }

    /// What it costs over the baseline in the same round, in microseconds a request.
    pub fn marginal(&self, rival: &Turns) -> Vec<f64> {
        let baseline = self.rivals.first().map(Turns::per_request).unwrap_or_default();
        rival.per_request().iter().zip(&baseline).map(|(own, base)| own - base).collect()
    }

    /// How many times as much it costs as another one, both over the baseline. None where the other one
    /// cannot be told from the baseline: a multiple of nothing says nothing.
    pub fn ratio(&self, rival: &Turns, other: &str) -> Option<Estimate> {
        let other = self.marginal(self.rival(other)?);
        statistics::estimate(&other).filter(|cost| cost.low > 0.0)?;
        statistics::ratio(&self.marginal(rival), &other)
    }

    /// Whether the cost of two cannot be told apart: the interval of their difference holds zero, or the difference is no
    /// more than that of two equal baselines.
    pub fn within_noise(&self, one: &Turns, other: &Turns) -> bool {
        let again = self.rival(AGAIN).and_then(|again| statistics::estimate(&self.marginal(again)));
        let floor = again.map_or(0.0, |again| again.median.abs());
        let difference = statistics::difference(&one.per_request(), &other.per_request());
        difference.is_some_and(|it| it.holds(0.0) || it.median.abs() <= floor)
    }
}

/// Checks who does the job, and times those.
pub async fn workload(
    workload: &Workload,
    rivals: &[Running],
    amount: Amount,
    pinning: &Pinning,
) -> anyhow::Result<Measured> {
    let plan = Plan {
        amount,
        sustained: Sustained::NOTHING,
        held_rate: None,
        within: None,
        oha: None,
        host_calls: false,
    };
    all(workload, rivals, &plan, pinning, &mut Progress::silent()).await
}

/// Checks who does the job, and measures of those all that the plan asks for.
pub async fn all(
    workload: &Workload,
    rivals: &[Running],
    plan: &Plan,
    pinning: &Pinning,
    progress: &mut Progress,
) -> anyhow::Result<Measured> {
    let (mut entrants, left_out) = entrants(workload, rivals, plan.amount).await?;
    let mut amount = Amount { warm_up: plan.amount.warm_up.max(workload.warm_up), ..plan.amount };
    let mut sustained = plan.sustained;
    let warmed = Instant::now();
    for Entrant { running, turns, requests } in &mut entrants {
        progress.within("warming up", 0.0);
        let warm = load::run(running.address, requests, amount.warm_up).await;
        warm.with_context(|| format!("{}, {}, before the first round", running.name, workload.name))?;
        // Threads that it has started since.
        running.pin(pinning)?;
        turns.counted = running.counters().await?;
    }
    if let Some(within) = plan.within {
        let turn = warmed.elapsed().mul_f64(amount.requests as f64 / amount.warm_up.max(1) as f64);
        (amount, sustained) = plan.fit(within.saturating_sub(warmed.elapsed()), turn, entrants.len());
    }
    let all_seconds = seconds_of(amount, sustained, entrants.len());
    let mut orders = Numbers(amount.rounds as u64);
    for round in 1..=amount.rounds {
        let done =
            round as f64 * seconds_of(amount, Sustained::NOTHING, entrants.len()) / amount.rounds as f64;
        progress.within(&format!("round {round} of {}", amount.rounds), done / all_seconds);
        // Whose turn comes after whose matters: what ran before leaves its mark on the caches of the processor.
        for place in orders.shuffled(entrants.len()) {
            let Some(entrant) = entrants.get_mut(place) else { continue };
            let name = &entrant.running.name;
            let turn = entrant.turn(amount.requests).await;
            turn.with_context(|| format!("{name}, {}, round {round}", workload.name))?;
        }
    }
    for Entrant { running, turns, .. } in &mut entrants {
        let before = std::mem::take(&mut turns.counted);
        let rose = |(name, now): (String, u64)| {
            let by = now.saturating_sub(before.get(&name).copied().unwrap_or_default());
            (by > 0).then_some((name, by))
        };
        turns.counted = running.counters().await?.into_iter().filter_map(rose).collect();
    }
    let rate = match sustained.rounds {
        0 => None,
        _ => Some(held_rate(workload, &mut entrants, plan, sustained).await?),
    };
    for round in 1..=sustained.rounds {
        let done = seconds_of(amount, Sustained { rounds: round, ..sustained }, entrants.len());
        progress.within(&format!("latency, round {round} of {}", sustained.rounds), done / all_seconds);
        for place in orders.shuffled(entrants.len()) {
            let (Some(entrant), Some(rate)) = (entrants.get_mut(place), rate) else { continue };
            let name = &entrant.running.name;
            let turn = entrant.sustained(sustained, rate, plan.oha.as_deref()).await;
            turn.with_context(|| format!("{name}, {}, latency round {round}", workload.name))?;
        }
    }
    for Entrant { running, turns, requests } in &mut entrants {
        turns.resident_kilobytes = running.envoy.resident_kilobytes().ok();
        if plan.host_calls && running.loads_modules {
            let counted = host_calls::count(running, requests).await;
            turns.host_calls =
                counted.with_context(|| format!("{}, {}, host calls", running.name, workload.name))?;
        }
    }
    Ok(Measured {
        name: workload.name,
        what: workload.what,
        budgets: workload.budgets,
        held_rate: rate,
        rate_was_given: plan.held_rate.is_some(),
        rounds: amount.rounds,
        sustained,
        rivals: entrants.into_iter().map(|it| it.turns).collect(),
        left_out,
    })
}

/// One who does the job.
struct Entrant<'r> {
    running: &'r Running,
    turns: Turns,
    requests: Arc<Requests>,
}

/// Those who do the job, and of the others what they got wrong.
async fn entrants<'r>(
    workload: &Workload,
    rivals: &'r [Running],
    amount: Amount,
) -> anyhow::Result<(Vec<Entrant<'r>>, BTreeMap<String, String>)> {
    let mut left_out = BTreeMap::new();
    let mut entrants = Vec::new();
    for running in rivals {
        let wrong = running.wrong(&workload.probes).await;
        match wrong.with_context(|| format!("{}, {}, probes", running.name, workload.name))? {
            Some(wrong) if running.is_baseline() => bail!("{}: {}: {wrong}", running.name, workload.name),
            Some(wrong) => drop(left_out.insert(running.name.clone(), wrong)),
            None => entrants.push(Entrant {
                running,
                turns: Turns {
                    unfair: workload.unfair(&running.name),
                    ..Turns::new(&running.name, running.ours, amount.requests)
                },
                requests: Arc::new(Requests::of(workload, |answer| running.expected(answer))?),
            }),
        }
    }
    Ok((entrants, left_out))
}

/// The rate that is asked for, or half of what the baseline answers without pause: the same for all and in all rounds.
/// Notes, too, who is to be sent it by our own load even if there is oha, which leaves out what it could not send of a
/// rate that is too high.
async fn held_rate(
    workload: &Workload,
    entrants: &mut [Entrant<'_>],
    plan: &Plan,
    sustained: Sustained,
) -> anyhow::Result<f64> {
    let mut rate = plan.held_rate;
    for Entrant { running, turns, requests } in entrants {
        let tool = Tool::choose(plan.oha.as_deref(), requests);
        let most = tool.run(running.address, requests, Mode::Closed, sustained.closed).await;
        let most = most.with_context(|| format!("{}, {}, at its fastest", running.name, workload.name))?;
        // The baseline is the first.
        let rate = *rate.get_or_insert(most.requests_per_second / 2.0);
        turns.can_keep_up = most.requests_per_second * WITH_EASE > rate;
    }
    rate.context("there is no baseline")
}

impl Entrant<'_> {
    /// Sends so many requests, and notes the CPU time that they took.
    async fn turn(&mut self, count: usize) -> anyhow::Result<()> {
        let pid = self.running.envoy.pid();
        let (cpu, wall) = (cpu::nanoseconds(pid)?, Instant::now());
        load::run(self.running.address, &self.requests, count).await?;
        self.turns.wall_nanoseconds.push(u64::try_from(wall.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.turns.cpu_nanoseconds.push(cpu::nanoseconds(pid)?.saturating_sub(cpu));
        Ok(())
    }

    /// Sends as many requests as it can take, and then as many as are due at this rate.
    async fn sustained(&mut self, sustained: Sustained, rate: f64, oha: Option<&Path>) -> anyhow::Result<()> {
        let (address, requests) = (self.running.address, &self.requests);
        let tool = Tool::choose(oha, requests);
        let closed = tool.run(address, requests, Mode::Closed, sustained.closed).await?;
        self.turns.requests_per_second.push(closed.requests_per_second);
        let mut tool = if self.turns.can_keep_up { tool } else { Tool::Own };
        let mut held = tool.run(address, requests, Mode::Held(rate), sustained.open).await;
        if held.as_ref().is_err_and(|error| error.is::<oha::NotHeld>()) {
            (self.turns.can_keep_up, tool) = (false, Tool::Own);
            held = tool.run(address, requests, Mode::Held(rate), sustained.open).await;
        }
        let held = held?;
        self.turns.answered_per_second.push(held.requests_per_second);
        self.turns.latencies.push(held.latency);
        self.turns.tools.insert(tool.name());
        Ok(())
    }
}

/// Who makes the load for throughput and latency.
#[derive(Debug, Clone, Copy)]
enum Tool<'t> {
    Own,
    Oha(&'t Path),
}

impl<'t> Tool<'t> {
    /// oha sends one request again and again, and cannot send different ones in turn.
    fn choose(oha: Option<&'t Path>, requests: &Requests) -> Self {
        let can_send = requests.only().is_some_and(|(request, _)| oha::can_send(request).is_ok());
        oha.filter(|_| can_send).map_or(Self::Own, Self::Oha)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Oha(_) => "oha",
        }
    }

    async fn run(
        self,
        address: SocketAddr,
        requests: &Arc<Requests>,
        mode: Mode,
        length: Duration,
    ) -> anyhow::Result<Outcome> {
        match (self, requests.only()) {
            (Self::Oha(oha), Some((request, status))) => {
                oha::run(oha, address, request, status, mode, length).await
            }
            _ => latency::run(address, requests, mode, length).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(name: &str, microseconds: &[u64]) -> Turns {
        Turns {
            cpu_nanoseconds: microseconds.iter().map(|each| each * 1000 * 10).collect(),
            wall_nanoseconds: vec![1; microseconds.len()],
            ..Turns::new(name, name == "jwt_reject", 10)
        }
    }

    fn measured() -> Measured {
        let rivals = vec![turns("baseline", &[30, 31, 50]), turns("native", &[90, 91, 110])];
        let rivals = rivals.into_iter().chain([turns("jwt_reject", &[45, 46, 65])]).collect();
        Measured {
            name: "x",
            what: "",
            budgets: &[],
            held_rate: None,
            rate_was_given: false,
            rounds: 3,
            sustained: Sustained::NOTHING,
            rivals,
            left_out: BTreeMap::new(),
        }
    }

    #[test]
    fn what_differs_by_no_more_than_two_baselines_is_within_the_noise() {
        let mut measured = measured();
        measured.rivals.push(turns("similar", &[44, 47, 66]));
        measured.rivals.push(turns("dearer", &[47, 48, 67]));
        let within = |measured: &Measured, name: &str| {
            let [one, other] = [name, "jwt_reject"].map(|name| measured.rival(name).unwrap());
            measured.within_noise(one, other)
        };
        assert!(within(&measured, "similar"));
        assert!(!within(&measured, "dearer") && !within(&measured, "native"));
        measured.rivals.push(turns(AGAIN, &[32, 34, 53]));
        assert!(within(&measured, "dearer") && !within(&measured, "native"));
    }

    #[test]
    fn rounds_are_fitted_to_the_time_there_is() {
        let amount = Amount { rounds: 100, requests: 500, warm_up: 5000 };
        let second = Duration::from_secs(1);
        let sustained = Sustained { rounds: 5, closed: second / 2, open: second / 2 };
        let plan = Plan { amount, sustained, held_rate: None, within: None, oha: None, host_calls: true };
        let rows = [
            // Of 40 s, 20 for 20 rounds of 1 s, and of the others 4 for each round of four rivals.
            (40, 1000, 4, (20, 4)),
            (4000, 1000, 4, (100, 5)),
            (0, 1000, 4, (3, 1)),
            (40, 10, 4, (100, 5)),
        ];
        for (within, turn, rivals, expected) in rows {
            let fit = plan.fit(Duration::from_secs(within), Duration::from_millis(turn), rivals);
            assert_eq!((fit.0.rounds, fit.1.rounds), expected, "{within} {turn} {rivals}");
        }
        let without = Plan { sustained: Sustained::NOTHING, ..plan };
        assert_eq!(without.fit(second, second, 4).1.rounds, 0);
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
