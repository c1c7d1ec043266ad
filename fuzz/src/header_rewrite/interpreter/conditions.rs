//! Patterns, and conditions on headers and statuses.

use serde_json::{Value, json};

use super::template::NO_BYTES;
use super::{Message, is_true, one_or_more, present};

/// Whether a pattern, `{prefix: ...}` and so on or a text alone, is one for these bytes. Patterns for names of headers are
/// compared in lower case.
pub(super) fn matches(pattern: &Value, bytes: &[u8], of_names: bool) -> bool {
    let ignores_case = of_names || is_true(&pattern["ignore_case"]);
    let lowered = |text: &str| if ignores_case { text.to_ascii_lowercase() } else { text.to_owned() };
    let value = if is_true(&pattern["ignore_case"]) { bytes.to_ascii_lowercase() } else { bytes.to_vec() };
    let part = |name: &str| pattern[name].as_str().map(|text| lowered(text).into_bytes());
    if let Some(text) = pattern.as_str() {
        return value == lowered(text).as_bytes();
    }
    if let Some(text) = part("exact") {
        return value == text;
    }
    if let Some(text) = part("prefix") {
        return value.starts_with(&text);
    }
    if let Some(text) = part("suffix") {
        return value.ends_with(&text);
    }
    if let Some(text) = part("contains") {
        return value.windows(text.len()).any(|window| window == text);
    }
    let regex = present(&pattern["safe_regex"]).unwrap_or(&pattern["regex"]);
    let regex = regex_of(regex);
    let whole = regex_lite::Regex::new(&format!("^(?:{regex})$")).unwrap();
    std::str::from_utf8(bytes).is_ok_and(|text| whole.is_match(text))
}

/// A regular expression: a text, or Envoy's `{regex: ...}`.
pub(super) fn regex_of(value: &Value) -> &str {
    value.as_str().or_else(|| value["regex"].as_str()).unwrap()
}

/// Whether a message meets a condition on a header.
pub(super) fn header_holds(condition: &Value, message: &Message) -> bool {
    let name = condition["name"].as_str().unwrap().to_ascii_lowercase();
    let lines = message.get(&name).map_or(NO_BYTES, Vec::as_slice);
    let ways = ["exact", "prefix", "suffix", "contains", "safe_regex", "regex"];
    let mut patterns = Vec::new();
    for way in ways {
        for value in one_or_more(&condition[way]) {
            patterns.push(json!({ way: value, "ignore_case": condition["ignore_case"] }));
        }
    }
    patterns.extend(present(&condition["string_match"]).cloned());
    let found = if patterns.is_empty() {
        !lines.is_empty()
    } else {
        lines.iter().any(|line| patterns.iter().any(|pattern| matches(pattern, line, false)))
    };
    let present = ["present_match", "present"].iter().rev().find_map(|name| condition[name].as_bool());
    let absent = present == Some(false);
    found != (is_true(&condition["invert_match"]) != absent)
}

/// `404`, `"404"`, `"4xx"` or `"500-599"`.
pub(super) fn statuses(range: &Value) -> std::ops::RangeInclusive<u16> {
    let Some(text) = range.as_str() else {
        let one = range.as_f64().unwrap() as u16;
        return one..=one;
    };
    let number = |text: &str| text.parse::<u16>().unwrap();
    if let Some(hundred) = text.strip_suffix("xx") {
        let least = number(hundred) * 100;
        return least..=least + 99;
    }
    match text.split_once('-') {
        Some((least, most)) => number(least)..=number(most),
        None => number(text)..=number(text),
    }
}
