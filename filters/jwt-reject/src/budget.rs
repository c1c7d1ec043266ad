//! How many signatures may be checked in the module: such a check takes many times as long as everything
//! else about a request, so a flood of forged tokens could take a worker's whole time.

use std::cell::Cell;

const SECOND: u64 = 1_000_000_000;

/// So many checks a second, as evenly as that: after a second without one, a second's worth at once.
#[derive(Debug)]
pub struct Budget {
    /// Nanoseconds that a check takes of the budget; 0: there is no end to it.
    price: u64,
    /// When the checks made so far are paid for, in nanoseconds since 1970.
    paid: Cell<u64>,
}

impl Budget {
    /// This many checks a second, at least one.
    pub fn per_second(checks: u64) -> Self {
        Self { price: SECOND.checked_div(checks).unwrap_or(SECOND).max(1), paid: Cell::new(0) }
    }

    /// As many as come: for tools.
    pub fn unlimited() -> Self {
        Self { price: 0, paid: Cell::new(0) }
    }

    /// Takes a check out of the budget at this moment, unless it is spent.
    pub(crate) fn take(&self, now: impl FnOnce() -> u64) -> bool {
        if self.price == 0 {
            return true;
        }
        let now = now();
        // What lies further ahead than a second was not run up: the clock has been put back.
        let paid = self.paid.get().clamp(now, now.saturating_add(SECOND));
        let next = paid.saturating_add(self.price);
        let left = next <= now.saturating_add(SECOND);
        self.paid.set(if left { next } else { paid });
        left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(budget: &Budget, times: u32, now: u64) -> u32 {
        (0..times).map(|_| u32::from(budget.take(|| now))).sum()
    }

    #[test]
    fn a_second_gives_a_seconds_worth() {
        let budget = Budget::per_second(500);
        let start = 1_796_000_000 * SECOND;
        assert_eq!(taken(&budget, 10_000, start), 500);
        assert_eq!(taken(&budget, 10_000, start + SECOND / 2), 250);
        assert_eq!(taken(&budget, 10_000, start + SECOND / 2), 0);
        assert_eq!(taken(&budget, 10_000, start + 100 * SECOND), 500);
        assert_eq!(taken(&Budget::per_second(1), 10, start), 1);
        assert_eq!(taken(&Budget::unlimited(), 10_000, start), 10_000);
    }

    #[test]
    fn a_clock_put_back_gives_nothing_and_locks_nobody_out() {
        let budget = Budget::per_second(10);
        let start = 1_796_000_000 * SECOND;
        assert_eq!(taken(&budget, 100, start), 10);
        assert_eq!(taken(&budget, 100, start - 3600 * SECOND), 0);
        assert_eq!(taken(&budget, 100, start - 3599 * SECOND), 10);
    }

    proptest! {
        /// Over any stretch of time no more than its worth and one second's.
        #[test]
        fn no_stretch_gives_more(
            rate in 1_u64..2000,
            steps in proptest::collection::vec((0_u64..200_000_000, 1_u32..50), 1..60),
        ) {
            let budget = Budget::per_second(rate);
            let (mut now, mut total, start) = (SECOND, 0_u64, SECOND);
            for (step, tries) in steps {
                now += step;
                total += u64::from(taken(&budget, tries, now));
                let worth = (now - start + SECOND) / (SECOND / rate);
                prop_assert!(total <= worth, "{total} in {} ns", now - start);
            }
        }
    }
}
