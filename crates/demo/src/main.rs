//! The demo: for the chain of all filters in one module, and for each filter, an Envoy with the shipped configuration,
//! an upstream, and a tour of what it answers.
//!
//! - [`gateway`]: what is started, with which ports;
//! - [`tour`]: a stand, which is what is shown of one filter; its leaflet, and its tour;
//! - [`stop`]: a request of a tour, and what must come of it;
//! - [`sight`]: what of it is to be seen, where that is what a stop is about;
//! - [`chain`], [`jwt_reject`], [`local_rate_limit`], [`header_rewrite`], [`sampled_log`]: the stands;
//! - [`tokens`]: the keys and tokens, made anew at every start;
//! - [`curl`]: a request as a line to paste.

mod chain;
mod curl;
mod gateway;
mod header_rewrite;
mod jwt_reject;
mod local_rate_limit;
mod sampled_log;
mod sight;
mod stop;
mod tokens;
mod tour;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use foregate_cli::stop::StopSignals;

use crate::gateway::{Gateway, Port, Ports};
use crate::tokens::Tokens;
use crate::tour::Stand;

/// How often it is looked whether every Envoy still runs.
const LOOK: Duration = Duration::from_millis(500);

/// Starts an Envoy for the chain of all filters, one for each filter, and upstreams, prints what to try, and serves until interrupted
#[derive(Debug, Parser)]
#[command(name = "cargo xtask demo", bin_name = "cargo xtask demo")]
struct Args {
    /// Take the tour and end: print each request with its answer, and fail if one is not what it should be;
    /// takes 12 s to see a limit let through again
    #[arg(long)]
    once: bool,
    /// The port of the gateway with the chain; 0 takes a free one [default: 10000, with --once a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The port of its admin interface; 0 takes a free one [default: 9901, with --once a free one]
    #[arg(long, value_name = "PORT")]
    admin_port: Option<u16>,
    /// The port of the gateway with jwt_reject; 0 takes a free one [default: 10001, with --once a free one]
    #[arg(long, value_name = "PORT")]
    jwt_reject_port: Option<u16>,
    /// The port of its admin interface; 0 takes a free one [default: 9902, with --once a free one]
    #[arg(long, value_name = "PORT")]
    jwt_reject_admin_port: Option<u16>,
    /// The port of the gateway with local_rate_limit; 0 takes a free one [default: 10002, with --once a free one]
    #[arg(long, value_name = "PORT")]
    local_rate_limit_port: Option<u16>,
    /// The port of its admin interface; 0 takes a free one [default: 9903, with --once a free one]
    #[arg(long, value_name = "PORT")]
    local_rate_limit_admin_port: Option<u16>,
    /// The port of the gateway with header_rewrite; 0 takes a free one [default: 10003, with --once a free one]
    #[arg(long, value_name = "PORT")]
    header_rewrite_port: Option<u16>,
    /// The port of its admin interface; 0 takes a free one [default: 9904, with --once a free one]
    #[arg(long, value_name = "PORT")]
    header_rewrite_admin_port: Option<u16>,
    /// The port of the gateway with sampled_log; 0 takes a free one [default: 10004, with --once a free one]
    #[arg(long, value_name = "PORT")]
    sampled_log_port: Option<u16>,
    /// The port of its admin interface; 0 takes a free one [default: 9905, with --once a free one]
    #[arg(long, value_name = "PORT")]
    sampled_log_admin_port: Option<u16>,
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
    let ports = args.ports();
    // Before anything else: a module may have to be built, which takes a while.
    gateway::are_free(ports.iter().flat_map(|ports| [ports.listener, ports.admin]))?;
    let tokens = Tokens::mint()?;
    let stands = [
        chain::stand(&tokens)?,
        jwt_reject::stand(&tokens)?,
        local_rate_limit::stand()?,
        header_rewrite::stand()?,
        sampled_log::stand()?,
    ];
    for stand in &stands {
        xtask::modules::ensure(stand.filter)?;
    }
    tokio::runtime::Runtime::new().context("cannot start the runtime")?.block_on(async {
        let mut stop = StopSignals::new()?;
        // Dropping what runs, started or half started, ends every Envoy.
        tokio::select! {
            biased;
            received = stop.received() => {
                received?;
                ensure!(!args.once, "interrupted before the end of the tour");
                eprintln!("\nstopped");
                Ok(())
            }
            outcome = demonstrate(args.once, &stands, &ports) => outcome,
        }
    })
}

impl Args {
    /// The ports of each stand.
    fn ports(&self) -> [Ports; 5] {
        let port = |option, given: Option<u16>, usual| {
            let usual = if self.once { 0 } else { usual };
            Port { option, number: given.unwrap_or(usual) }
        };
        [
            Ports {
                listener: port("--port", self.port, 10_000),
                admin: port("--admin-port", self.admin_port, 9_901),
            },
            Ports {
                listener: port("--jwt-reject-port", self.jwt_reject_port, 10_001),
                admin: port("--jwt-reject-admin-port", self.jwt_reject_admin_port, 9_902),
            },
            Ports {
                listener: port("--local-rate-limit-port", self.local_rate_limit_port, 10_002),
                admin: port("--local-rate-limit-admin-port", self.local_rate_limit_admin_port, 9_903),
            },
            Ports {
                listener: port("--header-rewrite-port", self.header_rewrite_port, 10_003),
                admin: port("--header-rewrite-admin-port", self.header_rewrite_admin_port, 9_904),
            },
            Ports {
                listener: port("--sampled-log-port", self.sampled_log_port, 10_004),
                admin: port("--sampled-log-admin-port", self.sampled_log_admin_port, 9_905),
            },
        ]
    }
}

async fn demonstrate(once: bool, stands: &[Stand], ports: &[Ports]) -> anyhow::Result<()> {
    let mut shown = Vec::new();
    for (stand, ports) in stands.iter().zip(ports) {
        shown.push((stand, Gateway::start(&stand.config, *ports).await?));
    }
    if once {
        tour::take(&shown).await?;
        for (_, gateway) in shown {
            gateway.stop().await?;
        }
        return Ok(());
    }
    print!("{}", tour::leaflet(&shown)?);
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some((stand, gateway)) = shown.iter().find(|(_, gateway)| !gateway.is_alive()) {
            // At Ctrl-C the terminal tells Envoy too, which may be gone before this process hears of it.
            tokio::time::sleep(LOOK).await;
            bail!("the Envoy with {} ended by itself; its log:\n{}", stand.filter, gateway.log());
        }
    }
}
