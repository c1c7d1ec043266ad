//! Medians, and how far to trust them.

/// How many times the rounds are drawn anew.
const DRAWS: usize = 2000;

/// A figure with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The figure itself.
    pub median: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl Estimate {
    /// Whether it may be this.
    pub fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The value below which that share of the values is, between two of them in proportion; none of nothing.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = sorted.len().checked_sub(1)? as f64 * share.clamp(0.0, 1.0);
    let below = *sorted.get(place.floor() as usize)?;
    let above = *sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

/// The middle value, or the mean of the two in the middle; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some((lower + upper) / 2.0)
}

/// The median of the values.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    bootstrap(values.len(), |rounds| median(&picked(values, rounds)))
}

/// The median of `over` divided by that of `under`. Both were measured in the same rounds, so a round is
/// drawn for both or for neither: what disturbed the machine then disturbed both.
pub fn ratio(over: &[f64], under: &[f64]) -> Option<Estimate> {
    bootstrap(over.len().min(under.len()), |rounds| {
        Some(median(&picked(over, rounds))? / median(&picked(under, rounds))?)
    })
}

/// How much more one takes than another: the median of the differences in the same rounds.
pub fn difference(one: &[f64], other: &[f64]) -> Option<Estimate> {
    estimate(&one.iter().zip(other).map(|(one, other)| one - other).collect::<Vec<_>>())
}

fn picked(values: &[f64], rounds: &[usize]) -> Vec<f64> {
    rounds.iter().filter_map(|round| values.get(*round).copied()).collect()
}

/// A statistic of rounds, with the percentile bootstrap's interval: the rounds are drawn anew, with
/// replacement, and the middle 95 % of what comes of it is where the figure is likely to be.
fn bootstrap(rounds: usize, statistic: impl Fn(&[usize]) -> Option<f64>) -> Option<Estimate> {
    let all: Vec<usize> = (0..rounds).collect();
    let median = statistic(&all)?;
    let mut numbers = Numbers(rounds as u64);
    let mut drawn: Vec<f64> = (0..DRAWS)
        .filter_map(|_| statistic(&all.iter().map(|_| numbers.below(rounds)).collect::<Vec<_>>()))
        .collect();
    drawn.sort_by(f64::total_cmp);
    let at = |percent: usize| drawn.get((drawn.len() * percent / 1000).min(drawn.len().saturating_sub(1)));
    Some(Estimate { median, low: *at(25)?, high: *at(975)? })
}

/// Numbers that are the same in every run (splitmix64): the same data give the same interval.
#[derive(Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// These places, in an order that chance picks.
    pub fn shuffled(&mut self, length: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..length).collect();
        let mut order = Vec::with_capacity(length);
        while !left.is_empty() {
            order.push(left.swap_remove(self.below(left.len())));
        }
        order
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_holds_each_place_once_and_each_place_comes_first() {
        let mut numbers = Numbers(1);
        let orders: Vec<Vec<usize>> = (0..100).map(|_| numbers.shuffled(5)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!((0..5).all(|place| orders.iter().any(|order| order[0] == place)));
    }

    #[test]
    fn medians() {
        let rows: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[4.0, 1.0, 2.0, 100.0], Some(3.0)),
            (&[-1.0, -1.0, 5.0, -1.0], Some(-1.0)),
        ];
        for (values, expected) in rows {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7.0], 0.9), Some(7.0));
        let values = [4.0, 1.0, 2.0, 3.0, 5.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.875, 4.5), (1.0, 5.0)] {
            assert_eq!(quantile(&values, share), Some(expected), "{share}");
        }
    }

    #[test]
    fn a_difference_is_that_of_the_same_rounds() {
        let told = difference(&[3.0, 13.0, 103.0], &[1.0, 11.0, 101.0]).unwrap();
        assert_eq!(told, Estimate { median: 2.0, low: 2.0, high: 2.0 });
        assert!(!told.holds(0.0) && told.holds(2.0));
        assert_eq!(difference(&[], &[1.0]), None);
    }

    #[test]
    fn one_round_has_an_interval_of_nothing_and_no_round_has_none() {
        assert_eq!(estimate(&[7.0]), Some(Estimate { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(estimate(&[]), None);
        assert_eq!(ratio(&[1.0], &[]), None);
    }

    #[test]
    fn an_interval_holds_the_median_and_narrows_with_more_rounds() {
        let values = |count: usize| -> Vec<f64> {
            let mut numbers = Numbers(1);
            (0..count).map(|_| 100.0 + numbers.below(1000) as f64 / 100.0).collect()
        };
        let few = estimate(&values(9)).unwrap();
        let many = estimate(&values(400)).unwrap();
        for estimate in [few, many] {
            assert!(estimate.low <= estimate.median && estimate.median <= estimate.high, "{estimate:?}");
        }
        assert!(many.high - many.low < (few.high - few.low) / 2.0, "{few:?} {many:?}");
        assert!((many.median - 105.0).abs() < 1.0, "{many:?}");
        // A textbook value: the standard error of a median of n uniform values is width / (2 sqrt(n)).
        let expected_width = 2.0 * 1.96 * 10.0 / (2.0 * 20.0);
        assert!((0.6..1.6).contains(&((many.high - many.low) / expected_width)), "{many:?}");
    }

    #[test]
    fn one_wild_round_moves_neither_median_nor_much_of_the_interval() {
        let mut values = vec![10.0; 20];
        values.push(1000.0);
        assert_eq!(estimate(&values), Some(Estimate { median: 10.0, low: 10.0, high: 10.0 }));
    }

    #[test]
    fn what_disturbs_both_does_not_disturb_their_ratio() {
        let under: Vec<f64> = (1..=30).map(f64::from).collect();
        let over: Vec<f64> = under.iter().map(|value| value * 3.0).collect();
        let ratio = ratio(&over, &under).unwrap();
        for value in [ratio.median, ratio.low, ratio.high] {
            assert!((value - 3.0).abs() < 1e-9, "{ratio:?}");
        }
        let alone = estimate(&over).unwrap();
        assert!(alone.high - alone.low > 10.0, "{alone:?}");
    }
}
