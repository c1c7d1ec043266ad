//! What tells one bucket of a limit from another: values of the request.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::hash::{DefaultHasher, Hasher};

use filter_api::matcher::{PathView, without_port};
use filter_api::parts::{cookies, form_decoded, parameters, unquoted};
use filter_api::{Attribute, ClaimText, Facts, Head, HeaderName, Host};
use smallvec::SmallVec;

use crate::client::{Client, Mask, Origin};

/// Where a value is taken from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A header, its lines joined by commas.
    Header(HeaderName),
    /// The path, normalised, without its query.
    Path,
    /// The method.
    Method,
    /// The host, lower-case, without its port.
    Host,
    /// The client's address.
    ClientAddress(Origin, Mask),
    /// A claim of a token that was verified.
    JwtClaim {
        /// The claim.
        claim: ClaimText,
        /// The property that it is in where it was verified by another module.
        property: String,
    },
    /// A cookie: the first of the name.
    Cookie(String),
    /// A parameter of the query, decoded: the first of the name.
    Query(String),
    /// Always the same.
    Constant,
}

/// One part of a key.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) source: Source,
    /// The values that the limit is for, each with a bucket of its own; empty: any.
    pub(crate) values: Vec<Vec<u8>>,
    /// What stands in for a value that is not there. Without it, the limit is not for such a request.
    pub(crate) default: Option<Vec<u8>>,
    /// Whether some of its values have buckets of another shape.
    pub(crate) has_overrides: bool,
}

impl Entry {
    /// Whether the configuration gives all its values.
    pub(crate) fn is_fixed(&self) -> bool {
        !self.values.is_empty() || matches!(self.source, Source::Constant)
    }
}

/// What is asked of a request, each at most once.
pub(crate) struct Asked<'r, H, T> {
    pub(crate) head: &'r H,
    pub(crate) host: &'r T,
    pub(crate) facts: &'r Facts,
    path: OnceCell<PathView<'r>>,
    connection: OnceCell<Option<Client>>,
}

impl<'r, H: Head, T: Host> Asked<'r, H, T> {
    pub(crate) fn new(head: &'r H, host: &'r T, facts: &'r Facts) -> Self {
        Self { head, host, facts, path: OnceCell::new(), connection: OnceCell::new() }
    }

    /// The path.
    pub(crate) fn path(&self) -> &PathView<'r> {
        self.path.get_or_init(|| PathView::new(self.head.path()))
    }

    /// Whose request it is.
    pub(crate) fn client(&self, origin: &Origin) -> Option<Cow<'_, Client>> {
        match origin {
            Origin::Connection => {
                let client = self.connection.get_or_init(|| origin.client(self.head, self.host));
                client.as_ref().map(Cow::Borrowed)
            }
            _ => origin.client(self.head, self.host).map(Cow::Owned),
        }
    }

    /// The number of the connection.
    pub(crate) fn connection(&self) -> Option<Vec<u8>> {
        self.host.attribute(Attribute::ConnectionId)
    }

    /// Hands the entry's value to `take`, and returns what that does; nothing where there is no value, or none that
    /// the limit is for.
    pub(crate) fn with_value<R>(&self, entry: &Entry, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let value = self.value(&entry.source);
        let value = value.as_ref().map(Part::bytes).or(entry.default.as_deref())?;
        let wanted = entry.values.is_empty() || entry.values.iter().any(|own| own == value);
        wanted.then(|| take(value))
    }

    fn value<'s>(&'s self, source: &'s Source) -> Option<Part<'s>> {
        Some(match source {
            Source::Header(name) => joined(self.head.get_all(name.as_str()))?,
            Source::Path => Part::Borrowed(self.path().normal()),
            Source::Method => Part::Borrowed(self.head.method()),
            Source::Host => host_of(self.head.authority()),
            Source::ClientAddress(origin, mask) => Part::Own(self.client(origin)?.key(*mask)),
            Source::JwtClaim { claim, property } => {
                let said = self.facts.claims().find_map(|(_, claims)| claim.value(claims.as_object()?)?.ok());
                match said {
                    Some(value) => Part::Own(SmallVec::from_slice(value.as_bytes())),
                    None => Part::Own(self.host.attribute(Attribute::Property(property))?.into()),
                }
            }
            Source::Cookie(name) => {
                let mut all = self.head.get_all("cookie").flat_map(cookies);
                let (_, value) = all.find(|(own, _)| *own == name.as_bytes())?;
                Part::Borrowed(unquoted(value))
            }
            Source::Query(name) => {
                let mut all = parameters(self.head.path());
                let (_, value) = all.find(|(own, _)| form_decoded(own).as_ref() == name.as_bytes())?;
                form_decoded(value).into()
            }
            Source::Constant => Part::Borrowed(b""),
        })
    }
}

/// A value of a request: of its headers, or made of something else.
enum Part<'a> {
    Borrowed(&'a [u8]),
    Own(SmallVec<[u8; 32]>),
}

impl Part<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

impl<'a> From<Cow<'a, [u8]>> for Part<'a> {
    fn from(bytes: Cow<'a, [u8]>) -> Self {
        match bytes {
            Cow::Borrowed(bytes) => Self::Borrowed(bytes),
            Cow::Owned(bytes) => Self::Own(bytes.into()),
        }
    }
}

fn joined<'h>(mut lines: impl Iterator<Item = &'h [u8]>) -> Option<Part<'h>> {
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Some(Part::Borrowed(first)) };
    let mut all = SmallVec::from_slice(first);
    for line in std::iter::once(second).chain(lines) {
        all.push(b',');
        all.extend_from_slice(line);
    }
    Some(Part::Own(all))
}

/// The host of an authority as hosts are compared.
fn host_of(authority: &[u8]) -> Part<'_> {
    let host = without_port(authority);
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.iter().any(u8::is_ascii_uppercase) {
        Part::Own(host.iter().map(u8::to_ascii_lowercase).collect())
    } else {
        Part::Borrowed(host)
    }
}

/// What makes hashes unforeseeable for clients; the same for all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) [u8; 16]);

/// A hash of what tells a bucket from others.
pub(crate) struct KeyHash(DefaultHasher);

impl KeyHash {
    /// Of no values.
    pub(crate) fn new(seed: Seed) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(&seed.0);
        Self(hasher)
    }

    /// Adds a value. Two values are never one other value.
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.0.write_usize(value.len());
        self.0.write(value);
    }

    /// The hash, among those of this limit.
    pub(crate) fn of_limit(mut self, limit: u64) -> u64 {
        self.0.write_u64(limit);
        self.0.finish()
    }
}

/// A hash of a text of the configuration: the same in every worker, and after a reload.
pub(crate) fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}
