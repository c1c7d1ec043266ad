//! What the `foregate` command does, one module per subcommand, so that tests and demos can use it in-process.

pub mod bench;
pub mod check;
pub mod echo;
pub mod jwt;
pub mod stop;
pub mod terminal;
