//! The table of costs in the repository's README: what a published run found of each workload that has a budget, and how the
//! modules stand to these. `cargo xtask bench --table RUN/summary.json` writes it; a test holds the README to its run.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::report::json::{BudgetSummary, RivalSummary, Summary, Verdict, WorkloadSummary};
use crate::report::markdown::{table, text};
use crate::report::tables::{Table, shown};

/// What the section begins with, then the path of the run's summary from the root of the repository.
const BEGIN: &str = "<!-- costs: ";
const AFTER_PATH: &str = " -->\n";
const END: &str = "<!-- end -->";

/// Writes the table of a run into the README where that has such a section; gives the section where it has none.
pub(crate) fn publish(file: &Path) -> anyhow::Result<Option<String>> {
    let root = xtask::workspace_root();
    let file = file.canonicalize().with_context(|| format!("cannot read {}", file.display()))?;
    let path = file.strip_prefix(root.canonicalize()?).ok();
    let path = path.with_context(|| format!("{} is not in this repository", file.display()))?;
    let section = section(&path.to_string_lossy(), &Summary::read(&file)?)?;
    let readme = root.join("README.md");
    let document = std::fs::read_to_string(&readme).context("cannot read README.md")?;
    let Some((_, before)) = found(&document)? else { return Ok(Some(section)) };
    std::fs::write(&readme, document.replace(before, &section)).context("cannot write README.md")?;
    Ok(None)
}

/// The section of a document: the path of the run that it is of, and all of its text.
fn found(document: &str) -> anyhow::Result<Option<(&str, &str)>> {
    let Some(begin) = document.find(BEGIN) else { return Ok(None) };
    let (_, from) = document.split_at(begin);
    let length = from.find(END).with_context(|| format!("{BEGIN:?} has no {END:?} after it"))?;
    let (section, _) = from.split_at(length.saturating_add(END.len()));
    let path = section.strip_prefix(BEGIN).and_then(|rest| rest.split_once(AFTER_PATH));
    let (path, _) = path.with_context(|| format!("{BEGIN:?} names no run"))?;
    Ok(Some((path, section)))
}

/// The section of a run, whose summary is at that path from the root of the repository.
fn section(path: &str, summary: &Summary) -> anyhow::Result<String> {
    let rows: Table = summary.workloads.iter().filter_map(row).collect();
    ensure!(!rows.is_empty(), "{path}: no workload of it has a budget");
    let heads = ["", "native", "Lua", "ours", "ours / native", "ours / Lua", "budget"];
    let all = std::iter::once(heads.map(str::to_owned).to_vec()).chain(rows).collect();
    let (folder, _) = path.rsplit_once('/').unwrap_or((".", path));
    let (day, _) = summary.began.split_once('T').unwrap_or((&summary.began, ""));
    let mut out = format!(
        "{BEGIN}{path}{AFTER_PATH}\nMicroseconds of Envoy's CPU time a request, over those of an Envoy without the filter: medians \
         of [the run of {day}]({folder}/README.md) on {}. Ratios have their 95 % interval, and hold from machine to \
         machine; times do not. A budget is met where all of its interval is within it.\n\n{}\n",
        text(&summary.machine.processor),
        table(&all)
    );
    out.push_str(&judgement(summary));
    if let Some(warning) = summary.noise.warning() {
        out.push_str(&format!("\n{}\n", text(&warning)));
    }
    out.push_str(END);
    Ok(out)
}

/// A workload that has a budget.
fn row(workload: &WorkloadSummary) -> Option<Vec<String>> {
    let ours = ours(workload)?;
    let cost = |rival: &RivalSummary| rival.over_baseline_us.map(|it| format!("{:.1}", it.median));
    let of = |name: &str| match (workload.rival(name), workload.left_out.contains_key(name)) {
        (Some(rival), _) => cost(rival).unwrap_or_default(),
        (None, true) => "does not do it".to_owned(),
        (None, false) => String::new(),
    };
    let times = |name: &str| shown(ours.ratios.get(name).copied(), 2);
    let budgets: Vec<String> = budgets(workload, ours).map(budget).collect();
    Some(vec![
        format!("{}: {}", workload.behaviour, workload.name),
        of("native"),
        of("lua"),
        cost(ours).unwrap_or_default(),
        times("native"),
        times("lua"),
        budgets.join("; "),
    ])
}

/// Our module as it is shipped, which is the first of its builds and settings.
fn ours(workload: &WorkloadSummary) -> Option<&RivalSummary> {
    let has_budget = |rival: &&RivalSummary| budgets(workload, rival).next().is_some();
    workload.rivals.iter().filter(|rival| rival.ours).find(has_budget)
}

fn budgets<'s>(
    workload: &'s WorkloadSummary,
    ours: &RivalSummary,
) -> impl Iterator<Item = &'s BudgetSummary> {
    workload.budgets.iter().filter(move |budget| budget.name == ours.name)
}

/// A budget with its verdict; what it is where no column has it.
fn budget(budget: &BudgetSummary) -> String {
    let BudgetSummary { rival, most, ratio, verdict, .. } = budget;
    let has_column = rival == "native" || rival == "lua";
    let ratio = ratio.filter(|_| !has_column).map(|ratio| format!(" ({})", shown(Some(ratio), 2)));
    let ratio = ratio.unwrap_or_default();
    match verdict {
        Verdict::Met => format!("{most} x {rival}{ratio}: met"),
        Verdict::NotMet => format!("{most} x {rival}{ratio}: NOT MET"),
        Verdict::NotCertain => format!("{most} x {rival}{ratio}: not certain"),
    }
}

/// How many budgets are met, and which are not.
fn judgement(summary: &Summary) -> String {
    let all: Vec<(&str, &BudgetSummary)> = summary
        .workloads
        .iter()
        .filter_map(|workload| Some((workload, ours(workload)?)))
        .flat_map(|(workload, ours)| budgets(workload, ours).map(|budget| (workload.name.as_str(), budget)))
        .collect();
    let named = |verdict: Verdict| -> Vec<String> {
        let those = all.iter().filter(|(_, budget)| budget.verdict == verdict);
        those.map(|(name, it)| format!("{} ({} x {})", text(name), it.most, text(&it.rival))).collect()
    };
    let (met, missed, open) = (named(Verdict::Met), named(Verdict::NotMet), named(Verdict::NotCertain));
    let mut out = match met.len() {
        met if met == all.len() => format!("All {met} budgets are met.\n"),
        met => format!("{met} of {} budgets are met.\n", all.len()),
    };
    for (what, names) in [("Not met", missed), ("Not certain", open)] {
        if !names.is_empty() {
            out.push_str(&format!("{what}: {}.\n", names.join(", ")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::summary;
    use crate::statistics::Estimate;

    const PATH: &str = "benches/runs/x/summary.json";

    /// A run whose budget is met; of itself it has too few rounds for any verdict.
    fn run() -> Summary {
        let mut summary = summary();
        summary.workloads[0].budgets.retain(|budget| budget.rival == "native");
        summary.workloads[0].budgets[0].verdict = Verdict::Met;
        summary
    }

    #[test]
    fn a_row_tells_costs_ratios_and_how_budgets_stand() {
        let section = section(PATH, &run()).unwrap();
        let row = section.lines().find(|line| line.starts_with("| jwt-reject")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let expected =
            ["jwt-reject: forged-repeated", "60.0", "does not do it", "15.0", "0.25 [0.25, 0.25]", ""];
        assert_eq!(cells[1..7], expected, "{section}");
        assert_eq!(cells[7], "0.3 x native: met");
        assert!(section.starts_with("<!-- costs: benches/runs/x/summary.json -->\n"), "{section}");
        assert!(
            section.contains("[the run of 2026-12-01](benches/runs/x/README.md) on A processor"),
            "{section}"
        );
        assert!(section.contains("\nAll 1 budgets are met.\n") && section.ends_with(END), "{section}");
    }

    #[test]
    fn what_is_missed_is_said() {
        let mut summary = run();
        let workload = &mut summary.workloads[0];
        let ratio = |low, high| Some(Estimate { median: 1.0, low, high });
        let more = |rival: &str, verdict, ratio| BudgetSummary {
            rival: rival.to_owned(),
            most: 0.9,
            ratio,
            verdict,
            ..workload.budgets[0].clone()
        };
        let more = [
            more("lua", Verdict::NotMet, ratio(0.95, 1.1)),
            more("four modules", Verdict::NotCertain, ratio(0.8, 1.1)),
        ];
        workload.budgets.extend(more);
        let section = section(PATH, &summary).unwrap();
        let budgets =
            "0.3 x native: met; 0.9 x lua: NOT MET; 0.9 x four modules (1.00 [0.80, 1.10]): not certain";
        assert!(section.contains(budgets), "{section}");
        let judgement = "\n1 of 3 budgets are met.\nNot met: forged-repeated (0.9 x lua).\nNot certain: \
                         forged-repeated (0.9 x four modules).\n";
        assert!(section.contains(judgement), "{section}");
    }

    #[test]
    fn a_run_without_budgets_is_no_table() {
        let mut summary = summary();
        summary.workloads[0].budgets.clear();
        let error = section(PATH, &summary).unwrap_err().to_string();
        assert_eq!(error, "benches/runs/x/summary.json: no workload of it has a budget");
    }

    #[test]
    fn the_section_of_a_document_is_found_whole() {
        let section = section(PATH, &run()).unwrap();
        let document = format!("# Title\n\n{section}\n\nmore <!-- end -->\n");
        assert_eq!(found(&document).unwrap(), Some((PATH, section.as_str())));
        assert_eq!(found("# Title\n<!-- end -->").unwrap(), None);
        assert!(found("<!-- costs: x -->\n").is_err());
        assert!(found("<!-- costs: x <!-- end -->").is_err());
    }

    /// The README has a table as soon as there is a run that it can be of, and it is that run's.
    #[test]
    fn the_readme_has_the_table_of_its_run() {
        let root = xtask::workspace_root();
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let Some((path, found)) = found(&readme).unwrap() else {
            let runs = std::fs::read_dir(root.join("benches/runs")).unwrap();
            let summaries: Vec<_> = runs
                .map(|run| run.unwrap().path().join("summary.json"))
                .filter(|file| Summary::read(file).is_ok_and(|summary| section("", &summary).is_ok()))
                .collect();
            assert!(summaries.is_empty(), "README.md has no table of costs, and there is {summaries:?}");
            return;
        };
        let summary = Summary::read(&root.join(path)).unwrap();
        assert_eq!(
            found,
            section(path, &summary).unwrap(),
            "README.md is not what `cargo xtask bench --table {path}` writes"
        );
    }
}
