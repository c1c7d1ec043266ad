//! local_rate_limit, as it ships and as one may set it, Envoy's own local_ratelimit, and Lua.
//!
//! Clients are told nothing of their limits, as is the default of all three, but in `limit-announced`.
//! The shipped policy is measured with other numbers in its buckets, so that all requests pass or none does. Those
//! that pass are charged to buckets that hold billions, and into which a token flows in 0.9 s: they are never
//! empty and, once used, never full, so that nobody can forget the buckets of idle clients to make it easier.

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

use super::{Behaviour, Module, Setup};
use crate::rival::Rival;
use crate::workload::{Answer, Budget, PASSED, Probe, Sent, Workload, budget};

pub(super) const BEHAVIOUR: Behaviour =
    Behaviour { name: "local-rate-limit", workloads: NAMES, quick: &["limit-per-client"], prepare };

const NAMES: &[&str] = &["limit-one-bucket", "limit-per-client", "limit-refused", "limit-announced"];

const BUDGETS: &[Budget] = &[budget("lua", 1.0)];
const REFUSED: Answer = Answer { status: 429, body: "local_rate_limited" };
const PATH: &str = "/orders/17";
const OPEN: &str = "/health";

/// Different clients where each has a bucket: fewer than any implementation remembers (10,000).
const CLIENTS: usize = 1000;
/// Tokens that a worker takes at a time, where it borrows some.
const LEASE: u32 = 100;

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
}

/// How our module keeps its buckets.
#[derive(Debug, Clone, Copy)]
enum Variant {
    AsShipped,
    /// Each worker borrows tokens from the shared buckets.
    Lease,
    /// Each worker has buckets of its own.
    Worker,
}

/// Each workload has a policy, and so Envoys, of its own.
fn prepare(names: &[&'static str], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    names.iter().map(|name| setup(name, modules)).collect()
}

fn setup(name: &'static str, modules: &[Module]) -> anyhow::Result<Setup> {
    let one = || vec![Sent::plain(PATH)];
    let one_bucket = Policy { together: ENDLESS, client: None, announced: false };
    let (what, policy, requests, expected) = match name {
        "limit-one-bucket" => ("all pass, charged to one bucket", one_bucket, one(), PASSED),
        "limit-announced" => (
            "the same, and x-ratelimit headers tell clients of it",
            Policy { announced: true, ..one_bucket },
            one(),
            PASSED,
        ),
        "limit-per-client" => (
            "all pass, charged to one bucket and to that of their client, 1000 clients in turn",
            Policy { client: Some(ENDLESS_OF_CLIENT), ..one_bucket },
            (0..CLIENTS).map(of_client).collect(),
            PASSED,
        ),
        _ => {
            let empty = Policy { together: EMPTY, ..one_bucket };
            ("all are refused by one empty bucket", empty, one(), REFUSED)
        }
    };
    let probes = probes(policy, &requests, expected);
    let workload = Workload { name, what, requests, expected, probes, budgets: BUDGETS };
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
    let ours = |name: &str, module: &Module, variant: Variant| {
        let rival = Rival::new(name, "envoy-configs/local-rate-limit/wasm.yaml", |hcm| {
            let configuration = filter_config(hcm)?.pointer_mut("/config/configuration/value");
            set_policy_of_ours(configuration.context("there is no configuration")?, policy, variant)
        });
        rival?.with_module(&module.file)
    };
    let shipped =
        Module { name: "local_rate_limit".to_owned(), file: xtask::modules::ensure("local_rate_limit")? };
    let mut rivals = vec![
        Rival::baseline()?,
        Rival::new("native", "envoy-configs/local-rate-limit/native.yaml", |hcm| {
            set_policy_of_native(filter_config(hcm)?, policy)
        })?,
        Rival::new("lua", "envoy-configs/local-rate-limit/lua.yaml", |hcm| {
            set_policy_of_lua(filter_config(hcm)?, policy)
        })?,
        ours("local_rate_limit", &shipped, Variant::AsShipped)?,
    ];
    // Nobody borrows from an empty bucket.
    if policy.together.max_tokens > LEASE {
        rivals.push(ours(&format!("local_rate_limit{{lease:{LEASE}}}"), &shipped, Variant::Lease)?);
    }
    rivals.push(ours("local_rate_limit{scope:worker}", &shipped, Variant::Worker)?);
    for module in modules {
        rivals.push(ours(&module.name, module, Variant::AsShipped)?);
    }
    let counters = ["wasmcustom.foregate.local_rate_limit.", "ingress.http_local_rate_limit."];
    Ok(rivals.into_iter().map(|rival| rival.counted_by(&counters)).collect())
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
    match variant {
        Variant::AsShipped => {}
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
    set_limits(value, policy, &["rate_limits", "max_dynamic_descriptors"])?;
    set_announced(value, policy)
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
    use super::*;

    #[test]
    fn the_shipped_configurations_take_every_policy() {
        for name in NAMES {
            let rivals = if *name == "limit-refused" { 5 } else { 6 };
            assert_eq!(setup(name, &[]).unwrap().rivals.len(), rivals, "{name}");
        }
    }

    #[test]
    fn each_implementation_is_given_the_same_numbers() {
        let policy = Policy { together: EMPTY, client: Some(ENDLESS_OF_CLIENT), announced: true };
        let filter = || {
            json!({
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
        }
        assert_eq!((&ours["lease"], &ours["descriptors"][1]["lease"]), (&json!(100), &json!(0)));

        let text = "local TOGETHER = x\nlocal CLIENT = y\nlocal USUAL = { TOGETHER, CLIENT }\n\
                    function envoy_on_response(handle)\nend\n";
        let mut code = json!({ "default_source_code": { "inline_string": text } });
        set_policy_of_lua(&mut code, policy).unwrap();
        let expected = "local TOGETHER = limit(1, 1, 86400, false)\n\
                        local CLIENT = limit(2000000000, 1000000, 864000, true)\n\
                        local USUAL = { TOGETHER, CLIENT }\n\
                        function envoy_on_response(handle)\nend\n";
        assert_eq!(code["default_source_code"]["inline_string"], expected);

        let alone = Policy { client: None, announced: false, ..policy };
        set_policy_of_native(&mut native, alone).unwrap();
        assert_eq!(native, json!({ "token_bucket": EMPTY.json() }));
        set_policy_of_lua(&mut code, alone).unwrap();
        let code = code["default_source_code"]["inline_string"].as_str().unwrap();
        assert!(code.ends_with("\nlocal USUAL = { TOGETHER }\n"), "{code}");
    }

    #[test]
    fn a_configuration_without_what_is_to_be_changed_is_an_error() {
        let policy = Policy { together: EMPTY, client: None, announced: false };
        let refused = |result: anyhow::Result<()>| result.unwrap_err().to_string();
        let mut without = json!({ "token_bucket": {}, "descriptors": [] });
        assert_eq!(refused(set_policy_of_native(&mut without, policy)), "there is no rate_limits");
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
