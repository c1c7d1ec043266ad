//! jwt_reject, Envoy's own jwt_authn without and with its cache of tokens, and what Lua can do of it.

pub(super) mod tokens;

use serde_json::{Map, Value, json};

use self::tokens::{Algorithm, Keys, forged, without_signature};
use super::{Behaviour, Module, Setup};
use crate::rival::Rival;
use crate::workload::{Answer, Budget, PASSED, Probe, Sent, Workload, budget};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "jwt-reject", workloads: NAMES, quick: &["missing", "good-repeated"], prepare };

/// How many different tokens stand for "never seen before". More than any cache here remembers (1000 good
/// and 4096 forged ones), and sent in a circle: when one comes again, it has long been forgotten.
const NEVER_SEEN: usize = 5000;
/// How many forged tokens there are where none is to be seen twice: more than a run of the usual length sends. A
/// store of forged tokens forgets by chance, so that some of fewer would be remembered.
const NEVER_FORGED: usize = 110_000;

pub(super) const MISSING: Answer = Answer { status: 401, body: "Jwt is missing" };
const MALFORMED: Answer = Answer {
    status: 401,
    body: "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
};
const EXPIRED: Answer = Answer { status: 401, body: "Jwt is expired" };
pub(super) const FORGED: Answer = Answer { status: 401, body: "Jwt verification fails" };

const API: &str = "/orders/17";
const OPEN: &str = "/health";

/// Refused before any signature is looked at: Lua can do it too.
const REFUSED_EARLY: &[Budget] = &[budget("lua", 0.75), budget("native", 2.0)];
const SEEN_BEFORE: &[Budget] = &[budget("native", 0.3)];
const FIRST_SEEN: &[Budget] = &[budget("native", 1.3)];

const NAMES: &[&str] = &[
    "no-requirement",
    "missing",
    "malformed",
    "expired",
    "forged-repeated",
    "forged-once",
    "good-repeated",
    "good-1000",
    "first-seen-rs256",
    "first-seen-es256",
];

/// All workloads run with the same Envoys.
fn prepare(names: &[&'static str], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    let keys = Keys::make()?;
    let rivals = rivals(&keys.jwks(), modules)?;
    let workloads = names.iter().map(|name| workload(name, &keys)).collect::<anyhow::Result<_>>()?;
    Ok(vec![Setup { rivals, workloads }])
}

fn rivals(jwks: &str, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let native = |name, cache| {
        Rival::new(name, "envoy-configs/jwt-reject/native.yaml", |hcm| set_keys(hcm, jwks, cache))
    };
    let ours = |module: &Module| {
        let rival =
            Rival::new(&module.name, "envoy-configs/jwt-reject/wasm.yaml", |hcm| set_keys(hcm, jwks, false));
        rival?.with_module(&module.file)
    };
    let shipped = Module { name: "jwt_reject".to_owned(), file: xtask::modules::ensure("jwt_reject")? };
    let mut rivals = vec![
        Rival::baseline()?,
        native("native", false)?,
        native("native-cache", true)?,
        Rival::new("lua", "envoy-configs/jwt-reject/lua.yaml", |_| Ok(()))?,
    ];
    for module in std::iter::once(&shipped).chain(modules) {
        rivals.push(ours(module)?);
    }
    let counters = ["wasmcustom.foregate.jwt_reject.", "http.ingress.jwt_authn."];
    Ok(rivals.into_iter().map(|rival| rival.counted_by(&counters)).collect())
}

/// Sets the keys of the only provider, and whether Envoy's own filter remembers tokens, which it does not unless
/// told to.
pub(super) fn set_keys(hcm: &mut Map<String, Value>, jwks: &str, native_cache: bool) -> anyhow::Result<()> {
    let mut found = 0;
    for filter in hcm.values_mut() {
        found += set_keys_within(filter, jwks, native_cache);
    }
    anyhow::ensure!(found == 1, "{found} providers of keys, not one");
    Ok(())
}

/// Sets the keys of every provider, however deep, and says how many there were.
fn set_keys_within(value: &mut Value, jwks: &str, native_cache: bool) -> usize {
    match value {
        Value::Object(members) => {
            let mut found = 0;
            if let Some(keys) = members.get_mut("local_jwks").and_then(|keys| keys.get_mut("inline_string")) {
                *keys = jwks.into();
                found += 1;
                if native_cache {
                    // As many as jwt_reject remembers.
                    members.insert("jwt_cache_config".to_owned(), json!({ "jwt_cache_size": 1000 }));
                }
            }
            found
                + members.values_mut().map(|inner| set_keys_within(inner, jwks, native_cache)).sum::<usize>()
        }
        Value::Array(items) => items.iter_mut().map(|inner| set_keys_within(inner, jwks, native_cache)).sum(),
        _ => 0,
    }
}

fn workload(name: &'static str, keys: &Keys) -> anyhow::Result<Workload> {
    use Algorithm::{Es256, Rs256};
    let one = |token: String| vec![with_token(token)];
    let many = |tokens: Vec<String>| tokens.into_iter().map(with_token).collect::<Vec<_>>();
    let none = |path| vec![Sent::plain(path)];
    let good = || keys.good(Rs256, 0);
    let (what, requests, expected, budgets) = match name {
        "no-requirement" => ("a path whose rule asks for nothing", none(OPEN), PASSED, [].as_slice()),
        "missing" => ("no token", none(API), MISSING, REFUSED_EARLY),
        "malformed" => {
            ("a token without its signature", one(without_signature(&good()?)?), MALFORMED, REFUSED_EARLY)
        }
        "expired" => ("an expired token", one(keys.expired()?), EXPIRED, REFUSED_EARLY),
        "forged-repeated" => {
            ("one forged token again and again (RS256)", one(forged(&good()?, 0)?), FORGED, SEEN_BEFORE)
        }
        "forged-once" => {
            let good = good()?;
            let all = (0..NEVER_FORGED).map(|number| forged(&good, number));
            let all = all.collect::<anyhow::Result<_>>()?;
            ("forged tokens not seen before (RS256)", many(all), FORGED, [].as_slice())
        }
        "good-repeated" => ("one good token again and again (RS256)", one(good()?), PASSED, SEEN_BEFORE),
        "good-1000" => {
            ("1000 good tokens in turn (RS256)", many(keys.many(Rs256, 1000)?), PASSED, SEEN_BEFORE)
        }
        "first-seen-rs256" => {
            ("good tokens not seen before (RS256)", many(keys.many(Rs256, NEVER_SEEN)?), PASSED, FIRST_SEEN)
        }
        _ => ("good tokens not seen before (ES256)", many(keys.many(Es256, NEVER_SEEN)?), PASSED, FIRST_SEEN),
    };
    let probes = probes(&requests, expected, keys)?;
    Ok(Workload { name, what, requests, expected, probes, budgets })
}

/// The workload's own first request, and what shows that the job is done. Signatures are asked about unless all
/// that is sent is refused before anyone would look at them.
fn probes(requests: &[Sent], expected: Answer, keys: &Keys) -> anyhow::Result<Vec<Probe>> {
    let good = keys.good(Algorithm::Rs256, 0)?;
    let probe = |what, token, expected| Probe::new(what, with_token(token), expected);
    let mut probes: Vec<Probe> = requests
        .first()
        .map(|first| Probe::new("the first request", first.clone(), expected))
        .into_iter()
        .collect();
    probes.extend([
        Probe::new("an open path", Sent::plain(OPEN), PASSED),
        probe("a good token", good.clone(), PASSED),
        probe("a good token of the other key", keys.good(Algorithm::Es256, 0)?, PASSED),
        Probe::new("no token", Sent::plain(API), MISSING),
        probe("a malformed token", without_signature(&good)?, MALFORMED),
        probe("an expired token", keys.expired()?, EXPIRED),
    ]);
    if ![MISSING, MALFORMED, EXPIRED].contains(&expected) {
        probes.push(probe("a forged token", forged(&good, NEVER_SEEN)?, FORGED));
    }
    Ok(probes)
}

fn with_token(token: String) -> Sent {
    Sent::plain(API).with("authorization", format!("Bearer {token}"))
}
