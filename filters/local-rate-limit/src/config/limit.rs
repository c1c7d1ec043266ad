//! A limit: which requests it is for, which of its buckets each is charged to, and how much.

use filter_api::config::{Node, Object};
use filter_api::matcher::RequestMatcher;
use filter_api::{HeaderName, HeaderValue, Property, Text};

use super::entry::{self, Override};
use super::{bucket, details};
use crate::bucket::{Bucket, SECOND};
use crate::cell::Table;
use crate::client::Origin;
use crate::keys::{Entry, hash_of};

/// The property that names the limit which a request is over that passes all the same.
const REFUSED: &str = "foregate.local_rate_limit.refused";

/// The most bytes of a limit's name, which stands in metrics and headers.
const MAX_NAME: usize = 64;
/// The most buckets that values in the configuration give a limit.
const MAX_FIXED: usize = 10_000;

/// A limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: Text,
    /// The response-code details of a refusal.
    pub(crate) details: Text,
    /// What names it to whoever looks at a request that is over it and passes all the same.
    pub(crate) property: Option<Property>,
    /// Which requests it is for; none: all that have its entries.
    pub(crate) matcher: Option<RequestMatcher>,
    /// What tells its buckets apart; none: it has one.
    pub(crate) entries: Vec<Entry>,
    /// The shape of its buckets.
    pub(crate) bucket: Bucket,
    /// Buckets of another shape, for certain values.
    pub(crate) specials: Vec<Special>,
    /// Whether the configuration says how many of these there are: no other entry is open to any value.
    pub(crate) specials_are_fixed: bool,
    pub(crate) scope: Scope,
    pub(crate) cost: Cost,
    /// Tokens that a worker takes at a time; 0: as many as a request needs.
    pub(crate) lease: u32,
    /// What tells it from other limits, and from itself in another shape.
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    /// `"name";q=100;w=60`.
    pub(crate) policy: String,
}

/// A bucket for certain values of the entry that has any.
#[derive(Debug)]
pub(crate) struct Special {
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) bucket: Bucket,
    pub(crate) id: u64,
    pub(crate) policy: String,
}

/// How many buckets a limit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One.
    Single,
    /// As many as the configuration names.
    Fixed,
    /// One for each key that comes, as far as there is room.
    Keyed(Table),
}

/// Who shares a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All workers.
    Process,
    /// Nobody: each worker has its own.
    Worker,
    /// Nobody: each connection has its own.
    Connection,
}

/// How many tokens a request takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cost {
    /// So many.
    Fixed(u32),
    /// As many as the header says.
    Header {
        name: HeaderName,
        /// Where it says nothing that is a number.
        default: u32,
        least: u32,
        most: u32,
    },
}

/// What holds for every limit that does not say otherwise.
#[derive(Debug)]
pub(crate) struct Usual {
    pub(crate) origin: Origin,
    scope: Scope,
    cost: Cost,
    lease: u32,
    /// Whether the lease was said of the very object that was read last.
    lease_is_own: bool,
    keys: u32,
}

impl Usual {
    /// Reads what the root says.
    pub(super) fn read(root: &Object<'_>) -> Self {
        let built_in = Self {
            origin: Origin::Connection,
            scope: Scope::Process,
            cost: Cost::Fixed(1),
            lease: 0,
            lease_is_own: false,
            keys: 10_000,
        };
        let per_connection =
            root.get("local_rate_limit_per_downstream_connection").and_then(|node| node.bool());
        let built_in = match per_connection {
            Some(true) => Self { scope: Scope::Connection, ..built_in },
            _ => built_in,
        };
        let origin = root.get("client_address").and_then(|node| {
            let object = node.object()?;
            let origin = entry::read_origin(&object);
            object.finish();
            origin
        });
        Self { origin: origin.unwrap_or_default(), ..built_in.refined(root) }
    }

    /// With what this object says.
    fn refined(&self, object: &Object<'_>) -> Self {
        let integer = |name, least: u64, most: u64, usual: u32| match object.get(name) {
            Some(node) => node.integer(least, most).and_then(|n| u32::try_from(n).ok()).unwrap_or(usual),
            None => usual,
        };
        Self {
            origin: self.origin.clone(),
            scope: object.get("scope").and_then(|node| read_scope(&node)).unwrap_or(self.scope),
            cost: object.get("cost").and_then(|node| read_cost(&node)).unwrap_or_else(|| self.cost.clone()),
            lease: integer("lease", 0, 1_000_000, self.lease),
            lease_is_own: object.get("lease").is_some(),
            keys: integer("max_dynamic_descriptors", 1, 1_000_000, self.keys),
        }
    }
}

impl Limit {
    /// The bucket of another shape that a value of this entry has, and its number, if it has one.
    pub(crate) fn special_for(&self, entry: &Entry, value: &[u8]) -> Option<(usize, &Special)> {
        if !entry.has_overrides {
            return None;
        }
        let is_for = |special: &Special| special.values.iter().any(|own| own == value);
        self.specials.iter().enumerate().find(|(_, special)| is_for(special))
    }

    /// The limit for every request, if the root has a bucket.
    pub(super) fn read_default(name: &str, root: &Object<'_>, usual: &Usual) -> Option<Self> {
        let bucket = if bucket::is_given(root) { bucket::read(root) } else { None };
        let draft = Draft { name: name.to_owned(), matcher: None, entries: Vec::new(), specials: Vec::new() };
        Some(draft.finish(bucket?, usual, root.node()))
    }

    /// Reads an item of `descriptors`.
    pub(super) fn read(node: &Node<'_>, usual: &Usual) -> Option<Self> {
        let object = node.object()?;
        let bucket = bucket::read(&object);
        let matcher = object.get("match").map(|node| RequestMatcher::read(&node));
        let given = object.get("entries");
        let entries =
            given.as_ref().map_or(Some((Vec::new(), Vec::new())), |it| entry::read(it, &usual.origin));
        let name = object.get("name").map(|node| read_name(&node));
        let usual = usual.refined(&object);
        object.finish();
        let (entries, specials) = entries?;
        if given.is_none() && matcher.is_none() {
            node.error("is for every request, as the default bucket is; give `entries` or `match`");
        }
        let name = name.unwrap_or_else(|| Some(name_of(&entries)))?;
        let matcher = matcher.map_or(Some(None), |matcher| Some(Some(matcher?)))?;
        let draft = Draft { name, matcher, entries, specials };
        Some(draft.finish(bucket?, &usual, node))
    }
}

/// A limit before it is known to be one.
struct Draft {
    name: String,
    matcher: Option<RequestMatcher>,
    entries: Vec<Entry>,
    specials: Vec<Override>,
}

impl Draft {
    fn finish(self, bucket: Bucket, usual: &Usual, node: &Node<'_>) -> Limit {
        let Self { name, matcher, entries, specials } = self;
        let buckets = entries.iter().map(|entry| entry.values.len().max(1)).fold(1, usize::saturating_mul);
        let all_fixed = entries.iter().all(Entry::is_fixed);
        let kind = match usual.scope {
            // Connections come and go: there is no number of them.
            Scope::Connection => Kind::Keyed(Table::of(usual.keys)),
            _ if !all_fixed => Kind::Keyed(Table::of(usual.keys)),
            _ if buckets == 1 => Kind::Single,
            _ => Kind::Fixed,
        };
        let overridden: usize = specials.iter().map(|(values, _)| values.len()).sum();
        let named = buckets.max(overridden);
        if named > MAX_FIXED {
            node.error(format!("has {named} buckets for certain values; the most is {MAX_FIXED}"));
        }
        if let Cost::Fixed(cost) = usual.cost
            && cost > bucket.max_tokens()
            && bucket.max_tokens() > 0
        {
            node.warning(format!(
                "a request costs {cost} tokens, more than the bucket can hold ({}); it will cost that many",
                bucket.max_tokens()
            ));
        }
        let lease = match usual.scope {
            // What was meant for larger buckets is not for this one.
            Scope::Process if usual.lease_is_own || usual.lease <= bucket.max_tokens() => usual.lease,
            _ => 0,
        };
        if lease > bucket.max_tokens() {
            node.error(format!(
                "a lease of {lease} is more than the bucket can hold ({}), and each worker may keep that many from the \
                 others; give this limit a smaller `lease`, or 0",
                bucket.max_tokens()
            ));
        }
        // What is written here decides whether a reload keeps a bucket: what it is, not whom it is for.
        let shape = format!("{name} {entries:?} {:?} {kind:?}", usual.scope);
        let id = |bucket: &Bucket, special: &str| hash_of(&format!("{shape} {bucket:?} {special}"));
        let specials = specials.into_iter().map(|(values, bucket)| Special {
            id: id(&bucket, "special"),
            policy: policy(&name, &bucket),
            values,
            bucket,
        });
        let others_are_fixed = entries.iter().all(|entry| entry.has_overrides || entry.is_fixed());
        Limit {
            specials_are_fixed: others_are_fixed && usual.scope != Scope::Connection,
            details: details(&name),
            // A name has no control characters, so there always is one.
            property: HeaderValue::new(&name).ok().map(|value| Property { name: REFUSED.into(), value }),
            specials: specials.collect(),
            id: id(&bucket, ""),
            policy: policy(&name, &bucket),
            name: name.into(),
            matcher,
            entries,
            bucket,
            scope: usual.scope,
            cost: usual.cost.clone(),
            lease,
            kind,
        }
    }
}

impl Limit {
    /// Gives it other buckets than the same limit of another instance has, which is told by this number.
    pub(crate) fn tell_apart(&mut self, instance: u64) {
        self.id ^= instance;
        self.specials.iter_mut().for_each(|special| special.id ^= instance);
    }
}

/// A policy of the header `ratelimit-policy`: how many tokens, in how many seconds.
fn policy(name: &str, bucket: &Bucket) -> String {
    format!("\"{name}\";q={};w={}", bucket.max_tokens(), bucket.fill_time().div_ceil(SECOND).max(1))
}

fn read_name(node: &Node<'_>) -> Option<String> {
    let name = node.filled_string()?;
    if name.len() > MAX_NAME || !name.bytes().all(is_name_byte) {
        node.error(format!(
            "{name:?} must be up to {MAX_NAME} letters, digits, - and _: metrics have it in their names"
        ));
        return None;
    }
    Some(name.to_owned())
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// A name for a limit that was given none: what tells its buckets apart.
fn name_of(entries: &[Entry]) -> String {
    let names: Vec<String> = entries.iter().map(|entry| entry.source.name()).collect();
    let name = if names.is_empty() { "match".to_owned() } else { names.join("_") };
    let byte = |byte: u8| if is_name_byte(byte) { char::from(byte) } else { '-' };
    name.bytes().take(MAX_NAME).map(byte).collect()
}

fn read_scope(node: &Node<'_>) -> Option<Scope> {
    match node.string()? {
        "process" => Some(Scope::Process),
        "worker" => Some(Scope::Worker),
        "connection" => Some(Scope::Connection),
        other => {
            node.error(format!("{other:?} must be process, worker or connection"));
            None
        }
    }
}

fn read_cost(node: &Node<'_>) -> Option<Cost> {
    let tokens = |node: &Node<'_>, least| {
        node.integer(least, u32::MAX.into()).and_then(|tokens| u32::try_from(tokens).ok())
    };
    if !node.value().is_object() {
        return tokens(node, 0).map(Cost::Fixed);
    }
    let object = node.object()?;
    let name = object.required("header").and_then(|node| node.header_name());
    let or = |name, usual| object.get(name).map_or(Some(usual), |node| tokens(&node, 0));
    let (least, most) = (or("min", 1), or("max", 1000));
    let default = or("default", 1);
    object.finish();
    let (least, most) = (least?, most?);
    if least > most {
        node.error(format!("`min` is {least} and `max` {most}"));
    }
    Some(Cost::Header { name: name?, default: default?, least, most })
}
