//! What each filter adds to what the chain in one module costs: the shipped chain, and the same without one of them.

use anyhow::ensure;
use serde_json::{Map, Value};

use super::{FUSED, LEASE, fill_buckets, in_filters, sent};
use crate::behaviour::jwt_reject::set_keys;
use crate::behaviour::jwt_reject::tokens::{Algorithm, Keys};
use crate::behaviour::{Behaviour, Module, Setup};
use crate::rival::{BASELINE, Rival};
use crate::workload::{Kind, PASSED, Workload};

pub(crate) const BEHAVIOUR: Behaviour =
    Behaviour { name: "chain-parts", workloads: KINDS, smoke: &[], prepare };

const KINDS: &[Kind] = &[Kind {
    name: "chain-parts",
    what: "one client with one good token (RS256), sent to the chain in one module without one of its filters",
    answers: &[PASSED],
    rivals: &[
        BASELINE,
        "foregate",
        "without local_rate_limit",
        "without jwt_reject",
        "without header_rewrite",
        "without response_mutations",
        "without sampled_log",
        "with a lease",
    ],
    budgets: &[],
    unfair: &[],
}];

/// How a chain differs from the shipped one, with what it is called.
const CHANGES: [(&str, Change); 7] = [
    ("foregate", Change::None),
    ("without local_rate_limit", Change::Without("local_rate_limit")),
    ("without jwt_reject", Change::Without("jwt_reject")),
    ("without header_rewrite", Change::Without("header_rewrite")),
    ("without response_mutations", Change::WithoutResponses),
    ("without sampled_log", Change::Without("sampled_log")),
    ("with a lease", Change::Leased),
];

#[derive(Debug, Clone, Copy)]
enum Change {
    None,
    /// Without this filter.
    Without(&'static str),
    /// Without edits of responses.
    WithoutResponses,
    /// Tokens of the limit are borrowed, some at a time.
    Leased,
}

fn prepare(kinds: &[&'static Kind], modules: &[Module]) -> anyhow::Result<Vec<Setup>> {
    ensure!(modules.is_empty(), "--module: chain-parts compares configurations of one module");
    let keys = Keys::make()?;
    let module = xtask::modules::ensure("foregate")?;
    let mut rivals = vec![Rival::baseline()?];
    for (name, change) in CHANGES {
        let rival = Rival::new(name, FUSED, |hcm| {
            set_keys(hcm, &keys.jwks(), None)?;
            fill_buckets(hcm, 1)?;
            change.make(hcm)
        })?;
        rivals.push(rival.with_module(&module)?);
    }
    let workload = |kind: &&'static Kind| {
        let workload = Workload::of(kind, vec![sent(0, keys.good(Algorithm::Rs256, 0)?)]);
        let first = workload.first().into_iter().collect();
        anyhow::Ok(workload.probed(first))
    };
    let workloads = kinds.iter().map(workload).collect::<anyhow::Result<_>>()?;
    Ok(vec![Setup { rivals, workloads }])
}

impl Change {
    fn make(self, hcm: &mut Map<String, Value>) -> anyhow::Result<()> {
        let mut made = 0;
        let mut idle = "";
        in_filters(hcm, |members| {
            match self {
                Self::None => {}
                Self::Without(filter) => {
                    if let Some(Value::Array(list)) = members.get_mut("filters") {
                        let before = list.len();
                        list.retain(|link| link.get(filter).is_none());
                        made += before - list.len();
                    }
                    idle = match filter {
                        "header_rewrite" => "proxy_on_response_headers",
                        "sampled_log" => "proxy_on_log",
                        _ => "",
                    };
                }
                Self::WithoutResponses => {
                    made += usize::from(members.remove("response_mutations").is_some());
                    idle = "proxy_on_response_headers";
                }
                Self::Leased => {
                    if let Some(Value::Object(limiter)) = members.get_mut("local_rate_limit") {
                        limiter.insert("lease".to_owned(), LEASE.into());
                        made += 1;
                    }
                }
            }
            0
        });
        let expected = usize::from(!matches!(self, Self::None));
        ensure!(made == expected, "{self:?}: the shipped chain has {made} of what is to change");
        // As who leaves a filter out would: Envoy then does not enter the VM for it.
        if !idle.is_empty() {
            let found = in_filters(hcm, |members| match members.get_mut("allowed_capabilities") {
                Some(Value::Object(allowed)) => usize::from(allowed.remove(idle).is_some()),
                _ => 0,
            });
            ensure!(found == 1, "{idle} is allowed {found} times");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_chain_takes_every_change() {
        let kinds: Vec<&Kind> = KINDS.iter().collect();
        for setup in prepare(&kinds, &[]).unwrap() {
            crate::behaviour::assert_is_as_told(&setup, &kinds);
        }
    }
}
