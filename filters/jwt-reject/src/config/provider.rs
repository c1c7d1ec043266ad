//! A provider: whose tokens, checked how, found where.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use filter_api::config::{Node, Object, StringMatcher};
use filter_api::{ClaimPath, ClaimText, HeaderName, Property};

use crate::algorithm::Algorithm;
use crate::cache::Cache;
use crate::claims::{ClaimHeader, ClaimProperty, RequiredClaim};
use crate::config::keys::{self, Keys};
use crate::deny::{ALWAYS, Deny};
use crate::locate::{HeaderLocation, Locations, Prefix};
use crate::token::{Padding, numeric_date};
use crate::verify::Policy;

/// A provider of tokens.
#[derive(Debug)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Which tokens are accepted.
    pub policy: Policy,
    /// The keys that they are signed with.
    pub keys: Keys,
    /// Where they are.
    pub locations: Locations,
    /// Whether they stay in the request.
    pub forward: bool,
    /// The header that the payload of a verified token is written to, and whether padded.
    pub payload_header: Option<(HeaderName, bool)>,
    /// The headers that claims of a verified token are written to.
    pub claim_headers: Vec<ClaimHeader>,
    /// The properties of the request that claims of a verified token are written to.
    pub claim_properties: Vec<ClaimProperty>,
    /// What this worker remembers of tokens.
    pub(crate) cache: RefCell<Cache>,
}

impl Provider {
    /// The headers that it writes.
    pub fn written_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let payload = self.payload_header.iter().map(|(name, _)| name);
        payload.chain(self.claim_headers.iter().map(|claim| &claim.header))
    }

    pub(super) fn read(name: &str, node: &Node<'_>) -> Option<Self> {
        let object = node.object()?;
        if name.is_empty() {
            node.error("a provider's name must not be empty");
        }
        let flag = |name| object.get(name).and_then(|node| node.bool()).unwrap_or(false);
        let allow_weak = flag("allow_weak_keys");
        let listed = object.get("algorithms").map(|node| (read_algorithms(&node), node));
        let keys = keys::read(&object, allow_weak, listed.is_some());
        let policy = Policy {
            issuer: object.get("issuer").and_then(|node| node.filled_string()).map(str::to_owned),
            audiences: object
                .get("audiences")
                .map(|node| node.strings().into_iter().map(str::to_owned).collect())
                .unwrap_or_default(),
            subjects: read_subjects(&object),
            required_claims: read_list(&object, "required_claims", read_required_claim),
            deny: object.get("deny").and_then(|node| read_deny(&node)).unwrap_or_default(),
            kinds: object.get("typ").map(|node| read_kinds(&node)).unwrap_or_default(),
            algorithms: match &listed {
                Some((algorithms, _)) => algorithms.clone(),
                None => Algorithm::ALL.to_vec(),
            },
            clock_skew: object
                .get("clock_skew_seconds")
                .and_then(|node| node.integer(0, 86_400))
                .map_or(Policy::default().clock_skew, |seconds| seconds.saturating_mul(1_000_000_000)),
            require_expiration: flag("require_expiration"),
            max_lifetime: object.get("max_lifetime").and_then(|node| node.duration()),
            padding: if flag("allow_padding") { Padding::Tolerated } else { Padding::Refused },
        };
        let locations = read_locations(&object);
        let forward = flag("forward");
        let cache = RefCell::new(read_cache(&object));
        let pad = flag("pad_forward_payload_header");
        let payload_header = object.get("forward_payload_header");
        let payload_header =
            payload_header.and_then(|node| read_written_header(&node)).map(|name| (name, pad));
        let claim_headers = read_list(&object, "claim_to_headers", read_claim_header);
        let claim_properties = read_list(&object, "claim_to_properties", read_claim_property);
        object.finish();
        let keys = keys?;
        if let Keys::Local(keys) = &keys {
            check_algorithms(node, listed, keys);
        }
        if policy.issuer.is_none() && policy.audiences.is_empty() {
            node.warning(
                "neither issuer nor audiences are set: any token that these keys sign is accepted, \
                 whoever it was meant for",
            );
        }
        Some(Self {
            name: name.into(),
            policy,
            keys,
            locations,
            forward,
            payload_header,
            claim_headers,
            claim_properties,
            cache,
        })
    }
}

/// Envoy's `jwt_cache_config`; by default there is a cache.
fn read_cache(object: &Object<'_>) -> Cache {
    let (mut tokens, mut bytes) = (Some(1000), Some(4096));
    if let Some(settings) = object.get("jwt_cache_config").and_then(|node| node.object()) {
        if let Some(node) = settings.get("jwt_cache_size") {
            tokens = node.integer(0, 100_000);
        }
        if let Some(node) = settings.get("jwt_max_token_size") {
            bytes = node.integer(1, 65_536);
        }
        settings.finish();
    }
    let number =
        |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    Cache::new(number(tokens), number(bytes))
}

fn read_algorithms(node: &Node<'_>) -> Vec<Algorithm> {
    let mut algorithms = Vec::new();
    let items = node.one_or_more();
    if items.is_empty() {
        node.error("lists no algorithm; leave it out to allow those that the keys are for");
    }
    for item in items {
        let Some(name) = item.string() else { continue };
        match Algorithm::from_name(name) {
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let known: Vec<&str> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
                item.error(format!("{name:?} is no algorithm known here; there are: {}", known.join(", ")));
            }
        }
    }
    algorithms
}

/// Secrets beside public keys invite a token signed with a public key taken for a secret. The
/// key's type is checked anyway; the configuration must say that the mixture is meant.
fn check_algorithms(node: &Node<'_>, listed: Option<(Vec<Algorithm>, Node<'_>)>, keys: &crate::keys::KeySet) {
    match listed {
        None if keys.mixes_secrets_and_public_keys() => {
            node.error("has secrets and public keys in one set; separate them, or list the algorithms");
        }
        None => {}
        Some((algorithms, listed)) => {
            for algorithm in algorithms {
                if !keys.serves(algorithm) {
                    listed.warning(format!("no key is for {}", algorithm.name()));
                }
            }
        }
    }
}

fn read_subjects(object: &Object<'_>) -> Vec<StringMatcher> {
    let Some(node) = object.get("subjects") else { return Vec::new() };
    let items = node.one_or_more();
    if items.is_empty() {
        node.error("must not be an empty list, which no subject could match; leave it out instead");
    }
    items.iter().filter_map(StringMatcher::read).collect()
}

fn read_list<T>(object: &Object<'_>, name: &'static str, read: impl Fn(&Node<'_>) -> Option<T>) -> Vec<T> {
    let items = object.get(name).and_then(|node| node.array()).unwrap_or_default();
    items.iter().filter_map(read).collect()
}

/// `{claim, any_of, all_of}`.
fn read_required_claim(node: &Node<'_>) -> Option<RequiredClaim> {
    let object = node.object()?;
    let claim = object.required("claim").and_then(|node| node.filled_string());
    let any_of = object.get("any_of").map(|node| (node.one_or_more(), node));
    let all_of = object.get("all_of").map(|node| (node.strings(), node));
    object.finish();
    for (empty, node) in [
        any_of.as_ref().map(|(list, node)| (list.is_empty(), node)),
        all_of.as_ref().map(|(list, node)| (list.is_empty(), node)),
    ]
    .into_iter()
    .flatten()
    {
        if empty {
            node.error("must not be an empty list; leave it out to ask only that the claim is there");
        }
    }
    let any_of = any_of.map(|(list, _)| list).unwrap_or_default();
    let all_of = all_of.map(|(list, _)| list).unwrap_or_default();
    Some(RequiredClaim {
        path: ClaimPath::new(claim?),
        any_of: any_of.iter().filter_map(StringMatcher::read).collect(),
        all_of: all_of.into_iter().map(str::to_owned).collect(),
    })
}

fn read_deny(node: &Node<'_>) -> Option<Deny> {
    let object = node.object()?;
    let always = |name, list: &mut BTreeMap<String, u64>| {
        for name in object.get(name).map(|node| node.strings()).unwrap_or_default() {
            list.insert(name.to_owned(), ALWAYS);
        }
    };
    let mut deny = Deny::default();
    for entry in object.get("issued_before").and_then(|node| node.array()).unwrap_or_default() {
        let Some(entry) = entry.object() else { continue };
        let whose = entry.one_of(&["iss", "sub"]);
        let moment = entry.required("time").and_then(|node| {
            let moment = numeric_date(node.value());
            if moment.is_none() {
                node.error("must be a number of seconds since 1970");
            }
            moment
        });
        entry.finish();
        let (Some((kind, name)), Some(moment)) = (whose, moment) else { continue };
        let Some(name) = name.filled_string() else { continue };
        let list = if kind == "iss" { &mut deny.issuers } else { &mut deny.subjects };
        list.insert(name.to_owned(), moment);
    }
    // What is revoked altogether is so whatever else is said of it.
    always("jti", &mut deny.ids);
    always("sub", &mut deny.subjects);
    always("iss", &mut deny.issuers);
    object.finish();
    Some(deny)
}

fn read_kinds(node: &Node<'_>) -> Vec<String> {
    let kinds = node.strings();
    if kinds.is_empty() {
        node.error("must not be an empty list, which no typ could match; leave it out instead");
    }
    kinds.into_iter().map(|kind| kind.strip_prefix("application/").unwrap_or(kind).to_owned()).collect()
}

/// `{header_name, claim_name, array}`.
fn read_claim_header(node: &Node<'_>) -> Option<ClaimHeader> {
    let object = node.object()?;
    let header = object.required("header_name").and_then(|node| read_written_header(&node));
    let claim = object.required("claim_name").and_then(|node| node.filled_string());
    let arrays_as_json = read_arrays(&object);
    object.finish();
    Some(ClaimHeader { header: header?, claim: ClaimText { path: ClaimPath::new(claim?), arrays_as_json } })
}

/// How arrays are written: true for JSON.
fn read_arrays(object: &Object<'_>) -> bool {
    let choice = object.get("array").and_then(|node| {
        let word = node.string()?;
        if !matches!(word, "joined" | "json") {
            node.error(format!("{word:?} must be joined or json"));
        }
        Some(word == "json")
    });
    choice.unwrap_or(false)
}

/// The name of a claim, or `{claim_name, property_name, array}`.
fn read_claim_property(node: &Node<'_>) -> Option<ClaimProperty> {
    let (claim, property, arrays_as_json) = if node.value().is_string() {
        (node.filled_string()?, None, false)
    } else {
        let object = node.object()?;
        let claim = object.required("claim_name").and_then(|node| node.filled_string());
        let property = object.get("property_name");
        let arrays_as_json = read_arrays(&object);
        object.finish();
        (claim?, property, arrays_as_json)
    };
    let place = property.as_ref().unwrap_or(node);
    let name = match &property {
        Some(property) => property.filled_string()?,
        None => claim,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !name.bytes().all(plain) {
        // Envoy's %FILTER_STATE(NAME:FORMAT)% could not name it.
        place.error(format!(
            "{name:?} cannot name a property; give a property_name of letters, digits, \".\", \"_\" and \"-\""
        ));
        return None;
    }
    let claim = ClaimText { path: ClaimPath::new(claim), arrays_as_json };
    Some(ClaimProperty { name: format!("{}{name}", Property::CLAIM).into(), claim })
}

/// A header that the filter writes: none that makes the request another one.
fn read_written_header(node: &Node<'_>) -> Option<HeaderName> {
    let name = node.header_name()?;
    let forbidden = [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "upgrade",
        "trailer",
        "keep-alive",
        "cookie",
        "authorization",
    ];
    if name.as_str().starts_with(':') || forbidden.contains(&name.as_str()) {
        node.error(format!(
            "{:?} has a meaning of its own; choose another name, such as x-jwt-sub",
            name.as_str()
        ));
        return None;
    }
    Some(name)
}

fn read_locations(object: &Object<'_>) -> Locations {
    let headers = object.get("from_headers");
    let params = object.get("from_params");
    let cookies = object.get("from_cookies");
    if headers.is_none() && params.is_none() && cookies.is_none() {
        return Locations::standard();
    }
    let names = |node: Option<Node<'_>>| -> Vec<String> {
        let items = node.map(|node| node.one_or_more()).unwrap_or_default();
        items.iter().filter_map(|item| item.filled_string().map(str::to_owned)).collect()
    };
    let locations = Locations {
        headers: headers
            .map(|node| node.one_or_more().iter().filter_map(read_header_location).collect())
            .unwrap_or_default(),
        params: names(params),
        cookies: names(cookies),
    };
    if locations.headers.is_empty() && locations.params.is_empty() && locations.cookies.is_empty() {
        object.node().error("from_headers, from_params and from_cookies name no place to find a token in");
    }
    locations
}

fn read_header_location(node: &Node<'_>) -> Option<HeaderLocation> {
    let object = node.object()?;
    let name = object.required("name");
    let prefix = object.get("value_prefix");
    object.finish();
    let name_node = name?;
    let text = name_node.filled_string()?;
    if text.starts_with(':') || text.eq_ignore_ascii_case("cookie") {
        name_node.error(format!("{text:?} holds no token as a whole; use from_params or from_cookies"));
        return None;
    }
    let name = name_node.header_name()?;
    let text = match &prefix {
        Some(prefix) => prefix.string()?,
        None => "",
    };
    let mut read = Prefix::from_value_prefix(text);
    if let (Some(prefix), Prefix::Bytes(bytes)) = (&prefix, &read)
        && bytes.eq_ignore_ascii_case("bearer")
    {
        prefix.warning(format!("{bytes:?} is read as the scheme \"Bearer \"; write it with its space"));
        read = Prefix::Scheme("bearer".to_owned());
    }
    Some(HeaderLocation { name, prefix: read })
}
