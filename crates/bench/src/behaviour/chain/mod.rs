//! The whole chain: four filters in one module, as four modules, as Envoy's own filters with and without their cache of
//! tokens, and in Lua, as one script and as four.
//!
//! The shipped policies are measured with other numbers in the buckets of the limit, so that all requests pass it. The
//! buckets hold billions, and a token flows in every 0.9 s: they are never empty and, once used, never full.
//! Lines are written as they are shipped: for a tenth of the requests, and all that fail.

pub(super) mod parts;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

use super::jwt_reject::tokens::{Algorithm, Keys, forged, without_signature};
use super::jwt_reject::{EXPIRED, FORGED, MALFORMED, MISSING, set_keys};
use super::sampled_log;
use super::{Behaviour, Module, Setup};
use crate::rival::{self, BASELINE, Rival, TELLING};
use crate::workload::{Answer, Budget, Kind, PASSED, Probe, Sent, Unfair, Workload, budget, unfair};

pub(super) const BEHAVIOUR: Behaviour = Behaviour { name: "chain", workloads: KINDS, smoke: &[], prepare };

const FUSED: &str = "envoy-configs/chain/fused.yaml";
const SEPARATE: &str = "envoy-configs/chain/separate.yaml";
const NATIVE: &str = "envoy-configs/chain/native.yaml";
const LUA: &str = "envoy-configs/chain/lua.yaml";
/// Where an access logger stands as it is shipped.
const LOGGER: &str = "envoy-configs/sampled-log/access-logger.yaml";

/// What they are called in tables.
const FOUR_MODULES: &str = "four-modules";
const NATIVE_CACHE: &str = "native-cache";
const FOUR_SCRIPTS: &str = "lua-four";

const GOOD: &[Budget] =
    &[budget(FOUR_MODULES, 0.5), budget("lua", 0.3), budget("native", 0.4), budget(NATIVE_CACHE, 1.0)];
const REFUSED: &[Budget] = &[budget(FOUR_MODULES, 0.5)];

const RIVALS: &[&str] = &[
    BASELINE,
    "native",
    NATIVE_CACHE,
    "lua",
    FOUR_SCRIPTS,
    FOUR_MODULES,
    "foregate",
    "foregate, access logger",
    "foregate{lease:100}, access logger",
];

const NO_SIGNATURE: &str = "it checks no signature: what it leaves out would cost it more";
const LUA_CHECKS_LESS: &[Unfair] = &[unfair("lua", NO_SIGNATURE), unfair(FOUR_SCRIPTS, NO_SIGNATURE)];

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
    kind("chain-good", "one client with one good token (RS256)", &[PASSED], GOOD, LUA_CHECKS_LESS),
    kind(
        "chain-1000",
        "1000 clients in turn, each with its good token (RS256)",
        &[PASSED],
        GOOD,
        LUA_CHECKS_LESS,
    ),
    kind("chain-missing", "no token", &[MISSING], REFUSED, LUA_CHECKS_LESS),
    kind("chain-forged", "one forged token again and again (RS256)", &[FORGED], REFUSED, &[]),
    kind(
        "chain-attack",
        "an attack by 1000 clients: of four requests, one has no token, one a malformed and one an expired one, and one a \
         forged one not seen before (RS256)",
        &[MISSING, MALFORMED, EXPIRED, FORGED],
        REFUSED,
        &[],
    ),
];

const API: &str = "/orders/17";
const OPEN: &str = "/health";
/// Tokens that a worker takes at a time, where it borrows some.
const LEASE: u32 = 100;
/// Different tokens and clients, fewer than anybody remembers.
const MANY: usize = 1000;
/// Forged tokens of an attack, none of which is to be seen twice in a run of the usual length.
const ATTACKS: usize = 30_000;

/// All workloads run with the same Envoys.
fn prepare(kinds: &[&'static Kind], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    let keys = Keys::make()?;
    let rivals = rivals(&keys.jwks(), modules)?;
    let workloads = kinds.iter().map(|kind| workload(kind, &keys)).collect::<anyhow::Result<_>>()?;
    Ok(vec![Setup { rivals, workloads }])
}

fn workload(kind: &'static Kind, keys: &Keys) -> anyhow::Result<Workload> {
    let good = || keys.good(Algorithm::Rs256, 0);
    let requests: Vec<Sent> = match kind.name {
        "chain-good" => vec![sent(0, good()?)],
        "chain-1000" => {
            let tokens = keys.many(Algorithm::Rs256, MANY)?.into_iter().enumerate();
            tokens.map(|(number, token)| sent(number, token)).collect()
        }
        "chain-missing" => vec![of_client(0)],
        "chain-forged" => vec![sent(0, forged(&good()?, 0)?)],
        "chain-attack" => attack(&good()?, &keys.expired(Algorithm::Rs256)?)?,
        name => anyhow::bail!("no workload is called {name:?}"),
    };
    let workload = Workload::of(kind, requests);
    let told = |what, headers: &[(&str, &str)]| Probe {
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Probe::new(what, Sent::plain(API), PASSED)
    };
    let passed = told(
        "a good token",
        &[
            ("x-content-type-options", "nosniff"),
            ("strict-transport-security", "max-age=63072000"),
            // Without its token, and without what only the gateway may say; and with whose request it is.
            (SEEN, "<><foregate><><00000000000000000000000000000000>"),
        ],
    );
    let forger = sent(0, good()?).with("host", TELLING.to_owned());
    let forger = ["x-gateway", "x-internal-admin", "x-user"]
        .into_iter()
        .fold(forger, |request, name| request.with(name, "forged".to_owned()));
    let mut probes: Vec<Probe> = workload.first().into_iter().collect();
    probes.extend([
        Probe { request: forger, ..passed },
        Probe::new("no token", of_client(0), MISSING),
        Probe::new("a malformed token", sent(0, without_signature(&good()?)?), MALFORMED),
        Probe::new("an expired token", sent(0, keys.expired(Algorithm::Rs256)?), EXPIRED),
        Probe::new("an open path", Sent::plain(OPEN), PASSED),
    ]);
    // Lua checks no signature. Where all tokens are good it is in the comparison all the same: what it leaves out would
    // cost it more.
    if kind.answers.contains(&FORGED) {
        probes.push(Probe::new("a forged token", sent(0, forged(&good()?, ATTACKS)?), FORGED));
    }
    Ok(workload.probed(probes))
}

/// Of four requests three with something wrong that shows at once, and one that shows only in its signature.
pub(crate) fn attack(good: &str, expired: &str) -> anyhow::Result<Vec<Sent>> {
    let malformed = without_signature(good)?;
    let mut all = Vec::with_capacity(4 * ATTACKS);
    for number in 0..ATTACKS {
        let client = number % MANY;
        all.extend([
            of_client(client),
            sent(client, malformed.clone()).answered(MALFORMED),
            sent(client, expired.to_owned()).answered(EXPIRED),
            sent(client, forged(good, number)?).answered(FORGED),
        ]);
    }
    Ok(all)
}

/// The header in which a telling host tells of a request: what is left of its token, what is left of what only the gateway
/// may say, and whose it is.
const SEEN: &str = "x-seen";

fn of_client(number: usize) -> Sent {
    let [.., high, low] = number.to_be_bytes();
    Sent::plain(API).with("x-forwarded-for", format!("198.18.{high}.{low}"))
}

fn sent(number: usize, token: String) -> Sent {
    of_client(number).with("authorization", format!("Bearer {token}"))
}

fn rivals(jwks: &str, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let native = |name, cache: bool| {
        Rival::new(name, NATIVE, |hcm| {
            set_keys(hcm, jwks, None)?;
            ensure!(cache || remove(hcm, "jwt_cache_config") == 1, "there is not one jwt_cache_config");
            fill_buckets(hcm, 1)?;
            hcm.insert("access_log".to_owned(), json!([sampled_log::access_log(NATIVE, 10)?]));
            tell(hcm)
        })
    };
    let lua = |name, four: bool| {
        Rival::new(name, LUA, |hcm| {
            let filters =
                hcm.get_mut("http_filters").and_then(Value::as_array_mut).context("http_filters")?;
            let filter = filters.first_mut().context("there is no filter")?;
            fill_buckets_of_lua(script_mut(filter)?)?;
            if four {
                let scripts = four_scripts(script_mut(filter)?)?;
                let filter = filters.remove(0);
                for (place, script) in scripts.into_iter().enumerate() {
                    let mut own = filter.clone();
                    *script_mut(&mut own)? = script;
                    filters.insert(place, own);
                }
            }
            tell(hcm)
        })
    };
    let separate = Rival::new(FOUR_MODULES, SEPARATE, |hcm| {
        set_keys(hcm, jwks, None)?;
        fill_buckets(hcm, 1)?;
        tell(hcm)
    })?;
    let mut rivals = vec![
        Rival::baseline()?,
        native("native", false)?,
        native(NATIVE_CACHE, true)?,
        lua("lua", false)?,
        lua(FOUR_SCRIPTS, true)?,
        separate.with_modules(xtask::modules::ensure)?,
    ];
    let shipped = Module { name: "foregate".to_owned(), file: xtask::modules::ensure("foregate")? };
    for module in std::iter::once(&shipped).chain(modules) {
        let fused = Rival::new(&module.name, FUSED, |hcm| {
            set_keys(hcm, jwks, None)?;
            fill_buckets(hcm, 1)?;
            tell(hcm)
        })?;
        rivals.push(fused.with_module(&module.file)?);
        for (name, lease) in
            [(module.name.clone(), false), (format!("{}{{lease:{LEASE}}}", module.name), true)]
        {
            let logger = Rival::new(&format!("{name}, access logger"), FUSED, |hcm| {
                set_keys(hcm, jwks, None)?;
                fill_buckets(hcm, 1)?;
                if lease {
                    let found = in_filters(hcm, |members| match members.get_mut("local_rate_limit") {
                        Some(Value::Object(limiter)) => {
                            limiter.insert("lease".to_owned(), LEASE.into());
                            1
                        }
                        _ => 0,
                    });
                    ensure!(found == 1, "{found} limiters");
                }
                log_by_access_logger(hcm)?;
                tell(hcm)
            })?;
            rivals.push(logger.with_module(&module.file)?);
        }
    }
    let counters = ["wasmcustom.foregate.", "http.ingress.jwt_authn."];
    Ok(rivals.into_iter().map(|rival| rival.counted_by(&counters)).collect())
}

fn tell(hcm: &mut Map<String, Value>) -> anyhow::Result<()> {
    let told = ["authorization", "x-gateway", "x-internal-admin", "x-user"];
    rival::tell(hcm, &[(SEEN, told.map(|name| format!("<%REQ({name})%>")).concat())])
}

/// Calls `step` with each object within, however deep, and gives the sum of what it gives.
fn each(value: &mut Value, step: &mut impl FnMut(&mut Map<String, Value>) -> usize) -> usize {
    match value {
        Value::Object(members) => {
            step(members) + members.values_mut().map(|inner| each(inner, step)).sum::<usize>()
        }
        Value::Array(items) => items.iter_mut().map(|inner| each(inner, step)).sum(),
        _ => 0,
    }
}

fn in_filters(hcm: &mut Map<String, Value>, mut step: impl FnMut(&mut Map<String, Value>) -> usize) -> usize {
    hcm.get_mut("http_filters").map_or(0, |filters| each(filters, &mut step))
}

/// Removes a member wherever it is, and says how often it was there.
fn remove(hcm: &mut Map<String, Value>, name: &str) -> usize {
    in_filters(hcm, |members| usize::from(members.remove(name).is_some()))
}

/// Fills the buckets of the limit for each client, of which there are as many.
fn fill_buckets(hcm: &mut Map<String, Value>, expected: usize) -> anyhow::Result<()> {
    let endless =
        json!({ "max_tokens": 3_000_000_000_u32, "tokens_per_fill": 1_000_000, "fill_interval": "864000s" });
    let found = in_filters(hcm, |members| match members.get_mut("token_bucket") {
        Some(bucket) if bucket["max_tokens"] == 100 => {
            *bucket = endless.clone();
            1
        }
        _ => 0,
    });
    ensure!(found == expected, "{found} buckets, not {expected}");
    Ok(())
}

fn script_mut(filter: &mut Value) -> anyhow::Result<&mut String> {
    match filter.pointer_mut("/typed_config/default_source_code/inline_string") {
        Some(Value::String(script)) => Ok(script),
        _ => anyhow::bail!("there is no script"),
    }
}

fn fill_buckets_of_lua(script: &mut String) -> anyhow::Result<()> {
    for (old, new) in [
        ("local EACH = 10 * 1000 / 100\n", "local EACH = 864000 * 1000 / 1000000\n"),
        ("local ROOM = 100 * EACH\n", "local ROOM = 3000000000 * EACH\n"),
    ] {
        ensure!(script.matches(old).count() == 1, "the script has not one line {old:?}");
        *script = script.replace(old, new);
    }
    Ok(())
}

/// The script's four parts, each as a script of its own.
fn four_scripts(script: &str) -> anyhow::Result<Vec<String>> {
    const ENTRIES: [&str; 4] = [
        "function envoy_on_request(handle)\n  limit(handle, handle:headers())\nend\n",
        "function envoy_on_request(handle)\n  check_token(handle, handle:headers())\nend\n",
        "function envoy_on_request(handle)\n  edit_request(handle:headers())\nend\n\
         function envoy_on_response(handle)\n  edit_response(handle:headers())\nend\n",
        "envoy_on_request = begin\n\
         function envoy_on_response(handle)\n  log(handle, handle:headers())\nend\n",
    ];
    let (parts, _) = script.split_once("-- All of it.\n").context("the script has no end")?;
    let parts: Vec<&str> = parts.split("-- Part ").collect();
    let (common, parts) = parts.split_first().context("the script has no parts")?;
    ensure!(parts.len() == ENTRIES.len(), "{} parts", parts.len());
    Ok(parts.iter().zip(ENTRIES).map(|(part, entry)| format!("{common}-- Part {part}{entry}")).collect())
}

/// Makes the last filter of the list an access logger in the same VM, behind the filter of Envoy's that the shipped
/// access logger stands behind.
fn log_by_access_logger(hcm: &mut Map<String, Value>) -> anyhow::Result<()> {
    let filter =
        hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config/config"));
    let plugin = filter.context("there is no plugin")?;
    let list = plugin.pointer_mut("/configuration/value/filters").and_then(Value::as_array_mut);
    let mut own = list.and_then(Vec::pop).context("the list is empty")?;
    let own =
        own.get_mut("sampled_log").and_then(Value::as_object_mut).context("the last is no sampled_log")?;
    own.remove("rules").context("it has no rules")?;
    own.insert("percent_sampled".to_owned(), 100.into());
    own.insert("percent_sampled_before".to_owned(), 10.into());
    let mut config = plugin.clone();
    let value = config.pointer_mut("/configuration/value").context("configuration")?;
    *value = json!({ "filters": [{ "sampled_log": own }] });
    // A filter that writes no line has no use for what only these need.
    if let Some(allowed) = plugin.pointer_mut("/capability_restriction_config/allowed_capabilities") {
        allowed.as_object_mut().context("allowed_capabilities")?.remove("proxy_on_log");
    }
    let mut logger = sampled_log::access_log(LOGGER, 10)?;
    *logger.pointer_mut("/typed_config/config").context("the logger has no plugin")? = config;
    hcm.insert("access_log".to_owned(), json!([logger]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::assert_is_as_told;
    use super::*;

    #[test]
    fn the_workloads_are_what_is_told_of_them() {
        // One has many tokens of a key with which making one takes long.
        let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| kind.name != "chain-1000").collect();
        for setup in prepare(&kinds, &[]).unwrap() {
            assert_is_as_told(&setup, &kinds);
        }
    }

    #[test]
    fn no_forged_token_of_an_attack_comes_twice() {
        let keys = Keys::make().unwrap();
        let (good, expired) =
            (keys.good(Algorithm::Es256, 0).unwrap(), keys.expired(Algorithm::Es256).unwrap());
        let all = attack(&good, &expired).unwrap();
        let forged = all.iter().filter(|sent| sent.expected == Some(FORGED));
        let tokens: std::collections::BTreeSet<_> = forged.map(|sent| &sent.headers[1].1).collect();
        assert_eq!((all.len(), tokens.len()), (4 * ATTACKS, ATTACKS));
    }
}
