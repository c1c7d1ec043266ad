//! How many lines a worker may write: a token bucket of its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const SECOND: u64 = 1_000_000_000;

/// A budget of lines; none where there is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Lines that flow in each second.
    pub(crate) lines: u32,
    /// The most that may be written at once.
    pub(crate) burst: u32,
}

/// What a worker remembers. It outlasts a change of configuration.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// When the bucket will be full, in nanoseconds since 1970.
    full_at: Cell<u64>,
    /// Lines dropped since the last one that was written.
    dropped: Cell<u64>,
}

thread_local! {
    static HERE: RefCell<BTreeMap<String, Rc<Worker>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Worker {
    /// That of this VM, for an instance of the filter.
    pub(crate) fn here(instance: &str) -> Rc<Self> {
        HERE.with_borrow_mut(|here| Rc::clone(here.entry(instance.to_owned()).or_default()))
    }

    /// Takes a line from the budget, and gives how many were dropped since the last; none where this one is to be.
    pub(crate) fn spend(&self, budget: Option<Budget>, now: u64) -> Option<u64> {
        let Some(Budget { lines, burst }) = budget else { return Some(0) };
        // Rounded up: with a part of a nanosecond less, more lines would flow in than are allowed.
        let each = if lines == 0 { SECOND } else { SECOND.div_ceil(u64::from(lines)) };
        let room = each.saturating_mul(u64::from(burst));
        // A clock that was put back far gives nothing away, and takes no more than a full bucket's time.
        let full_at = self.full_at.get().clamp(now, now.saturating_add(room));
        let after = full_at.saturating_add(each);
        if after.saturating_sub(now) > room {
            self.full_at.set(full_at);
            self.dropped.set(self.dropped.get().saturating_add(1));
            return None;
        }
        self.full_at.set(after);
        Some(self.dropped.take())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_storm_keeps_within_it_and_what_is_dropped_is_told_once() {
        let worker = Worker::default();
        let budget = Some(Budget { lines: 10, burst: 3 });
        let spent: Vec<_> = (0..5).map(|_| worker.spend(budget, SECOND)).collect();
        assert_eq!(spent, [Some(0), Some(0), Some(0), None, None]);
        assert_eq!(worker.spend(budget, SECOND + SECOND / 10), Some(2));
        assert_eq!(worker.spend(budget, SECOND + SECOND / 10), None);
        assert_eq!(worker.spend(budget, 9 * SECOND), Some(1));
        assert_eq!(worker.spend(None, 9 * SECOND), Some(0));
        // The clock is put back: that gives nothing, and takes no more than it takes to fill a bucket.
        assert_eq!(worker.spend(budget, SECOND), None);
        assert_eq!(worker.spend(budget, SECOND + 3 * SECOND / 10), Some(1));
    }

    #[test]
    fn lines_that_are_no_whole_nanoseconds_apart_keep_within_it_too() {
        for lines in [3, 7, 666_667, 999_999, 1_000_000] {
            let worker = Worker::default();
            let budget = Some(Budget { lines, burst: 1 });
            let each = SECOND / u64::from(lines);
            let begun = 1_796_000_000 * SECOND;
            // As often as there is room, by whole nanoseconds.
            let written =
                (0..=1000).filter(|turn| worker.spend(budget, begun + turn * each).is_some()).count();
            let flows_in = 1000 * each * u64::from(lines) / SECOND;
            assert!(written as u64 <= flows_in + 1, "{written} of {lines} a second");
        }
    }

    proptest! {
        #[test]
        fn over_any_span_no_more_is_written_than_flows_in(
            lines in 1..1000_u32,
            burst in 1..50_u32,
            steps in proptest::collection::vec(0..200_000_000_u64, 1..200),
        ) {
            let worker = Worker::default();
            let budget = Budget { lines, burst };
            let mut now = 1_796_000_000 * SECOND;
            let begun = now;
            let mut written = 0_u64;
            for step in steps {
                now += step;
                written += u64::from(worker.spend(Some(budget), now).is_some());
                let flows_in = u128::from(now - begun) * u128::from(lines) / u128::from(SECOND);
                prop_assert!(u128::from(written) <= flows_in + u128::from(burst));
            }
        }
    }
}
