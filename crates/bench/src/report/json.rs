//! `summary.json`: what a run found, in a form for other programs and for later comparisons. `benches/SUMMARY.md`
//! describes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::cpu::Pinning;
use crate::machine::{Machine, Versions};
use crate::measure::KEPT_UP;
use crate::noise::Noise;
use crate::statistics::Estimate;

/// The version of the form. It rises when a field changes its meaning or goes; new fields do not raise it.
pub const SCHEMA: u32 = 1;

/// All that a run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When it began, as RFC 3339 has it.
    pub began: String,
    /// What was typed.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// What ran.
    pub versions: Versions,
    /// The SHA-256 of each module, by the name of the rival that loads it.
    pub modules: BTreeMap<String, String>,
    /// Who made the load for throughput and latency.
    pub load_tool: LoadTool,
    /// How much was measured.
    pub settings: Settings,
    /// How far to trust it.
    pub noise: Noise,
    /// In the order in which they ran.
    pub workloads: Vec<WorkloadSummary>,
    /// In the order in which they ran.
    #[serde(default)]
    pub experiments: Vec<ExperimentSummary>,
}

/// Who made the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTool {
    /// For the turns whose CPU time is read.
    pub cpu: String,
    /// For throughput and latency, where one request stands for all of a workload's.
    pub one_request: String,
    /// For throughput and latency, where a workload has different requests.
    pub many_requests: String,
}

/// How much was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which core was whose.
    pub pinning: Pinning,
    /// Who answered what passed.
    pub answered_by: AnsweredBy,
    /// Rounds in which CPU time was read; with `--quick` the most that any workload had.
    pub rounds: usize,
    /// Requests in a turn of such a round.
    pub requests: usize,
    /// Requests before the first round.
    pub warm_up: usize,
    /// Requests under way at a time, where the next waits for an answer.
    pub connections: usize,
    /// Rounds for throughput and latency; with `--quick` the most that any workload had.
    pub latency_rounds: usize,
    /// Seconds of such a round without pause.
    pub closed_seconds: f64,
    /// Seconds of such a round at the held rate.
    pub open_seconds: f64,
}

/// Who answered what passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnsweredBy {
    /// Envoy itself.
    Direct,
    /// Another Envoy behind it.
    Upstream,
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSummary {
    /// The behaviour that it belongs to.
    pub behaviour: String,
    /// What it is called; no other of a run has that name.
    pub name: String,
    /// In words.
    pub what: String,
    /// Who answered what passed.
    pub answered_by: AnsweredBy,
    /// How many rounds of turns it had.
    pub rounds: usize,
    /// How many rounds for throughput and latency.
    pub latency_rounds: usize,
    /// Whether the rate at which latency was measured was given by hand.
    #[serde(default)]
    pub rate_was_given: bool,
    /// The spread of the baseline over the rounds: the middle half of its turns, in percent of the median.
    pub baseline_spread_percent: Option<f64>,
    /// The baseline first.
    pub rivals: Vec<RivalSummary>,
    /// Of our modules.
    pub budgets: Vec<BudgetSummary>,
    /// Who does not do this job, and what it got wrong.
    pub left_out: BTreeMap<String, String>,
}

/// One implementation of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RivalSummary {
    /// What it is called.
    pub name: String,
    /// Whether it is a build of a module of ours, which has budgets.
    pub ours: bool,
    /// Envoy's CPU time a request, in microseconds.
    pub cpu_us: Option<Estimate>,
    /// The same without the baseline's of the same round; none for the baseline itself.
    pub over_baseline_us: Option<Estimate>,
    /// Answers a second, where the next request waits for an answer.
    pub requests_per_second: Option<Estimate>,
    /// Latency at a held rate.
    pub latency_us: Option<Latency>,
    /// Envoy's resident memory after the last turn, in kilobytes.
    pub resident_kb: Option<u64>,
    /// Calls of the host that a request takes.
    pub host_calls: Option<f64>,
    /// The share of requests whose token was remembered, from 0 to 1.
    pub remembered: Option<f64>,
    /// How many times as much it costs as each of those named, all over the baseline.
    pub ratios: BTreeMap<String, Estimate>,
    /// Those whose cost cannot be told from its own.
    pub within_noise: Vec<String>,
    /// Why the comparison with it is unfair, where it is.
    pub unfair: Option<String>,
}

/// Latencies in microseconds, counted from when a request was due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median of requests.
    pub p50: Estimate,
    /// Nine of ten are as fast.
    pub p90: Estimate,
    /// 99 of 100.
    pub p99: Estimate,
    /// 999 of 1000.
    #[serde(rename = "p99.9")]
    pub p99_9: Estimate,
    /// The rate that was to be held: half of what the baseline answers without pause, if none was given.
    pub at_requests_per_second: f64,
    /// The rate that was answered. Where it is below, requests queued, and the figures grow with the time measured.
    pub answered_per_second: f64,
    /// Who made this load: "own" or "oha", or "oha, own" where the second took over when the first could not hold the rate.
    pub tool: String,
}

/// What a module may cost, and whether it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetSummary {
    /// The build of our module.
    pub name: String,
    /// Whose cost is the measure.
    pub rival: String,
    /// How many times that.
    pub most: f64,
    /// What it is; none where the rival cannot be told from the baseline.
    pub ratio: Option<Estimate>,
    /// Whether that is met.
    pub verdict: Verdict,
}

/// How a module stands to a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// All of the interval is within it.
    #[serde(rename = "met")]
    Met,
    /// All of the interval is beyond it.
    #[serde(rename = "not met")]
    NotMet,
    /// The interval holds both, or there is none, or there is nothing to compare with.
    #[serde(rename = "not certain")]
    NotCertain,
}

/// An experiment: two ways of doing the same, and what somebody claims of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentSummary {
    /// What it is called.
    pub name: String,
    /// In words.
    pub what: String,
    /// What is said elsewhere.
    pub claim: String,
    /// The two ways.
    pub pair: [String; 2],
    /// What was measured of both.
    pub figures: Vec<FigureSummary>,
    /// Our figures beside the claim, in words, and in what the set-up differs.
    #[serde(default)]
    pub beside: Vec<String>,
}

/// One figure of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureSummary {
    /// In words.
    pub what: String,
    /// Such as "us".
    pub unit: String,
    /// Of the first of the pair.
    pub a: Estimate,
    /// Of the second.
    pub b: Estimate,
    /// By how much the second is more than the first.
    pub change_percent: Estimate,
}

impl Summary {
    /// Reads one, whatever made it, if its form is known here.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// The same from its text.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Form {
            schema: Option<u32>,
        }
        // Looked at first: of another form, any other field may be what is wrong.
        let form: Form = serde_json::from_str(text).context("not a summary of a run")?;
        let schema = form.schema.context("not a summary of a run: it has no \"schema\"")?;
        ensure!(
            schema == SCHEMA,
            "its schema is version {schema}, and this program reads version {SCHEMA} only; use the program that wrote it, or \
             measure anew"
        );
        serde_json::from_str(text).context("not a summary of this schema")
    }

    /// As it is written.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The workload of that name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSummary> {
        self.workloads.iter().find(|it| it.name == name)
    }
}

impl WorkloadSummary {
    /// The rival of that name.
    pub fn rival(&self, name: &str) -> Option<&RivalSummary> {
        self.rivals.iter().find(|it| it.name == name)
    }
}

impl Latency {
    /// Whether requests were answered as fast as they came.
    pub fn kept_up(&self) -> bool {
        self.answered_per_second >= self.at_requests_per_second * KEPT_UP
    }

    /// The percentiles with their names.
    pub fn percentiles(&self) -> [(&'static str, Estimate); 4] {
        [("p50", self.p50), ("p90", self.p90), ("p99", self.p99), ("p99.9", self.p99_9)]
    }
}

impl Verdict {
    /// A budget is met only where all of the interval is within it.
    pub fn of(ratio: Option<Estimate>, most: f64) -> Self {
        match ratio {
            Some(ratio) if ratio.high <= most => Self::Met,
            Some(ratio) if ratio.low > most => Self::NotMet,
            _ => Self::NotCertain,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::NotCertain => "not certain",
        }
    }
}
