//! Edits of the cookies that a response sets (RFC 6265 section 4.1). Each is a line of its own, and stays one.

use filter_api::config::{Node, Object, StringMatcher};
use filter_api::parts::name_and_value;
use filter_api::{HeaderName, HeaderValue, Line, Lines};

use super::cookie::{cookie, read_name};
use super::name_node;
use super::path::flag;
use super::query::read_patterns;
use crate::counters::Skipped;
use crate::stage::Stage;
use crate::value::{Left, Reading, Value};

const SET_COOKIE: HeaderName = HeaderName::from_static("set-cookie");

/// An edit.
#[derive(Debug)]
pub(crate) enum SetCookieEdit {
    /// Sets a cookie, instead of all of this name.
    Set {
        name: String,
        value: Value,
        /// What follows name and value, ready to be written.
        attributes: String,
    },
    /// Leaves cookies unset whose names one of these matches.
    Remove(Vec<StringMatcher>),
    /// Changes attributes of cookies.
    Attributes {
        /// Of those whose names one of these matches; of all where there is none.
        names: Vec<StringMatcher>,
        secure: Option<bool>,
        http_only: Option<bool>,
        same_site: Option<SameSite>,
    },
}

/// When a browser sends a cookie with requests that another site has caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SameSite {
    Strict,
    Lax,
    None,
}

impl SameSite {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Lax => "Lax",
            Self::None => "None",
        }
    }

    fn read(node: &Node<'_>) -> Option<Self> {
        let text = node.string()?;
        let known = [Self::Strict, Self::Lax, Self::None];
        let found = known.into_iter().find(|known| known.text().eq_ignore_ascii_case(text));
        if found.is_none() {
            node.error(format!("{text:?} must be Strict, Lax or None"));
        }
        found
    }
}

impl SetCookieEdit {
    /// Reads `{set}`, `{remove}` or `{attributes}`.
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let edit = object.one_of(&["set", "remove", "attributes"]).and_then(|(name, node)| match name {
            "set" => read_set(&node, reading),
            "remove" => read_patterns(&node).map(Self::Remove),
            _ => read_attributes(&node),
        });
        object.finish();
        reading.guard.allows_own(node, &SET_COOKIE).then_some(edit?)
    }

    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Remove(_))
    }

    pub(super) fn each_value<'v>(&'v self, take: &mut impl FnMut(&'v Value)) {
        if let Self::Set { value, .. } = self {
            take(value);
        }
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let before = stage.edited().lines_of(SET_COOKIE.as_str());
        let mut lines = Lines::new();
        let mut changed = false;
        match self {
            Self::Set { name, value, attributes } => {
                let mut text = cookie(name, value, stage)?;
                text.extend_from_slice(attributes.as_bytes());
                lines.extend(before.into_iter().filter(|line| name_of(line.as_bytes()) != name.as_bytes()));
                lines.push(Line::New(valid(text)?));
                changed = true;
            }
            Self::Remove(patterns) => {
                for line in before {
                    let removed = patterns.iter().any(|pattern| pattern.matches(name_of(line.as_bytes())));
                    changed |= removed;
                    if !removed {
                        lines.push(line);
                    }
                }
            }
            Self::Attributes { names, secure, http_only, same_site } => {
                for line in before {
                    let name = name_of(line.as_bytes());
                    let is_meant = names.is_empty() || names.iter().any(|pattern| pattern.matches(name));
                    let new = is_meant
                        .then(|| with_attributes(line.as_bytes(), *secure, *http_only, *same_site))
                        .filter(|new| new != line.as_bytes());
                    match new {
                        Some(new) => {
                            changed = true;
                            lines.push(Line::New(valid(new)?));
                        }
                        None => lines.push(line),
                    }
                }
            }
        }
        if changed {
            stage.edit().replace(&SET_COOKIE, lines);
        }
        Ok(())
    }
}

fn valid(text: Vec<u8>) -> Result<HeaderValue, Left> {
    HeaderValue::new(text).map_err(|_| Left::Skipped(Skipped::InvalidValue))
}

/// The name of the cookie that a line sets.
fn name_of(line: &[u8]) -> &[u8] {
    let cookie = line.split(|byte| *byte == b';').next().unwrap_or_default();
    name_and_value(cookie).0.trim_ascii()
}

/// The line with these attributes; those that nothing is said of, and the order of all, stay.
fn with_attributes(
    line: &[u8],
    secure: Option<bool>,
    http_only: Option<bool>,
    same_site: Option<SameSite>,
) -> Vec<u8> {
    let mut parts = line.split(|byte| *byte == b';');
    let mut out = parts.next().unwrap_or_default().to_vec();
    let same_site = same_site.map(SameSite::text);
    let (mut has_secure, mut has_http_only, mut has_same_site) = (false, false, false);
    for part in parts {
        let (name, value) = name_and_value(part);
        let (name, value) = (name.trim_ascii(), value.trim_ascii());
        let (has, stays) = if name.eq_ignore_ascii_case(b"secure") {
            (Some(&mut has_secure), secure != Some(false))
        } else if name.eq_ignore_ascii_case(b"httponly") {
            (Some(&mut has_http_only), http_only != Some(false))
        } else if name.eq_ignore_ascii_case(b"samesite") {
            let is_right = same_site.is_none_or(|text| value.eq_ignore_ascii_case(text.as_bytes()));
            (Some(&mut has_same_site), is_right)
        } else {
            (None, true)
        };
        if stays {
            has.into_iter().for_each(|has| *has = true);
            out.push(b';');
            out.extend_from_slice(part);
        }
    }
    if secure == Some(true) && !has_secure {
        out.extend_from_slice(b"; Secure");
    }
    if http_only == Some(true) && !has_http_only {
        out.extend_from_slice(b"; HttpOnly");
    }
    if let Some(text) = same_site.filter(|_| !has_same_site) {
        out.extend_from_slice(b"; SameSite=");
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn read_attributes(node: &Node<'_>) -> Option<SetCookieEdit> {
    let object = node.object()?;
    let names = object.get("names").map_or(Some(Vec::new()), |node| read_patterns(&node));
    let flag = |name| match object.get(name) {
        Some(node) => node.bool().map(Some),
        None => Some(None),
    };
    let (secure, http_only) = (flag("secure"), flag("http_only"));
    let same_site = match object.get("same_site") {
        Some(node) => SameSite::read(&node).map(Some),
        None => Some(None),
    };
    object.finish();
    let (names, secure, http_only, same_site) = (names?, secure?, http_only?, same_site?);
    if secure.is_none() && http_only.is_none() && same_site.is_none() {
        node.error("changes nothing; give `secure`, `http_only` or `same_site`");
        return None;
    }
    if same_site == Some(SameSite::None) && secure != Some(true) {
        node.error("`same_site: None` needs `secure: true`: browsers refuse such a cookie otherwise");
        return None;
    }
    Some(SetCookieEdit::Attributes { names, secure, http_only, same_site })
}

fn read_set(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<SetCookieEdit> {
    let object = node.object()?;
    let name = name_node(&object).and_then(|node| read_name(&node));
    let value = Value::read(&object, reading);
    let attributes = read_new_attributes(&object, name.as_deref().unwrap_or_default());
    object.finish();
    Some(SetCookieEdit::Set { name: name?, value: value?, attributes: attributes? })
}

/// The attributes of a new cookie, as they are written.
fn read_new_attributes(object: &Object<'_>, name: &str) -> Option<String> {
    let part = |name| match object.get(name) {
        Some(node) => read_attribute(&node).map(Some),
        None => Some(None),
    };
    let (path, domain) = (part("path"), part("domain"));
    let max_age = match object.get("max_age") {
        Some(node) => node.duration().map(|nanos| Some(nanos / 1_000_000_000)),
        None => Some(None),
    };
    let (secure, http_only) = (flag(object, "secure"), flag(object, "http_only"));
    let partitioned = flag(object, "partitioned");
    let same_site = match object.get("same_site") {
        Some(node) => SameSite::read(&node).map(Some),
        None => Some(None),
    };
    let (path, domain, max_age, secure) = (path?, domain?, max_age?, secure?);
    let (http_only, partitioned, same_site) = (http_only?, partitioned?, same_site?);
    let mut problem = None;
    if !secure {
        if same_site == Some(SameSite::None) {
            problem = Some("`same_site: None` needs `secure: true`: browsers refuse such a cookie otherwise");
        } else if partitioned {
            problem = Some("`partitioned` needs `secure: true`: browsers refuse such a cookie otherwise");
        } else if name.starts_with("__Secure-") || name.starts_with("__Host-") {
            problem =
                Some("a name that begins so needs `secure: true`: browsers refuse such a cookie otherwise");
        }
    }
    if name.starts_with("__Host-") && (path != Some("/") || domain.is_some()) {
        problem = Some("a name that begins with __Host- needs `path: /`, and no `domain`");
    }
    if let Some(problem) = problem {
        object.node().error(problem);
        return None;
    }
    let mut text = String::new();
    let mut push = |parts: &[&str]| {
        text.push_str("; ");
        parts.iter().for_each(|part| text.push_str(part));
    };
    path.iter().for_each(|path| push(&["Path=", path]));
    domain.iter().for_each(|domain| push(&["Domain=", domain]));
    max_age.iter().for_each(|seconds| push(&["Max-Age=", &seconds.to_string()]));
    same_site.iter().for_each(|same_site| push(&["SameSite=", same_site.text()]));
    let flags = [(secure, "Secure"), (http_only, "HttpOnly"), (partitioned, "Partitioned")];
    flags.iter().filter(|(given, _)| *given).for_each(|(_, text)| push(&[text]));
    Some(text)
}

fn read_attribute<'n>(node: &Node<'n>) -> Option<&'n str> {
    let text = node.filled_string()?;
    if text.bytes().any(|byte| byte == b';' || !(0x20..0x7f).contains(&byte)) {
        node.error(format!("{text:?} holds what no attribute of a cookie may"));
        return None;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_added_replaced_and_removed_in_place() {
        let (lax, none) = (Some(SameSite::Lax), Some(SameSite::None));
        let rows = [
            ("a=1", Some(true), Some(true), lax, "a=1; Secure; HttpOnly; SameSite=Lax"),
            (
                "a=1; Path=/; secure; HTTPONLY; samesite=LAX",
                Some(true),
                Some(true),
                lax,
                "a=1; Path=/; secure; HTTPONLY; samesite=LAX",
            ),
            ("a=1; SameSite=None; Path=/", None, None, lax, "a=1; Path=/; SameSite=Lax"),
            ("a=1;Secure;Path=/", Some(false), Some(false), None, "a=1;Path=/"),
            ("a=1; SameSite", None, None, none, "a=1; SameSite=None"),
            ("a=1; SameSite=Strict; SameSite=Lax", None, None, lax, "a=1; SameSite=Lax"),
            ("a", Some(true), None, None, "a; Secure"),
            ("a=\"secure\"; x=secure", Some(true), None, None, "a=\"secure\"; x=secure; Secure"),
            ("", Some(true), None, None, "; Secure"),
        ];
        for (line, secure, http_only, same_site, expected) in rows {
            let new = with_attributes(line.as_bytes(), secure, http_only, same_site);
            assert_eq!(String::from_utf8(new).unwrap(), expected, "{line}");
        }
    }
}
