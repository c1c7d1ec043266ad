//! Rewrites of path and host. Either makes Envoy choose the route anew.

use filter_api::config::{Node, Object};
use filter_api::template::Part;
use filter_api::{Head, HeaderName, HeaderValue};

use crate::counters::Skipped;
use crate::pattern::Substitution;
use crate::stage::Stage;
use crate::value::{Left, Reading, Value, push_escaped, push_plain};

pub(super) const PATH: HeaderName = HeaderName::from_static(":path");
const AUTHORITY: HeaderName = HeaderName::from_static(":authority");
const ORIGINAL_PATH: HeaderName = HeaderName::from_static("x-envoy-original-path");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const INVALID: Left = Left::Skipped(Skipped::InvalidValue);

/// Rewrites the path. The query stays, and what the path was goes to `x-envoy-original-path`.
#[derive(Debug)]
pub(crate) struct PathRewrite(pub(crate) NewPath);

/// What the path becomes.
#[derive(Debug)]
pub(crate) enum NewPath {
    /// This.
    Set(Value),
    /// What it was with another beginning, if it begins so: Envoy's `prefix_rewrite`.
    Prefix { prefix: String, with: String },
    /// What it was with all matches replaced: Envoy's `regex_rewrite`.
    Regex(Substitution),
}

impl PathRewrite {
    /// Reads `{set}`, `{prefix, with}` or `{regex, with}`.
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let new = match object.one_of(&["set", "prefix", "regex"]) {
            Some(("set", value)) => {
                let value = Value::of_node(&value, false, reading).filter(|read| is_path(&value, read));
                value.map(NewPath::Set)
            }
            Some(("prefix", prefix)) => {
                let with = object.required("with");
                let (prefix, with) = (read_plain_path(Some(prefix)), read_plain_path(with));
                prefix.zip(with).map(|(prefix, with)| NewPath::Prefix { prefix, with })
            }
            Some((_, regex)) => {
                let with = object.required("with");
                let read = Substitution::read(Some(regex), with.clone(), reading);
                read.filter(|read| is_part_of_path(with.as_ref(), read)).map(NewPath::Regex)
            }
            None => None,
        };
        object.finish();
        reading.guard.allows_own(node, &ORIGINAL_PATH).then_some(Self(new?))
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let Some(whole) = stage.edited().first(":path") else { return Ok(()) };
        // The `*` of OPTIONS is no path.
        if !whole.starts_with(b"/") {
            return Ok(());
        }
        let whole = whole.to_vec();
        let end = whole.iter().position(|byte| *byte == b'?').unwrap_or(whole.len());
        let (path, query) = whole.split_at_checked(end).unwrap_or_default();
        let mut new = match &self.0 {
            NewPath::Set(value) => value.with_bytes(stage, push_escaped, |bytes| Ok(bytes.to_vec()))?,
            NewPath::Prefix { prefix, with } => {
                let Some(rest) = path.strip_prefix(prefix.as_bytes()) else { return Ok(()) };
                [with.as_bytes(), rest].concat()
            }
            NewPath::Regex(substitution) => match substitution.replaced(path, stage, push_escaped)? {
                Some(new) => new,
                None => return Ok(()),
            },
        };
        if new == path {
            return Ok(());
        }
        // What came in the path may stay in it; what is put there must not end it before its end.
        let ends_it = |byte: &u8| !byte.is_ascii_graphic() && !path.contains(byte);
        if !new.starts_with(b"/")
            || new.iter().any(|byte| matches!(byte, b'?' | b'#') || ends_it(byte))
            || steps_upwards(&new)
        {
            return Err(INVALID);
        }
        new.extend_from_slice(query);
        let (new, whole) = (HeaderValue::new(new), HeaderValue::new(whole));
        let (Ok(new), Ok(whole)) = (new, whole) else { return Err(INVALID) };
        if stage.is_first_rewrite() {
            stage.edit().set(&ORIGINAL_PATH, whole);
        }
        stage.edit().set(&PATH, new);
        Ok(())
    }
}

/// Whether a path has a dot segment: resolved, it would be another than it was made to be.
fn steps_upwards(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| {
        let mut rest = segment;
        let mut dots = 0_usize;
        while !rest.is_empty() {
            let dot =
                rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b"%2e")).or(rest.strip_prefix(b"%2E"));
            let Some(after) = dot else { return false };
            rest = after;
            dots = dots.saturating_add(1);
        }
        matches!(dots, 1 | 2)
    })
}

/// Whether what a configuration says of a path can be one: it begins with a slash, and its text needs no escapes.
fn is_path(node: &Node<'_>, value: &Value) -> bool {
    let parts = value.template.parts();
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        Part::Value(_) => None,
    });
    let mut texts = texts.flat_map(|text| text.iter());
    let begins = match parts.first() {
        Some(Part::Text(text)) => text.starts_with(b"/"),
        // %PATH% begins with one.
        Some(Part::Value(_)) => true,
        None => false,
    };
    if begins && texts.all(|byte| is_path_byte(*byte)) {
        return true;
    }
    node.error(
        "is no path: it begins with \"/\", and what is not a letter, a digit or one of -._~!$&'()*+,;=:@/ is escaped, as \
         in %%20; the query is for the operation `query`",
    );
    false
}

/// Whether the texts that are put into a path need no escapes.
fn is_part_of_path(node: Option<&Node<'_>>, substitution: &Substitution) -> bool {
    if substitution.texts().all(|text| text.iter().all(|byte| is_path_byte(*byte))) {
        return true;
    }
    if let Some(node) = node {
        node.error(
            "is no part of a path: what is not a letter, a digit or one of -._~!$&'()*+,;=:@/ is escaped, as in %%20",
        );
    }
    false
}

fn read_plain_path(node: Option<Node<'_>>) -> Option<String> {
    let node = node?;
    let text = node.filled_string()?;
    if text.starts_with('/') && text.bytes().all(is_path_byte) {
        return Some(text.to_owned());
    }
    node.error(format!(
        "{text:?} is no beginning of a path: it begins with \"/\", and what is not a letter, a digit or one of \
         -._~!$&'()*+,;=:@/ is escaped, as in %20"
    ));
    None
}

/// Whether a path may hold it as it is, or it begins an escape.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte)
}

/// Rewrites the host.
#[derive(Debug)]
pub(crate) struct HostRewrite {
    pub(crate) new: NewHost,
    /// Whether what it was goes to `x-forwarded-host`.
    pub(crate) tells: bool,
}

/// What the host becomes.
#[derive(Debug)]
pub(crate) enum NewHost {
    /// This.
    Set(Value),
    /// What it was with all matches replaced.
    Regex(Substitution),
}

impl HostRewrite {
    /// Reads `{set}` or `{regex, with}`, and `append_x_forwarded_host`.
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let new = match object.one_of(&["set", "regex"]) {
            Some(("set", value)) => {
                let read = Value::of_node(&value, false, reading);
                let wrong = read.as_ref().and_then(|read| read.template.constant());
                match wrong.filter(|text| !is_host(text.as_bytes())) {
                    Some(_) => {
                        value.error("is no host; write a name or an address, with a port if it has one");
                        None
                    }
                    None => read.map(NewHost::Set),
                }
            }
            Some((_, regex)) => {
                Substitution::read(Some(regex), object.required("with"), reading).map(NewHost::Regex)
            }
            None => None,
        };
        let tells = flag(&object, "append_x_forwarded_host");
        object.finish();
        let (new, tells) = (new?, tells?);
        (!tells || reading.guard.allows_own(node, &FORWARDED_HOST)).then_some(Self { new, tells })
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let old = stage.edited().first(":authority").unwrap_or_default().to_vec();
        let new = match &self.new {
            NewHost::Set(value) => value.evaluate(stage)?,
            NewHost::Regex(substitution) => match substitution.replaced(&old, stage, push_plain)? {
                Some(new) => HeaderValue::new(new).map_err(|_| INVALID)?,
                None => return Ok(()),
            },
        };
        if new.as_bytes() == old {
            return Ok(());
        }
        if !is_host(new.as_bytes()) {
            return Err(INVALID);
        }
        if self.tells
            && let Ok(old) = HeaderValue::new(old)
        {
            stage.edit().add(&FORWARDED_HOST, old);
        }
        stage.edit().set(&AUTHORITY, new);
        Ok(())
    }
}

/// Whether it can be an `:authority`: a name or an address, and a port.
fn is_host(bytes: &[u8]) -> bool {
    let host = filter_api::matcher::without_port(bytes);
    let inner = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
    match inner {
        Some(address) => {
            !address.is_empty()
                && address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }
        None => {
            !host.is_empty()
                && host.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        }
    }
}

/// A flag that is false where it is not given.
pub(super) fn flag(object: &Object<'_>, name: &'static str) -> Option<bool> {
    object.get(name).map_or(Some(false), |node| node.bool())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_seen_however_they_are_written() {
        for path in ["/.", "/..", "/a/../b", "/a/./b", "/%2e%2E/b", "/.%2e"] {
            assert!(steps_upwards(path.as_bytes()), "{path}");
        }
        for path in ["/", "//", "/...", "/.a", "/a.", "/..;", "/%2f.."] {
            assert!(!steps_upwards(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn hosts() {
        for host in ["a", "a.example:8080", "192.0.2.1", "[2001:db8::1]", "[::1]:443", "a_b"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in ["", ":80", "a b", "a/b", "a@b", "a,b", "[", "[]", "[a]b", "::1", "a:b", "\u{e9}"] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
