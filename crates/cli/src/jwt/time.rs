//! NumericDates (RFC 7519 section 2) for people.

use std::time::{Duration, SystemTime};

use filter_api::Moment;

/// The last second of the year 9999, the last that RFC 3339 can write.
const MAX_SECONDS: f64 = 253_402_300_799.0;

/// `2026-11-30T00:53:20Z (in 5 minutes)`, or nothing for what is no date.
pub(super) fn describe(seconds: f64, now: Moment) -> Option<String> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return None;
    }
    let then = Duration::try_from_secs_f64(seconds).ok()?;
    let written = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH.checked_add(then)?);
    Some(format!("{written} ({})", distance(then, Duration::from_nanos(now.unix_nanos))))
}

/// How far off it is, in the largest unit of which there are at least two: `in 90 seconds`.
fn distance(then: Duration, now: Duration) -> String {
    const UNITS: [(u64, &str); 4] =
        [(365 * 86_400, "years"), (86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let between = then.abs_diff(now).as_secs();
    let amount = match UNITS.into_iter().find(|(length, _)| between >= 2 * length) {
        Some((length, unit)) => format!("{} {unit}", between / length),
        None if between == 0 => return "now".to_owned(),
        None if between == 1 => "1 second".to_owned(),
        None => format!("{between} seconds"),
    };
    if then > now { format!("in {amount}") } else { format!("{amount} ago") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_with_their_distance() {
        let rows = [
            (1_796_000_000.0, "2026-11-30T00:53:20Z (now)"),
            (1_796_000_000.7, "2026-11-30T00:53:20Z (now)"),
            (1_796_000_001.0, "2026-11-30T00:53:21Z (in 1 second)"),
            (1_795_999_999.0, "2026-11-30T00:53:19Z (1 second ago)"),
            (1_795_999_939.0, "2026-11-30T00:52:19Z (61 seconds ago)"),
            (1_796_000_119.0, "2026-11-30T00:55:19Z (in 119 seconds)"),
            (1_796_000_300.0, "2026-11-30T00:58:20Z (in 5 minutes)"),
            (1_796_007_200.0, "2026-11-30T02:53:20Z (in 2 hours)"),
            (1_795_827_200.0, "2026-11-28T00:53:20Z (2 days ago)"),
            (0.0, "1970-01-01T00:00:00Z (56 years ago)"),
            (951_782_400.0, "2000-02-29T00:00:00Z (26 years ago)"),
            (253_402_300_799.0, "9999-12-31T23:59:59Z (in 7978 years)"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(describe(seconds, Moment::at(1_796_000_000)).as_deref(), Some(expected));
        }
        for none in [-1.0, 253_402_300_800.0, f64::NAN, f64::INFINITY] {
            assert_eq!(describe(none, Moment::default()), None, "{none}");
        }
    }
}
