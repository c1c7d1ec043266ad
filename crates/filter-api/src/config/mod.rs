//! Reading a configuration so that every problem in it is named at once, with its path and what
//! to do about it.
//!
//! A derived deserializer stops at the first problem and does not know its path. So a filter walks
//! its configuration with [`Node`] and [`Object`]: each step that finds something wrong notes it
//! and goes on with `None`, and [`Object::finish`] notes every member that nobody asked for.
//!
//! Values are read as protobuf JSON writes them: a duration is `"0.25s"`, a number may come as
//! `100`, `100.0`, `1e2` or `"100"`, and `null` is the same as absent.

mod duration;
mod fraction;
mod node;
mod problem;
mod status;
mod strings;

pub use duration::parse_duration;
pub use fraction::FractionalPercent;
pub use node::{Node, Object, read};
pub use problem::{ConfigErrors, Problem, Report};
pub use status::StatusRange;
pub use strings::StringMatcher;
pub(crate) use strings::WAYS;
