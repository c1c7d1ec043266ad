//! Whether something became slower between two runs, from their summaries: `--compare`.
//!
//! Compared are, of each workload and each build of our modules, the cost over the baseline, the requests a second and
//! the 99th percentile. Of each it is told how many times as bad the new one is: new / old, or old / new where more is
//! better. The interval comes from those of both runs, taken as independent: on a scale of logarithms the distances
//! from median to end add up as squares do,
//! `low = r / exp(sqrt(ln(new / new.low)^2 + ln(old.high / old)^2))`, and the other end likewise. Where an interval
//! reaches zero, a ratio has no bound on that side.
//!
//! Something is a regression only where all of its interval is past the threshold.

use std::fmt::Write as _;

use crate::report::json::{RivalSummary, Summary, WorkloadSummary};
use crate::statistics::Estimate;

/// With fewer rounds there is no interval to judge by.
const FEWEST_ROUNDS: usize = 3;

/// Latencies at rates that differ by more than this factor are no longer of the same load.
const MOST_APART: f64 = 1.15;

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was compared, in the order of the new run.
    pub changes: Vec<Change>,
    /// What makes it less certain.
    pub doubts: Vec<String>,
}

/// One figure in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// `workload, rival: figure`.
    pub what: String,
    /// The old one and the new one.
    pub medians: [f64; 2],
    /// How many times as bad the new one is; no end where there is no bound.
    pub times: Option<Times>,
    /// What is to be made of it.
    pub verdict: Verdict,
}

/// A ratio whose interval may have no end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// The ratio of the medians.
    pub median: f64,
    /// Where its interval begins.
    pub low: f64,
    /// Where it ends; infinite where there is no bound.
    pub high: f64,
}

/// What is to be made of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All of the interval is past the threshold.
    Worse,
    /// All of the interval is as far on the other side.
    Better,
    /// Neither.
    NotTold,
    /// There is no interval, or nothing to divide by.
    NoInterval,
}

/// Compares two runs. The threshold is in percent.
pub fn compare(old: &Summary, new: &Summary, threshold: f64) -> Comparison {
    let mut doubts = Vec::new();
    let mut differs = |what: &str, old: &str, new: &str| {
        if old != new {
            doubts.push(format!("{what}: {old:?} then, {new:?} now"));
        }
    };
    differs("another processor", &old.machine.processor, &new.machine.processor);
    differs("another number of cores", &old.machine.cores.to_string(), &new.machine.cores.to_string());
    differs("another Envoy", &old.versions.envoy, &new.versions.envoy);
    differs("other cores", &old.settings.pinning.to_string(), &new.settings.pinning.to_string());
    for (when, warning) in [("then", old.noise.warning()), ("now", new.noise.warning())] {
        doubts.extend(warning.map(|warning| format!("{when}: {warning}")));
    }
    let mut changes = Vec::new();
    for now in &new.workloads {
        let Some(then) = old.workload(&now.name) else {
            doubts.push(format!("{} was not measured then", now.name));
            continue;
        };
        let rates =
            [then, now].map(|it| Some(it.rivals.first()?.latency_us.as_ref()?.at_requests_per_second));
        if let [Some(before), Some(after)] = rates
            && (after / before).max(before / after) > MOST_APART
        {
            doubts.push(format!(
                "{}: latencies at {before:.0} requests/s then, at {after:.0} now; --held-rate makes them alike",
                now.name
            ));
        }
        if then.answered_by != now.answered_by {
            doubts.push(format!("{}: answered by another then", now.name));
            continue;
        }
        for rival in now.rivals.iter().filter(|rival| rival.ours) {
            match then.rival(&rival.name) {
                Some(before) => changes.extend(figures([then, now], [before, rival], threshold)),
                None => doubts.push(format!("{}, {} was not measured then", now.name, rival.name)),
            }
        }
    }
    for then in old.workloads.iter().filter(|then| new.workload(&then.name).is_none()) {
        doubts.push(format!("{} was not measured now", then.name));
    }
    Comparison { changes, doubts }
}

/// What is known of a rival in both runs.
fn figures(workloads: [&WorkloadSummary; 2], rivals: [&RivalSummary; 2], threshold: f64) -> Vec<Change> {
    type Figure = fn(&RivalSummary) -> Option<Estimate>;
    let turns = workloads.map(|it| it.rounds);
    let sustained = workloads.map(|it| it.latency_rounds);
    let all: [(&str, Figure, bool, [usize; 2]); 3] = [
        ("cost over the baseline, us", |it| it.over_baseline_us, false, turns),
        ("requests/s", |it| it.requests_per_second, true, sustained),
        // Of a queue that grows it is a matter of how long it was measured.
        ("p99, us", |it| Some(it.latency_us.as_ref().filter(|it| it.kept_up())?.p99), false, sustained),
    ];
    let mut changes = Vec::new();
    for (figure, of, more_is_better, rounds) in all {
        let [Some(old), Some(new)] = rivals.map(of) else { continue };
        let times = if more_is_better { times(new, old) } else { times(old, new) };
        let times = times.filter(|_| rounds.iter().all(|rounds| *rounds >= FEWEST_ROUNDS));
        let limit = 1.0 + threshold / 100.0;
        let verdict = match times {
            None => Verdict::NoInterval,
            Some(times) if times.low > limit => Verdict::Worse,
            Some(times) if times.high < 1.0 / limit => Verdict::Better,
            Some(_) => Verdict::NotTold,
        };
        let [_, rival] = rivals;
        let [_, workload] = workloads;
        let what = format!("{}, {}: {figure}", workload.name, rival.name);
        changes.push(Change { what, medians: [old.median, new.median], times, verdict });
    }
    changes
}

/// How many times `under` is `over`; none where the median of either is not above zero.
fn times(under: Estimate, over: Estimate) -> Option<Times> {
    if under.median <= 0.0 || over.median <= 0.0 {
        return None;
    }
    let median = over.median / under.median;
    // How far an end is from its median, as a factor of at least 1.
    let distance = |one: f64, other: f64| if other > 0.0 { (one / other).ln().abs() } else { f64::INFINITY };
    let down = distance(over.median, over.low).hypot(distance(under.high, under.median));
    let up = distance(over.high, over.median).hypot(distance(under.median, under.low));
    Some(Times { median, low: median / down.exp(), high: median * up.exp() })
}

impl Comparison {
    /// Those that became worse past the threshold.
    pub fn regressions(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.verdict == Verdict::Worse)
    }

    /// In words.
    pub fn text(&self, threshold: f64) -> String {
        let mut out = String::new();
        for doubt in &self.doubts {
            let _ = writeln!(out, "  note: {doubt}");
        }
        for Change { what, medians: [old, new], times, verdict } in &self.changes {
            let _ = write!(out, "  {what}: {old:.1} then, {new:.1} now");
            if let Some(Times { median, low, high }) = times {
                let high = if high.is_finite() { format!("{high:.2}") } else { "no bound".to_owned() };
                let _ = write!(out, ", {median:.2} [{low:.2}, {high}] times as bad");
            }
            out.push_str(match verdict {
                Verdict::Worse => ": WORSE\n",
                Verdict::Better => ": better\n",
                Verdict::NotTold => "\n",
                Verdict::NoInterval => ": cannot be judged without an interval\n",
            });
        }
        let worse = self.regressions().count();
        let judged = self.changes.iter().filter(|it| it.verdict != Verdict::NoInterval).count();
        let _ = writeln!(
            out,
            "{worse} of {judged} figures that can be judged are worse by more than {threshold} %, all of their interval"
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::AnsweredBy;
    use crate::report::tests::summary;

    fn estimate(low: f64, median: f64, high: f64) -> Estimate {
        Estimate { median, low, high }
    }

    fn verdict_of(old: Estimate, new: Estimate) -> (Verdict, bool) {
        let with = |cost| {
            let mut summary = summary();
            summary.workloads[0].rivals[3].over_baseline_us = Some(cost);
            summary
        };
        let comparison = compare(&with(old), &with(new), 10.0);
        (comparison.changes[0].verdict, comparison.regressions().count() > 0)
    }

    #[test]
    fn only_an_interval_past_the_threshold_is_a_regression() {
        let old = estimate(9.5, 10.0, 10.5);
        let rows = [
            (estimate(9.5, 10.0, 10.5), Verdict::NotTold, false),
            (estimate(10.9, 11.5, 12.1), Verdict::NotTold, false),
            (estimate(12.0, 12.5, 13.0), Verdict::Worse, true),
            (estimate(5.0, 20.0, 40.0), Verdict::NotTold, false),
            (estimate(6.8, 7.0, 7.2), Verdict::Better, false),
            (estimate(-1.0, 20.0, 40.0), Verdict::NotTold, false),
            (estimate(-1.0, -0.5, 0.5), Verdict::NoInterval, false),
        ];
        for (new, verdict, regression) in rows {
            assert_eq!(verdict_of(old, new), (verdict, regression), "{new:?}");
        }
        assert_eq!(verdict_of(estimate(-1.0, 0.0, 1.0), old).0, Verdict::NoInterval);
    }

    #[test]
    fn distances_add_up_as_squares_do() {
        let factor = |factor: f64| estimate(10.0 / factor, 10.0, 10.0 * factor);
        let times = times(factor(3_f64.exp()), factor(4_f64.exp())).unwrap();
        assert!((times.low.ln() + 5.0).abs() < 1e-9 && (times.high.ln() - 5.0).abs() < 1e-9, "{times:?}");
        let unbounded = super::times(estimate(-1.0, 10.0, 11.0), factor(1.0)).unwrap();
        assert_eq!(unbounded.high, f64::INFINITY);
        assert!(unbounded.low > 0.9);
        let one = super::times(factor(1.0), factor(1.0)).unwrap();
        assert_eq!(one, Times { median: 1.0, low: 1.0, high: 1.0 });
    }

    #[test]
    fn fewer_requests_a_second_and_longer_latencies_are_worse() {
        let old = summary();
        let mut new = summary();
        let ours = &mut new.workloads[0].rivals[3];
        ours.requests_per_second = Some(estimate(900.0, 1000.0, 1100.0));
        ours.latency_us.as_mut().unwrap().p99 = estimate(9000.0, 9000.0, 9000.0);
        let comparison = compare(&old, &new, 10.0);
        let worse: Vec<&str> = comparison.regressions().map(|it| it.what.as_str()).collect();
        assert_eq!(
            worse,
            ["forged-repeated, jwt_reject: requests/s", "forged-repeated, jwt_reject: p99, us"]
        );
        let text = comparison.text(10.0);
        assert!(text.contains("requests/s: 18000.0 then, 1000.0 now, 18.00 ["), "{text}");
        assert!(text.contains(": WORSE\n2 of 3 figures"), "{text}");
        assert_eq!(compare(&new, &old, 10.0).regressions().count(), 0);
    }

    #[test]
    fn one_round_has_no_interval_to_judge_by() {
        let old = summary();
        let mut new = summary();
        new.workloads[0].rounds = 1;
        new.workloads[0].rivals[3].over_baseline_us = Some(estimate(99.0, 99.0, 99.0));
        let comparison = compare(&old, &new, 10.0);
        assert_eq!(comparison.changes[0].verdict, Verdict::NoInterval);
        assert!(comparison.text(10.0).contains("cannot be judged without an interval"));
    }

    #[test]
    fn what_was_measured_otherwise_or_not_at_all_is_told() {
        let old = summary();
        let mut new = summary();
        new.machine.processor = "another".to_owned();
        new.workloads[0].name = "renamed".to_owned();
        let doubts = compare(&old, &new, 10.0).doubts.join("\n");
        for part in
            ["another processor: ", "renamed was not measured then", "forged-repeated was not measured now"]
        {
            assert!(doubts.contains(part), "{part}: {doubts}");
        }
        let mut faster = summary();
        for rival in &mut faster.workloads[0].rivals {
            rival.latency_us.as_mut().unwrap().at_requests_per_second *= 1.2;
        }
        let comparison = compare(&old, &faster, 10.0);
        assert!(
            comparison.doubts.iter().any(|it| it.contains("latencies at 9000 requests/s then, at 10800 now"))
        );
        // It did not keep up with that: there is no p99 to compare.
        assert_eq!(comparison.changes.len(), 2);
        let mut upstream = summary();
        upstream.workloads[0].answered_by = AnsweredBy::Upstream;
        let comparison = compare(&old, &upstream, 10.0);
        assert!(comparison.changes.is_empty());
        assert!(comparison.doubts.iter().any(|it| it == "forged-repeated: answered by another then"));
    }
}
