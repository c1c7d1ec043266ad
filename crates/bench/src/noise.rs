//! How far a run can be trusted: whether the machine was quiet while it ran.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::statistics::{self, Estimate};

/// The baseline does the same in every round. Where the middle half of its turns is wider than this, in percent of the
/// median, something else disturbed it.
const MOST_SPREAD_PERCENT: f64 = 10.0;
/// More than this share of the time, in percent, taken away by the host of a virtual machine.
const MOST_STOLEN_PERCENT: f64 = 2.0;
/// With fewer rounds an interval holds the true median in less than 95 % of runs, however it is made: even the whole
/// range of five values misses it in one of sixteen.
pub(crate) const FEWEST_ROUNDS: usize = 6;

/// What disturbed a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Whether figures and intervals are to be read with care.
    pub noisy: bool,
    /// Why, in words.
    pub reasons: Vec<String>,
    /// The spread of the baseline in the most disturbed workload: the middle half of its turns, in percent of the
    /// median.
    pub baseline_spread_percent: Option<f64>,
    /// The most by which a second baseline differed from the first, in microseconds a request: what is smaller than
    /// this says nothing.
    pub floor_us: Option<f64>,
    /// Processes that wanted a core over the last minute, before and after.
    pub load_average: [Option<f64>; 2],
    /// The share of time that the host of a virtual machine took away while it ran, in percent.
    pub stolen_percent: Option<f64>,
}

/// What is known of the machine at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    load_average: Option<f64>,
    times: Option<Times>,
}

/// Times of all cores since the start, in ticks of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    all: u64,
    stolen: u64,
}

/// What one workload tells of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steadiness {
    /// The baseline's spread, in percent.
    pub(crate) spread_percent: Option<f64>,
    /// By how much the second baseline differs from the first, in microseconds.
    pub(crate) again: Option<Estimate>,
    /// The rounds.
    pub(crate) rounds: usize,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let load_average = read("/proc/loadavg").split_whitespace().next().and_then(|it| it.parse().ok());
        Self { load_average, times: times(&read("/proc/stat")) }
    }
}

#[cfg(test)]
impl Moment {
    /// Nothing is known.
    pub(crate) fn unknown() -> Self {
        Self { load_average: None, times: None }
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what comes after is in
/// the first two already.
fn times(stat: &str) -> Option<Times> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line.split_whitespace().take(8).map_while(|it| it.parse().ok()).collect();
    Some(Times { all: numbers.iter().sum(), stolen: *numbers.get(7)? })
}

impl Noise {
    /// Judges a run from how the machine was before and after, and from its workloads.
    pub(crate) fn judge(cores: usize, before: Moment, after: Moment, workloads: &[Steadiness]) -> Self {
        let spread = workloads.iter().filter_map(|it| it.spread_percent).max_by(f64::total_cmp);
        let floor = workloads.iter().filter_map(|it| Some(it.again?.median.abs())).max_by(f64::total_cmp);
        let stolen = before.times.zip(after.times).and_then(|(before, after)| {
            let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
            Some(after.stolen.saturating_sub(before.stolen) as f64 * 100.0 / all as f64)
        });
        let mut reasons = Vec::new();
        if let Some(spread) = spread.filter(|spread| *spread > MOST_SPREAD_PERCENT) {
            reasons.push(format!(
                "the baseline, which does the same in every round, varied by {spread:.0} % (the middle half of its \
                 turns; a quiet machine stays below {MOST_SPREAD_PERCENT:.0} %)"
            ));
        }
        if let Some(load) = before.load_average.filter(|load| *load > cores as f64 / 2.0) {
            reasons.push(format!(
                "other programs wanted {load:.1} of {cores} cores in the minute before it began"
            ));
        }
        if let Some(stolen) = stolen.filter(|stolen| *stolen > MOST_STOLEN_PERCENT) {
            reasons.push(format!("the host of this virtual machine took {stolen:.0} % of its time away"));
        }
        let moved = workloads.iter().filter(|it| it.again.is_some_and(|again| !again.holds(0.0))).count();
        // One in twenty does so by chance.
        if moved * 10 > workloads.len() && workloads.iter().all(|it| it.rounds >= FEWEST_ROUNDS) {
            reasons.push(format!(
                "a second baseline differed from the first in {moved} of {} workloads, by {:.2} us at most",
                workloads.len(),
                floor.unwrap_or_default()
            ));
        }
        if let Some(rounds) = workloads.iter().map(|it| it.rounds).min().filter(|it| *it < FEWEST_ROUNDS) {
            reasons.push(format!(
                "an interval of 95 % takes {FEWEST_ROUNDS} rounds at least, and a workload had {rounds}"
            ));
        }
        Self {
            noisy: !reasons.is_empty(),
            reasons,
            baseline_spread_percent: spread,
            floor_us: floor,
            load_average: [before.load_average, after.load_average],
            stolen_percent: stolen,
        }
    }

    /// What a reader must know first; nothing of a quiet machine.
    pub fn warning(&self) -> Option<String> {
        self.noisy.then(|| format!("Read the intervals with care: {}.", self.reasons.join("; ")))
    }
}

/// How wide the middle half of the values is, in percent of the median: none of fewer than four.
pub(crate) fn spread_percent(values: &[f64]) -> Option<f64> {
    if values.len() < 4 {
        return None;
    }
    let middle = statistics::median(values).filter(|middle| *middle > 0.0)?;
    let [low, high] = [0.25, 0.75].map(|share| statistics::quantile(values, share));
    Some((high? - low?) * 100.0 / middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Moment = Moment { load_average: Some(0.1), times: Some(Times { all: 1000, stolen: 10 }) };

    fn steady() -> Steadiness {
        let again = Some(Estimate { median: 0.1, low: -0.2, high: 0.3 });
        Steadiness { spread_percent: Some(4.0), again, rounds: 100 }
    }

    fn reasons(before: Moment, after: Moment, workloads: &[Steadiness]) -> String {
        Noise::judge(2, before, after, workloads).reasons.join("; ")
    }

    #[test]
    fn a_quiet_machine_gives_no_reason_and_no_warning() {
        let noise = Noise::judge(2, QUIET, QUIET, &[steady(), steady()]);
        assert_eq!((noise.noisy, noise.warning()), (false, None), "{noise:?}");
        assert_eq!((noise.baseline_spread_percent, noise.floor_us), (Some(4.0), Some(0.1)));
    }

    #[test]
    fn each_disturbance_is_told() {
        let later = |stolen| Moment { times: Some(Times { all: 2000, stolen }), ..QUIET };
        assert_eq!(reasons(QUIET, later(30), &[steady()]), "");
        let stolen = reasons(QUIET, later(110), &[steady()]);
        assert_eq!(stolen, "the host of this virtual machine took 10 % of its time away");

        let wide = Steadiness { spread_percent: Some(25.0), ..steady() };
        assert!(reasons(QUIET, QUIET, &[steady(), wide]).starts_with("the baseline, "));

        let busy = Moment { load_average: Some(1.6), ..QUIET };
        let told = reasons(busy, QUIET, &[steady()]);
        assert_eq!(told, "other programs wanted 1.6 of 2 cores in the minute before it began");
        assert_eq!(reasons(QUIET, busy, &[steady()]), "", "the run itself is what ran before its end");

        let moved = Steadiness { again: Some(Estimate { median: -1.5, low: -2.0, high: -1.0 }), ..steady() };
        let told = reasons(QUIET, QUIET, &[steady(), moved]);
        assert_eq!(told, "a second baseline differed from the first in 1 of 2 workloads, by 1.50 us at most");
        let many = [[steady(); 19].as_slice(), &[moved]].concat();
        assert_eq!(reasons(QUIET, QUIET, &many), "", "one in twenty differs by chance");

        let short = Steadiness { rounds: 3, ..steady() };
        assert_eq!(
            reasons(QUIET, QUIET, &[short]),
            "an interval of 95 % takes 6 rounds at least, and a workload had 3"
        );
    }

    #[test]
    fn the_spread_is_that_of_the_middle_half() {
        assert_eq!(spread_percent(&[1.0, 2.0, 3.0]), None);
        assert_eq!(spread_percent(&[10.0; 8]), Some(0.0));
        let values = [96.0, 98.0, 100.0, 102.0, 104.0];
        assert_eq!(spread_percent(&values), Some(4.0));
        let wild = [96.0, 98.0, 100.0, 102.0, 9000.0];
        assert_eq!(spread_percent(&wild), Some(4.0));
        assert_eq!(spread_percent(&[0.0; 8]), None);
    }

    #[test]
    fn the_times_of_the_kernel_are_read() {
        let stat = "cpu  10 1 5 100 2 0 3 7 50 60\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(times(stat), Some(Times { all: 128, stolen: 7 }));
        assert_eq!(times("cpu  10 1 5"), None);
        assert_eq!(times(""), None);
    }
}
