//! The `foregate` command: reads the command line and hands over to the module of the subcommand.

use clap::{Parser, Subcommand};

/// Tools for gateways that run Foregate filters.
#[derive(Parser)]
#[command(name = "foregate", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Echo(foregate_cli::echo::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Echo(args) => foregate_cli::echo::run(&args),
    }
}
