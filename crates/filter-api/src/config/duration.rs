//! Durations as protobuf JSON writes them.

/// Reads `"60s"` or `"0.25s"` (protobuf JSON: seconds with up to nine decimals and an `s`) as
/// nanoseconds. `None` for anything else, for negative durations, and for more than 2^64 ns
/// (584 years).
pub fn parse_duration(text: &str) -> Option<u64> {
    let number = text.strip_suffix('s')?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (number, "0"),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: u64 = whole.parse().ok()?;
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations() {
        let rows = [
            ("60s", Some(60_000_000_000)),
            ("0s", Some(0)),
            ("0.25s", Some(250_000_000)),
            ("1.000000001s", Some(1_000_000_001)),
            ("", None),
            ("s", None),
            ("60", None),
            ("1m", None),
            ("-1s", None),
            ("+1s", None),
            (" 1s", None),
            (".5s", None),
            ("1.s", None),
            ("1e3s", None),
            ("1.0000000001s", None),
            ("18446744073s", Some(18_446_744_073_000_000_000)),
            ("18446744074s", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }
}
