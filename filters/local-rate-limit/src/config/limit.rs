//! A limit: which requests it is for, which of its buckets each is charged to, and how much.

use std::net::IpAddr;

use filter_api::config::{Node, Object};
use filter_api::matcher::RequestMatcher;
use filter_api::{ClaimPath, ClaimText, HeaderName, Property, Text};
use ipnet::IpNet;
use serde_json::Value;

use super::{bucket, details};
use crate::bucket::{Bucket, SECOND};
use crate::cell::Table;
use crate::client::{Mask, Origin};
use crate::keys::{Entry, Source, hash_of};

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
            let origin = read_origin(&object);
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
        let entries = given.as_ref().map_or(Some(Vec::new()), |node| read_entries(node, usual));
        let name = object.get("name").map(|node| read_name(&node));
        let usual = usual.refined(&object);
        object.finish();
        let (entries, specials) = split(node, entries?);
        if given.is_none() && matcher.is_none() {
            node.error("is for every request, as the default bucket is; give `entries` or `match`");
        }
        let name = name.unwrap_or_else(|| Some(name_of(&entries)))?;
        let matcher = matcher.map_or(Some(None), |matcher| Some(Some(matcher?)))?;
        let draft = Draft { name, matcher, entries, specials };
        Some(draft.finish(bucket?, &usual, node))
    }
}

/// Values, and the bucket of another shape that they have.
type Override = (Vec<Vec<u8>>, Bucket);

/// The overrides, of which but one entry may have any.
fn split(node: &Node<'_>, entries: Vec<(Entry, Vec<Override>)>) -> (Vec<Entry>, Vec<Override>) {
    if entries.iter().filter(|(_, overrides)| !overrides.is_empty()).count() > 1 {
        node.error("has several entries with `overrides`; one may have them");
    }
    let (entries, overrides): (Vec<Entry>, Vec<Vec<Override>>) = entries.into_iter().unzip();
    (entries, overrides.into_iter().flatten().collect())
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

impl Source {
    fn name(&self) -> String {
        match self {
            Self::Header(name) => format!("header-{}", name.as_str()),
            Self::Path => "path".to_owned(),
            Self::Method => "method".to_owned(),
            Self::Host => "host".to_owned(),
            Self::ClientAddress(..) => "client_address".to_owned(),
            Self::JwtClaim { property, .. } => {
                format!("jwt_claim-{}", property.strip_prefix(Property::CLAIM).unwrap_or(property))
            }
            Self::Cookie(name) => format!("cookie-{name}"),
            Self::Query(name) => format!("query-{name}"),
            Self::Constant => "constant".to_owned(),
        }
    }
}

fn read_entries(node: &Node<'_>, usual: &Usual) -> Option<Vec<(Entry, Vec<Override>)>> {
    let items = node.array()?;
    if items.is_empty() {
        node.error("must not be empty; leave it out for one bucket for all that `match` is for");
    }
    let entries: Vec<Option<_>> = items.iter().map(|item| read_entry(item, usual)).collect();
    entries.into_iter().collect()
}

/// The sources that need no more than their name.
const PLAIN: [&str; 4] = ["path", "method", "host", "client_address"];
/// All sources.
const SOURCES: [&str; 9] =
    ["header", "path", "method", "host", "client_address", "jwt_claim", "cookie", "query", "constant"];

fn read_entry(node: &Node<'_>, usual: &Usual) -> Option<(Entry, Vec<Override>)> {
    if let Value::String(name) = node.value() {
        if !PLAIN.contains(&name.as_str()) {
            node.error(format!(
                "{name:?} must be {}, or an object such as {{header: x-api-key}}",
                PLAIN.join(", ")
            ));
            return None;
        }
        let source = match name.as_str() {
            "path" => Source::Path,
            "method" => Source::Method,
            "host" => Source::Host,
            _ => Source::ClientAddress(usual.origin.clone(), Mask::default()),
        };
        let entry = Entry { source, values: Vec::new(), default: None, has_overrides: false };
        return Some((entry, Vec::new()));
    }
    let object = node.object()?;
    let source = object.one_of(&SOURCES);
    let values = object.get("value").map(|node| {
        let values = node.strings();
        if values.is_empty() {
            node.error("must not be an empty list, which nothing could match; leave it out instead");
        }
        values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>()
    });
    let default = object.get("default_value");
    let default = default.map(|node| node.string().map(|text| text.as_bytes().to_vec()));
    let overrides = object.get("overrides").map(|node| read_overrides(&node));
    object.finish();
    let (name, value) = source?;
    let source = read_source(name, &value, usual)?;
    let refined = values.is_some() || default.is_some() || overrides.is_some();
    match source {
        Source::ClientAddress(..) if refined => {
            node.error("a client's address has no values to name; use `exempt.cidrs` or `match`");
            return None;
        }
        Source::Constant if refined => {
            node.error("a constant is always there, and always the same");
            return None;
        }
        _ => {}
    }
    let default = default.map_or(Some(None), |default| Some(Some(default?)))?;
    let overrides = overrides.unwrap_or(Some(Vec::new()))?;
    let values = values.unwrap_or_default();
    let stray =
        overrides.iter().flat_map(|(own, _)| own).find(|own| !values.is_empty() && !values.contains(own));
    if let Some(stray) = stray {
        let stray = String::from_utf8_lossy(stray);
        node.error(format!("{stray:?} of `overrides` is none of `value`, so the limit is not for it"));
    }
    Some((Entry { source, values, default, has_overrides: !overrides.is_empty() }, overrides))
}

fn read_source(name: &str, node: &Node<'_>, usual: &Usual) -> Option<Source> {
    let text = || node.filled_string().map(str::to_owned);
    match name {
        "header" => Some(Source::Header(node.header_name()?)),
        "jwt_claim" => {
            let claim = text()?;
            let property = format!("{}{claim}", Property::CLAIM);
            let claim = ClaimText { path: ClaimPath::new(&claim), arrays_as_json: false };
            Some(Source::JwtClaim { claim, property })
        }
        "cookie" => Some(Source::Cookie(text()?)),
        "query" => Some(Source::Query(text()?)),
        "constant" => text().map(|_| Source::Constant),
        _ => {
            let object = node.object()?;
            let source = match name {
                "path" => Some(Source::Path),
                "method" => Some(Source::Method),
                "host" => Some(Source::Host),
                _ => {
                    let mask = object.get("mask").map_or(Some(Mask::default()), |node| read_mask(&node));
                    let origin = read_origin(&object).unwrap_or_else(|| usual.origin.clone());
                    mask.map(|mask| Source::ClientAddress(origin, mask))
                }
            };
            object.finish();
            source
        }
    }
}

fn read_mask(node: &Node<'_>) -> Option<Mask> {
    let object = node.object()?;
    let usual = Mask::default();
    let bits = |name, most, usual| match object.get(name) {
        Some(node) => node.integer(0, most).and_then(|bits| u8::try_from(bits).ok()),
        None => Some(usual),
    };
    let (v4, v6) = (bits("v4", 32, usual.v4), bits("v6", 128, usual.v6));
    object.finish();
    Some(Mask { v4: v4?, v6: v6? })
}

/// Where addresses are taken from, if the object says so.
fn read_origin(object: &Object<'_>) -> Option<Origin> {
    let hops = object.get("trusted_hops");
    let proxies = object.get("trusted_proxies");
    match (hops, proxies) {
        (Some(_), Some(_)) => {
            object.node().error("`trusted_hops` and `trusted_proxies` are given; give one of them");
            None
        }
        (Some(hops), None) => {
            let hops = hops.integer(0, 100)?;
            Some(Origin::Hops(usize::try_from(hops).ok()?))
        }
        (None, Some(proxies)) => {
            let networks = read_networks(&proxies)?;
            if networks.is_empty() {
                proxies.error("must not be empty; name the networks of your proxies, such as \"10.0.0.0/8\"");
            }
            Some(Origin::Proxies(networks))
        }
        (None, None) => None,
    }
}

/// Networks: `10.0.0.0/8`, `2001:db8::/32`, single addresses; or Envoy's `{address_prefix, prefix_len}`.
pub(super) fn read_networks(node: &Node<'_>) -> Option<Vec<IpNet>> {
    let networks: Vec<Option<IpNet>> = node.one_or_more().iter().map(read_network).collect();
    networks.into_iter().collect()
}

fn read_network(node: &Node<'_>) -> Option<IpNet> {
    let text = match node.value() {
        Value::Object(_) => {
            let object = node.object()?;
            let address = object.required("address_prefix").and_then(|node| node.filled_string());
            let length = object.required("prefix_len").and_then(|node| node.integer(0, 128));
            object.finish();
            format!("{}/{}", address?, length?)
        }
        _ => node.filled_string()?.to_owned(),
    };
    let network = match text.parse::<IpNet>() {
        Ok(network) => Some(network),
        Err(_) => text.parse::<IpAddr>().ok().map(IpNet::from),
    };
    match network {
        Some(network) if network.trunc() == network => Some(network),
        Some(network) => {
            node.error(format!("{text:?} has bits behind its prefix; write \"{}\"", network.trunc()));
            None
        }
        None => {
            node.error(format!(
                "{text:?} is not a network; write \"10.0.0.0/8\", \"2001:db8::/32\" or an address"
            ));
            None
        }
    }
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

/// Buckets of another shape for certain values.
fn read_overrides(node: &Node<'_>) -> Option<Vec<Override>> {
    let mut overrides: Vec<Override> = Vec::new();
    for item in node.array()? {
        let object = item.object()?;
        let bucket = bucket::read(&object);
        let values = object.required("value").map(|node| node.strings());
        object.finish();
        let (Some(bucket), Some(values)) = (bucket, values) else { continue };
        let values: Vec<Vec<u8>> = values.into_iter().map(|value| value.as_bytes().to_vec()).collect();
        let known = overrides.iter().flat_map(|(values, _)| values).find(|own| values.contains(own));
        if let Some(known) = known {
            item.error(format!("{:?} has a bucket already", String::from_utf8_lossy(known)));
        }
        overrides.push((values, bucket));
    }
    Some(overrides)
}
