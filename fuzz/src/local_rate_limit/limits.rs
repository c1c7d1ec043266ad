//! What a configuration says of its limits, read once more: just the fields that the laws need, from
//! configurations that are known to be good.

use filter_api::Head;
use serde_json::Value;

use super::world::Request;

/// Nanoseconds in a second.
pub(crate) const SECOND: u128 = 1_000_000_000;

/// A limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: String,
    /// The shape of its buckets, and of those of certain values.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) scope: Scope,
    /// Whether all that share its scope share a bucket.
    pub(crate) is_one: bool,
    pub(crate) leases: bool,
    /// The most buckets that the cells hold of it.
    pub(crate) most_kept: usize,
    /// Whether it is for every request whose peer is known, and whether it is for those without one too.
    pub(crate) for_known_peers: bool,
    pub(crate) for_all: bool,
    cost: Value,
}

/// A bucket's shape.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) max_tokens: u128,
    pub(crate) tokens_per_fill: u128,
    pub(crate) fill_nanos: u128,
}

/// Who shares a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Process,
    Worker,
    Connection,
}

impl Limit {
    /// All limits of a configuration, the default one first.
    pub(crate) fn all(config: &Value) -> Vec<Self> {
        let default = Shape::read(config).map(|shape| Self::read("default", config, config, shape));
        let items = config["descriptors"].as_array().into_iter().flatten();
        let others = items
            .map(|item| Self::read(item["name"].as_str().unwrap(), item, config, Shape::read(item).unwrap()));
        default.into_iter().chain(others).collect()
    }

    fn read(name: &str, item: &Value, config: &Value, shape: Shape) -> Self {
        let setting = |name: &str| if item[name].is_null() { &config[name] } else { &item[name] };
        let scope = match setting("scope").as_str() {
            Some("worker") => Scope::Worker,
            Some("connection") => Scope::Connection,
            None if config["local_rate_limit_per_downstream_connection"] == true => Scope::Connection,
            _ => Scope::Process,
        };
        let none = Vec::new();
        let entries = item["entries"].as_array().unwrap_or(&none);
        let overriding = |entry: &Value| !entry["overrides"].is_null();
        let overrides: Vec<&Value> =
            entries.iter().filter_map(|entry| entry["overrides"].as_array()).flatten().collect();
        let values: usize = entries.iter().map(|entry| listed(&entry["value"]).max(1)).product();
        let is_given = |entry: &Value| !entry["constant"].is_null() || listed(&entry["value"]) > 0;
        let is_fixed = entries.iter().all(is_given);
        let of_address = |entry: &Value| entry == "client_address" || !entry["client_address"].is_null();
        let specials: usize = overrides.iter().map(|item| listed(&item["value"])).sum();
        let keys = setting("max_dynamic_descriptors").as_u64().unwrap_or(10_000) as usize;
        let table = if keys <= 32 { keys } else { keys.div_ceil(16) * 40 };
        let most_kept = match () {
            () if scope != Scope::Process => 0,
            () if is_fixed => values,
            // Those of certain values are counted, or have the same room as all others.
            () if entries.iter().any(|entry| !overriding(entry) && !is_given(entry)) => table,
            () => table + specials * values,
        };
        let is_there = |entry: &Value| {
            let given =
                ["path", "method", "host"].iter().any(|name| entry == name || !entry[*name].is_null());
            let defaulted = !entry["default_value"].is_null();
            listed(&entry["value"]) == 0 && (given || defaulted || !entry["constant"].is_null())
        };
        let is_open = item["match"].is_null();
        Self {
            name: name.to_owned(),
            shapes: std::iter::once(shape).chain(overrides.into_iter().filter_map(Shape::read)).collect(),
            scope,
            is_one: is_fixed && values == 1,
            leases: setting("lease").as_u64().is_some_and(|lease| lease > 0) && scope == Scope::Process,
            most_kept,
            for_known_peers: is_open && entries.iter().all(|entry| is_there(entry) || of_address(entry)),
            for_all: is_open && entries.iter().all(is_there),
            cost: setting("cost").clone(),
        }
    }

    /// How many tokens a request costs, of a bucket of this shape.
    pub(crate) fn cost(&self, request: &Request, shape: &Shape) -> u128 {
        let number = |name: &str, usual: u64| u128::from(self.cost[name].as_u64().unwrap_or(usual));
        let cost = match self.cost["header"].as_str() {
            None => u128::from(self.cost.as_u64().unwrap_or(1)),
            Some(name) => {
                let lines: Vec<&[u8]> = request.head.get_all(name).collect();
                let text = if let [line] = lines[..] { line.trim_ascii() } else { b"" };
                if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
                    number("default", 1)
                } else {
                    // As long as a number of 39 digits: more than any bound.
                    let text = String::from_utf8(text.to_vec()).unwrap();
                    let said = text.parse::<u128>().unwrap_or(u128::MAX);
                    said.clamp(number("min", 1), number("max", 1000))
                }
            }
        };
        cost.min(shape.max_tokens.max(1))
    }
}

impl Shape {
    fn read(object: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_u64().map(u128::from);
        let bucket = &object["token_bucket"];
        if let Some(max_tokens) = number(&bucket["max_tokens"]) {
            let interval = bucket["fill_interval"].as_str()?.strip_suffix('s')?.parse::<f64>().ok()?;
            return Some(Self {
                max_tokens,
                tokens_per_fill: number(&bucket["tokens_per_fill"]).unwrap_or(1),
                fill_nanos: (interval * 1e9).round() as u128,
            });
        }
        let (count, unit) = object["rate"].as_str()?.split_once('/')?;
        let count = count.parse().ok()?;
        let seconds = [("s", 1), ("m", 60), ("h", 3600), ("d", 24 * 3600)];
        let (_, seconds) = seconds.into_iter().find(|(name, _)| *name == unit)?;
        Some(Self {
            max_tokens: number(&object["burst"]).unwrap_or(count),
            tokens_per_fill: count,
            fill_nanos: seconds * SECOND,
        })
    }

    /// Tokens that flow in within so many nanoseconds.
    pub(crate) fn flow(&self, nanos: u128) -> u128 {
        nanos * self.tokens_per_fill / self.fill_nanos
    }

    /// Seconds in which it fills, as they are told: whole, and one at least.
    pub(crate) fn seconds(&self) -> u128 {
        (self.max_tokens * self.fill_nanos).div_ceil(self.tokens_per_fill * SECOND).max(1)
    }
}

/// How many values are listed: in an array, or one alone.
fn listed(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Array(values) => values.len(),
        _ => 1,
    }
}
