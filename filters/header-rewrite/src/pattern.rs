//! Regular expressions that replace: linear in the text's length, whatever the pattern.

use filter_api::config::Node;
use filter_api::template::{Part, Piece, Template, Written};
use regex_lite::{Captures, Regex, RegexBuilder};

use crate::counters::Skipped;
use crate::stage::Stage;
use crate::value::{Left, MOST_BYTES, Reading, Value};

/// The most bytes of a pattern's text, and of what it is compiled to. A step of the text takes time in
/// proportion to the latter.
const MOST_TEXT: usize = 1024;
const MOST_COMPILED: usize = 32 * 1024;

/// A pattern, and what is written where it matches.
#[derive(Debug)]
pub(crate) struct Substitution {
    pub(crate) regex: Regex,
    pub(crate) with: Vec<With>,
}

/// A part of what is written.
#[derive(Debug)]
pub(crate) enum With {
    /// What this group has matched; group 0 is all of it.
    Group(usize),
    /// A text, or the value of an operator.
    Value(Value),
}

impl Substitution {
    /// Reads a pattern and what stands in its place: a template in which `\1` is the first group.
    pub(crate) fn read(
        regex: Option<Node<'_>>,
        with: Option<Node<'_>>,
        reading: &mut Reading<'_>,
    ) -> Option<Self> {
        let regex = regex.and_then(|node| read_regex(&node));
        let with = with.and_then(|node| {
            let template = Template::read(&node, reading.phase)?;
            match parts(&template, regex.as_ref().map_or(usize::MAX, Regex::captures_len), reading) {
                Ok(parts) => Some(parts),
                Err(problem) => {
                    node.error(problem);
                    None
                }
            }
        });
        Some(Self { regex: regex?, with: with? })
    }

    /// The text with every match replaced; none where there is no match. Each value is written by `push`.
    pub(crate) fn replaced<'h>(
        &self,
        bytes: &[u8],
        stage: &impl Stage<'h>,
        mut push: impl FnMut(Piece<'_>, &mut Vec<u8>),
    ) -> Result<Option<Vec<u8>>, Left> {
        // What is no UTF-8 matches nothing, as in the conditions.
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(None) };
        let mut out = Vec::new();
        let mut end = 0;
        let mut any = false;
        for captures in self.regex.captures_iter(text) {
            let Some(found) = captures.get(0) else { continue };
            out.extend_from_slice(text.get(end..found.start()).unwrap_or_default().as_bytes());
            end = found.end();
            any = true;
            self.push_with(&captures, stage, &mut out, &mut push)?;
            if out.len() > MOST_BYTES {
                return Err(Left::Skipped(Skipped::TooLong));
            }
        }
        if !any {
            return Ok(None);
        }
        out.extend_from_slice(text.get(end..).unwrap_or_default().as_bytes());
        if out.len() > MOST_BYTES { Err(Left::Skipped(Skipped::TooLong)) } else { Ok(Some(out)) }
    }

    /// The values that are written.
    pub(crate) fn each_value<'v>(&'v self, take: &mut impl FnMut(&'v Value)) {
        for with in &self.with {
            if let With::Value(value) = with {
                take(value);
            }
        }
    }

    /// The texts that are written.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.with.iter().filter_map(|with| match with {
            With::Value(value) => Some(value.template.parts()),
            With::Group(_) => None,
        });
        parts.flatten().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Value(_) => None,
        })
    }

    fn push_with<'h>(
        &self,
        captures: &Captures<'_>,
        stage: &impl Stage<'h>,
        out: &mut Vec<u8>,
        push: &mut impl FnMut(Piece<'_>, &mut Vec<u8>),
    ) -> Result<(), Left> {
        for with in &self.with {
            match with {
                With::Group(number) => {
                    // A group that took no part has matched nothing.
                    out.extend_from_slice(
                        captures.get(*number).map_or("", |found| found.as_str()).as_bytes(),
                    );
                }
                With::Value(value) => match stage.each(stage.template(value), |piece| push(piece, out)) {
                    Written::All => {}
                    Written::Missing => return Err(Left::Missing),
                    Written::Unfit => return Err(Left::Skipped(Skipped::InvalidValue)),
                },
            }
        }
        Ok(())
    }
}

/// A regular expression: a text, or Envoy's `{regex: ...}`.
fn read_regex(node: &Node<'_>) -> Option<Regex> {
    let text = if node.value().is_object() {
        let object = node.object()?;
        let text = object.required("regex");
        let _ = object.get("google_re2");
        object.finish();
        text?
    } else {
        node.clone()
    };
    let pattern = text.filled_string()?;
    if pattern.len() > MOST_TEXT {
        text.error(format!("is {} bytes long; the most is {MOST_TEXT}", pattern.len()));
        return None;
    }
    match RegexBuilder::new(pattern).size_limit(MOST_COMPILED).build() {
        Ok(regex) => Some(regex),
        Err(error) => {
            text.error(format!("{pattern:?} is not a regular expression that can be used: {error}"));
            None
        }
    }
}

/// Takes the groups out of a template's text.
fn parts(template: &Template, groups: usize, reading: &mut Reading<'_>) -> Result<Vec<With>, String> {
    let mut parts = Vec::new();
    let mut push = |part: Part, parts: &mut Vec<With>| {
        parts.push(With::Value(Value::of_template(Template::of_parts(vec![part]), true, reading)));
    };
    for part in template.parts() {
        let Part::Text(text) = part else {
            push(part.clone(), &mut parts);
            continue;
        };
        let mut literal = Vec::new();
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => match bytes.next() {
                    Some(b'\\') => literal.push(b'\\'),
                    Some(digit) if digit.is_ascii_digit() => {
                        let number = usize::from(digit.saturating_sub(b'0'));
                        if number >= groups {
                            let most = groups.saturating_sub(1);
                            return Err(format!(
                                "\\{number} is not a group of the pattern, which has {most}"
                            ));
                        }
                        if !literal.is_empty() {
                            push(Part::Text(std::mem::take(&mut literal).into()), &mut parts);
                        }
                        parts.push(With::Group(number));
                    }
                    _ => return Err("a \\ is followed by the number of a group, or by another \\".to_owned()),
                },
                other => literal.push(*other),
            }
        }
        if !literal.is_empty() {
            push(Part::Text(literal.into()), &mut parts);
        }
    }
    Ok(parts)
}
