//! The command line of the benchmark.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::behaviour::{self, Module, Setup};
use crate::compare;
use crate::cpu::Pinning;
use crate::experiment::{self, Effort};
use crate::footprint;
use crate::list;
use crate::measure::{self, Amount, Plan, Sustained};
use crate::progress::Progress;
use crate::report::json::{AnsweredBy, Summary};
use crate::report::{self, Run};
use crate::rival::{AGAIN, Rival, Running};
use crate::upstream::Upstream;

/// Measures what each filter costs in a real Envoy, beside Envoy's own filter of the same job and Lua
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Args {
    /// The whole suite in about ten minutes, with as many rounds as that leaves time for
    #[arg(long)]
    quick: bool,
    /// The smallest round of a few workloads within half a minute: to see that it works, not what it costs
    #[arg(long, conflicts_with = "quick")]
    smoke: bool,
    /// Only the workloads of this behaviour; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(behaviour::ALL.iter().map(|it| it.name)))]
    behaviour: Vec<String>,
    /// Only this workload; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(behaviour::workloads()))]
    only: Vec<String>,
    /// This experiment, and no workloads unless some are asked for; may be given several times [default: all of them in a
    /// run of all workloads]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(experiment::ALL.iter().map(|it| it.name)))]
    experiment: Vec<String>,
    /// Print what there is to measure as tables, and measure nothing
    #[arg(long)]
    list: bool,
    /// In each round every implementation has its turn [default: 100, with --quick at most that, with --smoke 1, with
    /// --footprint 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Requests in a turn [default: 1000, with --quick 500, with --smoke 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    requests: Option<u16>,
    /// Rounds for throughput and latency, 0 to leave them out [default: 5, with --quick at most that, with --smoke 1]
    #[arg(long, value_name = "N")]
    latency_rounds: Option<u16>,
    /// Requests a second at which latency is measured [default: half of what the baseline answers in a closed loop]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    held_rate: Option<u32>,
    /// Who makes the load for throughput and latency where all requests are the same [default: oha, with --smoke own]
    #[arg(long, value_name = "TOOL", value_parser = ["oha", "own"])]
    load_tool: Option<String>,
    /// Let another Envoy behind each answer what passes, instead of each by itself
    #[arg(long)]
    upstream: bool,
    /// Measure memory and the time that Envoy takes to start instead
    #[arg(long)]
    footprint: bool,
    /// Compare another build of the behaviour's module too; may be given several times
    #[arg(long, value_name = "NAME=FILE.wasm")]
    module: Vec<String>,
    /// Write the run to this folder: README.md, summary.json, summary.md, report.html, raw.csv
    #[arg(long, value_name = "DIR", conflicts_with = "save")]
    out: Option<PathBuf>,
    /// Write the run to benches/runs/<date>-NAME
    #[arg(long, value_name = "NAME")]
    save: Option<String>,
    /// Write the table of costs in this repository's README anew, from a published run, and measure nothing
    #[arg(long, value_name = "RUN/summary.json", conflicts_with_all = ["compare", "list"])]
    table: Option<PathBuf>,
    /// Tell what became worse since that run, and exit with 1 if something did, past the threshold
    #[arg(long, value_name = "OLD/summary.json")]
    compare: Option<PathBuf>,
    /// Compare that run, and measure nothing
    #[arg(long, value_name = "NEW/summary.json", requires = "compare")]
    with: Option<PathBuf>,
    /// By how much something must be worse to count, all of its interval
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent, requires = "compare")]
    threshold: f64,
}

/// All of a `--quick` run.
const QUICK: Duration = Duration::from_secs(570);
/// What starting one Envoy and asking its probes takes, about.
const STARTING: Duration = Duration::from_millis(600);

/// Reads the arguments of the process, and measures.
pub fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    // Before hours of measuring, not after.
    let old = args.compare.as_deref().map(Summary::read).transpose()?;
    if let (Some(old), Some(new)) = (&old, &args.with) {
        return Ok(compared(old, &Summary::read(new)?, args.threshold));
    }
    if let Some(file) = &args.table {
        match report::costs::publish(file)? {
            None => println!("README.md has the table of {}", file.display()),
            Some(section) => {
                println!("README.md has no table of costs; put this where it is to be:\n\n{section}")
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.list {
        print!("{}", list::tables());
        return Ok(ExitCode::SUCCESS);
    }
    let folder = match (&args.out, &args.save) {
        (Some(folder), _) => Some(std::path::absolute(folder)?),
        (None, name) => name.as_deref().map(report::folder).transpose()?,
    };
    let modules = args.module.iter().map(|text| module(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let experiments = experiments(args);
    let chosen = match args.experiment.is_empty() || names_workloads(args) {
        true => behaviour::choose(&args.behaviour, &args.only, args.smoke)?,
        false => Vec::new(),
    };

    // Before this thread has one core only: making requests and compiling may take all.
    let setups = behaviour::prepare(&chosen, &modules)?;
    experiment::prepare(&experiments)?;
    if args.footprint {
        footprints(&setups, args, folder.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut plan = plan(args);
    let oha = oha(args, &plan);
    plan.oha = oha.as_ref().map(|oha| oha.path.clone());
    let pinning = Pinning::choose();
    let answered_by = if args.upstream { AnsweredBy::Upstream } else { AnsweredBy::Direct };
    let rivals = setups.iter().flat_map(|(_, setup)| &setup.rivals);
    let oha = oha.as_ref().map(|oha| oha.version.as_str());
    let mut run = Run::begin(&plan, &pinning, answered_by, oha, rivals)?;
    println!("{run}");
    let reserved = if experiments.is_empty() { Duration::ZERO } else { Effort::QUICK_TAKES };
    let within = args.quick.then(|| QUICK.saturating_sub(reserved).saturating_sub(began.elapsed()));
    runtime()?.block_on(async {
        all(&mut run, &setups, &plan, &pinning, within).await?;
        all_experiments(&mut run, &experiments, effort(args), &pinning).await
    })?;
    run.end();
    if let Some(warning) = run.summary.noise.warning() {
        println!("\n{warning}");
    }
    if let Some(folder) = folder {
        run.save(&folder)?;
        println!("\nwritten to {}", folder.display());
    }
    Ok(old.map_or(ExitCode::SUCCESS, |old| compared(&old, &run.summary, args.threshold)))
}

/// Measures every workload of every setup.
async fn all(
    run: &mut Run,
    setups: &[(&'static str, Setup)],
    plan: &Plan,
    pinning: &Pinning,
    within: Option<Duration>,
) -> anyhow::Result<()> {
    let until = within.map(|within| Instant::now() + within);
    let count: usize = setups.iter().map(|(_, setup)| setup.workloads.len()).sum();
    let mut progress = Progress::begin();
    let mut done = 0_usize;
    for (place, (behaviour, setup)) in setups.iter().enumerate() {
        let answer = setup.rivals.first().map(Rival::upstream);
        let upstream = match answer.filter(|_| run.answered_by() == AnsweredBy::Upstream) {
            Some(answer) => Some(Upstream::start(answer, pinning).await?),
            None => None,
        };
        let running = start(entrants(setup, upstream.as_ref())?, pinning).await?;
        for workload in &setup.workloads {
            progress.next(workload.name, done, count);
            let mut plan = plan.clone();
            if let Some(until) = until {
                let later = setups.iter().skip(place.saturating_add(1));
                let to_start: usize = later.map(|(_, setup)| setup.rivals.len().saturating_add(1)).sum();
                let left = until.saturating_duration_since(Instant::now());
                let left = left.saturating_sub(STARTING.mul_f64(to_start as f64));
                plan.within = Some(left.div_f64(count.saturating_sub(done).max(1) as f64));
            }
            let measured = measure::all(workload, &running, &plan, pinning, &mut progress).await?;
            let text = run.add(behaviour, measured);
            progress.clear();
            print!("\n{text}");
            done = done.saturating_add(1);
        }
        stop(running).await?;
        if let Some(upstream) = upstream {
            upstream.stop().await?;
        }
    }
    Ok(())
}

/// Which experiments are asked for: those that are named, or all in a run of everything.
fn experiments(args: &Args) -> Vec<&'static str> {
    let everything = !(args.smoke || args.footprint || args.upstream || names_workloads(args));
    let asked = |name: &&str| match args.experiment.as_slice() {
        [] => everything,
        asked => asked.iter().any(|asked| asked == name),
    };
    experiment::ALL.iter().map(|about| about.name).filter(asked).collect()
}

/// Whether only some workloads are asked for.
fn names_workloads(args: &Args) -> bool {
    !(args.behaviour.is_empty() && args.only.is_empty() && args.module.is_empty())
}

/// How much of an experiment.
fn effort(args: &Args) -> Effort {
    let usual = if args.quick || args.smoke { Effort::QUICK } else { Effort::USUAL };
    Effort {
        rounds: args.rounds.map_or(usual.rounds, usize::from),
        requests: args.requests.map_or(usual.requests, usize::from),
        long_rounds: args.latency_rounds.map_or(usual.long_rounds, |rounds| usize::from(rounds.max(1))),
        ..usual
    }
}

/// Runs these, one after the other.
async fn all_experiments(
    run: &mut Run,
    names: &[&'static str],
    effort: Effort,
    pinning: &Pinning,
) -> anyhow::Result<()> {
    let mut progress = Progress::begin();
    for (done, name) in names.iter().enumerate() {
        progress.next(name, done, names.len());
        let found = experiment::run(name, effort, pinning).await?;
        let text = run.add_experiment(found);
        progress.clear();
        print!("\n{text}");
    }
    Ok(())
}

/// Starts all of them at the same time and on all cores: nothing is measured yet. They come in the same order.
async fn start(rivals: Vec<Rival>, pinning: &Pinning) -> anyhow::Result<Vec<Running>> {
    pinning.widen()?;
    let mut starting = JoinSet::new();
    for (place, rival) in rivals.into_iter().enumerate() {
        let pinning = pinning.clone();
        starting.spawn(async move { anyhow::Ok((place, rival.start(&pinning).await?)) });
    }
    let mut started = Vec::new();
    while let Some(one) = starting.join_next().await {
        started.push(one.context("starting an Envoy panicked")??);
    }
    pinning.narrow()?;
    started.sort_by_key(|(place, _)| *place);
    Ok(started.into_iter().map(|(_, running)| running).collect())
}

/// Ends all of them, each of which must have served until now.
async fn stop(running: Vec<Running>) -> anyhow::Result<()> {
    let mut stopping = JoinSet::new();
    for rival in running {
        stopping.spawn(async move { rival.envoy.stop().await.with_context(|| rival.name) });
    }
    while let Some(one) = stopping.join_next().await {
        one.context("stopping an Envoy panicked")??;
    }
    Ok(())
}

/// The rivals of a setup, and a second baseline after the first.
fn entrants(setup: &Setup, upstream: Option<&Upstream>) -> anyhow::Result<Vec<Rival>> {
    let mut rivals = setup.rivals.clone();
    let again = rivals.first().context("there is no baseline")?.again(AGAIN);
    rivals.insert(1, again);
    match upstream {
        Some(upstream) => rivals.into_iter().map(|rival| rival.answered_by(upstream.address())).collect(),
        None => Ok(rivals),
    }
}

/// How much is measured.
fn plan(args: &Args) -> Plan {
    let (rounds, requests, warm_up) = match (args.smoke, args.quick) {
        (true, _) => (1, 200, 200),
        // V8 needs some thousand calls until it has compiled what is hot as well as it can.
        (_, true) => (100, 500, 3000),
        _ => (100, 1000, 5000),
    };
    let (latency_rounds, closed, open) = match (args.smoke, args.quick) {
        (true, _) => (1, 50, 100),
        (_, true) => (5, 300, 500),
        _ => (5, 1000, 2000),
    };
    let requests = args.requests.map_or(requests, usize::from);
    let amount = Amount {
        rounds: args.rounds.map_or(rounds, usize::from),
        requests,
        warm_up: if args.smoke { requests } else { requests.max(warm_up) },
    };
    let sustained = Sustained {
        rounds: args.latency_rounds.map_or(latency_rounds, usize::from),
        closed: Duration::from_millis(closed),
        open: Duration::from_millis(open),
    };
    let held_rate = args.held_rate.map(f64::from);
    Plan { amount, sustained, held_rate, within: None, oha: None, host_calls: true }
}

/// The load tool, where one is asked for. To do without is no failure: there is a load of our own.
fn oha(args: &Args, plan: &Plan) -> Option<xtask::oha::Oha> {
    let asked = args.load_tool.as_deref().unwrap_or(if args.smoke { "own" } else { "oha" });
    if asked == "own" || plan.sustained.rounds == 0 {
        return None;
    }
    // A run of ten minutes cannot wait as long for a compiler.
    let found = if args.quick { xtask::oha::find() } else { xtask::oha::provision().map(Some) };
    match found {
        Ok(Some(oha)) => return Some(oha),
        Ok(None) => eprintln!("there is no oha yet, and a quick run does not compile it"),
        Err(error) => eprintln!("{error:#}"),
    }
    eprintln!("throughput and latency come from our own load");
    None
}

fn compared(old: &Summary, new: &Summary, threshold: f64) -> ExitCode {
    let comparison = compare::compare(old, new, threshold);
    print!("\ncompared with the run of {}:\n{}", old.began, comparison.text(threshold));
    if comparison.regressions().next().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Memory and time to start, of the first workload of each setup.
fn footprints(setups: &[(&str, Setup)], args: &Args, folder: Option<&Path>) -> anyhow::Result<()> {
    let rounds = args.rounds.map_or(5, usize::from);
    let rivals = setups.iter().flat_map(|(_, setup)| &setup.rivals);
    let pinning = Pinning::NotPinned("workers run where they like".to_owned());
    let run = Run::begin(&plan(args), &pinning, AnsweredBy::Direct, None, rivals)?;
    println!("{}", report::preamble_of_footprints(&run, rounds));
    let runtime = runtime()?;
    let mut all = Vec::new();
    for (_, setup) in setups {
        let footprints = runtime.block_on(footprint::measure(setup, rounds))?;
        print!("\n{}", footprint::table(&footprints));
        all.extend(footprints);
    }
    if let Some(folder) = folder {
        report::save_footprints(folder, &run, rounds, &all)?;
        println!("\nwritten to {}", folder.display());
    }
    Ok(())
}

/// All on this thread, so that all is on its core.
fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// `NAME=FILE.wasm`.
fn module(text: &str) -> anyhow::Result<Module> {
    let (name, file) = text.split_once('=').context("--module takes NAME=FILE.wasm")?;
    let file = std::path::absolute(PathBuf::from(file))?;
    ensure!(file.is_file(), "--module: there is no file {}", file.display());
    Ok(Module { name: name.to_owned(), file })
}

/// A share that is not below zero.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("not a number of percent".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
    }

    #[test]
    fn how_much_is_measured_follows_from_the_arguments() {
        let rows = [
            ("", (100, 1000, 5000, 5)),
            ("--quick", (100, 500, 3000, 5)),
            ("--smoke", (1, 200, 200, 1)),
            ("--requests 9000 --rounds 7", (7, 9000, 9000, 5)),
            ("--latency-rounds 0", (100, 1000, 5000, 0)),
        ];
        for (line, expected) in rows {
            let Plan { amount, sustained, .. } = plan(&args(line).unwrap());
            let found = (amount.rounds, amount.requests, amount.warm_up, sustained.rounds);
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn experiments_are_part_of_everything_and_can_be_asked_for_alone() {
        let all = experiment::ALL.len();
        let rows = [
            ("", all, true),
            ("--quick", all, true),
            ("--smoke", 0, true),
            ("--upstream", 0, true),
            ("--only missing", 0, true),
            ("--experiment jwt-first", 1, false),
            ("--experiment buffers --experiment jwt-first --only missing", 2, true),
        ];
        for (line, expected, workloads) in rows {
            let args = args(line).unwrap();
            assert_eq!(experiments(&args).len(), expected, "{line}");
            assert_eq!(args.experiment.is_empty() || names_workloads(&args), workloads, "{line}");
        }
        assert_eq!(effort(&args("--rounds 3 --latency-rounds 0").unwrap()).rounds, 3);
        assert_eq!(effort(&args("--latency-rounds 0").unwrap()).long_rounds, 1);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--quick --smoke",
            "--with new.json",
            "--threshold 5",
            "--compare old.json --threshold -1",
            "--compare old.json --threshold many",
            "--out x --save y",
            "--rounds 0",
            "--only no-such-workload",
            "--load-tool wrk",
            "--experiment no-such-one",
        ] {
            assert!(args(line).is_err(), "{line}");
        }
        assert!(args("--compare old.json --with new.json --threshold 0").is_ok());
    }
}
