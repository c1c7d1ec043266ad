//! A run on the terminal.

use std::fmt::Write as _;

use crate::report::json::{ExperimentSummary, WorkloadSummary};
use crate::report::tables::{self, Table, shown};

/// One workload.
pub(crate) fn workload(workload: &WorkloadSummary) -> String {
    let mut out = format!("{}: {}\n{}", workload.name, workload.what, table(&tables::costs(workload)));
    if let Some(loads) = tables::loads(workload) {
        let rate = tables::rate(workload).map(|rate| format!("  {rate}\n")).unwrap_or_default();
        let _ = write!(out, "\n{}{rate}", table(&loads));
    }
    for note in tables::notes(workload) {
        let _ = writeln!(out, "  {note}");
    }
    out
}

/// One experiment.
pub(crate) fn experiment(experiment: &ExperimentSummary) -> String {
    let ExperimentSummary { name, what, claim, pair: [a, b], figures, beside } = experiment;
    let mut rows = vec![vec![String::new(), a.clone(), b.clone(), "change %".to_owned()]];
    rows.extend(figures.iter().map(|it| {
        let name = format!("{}, {}", it.what, it.unit);
        vec![name, shown(Some(it.a), 1), shown(Some(it.b), 1), shown(Some(it.change_percent), 1)]
    }));
    let mut out = format!("{name}: {what}\n{}  claim: {claim}\n", table(&rows));
    for line in beside {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn table(rows: &Table) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut out = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let _ =
                if column == 0 { write!(out, "  {cell:width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::report::tests::summary;

    #[test]
    fn columns_stand_below_their_heads() {
        let summary = summary();
        let text = super::workload(&summary.workloads[0]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "forged-repeated: one forged <token> & \"more\"");
        let end = |line: &str, part: &str| line.find(part).map(|at| at + part.len());
        assert_eq!(end(lines[1], "CPU us a request"), end(lines[5], "45.0 [45.0, 46.0]"), "{text}");
        assert!(
            text.contains("jwt_reject may cost 0.3 x native, and costs 0.25 [0.25, 0.25]: not certain"),
            "{text}"
        );
        assert!(text.contains("latencies at 9000 requests/s"), "{text}");
        let text = super::experiment(&summary.experiments[0]);
        assert!(text.contains("50.0 [49.0, 51.0]") && text.contains("  claim: twice"), "{text}");
    }
}
