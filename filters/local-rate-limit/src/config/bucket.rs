//! Buckets: Envoy's `token_bucket`, or the short form `rate` and `burst`.

use filter_api::config::{Node, Object};

use crate::bucket::{Bucket, SECOND};

/// The longest time in which tokens may be refilled.
const MOST_NANOS: u64 = 366 * 24 * 3600 * SECOND;
/// As in Envoy's filter, although nothing here depends on it: what is refilled more often is a rate.
const LEAST_FILL: u64 = 50_000_000;

/// Whether the object says anything of a bucket.
pub(super) fn is_given(object: &Object<'_>) -> bool {
    !object.any_of(&["token_bucket", "rate", "burst"]).is_empty()
}

/// The bucket that an object has; none, with the problem noted, where what it says is no bucket.
pub(super) fn read(object: &Object<'_>) -> Option<Bucket> {
    let way = object.one_of(&["token_bucket", "rate"]);
    let burst = object.get("burst");
    let (name, node) = way?;
    if name == "rate" {
        return read_rate(&node, burst.as_ref());
    }
    if let Some(burst) = burst {
        burst.error("goes with `rate`; of a `token_bucket` it is `max_tokens`");
    }
    read_token_bucket(&node)
}

fn read_token_bucket(node: &Node<'_>) -> Option<Bucket> {
    let object = node.object()?;
    let most = object.required("max_tokens").and_then(|node| tokens(&node, 0));
    let filled = object.get("tokens_per_fill").map_or(Some(1), |node| tokens(&node, 1));
    let interval = object.required("fill_interval").and_then(|node| {
        let nanos = node.duration()?;
        if nanos < LEAST_FILL {
            node.error("must be at least 50ms (0.05s), as in Envoy's own filter; use `rate` for more often");
        } else if nanos > MOST_NANOS {
            node.error("must be at most 366 days");
        }
        Some(nanos)
    });
    object.finish();
    if most == Some(0) {
        node.warning("holds no tokens: every request that it is for is refused");
    }
    Some(Bucket::new(most?, filled?, interval?))
}

/// `100/s`, `5/10m`.
fn read_rate(node: &Node<'_>, burst: Option<&Node<'_>>) -> Option<Bucket> {
    let burst = burst.map(|node| tokens(node, 1));
    let text = node.filled_string()?;
    let Some((count, nanos)) = parse_rate(text) else {
        node.error(format!(
            "{text:?} is not a rate; write tokens, a slash, and s, m, h or d, such as \"100/s\" or \"5/10m\""
        ));
        return None;
    };
    Some(Bucket::new(burst.unwrap_or(Some(count))?, count, nanos))
}

fn parse_rate(text: &str) -> Option<(u32, u64)> {
    let (count, time) = text.split_once('/')?;
    let unit = time.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let (times, _) = time.split_at_checked(time.len().checked_sub(unit.len())?)?;
    let seconds = match unit {
        "s" | "sec" | "second" => 1,
        "m" | "min" | "minute" => 60,
        "h" | "hour" => 3600,
        "d" | "day" => 24 * 3600,
        _ => return None,
    };
    let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count = digits.then(|| count.parse::<u32>().ok()).flatten()?;
    let times = if times.is_empty() { 1 } else { times.parse::<u64>().ok()? };
    let nanos = SECOND.checked_mul(seconds)?.checked_mul(times)?;
    (count > 0 && nanos > 0 && nanos <= MOST_NANOS).then_some((count, nanos))
}

fn tokens(node: &Node<'_>, least: u64) -> Option<u32> {
    node.integer(least, u32::MAX.into()).and_then(|tokens| u32::try_from(tokens).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let rows = [
            ("100/s", Some((100, SECOND))),
            ("5/m", Some((5, 60 * SECOND))),
            ("5/10m", Some((5, 600 * SECOND))),
            ("1/h", Some((1, 3600 * SECOND))),
            ("1000/day", Some((1000, 24 * 3600 * SECOND))),
            ("4294967295/366d", Some((u32::MAX, MOST_NANOS))),
            ("1/367d", None),
            ("4294967296/s", None),
            ("0/s", None),
            ("1/0s", None),
            ("-1/s", None),
            ("+1/s", None),
            ("1.5/s", None),
            ("1/ms", None),
            ("1/", None),
            ("/s", None),
            ("100", None),
            ("1/s/s", None),
            ("1 / s", None),
            ("1/99999999999999999999s", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_rate(text), expected, "{text}");
        }
    }
}
