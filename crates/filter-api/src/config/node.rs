//! A walk over a configuration that notes what is wrong and goes on.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::{ConfigErrors, Problem, Report, parse_duration};
use crate::{Configured, HeaderName, json};

/// Deeper than any configuration, shallow enough for any stack.
const MAX_DEPTH: u8 = 64;

/// Reads a configuration: `walk` takes what it needs from the root object, and returns `None`
/// where it could not, having noted why. Members that it did not ask for are errors.
///
/// # Errors
/// All problems found, at least one.
pub fn read<T>(
    text: &[u8],
    walk: impl FnOnce(&Object<'_>) -> Option<T>,
) -> Result<(T, Vec<Problem>), ConfigErrors> {
    let report = Report::default();
    let result = match json::parse(text, MAX_DEPTH) {
        Ok(value) => {
            let root = Node { path: String::new(), value: &value, report: &report };
            root.object().and_then(|object| {
                let result = walk(&object);
                object.finish();
                result
            })
        }
        Err(error) => {
            let message = if text.iter().all(u8::is_ascii_whitespace) {
                "the configuration is empty; it must be a JSON object".to_owned()
            } else {
                format!("not valid JSON: {error}")
            };
            report.error("", message);
            None
        }
    };
    if result.is_none() && report.errors() == 0 {
        report.error("", "the configuration cannot be used");
    }
    report.close(result)
}

/// A value of the configuration, and where it is.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    path: String,
    value: &'a Value,
    report: &'a Report,
}

impl<'a> Node<'a> {
    /// The path, as problems name it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The raw value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// Notes an error here.
    pub fn error(&self, message: impl Into<String>) {
        self.report.error(&self.path, message);
    }

    /// Notes a warning here.
    pub fn warning(&self, message: impl Into<String>) {
        self.report.warning(&self.path, message);
    }

    /// An object; its reader must call [`Object::finish`].
    pub fn object(&self) -> Option<Object<'a>> {
        match self.value {
            Value::Object(members) => Some(Object { node: self.clone(), members, asked: RefCell::default() }),
            _ => self.wrong_type("an object"),
        }
    }

    /// The items of an array.
    pub fn array(&self) -> Option<Vec<Node<'a>>> {
        let Value::Array(items) = self.value else { return self.wrong_type("an array") };
        let item =
            |(place, value)| Node { path: format!("{}[{place}]", self.path), value, report: self.report };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// The items of an array, or the one value that stands in for an array of one.
    pub fn one_or_more(&self) -> Vec<Node<'a>> {
        match self.value {
            Value::Array(_) => self.array().unwrap_or_default(),
            _ => vec![self.clone()],
        }
    }

    /// A string.
    pub fn string(&self) -> Option<&'a str> {
        match self.value {
            Value::String(text) => Some(text),
            _ => self.wrong_type("a string"),
        }
    }

    /// A string that is not empty.
    pub fn filled_string(&self) -> Option<&'a str> {
        let text = self.string()?;
        if text.is_empty() {
            self.error("must not be empty; leave it out instead");
            return None;
        }
        Some(text)
    }

    /// A header's name.
    pub fn header_name(&self) -> Option<HeaderName> {
        match HeaderName::new(self.filled_string()?) {
            Ok(name) => Some(name),
            Err(error) => {
                self.error(error.to_string());
                None
            }
        }
    }

    /// Strings: an array of them, or one alone.
    pub fn strings(&self) -> Vec<&'a str> {
        self.one_or_more().iter().filter_map(Node::string).collect()
    }

    /// True or false.
    pub fn bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(flag) => Some(*flag),
            _ => self.wrong_type("true or false"),
        }
    }

    /// One of two words: whether it is the second.
    pub fn second_of(&self, first: &str, second: &str) -> Option<bool> {
        let word = self.string()?;
        if word == first || word == second {
            return Some(word == second);
        }
        self.error(format!("{word:?} must be {first} or {second}"));
        None
    }

    /// A whole number within bounds, in any of the forms of protobuf JSON.
    pub fn integer(&self, least: u64, most: u64) -> Option<u64> {
        let number = match self.value {
            Value::Number(number) => match number.as_u64() {
                Some(whole) => Some(whole),
                None => number.as_f64().and_then(whole),
            },
            Value::String(text) => match text.parse::<u64>() {
                Ok(whole) => Some(whole),
                Err(_) => text.parse::<f64>().ok().and_then(whole),
            },
            _ => return self.wrong_type("a number"),
        };
        match number {
            Some(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                self.error(format!("{} is not a whole number from {least} to {most}", self.quoted()));
                None
            }
        }
    }

    /// A duration in nanoseconds: `"0.25s"`, or `{"seconds": 60}` as Envoy's own examples write it.
    pub fn duration(&self) -> Option<u64> {
        const MOST_SECONDS: u64 = 315_576_000_000;
        match self.value {
            Value::String(text) => {
                let nanos = parse_duration(text);
                if nanos.is_none() {
                    self.error(format!(
                        "{} is not a duration; write seconds with an s, such as \"60s\" or \"0.25s\"",
                        self.quoted()
                    ));
                }
                nanos
            }
            Value::Object(_) => {
                let object = self.object()?;
                let part = |name: &'static str, most| match object.get(name) {
                    Some(node) => node.integer(0, most),
                    None => Some(0),
                };
                let (seconds, nanos) = (part("seconds", MOST_SECONDS), part("nanos", 999_999_999));
                object.finish();
                seconds?.checked_mul(1_000_000_000)?.checked_add(nanos?)
            }
            _ => self.wrong_type("a duration, such as \"60s\""),
        }
    }

    /// A whole configuration of something else: `configure` reads it (as JSON). Its problems are noted with their paths.
    pub fn embedded<F>(
        &self,
        configure: impl FnOnce(&[u8]) -> Result<Configured<F>, ConfigErrors>,
    ) -> Option<F> {
        let path = |problem: &Problem| match problem.path.as_str() {
            "" => self.path.clone(),
            inner if inner.starts_with('[') => format!("{}{inner}", self.path),
            inner => format!("{}.{inner}", self.path),
        };
        match configure(self.value.to_string().as_bytes()) {
            Ok(Configured { filter, warnings }) => {
                warnings.iter().for_each(|it| self.report.warning(&path(it), it.message.as_str()));
                Some(filter)
            }
            Err(errors) => {
                errors.0.iter().for_each(|it| self.report.error(&path(it), it.message.as_str()));
                None
            }
        }
    }

    /// The value as messages quote it: no longer than a line has room for.
    pub fn quoted(&self) -> String {
        // A Struct holds floating-point numbers only: 200 arrives as 200.0.
        let whole = self.value.as_f64().and_then(|number| Some((number < 0.0, whole(number.abs())?)));
        let text = match whole {
            Some((negative, whole)) => format!("{}{whole}", if negative { "-" } else { "" }),
            None => self.value.to_string(),
        };
        if text.len() <= 64 {
            return text;
        }
        let shown: String = text.chars().take(60).collect();
        format!("{shown}...")
    }

    fn wrong_type<T>(&self, wanted: &str) -> Option<T> {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.error(format!("must be {wanted}, not {found}"));
        None
    }
}

/// A floating-point number as the whole number it is, if it is one and exact.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// An object of the configuration. It remembers which members were asked for.
#[derive(Debug)]
pub struct Object<'a> {
    node: Node<'a>,
    members: &'a Map<String, Value>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Object<'a> {
    /// Where it is.
    pub fn node(&self) -> &Node<'a> {
        &self.node
    }

    /// A member. `null` is the same as absent.
    pub fn get(&self, name: &'static str) -> Option<Node<'a>> {
        self.asked.borrow_mut().push(name);
        let value = self.members.get(name)?;
        (!value.is_null()).then(|| self.child(name, value))
    }

    /// A member that must be there.
    pub fn required(&self, name: &'static str) -> Option<Node<'a>> {
        let node = self.get(name);
        if node.is_none() {
            self.node.error(format!("`{name}` is missing"));
        }
        node
    }

    /// Exactly one of these members, with its name: none or several is an error.
    pub fn one_of(&self, names: &[&'static str]) -> Option<(&'static str, Node<'a>)> {
        let mut found = self.any_of(names);
        if found.len() > 1 {
            let given: Vec<String> = found.iter().map(|(name, _)| format!("`{name}`")).collect();
            self.node.error(format!("{} are given; give one of them", given.join(" and ")));
            return None;
        }
        let one = found.pop();
        if one.is_none() {
            let choices: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            self.node.error(format!("one of {} is missing", choices.join(", ")));
        }
        one
    }

    /// Those of these members that are there.
    pub fn any_of(&self, names: &[&'static str]) -> Vec<(&'static str, Node<'a>)> {
        names.iter().filter_map(|name| Some((*name, self.get(name)?))).collect()
    }

    /// Every member, for an object whose names are the user's own. None of them is unknown then.
    pub fn entries(&self) -> Vec<(&'a str, Node<'a>)> {
        self.members.iter().map(|(name, value)| (name.as_str(), self.child(name, value))).collect()
    }

    /// Notes every member that was never asked for, with the known name that comes nearest. Ask for
    /// every member first: a reader that gives up half-way would have good members called unknown,
    /// or unknown ones not noted at all.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for name in self.members.keys() {
            if asked.contains(&name.as_str()) {
                continue;
            }
            let nearest = asked
                .iter()
                .map(|known| (distance(known, name), *known))
                .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
                .min();
            let hint = match nearest {
                Some((_, known)) => format!("; did you mean `{known}`?"),
                None => {
                    let mut known: Vec<&str> = Vec::new();
                    for name in asked.iter() {
                        if !known.contains(name) {
                            known.push(name);
                        }
                    }
                    format!("; known here: {}", known.join(", "))
                }
            };
            self.node.error(format!("unknown field `{}`{hint}", name.escape_debug()));
        }
    }

    fn child(&self, name: &str, value: &'a Value) -> Node<'a> {
        let plain =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let path = match (self.node.path.is_empty(), plain) {
            (true, true) => name.to_owned(),
            (false, true) => format!("{}.{name}", self.node.path),
            (_, false) => format!("{}[{name:?}]", self.node.path),
        };
        Node { path, value, report: self.node.report }
    }
}

/// Edits that turn one name into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (above, y) in row.iter().skip(1).zip(b.bytes()) {
            let replaced = diagonal.saturating_add(usize::from(x != y));
            left = replaced.min(left.saturating_add(1)).min(above.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, walk: impl FnOnce(&Object<'_>) -> Option<()>) -> Vec<String> {
        match read(text.as_bytes(), walk) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn every_problem_is_named_with_its_path() {
        let text = r#"{"a": {"b": [1, "x"], "issuerr": 1, "zzz": 1}, "my.key": 2, "n": -1, "m": 10.0, "k": -7.0, "d": "5m"}"#;
        let found = problems(text, |root| {
            let a = root.required("a")?.object()?;
            a.required("b")?.array()?.iter().for_each(|item| {
                item.string();
            });
            a.get("issuer");
            a.finish();
            root.required("n")?.integer(0, 9);
            root.required("m")?.integer(0, 9);
            root.required("k")?.integer(0, 9);
            root.required("d")?.duration();
            root.required("missing");
            Some(())
        });
        assert_eq!(
            found,
            [
                "a.b[0]: must be a string, not a number",
                "a: unknown field `issuerr`; did you mean `issuer`?",
                "a: unknown field `zzz`; known here: b, issuer",
                "n: -1 is not a whole number from 0 to 9",
                "m: 10 is not a whole number from 0 to 9",
                "k: -7 is not a whole number from 0 to 9",
                "d: \"5m\" is not a duration; write seconds with an s, such as \"60s\" or \"0.25s\"",
                "`missing` is missing",
                "unknown field `my.key`; known here: a, n, m, k, d, missing",
            ]
        );
    }

    #[test]
    fn numbers_come_as_protobuf_json_writes_them() {
        let rows = [
            ("100", Some(100)),
            ("100.0", Some(100)),
            ("1e2", Some(100)),
            ("\"100\"", Some(100)),
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("1001", None),
            ("1.5", None),
            ("-1", None),
            ("\"\"", None),
            ("\"0x10\"", None),
            ("\"NaN\"", None),
            ("true", None),
            ("1e300", None),
        ];
        for (text, expected) in rows {
            let got =
                read(format!("{{\"n\":{text}}}").as_bytes(), |root| root.required("n")?.integer(0, 1000));
            assert_eq!(got.ok().map(|(number, _)| number), expected, "{text}");
        }
    }

    #[test]
    fn durations_come_as_text_or_as_seconds() {
        for text in ["\"60s\"", "{\"seconds\":60}", "{\"seconds\":\"60\",\"nanos\":0}"] {
            let got = read(format!("{{\"d\":{text}}}").as_bytes(), |root| root.required("d")?.duration());
            assert_eq!(got.ok().map(|(nanos, _)| nanos), Some(60_000_000_000), "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_said_so() {
        assert_eq!(problems("", |_| Some(())), ["the configuration is empty; it must be a JSON object"]);
        assert_eq!(problems("[]", |_| Some(())), ["must be an object, not an array"]);
        let found = problems("{\"a\":1,\n\"a\":2}", |_| Some(()));
        assert_eq!(found, ["not valid JSON: member \"a\" is given twice at line 2 column 3"]);
    }

    #[test]
    fn null_is_absent() {
        assert!(read(b"{\"a\":null}", |root| Some(root.get("a").is_none())).is_ok_and(|(absent, _)| absent));
    }
}
