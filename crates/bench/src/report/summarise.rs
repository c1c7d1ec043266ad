//! From what was measured to what is told of it.

use std::collections::BTreeMap;

use crate::measure::{Measured, Turns};
use crate::noise::{self, Steadiness};
use crate::report::json::{AnsweredBy, BudgetSummary, Latency, RivalSummary, Verdict, WorkloadSummary};
use crate::rival::{AGAIN, BASELINE};
use crate::statistics::{Estimate, estimate};

/// One workload of that behaviour.
pub(crate) fn workload(behaviour: &str, answered_by: AnsweredBy, measured: &Measured) -> WorkloadSummary {
    let baseline = measured.rivals.first().map(Turns::per_request).unwrap_or_default();
    WorkloadSummary {
        behaviour: behaviour.to_owned(),
        name: measured.name.to_owned(),
        what: measured.what.to_owned(),
        answered_by,
        rounds: measured.rounds,
        latency_rounds: measured.sustained.rounds,
        rate_was_given: measured.rate_was_given,
        baseline_spread_percent: noise::spread_percent(&baseline),
        rivals: measured.rivals.iter().map(|turns| rival(measured, turns)).collect(),
        budgets: budgets(measured),
        left_out: measured.left_out.clone(),
    }
}

/// What a workload tells of the machine.
pub(crate) fn steadiness(measured: &WorkloadSummary) -> Steadiness {
    let again = measured.rival(AGAIN).and_then(|again| again.over_baseline_us);
    Steadiness { spread_percent: measured.baseline_spread_percent, again, rounds: measured.rounds }
}

fn rival(measured: &Measured, turns: &Turns) -> RivalSummary {
    let others = || measured.rivals.iter().filter(|other| other.name != turns.name);
    let is_filter = ![BASELINE, AGAIN].contains(&turns.name.as_str());
    let over_baseline = (turns.name != BASELINE).then(|| estimate(&measured.marginal(turns))).flatten();
    let ratio = |other: &Turns| Some((other.name.clone(), measured.ratio(turns, &other.name)?));
    let filters = others().filter(|other| ![BASELINE, AGAIN].contains(&other.name.as_str()));
    let ratios: BTreeMap<String, Estimate> =
        if is_filter { filters.filter_map(ratio).collect() } else { BTreeMap::new() };
    RivalSummary {
        name: turns.name.clone(),
        ours: turns.ours,
        cpu_us: estimate(&turns.per_request()),
        over_baseline_us: over_baseline,
        requests_per_second: estimate(&turns.requests_per_second),
        latency_us: measured.held_rate.and_then(|rate| latency(turns, rate)),
        resident_kb: turns.resident_kilobytes,
        host_calls: turns.host_calls,
        remembered: turns.remembered(),
        ratios,
        within_noise: others()
            .filter(|other| measured.within_noise(turns, other))
            .map(|other| other.name.clone())
            .collect(),
        unfair: turns.unfair.map(str::to_owned),
    }
}

fn latency(turns: &Turns, rate: f64) -> Option<Latency> {
    let of = |part: fn(&crate::latency::Latency) -> f64| {
        estimate(&turns.latencies.iter().map(part).collect::<Vec<_>>())
    };
    Some(Latency {
        p50: of(|it| it.p50)?,
        p90: of(|it| it.p90)?,
        p99: of(|it| it.p99)?,
        p99_9: of(|it| it.p99_9)?,
        at_requests_per_second: rate,
        answered_per_second: estimate(&turns.answered_per_second)?.median,
        tool: turns.tools.iter().copied().collect::<Vec<_>>().join(", "),
    })
}

/// Each budget of each build of the module, with what was measured where that says something.
fn budgets(measured: &Measured) -> Vec<BudgetSummary> {
    let ours = measured.rivals.iter().filter(|turns| turns.ours);
    ours.flat_map(|turns| {
        let held = measured.budgets.iter().filter(|budget| measured.rival(budget.rival).is_some());
        held.map(|budget| {
            let ratio = measured.ratio(turns, budget.rival);
            let certain = ratio.filter(|_| measured.rounds >= noise::FEWEST_ROUNDS);
            BudgetSummary {
                name: turns.name.clone(),
                rival: budget.rival.to_owned(),
                most: budget.most,
                ratio,
                verdict: Verdict::of(certain, budget.most),
            }
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_met_or_not_only_where_the_interval_says_so() {
        let ratio = |low, high| Some(Estimate { median: 0.3, low, high });
        let rows = [
            (ratio(0.2, 0.3), Verdict::Met),
            (ratio(0.2, 0.31), Verdict::NotCertain),
            (ratio(0.31, 0.4), Verdict::NotMet),
            (None, Verdict::NotCertain),
        ];
        for (ratio, expected) in rows {
            assert_eq!(Verdict::of(ratio, 0.3), expected, "{ratio:?}");
        }
    }

    #[test]
    fn a_summary_has_costs_ratios_noise_and_latencies() {
        let measured = crate::report::tests::measured();
        let told = workload("jwt-reject", AnsweredBy::Direct, &measured);
        let of = |name: &str| told.rival(name).unwrap();
        assert_eq!(of("baseline").over_baseline_us, None);
        assert_eq!(of("native").over_baseline_us.unwrap().median, 60.0);
        assert_eq!(of("jwt_reject").ratios["native"].median, 0.25);
        assert!(of("baseline").ratios.is_empty() && !of("jwt_reject").ratios.contains_key("baseline"));
        assert_eq!(of("baseline").within_noise, ["baseline again"]);
        assert!(of("native").within_noise.is_empty());
        let latency = of("native").latency_us.as_ref().unwrap();
        assert_eq!((latency.p50.median, latency.p99_9.median), (200.0, 900.0));
        assert_eq!((latency.at_requests_per_second, latency.answered_per_second), (9000.0, 8000.0));
        assert!(!latency.kept_up());
        assert_eq!(told.budgets.len(), 1, "lua is not there to compare with: {:?}", told.budgets);
        assert_eq!(told.budgets[0].verdict, Verdict::NotCertain, "three rounds are too few");
        let more = workload("jwt-reject", AnsweredBy::Direct, &Measured { rounds: 6, ..measured });
        assert_eq!(more.budgets[0].verdict, Verdict::Met);
        let Steadiness { spread_percent, again, rounds } = steadiness(&told);
        assert_eq!((spread_percent, rounds), (None, 3));
        assert_eq!(again.unwrap().median, 0.0);
    }
}
