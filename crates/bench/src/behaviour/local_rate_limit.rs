//! local_rate_limit, as it ships and as one may set it, Envoy's own local_ratelimit, and Lua.
//!
//! Clients are told nothing of their limits, as is the default of all three, but in `limit-announced`.
//! The shipped policy is measured with other numbers in its buckets, so that all requests pass or none does. Those
//! that pass are charged to buckets that hold billions, and into which a token flows in 0.9 s: they are never
//! empty and, once used, never full, so that nobody can forget the buckets of idle clients to make it easier.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

use super::{Behaviour, FUSED, Module, Setup};
use crate::rival::{self, BASELINE, Rival};
use crate::workload::{Answer, Budget, Kind, PASSED, Probe, Sent, Unfair, Workload, budget, unfair};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "local-rate-limit", workloads: KINDS, smoke: &["limit-per-client"], prepare };

const BUDGETS: &[Budget] = &[budget("lua", 1.0)];
const REFUSED: Answer = Answer { status: 429, body: "local_rate_limited" };
const PATH: &str = "/orders/17";
const OPEN: &str = "/health";

/// Different clients where each has a bucket: fewer than any implementation remembers (10,000).
const CLIENTS: usize = 1000;
/// Many more, and how many are then to be remembered: not every memory is filled evenly, and Lua's forgets the older half.
const MANY_CLIENTS: usize = 10_000;
const MEMORY_FOR_MANY: u32 = 30_000;
/// Tokens that a worker takes at a time, where it borrows some.
const LEASE: u32 = 100;

/// Our module that does nothing else, as it ships and as one may set it.
const OURS_ALONE: &str = "local_rate_limit";
const LEASED: &str = "local_rate_limit{lease:100}";
const OF_WORKER: &str = "local_rate_limit{scope:worker}";

const ALL: &[&str] = &[BASELINE, "native", "lua", OURS_ALONE, LEASED, OF_WORKER, FUSED];
/// Nobody borrows from an empty bucket.
const WITHOUT_LEASE: &[&str] = &[BASELINE, "native", "lua", OURS_ALONE, OF_WORKER, FUSED];

const COUNTS_ALONE: &str = "each worker counts for itself, and lets as much through as all may together";

const KINDS: &[Kind] = &[
    kind("limit-one-bucket", "all pass, charged to one bucket", &[PASSED], ALL, &[]),
    kind(
        "limit-per-client",
        "all pass, charged to one bucket and to that of their client, 1000 clients in turn",
        &[PASSED],
        ALL,
        &[],
    ),
    kind(
        "limit-10000-clients",
        "the same with 10,000 clients, all seen before, by memories that are set to hold them",
        &[PASSED],
        ALL,
        &[],
    ),
    kind(
        "limit-refused",
        "all are refused by one empty bucket",
        &[REFUSED],
        WITHOUT_LEASE,
        &[unfair("native", "it does not tell clients when to come again (retry-after), as the others do")],
    ),
    kind(
        "limit-announced",
        "all pass, charged to one bucket, and x-ratelimit headers tell clients of it",
        &[PASSED],
        ALL,
        &[],
    ),
    kind(
        "limit-two-workers",
        "two workers; all pass, charged to one bucket; on a machine with two cores one of the workers shares its core with \
         the load",
        &[PASSED],
        ALL,
        &[unfair("lua", COUNTS_ALONE), unfair(OF_WORKER, COUNTS_ALONE)],
    ),
];

const fn kind(
    name: &'static str,
    what: &'static str,
    answers: &'static [Answer],
    rivals: &'static [&'static str],
    unfair: &'static [Unfair],
) -> Kind {
    Kind { name, what, answers, rivals, budgets: BUDGETS, unfair }
}

/// Envoy's `token_bucket`, with the interval in seconds.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    max_tokens: u32,
    tokens_per_fill: u32,
    fill_seconds: u32,
}

const ENDLESS: Bucket =
    Bucket { max_tokens: 3_000_000_000, tokens_per_fill: 1_000_000, fill_seconds: 864_000 };
/// Tighter than that for all, so that the answers tell of this one.
const ENDLESS_OF_CLIENT: Bucket = Bucket { max_tokens: 2_000_000_000, ..ENDLESS };
/// A token a day: it is taken before anything is timed.
const EMPTY: Bucket = Bucket { max_tokens: 1, tokens_per_fill: 1, fill_seconds: 86_400 };

/// The numbers in the shipped policy, and which limits are left of it.
#[derive(Debug, Clone, Copy)]
struct Policy {
    /// For all requests together.
    together: Bucket,
    /// For each client; without it there is none, and none for logins.
    client: Option<Bucket>,
    /// Whether clients are told in headers.
    announced: bool,
    /// How many clients are remembered, where that is not as many as if nothing is said.
    memory: Option<u32>,
    workers: u32,
}

/// How our module keeps its buckets.
#[derive(Debug, Clone, Copy)]
enum Variant {
    AsShipped,
    /// Each worker borrows tokens from the shared buckets.
    Lease,
    /// Each worker has buckets of its own.
    Worker,
    /// As shipped, in the module of all filters.
    Fused,
}

/// Each workload has a policy, and so Envoys, of its own.
fn prepare(kinds: &[&'static Kind], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    kinds.iter().map(|kind| setup(kind, modules)).collect()
}

fn setup(kind: &'static Kind, modules: &[Module]) -> anyhow::Result<Setup> {
    let one = || vec![Sent::plain(PATH)];
    let clients = |count: usize| (0..count).map(of_client).collect::<Vec<_>>();
    let one_bucket = Policy { together: ENDLESS, client: None, announced: false, memory: None, workers: 1 };
    let per_client = Policy { client: Some(ENDLESS_OF_CLIENT), ..one_bucket };
    let (policy, requests) = match kind.name {
        "limit-one-bucket" => (one_bucket, one()),
        "limit-announced" => (Policy { announced: true, ..one_bucket }, one()),
        "limit-per-client" => (per_client, clients(CLIENTS)),
        "limit-10000-clients" => {
            (Policy { memory: Some(MEMORY_FOR_MANY), ..per_client }, clients(MANY_CLIENTS))
        }
        "limit-refused" => (Policy { together: EMPTY, ..one_bucket }, one()),
        "limit-two-workers" => (Policy { workers: 2, ..one_bucket }, one()),
        name => anyhow::bail!("no workload is called {name:?}"),
    };
    let workload = Workload::of(kind, requests);
    let probes = probes(policy, &workload.requests, workload.expected);
    let workload = workload.probed(probes);
    let workload = if policy.memory.is_some() { workload.all_seen_before() } else { workload };
    Ok(Setup { rivals: rivals(policy, modules)?, workloads: vec![workload] })
}

fn of_client(number: usize) -> Sent {
    let [.., high, low] = number.to_be_bytes();
    Sent::plain(PATH).with("x-forwarded-for", format!("198.18.{high}.{low}"))
}

/// The only token of an empty bucket is taken, then it is refused; the answer tells of the bucket that is meant; an
/// exempt path passes.
fn probes(policy: Policy, requests: &[Sent], expected: Answer) -> Vec<Probe> {
    let tightest = policy.client.unwrap_or(policy.together);
    let limit = policy.announced.then(|| ("x-ratelimit-limit".to_owned(), tightest.max_tokens.to_string()));
    let limit = limit.into_iter().collect();
    let first = requests.first().cloned().unwrap_or(Sent::plain(PATH));
    vec![
        Probe::new("the first request", first.clone(), PASSED),
        Probe { headers: limit, ..Probe::new("the same request again", first, expected) },
        Probe::new("an exempt path", Sent::plain(OPEN), PASSED),
    ]
}

fn rivals(policy: Policy, modules: &[Module]) -> anyhow::Result<Vec<Rival>> {
    let ours = |name: &str, file: &Path, variant: Variant| {
        let rival = Rival::new(name, "envoy-configs/local-rate-limit/wasm.yaml", |hcm| {
            let configuration = filter_config(hcm)?.pointer_mut("/config/configuration/value");
            set_policy_of_ours(configuration.context("there is no configuration")?, policy, variant)?;
            match (variant, policy.announced) {
                (Variant::Fused, false) => {
                    rival::fuse(hcm, "local_rate_limit", &["proxy_on_request_headers"])
                }
                (Variant::Fused, true) => rival::fuse(
                    hcm,
                    "local_rate_limit",
                    &["proxy_on_request_headers", "proxy_on_response_headers"],
                ),
                _ => Ok(()),
            }
        });
        rival?.with_module(file)
    };
    let alone = xtask::modules::ensure("local_rate_limit")?;
    let mut rivals = vec![
        Rival::baseline()?,
        Rival::new("native", "envoy-configs/local-rate-limit/native.yaml", |hcm| {
            set_policy_of_native(filter_config(hcm)?, policy)
        })?,
        Rival::new("lua", "envoy-configs/local-rate-limit/lua.yaml", |hcm| {
            set_policy_of_lua(filter_config(hcm)?, policy)
        })?,
        ours(OURS_ALONE, &alone, Variant::AsShipped)?,
    ];
    if policy.together.max_tokens > LEASE {
        rivals.push(ours(LEASED, &alone, Variant::Lease)?);
    }
    rivals.push(ours(OF_WORKER, &alone, Variant::Worker)?);
    rivals.push(ours(FUSED, &xtask::modules::ensure("foregate")?, Variant::Fused)?);
    for module in modules {
        rivals.push(ours(&module.name, &module.file, Variant::AsShipped)?);
    }
    let counters = ["wasmcustom.foregate.local_rate_limit.", "ingress.http_local_rate_limit."];
    let set = |rival: Rival| {
        let rival = rival.counted_by(&counters);
        if policy.workers > 1 { rival.with_workers(policy.workers) } else { Ok(rival) }
    };
    rivals.into_iter().map(set).collect()
}

/// The configuration of the first filter.
fn filter_config(hcm: &mut Map<String, Value>) -> anyhow::Result<&mut Value> {
    let config = hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config"));
    config.context("there is no filter")
}

impl Bucket {
    fn json(self) -> Value {
        let Self { max_tokens, tokens_per_fill, fill_seconds } = self;
        let fill_interval = format!("{fill_seconds}s");
        json!({ "max_tokens": max_tokens, "tokens_per_fill": tokens_per_fill, "fill_interval": fill_interval })
    }
}

fn set_policy_of_ours(value: &mut Value, policy: Policy, variant: Variant) -> anyhow::Result<()> {
    let value = value.as_object_mut().context("the configuration is no object")?;
    set_limits(value, policy, &[])?;
    set_announced(value, policy)?;
    if let Some(memory) = policy.memory {
        value.insert("max_dynamic_descriptors".to_owned(), memory.into());
    }
    match variant {
        Variant::AsShipped | Variant::Fused => {}
        Variant::Worker => drop(value.insert("scope".to_owned(), "worker".into())),
        Variant::Lease => {
            value.insert("lease".to_owned(), LEASE.into());
            // Its bucket is smaller than that.
            if let Some(login) = value.get_mut("descriptors").and_then(|all| all.get_mut(1)?.as_object_mut())
            {
                login.insert("lease".to_owned(), 0.into());
            }
        }
    }
    Ok(())
}

fn set_policy_of_native(value: &mut Value, policy: Policy) -> anyhow::Result<()> {
    let value = value.as_object_mut().context("the filter has no configuration")?;
    ensure!(is_fully_on(value), "the filter is not enabled and enforced for all requests");
    set_limits(value, policy, &["rate_limits", "max_dynamic_descriptors"])?;
    if let Some(memory) = policy.memory {
        value.insert("max_dynamic_descriptors".to_owned(), memory.into());
    }
    set_announced(value, policy)
}

/// Whether Envoy's own filter counts every request and refuses every one that is too many. It does neither unless told to.
fn is_fully_on(value: &Map<String, Value>) -> bool {
    ["filter_enabled", "filter_enforced"].iter().all(|field| {
        let share = value.get(*field).and_then(|it| it.get("default_value"));
        share == Some(&json!({ "numerator": 100, "denominator": "HUNDRED" }))
    })
}

/// The shipped policy tells clients.
fn set_announced(value: &mut Map<String, Value>, policy: Policy) -> anyhow::Result<()> {
    const FIELD: &str = "enable_x_ratelimit_headers";
    ensure!(value.contains_key(FIELD), "there is no {FIELD}");
    if !policy.announced {
        value.remove(FIELD);
    }
    Ok(())
}

/// The two speak the same language; what goes with the descriptors goes if they do.
fn set_limits(
    value: &mut Map<String, Value>,
    policy: Policy,
    with_descriptors: &[&str],
) -> anyhow::Result<()> {
    *value.get_mut("token_bucket").context("there is no token_bucket")? = policy.together.json();
    let descriptors = value.get_mut("descriptors").context("there are no descriptors")?;
    match policy.client {
        Some(bucket) => {
            let first = descriptors.pointer_mut("/0/token_bucket");
            *first.context("the first descriptor has no token_bucket")? = bucket.json();
        }
        None => {
            for name in std::iter::once(&"descriptors").chain(with_descriptors) {
                value.remove(*name).with_context(|| format!("there is no {name}"))?;
            }
        }
    }
    Ok(())
}

fn set_policy_of_lua(value: &mut Value, policy: Policy) -> anyhow::Result<()> {
    let code = value.pointer_mut("/default_source_code/inline_string").context("there is no code")?;
    let mut text = code.as_str().context("the code is no text")?.to_owned();
    let mut set = |name: &str, new: String| {
        let start = format!("local {name} = ");
        let old = text.lines().find(|line| line.starts_with(&start)).map(str::to_owned);
        let old = old.with_context(|| format!("the code has no line {start:?}"))?;
        ensure!(text.matches(&old).count() == 1, "the code has {old:?} twice");
        text = text.replace(&old, &(start + &new));
        anyhow::Ok(())
    };
    let limit = |bucket: Bucket, by_client: bool| {
        let Bucket { max_tokens, tokens_per_fill, fill_seconds } = bucket;
        format!("limit({max_tokens}, {tokens_per_fill}, {fill_seconds}, {by_client})")
    };
    set("TOGETHER", limit(policy.together, false))?;
    match policy.client {
        Some(bucket) => set("CLIENT", limit(bucket, true))?,
        None => set("USUAL", "{ TOGETHER }".to_owned())?,
    }
    if let Some(memory) = policy.memory {
        set("MOST_CLIENTS", memory.to_string())?;
    }
    if !policy.announced {
        // The last of it: what an engineer would leave out who has nothing to tell.
        let telling = text.find("function envoy_on_response(").context("the code tells clients nothing")?;
        text.truncate(telling);
    }
    *code = text.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::assert_is_as_told;
    use super::*;

    #[test]
    fn the_shipped_configurations_take_every_policy() {
        for kind in KINDS {
            assert_is_as_told(&setup(kind, &[]).unwrap(), &[kind]);
        }
    }

    #[test]
    fn each_implementation_is_given_the_same_numbers() {
        let policy = Policy {
            together: EMPTY,
            client: Some(ENDLESS_OF_CLIENT),
            announced: true,
            memory: Some(MEMORY_FOR_MANY),
            workers: 1,
        };
        let all = json!({ "default_value": { "numerator": 100, "denominator": "HUNDRED" } });
        let filter = || {
            json!({
                "filter_enabled": all, "filter_enforced": all,
                "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
                "token_bucket": {}, "descriptors": [{ "token_bucket": {} }, { "token_bucket": {} }],
                "rate_limits": [], "max_dynamic_descriptors": 1,
            })
        };
        let (mut ours, mut native) = (filter(), filter());
        set_policy_of_ours(&mut ours, policy, Variant::Lease).unwrap();
        set_policy_of_native(&mut native, policy).unwrap();
        for value in [&ours, &native] {
            assert_eq!(value["token_bucket"]["fill_interval"], "86400s");
            assert_eq!(value["descriptors"][0]["token_bucket"]["max_tokens"], 2_000_000_000);
            assert_eq!(value["max_dynamic_descriptors"], 30_000);
        }
        assert_eq!((&ours["lease"], &ours["descriptors"][1]["lease"]), (&json!(100), &json!(0)));

        let text = "local TOGETHER = x\nlocal CLIENT = y\nlocal MOST_CLIENTS = 10000\nlocal USUAL = { TOGETHER, CLIENT }\n\
                    function envoy_on_response(handle)\nend\n";
        let mut code = json!({ "default_source_code": { "inline_string": text } });
        set_policy_of_lua(&mut code, policy).unwrap();
        let expected = "local TOGETHER = limit(1, 1, 86400, false)\n\
                        local CLIENT = limit(2000000000, 1000000, 864000, true)\n\
                        local MOST_CLIENTS = 30000\n\
                        local USUAL = { TOGETHER, CLIENT }\n\
                        function envoy_on_response(handle)\nend\n";
        assert_eq!(code["default_source_code"]["inline_string"], expected);

        let alone = Policy { client: None, announced: false, memory: None, ..policy };
        set_policy_of_native(&mut native, alone).unwrap();
        assert_eq!(
            native,
            json!({ "filter_enabled": all, "filter_enforced": all, "token_bucket": EMPTY.json() })
        );
        set_policy_of_lua(&mut code, alone).unwrap();
        let code = code["default_source_code"]["inline_string"].as_str().unwrap();
        assert!(code.ends_with("\nlocal USUAL = { TOGETHER }\n"), "{code}");
    }

    #[test]
    fn a_configuration_without_what_is_to_be_changed_is_an_error() {
        let policy = Policy { together: EMPTY, client: None, announced: false, memory: None, workers: 1 };
        let refused = |result: anyhow::Result<()>| result.unwrap_err().to_string();
        let all = json!({ "default_value": { "numerator": 100, "denominator": "HUNDRED" } });
        let mut without = json!({
            "filter_enabled": all, "filter_enforced": all, "token_bucket": {}, "descriptors": [],
        });
        assert_eq!(refused(set_policy_of_native(&mut without, policy)), "there is no rate_limits");
        let mut half = json!({ "filter_enabled": all, "token_bucket": {} });
        assert_eq!(
            refused(set_policy_of_native(&mut half, policy)),
            "the filter is not enabled and enforced for all requests"
        );
        let mut empty = json!({});
        assert_eq!(
            refused(set_policy_of_ours(&mut empty, policy, Variant::AsShipped)),
            "there is no token_bucket"
        );
        let mut code = json!({ "default_source_code": { "inline_string": "local OTHER = 1" } });
        let message = refused(set_policy_of_lua(&mut code, policy));
        assert_eq!(message, "the code has no line \"local TOGETHER = \"");
    }
}
