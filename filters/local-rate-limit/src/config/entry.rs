//! What tells the buckets of a limit apart: its entries, with the values that they are for.

use std::net::IpAddr;

use filter_api::config::{Node, Object};
use filter_api::{ClaimPath, ClaimText, Property};
use ipnet::IpNet;
use serde_json::Value;

use super::bucket;
use crate::bucket::Bucket;
use crate::client::{Mask, Origin};
use crate::keys::{Entry, Source};

/// Values, and the bucket of another shape that they have.
pub(super) type Override = (Vec<Vec<u8>>, Bucket);

/// Reads `entries`, with the overrides of which but one of them may have any.
pub(super) fn read(node: &Node<'_>, usual: &Origin) -> Option<(Vec<Entry>, Vec<Override>)> {
    let items = node.array()?;
    if items.is_empty() {
        node.error("must not be empty; leave it out for one bucket for all that `match` is for");
    }
    let read: Vec<Option<_>> = items.iter().map(|item| read_entry(item, usual)).collect();
    let read = read.into_iter().collect::<Option<Vec<_>>>()?;
    if read.iter().filter(|(entry, _)| entry.has_overrides).count() > 1 {
        node.error("has several entries with `overrides`; one may have them");
    }
    let (entries, overrides): (Vec<Entry>, Vec<Vec<Override>>) = read.into_iter().unzip();
    Some((entries, overrides.into_iter().flatten().collect()))
}

/// The sources that need no more than their name.
const PLAIN: [&str; 4] = ["path", "method", "host", "client_address"];
/// All sources.
const SOURCES: [&str; 9] =
    ["header", "path", "method", "host", "client_address", "jwt_claim", "cookie", "query", "constant"];

fn read_entry(node: &Node<'_>, usual: &Origin) -> Option<(Entry, Vec<Override>)> {
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
            _ => Source::ClientAddress(usual.clone(), Mask::default()),
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

fn read_source(name: &str, node: &Node<'_>, usual: &Origin) -> Option<Source> {
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
                    let origin = read_origin(&object).unwrap_or_else(|| usual.clone());
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

/// Where addresses are taken from, if the object says so.
pub(super) fn read_origin(object: &Object<'_>) -> Option<Origin> {
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

impl Source {
    /// What a limit is called after that has none but this entry.
    pub(super) fn name(&self) -> String {
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
