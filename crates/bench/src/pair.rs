//! Any two configurations of Envoy under one request: what one costs more than the other. `foregate bench`.
//!
//! Both run side by side, each with one worker, and have their turns in each round as the implementations of a
//! [`workload`](crate::workload) have. Changed in them are the ports, which are free ones of loopback; all else is as it
//! stands: filters, access logs, clusters.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use real_envoy::{Config, Envoy, LOG_FOLLOWS, Options, client};
use serde::Serialize;
use serde_json::Value;

use crate::cpu::{self, Pinning};
use crate::latency::{self, Latency, Mode, Outcome};
use crate::load::{self, Request, Requests};
use crate::machine::Machine;
use crate::noise::{self, FEWEST_ROUNDS};
use crate::oha;
use crate::statistics::{self, Estimate, Numbers};

/// The longest part of an unexpected answer that an error shows.
const SHOWN: usize = 200;
/// The share of what the slower one manages at which latencies are measured.
const HELD: f64 = 0.5;
/// Below this share of a held rate, requests queue.
const KEPT_UP: f64 = 0.95;
/// How long each has its turn in a round for throughput, and in one for latency.
const CLOSED: Duration = Duration::from_secs(1);
const OPEN: Duration = Duration::from_secs(2);

/// One of the two.
#[derive(Debug, Clone)]
pub struct Side {
    /// What it is called in tables and errors: its file.
    pub name: String,
    /// As it was read.
    pub config: Config,
    /// Which of its listeners is asked, where it has several.
    pub listener: Option<String>,
    /// The status of its answers.
    pub status: u16,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Amount {
    /// Rounds in which CPU time is read.
    pub rounds: usize,
    /// Requests in a turn of such a round.
    pub requests: usize,
    /// Requests before the first round.
    pub warm_up: usize,
    /// Rounds for throughput and latency; none leaves these out.
    pub latency_rounds: usize,
    /// The rate at which latencies are measured; where there is none, half of what the slower one manages.
    pub requests_per_second: Option<f64>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Where it ran.
    pub machine: Machine,
    /// As Envoy gives its version.
    pub envoy: String,
    /// Which core was whose.
    pub pinning: Pinning,
    /// What was sent.
    pub request: String,
    /// How much.
    pub amount: Amount,
    /// Who made the load for throughput and latency.
    pub load_tool: String,
    /// The one that is asked about.
    pub config: Figures,
    /// The one that it is compared with.
    pub baseline: Figures,
    /// CPU time that the first takes more than the second, in microseconds a request.
    pub difference_us: Estimate,
    /// How many times the CPU time of the second the first takes.
    pub ratio: Estimate,
    /// Whether no difference can be told.
    pub within_noise: bool,
    /// The middle half of the baseline's turns, in percent of their median: how steady the machine was. None of fewer than
    /// four.
    pub baseline_spread_percent: Option<f64>,
    /// What is to be known beside.
    pub remarks: Vec<String>,
}

/// What one of them takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Its file.
    pub name: String,
    /// The status of all of its answers.
    pub status: u16,
    /// Envoy's CPU time, in microseconds a request.
    pub cpu_us: Estimate,
    /// Answers a second, where the next request waits for an answer.
    pub requests_per_second: Option<Estimate>,
    /// Latencies at the held rate.
    pub latency_us: Option<HeldLatency>,
    /// Envoy's resident memory after all of it, in kilobytes.
    pub resident_kb: u64,
}

/// Latencies in microseconds, counted from when a request was due.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldLatency {
    /// The rate that was held.
    pub at_requests_per_second: f64,
    /// Half of all answers took no longer.
    pub p50: Estimate,
    /// 90 % of them.
    pub p90: Estimate,
    /// 99 %.
    pub p99: Estimate,
    /// 99.9 %.
    #[serde(rename = "p99.9")]
    pub p99_9: Estimate,
}

/// Who makes the load for throughput and latency.
#[derive(Debug, Clone)]
pub enum Tool {
    /// The load generator that others know.
    Oha(xtask::oha::Oha),
    /// [`latency`], for this reason.
    Own(String),
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Oha(oha) => write!(f, "oha {}", oha.version),
            Self::Own(why) => write!(f, "own, since {why}"),
        }
    }
}

/// Measures both. Relative paths in the configurations are taken from `folder`. This thread is on one core afterwards.
/// `tell` is told in words what is being done.
pub async fn compare(
    sides: [Side; 2],
    request: &Request,
    amount: Amount,
    tool: &Tool,
    folder: &Path,
    tell: impl Fn(&str),
) -> anyhow::Result<Comparison> {
    // Looked at before the load is one's own.
    let machine = Machine::look();
    let envoy = crate::machine::envoy_version()?;
    for side in &sides {
        side.can_be_asked().with_context(|| side.name.clone())?;
    }
    let pinning = Pinning::choose();
    tell("starting Envoy with each");
    let [config, baseline] = sides;
    let mut pair = [
        Running::start(config, request, &pinning, folder).await?,
        Running::start(baseline, request, &pinning, folder).await?,
    ];
    for running in &pair {
        running.answers(request).await?;
    }
    tell("warming up");
    for running in &pair {
        running.turn(amount.warm_up).await?;
        // Threads that it has started since.
        pinning.apply(running.envoy.pid(), 1)?;
    }
    let mut orders = Numbers(amount.rounds as u64);
    for round in 1..=amount.rounds {
        tell(&format!("CPU time: round {round} of {}", amount.rounds));
        for place in orders.shuffled(pair.len()) {
            let Some(running) = pair.get_mut(place) else { continue };
            let nanoseconds = running.turn(amount.requests).await?;
            running.cpu_us.push(nanoseconds as f64 / 1000.0 / amount.requests as f64);
        }
    }
    let mut remarks = Vec::new();
    let rate = throughput(&mut pair, amount, request, tool, &mut orders, &tell).await?;
    if let Some(rate) = rate {
        held(&mut pair, amount, rate, request, tool, &mut orders, &tell).await?;
        remarks.extend(pair.iter().filter_map(|running| running.fell_behind(rate)));
    }
    let [config, baseline] = pair;
    let difference_us =
        statistics::difference(&config.cpu_us, &baseline.cpu_us).context("there was no round")?;
    let ratio = statistics::ratio(&config.cpu_us, &baseline.cpu_us).context("there was no round")?;
    if amount.rounds < FEWEST_ROUNDS {
        remarks.push(format!(
            "{} rounds are too few for an interval of 95 %: take {FEWEST_ROUNDS} or more",
            amount.rounds
        ));
    }
    if let Pinning::NotPinned(why) = &pinning {
        remarks.push(format!("not pinned to cores, so less exact: {why}"));
    }
    Ok(Comparison {
        machine,
        envoy,
        pinning,
        request: format!("{} {}", request.method(), request.uri()),
        amount,
        load_tool: if amount.latency_rounds > 0 { tool.to_string() } else { "none".to_owned() },
        baseline_spread_percent: noise::spread_percent(&baseline.cpu_us),
        config: config.end(rate).await?,
        baseline: baseline.end(rate).await?,
        within_noise: difference_us.holds(0.0),
        difference_us,
        ratio,
        remarks,
    })
}

/// Measures how many requests each answers a second. Gives the rate at which latencies are to be measured.
async fn throughput(
    pair: &mut [Running; 2],
    amount: Amount,
    request: &Request,
    tool: &Tool,
    orders: &mut Numbers,
    tell: &impl Fn(&str),
) -> anyhow::Result<Option<f64>> {
    for round in 1..=amount.latency_rounds {
        tell(&format!("requests a second: round {round} of {}", amount.latency_rounds));
        for place in orders.shuffled(pair.len()) {
            let Some(running) = pair.get_mut(place) else { continue };
            let outcome = running.load(request, tool, Mode::Closed, CLOSED).await?;
            running.closed.push(outcome.requests_per_second);
        }
    }
    let slowest = pair.iter().filter_map(|running| statistics::median(&running.closed)).reduce(f64::min);
    Ok(slowest.map(|slowest| amount.requests_per_second.unwrap_or(slowest * HELD)))
}

/// Measures latencies at that rate.
async fn held(
    pair: &mut [Running; 2],
    amount: Amount,
    rate: f64,
    request: &Request,
    tool: &Tool,
    orders: &mut Numbers,
    tell: &impl Fn(&str),
) -> anyhow::Result<()> {
    for round in 1..=amount.latency_rounds {
        tell(&format!("latency at {rate:.0} requests a second: round {round} of {}", amount.latency_rounds));
        for place in orders.shuffled(pair.len()) {
            let Some(running) = pair.get_mut(place) else { continue };
            let outcome = running.load(request, tool, Mode::Held(rate), OPEN).await?;
            running.held.push(outcome);
        }
    }
    Ok(())
}

impl Side {
    /// Finds out what can be found out before Envoy starts.
    fn can_be_asked(&self) -> anyhow::Result<()> {
        let listeners = self.config.value().pointer("/static_resources/listeners").and_then(Value::as_array);
        let listeners = listeners.map(Vec::as_slice).unwrap_or_default();
        let name = |listener: &Value| listener.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
        let names: Vec<String> = listeners.iter().map(name).collect();
        let chosen = match (&self.listener, listeners) {
            (_, []) => bail!("there is no listener in static_resources.listeners"),
            (None, [only]) => only,
            (None, _) => bail!("there are several listeners: say with --listener which of {names:?} to ask"),
            (Some(wanted), _) => listeners
                .iter()
                .find(|listener| name(listener) == *wanted)
                .with_context(|| format!("there is no listener {wanted:?}, only {names:?}"))?,
        };
        let chains = chosen.get("filter_chains").and_then(Value::as_array).into_iter().flatten();
        let mut chains = chains.chain(chosen.get("default_filter_chain"));
        ensure!(
            !chains.any(|chain| chain.get("transport_socket").is_some()),
            "listener {:?} speaks TLS, and requests are sent in the clear: take `transport_socket` out of its filter chains",
            name(chosen)
        );
        Ok(())
    }
}

/// One of the two, running.
struct Running {
    side: Side,
    envoy: Envoy,
    address: SocketAddr,
    requests: Arc<Requests>,
    /// Of each round.
    cpu_us: Vec<f64>,
    closed: Vec<f64>,
    held: Vec<Outcome>,
}

impl Running {
    async fn start(side: Side, request: &Request, pinning: &Pinning, folder: &Path) -> anyhow::Result<Self> {
        let config = side.config.clone().on_free_ports().with_context(|| side.name.clone())?;
        let options = Options { concurrency: 1, folder: Some(folder), ..Options::default() };
        let started = async {
            let envoy = Envoy::start(&config, &options).await?;
            pinning.apply(envoy.pid(), 1)?;
            let address = match &side.listener {
                Some(name) => envoy.listener_named(name)?,
                None => envoy.listener()?,
            };
            anyhow::Ok((envoy, address))
        };
        let (envoy, address) = match started.await {
            Ok(started) => started,
            Err(error) => bail!("{}: {}", side.name, with_errors_only(&format!("{error:#}"))),
        };
        let requests = Arc::new(Requests::same(request.clone(), side.status));
        Ok(Self { side, envoy, address, requests, cpu_us: Vec::new(), closed: Vec::new(), held: Vec::new() })
    }

    /// Asks once, so that a wrong answer is told in full.
    async fn answers(&self, request: &Request) -> anyhow::Result<()> {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let asked = client::Request::new(request.method().as_str(), target);
        let asked = request
            .headers()
            .iter()
            .fold(asked, |asked, (name, value)| asked.header(name.as_str(), value.as_bytes()));
        let response = client::send(self.address, &asked).await.with_context(|| self.side.name.clone())?;
        if response.status == self.side.status {
            return Ok(());
        }
        let body = response.text();
        let start: String = body.chars().take(SHOWN).collect();
        let rest = if start.len() < body.len() { "..." } else { "" };
        bail!(
            "{}: {} {target} is answered with {} and not with {}: {start:?}{rest}",
            self.side.name,
            request.method(),
            response.status,
            self.side.status
        )
    }

    /// Sends so many requests. Gives Envoy's CPU time in nanoseconds.
    async fn turn(&self, requests: usize) -> anyhow::Result<u64> {
        let before = cpu::nanoseconds(self.envoy.pid())?;
        load::run(self.address, &self.requests, requests).await.with_context(|| self.side.name.clone())?;
        Ok(cpu::nanoseconds(self.envoy.pid())?.saturating_sub(before))
    }

    async fn load(
        &self,
        request: &Request,
        tool: &Tool,
        mode: Mode,
        length: Duration,
    ) -> anyhow::Result<Outcome> {
        let outcome = match tool {
            Tool::Oha(oha) => {
                oha::run(&oha.path, self.address, request, self.side.status, mode, length).await
            }
            Tool::Own(_) => latency::run(self.address, &self.requests, mode, length).await,
        };
        let outcome = match outcome {
            // oha does not tell how long those would have waited that it never sent; the other load does.
            Err(error) if error.is::<oha::NotHeld>() => {
                latency::run(self.address, &self.requests, mode, length).await
            }
            outcome => outcome,
        };
        outcome.with_context(|| self.side.name.clone())
    }

    /// Says that a rate was too high, if it was.
    fn fell_behind(&self, rate: f64) -> Option<String> {
        let answered: Vec<f64> = self.held.iter().map(|outcome| outcome.requests_per_second).collect();
        let answered = statistics::median(&answered).filter(|answered| *answered < rate * KEPT_UP)?;
        Some(format!(
            "{} answered {answered:.0} of {rate:.0} requests a second: they queued, and its latencies grow with the time \
             that is measured",
            self.side.name
        ))
    }

    async fn end(self, rate: Option<f64>) -> anyhow::Result<Figures> {
        let percentile = |of: fn(&Latency) -> f64| {
            statistics::estimate(&self.held.iter().map(|outcome| of(&outcome.latency)).collect::<Vec<_>>())
        };
        let latency_us = || {
            Some(HeldLatency {
                at_requests_per_second: rate?,
                p50: percentile(|latency| latency.p50)?,
                p90: percentile(|latency| latency.p90)?,
                p99: percentile(|latency| latency.p99)?,
                p99_9: percentile(|latency| latency.p99_9)?,
            })
        };
        let figures = Figures {
            status: self.side.status,
            cpu_us: statistics::estimate(&self.cpu_us).context("there was no round")?,
            requests_per_second: statistics::estimate(&self.closed),
            latency_us: latency_us(),
            resident_kb: self.envoy.resident_kilobytes()?,
            name: self.side.name,
        };
        self.envoy.stop().await.with_context(|| figures.name.clone())?;
        Ok(figures)
    }
}

/// An error with those lines of Envoy's log alone that tell of errors, where there are such lines: what comes before them
/// is the course of any start.
fn with_errors_only(error: &str) -> String {
    let Some((error, log)) = error.split_once(LOG_FOLLOWS) else { return error.to_owned() };
    // `[time][thread][level][logger] ...`; a line without is the rest of a message.
    let level = |line: &str| line.starts_with('[').then(|| line.split(['[', ']']).nth(5).map(str::to_owned));
    let mut is_error = false;
    let mut told = Vec::new();
    for line in log.lines() {
        if let Some(Some(level)) = level(line) {
            is_error = level == "error" || level == "critical";
        }
        if is_error {
            told.push(line);
        }
    }
    let (what, lines) = if told.is_empty() { ("ends", log.to_owned()) } else { ("says", told.join("\n")) };
    format!("{error}; Envoy's log {what}:\n{lines}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side(listeners: Value, listener: Option<&str>) -> Side {
        let config = Config::of(json!({ "static_resources": { "listeners": listeners } })).unwrap();
        Side { name: "my.yaml".to_owned(), config, listener: listener.map(str::to_owned), status: 200 }
    }

    #[test]
    fn a_listener_must_be_there_be_meant_and_speak_in_the_clear() {
        let two = json!([{ "name": "a" }, { "name": "b" }]);
        let tls = json!([{ "name": "a", "filter_chains": [{}, { "transport_socket": {} }] }]);
        let rows = [
            (json!([]), None, "there is no listener in static_resources.listeners"),
            (
                two.clone(),
                None,
                "there are several listeners: say with --listener which of [\"a\", \"b\"] to ask",
            ),
            (two.clone(), Some("c"), "there is no listener \"c\", only [\"a\", \"b\"]"),
            (two, Some("b"), ""),
            (json!([{}]), None, ""),
            (
                tls,
                None,
                "listener \"a\" speaks TLS, and requests are sent in the clear: take `transport_socket` out of its \
                 filter chains",
            ),
        ];
        for (listeners, listener, expected) in rows {
            let found = side(listeners.clone(), listener).can_be_asked();
            let found = found.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{listeners} {listener:?}");
        }
    }

    #[test]
    fn of_a_log_the_errors_are_told_with_all_their_lines() {
        let log = "[2026-12-01 16:00:00.0][1][info][main] [a.cc:1] begins\n\
                   [2026-12-01 16:00:00.1][1][critical][main] [b.cc:2] error initializing:\nno such field\n\
                   [2026-12-01 16:00:00.2][1][info][main] [c.cc:3] exiting";
        let told = with_errors_only(&format!("Envoy ended{LOG_FOLLOWS}{log}"));
        assert_eq!(
            told,
            "Envoy ended; Envoy's log says:\n[2026-12-01 16:00:00.1][1][critical][main] [b.cc:2] error initializing:\n\
             no such field"
        );
        let none = with_errors_only(&format!("Envoy ended{LOG_FOLLOWS}[t][1][info][main] begins"));
        assert_eq!(none, "Envoy ended; Envoy's log ends:\n[t][1][info][main] begins");
        assert_eq!(with_errors_only("no log"), "no log");
    }
}
