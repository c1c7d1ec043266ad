//! The filter's counters: operations that were left out for want of a value that can be written.

use filter_api::Counter;

/// Why an operation was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// Its value cannot be written where it should go: it holds a line end, makes a path that steps upwards, is no
    /// host, or is no cookie's value.
    InvalidValue,
    /// Its value is longer than 64 KiB.
    TooLong,
}

impl Skipped {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::InvalidValue, Self::TooLong];

    /// Its name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::InvalidValue => "invalid_value",
            Self::TooLong => "too_long",
        }
    }

    pub(crate) fn counter(self) -> Counter {
        Counter(self as u16)
    }
}

/// All counters.
pub(crate) const COUNTERS: &[&str] = &["skipped.reason.invalid_value", "skipped.reason.too_long"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_names() {
        for skipped in Skipped::ALL {
            let name = COUNTERS[usize::from(skipped.counter().0)];
            assert_eq!(name.strip_prefix("skipped.reason."), Some(skipped.label()));
        }
    }
}
