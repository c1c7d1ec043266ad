//! How long a response may be kept (RFC 9111), as far as it matters for keys.

/// For how many seconds the response is fresh, by its `Cache-Control` and `Age`; none where it does not say.
/// `no-store` and `no-cache` are 0: fetched keys are kept all the same, for no longer than they must.
pub(crate) fn max_age(cache_control: Option<&[u8]>, age: Option<&[u8]>) -> Option<u64> {
    let text = std::str::from_utf8(cache_control?).ok()?;
    let mut seconds: Option<u64> = None;
    for directive in text.split(',').map(str::trim) {
        let (name, value) = match directive.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(value.trim().trim_matches('"'))),
            None => (directive, None),
        };
        if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
            return Some(0);
        }
        if name.eq_ignore_ascii_case("max-age") {
            // Section 4.2.1: of two that differ, the least; what is no number is stale.
            let value = value.and_then(number).unwrap_or(0);
            seconds = Some(seconds.map_or(value, |other| other.min(value)));
        }
    }
    Some(seconds?.saturating_sub(age.and_then(|age| number(std::str::from_utf8(age).ok()?)).unwrap_or(0)))
}

/// Delta-seconds; more than fit are as many as do.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_responses_say() {
        let rows = [
            (None, None, None),
            (Some(""), None, None),
            (Some("public"), None, None),
            (Some("max-age=60"), None, Some(60)),
            (Some("public, Max-Age = 60 , must-revalidate"), None, Some(60)),
            (Some("max-age=\"60\""), None, Some(60)),
            (Some("s-maxage=60"), None, None),
            (Some("max-age=60,max-age=30"), None, Some(30)),
            (Some("max-age=-1"), None, Some(0)),
            (Some("max-age"), None, Some(0)),
            (Some("max-age=1.5"), None, Some(0)),
            (Some("max-age=99999999999999999999999"), None, Some(u64::MAX)),
            (Some("no-cache, max-age=60"), None, Some(0)),
            (Some("max-age=60, no-store"), None, Some(0)),
            (Some("private=\"x\", max-age=5"), None, Some(5)),
            (Some("max-age=60"), Some("20"), Some(40)),
            (Some("max-age=60"), Some("100"), Some(0)),
            (Some("max-age=60"), Some("x"), Some(60)),
            (Some("public"), Some("10"), None),
        ];
        for (cache_control, age, expected) in rows {
            let got = max_age(cache_control.map(str::as_bytes), age.map(str::as_bytes));
            assert_eq!(got, expected, "{cache_control:?} {age:?}");
        }
        assert_eq!(max_age(Some(b"max-age=\xff"), None), None);
    }
}
