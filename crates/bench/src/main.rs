//! `cargo xtask bench`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::command::main()
}
