//! Experiments: ways of setting up Envoy of which somebody has published what they save. Each runs a pair of
//! configurations, which are complete and in `benches/experiments`, and puts our figures beside the claim, also where
//! they contradict it.

mod buffers;
mod jwt_first;
mod log_all_or_some;
mod one_header;
mod pair;
mod upstream_http2;

use std::time::Duration;

use anyhow::Context as _;

use crate::cpu::Pinning;
use crate::report::json::{ExperimentSummary, FigureSummary};
use crate::statistics::{Estimate, estimate, ratio};

/// What an experiment is about.
#[derive(Debug)]
pub(crate) struct About {
    /// What it is called, as is its folder.
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) what: &'static str,
    /// What is claimed of it, by people who measured something else somewhere else.
    pub(crate) claim: &'static str,
    /// Those that are compared, the claim's second against its first.
    pub(crate) pair: [&'static str; 2],
    /// In what our set-up differs from what the claim tells of its own.
    pub(crate) differs: &'static str,
}

/// All of them, in the order in which they run.
pub(crate) static ALL: [&About; 5] =
    [&jwt_first::ABOUT, &log_all_or_some::ABOUT, &one_header::ABOUT, &buffers::ABOUT, &upstream_http2::ABOUT];

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Rounds, in each of which every Envoy has its turn.
    pub(crate) rounds: usize,
    /// Requests in a turn.
    pub(crate) requests: usize,
    /// Requests before the first round.
    pub(crate) warm_up: usize,
    /// Rounds of what takes long: latency, and filling buffers.
    pub(crate) long_rounds: usize,
    /// How long latency is measured in such a round.
    pub(crate) held: Duration,
}

impl Effort {
    /// Some minutes for all experiments.
    pub(crate) const USUAL: Self =
        Self { rounds: 30, requests: 1000, warm_up: 5000, long_rounds: 5, held: Duration::from_secs(2) };
    /// Little more than a minute for all.
    pub(crate) const QUICK: Self =
        Self { rounds: 8, requests: 500, warm_up: 2000, long_rounds: 2, held: Duration::from_millis(500) };
    /// What all of them take at most with [`Self::QUICK`], about.
    pub(crate) const QUICK_TAKES: Duration = Duration::from_secs(100);
}

/// What an experiment found: figures, and what stands beside the claim in words.
#[derive(Debug, Default)]
struct Found {
    figures: Vec<FigureSummary>,
    beside: Vec<String>,
}

/// Builds the modules that they load, which takes all cores where they are not built yet.
pub(crate) fn prepare(names: &[&str]) -> anyhow::Result<()> {
    for name in names {
        let folder = xtask::workspace_root().join("benches/experiments").join(name);
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let file = path.file_stem().and_then(|stem| stem.to_str()).context("a name that is no text")?;
            pair::config(name, file)?;
        }
    }
    Ok(())
}

/// Runs the one of that name.
pub(crate) async fn run(name: &str, effort: Effort, pinning: &Pinning) -> anyhow::Result<ExperimentSummary> {
    let about = ALL.iter().find(|about| about.name == name);
    let about = about.with_context(|| format!("no experiment is called {name:?}"))?;
    let found = match about.name {
        "jwt-first" => jwt_first::run(effort, pinning).await,
        "log-all-or-some" => log_all_or_some::run(effort, pinning).await,
        "one-header-three-ways" => one_header::run(effort, pinning).await,
        "buffers" => buffers::run(effort, pinning).await,
        "upstream-http2" => upstream_http2::run(effort, pinning).await,
        _ => anyhow::bail!("no experiment is called {name:?}"),
    };
    let Found { figures, mut beside } = found.with_context(|| format!("experiment {name}"))?;
    beside.push(format!("What differs in the set-up: {}", about.differs));
    Ok(ExperimentSummary {
        name: about.name.to_owned(),
        what: about.what.to_owned(),
        claim: about.claim.to_owned(),
        pair: about.pair.map(str::to_owned),
        figures,
        beside,
    })
}

impl Found {
    /// Adds a figure: what was measured of one and of the other, by round.
    fn figure(&mut self, what: &str, unit: &str, a: &[f64], b: &[f64]) -> anyhow::Result<Estimate> {
        let times = ratio(b, a).with_context(|| format!("{what}: there were no rounds"))?;
        let percent = |times: f64| (times - 1.0) * 100.0;
        let change =
            Estimate { median: percent(times.median), low: percent(times.low), high: percent(times.high) };
        let finite = [change.median, change.low, change.high].iter().all(|value| value.is_finite());
        anyhow::ensure!(finite, "{what}: there is no change to tell, since the first was nothing");
        let of = |values: &[f64]| estimate(values).with_context(|| format!("{what}: there were no rounds"));
        let figure = FigureSummary {
            what: what.to_owned(),
            unit: unit.to_owned(),
            a: of(a)?,
            b: of(b)?,
            change_percent: change,
        };
        self.figures.push(figure);
        Ok(change)
    }

    /// Puts a change beside what is claimed of it, in percent.
    fn beside(&mut self, what: &str, claimed: f64, change: Estimate) {
        self.beside.push(beside(what, claimed, change));
    }
}

/// Our change, the claimed one, and by how much they differ.
fn beside(what: &str, claimed: f64, change: Estimate) -> String {
    let Estimate { median, low, high } = change;
    let apart = (median - claimed).abs();
    let verdict = match () {
        () if change.holds(claimed) => "the interval holds the claim".to_owned(),
        // What was to save costs, or the other way round.
        () if claimed * low < 0.0 && claimed * high < 0.0 => {
            format!("{apart:.0} points from the claim, and the other way round")
        }
        () if median.abs() < claimed.abs() => format!("{apart:.0} points less than claimed"),
        () => format!("{apart:.0} points more than claimed"),
    };
    format!("{what}: claimed {claimed:+.0} %, here {median:+.0} % [{low:+.0}, {high:+.0}]: {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_judged_by_where_the_interval_is() {
        let change = |low, high| Estimate { median: (low + high) / 2.0, low, high };
        let rows = [
            (-40.0, change(-45.0, -35.0), "-40 %, here -40 % [-45, -35]: the interval holds the claim"),
            (-40.0, change(-12.0, -8.0), "-40 %, here -10 % [-12, -8]: 30 points less than claimed"),
            (-40.0, change(-62.0, -58.0), "-40 %, here -60 % [-62, -58]: 20 points more than claimed"),
            (
                -40.0,
                change(3.0, 7.0),
                "-40 %, here +5 % [+3, +7]: 45 points from the claim, and the other way round",
            ),
            (-40.0, change(-4.0, 6.0), "-40 %, here +1 % [-4, +6]: 41 points less than claimed"),
            (167.0, change(10.0, 20.0), "+167 %, here +15 % [+10, +20]: 152 points less than claimed"),
        ];
        for (claimed, change, expected) in rows {
            assert_eq!(beside("it", claimed, change), format!("it: claimed {expected}"));
        }
    }

    #[test]
    fn a_change_is_of_the_second_against_the_first_in_the_same_rounds() {
        let mut found = Found::default();
        let change = found.figure("CPU", "us", &[10.0, 20.0, 30.0], &[5.0, 10.0, 15.0]).unwrap();
        assert_eq!(change, Estimate { median: -50.0, low: -50.0, high: -50.0 });
        assert_eq!((found.figures[0].a.median, found.figures[0].b.median), (20.0, 10.0));
        assert!(found.figure("CPU", "us", &[], &[]).is_err());
        assert!(found.figure("connections", "", &[0.0], &[0.0]).is_err());
    }

    #[test]
    fn each_has_its_folder_and_each_folder_is_one() {
        let root = xtask::workspace_root().join("benches/experiments");
        let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<String> = folders
            .filter(|path| path.is_dir())
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        folders.sort();
        let mut names: Vec<&str> = ALL.iter().map(|about| about.name).collect();
        names.sort_unstable();
        assert_eq!(folders, names);
    }
}
