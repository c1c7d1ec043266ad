//! Which requests have a line, by a plain reading of a configuration: just what the sampled configurations have in them,
//! and all numbers whole.

use filter_api::{Head, HeadMap};
use serde_json::Value;

use super::ended::Ended;

/// Nanoseconds in a second.
pub(super) const SECOND: u128 = 1_000_000_000;

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chosen {
    /// It has no line.
    No,
    /// It always has one.
    Always,
    /// It is among so many of 10^12.
    Sampled(u64),
    /// It is for the path to say, in which some read something else than others do.
    Unknown,
}

/// Whether a request has a line, and why.
pub(super) fn choose(config: &Value, ended: &Ended) -> Chosen {
    let usual = serde_json::json!([{ "status": "5xx" }, { "duration": "1s" }, { "response_flags": "any" }]);
    let always = if config["always"].is_null() { &usual } else { &config["always"] };
    for rule in always.as_array().unwrap() {
        match holds(rule, ended) {
            Some(true) => return Chosen::Always,
            Some(false) => {}
            None => return Chosen::Unknown,
        }
    }
    let mut percent = &config["percent_sampled"];
    for rule in config["rules"].as_array().into_iter().flatten() {
        match holds(rule, ended) {
            Some(true) => {
                percent = &rule["percent_sampled"];
                break;
            }
            Some(false) => {}
            None => return Chosen::Unknown,
        }
    }
    let share = millionths(percent, 100_000);
    let before = millionths(&config["percent_sampled_before"], 1_000_000);
    match has(share, number(ended)) {
        true => Chosen::Sampled(share * before),
        false => Chosen::No,
    }
}

/// Whether a request of this number is among so many of a million.
pub(super) fn has(share: u64, number: u64) -> bool {
    // The numbers of a share are the lowest.
    u128::from(number) * 1_000_000 < u128::from(share) << 64
}

/// How many of a million.
fn millionths(share: &Value, usual: u64) -> u64 {
    match share {
        Value::Null => usual,
        Value::Number(percent) => (percent.as_f64().unwrap() * 10_000.0).round() as u64,
        _ => {
            let share = if share["default_value"].is_null() { share } else { &share["default_value"] };
            let of = match share["denominator"].as_str() {
                Some("MILLION") => 1,
                Some("TEN_THOUSAND") => 100,
                _ => 10_000,
            };
            share["numerator"].as_u64().unwrap() * of
        }
    }
}

/// The number of a request: of its id, else of its trace, else by chance.
pub(super) fn number(ended: &Ended) -> u64 {
    of_head(&ended.request).unwrap_or(ended.dice)
}

/// The number that every hop sees.
pub(super) fn of_head(head: &HeadMap) -> Option<u64> {
    let first = |name: &str| head.first(name).map(<[u8]>::to_ascii_lowercase);
    if let Some(mut id) = first("x-request-id").filter(|id| !id.is_empty()) {
        if is_uuid(&id) {
            id.remove(14);
        }
        return Some(hash(&id));
    }
    let traceparent = first("traceparent")?;
    let id = traceparent.split(|byte| *byte == b'-').nth(1)?;
    let is_one =
        id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit) && id.iter().any(|digit| *digit != b'0');
    is_one.then(|| hash(id))
}

/// Whether it has the form of the ids that Envoy makes, with a digit that says whether the request is traced.
pub(super) fn is_uuid(id: &[u8]) -> bool {
    id.len() == 36 && id[8] == b'-' && id[13] == b'-'
}

/// FNV-1a, finished as SplitMix64 is: what all versions and hops must agree on.
fn hash(bytes: &[u8]) -> u64 {
    const MASK: u128 = u64::MAX as u128;
    let times = |one: u128, other: u128| (one * other) & MASK;
    let mut hash: u128 = 14_695_981_039_346_656_037;
    for byte in bytes {
        hash = times(hash ^ u128::from(*byte), 1_099_511_628_211);
    }
    hash = times(hash ^ (hash >> 30), 0xbf58_476d_1ce4_e5b9);
    hash = times(hash ^ (hash >> 27), 0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) as u64
}

/// Whether all that a rule says holds; none where that is for the path to say.
fn holds(rule: &Value, ended: &Ended) -> Option<bool> {
    let listed = |name: &str| -> Vec<&Value> {
        match &rule[name] {
            Value::Null => Vec::new(),
            Value::Array(items) => items.iter().collect(),
            one => vec![one],
        }
    };
    let any = |name: &str, is: &dyn Fn(&Value) -> bool| {
        let items = listed(name);
        items.is_empty() || items.into_iter().any(is)
    };
    let status = ended.number("response.code");
    let flags = ended.number("response.flags");
    let details =
        String::from_utf8_lossy(&ended.known.get("response.code_details").cloned().unwrap_or_default())
            .into_owned();
    let said = any("status", &|item| is_status(item, status))
        && any("response_flags", &|item| flags & flag(item.as_str().unwrap()) != 0)
        && any("duration", &|item| {
            u128::from(ended.number("request.duration")) >= nanos(item.as_str().unwrap())
        })
        && any("refused", &|item| is_refused(item.as_str().unwrap(), &details, ended))
        && any("grpc_status", &|item| is_grpc(item, ended));
    Some(said && matches(&rule["match"], ended, said)?)
}

fn is_status(item: &Value, status: u64) -> bool {
    match item {
        Value::String(text) => match (text.split_once('-'), text.strip_suffix("xx")) {
            (Some((least, most)), _) => {
                (least.parse::<u64>().unwrap()..=most.parse().unwrap()).contains(&status)
            }
            (None, Some(hundred)) => status / 100 == hundred.parse::<u64>().unwrap(),
            (None, None) => text.parse::<u64>().unwrap() == status,
        },
        number => number.as_u64().unwrap() == status,
    }
}

/// The bits of Envoy's flags.
fn flag(name: &str) -> u64 {
    let flags = [
        ("UH", 0x2),
        ("UT", 0x4),
        ("UF", 0x20),
        ("NR", 0x100),
        ("RL", 0x800),
        ("DC", 0x4000),
        ("any", u64::MAX),
    ];
    flags.into_iter().find(|(own, _)| *own == name).unwrap().1
}

fn nanos(text: &str) -> u128 {
    let seconds: f64 = text.strip_suffix('s').unwrap().parse().unwrap();
    (seconds * 1e9).round() as u128
}

fn is_refused(by: &str, details: &str, ended: &Ended) -> bool {
    let begins = [
        ("jwt_reject", "jwt_reject{"),
        ("local_rate_limit", "local_rate_limited{"),
        ("header_rewrite", "header_rewrite{"),
    ];
    let wanted = |name: &str| by == "any" || by == name;
    let is_shadow = ended.properties.iter().any(|(name, _)| name == "foregate.local_rate_limit.refused");
    (is_shadow && wanted("local_rate_limit"))
        || begins
            .iter()
            .any(|(name, begin)| wanted(name) && details.starts_with(begin) && details.ends_with('}'))
}

fn is_grpc(item: &Value, ended: &Ended) -> bool {
    let status = ended.number("response.grpc_status");
    filter_api::Protocol::of(&ended.request) == filter_api::Protocol::Grpc
        && if item == "any_error" { status != 0 } else { item.as_u64().unwrap() == status }
}

/// Methods, headers that are there, and beginnings of paths; a path is asked only where all else holds.
fn matches(matcher: &Value, ended: &Ended, rest_holds: bool) -> Option<bool> {
    let head = &ended.request;
    let has = |name: &Value| head.first(name["name"].as_str().unwrap()).is_some();
    let others = (matcher["method"].is_null()
        || matcher["method"].as_str().unwrap().as_bytes() == head.method())
        && matcher["headers"].as_array().into_iter().flatten().all(has);
    let (Some(prefix), true) = (matcher["prefix"].as_str(), others && rest_holds) else {
        return Some(others);
    };
    let path = head.path().split(|byte| *byte == b'?').next().unwrap_or_default();
    let is_plain = path.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(byte))
        && !path.windows(2).any(|pair| pair == b"//");
    is_plain.then(|| path.starts_with(prefix.as_bytes()))
}
