//! The filter's counters: a request adds to one of the first or the last group, and to others beside it.

use filter_api::Counter;

/// Why a request passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Every limit that is for it had a token.
    WithinLimits,
    /// No limit is for it.
    NoLimit,
    /// It is exempt.
    Exempt,
    /// It is not among those that `filter_enabled` is for.
    NotEnabled,
    /// It is over a limit, but not among those that `filter_enforced` is for.
    NotEnforced,
    /// It is over a limit, but `mode` is `shadow`.
    Shadow,
    /// It lost too many races, and `on_contention` is `allow`.
    Contention,
    /// The host does not allow what the filter needs.
    HostFailure,
}

impl Allowed {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::WithinLimits,
        Self::NoLimit,
        Self::Exempt,
        Self::NotEnabled,
        Self::NotEnforced,
        Self::Shadow,
        Self::Contention,
        Self::HostFailure,
    ];

    /// Its name in metrics.
    pub fn label(self) -> &'static str {
        let name = COUNTERS.get(usize::from(self.counter().0)).copied().unwrap_or_default();
        name.strip_prefix("allowed.reason.").unwrap_or_default()
    }

    pub(crate) fn counter(self) -> Counter {
        Counter(self as u16)
    }
}

/// The counters that every configuration has.
pub(crate) const COUNTERS: &[&str] = &[
    "allowed.reason.within_limits",
    "allowed.reason.no_limit",
    "allowed.reason.exempt",
    "allowed.reason.not_enabled",
    "allowed.reason.not_enforced",
    "allowed.reason.shadow",
    "allowed.reason.contention",
    "allowed.reason.host_failure",
    "refused_by_contention",
    "swaps_lost",
    "keys_forgotten",
    "tokens_lost",
];

/// Requests refused because they lost too many races.
pub(crate) const REFUSED_BY_CONTENTION: Counter = Counter(8);
/// Compare-and-swaps that another worker won.
pub(crate) const SWAPS_LOST: Counter = Counter(9);
/// Buckets forgotten for want of room.
pub(crate) const KEYS_FORGOTTEN: Counter = Counter(10);
/// Tokens that could not be given back.
pub(crate) const TOKENS_LOST: Counter = Counter(11);

/// The counters of a limit: of requests refused, and of those that would have been.
pub(crate) fn names_of(limit: &str) -> [String; 2] {
    [format!("refused.limit.{limit}"), format!("shadow_refused.limit.{limit}")]
}

/// Requests refused by the limit at this place.
pub(crate) fn refused(limit: usize) -> Counter {
    of_limit(limit, 0)
}

/// Requests that it would have refused, were it enforced.
pub(crate) fn shadow_refused(limit: usize) -> Counter {
    of_limit(limit, 1)
}

fn of_limit(limit: usize, which: usize) -> Counter {
    let place = COUNTERS.len().saturating_add(limit.saturating_mul(2)).saturating_add(which);
    Counter(u16::try_from(place).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_names() {
        let name = |counter: Counter| COUNTERS[usize::from(counter.0)];
        assert_eq!(name(Allowed::WithinLimits.counter()), "allowed.reason.within_limits");
        assert_eq!(name(Allowed::HostFailure.counter()), "allowed.reason.host_failure");
        assert_eq!(name(REFUSED_BY_CONTENTION), "refused_by_contention");
        assert_eq!(name(SWAPS_LOST), "swaps_lost");
        assert_eq!(name(KEYS_FORGOTTEN), "keys_forgotten");
        assert_eq!(name(TOKENS_LOST), "tokens_lost");
        assert_eq!((refused(0), shadow_refused(0), refused(1)), (Counter(12), Counter(13), Counter(14)));
    }
}
