//! What a filter costs in a real Envoy, beside its rivals: `cargo xtask bench`.
//!
//! For each kind of request ([`workload`]) of each [`behaviour`] every implementation ([`rival`]) that gives the
//! right answers has its turn in each round ([`measure`]): it is sent requests ([`load`]), and the CPU time of its Envoy is read
//! before and after ([`cpu`]). Told is the cost of a request over that of an Envoy without a filter, its
//! median with a 95 % interval ([`statistics`]), as a table and, if asked for, as files ([`report`]). What an Envoy takes
//! beside is in [`footprint`].

#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks")]

mod behaviour;
mod cpu;
mod footprint;
mod load;
mod machine;
mod measure;
mod report;
mod rival;
mod statistics;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::behaviour::{Module, Setup};
use crate::cpu::Pinning;
use crate::measure::Amount;
use crate::report::Run;

/// Measures what each filter costs in a real Envoy, beside Envoy's own filter of the same job and Lua
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Args {
    /// One short round of a few workloads: to see that it works, not what it costs
    #[arg(long)]
    quick: bool,
    /// Only the workloads of this behaviour; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(behaviour::ALL.iter().map(|it| it.name)))]
    behaviour: Vec<String>,
    /// Only this workload; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(behaviour::workloads()))]
    only: Vec<String>,
    /// In each round every implementation has its turn [default: 100, with --quick 1, with --footprint 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Requests in a turn [default: 1000, with --quick 400]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    requests: Option<u16>,
    /// Measure memory and the time that Envoy takes to start instead
    #[arg(long)]
    footprint: bool,
    /// Compare another build of the behaviour's module too; may be given several times
    #[arg(long, value_name = "NAME=FILE.wasm")]
    module: Vec<String>,
    /// Write the run to benches/runs/<date>-NAME
    #[arg(long, value_name = "NAME")]
    save: Option<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let (rounds, requests) = match (args.quick, args.footprint) {
        (true, _) => (1, 400),
        (false, true) => (5, 1000),
        (false, false) => (100, 1000),
    };
    let requests = args.requests.map_or(requests, usize::from);
    let rounds = args.rounds.map_or(rounds, usize::from);
    // V8 needs some thousand calls until it has compiled what is hot as well as it can.
    let amount = Amount { rounds, requests, warm_up: if args.quick { requests } else { requests.max(5000) } };
    let folder = args.save.as_deref().map(report::folder).transpose()?;
    let modules = args.module.iter().map(|text| module(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let chosen = behaviour::choose(&args.behaviour, &args.only, args.quick)?;

    // Before this thread has one core only: making requests may take all.
    let setups = behaviour::prepare(&chosen, &modules)?;
    if args.footprint {
        return footprints(&setups, rounds, amount, folder.as_deref());
    }
    let pinning = Pinning::choose();
    let rivals = setups.iter().flat_map(|setup| &setup.rivals);
    let mut run = Run::begin(amount, &pinning, rivals)?;
    println!("{run}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        for setup in &setups {
            let mut running = Vec::new();
            for rival in &setup.rivals {
                running.push(rival.start(&pinning).await?);
            }
            for workload in &setup.workloads {
                let measured = measure::workload(workload, &running, amount, &pinning).await?;
                print!("\n{}", report::terminal(&measured));
                run.workloads.push(measured);
            }
            for rival in running {
                rival.envoy.stop().await?;
            }
        }
        anyhow::Ok(())
    })?;
    if let Some(folder) = folder {
        run.save(&folder)?;
        println!("\nwritten to {}", folder.display());
    }
    Ok(())
}

/// Memory and time to start, of the first workload of each setup.
fn footprints(setups: &[Setup], rounds: usize, amount: Amount, folder: Option<&Path>) -> anyhow::Result<()> {
    let rivals = setups.iter().flat_map(|setup| &setup.rivals);
    let mut run = Run::begin(amount, &Pinning::NotPinned("workers run where they like".to_owned()), rivals)?;
    run.is_of_footprints = true;
    println!("{run}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    for setup in setups {
        let footprints = runtime.block_on(footprint::measure(setup, rounds))?;
        print!("\n{}", footprint::table(&footprints));
        run.footprints.extend(footprints);
    }
    if let Some(folder) = folder {
        run.save(folder)?;
        println!("\nwritten to {}", folder.display());
    }
    Ok(())
}

/// `NAME=FILE.wasm`.
fn module(text: &str) -> anyhow::Result<Module> {
    let (name, file) = text.split_once('=').context("--module takes NAME=FILE.wasm")?;
    let file = std::path::absolute(PathBuf::from(file))?;
    ensure!(file.is_file(), "--module: there is no file {}", file.display());
    Ok(Module { name: name.to_owned(), file })
}
