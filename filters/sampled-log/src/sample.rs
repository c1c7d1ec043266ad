//! Which share of requests is logged, and which requests those are.

use filter_api::Head;
use filter_api::config::{FractionalPercent, Node};
use filter_api::template::trace_id;

const MILLION: u32 = 1_000_000;

/// So many of a million requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u32);

/// Why a request is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A rule says so.
    Always,
    /// It is among the sample.
    Sampled,
}

impl Why {
    /// As a line tells it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Sampled => "sampled",
        }
    }
}

impl Share {
    /// A tenth.
    pub(crate) const TENTH: Self = Self(100_000);

    /// All.
    pub(crate) const ALL: Self = Self(MILLION);

    /// The larger of two.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Whether it is none of them.
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether a request of this number, which is as likely to be any, is in it.
    pub fn has(self, number: u64) -> bool {
        // The upper half of the product, against what of a million it is: exact to the last number.
        let part = (u128::from(number).saturating_mul(u128::from(MILLION))) >> 64;
        part < u128::from(self.0)
    }

    /// As a number from 0 to 1, without zeros at its end.
    pub fn rate(self) -> String {
        if self.0 >= MILLION {
            return "1".to_owned();
        }
        let digits = format!("{:06}", self.0);
        match digits.trim_end_matches('0') {
            "" => "0".to_owned(),
            digits => format!("0.{digits}"),
        }
    }

    /// The rate of this share of those that another share has left, in the same form.
    pub(crate) fn rate_of(self, before: Self) -> String {
        if before == Self::ALL {
            return self.rate();
        }
        let digits = format!("{:012}", u64::from(self.0).saturating_mul(u64::from(before.0)));
        match digits.trim_end_matches('0') {
            "" => "0".to_owned(),
            digits => format!("0.{digits}"),
        }
    }

    /// Reads a share, in steps of a millionth.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        FractionalPercent { in_steps: true, numerator: None }.read(node).map(Self)
    }
}

/// What tells requests apart: the same number on every hop that sees the same id; none where there is none.
pub fn number_of(request: &impl Head) -> Option<u64> {
    if let Some(number) = number_of_id(request) {
        return Some(number);
    }
    let trace = trace_id(request.first("traceparent")?)?;
    Some(hash(trace.iter().map(u8::to_ascii_lowercase)))
}

/// The number by the request's id alone.
pub(crate) fn number_of_id(request: &impl Head) -> Option<u64> {
    let id = request.first("x-request-id").filter(|id| !id.is_empty())?;
    // Envoy writes into the version digit of a UUID whether it is traced.
    const VERSION: usize = 14;
    let is_uuid = id.len() == 36 && id.get(8) == Some(&b'-') && id.get(13) == Some(&b'-');
    let digits = id.iter().enumerate().filter(|(place, _)| !(is_uuid && *place == VERSION));
    Some(hash(digits.map(|(_, digit)| digit.to_ascii_lowercase())))
}

/// FNV-1a of 64 bits, its bits then spread by the finaliser of SplitMix64: the same wherever it is computed, now and in
/// later versions.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use filter_api::HeadMap;

    use super::*;

    fn share(json: &str) -> Option<Share> {
        filter_api::config::read(format!("{{\"s\":{json}}}").as_bytes(), |root| {
            Share::read(&root.required("s")?)
        })
        .ok()
        .map(|(share, _)| share)
    }

    #[test]
    fn shares_are_written_in_several_ways() {
        let rows = [
            ("100", Some("1")),
            ("0", Some("0")),
            ("10", Some("0.1")),
            ("0.1", Some("0.001")),
            ("0.0001", Some("0.000001")),
            ("12.5", Some("0.125")),
            (r#"{"numerator":1,"denominator":"MILLION"}"#, Some("0.000001")),
            (r#"{"numerator":25,"denominator":"TEN_THOUSAND"}"#, Some("0.0025")),
            (r#"{"default_value":{"numerator":50},"runtime_key":"x"}"#, Some("0.5")),
            ("0.00001", None),
            ("100.1", None),
            ("-1", None),
            (r#""0.1""#, Some("0.001")),
            (r#""1e1""#, Some("0.1")),
            (r#""10%""#, None),
            (r#""""#, None),
            (r#""NaN""#, None),
            (r#""-0.1""#, None),
            ("true", None),
            ("{}", None),
            (r#"{"numerator":101}"#, None),
            (r#"{"numerator":1,"denominator":"TEN"}"#, None),
        ];
        for (json, rate) in rows {
            assert_eq!(share(json).map(Share::rate).as_deref(), rate, "{json}");
        }
        assert!(
            Share(MILLION).has(u64::MAX)
                && !Share(0).has(0)
                && Share(1).has(0)
                && !Share(999_999).has(u64::MAX)
        );
    }

    #[test]
    fn shares_of_shares_are_multiplied() {
        let rows = [
            ("100", "100", "1"),
            ("100", "10", "0.1"),
            ("12.5", "10", "0.0125"),
            ("0.0001", "0.0001", "0.000000000001"),
            ("0", "10", "0"),
        ];
        for (own, before, rate) in rows {
            assert_eq!(share(own).unwrap().rate_of(share(before).unwrap()), rate, "{own} of {before}");
        }
    }

    fn uuid(number: u64) -> String {
        let (one, other) = (hash(number.to_le_bytes().into_iter()), hash(number.to_be_bytes().into_iter()));
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            one >> 32,
            one & 0xffff,
            other >> 52,
            other & 0xfff,
            (one ^ other.rotate_left(17)) & 0xffff_ffff_ffff
        )
    }

    fn with_id(id: &str) -> HeadMap {
        HeadMap::get("/").with("x-request-id", id)
    }

    #[test]
    fn the_share_of_a_million_ids_is_what_it_says() {
        let numbers: Vec<u64> = (0..1_000_000).map(|n| number_of(&with_id(&uuid(n))).unwrap()).collect();
        for (percent, expected) in [("0.1", 1000.0_f64), ("1", 10_000.0), ("50", 500_000.0)] {
            let share = share(percent).unwrap();
            let count = numbers.iter().filter(|number| share.has(**number)).count();
            let deviation = (expected * (1.0 - expected / 1_000_000.0)).sqrt();
            assert!((count as f64 - expected).abs() < 4.0 * deviation, "{percent} %: {count}");
        }
    }

    #[test]
    fn what_envoy_writes_into_an_id_changes_nothing() {
        let id = uuid(7);
        let number = number_of(&with_id(&id));
        for digit in "0123456789abcdef".chars() {
            let mut traced = id.clone();
            traced.replace_range(14..15, &digit.to_string());
            assert_eq!(number_of(&with_id(&traced)), number);
            assert_eq!(number_of(&with_id(&traced.to_uppercase())), number);
        }
        let mut other = id.clone();
        other.replace_range(15..16, if &id[15..16] == "0" { "1" } else { "0" });
        assert_ne!(number_of(&with_id(&other)), number);
        // Other ids are taken whole.
        assert_ne!(number_of(&with_id("request-000014a")), number_of(&with_id("request-000014b")));
    }

    #[test]
    fn a_trace_stands_in_for_an_id() {
        let with = |value: &str| HeadMap::get("/").with("traceparent", value);
        let one = number_of(&with("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert!(one.is_some());
        assert_eq!(number_of(&with("00-0AF7651916CD43DD8448EB211C80319C-0000000000000001-00")), one);
        assert_eq!(number_of(&with("00-x-b7ad6b7169203331-01")), None);
        // That of no trace: all who send it would be chosen alike.
        assert_eq!(number_of(&with("00-00000000000000000000000000000000-b7ad6b7169203331-01")), None);
        assert_eq!(number_of(&HeadMap::get("/")), None);
        let both =
            with_id("a").with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(number_of(&both), number_of(&with_id("a")));
    }
}
