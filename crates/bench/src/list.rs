//! What there is to measure, as tables in Markdown: `--list`, and `benches/README.md`, which a test holds equal.

use std::fmt::Write as _;

use crate::behaviour;
use crate::experiment;
use crate::workload::{Answer, Budget, Kind};

/// All workloads, what is unfair about them, and all experiments.
pub(crate) fn tables() -> String {
    format!("{}\n{}\n{}", workloads(), unfair(), experiments())
}

fn kinds() -> impl Iterator<Item = (&'static str, &'static Kind)> {
    behaviour::ALL.iter().flat_map(|behaviour| behaviour.workloads.iter().map(|kind| (behaviour.name, kind)))
}

/// One row for each workload.
fn workloads() -> String {
    let mut out =
        "| behaviour | workload | what is sent | expected | rivals | budget |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (behaviour, Kind { name, what, answers, rivals, budgets, .. }) in kinds() {
        let answers: Vec<String> =
            answers.iter().map(|Answer { status, body }| format!("{status} {body}")).collect();
        let budgets: Vec<String> =
            budgets.iter().map(|Budget { rival, most }| format!("{most} x {rival}")).collect();
        // All of them have the baseline.
        let rivals = rivals.get(1..).unwrap_or_default().join("; ");
        let (answers, budgets) = (answers.join("; "), budgets.join("; "));
        let _ = writeln!(out, "| {behaviour} | {name} | {what} | {answers} | {rivals} | {budgets} |");
    }
    out
}

/// One row for each comparison of unlike things.
fn unfair() -> String {
    let mut out = "| unfair in | to or by | since |\n|---|---|---|\n".to_owned();
    for (_, kind) in kinds() {
        for it in kind.unfair {
            let _ = writeln!(out, "| {} | {} | {} |", kind.name, it.rival, it.why);
        }
    }
    out
}

/// One row for each experiment.
fn experiments() -> String {
    let mut out =
        "| experiment | what is compared | claim | what differs here |\n|---|---|---|---|\n".to_owned();
    for it in experiment::ALL {
        let _ = writeln!(out, "| {} | {} | {} | {} |", it.name, it.what, it.claim, it.differs);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_these_tables() {
        let file = xtask::workspace_root().join("benches/README.md");
        let text = std::fs::read_to_string(file).unwrap();
        for (name, table) in
            [("workloads", workloads()), ("unfair", unfair()), ("experiments", experiments())]
        {
            let begin = format!("<!-- {name}: cargo xtask bench --list -->\n\n");
            let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("there is no {begin:?}"));
            let (found, _) = rest.split_once("\n<!-- end -->").unwrap();
            assert_eq!(
                found, table,
                "{name} in benches/README.md is not what `cargo xtask bench --list` prints"
            );
        }
    }

    #[test]
    fn no_cell_ends_its_row() {
        for line in tables().lines().filter(|line| !line.is_empty()) {
            assert!(line.starts_with('|') && line.ends_with('|'), "{line}");
        }
        let rows =
            |table: String| -> Vec<usize> { table.lines().map(|line| line.matches('|').count()).collect() };
        for table in [workloads(), unfair(), experiments()] {
            let columns = rows(table);
            assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{columns:?}");
        }
    }
}
