//! What all workers know of a remote set of keys: one cell, seven numbers. Times are nanoseconds since 1970.

/// Allowed to the holder of a lease beyond the time-out of its fetch.
const SLACK: u64 = 1_000_000_000;

/// What is known of the set, and who is fetching it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The version of the set that was published last; 0 before the first.
    pub(crate) version: u64,
    /// Until when the set is fresh.
    pub(crate) fresh_until: u64,
    /// When the last fetch was started.
    pub(crate) attempted: u64,
    /// When the next is due.
    pub(crate) next: u64,
    /// Until when a worker has the task to fetch; 0: none has.
    pub(crate) lease: u64,
    /// Which, by a number that it drew.
    pub(crate) holder: u64,
    /// How many fetches have failed in a row.
    pub(crate) failures: u64,
}

const NUMBERS: usize = 7;

impl State {
    /// As bytes: the numbers, little-endian, in the order of the fields.
    pub(crate) fn encode(&self) -> [u8; NUMBERS * 8] {
        let mut bytes = [0; NUMBERS * 8];
        let numbers = [
            self.version,
            self.fresh_until,
            self.attempted,
            self.next,
            self.lease,
            self.holder,
            self.failures,
        ];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From bytes; of any other length they say nothing.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let (numbers, []) = bytes.as_chunks::<8>() else { return Self::default() };
        let Ok(numbers) = <[[u8; 8]; NUMBERS]>::try_from(numbers) else { return Self::default() };
        let [version, fresh_until, attempted, next, lease, holder, failures] =
            numbers.map(u64::from_le_bytes);
        Self { version, fresh_until, attempted, next, lease, holder, failures }
    }

    /// Whether a worker is fetching. A lease that reaches further than any was given is of another clock.
    pub(crate) fn is_leased(&self, now: u64, timeout: u64) -> bool {
        self.lease > now && self.lease <= lease_from(now, timeout)
    }

    /// Whether a fetch is due by the clock. A date further off than `horizon` is of another clock.
    pub(crate) fn is_due(&self, now: u64, horizon: u64) -> bool {
        now >= self.next || self.next > now.saturating_add(horizon)
    }
}

/// The end of a lease that begins now.
pub(crate) fn lease_from(now: u64, timeout: u64) -> u64 {
    now.saturating_add(timeout).saturating_add(SLACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let state = State {
            version: 1,
            fresh_until: 2,
            attempted: 3,
            next: 4,
            lease: 5,
            holder: u64::MAX,
            failures: 7,
        };
        assert_eq!(State::decode(&state.encode()), state);
        for length in (0..56).chain(57..80) {
            assert_eq!(State::decode(&vec![0xff; length]), State::default(), "{length}");
        }
    }

    #[test]
    fn no_clock_that_was_put_back_holds_up_a_fetch() {
        const HOUR: u64 = 3600 * 1_000_000_000;
        let now = 500_000 * HOUR;
        let state = State { lease: lease_from(now, 5), next: now + HOUR, ..State::default() };
        assert!(state.is_leased(now, 5) && !state.is_leased(now - HOUR, 5));
        assert!(!state.is_leased(state.lease, 5));
        assert!(!state.is_due(now, HOUR) && state.is_due(now - 1, HOUR) && state.is_due(now + HOUR, HOUR));
        assert!(State::default().is_due(now, HOUR) && !State::default().is_leased(now, 5));
    }
}
