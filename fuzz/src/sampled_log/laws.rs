//! What must hold of every line, whatever is in it.

use filter_api::{Counter, Filter, Work};
use sampled_log::SampledLog;
use serde_json::{Map, Value};

/// The members of a line, which is held to its laws.
pub(super) fn members(line: &str, max_line_bytes: usize) -> Map<String, Value> {
    assert!(line.len() <= max_line_bytes, "{} bytes of {max_line_bytes}: {line}", line.len());
    let deceives = line.chars().find(|letter| letter.is_control() || is_deceiving(*letter));
    assert_eq!(deceives, None, "{line}");
    // Of two members of one name each reader takes another.
    filter_api::json::parse(line.as_bytes(), 3).unwrap_or_else(|error| panic!("{error}: {line}"));
    let Ok(Value::Object(members)) = serde_json::from_str(line) else { panic!("no object: {line}") };
    let rate = members["sample_rate"].as_f64().unwrap();
    assert!(rate > 0.0 && rate <= 1.0, "{line}");
    match members["why"].as_str() {
        Some("always") => assert!((rate - 1.0).abs() < f64::EPSILON, "{line}"),
        why => assert_eq!(why, Some("sampled"), "{line}"),
    }
    assert!(members.get("dropped").is_none_or(|dropped| dropped.as_u64() > Some(0)), "{line}");
    assert!(members.get("truncated").is_none_or(|truncated| *truncated == true), "{line}");
    members
}

/// What has no place of its own in a text, by the Unicode Standard: format characters that turn its direction (property
/// `Bidi_Control`), that are not seen (`Default_Ignorable_Code_Point`, of which variation selectors and fillers make up
/// what people write), and those that end a line to some.
fn is_deceiving(letter: char) -> bool {
    matches!(
        u32::from(letter),
        0xad | 0x61c
            | 0x180e
            | 0x200b..=0x200f
            | 0x2028..=0x202e
            | 0x2060..=0x206f
            | 0xfeff
            | 0xfff9..=0xfffb
            | 0xe0000..=0xe007f
    )
}

/// The names of the counters that count what was done, those that count several as often.
pub(super) fn counted(work: &Work) -> Vec<&'static str> {
    let name = |counter: Counter| SampledLog::COUNTERS[usize::from(counter.0)];
    let several = work.counts.iter().flat_map(|(counter, count)| vec![name(*counter); *count as usize]);
    work.counters.iter().map(name).chain(several).collect()
}

/// Holds what counters say of a line to what the line says.
pub(super) fn assert_counted(members: &Map<String, Value>, counted: &[&str]) {
    let has = |name: &str| counted.contains(&name);
    let why = members["why"].as_str().unwrap();
    assert!(has(&format!("lines.why.{why}")), "{counted:?}");
    assert_eq!(counted.iter().filter(|name| name.starts_with("lines.why.")).count(), 1, "{counted:?}");
    assert_eq!(has("truncated"), members.contains_key("truncated"), "{counted:?} {members:?}");
    assert!(!has("dropped"), "{counted:?}");
}
