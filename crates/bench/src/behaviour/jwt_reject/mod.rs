//! jwt_reject, Envoy's own jwt_authn without and with its cache of tokens, and what Lua can do of it.

pub(crate) mod tokens;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use self::tokens::{Algorithm, Keys, WITH_PUBLIC_KEYS, forged, without_signature};
use super::{Behaviour, FUSED, Module, Setup};
use crate::rival::{self, BASELINE, Rival, TELLING};
use crate::workload::{Answer, Budget, Kind, PASSED, Probe, Sent, Unfair, Workload, budget, unfair};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "jwt-reject", workloads: KINDS, smoke: &["missing", "good-repeated"], prepare };

/// How many different tokens stand for "never seen before". More than any cache here remembers (1000 good
/// and 4096 forged ones), and sent in a circle: when one comes again, it has long been forgotten.
const NEVER_SEEN: usize = 5000;
/// How many forged tokens there are where none is to be seen twice: more than a run of the usual length sends. A
/// store of forged tokens forgets by chance, so that some of fewer would be remembered.
const NEVER_FORGED: usize = 110_000;

pub(crate) const MISSING: Answer = Answer { status: 401, body: "Jwt is missing" };
pub(super) const MALFORMED: Answer = Answer {
    status: 401,
    body: "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
};
pub(super) const EXPIRED: Answer = Answer { status: 401, body: "Jwt is expired" };
const OF_ANOTHER_ISSUER: Answer = Answer { status: 401, body: "Jwt issuer is not configured" };
const FOR_ANOTHER_AUDIENCE: Answer = Answer { status: 403, body: "Audiences in Jwt are not allowed" };
pub(crate) const FORGED: Answer = Answer { status: 401, body: "Jwt verification fails" };

const API: &str = "/orders/17";
const OPEN: &str = "/health";

/// Good tokens of a client each, where all of them are to be remembered, and what caches hold then: twice as many, since
/// not every cache is filled evenly.
const MANY: usize = 10_000;
const CACHE_FOR_MANY: usize = 20_000;
/// What jwt_reject remembers if nothing is said. Envoy's own filter remembers none then.
const CACHE: usize = 1000;

/// Refused before any signature is looked at: Lua can do it too.
const REFUSED_EARLY: &[Budget] = &[budget("lua", 0.75), budget("native", 2.0)];
const SEEN_BEFORE: &[Budget] = &[budget("native", 0.3)];
const FIRST_SEEN: &[Budget] = &[budget("native", 1.3)];

const RIVALS: &[&str] = &[BASELINE, "native", NATIVE_CACHE, "lua", OURS_ALONE, FUSED];
const NATIVE_CACHE: &str = "native-cache";
/// Our module that does nothing else.
const OURS_ALONE: &str = "jwt_reject";

const LUA_CHECKS_LESS: Unfair = unfair(
    "lua",
    "it checks no signature, header, issuer or audience: it is no gate, but spares one some work",
);
const HOLDS_LESS: &str = "it holds no more than 2 MiB of tokens whatever jwt_cache_size says, fewer than 3000 of these, so each is \
                          forgotten before it comes again";
const NOT_BY_THE_HOST: &str = "the host checks no Ed25519, so the module does, in the VM; the bound on how often, 500 a second \
                               if nothing is said, is lifted";

const fn kind(
    name: &'static str,
    what: &'static str,
    answers: &'static [Answer],
    budgets: &'static [Budget],
    unfair: &'static [Unfair],
) -> Kind {
    Kind { name, what, answers, rivals: RIVALS, budgets, unfair }
}

const KINDS: &[Kind] = &[
    kind("no-requirement", "a path whose rule asks for nothing", &[PASSED], &[], &[]),
    kind("missing", "no token", &[MISSING], REFUSED_EARLY, &[LUA_CHECKS_LESS]),
    kind("malformed", "a token without its signature", &[MALFORMED], REFUSED_EARLY, &[LUA_CHECKS_LESS]),
    kind("expired", "an expired token", &[EXPIRED], REFUSED_EARLY, &[LUA_CHECKS_LESS]),
    kind("forged-repeated", "one forged token again and again (RS256)", &[FORGED], SEEN_BEFORE, &[]),
    kind("forged-once", "forged tokens not seen before (RS256)", &[FORGED], &[], &[]),
    kind(
        "half-forged",
        "half good and half attack in turn: 1000 good tokens seen before, and forged ones not seen before (RS256)",
        &[PASSED, FORGED],
        &[],
        &[],
    ),
    kind("good-repeated", "one good token again and again (RS256)", &[PASSED], SEEN_BEFORE, &[]),
    kind("good-1000", "1000 good tokens in turn (RS256)", &[PASSED], SEEN_BEFORE, &[]),
    kind(
        "good-10000",
        "10,000 good tokens in turn, all sent before, with caches set to 20,000 tokens (RS256)",
        &[PASSED],
        SEEN_BEFORE,
        &[unfair(OURS_ALONE, HOLDS_LESS), unfair(FUSED, HOLDS_LESS)],
    ),
    kind("first-seen-rs256", "good tokens not seen before (RS256)", &[PASSED], FIRST_SEEN, &[]),
    kind("first-seen-es256", "good tokens not seen before (ES256)", &[PASSED], FIRST_SEEN, &[]),
    kind("first-seen-hs256", "good tokens not seen before (HS256)", &[PASSED], &[], &[]),
    kind(
        "first-seen-eddsa",
        "good tokens not seen before (EdDSA with Ed25519)",
        &[PASSED],
        &[],
        &[unfair(OURS_ALONE, NOT_BY_THE_HOST), unfair(FUSED, NOT_BY_THE_HOST)],
    ),
];

/// How Envoys are set for some workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variation {
    /// As shipped, but for the keys.
    Usual,
    /// With caches that hold [`CACHE_FOR_MANY`].
    LargeCaches,
    /// With a secret instead of public keys: no set may have both.
    Secret,
    /// With no bound on signatures checked in the VM.
    ManyInTheVm,
}

impl Variation {
    fn of(kind: &Kind) -> Self {
        match kind.name {
            "good-10000" => Self::LargeCaches,
            "first-seen-hs256" => Self::Secret,
            "first-seen-eddsa" => Self::ManyInTheVm,
            _ => Self::Usual,
        }
    }

    fn jwks(self, keys: &Keys) -> String {
        if self == Self::Secret { keys.secret_jwks() } else { keys.jwks() }
    }

    fn algorithms(self) -> &'static [Algorithm] {
        if self == Self::Secret { &[Algorithm::Hs256] } else { WITH_PUBLIC_KEYS }
    }
}

/// Workloads that ask for the same Envoys run with the same.
fn prepare(kinds: &[&'static Kind], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    use Variation::{LargeCaches, ManyInTheVm, Secret, Usual};
    let keys = Keys::make()?;
    let mut setups = Vec::new();
    for variation in [Usual, LargeCaches, Secret, ManyInTheVm] {
        let those = kinds.iter().filter(|kind| Variation::of(kind) == variation);
        let workloads: Vec<Workload> =
            those.map(|kind| workload(kind, &keys)).collect::<anyhow::Result<_>>()?;
        if !workloads.is_empty() {
            setups.push(Setup { rivals: rivals(variation, &variation.jwks(&keys), modules)?, workloads });
        }
    }
    Ok(setups)
}

fn rivals(variation: Variation, jwks: &str, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let large = (variation == Variation::LargeCaches).then_some(CACHE_FOR_MANY);
    let native = |name, cache| {
        Rival::new(name, "envoy-configs/jwt-reject/native.yaml", |hcm| {
            set_keys(hcm, jwks, cache)?;
            tell(hcm)
        })
    };
    let ours = |name: &str, fused: bool| {
        Rival::new(name, "envoy-configs/jwt-reject/wasm.yaml", |hcm| {
            set_keys(hcm, jwks, large)?;
            if variation == Variation::ManyInTheVm {
                let filter = hcm.get_mut("http_filters");
                let plugin =
                    filter.and_then(|it| it.pointer_mut("/0/typed_config/config/configuration/value"));
                let plugin = plugin.and_then(Value::as_object_mut).context("there is no configuration")?;
                plugin.insert("max_vm_verifications_per_second".to_owned(), 1_000_000.into());
            }
            if fused {
                rival::fuse(hcm, "jwt_reject", &["proxy_on_request_headers"])?;
            }
            tell(hcm)
        })
    };
    let mut rivals = vec![
        Rival::baseline()?,
        native("native", None)?,
        native(NATIVE_CACHE, Some(large.unwrap_or(CACHE)))?,
        Rival::new("lua", "envoy-configs/jwt-reject/lua.yaml", tell)?,
        ours(OURS_ALONE, false)?.with_module(&xtask::modules::ensure("jwt_reject")?)?,
        ours(FUSED, true)?.with_module(&xtask::modules::ensure("foregate")?)?,
    ];
    for module in modules {
        rivals.push(ours(&module.name, false)?.with_module(&module.file)?);
    }
    let counters = ["wasmcustom.foregate.jwt_reject.", "http.ingress.jwt_authn."];
    Ok(rivals.into_iter().map(|rival| rival.counted_by(&counters)).collect())
}

/// A header that tells what is left of a token when a request goes on.
const LEFT: &str = "x-left";

fn tell(hcm: &mut Map<String, Value>) -> anyhow::Result<()> {
    rival::tell(hcm, &[(LEFT, "<%REQ(authorization)%>".to_owned())])
}

/// Sets the keys of the only provider, and how many tokens it remembers, where that is not as many as it does if nothing
/// is said.
pub(crate) fn set_keys(hcm: &mut Map<String, Value>, jwks: &str, cache: Option<usize>) -> anyhow::Result<()> {
    let mut found = 0;
    for filter in hcm.values_mut() {
        found += set_keys_within(filter, jwks, cache);
    }
    anyhow::ensure!(found == 1, "{found} providers of keys, not one");
    Ok(())
}

/// Sets the keys of every provider, however deep, and says how many there were.
fn set_keys_within(value: &mut Value, jwks: &str, cache: Option<usize>) -> usize {
    match value {
        Value::Object(members) => {
            let mut found = 0;
            if let Some(keys) = members.get_mut("local_jwks").and_then(|keys| keys.get_mut("inline_string")) {
                *keys = jwks.into();
                found += 1;
                if let Some(tokens) = cache {
                    members.insert("jwt_cache_config".to_owned(), json!({ "jwt_cache_size": tokens }));
                }
            }
            found + members.values_mut().map(|inner| set_keys_within(inner, jwks, cache)).sum::<usize>()
        }
        Value::Array(items) => items.iter_mut().map(|inner| set_keys_within(inner, jwks, cache)).sum(),
        _ => 0,
    }
}

fn workload(kind: &'static Kind, keys: &Keys) -> anyhow::Result<Workload> {
    use Algorithm::{Eddsa, Es256, Hs256, Rs256};
    let variation = Variation::of(kind);
    let many = |algorithm, count| anyhow::Ok(keys.many(algorithm, count)?.into_iter().map(with_token));
    let good = || keys.good(Rs256, 0);
    let requests: Vec<Sent> = match kind.name {
        "no-requirement" => vec![Sent::plain(OPEN)],
        "missing" => vec![Sent::plain(API)],
        "malformed" => vec![with_token(without_signature(&good()?)?)],
        "expired" => vec![with_token(keys.expired(Rs256)?)],
        "forged-repeated" => vec![with_token(forged(&good()?, 0)?)],
        "forged-once" => {
            let good = good()?;
            let all = (0..NEVER_FORGED).map(|number| anyhow::Ok(with_token(forged(&good, number)?)));
            all.collect::<anyhow::Result<_>>()?
        }
        "half-forged" => {
            let good_ones: Vec<Sent> = many(Rs256, CACHE)?.collect();
            half_forged(&good_ones, &good()?)?
        }
        "good-repeated" => vec![with_token(good()?)],
        "good-1000" => many(Rs256, CACHE)?.collect(),
        "good-10000" => many(Rs256, MANY)?.collect(),
        "first-seen-rs256" => many(Rs256, NEVER_SEEN)?.collect(),
        "first-seen-es256" => many(Es256, NEVER_SEEN)?.collect(),
        "first-seen-hs256" => many(Hs256, NEVER_SEEN)?.collect(),
        "first-seen-eddsa" => many(Eddsa, NEVER_SEEN)?.collect(),
        name => anyhow::bail!("no workload is called {name:?}"),
    };
    let workload = Workload::of(kind, requests);
    let probes = probes(&workload, variation, keys)?;
    let workload = workload.probed(probes);
    Ok(if kind.name == "good-10000" { workload.all_seen_before() } else { workload })
}

/// These in a circle, and between them forged ones made from that, each another.
fn half_forged(good: &[Sent], token: &str) -> anyhow::Result<Vec<Sent>> {
    let mut all = Vec::with_capacity(NEVER_FORGED);
    for (number, good) in good.iter().cycle().take(NEVER_FORGED / 2).enumerate() {
        all.extend([good.clone(), with_token(forged(token, number)?).answered(FORGED)]);
    }
    Ok(all)
}

/// The workload's own first request, and what shows that the job is done. Signatures, issuer and audience are asked about
/// unless all that is sent is refused before anyone would look at them.
fn probes(workload: &Workload, variation: Variation, keys: &Keys) -> anyhow::Result<Vec<Probe>> {
    let algorithms = variation.algorithms();
    let first = *algorithms.first().context("there is no key")?;
    let good = keys.good(first, 0)?;
    let probe = |what, token, expected| Probe::new(what, with_token(token), expected);
    let mut probes: Vec<Probe> = workload.first().into_iter().collect();
    probes.push(Probe::new("an open path", Sent::plain(OPEN), PASSED));
    for algorithm in algorithms {
        probes.push(probe("a good token", keys.good(*algorithm, 0)?, PASSED));
    }
    probes.extend([
        Probe::new("no token", Sent::plain(API), MISSING),
        probe("a malformed token", without_signature(&good)?, MALFORMED),
        probe("an expired token", keys.expired(first)?, EXPIRED),
    ]);
    if [MISSING, MALFORMED, EXPIRED].contains(&workload.expected) {
        return Ok(probes);
    }
    for algorithm in algorithms {
        let forged = forged(&keys.good(*algorithm, 0)?, NEVER_FORGED)?;
        probes.push(probe("a forged token", forged, FORGED));
    }
    let on = with_token(good).with("host", TELLING.to_owned());
    probes.extend([
        probe("a token of another issuer", keys.of_another_issuer(first)?, OF_ANOTHER_ISSUER),
        probe("a token for another audience", keys.for_another_audience(first)?, FOR_ANOTHER_AUDIENCE),
        Probe {
            headers: vec![(LEFT.to_owned(), "<>".to_owned())],
            ..Probe::new("a request that goes on, without its token,", on, PASSED)
        },
    ]);
    Ok(probes)
}

fn with_token(token: String) -> Sent {
    Sent::plain(API).with("authorization", format!("Bearer {token}"))
}

#[cfg(test)]
mod tests {
    use super::super::assert_is_as_told;
    use super::*;

    #[test]
    fn the_workloads_are_what_is_told_of_them() {
        // Made in a moment: the others are many tokens of a key with which making one takes long.
        let cheap = |kind: &&Kind| {
            !["half-forged", "forged-once"].contains(&kind.name)
                && !kind.name.starts_with("first-seen-rs256")
                && !kind.name.starts_with("good-1")
        };
        let kinds: Vec<&Kind> = KINDS.iter().filter(cheap).collect();
        for setup in prepare(&kinds, &[]).unwrap() {
            let names: Vec<&str> = setup.workloads.iter().map(|workload| workload.name).collect();
            let told: Vec<&Kind> = kinds.iter().copied().filter(|kind| names.contains(&kind.name)).collect();
            assert_is_as_told(&setup, &told);
        }
        for variation in [Variation::LargeCaches, Variation::Secret] {
            let rivals = rivals(variation, "{}", &[]).unwrap();
            assert_eq!(rivals.iter().map(|rival| rival.name.as_str()).collect::<Vec<_>>(), RIVALS);
        }
    }

    #[test]
    fn half_are_forged_and_those_that_are_not_come_again() {
        let keys = Keys::make().unwrap();
        let token = |number| keys.good(Algorithm::Hs256, number).unwrap();
        let good: Vec<Sent> = (0..10).map(|number| with_token(token(number))).collect();
        let all = half_forged(&good, &token(0)).unwrap();
        let forged: Vec<bool> = all.iter().map(|sent| sent.expected == Some(FORGED)).collect();
        assert!(forged.iter().enumerate().all(|(place, forged)| *forged == (place % 2 == 1)));
        let distinct = |wanted: bool| {
            let those = all.iter().zip(&forged).filter(|(_, forged)| **forged == wanted);
            those.map(|(sent, _)| &sent.headers).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((distinct(false), distinct(true)), (10, NEVER_FORGED / 2));
    }
}
