//! Edits of the cookies that a client sends (RFC 6265 section 4.2). The others stay as they were written.

use filter_api::config::{Node, StringMatcher};
use filter_api::parts::name_and_value;
use filter_api::{HeaderName, HeaderValue, Line, Lines, is_token_byte};

use super::name_node;
use super::query::read_patterns;
use crate::counters::Skipped;
use crate::stage::Stage;
use crate::value::{Left, Reading, Value, push_plain};

const COOKIE: HeaderName = HeaderName::from_static("cookie");

/// An edit.
#[derive(Debug)]
pub(crate) enum CookieEdit {
    /// Makes one cookie of all of this name.
    Set { name: String, value: Value },
    /// Removes those whose names one of these matches.
    Remove(Vec<StringMatcher>),
}

impl CookieEdit {
    /// Reads `{set: {name, value}}` or `{remove}`.
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let edit = match object.one_of(&["set", "remove"]) {
            Some(("set", node)) => {
                let object = node.object()?;
                let name = name_node(&object).and_then(|node| read_name(&node));
                let value = Value::read(&object, reading);
                object.finish();
                name.zip(value).map(|(name, value)| Self::Set { name, value })
            }
            Some((_, node)) => read_patterns(&node).map(Self::Remove),
            None => None,
        };
        object.finish();
        reading.guard.allows_own(node, &COOKIE).then_some(edit?)
    }

    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Remove(_))
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let mut written = match self {
            Self::Set { name, value } => Some(cookie(name, value, stage)?),
            Self::Remove(_) => None,
        };
        let is_edited = |part: &[u8]| {
            let name = name_and_value(part).0.trim_ascii();
            match self {
                Self::Set { name: own, .. } => name == own.as_bytes(),
                Self::Remove(patterns) => patterns.iter().any(|pattern| pattern.matches(name)),
            }
        };
        let before = stage.edited().lines_of(COOKIE.as_str());
        let mut lines = Lines::new();
        let mut changed = false;
        for line in before {
            if !line.as_bytes().split(|byte| *byte == b';').any(is_edited) {
                lines.push(line);
                continue;
            }
            changed = true;
            let mut text = Vec::new();
            for part in line.as_bytes().split(|byte| *byte == b';') {
                if is_edited(part) {
                    written.take().into_iter().for_each(|cookie| push(&mut text, &cookie));
                } else {
                    push(&mut text, part.trim_ascii());
                }
            }
            if !text.is_empty() {
                lines.push(Line::New(valid(text)?));
            }
        }
        if let Some(cookie) = written {
            changed = true;
            // A client sends one line of cookies, so most of who reads them expects one.
            let mut text = lines.pop().map(|line| line.as_bytes().to_vec()).unwrap_or_default();
            push(&mut text, &cookie);
            lines.push(Line::New(valid(text)?));
        }
        if changed {
            stage.edit().replace(&COOKIE, lines);
        }
        Ok(())
    }
}

fn push(text: &mut Vec<u8>, cookie: &[u8]) {
    if !text.is_empty() && !cookie.is_empty() {
        text.extend_from_slice(b"; ");
    }
    text.extend_from_slice(cookie);
}

fn valid(text: Vec<u8>) -> Result<HeaderValue, Left> {
    HeaderValue::new(text).map_err(|_| Left::Skipped(Skipped::InvalidValue))
}

/// `name=value`.
pub(super) fn cookie<'h>(name: &str, value: &Value, stage: &impl Stage<'h>) -> Result<Vec<u8>, Left> {
    value.with_bytes(stage, push_plain, |bytes| {
        // What else were in it could end the cookie, and begin another or an attribute.
        if bytes.iter().all(|byte| is_cookie_byte(*byte)) {
            Ok([name.as_bytes(), b"=", bytes].concat())
        } else {
            Err(Left::Skipped(Skipped::InvalidValue))
        }
    })
}

/// Whether a cookie's value may hold it: `cookie-octet` of RFC 6265 section 4.1.1.
fn is_cookie_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// A cookie's name: a token.
pub(super) fn read_name(node: &Node<'_>) -> Option<String> {
    let name = node.filled_string()?;
    if !name.bytes().all(is_token_byte) {
        node.error(format!("{name:?} is no name of a cookie; it has letters, digits and !#$%&'*+-.^_`|~"));
        return None;
    }
    Some(name.to_owned())
}
