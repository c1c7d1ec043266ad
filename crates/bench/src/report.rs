//! A run as a table on the terminal, and as files under `benches/runs`.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde_json::json;

use crate::cpu::Pinning;
use crate::footprint::{self, Footprint};
use crate::load::CONNECTIONS;
use crate::machine::{self, Machine, Versions};
use crate::measure::{Amount, Measured, Turns};
use crate::rival::{BASELINE, Rival};
use crate::statistics::{Estimate, estimate};
use crate::workload::Budget;

/// All of a run, as it is written to `raw.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    /// When it began, as RFC 3339 has it.
    began: String,
    command: String,
    machine: Machine,
    versions: Versions,
    /// The SHA-256 of each module.
    modules: Vec<(String, String)>,
    pinning: Pinning,
    connections: usize,
    amount: Amount,
    pub(crate) workloads: Vec<Measured>,
    /// Whether memory is measured, not time.
    #[serde(skip)]
    pub(crate) is_of_footprints: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) footprints: Vec<Footprint>,
}

impl Run {
    /// Notes what there is to know before anything is measured.
    pub(crate) fn begin<'r>(
        amount: Amount,
        pinning: &Pinning,
        rivals: impl Iterator<Item = &'r Rival>,
    ) -> anyhow::Result<Self> {
        let mut modules: Vec<(String, &PathBuf)> = Vec::new();
        for (name, file) in rivals.filter_map(|rival| Some((&rival.name, rival.module.as_ref()?))) {
            // The first of those that load it has its name.
            if modules.iter().all(|(_, other)| *other != file) {
                modules.push((name.clone(), file));
            }
        }
        let modules = modules.into_iter().map(|(name, file)| Ok((name, machine::hash(file)?)));
        Ok(Self {
            began: now().to_string(),
            command: command(std::env::args().skip(1)),
            machine: Machine::look(),
            versions: Versions::look()?,
            modules: modules.collect::<anyhow::Result<_>>()?,
            pinning: pinning.clone(),
            connections: CONNECTIONS,
            amount,
            workloads: Vec::new(),
            is_of_footprints: false,
            footprints: Vec::new(),
        })
    }

    /// Writes `README.md` and `raw.json`.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut raw = serde_json::to_value(self)?;
        if let Some(raw) = raw.as_object_mut() {
            raw.insert("summary".to_owned(), self.workloads.iter().map(summary).collect());
        }
        for (name, text) in [("raw.json", format!("{raw:#}\n")), ("README.md", self.document(folder))] {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn document(&self, folder: &Path) -> String {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut out = format!("# {name}\n\n```\n{}\n\n{self}\n```\n\n", self.command);
        if !self.footprints.is_empty() {
            let table = footprint::table(&self.footprints);
            let _ = write!(
                out,
                "Medians over the rounds: how long Envoy took to serve, and its resident memory after requests on 64 \
                 connections. What each worker takes is a seventh of what eight take more than one, with its 95 % \
                 interval. Raw data: [raw.json](raw.json).\n\n{table}"
            );
            return out;
        }
        out.push_str(
            "Figures are microseconds of Envoy's own CPU time (the sum over its threads) a request: the median \
             over the rounds, and the 95 % interval of it (bootstrap). What counts is the cost over the \
             baseline, an Envoy without the filter, in the same round. Ratios of implementations hold from \
             machine to machine; times do not. Raw data: [raw.json](raw.json).\n",
        );
        for measured in &self.workloads {
            let _ = write!(out, "\n## {}: {}\n\n", measured.name, measured.what);
            for (place, row) in rows(measured).iter().enumerate() {
                let _ = writeln!(out, "| {} |", row.join(" | "));
                if place == 0 {
                    let _ = writeln!(out, "|---|{}", "---:|".repeat(row.len().saturating_sub(1)));
                }
            }
            out.push('\n');
            for note in notes(measured) {
                let _ = writeln!(out, "- {note}");
            }
        }
        out
    }
}

/// What was run, where and how.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, kernel, load_average } = &self.machine;
        let Amount { rounds, requests, warm_up } = self.amount;
        writeln!(f, "began      {}", self.began)?;
        writeln!(f, "machine    {processor}, {cores} cores, Linux {kernel}; load average {load_average}")?;
        let workers = if self.is_of_footprints { "with 1 and 8 workers" } else { "one worker" };
        writeln!(f, "cores      {}", self.pinning)?;
        writeln!(f, "Envoy      {}, {workers}", self.versions.envoy)?;
        writeln!(f, "commit     {}", self.versions.commit)?;
        for (name, hash) in &self.modules {
            writeln!(f, "module     {name}: sha256 {hash}")?;
        }
        writeln!(f, "compiler   {} (of the load)", self.versions.rustc)?;
        if self.is_of_footprints {
            return write!(f, "amount     {rounds} rounds, in each of which each is started with both");
        }
        writeln!(
            f,
            "load       closed loop, HTTP/1.1, {CONNECTIONS} connections kept open, by crates/bench"
        )?;
        write!(f, "amount     {rounds} rounds of {requests} requests each, after {warm_up} to warm up")
    }
}

/// The folder of a run that is saved today, which must not be there.
pub(crate) fn folder(name: &str) -> anyhow::Result<PathBuf> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ensure!(
        !name.is_empty() && name.bytes().all(plain),
        "--save: {name:?} has more than letters, digits, -_."
    );
    let today = now().to_string();
    let (today, _) = today.split_once('T').context("a date has no time")?;
    let folder = xtask::workspace_root().join("benches/runs").join(format!("{today}-{name}"));
    ensure!(!folder.exists(), "--save: {} is there already; take another name", folder.display());
    Ok(folder)
}

fn now() -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now())
}

/// What was typed to get this run.
fn command(arguments: impl Iterator<Item = String>) -> String {
    ["cargo xtask bench".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One workload, for the terminal.
pub(crate) fn terminal(measured: &Measured) -> String {
    let rows = rows(measured);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut out = format!("{}: {}\n", measured.name, measured.what);
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let _ =
                if column == 0 { write!(out, "  {cell:width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    for note in notes(measured) {
        let _ = writeln!(out, "  {note}");
    }
    out
}

/// The table of a workload, its first row the heads.
fn rows(measured: &Measured) -> Vec<Vec<String>> {
    let mut heads = vec!["", "CPU us a request", "over the baseline", "x native"];
    let anybody_remembers = measured.rivals.iter().any(|turns| turns.remembered().is_some());
    if anybody_remembers {
        heads.push("tokens remembered");
    }
    let rows = measured.rivals.iter().map(|turns| {
        let marginal = (turns.name != BASELINE).then(|| estimate(&measured.marginal(turns))).flatten();
        let times_native = marginal.and_then(|_| measured.ratio(turns, "native"));
        let mut row = vec![
            turns.name.clone(),
            shown(estimate(&turns.per_request()), 1),
            shown(marginal, 1),
            shown(times_native, 2),
        ];
        if anybody_remembers {
            row.push(turns.remembered().map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default());
        }
        row
    });
    std::iter::once(heads.into_iter().map(str::to_owned).collect()).chain(rows).collect()
}

fn shown(estimate: Option<Estimate>, decimals: usize) -> String {
    let Some(Estimate { median, low, high }) = estimate else { return String::new() };
    format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}

/// Who was left out and why, and how the module stands to its budgets.
fn notes(measured: &Measured) -> Vec<String> {
    let left_out = measured.left_out.iter().map(|(name, wrong)| format!("{name} does not do this: {wrong}"));
    let held = budgets(measured).map(|(turns, Budget { rival, most }, ratio)| match ratio {
        Some(known) => {
            let (ratio, verdict) = (shown(ratio, 2), verdict(known, most));
            format!("{} may cost {most} x {rival}, and costs {ratio}: {verdict}", turns.name)
        }
        None => {
            format!("{} may cost {most} x {rival}, which cannot be told from the baseline here", turns.name)
        }
    });
    left_out.chain(held).collect()
}

/// Each budget of each build of the module, with what was measured where that says something.
fn budgets(measured: &Measured) -> impl Iterator<Item = (&Turns, Budget, Option<Estimate>)> {
    measured.rivals.iter().filter(|turns| turns.ours).flat_map(move |turns| {
        let held = move |budget: &Budget| (turns, *budget, measured.ratio(turns, budget.rival));
        measured.budgets.iter().filter(|budget| measured.rival(budget.rival).is_some()).map(held)
    })
}

/// A budget is met only where all of the interval is within it.
fn verdict(ratio: Estimate, most: f64) -> &'static str {
    match ratio {
        ratio if ratio.high <= most => "met",
        ratio if ratio.low > most => "not met",
        _ => "not certain",
    }
}

fn summary(measured: &Measured) -> serde_json::Value {
    let rivals = measured.rivals.iter().map(|turns| {
        json!({
            "name": turns.name,
            "microseconds": estimate(&turns.per_request()),
            "over_the_baseline": estimate(&measured.marginal(turns)),
            "times_native": measured.ratio(turns, "native"),
            "remembered": turns.remembered(),
        })
    });
    let budgets = budgets(measured).map(|(turns, budget, ratio)| {
        let verdict = ratio.map(|ratio| verdict(ratio, budget.most));
        json!({ "name": turns.name, "budget": budget, "ratio": ratio, "verdict": verdict })
    });
    json!({
        "workload": measured.name,
        "implementations": rivals.collect::<Vec<_>>(),
        "budgets": budgets.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn turns(name: &str, microseconds: [u64; 3]) -> Turns {
        Turns {
            name: name.to_owned(),
            ours: name == "jwt_reject",
            cpu_nanoseconds: microseconds.map(|each| each * 10_000).into(),
            wall_nanoseconds: vec![1; 3],
            requests: 10,
            counted: BTreeMap::new(),
        }
    }

    fn measured() -> Measured {
        Measured {
            name: "forged-repeated",
            what: "one forged token",
            budgets: &[Budget { rival: "native", most: 0.3 }, Budget { rival: "lua", most: 0.75 }],
            rivals: vec![
                turns("baseline", [30, 31, 30]),
                turns("native", [90, 91, 90]),
                turns("jwt_reject", [45, 46, 45]),
            ],
            left_out: [("lua".to_owned(), "it passes".to_owned())].into(),
        }
    }

    #[test]
    fn the_table_tells_cost_ratio_and_budget() {
        let text = terminal(&measured());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["baseline", "30.0", "[30.0,", "31.0]"]);
        let native =
            ["native", "90.0", "[90.0,", "91.0]", "60.0", "[60.0,", "60.0]", "1.00", "[1.00,", "1.00]"];
        assert_eq!(lines[3], native);
        assert!(lines[4].ends_with(&["15.0", "[15.0,", "15.0]", "0.25", "[0.25,", "0.25]"]), "{text}");
        assert!(text.contains("lua does not do this: it passes"), "{text}");
        assert!(
            text.contains("jwt_reject may cost 0.3 x native, and costs 0.25 [0.25, 0.25]: met"),
            "{text}"
        );
        assert!(!text.contains("x lua"), "there is nothing to compare with:\n{text}");
        assert!(!text.contains("remembered"), "nobody remembers anything:\n{text}");
    }

    #[test]
    fn a_budget_is_met_or_not_only_where_the_interval_says_so() {
        let ratio = |low, high| Estimate { median: 0.3, low, high };
        let rows = [(0.2, 0.3, "met"), (0.2, 0.31, "not certain"), (0.31, 0.4, "not met")];
        for (low, high, expected) in rows {
            assert_eq!(verdict(ratio(low, high), 0.3), expected, "{low} {high}");
        }
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_folder() {
        for bad in ["", "a/b", "..", "../x", "a b"] {
            let ok = folder(bad)
                .is_ok_and(|path| path.parent() != Some(&xtask::workspace_root().join("benches/runs")));
            assert!(!ok, "{bad:?}");
        }
        let path = folder("no-such-run").unwrap();
        assert!(
            path.to_string_lossy().ends_with("-no-such-run") && path.starts_with(xtask::workspace_root())
        );
    }
}
