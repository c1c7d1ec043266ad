//! The demo: Envoy with the shipped configuration, an upstream, keys and tokens of its own, and a tour of
//! what the filter answers.
//!
//! - [`gateway`]: what is started, with which ports;
//! - [`tokens`]: the keys and tokens, made anew at every start;
//! - [`tour`]: the table of requests and what each must get;
//! - [`curl`]: a request as a line to paste.

mod curl;
mod gateway;
mod tokens;
mod tour;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use foregate_cli::stop::StopSignals;

use crate::gateway::{Gateway, Ports};
use crate::tokens::Tokens;

/// The port of the shipped configuration, and that of its admin interface.
const SHIPPED: Ports = Ports { listener: 10_000, admin: 9_901 };

/// How often it is looked whether Envoy still runs.
const LOOK: Duration = Duration::from_millis(500);

/// Starts Envoy with the modules and an upstream, prints what to try, and serves until interrupted
#[derive(Debug, Parser)]
#[command(name = "cargo xtask demo", bin_name = "cargo xtask demo")]
struct Args {
    /// Take the tour and end: print each request with its answer, and fail if one is not what it should be
    #[arg(long)]
    once: bool,
    /// The port of the gateway; 0 takes a free one [default: 10000, with --once a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The port of Envoy's admin interface; 0 takes a free one [default: 9901, with --once a free one]
    #[arg(long, value_name = "PORT")]
    admin_port: Option<u16>,
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
    let usual = if args.once { Ports { listener: 0, admin: 0 } } else { SHIPPED };
    let ports = Ports {
        listener: args.port.unwrap_or(usual.listener),
        admin: args.admin_port.unwrap_or(usual.admin),
    };
    // Before anything else: a module may have to be built, which takes a while.
    ports.are_free()?;
    let module = xtask::modules::ensure("jwt_reject")?;
    tokio::runtime::Runtime::new().context("cannot start the runtime")?.block_on(async {
        let mut stop = StopSignals::new()?;
        // Dropping what runs, started or half started, ends Envoy.
        tokio::select! {
            biased;
            received = stop.received() => {
                received?;
                ensure!(!args.once, "interrupted before the end of the tour");
                eprintln!("\nstopped");
                Ok(())
            }
            outcome = demonstrate(args.once, ports, &module) => outcome,
        }
    })
}

async fn demonstrate(once: bool, ports: Ports, module: &std::path::Path) -> anyhow::Result<()> {
    let tokens = Tokens::mint()?;
    let gateway = Gateway::start(ports, module, &tokens).await?;
    if once {
        tour::take(&gateway, &tokens).await?;
        return gateway.stop().await;
    }
    print!("{}", tour::leaflet(&gateway, &tokens)?);
    loop {
        tokio::time::sleep(LOOK).await;
        if !gateway.is_alive() {
            // At Ctrl-C the terminal tells Envoy too, which may be gone before this process hears of it.
            tokio::time::sleep(LOOK).await;
            bail!("Envoy ended by itself; its log:\n{}", gateway.log());
        }
    }
}
