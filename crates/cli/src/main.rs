//! The `foregate` command: reads the command line and hands over to the module of the subcommand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use foregate_cli::{bench, check, echo, jwt, terminal};

/// Tools for gateways that run Foregate filters.
#[derive(Parser)]
#[command(name = "foregate", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(Box<bench::Args>),
    Check(check::Args),
    Echo(echo::Args),
    Jwt(jwt::Args),
}

fn main() -> ExitCode {
    let (outcome, on_error) = match Cli::parse().command {
        Command::Bench(args) => (bench::run(&args).map(|()| ExitCode::SUCCESS), ExitCode::FAILURE),
        Command::Check(args) => (check::run(&args), ExitCode::from(check::EXIT_NOT_CHECKED)),
        Command::Echo(args) => (echo::run(&args).map(|()| ExitCode::SUCCESS), ExitCode::FAILURE),
        Command::Jwt(args) => (jwt::run(&args), ExitCode::from(jwt::EXIT_USAGE)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {}", terminal::harmless(&format!("{error:#}")));
        on_error
    })
}
