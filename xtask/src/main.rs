//! The command line: `cargo xtask <command>`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::{envoy, fuzz, modules, process, toolchain};

/// Provisions, builds, tests and demonstrates Foregate. Every command does first what it needs of the others,
/// and can be run again at no cost.
///
/// Environment: ENVOY names the Envoy 1.40 to use, OHA the oha 1.16 (the benchmark's load generator);
/// FOREGATE_WASM_TOOLCHAIN (rustup or debian) forces one way to compile for wasm32-wasip1.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Finds or installs what compiles for wasm32-wasip1, and Envoy
    Setup,
    /// Writes the modules to dist/
    Build,
    /// Runs all tests, those against the real Envoy too
    Test {
        /// Passed on to `cargo test --workspace`, such as a part of a test's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Fuzzes the filters with libFuzzer; takes a nightly compiler
    Fuzz {
        /// How many seconds each target is fuzzed for
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
        time: u32,
        /// A target, rather than all; may be given several times
        #[arg(long, value_name = "NAME")]
        target: Vec<String>,
    },
    /// Starts Envoy with the modules, and shows what they do
    #[command(disable_help_flag = true)]
    Demo {
        /// Passed on to the demo: `cargo xtask demo --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Measures what the filters cost in a real Envoy, beside their rivals
    #[command(disable_help_flag = true)]
    Bench {
        /// Passed on to the benchmark: `cargo xtask bench --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup => setup().map(drop),
        Task::Build => build(),
        Task::Test { arguments } => {
            let envoy = setup()?;
            build()?;
            let mut test = process::native_cargo();
            test.args(["test", "--workspace"]).args(arguments);
            hand_over(test, &envoy)
        }
        Task::Fuzz { time, target } => fuzz::run(&target, time),
        Task::Demo { arguments } => {
            let envoy = setup()?;
            build()?;
            let mut demo = process::native_cargo();
            demo.args(["run", "--quiet", "--package", "demo", "--"]).args(arguments);
            hand_over(demo, &envoy)
        }
        Task::Bench { arguments } => {
            let envoy = setup()?;
            build()?;
            let mut bench = process::native_cargo();
            bench.args(["run", "--release", "--quiet", "--package", "bench", "--"]).args(arguments);
            hand_over(bench, &envoy)
        }
    }
}

fn setup() -> Result<envoy::Envoy> {
    let toolchain = toolchain::provision()?;
    println!("{}: {}", toolchain::TARGET, toolchain.describe());
    let envoy = envoy::provision()?;
    println!("Envoy {}: {}, at {}", envoy::SERIES, envoy.way, envoy.path.display());
    Ok(envoy)
}

fn build() -> Result<()> {
    for module in modules::build()? {
        let kilobytes = module.size as f64 / 1000.0;
        println!("dist/{}.wasm: {} bytes ({kilobytes:.1} KB)", module.name, module.size);
        println!("  exports {}", module.exports.join(", "));
    }
    Ok(())
}

/// Becomes that command. A relative $ENVOY is made absolute for it, since cargo runs tests in other folders.
fn hand_over(mut command: Command, envoy: &envoy::Envoy) -> Result<()> {
    if process::variable(envoy::VARIABLE).is_some() {
        command.env(envoy::VARIABLE, &envoy.path);
    }
    Err(process::replace_with(&mut command))
}
