//! A share of requests: Envoy's fractional percent, or a plain number of percent.

use filter_api::config::{FractionalPercent, Node};

const MILLION: u64 = 1_000_000;

/// So many of a million requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample(u32);

impl Sample {
    /// All of them.
    pub(crate) const ALL: Self = Self(1_000_000);

    /// Whether it is all of them: no dice need be thrown.
    pub(crate) fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// Whether the request is one of them, by the dice.
    pub(crate) fn has(self, dice: u32) -> bool {
        // The upper half of a product: as fair as a division, and cheaper.
        (u64::from(dice).saturating_mul(MILLION) >> 32) < u64::from(self.0)
    }

    /// Reads a share, rounded to millionths; an empty one is none of them, as Envoy has it.
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        FractionalPercent { in_steps: false, numerator: Some(0) }.read(node).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_in_several_ways() {
        let rows = [
            ("100", Some(1_000_000)),
            ("0", Some(0)),
            ("12.5", Some(125_000)),
            ("0.0001", Some(1)),
            (r#"{"numerator":50}"#, Some(500_000)),
            (r#"{"numerator":50,"denominator":"TEN_THOUSAND"}"#, Some(5000)),
            (r#"{"default_value":{"numerator":7,"denominator":"MILLION"},"runtime_key":"x"}"#, Some(7)),
            (r#"{"default_value":{}}"#, Some(0)),
            ("101", None),
            ("-1", None),
            (r#""12.5""#, Some(125_000)),
            (r#""50%""#, None),
            (r#"{"numerator":101}"#, None),
            (r#"{"numerator":1,"denominator":"TEN"}"#, None),
        ];
        for (text, expected) in rows {
            let read = filter_api::config::read(format!("{{\"s\":{text}}}").as_bytes(), |root| {
                Sample::read(&root.required("s")?)
            });
            assert_eq!(read.ok().map(|(sample, _)| sample.0), expected, "{text}");
        }
    }

    #[test]
    fn the_dice_choose_as_many_as_it_says() {
        let count = |sample: Sample| (0..1000_u32).filter(|n| sample.has(n * 4_294_968)).count();
        assert_eq!(count(Sample::ALL), 1000);
        assert_eq!(count(Sample(0)), 0);
        assert_eq!(count(Sample(250_000)), 250);
        assert!(Sample::ALL.has(u32::MAX) && !Sample(999_999).has(u32::MAX) && Sample(1).has(0));
    }
}
