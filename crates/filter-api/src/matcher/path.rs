//! Paths: one normal form for comparing, and every other way in which an upstream might read one.
//!
//! # The normal form
//! 1. The query (from the first `?`) is dropped.
//! 2. Escapes of unreserved characters (letters, digits, `-._~`) are decoded; the hex digits of
//!    all others become upper-case. Bytes that belong escaped (controls, spaces, non-ASCII,
//!    `"<>^` and the like) are.
//! 3. Repeated slashes become one (as the connection manager's `merge_slashes` does).
//! 4. `.` and `..` segments are resolved as RFC 3986 section 5.2.4 says (as its `normalize_path`
//!    does). Case is kept.
//!
//! # Other readings
//! The filter compares; the route table and the upstream decide what is served, and they may read
//! the same bytes differently. A path that invites that has more readings than its normal form:
//! - with repeated slashes or dot segments: as it was sent; and dot segments resolved before
//!   slashes are merged, which gives another result for `/a//../b`;
//! - with `;`: without the parameters of each segment (servlet containers drop them before they
//!   look at dot segments: `/public/..;/admin`);
//! - with `%2F`, `%5C`, `\`, `%00`, `%25` before two hex digits, a malformed escape or `#`: with
//!   all escapes decoded, up to three times, and `\` taken for `/`. Such a path is *obscured*: no
//!   rule that lets requests through unchecked matches it (the connection manager's
//!   `path_with_escaped_slashes_action` can refuse or redirect the commonest of them earlier).
//!
//! [`super::select`] demands that all readings choose the same rule. A path with several readings that
//! is very long, or escaped more than three times over, is *unreadable*: nobody lists all its
//! readings, so nothing that depends on a path is decided by it.

use std::borrow::Cow;

use regex_lite::Regex;

use crate::config::{Node, StringMatcher};

/// A path condition.
#[derive(Debug, Clone)]
pub enum PathPattern {
    /// The whole path.
    Exact(String),
    /// How it begins. `/api` is a prefix of `/apish`: see [`PathPattern::SeparatedPrefix`].
    Prefix(String),
    /// How it begins, in whole segments: `/api` is one of `/api` and `/api/x`, not of `/apish`.
    SeparatedPrefix(String),
    /// A regular expression over the whole path, in linear time.
    Regex(Regex),
}

impl PathPattern {
    /// Reads an entry of `path`: a string, or an object with one of the ways.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        if node.value().is_string() {
            return Self::of_way("exact", node);
        }
        let object = node.object()?;
        let way = object.one_of(&["exact", "prefix", "path_separated_prefix", "safe_regex", "regex"]);
        object.finish();
        let (way, value) = way?;
        Self::of_way(way, &value)
    }

    pub(super) fn of_way(way: &str, node: &Node<'_>) -> Option<Self> {
        if matches!(way, "safe_regex" | "regex") {
            let StringMatcher::Regex(regex) = StringMatcher::of_way(way, node, false)? else { return None };
            return Some(Self::Regex(regex));
        }
        let text = node.filled_string()?;
        if text.contains('?') {
            node.error(format!("{text:?} holds a query; paths are compared without it, so leave it out"));
            return None;
        }
        if !text.starts_with('/') {
            node.error(format!("{text:?} can never match; a path begins with \"/\""));
            return None;
        }
        let normal = PathView::new(text.as_bytes());
        if normal.normal() != text.as_bytes() {
            node.error(format!(
                "{text:?} can never match, since paths are normalised before they are compared; write {:?}",
                String::from_utf8_lossy(normal.normal())
            ));
            return None;
        }
        let text = text.to_owned();
        Some(match way {
            "prefix" => Self::Prefix(text),
            "path_separated_prefix" => Self::SeparatedPrefix(text.trim_end_matches('/').to_owned()),
            _ => Self::Exact(text),
        })
    }

    /// Whether a path, already in the form to compare, meets the condition.
    /// What does not begin with a slash meets none: the `*` of OPTIONS, and the lack of a path that
    /// a CONNECT request has.
    pub fn matches(&self, path: &[u8]) -> bool {
        if !path.starts_with(b"/") {
            return false;
        }
        match self {
            Self::Exact(text) => path == text.as_bytes(),
            Self::Prefix(text) => path.starts_with(text.as_bytes()),
            Self::SeparatedPrefix(text) => path
                .strip_prefix(text.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/')),
            Self::Regex(regex) => std::str::from_utf8(path).is_ok_and(|text| regex.is_match(text)),
        }
    }
}

/// A request's path, in its normal form and in every other reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathView<'a> {
    normal: Cow<'a, [u8]>,
    others: Vec<Vec<u8>>,
    obscured: bool,
    unreadable: bool,
}

impl<'a> PathView<'a> {
    /// Takes a `:path`, with or without its query. The common path, already normal, costs one
    /// look at each byte and no allocation.
    pub fn new(target: &'a [u8]) -> Self {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        if is_plain(path) {
            let normal = Cow::Borrowed(path);
            return Self { normal, others: Vec::new(), obscured: false, unreadable: false };
        }
        let escaped = unify_escapes(path);
        let obscured = hides_something(&escaped) || (!path.starts_with(b"/") && !path.is_empty());
        let normal = resolve_dots(&merge_slashes(&escaped));
        let several = obscured || escaped != normal || escaped.contains(&b';');
        let others = if several { other_readings(escaped, obscured, &normal) } else { Some(Vec::new()) };
        let unreadable = others.is_none();
        Self { normal: Cow::Owned(normal), others: others.unwrap_or_default(), obscured, unreadable }
    }

    /// The normal form.
    pub fn normal(&self) -> &[u8] {
        &self.normal
    }

    /// Every reading, the normal form first.
    pub fn readings(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.normal()).chain(self.others.iter().map(Vec::as_slice))
    }

    /// Whether the path hides a separator, or something else that nobody can be sure of.
    pub fn is_obscured(&self) -> bool {
        self.obscured
    }

    /// Whether the path has readings that are not listed.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable
    }
}

/// Whether the path is in its normal form and has no second reading.
fn is_plain(path: &[u8]) -> bool {
    let mut segment_starts = false;
    for (place, byte) in path.iter().enumerate() {
        match byte {
            b'/' if segment_starts => return false,
            b'/' => segment_starts = true,
            _ if place == 0 => return false,
            // A segment that begins with a dot may be a dot segment: leave it to the slow way.
            b'.' if segment_starts => return false,
            _ if stays_as_it_is(*byte) && *byte != b';' => segment_starts = false,
            _ => return false,
        }
    }
    true
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Unreserved, or of those reserved characters that a path may hold as they are.
fn stays_as_it_is(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@'
        )
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    digit.and_then(|digit| char::from(*digit).to_digit(16)).and_then(|value| u8::try_from(value).ok())
}

/// The byte that `%XX` stands for, of which this is the first byte and what follows it.
fn escape_of(first: u8, tail: &[u8]) -> Option<u8> {
    (first == b'%').then(|| Some(hex(tail.first())? << 4 | hex(tail.get(1))?)).flatten()
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    out.push(b'%');
    for digit in [byte >> 4, byte & 15] {
        out.extend(DIGITS.get(usize::from(digit)));
    }
}

/// Step 2 of the normal form. `\`, `#` and malformed escapes stay, to be found by
/// [`hides_something`].
fn unify_escapes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, escape_of(*byte, tail)) {
            (_, Some(decoded)) => {
                if is_unreserved(decoded) {
                    out.push(decoded);
                } else {
                    push_escape(&mut out, decoded);
                }
                rest = tail.get(2..).unwrap_or_default();
            }
            (b'/' | b'\\' | b'#' | b'%', None) => out.push(*byte),
            (byte, None) if stays_as_it_is(*byte) => out.push(*byte),
            (byte, None) => push_escape(&mut out, *byte),
        }
    }
    out
}

fn hides_something(path: &[u8]) -> bool {
    path.iter().enumerate().any(|(place, byte)| match byte {
        b'\\' | b'#' => true,
        b'%' => {
            let rest = path.get(place..).and_then(|rest| rest.get(1..)).unwrap_or_default();
            match escape_of(b'%', rest) {
                None | Some(b'/' | b'\\' | 0) => true,
                // `%25` followed by two hex digits: an escape, escaped again.
                Some(b'%') => hex(rest.get(2)).and(hex(rest.get(3))).is_some(),
                Some(_) => false,
            }
        }
        _ => false,
    })
}

/// Every reading but the normal form: each level of decoding, with and without parameters, with
/// slashes merged and dot segments resolved in either order, in part, or not at all. `None` where
/// these are too many to list.
fn other_readings(escaped: Vec<u8>, obscured: bool, normal: &[u8]) -> Option<Vec<Vec<u8>>> {
    /// Escapes of escapes of escapes: nobody means that.
    const MOST_LEVELS: usize = 3;
    /// The work grows with the length, and so does the room for mischief.
    const MOST_BYTES: usize = 4096;

    if escaped.len() > MOST_BYTES {
        return None;
    }
    let mut forms = vec![escaped];
    while let Some(decoded) = forms.last().filter(|_| obscured).map(|form| reveal(form)) {
        if forms.last() == Some(&decoded) {
            break;
        }
        if forms.len() > MOST_LEVELS {
            return None;
        }
        forms.push(decoded);
    }
    let mut others = Vec::new();
    let mut note = |reading: Vec<u8>| {
        if reading != normal && !others.contains(&reading) {
            others.push(reading);
        }
    };
    for form in &forms {
        let stripped = form.contains(&b';').then(|| without_parameters(form));
        for form in std::iter::once(form).chain(stripped.as_ref()) {
            let resolved = resolve_dots(form);
            note(resolve_dots(&merge_slashes(form)));
            note(merge_slashes(&resolved));
            note(resolved);
            note(merge_slashes(form));
            note(form.clone());
        }
    }
    Some(others)
}

/// The path with one level of escapes decoded, and whatever might be taken for a slash as one.
pub(super) fn reveal(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        let decoded = escape_of(*byte, tail);
        if decoded.is_some() {
            rest = tail.get(2..).unwrap_or_default();
        }
        match decoded.unwrap_or(*byte) {
            b'\\' => out.push(b'/'),
            // What follows may never be seen by the upstream.
            0 | b'#' => break,
            other => out.push(other),
        }
    }
    out
}

fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    for byte in path {
        if *byte != b'/' || out.last() != Some(&b'/') {
            out.push(*byte);
        }
    }
    out
}

/// RFC 3986 section 5.2.4, for a path that begins with a slash.
pub(super) fn resolve_dots(path: &[u8]) -> Vec<u8> {
    let Some(segments) = path.strip_prefix(b"/") else { return path.to_vec() };
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_directory = false;
    for segment in segments.split(|byte| *byte == b'/') {
        ends_in_directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in &kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if ends_in_directory || kept.is_empty() {
        out.push(b'/');
    }
    out
}

/// Each segment up to its first `;`.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut dropping = false;
    for byte in path {
        match byte {
            b'/' => dropping = false,
            b';' => dropping = true,
            _ => {}
        }
        if !dropping {
            out.push(*byte);
        }
    }
    out
}
