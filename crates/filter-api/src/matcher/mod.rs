//! Which requests a rule is for: the same conditions, compared in the same way, in every filter.
//!
//! ```yaml
//! match:
//!   host: ["api.example", "*.api.example"]   # any of these; without port, case ignored
//!   prefix: /v1/                             # or path, path_separated_prefix, safe_regex; see below
//!   method: [GET, HEAD]                      # any of these
//!   headers:                                 # all of these
//!   - name: x-tenant
//!     exact: blue
//! ```
//! The conditions given must all hold; one left out holds always, so `match: {}` is every request.
//! `path` takes a string (the whole path), or a list of `{exact}`, `{prefix}`,
//! `{path_separated_prefix}` and `{regex}`, any of which may hold.
//!
//! Paths are compared without their query and after the normalisation of [`path`]. Where a path
//! can be read in several ways, rules are chosen so that no reading gets past them: see [`select`].

mod host;
pub mod path;
mod request;

pub use host::{HostPattern, without_port};
pub use path::{PathPattern, PathView};
pub use request::{HeaderCondition, RequestMatcher};

use crate::Head;

/// Which rule is for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected<'r, R> {
    /// This one.
    Rule(&'r R),
    /// None of them.
    Nothing,
    /// That depends on how the path is read, so none of them can be trusted.
    Ambiguous,
}

/// The first of these rules that is for the request, in list order.
///
/// Where the path has several readings, each reading chooses a rule of its own; unless all choose
/// the same one, the answer is [`Selected::Ambiguous`]; so it is where the path has readings that are not
/// listed, if any rule depends on the path. Where the path is obscured
/// ([`PathView::is_obscured`]), rules that `lenient` says let requests through unchecked are not
/// considered at all.
pub fn select<'r, R>(
    rules: &'r [R],
    matcher: impl Fn(&R) -> &RequestMatcher,
    lenient: impl Fn(&R) -> bool,
    head: &impl Head,
    path: &PathView<'_>,
) -> Selected<'r, R> {
    if path.is_unreadable() && rules.iter().any(|rule| matcher(rule).depends_on_path()) {
        return Selected::Ambiguous;
    }
    let obscured = path.is_obscured();
    let first = |reading: &[u8]| {
        rules.iter().find(|rule| matcher(rule).matches_reading(head, reading) && !(obscured && lenient(rule)))
    };
    let mut readings = path.readings();
    let chosen = readings.next().and_then(first);
    let same = |other: Option<&R>| other.map(std::ptr::from_ref) == chosen.map(std::ptr::from_ref);
    match chosen {
        _ if !readings.all(|reading| same(first(reading))) => Selected::Ambiguous,
        Some(rule) => Selected::Rule(rule),
        None => Selected::Nothing,
    }
}

#[cfg(test)]
mod tests;
