//! The whole decision about a request: a hostile head against several configurations.
//!
//! An input is a text, so that seeds can be read and written by hand. Its first line begins with a digit
//! which chooses the configuration; each further line is a line of the head, `name: value`. In a value,
//! `<<HEADER|PAYLOAD>>` stands for a token with a good signature of this header and payload.

use filter_api::{
    Effects, Fact, Facts, Filter, Head, HeadMap, HeaderName, HeaderOp, Moment, NoHost, Outcome,
};
use jwt_reject::JwtReject;
use jwt_reject::locate::Few;
use serde_json::Value;

use super::mint::{Minted, mint};
use super::setups::{self, ISSUER, OTHER_ISSUER, Setup};

/// The second at which requests arrive.
pub const NOW: u64 = 1_796_000_000;

/// The clock skew of every provider, in seconds.
const SKEW: f64 = 60.0;

/// A request to decide about.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which configuration decides; any number does.
    pub setup: usize,
    /// The head.
    pub head: HeadMap,
    /// The tokens in it, or anywhere, that have a good signature.
    pub minted: Vec<Minted>,
}

/// Reads an input, and checks the decision about it. Returns how the decision is counted.
pub fn run(input: &[u8]) -> &'static str {
    check(&read(input))
}

/// Decides about a request, by filters that live as long as this thread and remember tokens of earlier
/// requests, and panics where a law is broken. Returns how the decision is counted.
pub fn check(request: &Request) -> &'static str {
    thread_local!(static SETUPS: Vec<Setup> = (0..setups::COUNT).map(setups::at).collect());
    SETUPS.with(|setups| laws(&setups[request.setup % setups::COUNT], request))
}

fn read(input: &[u8]) -> Request {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next().and_then(|line| line.first()).copied().unwrap_or_default();
    let mut request = Request {
        setup: usize::from(first.wrapping_sub(b'0')),
        head: HeadMap::default(),
        minted: Vec::new(),
    };
    for line in lines {
        let Some(colon) = line.windows(2).position(|pair| pair == b": ") else { continue };
        // Envoy hands over no other names, and no value with one of these bytes.
        let Some(name) =
            std::str::from_utf8(&line[..colon]).ok().filter(|name| HeaderName::new(name).is_ok())
        else {
            continue;
        };
        let mut value = Vec::new();
        minted_into(&line[colon + 2..], &mut value, &mut request.minted);
        value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        request.head = request.head.with(name, value);
    }
    for (name, usual) in
        [(":method", "GET"), (":scheme", "http"), (":authority", "api.example"), (":path", "/")]
    {
        if request.head.first(name).is_none() {
            request.head = request.head.with(name, usual);
        }
    }
    request
}

/// Copies a value, its `<<HEADER|PAYLOAD>>` made into tokens.
fn minted_into(mut text: &[u8], out: &mut Vec<u8>, minted: &mut Vec<Minted>) {
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|window| window == what);
    while let Some(start) = find(text, b"<<") {
        let inside = &text[start + 2..];
        let Some(end) = find(inside, b">>") else { break };
        let Some(bar) = inside[..end].iter().position(|byte| *byte == b'|') else { break };
        out.extend_from_slice(&text[..start]);
        let token = mint(&inside[..bar], &inside[bar + 1..end]);
        out.extend_from_slice(&token.token);
        minted.push(token);
        text = &inside[end + 2..];
    }
    out.extend_from_slice(text);
}

/// The filter of a configuration, with its memory of tokens and without, new and with nothing remembered.
pub fn filters(setup: usize) -> [JwtReject; 2] {
    let setup = setups::at(setup);
    [setup.remembering, setup.forgetful]
}

/// The only place that calls the filter.
pub fn ask(filter: &JwtReject, head: &HeadMap, now: u64) -> Outcome {
    filter.on_request(head, &NoHost(Moment::at(now)), &Facts::default())
}

fn laws(setup: &Setup, request: &Request) -> &'static str {
    let outcome = ask(&setup.forgetful, &request.head, NOW);
    for other in [&setup.forgetful, &setup.remembering, &setup.remembering] {
        let again = ask(other, &request.head, NOW);
        assert_eq!(essence(&again), essence(&outcome), "the same request is decided about in the same way");
    }
    let way = way(outcome.effects());
    assert_sound_operations(&outcome.effects().headers);
    assert_facts_are_minted(outcome.effects(), &request.minted);
    match &outcome {
        Outcome::Continue(effects) => {
            assert_eq!(
                setup.config.shadow && !way.starts_with("allowed."),
                way.starts_with("shadow_refused.")
            );
            if way == "allowed.reason.verified" {
                assert_every_token_is_minted(setup, request);
            }
            if !setup.config.shadow && matches!(way, "allowed.reason.verified" | "allowed.reason.failed") {
                assert_tokens_are_taken_out(setup, &request.head, effects);
            }
        }
        Outcome::Reply(reply, _) => {
            assert!(
                (400..500).contains(&reply.status),
                "no 5xx because of what a request contains: {reply:?}"
            );
            let label = way.strip_prefix("refused.reason.").unwrap();
            assert_eq!(reply.details, *format!("jwt_reject{{{label}}}"));
            assert!(reply.body.len() < 200, "{reply:?}");
            for (_, value) in &reply.headers {
                assert!(!value.as_bytes().iter().any(u8::is_ascii_control), "{reply:?}");
                assert!(value.as_bytes().len() < 512, "{reply:?}");
            }
        }
        Outcome::Wait(..) => panic!("none of these keys is to come"),
    }
    way
}

/// All that an outcome says, but for counters of what the memory did and of who checked signatures.
fn essence(outcome: &Outcome) -> (Outcome, Vec<&'static str>) {
    let mut outcome = outcome.clone();
    let (Outcome::Continue(effects) | Outcome::Reply(_, effects) | Outcome::Wait(_, effects)) = &mut outcome;
    let counters = std::mem::take(&mut effects.counters);
    let names = counters.iter().map(|counter| JwtReject::COUNTERS[usize::from(counter.0)]);
    let names = names.filter(|name| !name.starts_with("cache") && !name.starts_with("signature_checks"));
    (outcome, names.collect())
}

/// The counter that says how the request fared; exactly one does.
fn way(effects: &Effects) -> &'static str {
    let names = effects.counters.iter().map(|counter| JwtReject::COUNTERS[usize::from(counter.0)]);
    let ways: Vec<&str> = names.filter(|name| name.contains(".reason.")).collect();
    assert_eq!(ways.len(), 1, "{ways:?}");
    ways[0]
}

/// What is written is no end of a line, and no part of the request but where tokens and claims are.
fn assert_sound_operations(operations: &[HeaderOp]) {
    for operation in operations {
        let (HeaderOp::Set(name, _) | HeaderOp::Add(name, _) | HeaderOp::Remove(name)) = operation;
        assert!(!name.as_str().starts_with(':') || name.as_str() == ":path", "{operation:?}");
        if let HeaderOp::Set(_, value) | HeaderOp::Add(_, value) = operation {
            let ends = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
            assert!(!value.as_bytes().iter().any(ends), "{operation:?}");
        }
    }
}

/// Nobody is said to be who no signature says they are.
fn assert_facts_are_minted(effects: &Effects, minted: &[Minted]) {
    for fact in &effects.facts.0 {
        if let Fact::Claims { claims, .. } = fact {
            let same = |token: &Minted| {
                serde_json::from_slice::<Value>(&token.payload).is_ok_and(|payload| payload == **claims)
            };
            assert!(minted.iter().any(same), "claims that nobody signed: {claims}");
        }
    }
}

/// A request passes as verified only if each token in it is, byte for byte, one that was minted, and says
/// what it must; read here by a lenient reader, since the strict one is what is tested.
fn assert_every_token_is_minted(setup: &Setup, request: &Request) {
    let found = tokens(setup, &request.head, |_| true);
    assert!(!found.is_empty(), "verified, without a token");
    for token in found {
        let Some(minted) = request.minted.iter().find(|minted| minted.token == token) else {
            // With `allow_padding`, `=` may follow a part.
            let bare: Vec<u8> = token.iter().copied().filter(|byte| *byte != b'=').collect();
            let padded =
                setup.providers().any(|it| it.policy.padding == jwt_reject::token::Padding::Tolerated);
            assert!(
                padded && request.minted.iter().any(|minted| minted.token == bare),
                "verified, and nobody signed {}",
                String::from_utf8_lossy(&token)
            );
            continue;
        };
        let header: Value = serde_json::from_slice(&minted.header).unwrap();
        let payload: Value = serde_json::from_slice(&minted.payload).unwrap();
        assert!(header["alg"].is_string() && header.get("crit").is_none(), "{header}");
        assert!(payload["iss"] == ISSUER || payload["iss"] == OTHER_ISSUER, "{payload}");
        let audience = &payload["aud"];
        assert!(audience == "api" || audience.as_array().unwrap().iter().any(|it| it == "api"), "{payload}");
        let now = NOW as f64;
        assert!(payload.get("exp").is_none_or(|exp| exp.as_f64().unwrap() >= now - SKEW), "{payload}");
        assert!(payload.get("nbf").is_none_or(|nbf| nbf.as_f64().unwrap() <= now + SKEW), "{payload}");
    }
}

/// What the upstream gets holds no token that should not be forwarded.
fn assert_tokens_are_taken_out(setup: &Setup, head: &HeadMap, effects: &Effects) {
    let left = tokens(setup, &applied(head, &effects.headers), |provider| !provider.forward);
    let kept = tokens(setup, head, |provider| provider.forward);
    for token in left {
        assert!(kept.contains(&token), "left in the request: {}", String::from_utf8_lossy(&token));
    }
}

/// Every token in the places of these providers.
fn tokens(setup: &Setup, head: &HeadMap, of: impl Fn(&jwt_reject::config::Provider) -> bool) -> Vec<Vec<u8>> {
    let mut found = Few::new();
    for provider in setup.providers().filter(|provider| of(provider)) {
        provider.locations.find(head, 1, &mut found);
    }
    found.into_iter().map(|found| found.token.into_owned()).collect()
}

/// The head after these operations.
fn applied(head: &HeadMap, operations: &[HeaderOp]) -> HeadMap {
    let mut lines: Vec<(Vec<u8>, Vec<u8>)> =
        head.lines().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    for operation in operations {
        let (HeaderOp::Set(name, _) | HeaderOp::Add(name, _) | HeaderOp::Remove(name)) = operation;
        if !matches!(operation, HeaderOp::Add(..)) {
            lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name.as_str().as_bytes()));
        }
        if let HeaderOp::Set(name, value) | HeaderOp::Add(name, value) = operation {
            lines.push((name.as_str().into(), value.as_bytes().to_vec()));
        }
    }
    lines.into_iter().fold(HeadMap::default(), |head, (name, value)| head.with(name, value))
}
