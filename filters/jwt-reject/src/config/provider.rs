//! A provider: whose tokens, checked how, found where.

use std::sync::Arc;

use filter_api::HeaderName;
use filter_api::config::{Node, Object, StringMatcher};

use crate::algorithm::Algorithm;
use crate::keys::KeySet;
use crate::locate::{HeaderLocation, Locations, Prefix};
use crate::token::Padding;
use crate::verify::Policy;

/// A provider of tokens.
#[derive(Debug)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Which tokens are accepted.
    pub policy: Policy,
    /// The keys that they are signed with.
    pub keys: KeySet,
    /// Where they are.
    pub locations: Locations,
    /// Whether they stay in the request.
    pub forward: bool,
}

impl Provider {
    pub(super) fn read(name: &str, node: &Node<'_>) -> Option<Self> {
        let object = node.object()?;
        if name.is_empty() {
            node.error("a provider's name must not be empty");
        }
        let flag = |name| object.get(name).and_then(|node| node.bool()).unwrap_or(false);
        let allow_weak = flag("allow_weak_keys");
        let keys = object.required("local_jwks").and_then(|node| read_local_jwks(&node, allow_weak));
        let listed = object.get("algorithms").map(|node| (read_algorithms(&node), node));
        let policy = Policy {
            issuer: object.get("issuer").and_then(|node| node.filled_string()).map(str::to_owned),
            audiences: object
                .get("audiences")
                .map(|node| node.strings().into_iter().map(str::to_owned).collect())
                .unwrap_or_default(),
            subjects: read_subjects(&object),
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
        object.finish();
        let keys = keys?;
        check_algorithms(node, listed, &keys);
        if policy.issuer.is_none() && policy.audiences.is_empty() {
            node.warning(
                "neither issuer nor audiences are set: any token that these keys sign is accepted, \
                 whoever it was meant for",
            );
        }
        Some(Self { name: name.into(), policy, keys, locations, forward })
    }
}

fn read_local_jwks(node: &Node<'_>, allow_weak: bool) -> Option<KeySet> {
    let object = node.object()?;
    if let Some(filename) = object.get("filename") {
        filename.error("a module cannot read files; paste the file's text as inline_string");
    }
    let inline = object.required("inline_string");
    object.finish();
    let inline = inline?;
    match KeySet::parse(inline.string()?, allow_weak) {
        Ok((keys, skipped)) => {
            for key in &skipped {
                inline.warning(format!("{key}; the key is passed over"));
            }
            Some(keys)
        }
        Err(errors) => {
            for error in &errors {
                inline.error(error.to_string());
            }
            None
        }
    }
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
fn check_algorithms(node: &Node<'_>, listed: Option<(Vec<Algorithm>, Node<'_>)>, keys: &KeySet) {
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
    let name = match HeaderName::new(text) {
        Ok(name) => name,
        Err(error) => {
            name_node.error(error.to_string());
            return None;
        }
    };
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
