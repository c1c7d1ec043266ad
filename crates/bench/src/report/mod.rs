//! A run as a table on the terminal, and as files: `README.md`, `summary.json`, `summary.md`, `report.html` and
//! `raw.csv`. All but the last are made from the [summary](json::Summary) alone.

pub(crate) mod costs;
mod csv;
mod html;
pub mod json;
mod markdown;
mod method;
mod summarise;
mod tables;
mod terminal;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::cpu::Pinning;
use crate::footprint::{self, Footprint};
use crate::load::CONNECTIONS;
use crate::machine::{self, Machine, Versions};
use crate::measure::{Measured, Plan};
use crate::noise::{Moment, Noise, Steadiness};
use crate::report::json::{
    AnsweredBy, ExperimentSummary, LoadTool, SCHEMA, Settings, Summary, WorkloadSummary,
};
use crate::rival::Rival;

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct Run {
    /// What is known of it so far.
    pub(crate) summary: Summary,
    before: Moment,
    /// With the behaviour of each.
    measured: Vec<(String, Measured)>,
}

impl Run {
    /// Notes what there is to know before anything is measured.
    pub(crate) fn begin<'r>(
        plan: &Plan,
        pinning: &Pinning,
        answered_by: AnsweredBy,
        oha: Option<&str>,
        rivals: impl Iterator<Item = &'r Rival>,
    ) -> anyhow::Result<Self> {
        let mut modules: Vec<(String, &PathBuf)> = Vec::new();
        for (name, file) in rivals.flat_map(|rival| &rival.modules) {
            // The first of those that load it has its name.
            if modules.iter().all(|(_, other)| *other != file) {
                modules.push((name.clone(), file));
            }
        }
        let modules = modules.into_iter().map(|(name, file)| Ok((name, machine::hash(file)?)));
        let before = Moment::now();
        let machine = Machine::look();
        let sustained = plan.sustained;
        let own = || "crates/bench".to_owned();
        let summary = Summary {
            schema: SCHEMA,
            began: now().to_string(),
            command: command(std::env::args().skip(1)),
            noise: Noise::judge(machine.cores, before, before, &[]),
            machine,
            versions: Versions::look()?,
            modules: modules.collect::<anyhow::Result<_>>()?,
            load_tool: LoadTool {
                cpu: own(),
                one_request: oha.map_or_else(own, |version| format!("oha {version}")),
                many_requests: own(),
            },
            settings: Settings {
                pinning: pinning.clone(),
                answered_by,
                rounds: plan.amount.rounds,
                requests: plan.amount.requests,
                warm_up: plan.amount.warm_up,
                connections: CONNECTIONS,
                latency_rounds: sustained.rounds,
                closed_seconds: sustained.closed.as_secs_f64(),
                open_seconds: sustained.open.as_secs_f64(),
            },
            workloads: Vec::new(),
            experiments: Vec::new(),
        };
        Ok(Self { summary, before, measured: Vec::new() })
    }

    pub(crate) fn answered_by(&self) -> AnsweredBy {
        self.summary.settings.answered_by
    }

    /// Adds a workload, and gives what it found as text for the terminal.
    pub(crate) fn add(&mut self, behaviour: &str, measured: Measured) -> String {
        let workload = summarise::workload(behaviour, self.answered_by(), &measured);
        let text = terminal::workload(&workload);
        self.summary.workloads.push(workload);
        self.measured.push((behaviour.to_owned(), measured));
        text
    }

    /// Adds an experiment, likewise.
    pub(crate) fn add_experiment(&mut self, experiment: ExperimentSummary) -> String {
        let text = terminal::experiment(&experiment);
        self.summary.experiments.push(experiment);
        text
    }

    /// Judges how far it can be trusted, when all is measured.
    pub(crate) fn end(&mut self) {
        let workloads: Vec<Steadiness> = self.summary.workloads.iter().map(summarise::steadiness).collect();
        let cores = self.summary.machine.cores;
        self.summary.noise = Noise::judge(cores, self.before, Moment::now(), &workloads);
        let most = |of: fn(&WorkloadSummary) -> usize| self.summary.workloads.iter().map(of).max();
        let (rounds, latency_rounds) = (most(|it| it.rounds), most(|it| it.latency_rounds));
        self.summary.settings.rounds = rounds.unwrap_or(self.summary.settings.rounds);
        self.summary.settings.latency_rounds = latency_rounds.unwrap_or(self.summary.settings.latency_rounds);
    }

    /// Writes all files.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let measured = self.measured.iter().map(|(behaviour, measured)| (behaviour.as_str(), measured));
        let mut files = rendered(folder, &self.summary)?;
        files.insert("raw.csv", csv::write(measured)?);
        write(folder, &files)
    }
}

/// What is known before anything is measured.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, told) in method::facts(&self.summary) {
            writeln!(f, "{what:<10} {told}")?;
        }
        Ok(())
    }
}

/// The files that are made from a summary alone, by their names.
fn rendered(folder: &Path, summary: &Summary) -> anyhow::Result<BTreeMap<&'static str, String>> {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok([
        ("README.md", markdown::readme(&name, summary)),
        ("summary.json", summary.to_json()?),
        ("summary.md", markdown::summary(summary)),
        ("report.html", html::page(summary)),
    ]
    .into())
}

fn write(folder: &Path, files: &BTreeMap<&'static str, String>) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Writes `README.md` and `raw.json` of a run that measured memory and starting.
pub(crate) fn save_footprints(
    folder: &Path,
    run: &Run,
    rounds: usize,
    footprints: &[Footprint],
) -> anyhow::Result<()> {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Summary { began, command, machine, versions, modules, .. } = &run.summary;
    let raw = serde_json::json!({
        "began": began,
        "command": command,
        "machine": machine,
        "versions": versions,
        "modules": modules,
        "rounds": rounds,
        "footprints": footprints,
    });
    let readme = format!(
        "# {name}\n\n```\n{command}\n\n{}```\n\nMedians over {rounds} rounds: how long Envoy took to serve, and its \
         resident memory after requests on 64 connections. What each worker takes is a seventh of what eight take more \
         than one, with its 95 % interval. Raw data: [raw.json](raw.json).\n\n{}",
        preamble_of_footprints(run, rounds),
        footprint::table(footprints)
    );
    write(folder, &[("README.md", readme), ("raw.json", format!("{raw:#}\n"))].into())
}

/// What is known before memory is measured.
pub(crate) fn preamble_of_footprints(run: &Run, rounds: usize) -> String {
    let told = ["began", "machine", "governor", "Envoy", "commit", "module"];
    let facts = method::facts(&run.summary).into_iter().filter(|(what, _)| told.contains(what));
    let facts = facts.map(|(what, told)| match what {
        "Envoy" => format!("{what:<10} {}, with 1 and 8 workers\n", run.summary.versions.envoy),
        _ => format!("{what:<10} {told}\n"),
    });
    let amount = format!("{:<10} {rounds} rounds, in each of which each is started with both\n", "amount");
    facts.chain([amount]).collect()
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

#[cfg(test)]
pub(crate) mod tests {
    use super::json::FigureSummary;
    use super::*;
    use crate::latency::Latency;
    use crate::measure::{Sustained, Turns};
    use crate::rival::{AGAIN, BASELINE};
    use crate::statistics::Estimate;
    use crate::workload::Budget;

    fn turns(name: &str, microseconds: [u64; 3]) -> Turns {
        let latency = Latency { p50: 200.0, p90: 300.0, p99: 500.0, p99_9: 900.0 };
        Turns {
            cpu_nanoseconds: microseconds.map(|each| each * 10_000).into(),
            wall_nanoseconds: vec![1; 3],
            requests_per_second: vec![18_000.0, 17_000.0, 19_000.0],
            latencies: vec![latency; 3],
            answered_per_second: vec![if name == "native" { 8000.0 } else { 9000.0 }; 3],
            resident_kilobytes: Some(60_000),
            host_calls: (name == "jwt_reject").then_some(5.0),
            unfair: (name == "native").then_some("it does less"),
            ..Turns::new(name, name == "jwt_reject", 10)
        }
    }

    /// Four rivals in three rounds; a fifth does not do the job.
    pub(crate) fn measured() -> Measured {
        Measured {
            name: "forged-repeated",
            what: "one forged <token> & \"more\"",
            budgets: &[Budget { rival: "native", most: 0.3 }, Budget { rival: "lua", most: 0.75 }],
            held_rate: Some(9000.0),
            rate_was_given: false,
            rounds: 3,
            sustained: Sustained { rounds: 3, ..Sustained::NOTHING },
            rivals: vec![
                turns(BASELINE, [30, 31, 30]),
                turns(AGAIN, [30, 31, 30]),
                turns("native", [90, 91, 90]),
                turns("jwt_reject", [45, 46, 45]),
            ],
            left_out: [("lua".to_owned(), "it passes".to_owned())].into(),
        }
    }

    /// A run of that workload and an experiment.
    pub(crate) fn summary() -> Summary {
        let workload = summarise::workload("jwt-reject", AnsweredBy::Direct, &measured());
        let moment = Moment::unknown();
        let estimate = |median: f64| Estimate { median, low: median - 1.0, high: median + 1.0 };
        Summary {
            schema: SCHEMA,
            began: "2026-12-01T14:15:37Z".to_owned(),
            command: "cargo xtask bench --only forged-repeated".to_owned(),
            machine: Machine {
                processor: "A processor".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned(),
                load_average: "0.10".to_owned(),
                governor: "not told".to_owned(),
            },
            versions: Versions {
                envoy: "x/1.40.0".to_owned(),
                rustc: "rustc 1.95".to_owned(),
                commit: "abc".to_owned(),
            },
            modules: [("jwt_reject".to_owned(), "abc".to_owned())].into(),
            load_tool: LoadTool {
                cpu: "crates/bench".to_owned(),
                one_request: "oha 1.16.0".to_owned(),
                many_requests: "crates/bench".to_owned(),
            },
            settings: Settings {
                pinning: Pinning::NotPinned("a test".to_owned()),
                answered_by: AnsweredBy::Direct,
                rounds: 3,
                requests: 10,
                warm_up: 10,
                connections: 4,
                latency_rounds: 3,
                closed_seconds: 1.0,
                open_seconds: 2.0,
            },
            noise: Noise::judge(2, moment, moment, &[summarise::steadiness(&workload)]),
            workloads: vec![workload],
            experiments: vec![ExperimentSummary {
                beside: vec!["ours is once".to_owned()],
                name: "jwt-first".to_owned(),
                what: "tokens are looked at first, or last".to_owned(),
                claim: "twice as much".to_owned(),
                pair: ["first".to_owned(), "last".to_owned()],
                figures: vec![FigureSummary {
                    what: "CPU a request".to_owned(),
                    unit: "us".to_owned(),
                    a: estimate(50.0),
                    b: estimate(90.0),
                    change_percent: estimate(80.0),
                }],
            }],
        }
    }

    #[test]
    fn a_summary_survives_its_file_and_only_its_own_schema_is_read() {
        let written = summary().to_json().unwrap();
        assert_eq!(Summary::parse(&written).unwrap(), summary());
        let rows = [
            (
                written.replace("\"schema\": 1", "\"schema\": 2"),
                "its schema is version 2, and this program reads",
            ),
            (written.replace("\"schema\": 1", "\"scheme\": 1"), "it has no \"schema\""),
            ("[]".to_owned(), "not a summary of a run"),
            (written.replace("\"began\"", "\"start\""), "not a summary of this schema"),
        ];
        for (text, expected) in rows {
            let error = Summary::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
        // What a later program adds does not disturb this one.
        let more = written.replacen("\"schema\": 1", "\"schema\": 1, \"new\": [1]", 1);
        assert_eq!(Summary::parse(&more).unwrap(), summary());
    }

    #[test]
    fn every_field_of_the_summary_is_described() {
        let document = std::fs::read_to_string(xtask::workspace_root().join("benches/SUMMARY.md")).unwrap();
        fn names(value: &serde_json::Value, all: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(members) => members.iter().for_each(|(name, inner)| {
                    all.push(name.clone());
                    // Their names are those of modules and rivals.
                    if !["modules", "ratios", "left_out"].contains(&name.as_str()) {
                        names(inner, all);
                    }
                }),
                serde_json::Value::Array(items) => items.iter().for_each(|inner| names(inner, all)),
                _ => {}
            }
        }
        let mut all = Vec::new();
        names(&serde_json::to_value(summary()).unwrap(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        for name in all {
            assert!(document.contains(&format!("`{name}`")), "{name} is not described");
        }
    }

    #[test]
    fn all_files_of_a_run_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run {
            summary: summary(),
            before: Moment::unknown(),
            measured: vec![("jwt-reject".to_owned(), measured())],
        };
        let inner = folder.path().join("new/run");
        run.save(&inner).unwrap();
        for name in ["README.md", "raw.csv", "summary.json", "summary.md", "report.html"] {
            assert!(inner.join(name).metadata().unwrap().len() > 100, "{name}");
        }
        assert_eq!(Summary::read(&inner.join("summary.json")).unwrap(), summary());
        let error = format!("{:#}", Summary::read(&inner.join("raw.csv")).unwrap_err());
        assert!(error.contains("raw.csv: not a summary of a run"), "{error}");
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
