//! Tables and notes of a workload, for the terminal, for Markdown and for HTML alike.

use crate::report::json::{BudgetSummary, Latency, RivalSummary, WorkloadSummary};
use crate::rival::{AGAIN, BASELINE};
use crate::statistics::Estimate;

/// Rows of cells, the first of them the heads; the first column has names, the others have figures.
pub(crate) type Table = Vec<Vec<String>>;

/// What a column shows of a rival.
type Cell = fn(&RivalSummary) -> String;

/// What a request costs, and what comes with it.
pub(crate) fn costs(workload: &WorkloadSummary) -> Table {
    let rivals = &workload.rivals;
    let mut columns: Vec<(&str, Cell)> = vec![
        ("CPU us a request", |it| shown(it.cpu_us, 1)),
        ("over the baseline", |it| shown(it.over_baseline_us, 1)),
    ];
    let has = |name: &str| workload.rival(name).is_some();
    if has("native") {
        columns.push(("x native", |it| shown(it.ratios.get("native").copied(), 2)));
    }
    if has("lua") {
        columns.push(("x lua", |it| shown(it.ratios.get("lua").copied(), 2)));
    }
    if rivals.iter().any(|it| it.host_calls.is_some()) {
        columns.push(("host calls", |it| it.host_calls.map(|calls| format!("{calls}")).unwrap_or_default()));
    }
    if rivals.iter().any(|it| it.resident_kb.is_some()) {
        columns.push(("RSS MB", |it| {
            it.resident_kb.map(|kilobytes| format!("{:.1}", kilobytes as f64 / 1024.0)).unwrap_or_default()
        }));
    }
    if rivals.iter().any(|it| it.remembered.is_some()) {
        columns.push(("tokens remembered", |it| {
            it.remembered.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default()
        }));
    }
    table(&columns, rivals)
}

/// Throughput and latency; nothing where they were not measured.
pub(crate) fn loads(workload: &WorkloadSummary) -> Option<Table> {
    workload.rivals.iter().find(|it| it.requests_per_second.is_some() || it.latency_us.is_some())?;
    fn percentile(rival: &RivalSummary, part: fn(&Latency) -> Estimate) -> String {
        shown(rival.latency_us.as_ref().map(part), 0)
    }
    Some(table(
        &[
            ("requests/s", |it| shown(it.requests_per_second, 0)),
            ("p50 us", |it| percentile(it, |latency| latency.p50)),
            ("p90 us", |it| percentile(it, |latency| latency.p90)),
            ("p99 us", |it| percentile(it, |latency| latency.p99)),
            ("p99.9 us", |it| percentile(it, |latency| latency.p99_9)),
        ],
        &workload.rivals,
    ))
}

fn table(columns: &[(&str, Cell)], rivals: &[RivalSummary]) -> Table {
    let heads = std::iter::once(String::new()).chain(columns.iter().map(|(head, _)| (*head).to_owned()));
    let rows = rivals.iter().map(|rival| {
        let cells = columns.iter().map(|(_, cell)| cell(rival));
        std::iter::once(rival.name.clone()).chain(cells).collect()
    });
    std::iter::once(heads.collect()).chain(rows).collect()
}

/// A figure with its interval.
pub(crate) fn shown(estimate: Option<Estimate>, decimals: usize) -> String {
    let Some(Estimate { median, low, high }) = estimate else { return String::new() };
    format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}

/// At which rate latencies were measured, and who did not keep up with it.
pub(crate) fn rate(workload: &WorkloadSummary) -> Option<String> {
    let latency = workload.rivals.iter().find_map(|it| it.latency_us.as_ref())?;
    Some(format!(
        "latencies at {:.0} requests/s{}",
        latency.at_requests_per_second,
        // It was measured before the rounds, so it need not be half of what these found to the last digit.
        if workload.rate_was_given { "" } else { ", half of what the baseline answers without pause" }
    ))
}

/// What must be known of the figures: who was left out and why, what is unfair, what is noise, who did not keep up, and how
/// the module stands to its budgets.
pub(crate) fn notes(workload: &WorkloadSummary) -> Vec<String> {
    let rivals = &workload.rivals;
    let mut notes: Vec<String> =
        workload.left_out.iter().map(|(name, wrong)| format!("{name} does not do this: {wrong}")).collect();
    notes
        .extend(rivals.iter().filter_map(|it| Some(format!("unfair: {}: {}", it.name, it.unfair.as_ref()?))));
    for rival in rivals {
        let Some(latency) = rival.latency_us.as_ref().filter(|latency| !latency.kept_up()) else { continue };
        notes.push(format!(
            "{} did not keep up: it answered {:.0} of {:.0} requests/s, so that they queued; its latencies are of that \
             queue, and grow with the time measured",
            rival.name, latency.answered_per_second, latency.at_requests_per_second
        ));
    }
    notes.extend(noise(rivals));
    notes.extend(workload.budgets.iter().map(budget));
    notes
}

/// Who cannot be told from whom, each pair once.
fn noise(rivals: &[RivalSummary]) -> Vec<String> {
    let mut told = Vec::new();
    for (place, rival) in rivals.iter().enumerate() {
        let later: Vec<&str> = rivals
            .iter()
            .skip(place.saturating_add(1))
            .map(|other| other.name.as_str())
            // That is what the two are there for.
            .filter(|other| !(rival.name == BASELINE && *other == AGAIN) && rival.name != AGAIN)
            .filter(|other| rival.within_noise.iter().any(|name| name == other))
            .collect();
        if !later.is_empty() {
            told.push(format!("within the noise of {}: {}", rival.name, later.join("; ")));
        }
    }
    told
}

fn budget(budget: &BudgetSummary) -> String {
    let BudgetSummary { name, rival, most, ratio, verdict } = budget;
    match ratio {
        Some(_) => {
            format!("{name} may cost {most} x {rival}, and costs {}: {}", shown(*ratio, 2), verdict.words())
        }
        None => format!("{name} may cost {most} x {rival}, which cannot be told from the baseline here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::summary;

    #[test]
    fn tables_have_a_row_for_each_and_a_column_for_what_is_known() {
        let summary = summary();
        let workload = &summary.workloads[0];
        let costs = costs(workload);
        let heads = ["", "CPU us a request", "over the baseline", "x native", "host calls", "RSS MB"];
        assert_eq!(costs[0], heads);
        assert_eq!(
            costs[4],
            ["jwt_reject", "45.0 [45.0, 46.0]", "15.0 [15.0, 15.0]", "0.25 [0.25, 0.25]", "5", "58.6"]
        );
        assert_eq!(costs[1][1..4], ["30.0 [30.0, 31.0]", "", ""]);
        let loads = loads(workload).unwrap();
        assert_eq!(
            loads[3],
            [
                "native",
                "18000 [17000, 19000]",
                "200 [200, 200]",
                "300 [300, 300]",
                "500 [500, 500]",
                "900 [900, 900]"
            ]
        );
        let mut without = workload.clone();
        for rival in &mut without.rivals {
            (rival.requests_per_second, rival.latency_us) = (None, None);
        }
        assert_eq!(super::loads(&without), None);
        assert_eq!(rate(&without), None);
    }

    #[test]
    fn notes_tell_who_is_left_out_who_did_not_keep_up_and_how_budgets_stand() {
        let summary = summary();
        let notes = notes(&summary.workloads[0]);
        let expected = [
            "lua does not do this: it passes",
            "unfair: native: it does less",
            "native did not keep up: it answered 8000 of 9000 requests/s, so that they queued; its latencies are of \
             that queue, and grow with the time measured",
            "jwt_reject may cost 0.3 x native, and costs 0.25 [0.25, 0.25]: not certain",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn what_is_noise_is_told_once_for_each_pair() {
        let mut summary = summary();
        let rivals = &mut summary.workloads[0].rivals;
        rivals[2].within_noise = vec!["jwt_reject".to_owned()];
        rivals[3].within_noise = vec!["native".to_owned()];
        assert_eq!(noise(rivals), ["within the noise of native: jwt_reject"]);
    }
}
