//! What clients are told: the refusal, and how their limits stand.

use std::fmt::Write as _;

use filter_api::{Head, HeaderName, HeaderOp, HeaderValue, LocalReply, Text};

use crate::bucket::SECOND;
use crate::charge::{Charge, Standing};
use crate::config::{Add, Announce, Config, Line, When};

/// The refusal.
pub(crate) fn refusal(config: &Config, details: Text, wait: Option<u64>, mut told: Vec<Line>) -> LocalReply {
    // A bucket that never has enough tokens is worth no wait.
    if let Some(wait) = wait {
        told.insert(0, (HeaderName::from_static("retry-after"), number(seconds(wait).max(1))));
    }
    let refusal = &config.refusal;
    for add in &refusal.headers {
        let is_there = told.iter().any(|(name, _)| *name == add.name);
        match add.when {
            When::Absent if is_there => continue,
            When::Instead => told.retain(|(name, _)| *name != add.name),
            When::Absent | When::Always => {}
        }
        told.push((add.name.clone(), add.value.clone()));
    }
    LocalReply {
        status: refusal.status,
        grpc_status: refusal.grpc_status,
        details,
        headers: told,
        body: refusal.body.clone(),
    }
}

/// The headers that tell how the limits stand, as far as the configuration wants them told.
pub(crate) fn standings(config: &Config, charges: &[Charge], standings: &[Standing]) -> Vec<Line> {
    let Announce { x_ratelimit, ratelimit } = config.announce;
    let mut lines = Vec::new();
    let all = || charges.iter().zip(standings);
    if x_ratelimit && let Some((charge, standing)) = all().min_by_key(|(_, it)| (it.tokens, !it.until_full)) {
        let line = |name, value: u64| (HeaderName::from_static(name), number(value));
        lines.push(line("x-ratelimit-limit", charge.bucket.max_tokens().into()));
        lines.push(line("x-ratelimit-remaining", standing.tokens.into()));
        lines.push(line("x-ratelimit-reset", seconds(standing.until_full)));
    }
    if ratelimit && !charges.is_empty() {
        let (mut policy, mut limit) = (String::new(), String::new());
        for (charge, standing) in all() {
            let Some(own) = config.limits.get(charge.limit) else { continue };
            let special = charge.special.and_then(|place| own.specials.get(place));
            if !policy.is_empty() {
                policy.push_str(", ");
                limit.push_str(", ");
            }
            policy.push_str(special.map_or(&own.policy, |special| &special.policy));
            let reset = seconds(standing.until_full);
            let _ = write!(limit, "\"{}\";r={};t={reset}", own.name, standing.tokens);
        }
        for (name, text) in [("ratelimit-policy", policy), ("ratelimit", limit)] {
            lines.extend(HeaderValue::new(text).ok().map(|value| (HeaderName::from_static(name), value)));
        }
    }
    lines
}

/// As operations on a response that is not ours.
pub(crate) fn on_response(lines: Vec<Line>) -> Vec<HeaderOp> {
    lines.into_iter().map(|(name, value)| HeaderOp::Set(name, value)).collect()
}

/// What is added to a request.
pub(crate) fn on_request(head: &impl Head, adds: &[Add]) -> Vec<HeaderOp> {
    let operation = |add: &Add| {
        let Add { name, value, when } = add.clone();
        match when {
            When::Always => Some(HeaderOp::Add(name, value)),
            When::Instead => Some(HeaderOp::Set(name, value)),
            When::Absent if head.first(name.as_str()).is_some() => None,
            When::Absent => Some(HeaderOp::Add(name, value)),
        }
    };
    adds.iter().filter_map(operation).collect()
}

/// Whole seconds, rounded up.
fn seconds(nanos: u64) -> u64 {
    nanos.div_ceil(SECOND)
}

fn number(number: u64) -> HeaderValue {
    // Digits are fit for any header.
    HeaderValue::new(number.to_string()).unwrap_or(HeaderValue::from_static(""))
}
