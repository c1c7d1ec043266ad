//! Token buckets with continuous refill, in whole numbers.
//!
//! A bucket is kept as one point in time: when it will be full again (the theoretical arrival time of GCRA, the
//! generic cell rate algorithm). Taking a token moves that point on by the time in which one is refilled; a
//! request passes if the point then lies no further ahead than the time in which an empty bucket fills.
//!
//! The time of one token need not be a whole number of nanoseconds (three a second), so the point has a fraction,
//! in units of the smallest time that tokens and nanoseconds have in common. Nothing is ever rounded in it: a
//! bucket neither gains nor loses by being asked often. What the law gives: in any span of time at most
//! `max_tokens` and what is refilled in that span; and whoever keeps to the rate is never refused.

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// How far ahead a full bucket's point may lie of what is possible before the clock is taken to have been put
/// back: workers read their clocks one after the other, and clocks are slewed.
const CLOCK_SLACK: u64 = SECOND;

/// The shape of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The most tokens it holds.
    max_tokens: u32,
    /// Units in which a token is refilled.
    price: u64,
    /// Units in a nanosecond.
    pace: u32,
}

/// When a bucket will be full: nanoseconds since 1970, and a fraction in units of its [`Bucket`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullAt {
    /// Whole nanoseconds, in 96 bits: room for the largest bucket that is filled the slowest.
    pub nanos: u128,
    /// The fraction.
    pub part: u32,
}

impl FullAt {
    /// Whether a bucket that is full at this point is full now, whatever its shape.
    pub fn is_past(self, now: u64) -> bool {
        self.nanos < now.into() || (self.nanos == now.into() && self.part == 0)
    }
}

/// What a bucket holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Units that are missing. By a clock that was put back a little, more than it can hold.
    missing: u128,
    /// Whether it is empty only because the clock was put back: then it must be written again, or it would stay
    /// empty for as long as the clock has lost.
    pub is_of_another_clock: bool,
}

impl Bucket {
    /// A bucket of `max_tokens`, into which `tokens_per_fill` flow every `fill_nanos`, evenly.
    ///
    /// `fill_nanos` and `tokens_per_fill` must not be 0; if they are, nothing is ever refilled.
    pub fn new(max_tokens: u32, tokens_per_fill: u32, fill_nanos: u64) -> Self {
        let common = u64::from(gcd(fill_nanos, tokens_per_fill)).max(1);
        let pace = u64::from(tokens_per_fill).checked_div(common).and_then(|pace| u32::try_from(pace).ok());
        Self {
            max_tokens,
            price: fill_nanos.checked_div(common).unwrap_or(u64::MAX).max(1),
            pace: pace.unwrap_or(1).max(1),
        }
    }

    /// The most tokens it holds.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }

    /// Nanoseconds in which an empty bucket fills, rounded up.
    pub fn fill_time(&self) -> u64 {
        self.nanos(self.room())
    }

    /// Whether this bucket lets less through than the other, at once or in the long run.
    pub fn is_tighter_than(&self, other: &Self) -> bool {
        let rate = |own: &Self, other: &Self| u128::from(own.pace).saturating_mul(u128::from(other.price));
        self.max_tokens < other.max_tokens || rate(self, other) < rate(other, self)
    }

    /// What it holds now.
    pub fn level(&self, full_at: FullAt, now: u64) -> Level {
        let ahead = full_at.nanos.saturating_sub(now.into()).saturating_mul(u128::from(self.pace));
        let part = if full_at.nanos < now.into() { 0 } else { u128::from(full_at.part) };
        let missing = ahead.saturating_add(part);
        let room = self.room();
        let slack = u128::from(CLOCK_SLACK).saturating_mul(u128::from(self.pace));
        let is_of_another_clock = missing > room.saturating_add(slack);
        Level { missing: if is_of_another_clock { room } else { missing }, is_of_another_clock }
    }

    /// Whole tokens that it holds.
    pub fn tokens(&self, level: Level) -> u32 {
        let tokens = self.room().saturating_sub(level.missing).checked_div(u128::from(self.price));
        u32::try_from(tokens.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Whether it holds this many tokens, at least one.
    pub fn holds(&self, level: Level, tokens: u32) -> bool {
        level.missing.saturating_add(self.worth(tokens)) <= self.room()
    }

    /// When it will be full after taking this many tokens, which it must hold.
    pub fn after_taking(&self, level: Level, tokens: u32, now: u64) -> FullAt {
        self.full_at(level.missing.saturating_add(self.worth(tokens)), now)
    }

    /// When it will be full after giving back this many tokens.
    pub fn after_giving_back(&self, level: Level, tokens: u32, now: u64) -> FullAt {
        self.full_at(level.missing.saturating_sub(self.worth(tokens)), now)
    }

    /// Nanoseconds until it holds this many tokens, rounded up; none where it never will.
    pub fn wait(&self, level: Level, tokens: u32) -> Option<u64> {
        let spare = self.room().checked_sub(self.worth(tokens))?;
        Some(self.nanos(level.missing.saturating_sub(spare)))
    }

    /// Nanoseconds until it is full, rounded up.
    pub fn until_full(&self, level: Level) -> u64 {
        self.nanos(level.missing)
    }

    fn full_at(&self, missing: u128, now: u64) -> FullAt {
        let pace = u128::from(self.pace);
        // As is most often so: a token takes a whole number of nanoseconds, and nothing need be divided.
        let (nanos, part) = match pace {
            1 => (missing, 0),
            _ => (missing.checked_div(pace).unwrap_or(missing), missing.checked_rem(pace).unwrap_or(0)),
        };
        FullAt { nanos: nanos.saturating_add(now.into()), part: u32::try_from(part).unwrap_or(0) }
    }

    fn room(&self) -> u128 {
        self.worth(self.max_tokens)
    }

    fn worth(&self, tokens: u32) -> u128 {
        u128::from(tokens).saturating_mul(u128::from(self.price))
    }

    fn nanos(&self, units: u128) -> u64 {
        u64::try_from(units.div_ceil(u128::from(self.pace.max(1)))).unwrap_or(u64::MAX)
    }
}

/// The greatest common divisor.
fn gcd(a: u64, b: u32) -> u32 {
    let (mut a, mut b) = (a, u64::from(b));
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    // It divides the second, which fits.
    u32::try_from(a).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: u64 = 1_796_000_000 * SECOND;

    /// A bucket in use.
    struct InUse(Bucket, FullAt);

    impl InUse {
        fn take(&mut self, tokens: u32, now: u64) -> bool {
            let level = self.0.level(self.1, now);
            let passes = self.0.holds(level, tokens);
            assert_eq!(passes, self.0.tokens(level) >= tokens);
            if passes {
                self.1 = self.0.after_taking(level, tokens, now);
            } else if level.is_of_another_clock {
                self.1 = self.0.after_taking(level, 0, now);
            }
            passes
        }

        fn wait(&self, tokens: u32, now: u64) -> Option<u64> {
            self.0.wait(self.0.level(self.1, now), tokens)
        }
    }

    fn bucket(max_tokens: u32, tokens_per_fill: u32, fill_nanos: u64) -> InUse {
        InUse(Bucket::new(max_tokens, tokens_per_fill, fill_nanos), FullAt::default())
    }

    #[test]
    fn a_full_bucket_gives_what_it_holds_and_then_what_flows_in() {
        let mut bucket = bucket(2, 1, SECOND / 5);
        assert_eq!([0; 3].map(|_| bucket.take(1, START)), [true, true, false]);
        assert_eq!(bucket.wait(1, START), Some(SECOND / 5));
        let later = START + SECOND / 5;
        assert_eq!([0; 2].map(|_| bucket.take(1, later)), [true, false]);
        assert_eq!(bucket.0.until_full(bucket.0.level(bucket.1, later)), 2 * SECOND / 5);
    }

    #[test]
    fn a_steady_caller_at_the_rate_is_never_refused() {
        // 100 in 10 s, at 10 a second: all of 1000 pass, where refill by late timers refuses a fifth.
        let mut by_ten = bucket(100, 100, 10 * SECOND);
        assert!((0..1000).all(|n| by_ten.take(1, START + n * SECOND / 10)));
        // Three a second do not divide a second. After a year of them nothing has drifted.
        let mut by_three = bucket(1, 3, SECOND);
        assert!((0..100_000_000).step_by(997).all(|n: u64| {
            let from = n * SECOND / 3;
            (0..3).all(|k| by_three.take(1, START + (from * 3 + k * SECOND).div_ceil(3) + k))
        }));
    }

    #[test]
    fn what_is_tighter() {
        let of = |max, per_fill, seconds| Bucket::new(max, per_fill, seconds * SECOND);
        assert!(of(10, 10, 1).is_tighter_than(&of(11, 10, 1)));
        assert!(of(10, 9, 1).is_tighter_than(&of(10, 10, 1)));
        assert!(!of(10, 100, 10).is_tighter_than(&of(10, 10, 1)));
        assert!(of(100, 1, 60).is_tighter_than(&of(10, 10, 1)));
    }

    #[test]
    fn a_clock_put_back_gives_nothing_and_locks_nobody_out() {
        let mut bucket = bucket(10, 10, SECOND);
        assert_eq!((0..20).filter(|_| bucket.take(1, START)).count(), 10);
        let hour_ago = START - 3600 * SECOND;
        assert_eq!((0..20).filter(|_| bucket.take(1, hour_ago)).count(), 0);
        assert_eq!((0..20).filter(|_| bucket.take(1, hour_ago + SECOND)).count(), 10);
        // By less than the slack: it is as if no time had passed.
        assert_eq!((0..20).filter(|_| bucket.take(1, hour_ago + SECOND / 2)).count(), 0);
        assert_eq!((0..20).filter(|_| bucket.take(1, hour_ago + SECOND)).count(), 0);
        assert_eq!((0..20).filter(|_| bucket.take(1, hour_ago + 2 * SECOND)).count(), 10);
    }

    #[test]
    fn the_largest_numbers_overflow_nothing() {
        let year = 366 * 24 * 3600 * SECOND;
        for (max, per_fill, fill) in
            [(u32::MAX, u32::MAX, year), (u32::MAX, u32::MAX - 1, year), (u32::MAX, 1, year), (0, 1, 1)]
        {
            let mut bucket = bucket(max, per_fill, fill);
            for now in [0, START, u64::MAX, START] {
                bucket.take(max, now);
                bucket.take(1, now);
                let level = bucket.0.level(bucket.1, now);
                bucket.0.until_full(level);
                bucket.0.after_giving_back(level, u32::MAX, now);
            }
        }
        assert_eq!(bucket(0, 1, SECOND).wait(1, START), None);
        assert_eq!(bucket(1, 1, SECOND).wait(2, START), None);
        assert_eq!(bucket(1, 1, SECOND).wait(1, START), Some(0));
    }

    prop_compose! {
        fn shapes()(
            max in 1_u32..200,
            per_fill in prop_oneof![1_u32..20, 1_u32..5000, Just(u32::MAX)],
            fill in prop_oneof![Just(SECOND), 1_u64..SECOND, SECOND..100 * SECOND],
        ) -> Bucket {
            Bucket::new(max, per_fill, fill)
        }
    }

    /// Tokens that flow in within so many nanoseconds, rounded down.
    fn refilled(bucket: &Bucket, nanos: u64) -> u64 {
        u64::try_from(u128::from(nanos) * u128::from(bucket.pace) / u128::from(bucket.price))
            .unwrap_or(u64::MAX)
    }

    proptest! {
        /// In any span no more than the bucket holds and what flows in; and after the wait that it names, a
        /// token is there, but not a nanosecond before.
        #[test]
        fn the_law_holds_in_every_span(
            shape in shapes(),
            steps in proptest::collection::vec((0_u64..3 * SECOND, 1_u32..8, 1_usize..30), 1..60),
        ) {
            let mut bucket = InUse(shape, FullAt::default());
            let mut now = START;
            let mut passed: Vec<(u64, u64)> = Vec::new();
            for (step, cost, tries) in steps {
                now += step;
                let cost = cost.min(shape.max_tokens);
                for _ in 0..tries {
                    let wait = bucket.wait(cost, now).unwrap();
                    let passes = bucket.take(cost, now);
                    prop_assert_eq!(passes, wait == 0);
                    if passes {
                        passed.push((now, u64::from(cost)));
                    } else {
                        let at = |when| shape.holds(shape.level(bucket.1, when), cost);
                        prop_assert!(at(now + wait) && !at(now + wait - 1));
                    }
                }
            }
            for (place, (start, _)) in passed.iter().enumerate() {
                let mut total = 0;
                for (end, cost) in &passed[place..] {
                    total += cost;
                    let most = u64::from(shape.max_tokens).saturating_add(refilled(&shape, end - start));
                    prop_assert!(total <= most, "{total} in {} ns of {shape:?}", end - start);
                }
            }
        }

        /// Whoever leaves the time of one token between any two of them is never refused, for however long.
        #[test]
        fn who_keeps_to_the_rate_is_never_refused(
            shape in shapes(),
            later in proptest::collection::vec(prop_oneof![Just(0_u64), 0_u64..SECOND], 1..300),
        ) {
            let mut bucket = InUse(shape, FullAt::default());
            // In units, so that it is exactly the rate where nothing is added.
            let mut units = u128::from(START) * u128::from(shape.pace);
            for extra in later {
                let now = u64::try_from(units.div_ceil(u128::from(shape.pace))).unwrap();
                prop_assert!(bucket.take(1, now));
                units = (u128::from(now) + u128::from(extra)) * u128::from(shape.pace);
                units += u128::from(shape.price);
            }
        }

        /// However the clock jumps: what passes is at most a full bucket and what flowed in while it went forward.
        #[test]
        fn no_jump_of_the_clock_gives_anything(
            shape in shapes(),
            jumps in proptest::collection::vec((any::<bool>(), 0_u64..10 * SECOND), 1..60),
        ) {
            let mut bucket = InUse(shape, FullAt::default());
            let (mut now, mut forward, mut total) = (START, 0_u64, 0_u64);
            for (back, by) in jumps {
                if back { now -= by } else { now += by; forward += by }
                total += (0..50).filter(|_| bucket.take(1, now)).count() as u64;
                prop_assert!(total <= u64::from(shape.max_tokens).saturating_add(refilled(&shape, forward)));
            }
        }

        /// Tokens given back are there again, and never more than were taken.
        #[test]
        fn what_is_given_back_is_as_if_it_had_never_been_taken(
            shape in shapes(), first in 0_u32..200, tokens in 0_u32..200, later in 0_u64..SECOND,
        ) {
            let full = FullAt::default();
            let first = shape.after_taking(shape.level(full, START), first.min(shape.max_tokens), START);
            let level = shape.level(first, START);
            let tokens = tokens.min(shape.tokens(level));
            let taken = shape.after_taking(level, tokens, START);
            let then = START + later;
            let back = shape.after_giving_back(shape.level(taken, then), tokens, then);
            prop_assert_eq!(shape.level(back, then).missing, shape.level(first, then).missing);
        }
    }
}
