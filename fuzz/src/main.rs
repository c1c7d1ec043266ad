//! Runs inputs that a fuzzer found, one after another: `cargo run --package fuzz-targets -- TARGET FILE...`

use std::process::ExitCode;

use fuzz_targets::TARGETS;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: no target is named {name:?}; there are: {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    for file in arguments {
        match std::fs::read(&file) {
            Ok(input) => println!("{file}: {}", (target.run)(&input)),
            Err(error) => {
                eprintln!("error: could not read {file:?}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
