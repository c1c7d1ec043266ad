//! Envoy's `StringMatcher`: a string compared in one of several ways.

use regex_lite::Regex;

use super::Node;

/// How a string must look. Comparisons are of bytes; a regular expression must match the whole.
#[derive(Debug, Clone)]
pub enum StringMatcher {
    /// The same bytes.
    Exact(String),
    /// These bytes first.
    Prefix(String),
    /// These bytes last.
    Suffix(String),
    /// These bytes somewhere.
    Contains(String),
    /// A regular expression over the whole, in linear time. A value that is not UTF-8 does not
    /// match.
    Regex(Regex),
    /// One of the others on lower-cased ASCII.
    IgnoreCase(Box<StringMatcher>),
}

/// The members that say how to compare.
pub(crate) const WAYS: [&str; 6] = ["exact", "prefix", "suffix", "contains", "safe_regex", "regex"];

impl StringMatcher {
    /// Whether the value is as it must be.
    pub fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => value == text.as_bytes(),
            Self::Prefix(text) => value.starts_with(text.as_bytes()),
            Self::Suffix(text) => value.ends_with(text.as_bytes()),
            Self::Contains(text) => contains(value, text.as_bytes()),
            Self::Regex(regex) => std::str::from_utf8(value).is_ok_and(|text| regex.is_match(text)),
            Self::IgnoreCase(inner) => inner.matches(&value.to_ascii_lowercase()),
        }
    }

    /// Reads `{"exact": ...}`, `{"prefix": ...}` and so on, or a string alone, which must be the
    /// whole value.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        if node.value().is_string() {
            return node.filled_string().map(|text| Self::Exact(text.to_owned()));
        }
        let object = node.object()?;
        let way = object.one_of(&WAYS);
        let ignore_case = object.get("ignore_case").and_then(|flag| flag.bool()).unwrap_or(false);
        object.finish();
        let (name, value) = way?;
        Self::of_way(name, &value, ignore_case)
    }

    /// Reads the value of one of [`WAYS`].
    pub(crate) fn of_way(name: &str, value: &Node<'_>, ignore_case: bool) -> Option<Self> {
        if matches!(name, "safe_regex" | "regex") {
            if ignore_case {
                value.error("`ignore_case` does not go with a regular expression; begin it with (?i)");
                return None;
            }
            return read_regex(value).map(Self::Regex);
        }
        let text = value.filled_string()?;
        let text = if ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let matcher = match name {
            "exact" => Self::Exact(text),
            "prefix" => Self::Prefix(text),
            "suffix" => Self::Suffix(text),
            _ => Self::Contains(text),
        };
        Some(if ignore_case { Self::IgnoreCase(Box::new(matcher)) } else { matcher })
    }
}

/// Reads a regular expression, as a string or as Envoy's `{"regex": ...}`, to match the whole.
pub(crate) fn read_regex(node: &Node<'_>) -> Option<Regex> {
    let text = if node.value().is_object() {
        let object = node.object()?;
        let text = object.required("regex").and_then(|regex| regex.filled_string());
        // Envoy's older configurations name the engine; there is one.
        let _ = object.get("google_re2");
        object.finish();
        text?
    } else {
        node.filled_string()?
    };
    match Regex::new(&format!("^(?:{text})$")) {
        Ok(regex) => Some(regex),
        Err(error) => {
            node.error(format!("{text:?} is not a regular expression: {error}"));
            None
        }
    }
}

fn contains(value: &[u8], part: &[u8]) -> bool {
    part.is_empty() || value.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    fn matcher(json: &str) -> Option<StringMatcher> {
        read(format!("{{\"m\":{json}}}").as_bytes(), |root| StringMatcher::read(&root.required("m")?))
            .ok()
            .map(|(matcher, _)| matcher)
    }

    #[test]
    fn every_way_to_compare() {
        let rows = [
            (r#""abc""#, "abc", true),
            (r#""abc""#, "ABC", false),
            (r#"{"exact":"abc"}"#, "abcd", false),
            (r#"{"exact":"ABC","ignore_case":true}"#, "aBc", true),
            (r#"{"prefix":"ab"}"#, "abc", true),
            (r#"{"suffix":"bc"}"#, "abc", true),
            (r#"{"contains":"b"}"#, "abc", true),
            (r#"{"contains":"x"}"#, "abc", false),
            (r#"{"safe_regex":{"regex":"a.c"}}"#, "abc", true),
            (r#"{"safe_regex":{"google_re2":{},"regex":"b"}}"#, "abc", false),
            (r#"{"regex":"a|b"}"#, "ab", false),
            (r#"{"regex":"(?i)A.C"}"#, "abc", true),
        ];
        for (json, value, expected) in rows {
            assert_eq!(matcher(json).unwrap().matches(value.as_bytes()), expected, "{json} on {value}");
        }
        for bad in [r#""""#, "{}", "1", r#"{"exact":"a","prefix":"b"}"#, r#"{"regex":"("}"#, r#"{"x":"a"}"#] {
            assert!(matcher(bad).is_none(), "{bad}");
        }
        assert!(!matcher(r#"{"regex":".*"}"#).unwrap().matches(b"\xff"));
    }
}
