//! Where tokens are: in headers, query parameters and cookies; and how they are taken out again.
//!
//! Every token that is there is found, however many lines, parameters or cookies of one name there
//! are. An `Authorization` of another scheme is left alone; one of our scheme that does not hold
//! exactly one token is found all the same, so that it is refused rather than overlooked.
//!
//! Envoy joins several `Authorization` lines into one value, by a comma and nothing else, before any
//! filter sees them. So a value is taken apart again where a comma is followed, without a space, by
//! a scheme and a space. Anything else after a comma belongs to what stands before it: after a token
//! it makes that no token, and our scheme after a comma in another scheme's line is refused.

use std::borrow::Cow;

use filter_api::parts::{cookies, form_decoded, name_and_value, parameters, unquoted};
use filter_api::{Head, HeaderName, HeaderOp, HeaderValue, is_token_byte};
use smallvec::SmallVec;

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Locations {
    /// Headers.
    pub headers: Vec<HeaderLocation>,
    /// Query parameters.
    pub params: Vec<String>,
    /// Cookies.
    pub cookies: Vec<String>,
}

/// A header to look in.
#[derive(Debug, Clone)]
pub struct HeaderLocation {
    /// Its name.
    pub name: HeaderName,
    /// What stands before the token.
    pub prefix: Prefix,
}

/// What stands before a token in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prefix {
    /// Nothing: the value is the token.
    Nothing,
    /// An authentication scheme, in any case, and one or more spaces (RFC 9110 section 11.4).
    Scheme(String),
    /// These very bytes.
    Bytes(String),
}

/// A token, and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'h> {
    /// The token as it stood there, whatever it is.
    pub token: Cow<'h, [u8]>,
    /// Where.
    pub place: Place,
    /// Whose location this is: bit n for the provider at place n.
    pub owners: u64,
}

/// As many as most requests have one of, which then allocates nothing.
pub type Few<T> = SmallVec<[T; 1]>;

/// A place in a request head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This line of the head, after a prefix of this many bytes.
    Header {
        /// Which line.
        line: usize,
        /// Which of the credentials that Envoy joined in it; none: the whole line.
        part: Option<usize>,
        /// How long the prefix is.
        prefix: usize,
    },
    /// This parameter of the query.
    Query {
        /// Which of the parts between `&`.
        part: usize,
    },
    /// This cookie.
    Cookie {
        /// Which line of the head.
        line: usize,
        /// Which of the parts between `;`.
        part: usize,
    },
}

impl Locations {
    /// Envoy's default: `Authorization: Bearer` and `access_token` in the query.
    pub fn standard() -> Self {
        let bearer = HeaderLocation {
            name: HeaderName::from_static("authorization"),
            prefix: Prefix::Scheme("bearer".to_owned()),
        };
        Self { headers: vec![bearer], params: vec!["access_token".to_owned()], cookies: Vec::new() }
    }

    /// Adds every token in these locations to `found`, marked with this owner. A token that
    /// another owner found in the same place gets a second owner.
    pub fn find<'h>(&self, head: &'h impl Head, owner: u64, found: &mut Few<Found<'h>>) {
        let mut note = |place: Place, token: Cow<'h, [u8]>| match found
            .iter_mut()
            .find(|earlier| earlier.place == place)
        {
            Some(earlier) => earlier.owners |= owner,
            None => found.push(Found { token, place, owners: owner }),
        };
        for (line, (name, value)) in head.lines().enumerate() {
            for location in &self.headers {
                if !name.eq_ignore_ascii_case(location.name.as_str().as_bytes()) {
                    continue;
                }
                let mut look = |part: Option<usize>, credentials: &'h [u8]| {
                    if let Some(token) = location.prefix.strip(credentials) {
                        let prefix = credentials.len().saturating_sub(token.len());
                        note(Place::Header { line, part, prefix }, Cow::Borrowed(token));
                    }
                };
                match location.prefix {
                    Prefix::Scheme(_) => {
                        joined(value)
                            .enumerate()
                            .for_each(|(part, credentials)| look(Some(part), credentials));
                    }
                    Prefix::Nothing | Prefix::Bytes(_) => look(None, value),
                }
            }
            if !self.params.is_empty() && name == b":path" {
                for (part, (name, value)) in parameters(value).enumerate() {
                    let name = form_decoded(name);
                    if self.params.iter().any(|param| param.as_bytes() == name.as_ref()) {
                        note(Place::Query { part }, form_decoded(value));
                    }
                }
            }
            if !self.cookies.is_empty() && name.eq_ignore_ascii_case(b"cookie") {
                for (part, (name, value)) in cookies(value).enumerate() {
                    if self.cookies.iter().any(|cookie| cookie.as_bytes() == name) {
                        note(Place::Cookie { line, part }, Cow::Borrowed(unquoted(value)));
                    }
                }
            }
        }
    }
}

impl Prefix {
    /// Reads Envoy's `value_prefix`: one that ends in a space is a scheme.
    pub fn from_value_prefix(text: &str) -> Self {
        match text.strip_suffix(' ').map(str::trim_end) {
            _ if text.is_empty() => Self::Nothing,
            Some(scheme) if !scheme.is_empty() && scheme.bytes().all(is_token_byte) => {
                Self::Scheme(scheme.to_ascii_lowercase())
            }
            _ => Self::Bytes(text.to_owned()),
        }
    }

    /// The rest of a value that has the prefix.
    fn strip<'h>(&self, value: &'h [u8]) -> Option<&'h [u8]> {
        match self {
            Self::Nothing => (!value.is_empty()).then_some(value),
            Self::Bytes(prefix) => value.strip_prefix(prefix.as_bytes()),
            Self::Scheme(scheme) => {
                if let Some(mut rest) = after_scheme(value, scheme) {
                    while let Some((b' ', after)) = rest.split_first() {
                        rest = after;
                    }
                    return Some(rest);
                }
                // Whoever looks for our scheme anywhere in the value would find it here.
                let mut commas = value.iter().enumerate().filter(|(_, byte)| **byte == b',');
                commas.find_map(|(comma, _)| {
                    let rest = value.get(comma..)?;
                    after_scheme(rest.get(1..)?.trim_ascii_start(), scheme).map(|_| rest)
                })
            }
        }
    }
}

/// What follows the scheme in credentials of this scheme.
fn after_scheme<'h>(credentials: &'h [u8], scheme: &str) -> Option<&'h [u8]> {
    let end = credentials.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(credentials.len());
    let (own, rest) = credentials.split_at_checked(end)?;
    own.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
}

/// The credentials that were joined into this value: at each comma that a scheme and a space follow.
fn joined(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let begins = |text: &[u8]| {
        let scheme = text.iter().take_while(|byte| is_token_byte(**byte)).count();
        scheme > 0 && text.get(scheme) == Some(&b' ')
    };
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let value = rest?;
        let comma = value.iter().enumerate().position(|(place, byte)| {
            *byte == b',' && value.get(place..).and_then(|tail| tail.get(1..)).is_some_and(begins)
        });
        let (first, tail) = value.split_at_checked(comma.unwrap_or(value.len()))?;
        rest = comma.and_then(|_| tail.get(1..));
        Some(first)
    })
}

/// The operations that take these tokens out of the request, and leave everything else in it.
pub fn removal(head: &impl Head, found: &[Found<'_>]) -> Vec<HeaderOp> {
    let mut operations = Vec::new();
    remove_lines(head, found, &mut operations);
    remove_parameters(head, found, &mut operations);
    remove_cookies(head, found, &mut operations);
    operations
}

fn remove_lines(head: &impl Head, found: &[Found<'_>], operations: &mut Vec<HeaderOp>) {
    let holds_token = |wanted: usize, wanted_part: Option<usize>| {
        found.iter().any(|token| match token.place {
            Place::Header { line, part, .. } => line == wanted && (part.is_none() || part == wanted_part),
            _ => false,
        })
    };
    let in_line = |wanted: usize| {
        found.iter().any(|token| matches!(token.place, Place::Header { line, .. } if line == wanted))
    };
    let mut done: Few<&[u8]> = Few::new();
    for (line, (name, _)) in head.lines().enumerate() {
        if !in_line(line) || done.iter().any(|earlier| earlier.eq_ignore_ascii_case(name)) {
            continue;
        }
        done.push(name);
        let own = head.lines().enumerate().filter(|(_, (other, _))| other.eq_ignore_ascii_case(name));
        let kept = own.flat_map(|(line, (_, value))| {
            // A line that holds no token of ours stays as it is.
            let (whole, parts) =
                if in_line(line) { (None, Some(joined(value))) } else { (Some(value), None) };
            let parts = parts.into_iter().flatten().enumerate();
            let kept = parts.filter(move |(part, _)| !holds_token(line, Some(*part)));
            whole.into_iter().chain(kept.map(|(_, credentials)| credentials))
        });
        replace_lines(name, kept, operations);
    }
}

fn remove_parameters(head: &impl Head, found: &[Found<'_>], operations: &mut Vec<HeaderOp>) {
    let holds_token = |wanted: usize| {
        found.iter().any(|token| matches!(token.place, Place::Query { part } if part == wanted))
    };
    if !found.iter().any(|token| matches!(token.place, Place::Query { .. })) {
        return;
    }
    let path = with_parameters(head.path(), |part, _| !holds_token(part));
    if let Ok(value) = HeaderValue::new(escaped(&path)) {
        operations.push(HeaderOp::Set(HeaderName::from_static(":path"), value));
    }
}

/// A path with its control characters escaped. It could not be written with them, and a path that is not
/// written again would keep its tokens.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        match byte.is_ascii_control() {
            true => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            false => out.push(*byte),
        }
    }
    out
}

/// A path with those of its parameters, by their place and name, that `keeps` says.
fn with_parameters(path: &[u8], keeps: impl Fn(usize, &[u8]) -> bool) -> Vec<u8> {
    let mut halves = path.splitn(2, |byte| *byte == b'?');
    let mut out = halves.next().unwrap_or_default().to_vec();
    let mut separator = b'?';
    for (place, part) in halves.flat_map(|query| query.split(|byte| *byte == b'&')).enumerate() {
        if keeps(place, form_decoded(name_and_value(part).0).as_ref()) {
            out.push(separator);
            out.extend_from_slice(part);
            separator = b'&';
        }
    }
    out
}

/// A path without any parameter of these names: to be shown to whoever sent it, or logs it.
pub(crate) fn without_parameters(path: &[u8], names: &[String]) -> Vec<u8> {
    with_parameters(path, |_, name| !names.iter().any(|own| own.as_bytes() == name))
}

fn remove_cookies(head: &impl Head, found: &[Found<'_>], operations: &mut Vec<HeaderOp>) {
    let holds_token = |wanted_line: usize, wanted: usize| {
        found.iter().any(|token| {
            matches!(token.place, Place::Cookie { line, part } if (line, part) == (wanted_line, wanted))
        })
    };
    if !found.iter().any(|token| matches!(token.place, Place::Cookie { .. })) {
        return;
    }
    let lines = head.lines().enumerate().filter(|(_, (name, _))| name.eq_ignore_ascii_case(b"cookie"));
    let kept: Vec<Vec<u8>> = lines
        .map(|(line, (_, value))| {
            let parts = value.split(|byte| *byte == b';').enumerate();
            let kept: Vec<&[u8]> = parts
                .filter(|(part, _)| !holds_token(line, *part))
                .map(|(_, part)| part.trim_ascii())
                .collect();
            kept.join(b"; ".as_slice())
        })
        .filter(|line| !line.is_empty())
        .collect();
    replace_lines(b"cookie", kept.iter().map(Vec::as_slice), operations);
}

/// Replaces every line of a name by these. A line that cannot be written again is lost with it.
fn replace_lines<'v>(name: &[u8], values: impl Iterator<Item = &'v [u8]>, operations: &mut Vec<HeaderOp>) {
    let Some(name) = std::str::from_utf8(name).ok().and_then(|name| HeaderName::new(name).ok()) else {
        return;
    };
    operations.push(HeaderOp::Remove(name.clone()));
    for value in values {
        if let Ok(value) = HeaderValue::new(value) {
            operations.push(HeaderOp::Add(name.clone(), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use filter_api::HeadMap;

    use super::*;

    fn tokens(locations: &Locations, head: &HeadMap) -> Vec<String> {
        let mut found = Few::new();
        locations.find(head, 1, &mut found);
        found.iter().map(|token| String::from_utf8_lossy(&token.token).into_owned()).collect()
    }

    #[test]
    fn the_authorization_scheme_is_read_as_rfc_9110_says() {
        let rows: &[(&str, &[&str])] = &[
            ("Bearer abc", &["abc"]),
            ("bearer abc", &["abc"]),
            ("BEARER   abc", &["abc"]),
            ("Bearer", &[""]),
            ("Bearer ", &[""]),
            ("Bearer abc def", &["abc def"]),
            ("Bearer abc, Bearer def", &["abc, Bearer def"]),
            ("Bearer\tabc", &["\tabc"]),
            ("Bearer,abc", &[",abc"]),
            ("Bearerabc", &[]),
            ("Basic abc", &[]),
            ("", &[]),
            // As Envoy joins lines.
            ("Basic abc,Bearer def", &["def"]),
            ("Bearer abc,Basic def", &["abc"]),
            ("Bearer abc,bearer def", &["abc", "def"]),
            ("Bearer abc,Bearer  ", &["abc", ""]),
            ("Basic abc,Basic def", &[]),
            (",Bearer abc", &["abc"]),
            // As nobody should write them.
            ("Basic abc, Bearer def", &[", Bearer def"]),
            ("Basic abc,\tbearer,def", &[",\tbearer,def"]),
            ("Basic abc,Bearer", &[",Bearer"]),
            ("Basic abc,Bearerdef", &[]),
            ("Bearer abc,def", &["abc,def"]),
            ("Bearer abc,Bearer", &["abc,Bearer"]),
            ("Digest a=\"b\",c=\"d\"", &[]),
        ];
        for (value, expected) in rows {
            let head = HeadMap::get("/").with("authorization", value);
            assert_eq!(tokens(&Locations::standard(), &head), *expected, "{value:?}");
        }
    }

    #[test]
    fn every_token_is_found() {
        let head = HeadMap::get("/?a=1&access_token=q1&access%5Ftoken=q%32&x=access_token")
            .with("authorization", "Basic x")
            .with("authorization", "Bearer h1")
            .with("Authorization", "bearer h2");
        assert_eq!(tokens(&Locations::standard(), &head), ["q1", "q2", "h1", "h2"]);
    }

    #[test]
    fn custom_places() {
        let header = |prefix: &str| HeaderLocation {
            name: HeaderName::from_static("x-token"),
            prefix: Prefix::from_value_prefix(prefix),
        };
        let rows = [("", "AAAbbb", Some("AAAbbb")), ("AAA", "AAAbbb", Some("bbb")), ("AAA", "aaabbb", None)];
        let rows = rows.into_iter().chain([("Token ", "token  bbb", Some("bbb")), ("", "", None)]);
        for (prefix, value, expected) in rows {
            let locations = Locations { headers: vec![header(prefix)], ..Locations::default() };
            let head = HeadMap::get("/").with("x-token", value).with("authorization", "Bearer no");
            assert_eq!(
                tokens(&locations, &head),
                expected.into_iter().collect::<Vec<_>>(),
                "{prefix:?} {value:?}"
            );
        }
        let locations = Locations { cookies: vec!["a".into(), "b".into()], ..Locations::default() };
        let head = HeadMap::get("/").with("cookie", "x=1; a=A;b=\"B\"").with("cookie", "a=A2; aa=no; =; a");
        assert_eq!(tokens(&locations, &head), ["A", "B", "A2", ""]);
    }

    fn after_removal(locations: &Locations, head: &HeadMap) -> Vec<String> {
        let mut found = Few::new();
        locations.find(head, 1, &mut found);
        let show = |operation: &HeaderOp| match operation {
            HeaderOp::Set(name, value) => format!("set {} {value:?}", name.as_str()),
            HeaderOp::Add(name, value) => format!("add {} {value:?}", name.as_str()),
            HeaderOp::Remove(name) => format!("remove {}", name.as_str()),
        };
        removal(head, &found).iter().map(show).collect()
    }

    #[test]
    fn what_is_taken_out_and_what_stays() {
        let standard = Locations::standard();
        let head = HeadMap::get("/").with("authorization", "Bearer a");
        assert_eq!(after_removal(&standard, &head), ["remove authorization"]);
        let head = head.with("authorization", "Basic b").with("authorization", "Bearer c");
        assert_eq!(
            after_removal(&standard, &head),
            ["remove authorization", "add authorization \"Basic b\""]
        );
        for (joined, kept) in [
            ("Basic a,Bearer b", "Basic a"),
            ("Bearer a,Basic b,bearer c", "Basic b"),
            ("Bearer b,Digest c=d,e=f", "Digest c=d,e=f"),
        ] {
            let head = HeadMap::get("/").with("authorization", joined);
            let expected = ["remove authorization".to_owned(), format!("add authorization {kept:?}")];
            assert_eq!(after_removal(&standard, &head), expected, "{joined}");
        }
        for (path, expected) in [
            ("/p?access_token=a", "/p"),
            ("/p?access_token=a&b=1", "/p?b=1"),
            ("/p?b=1&access_token=a&&c=%2f", "/p?b=1&&c=%2f"),
            ("/p?b=?&access_token=a", "/p?b=?"),
            ("/p?b=\u{1}\t&access_token=a", "/p?b=%01%09"),
        ] {
            assert_eq!(
                after_removal(&standard, &HeadMap::get(path)),
                [format!("set :path {expected:?}")],
                "{path}"
            );
        }
        let cookies = Locations { cookies: vec!["t".into()], ..Locations::default() };
        let head =
            HeadMap::get("/").with("cookie", "a=1; t=x;b=2").with("cookie", "t=y").with("cookie", "c=3");
        let expected = ["remove cookie", "add cookie \"a=1; b=2\"", "add cookie \"c=3\""];
        assert_eq!(after_removal(&cookies, &head), expected);
        assert!(after_removal(&standard, &HeadMap::get("/p?b=1")).is_empty());
    }

    #[test]
    fn a_token_of_two_owners_is_one_token() {
        let head = HeadMap::get("/").with("authorization", "Bearer a");
        let mut found = Few::new();
        Locations::standard().find(&head, 1, &mut found);
        Locations::standard().find(&head, 2, &mut found);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].owners, 3);
    }
}
