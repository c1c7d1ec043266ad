//! `foregate jwt`: tools for the tokens that jwt_reject looks at.
//!
//! - [`check`]: the command line of `foregate jwt check`;
//! - [`report`]: what a check of one token finds, by the filter's own code, as text and as JSON;
//! - [`vectors`]: many tokens with their expected verdicts.

pub mod check;
pub mod report;
mod time;
pub mod vectors;

use std::process::ExitCode;

use clap::Subcommand;

/// The exit code where nothing could be checked: wrong arguments, unreadable files, unusable keys.
pub const EXIT_USAGE: u8 = 2;

/// Work with JSON Web Tokens as the jwt_reject filter does
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<check::Args>),
}

/// Runs `foregate jwt`.
///
/// # Errors
/// What kept it from doing what it was asked: [`EXIT_USAGE`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
    }
}
