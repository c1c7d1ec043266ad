//! What is measured: for each behaviour its kinds of requests, and who can do the job.

mod chain;
mod header_rewrite;
mod jwt_reject;
mod local_rate_limit;
mod sampled_log;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use crate::rival::Rival;
use crate::workload::Workload;

/// A behaviour that several can do.
#[derive(Debug)]
pub(crate) struct Behaviour {
    /// As its folder is called.
    pub(crate) name: &'static str,
    /// The names of its workloads, in the order in which they run. No other behaviour has one of that name.
    pub(crate) workloads: &'static [&'static str],
    /// Those of a quick run.
    pub(crate) quick: &'static [&'static str],
    /// Prepares those of these names.
    prepare: fn(&[&'static str], &[Module]) -> anyhow::Result<Vec<Setup>>,
}

/// Envoys that run side by side, and what they are sent.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) rivals: Vec<Rival>,
    pub(crate) workloads: Vec<Workload>,
}

/// Another build of a behaviour's module.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// What it is called in tables.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

/// All of them, in the order in which they run.
pub(crate) static ALL: [Behaviour; 5] = [
    jwt_reject::BEHAVIOUR,
    local_rate_limit::BEHAVIOUR,
    header_rewrite::BEHAVIOUR,
    sampled_log::BEHAVIOUR,
    chain::BEHAVIOUR,
];

/// The names of all workloads.
pub(crate) fn workloads() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|behaviour| behaviour.workloads).copied()
}

/// Which workloads are asked for: all, or those of `behaviours`, and of these all, or `only` some, or those of a
/// quick run.
pub(crate) fn choose(
    behaviours: &[String],
    only: &[String],
    quick: bool,
) -> anyhow::Result<Vec<(&'static Behaviour, Vec<&'static str>)>> {
    let mut chosen = Vec::new();
    for behaviour in &ALL {
        if !behaviours.is_empty() && !behaviours.iter().any(|name| name == behaviour.name) {
            continue;
        }
        let names = if quick && only.is_empty() { behaviour.quick } else { behaviour.workloads };
        let asked = |name: &&str| only.is_empty() || only.iter().any(|only| only == name);
        let names: Vec<&str> = names.iter().copied().filter(asked).collect();
        if !names.is_empty() {
            chosen.push((behaviour, names));
        }
    }
    ensure!(!chosen.is_empty(), "no workload of {} is among {}", behaviours.join(", "), only.join(", "));
    Ok(chosen)
}

/// Prepares what was chosen, with other builds of the module where there is only one that can be meant.
pub(crate) fn prepare(
    chosen: &[(&'static Behaviour, Vec<&'static str>)],
    modules: &[Module],
) -> anyhow::Result<Vec<Setup>> {
    ensure!(
        modules.is_empty() || chosen.len() == 1,
        "--module: say with --behaviour of which module it is another build"
    );
    let mut setups = Vec::new();
    for (behaviour, names) in chosen {
        let prepared = (behaviour.prepare)(names, modules).with_context(|| behaviour.name)?;
        for setup in &prepared {
            let mut names: Vec<&str> = setup.rivals.iter().map(|rival| rival.name.as_str()).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[&str]>::first);
            ensure!(twice.is_none(), "--module: {:?} is there already", twice.unwrap_or(&""));
        }
        setups.extend(prepared);
    }
    Ok(setups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(behaviours: &[&str], only: &[&str], quick: bool) -> String {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        match choose(&owned(behaviours), &owned(only), quick) {
            Ok(chosen) => {
                let shown = |(behaviour, names): &(&Behaviour, Vec<&str>)| {
                    format!("{}: {}", behaviour.name, names.join(" "))
                };
                chosen.iter().map(shown).collect::<Vec<_>>().join("; ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn workloads_are_chosen_by_behaviour_and_by_name() {
        let rows: &[(&[&str], &[&str], bool, &str)] = &[
            (&[], &["missing"], false, "jwt-reject: missing"),
            (
                &[],
                &["limit-refused", "missing"],
                false,
                "jwt-reject: missing; local-rate-limit: limit-refused",
            ),
            (
                &[],
                &[],
                true,
                "jwt-reject: missing good-repeated; local-rate-limit: limit-per-client; header-rewrite: ten-operations; \
                 sampled-log: log-10; chain: chain-good",
            ),
            (&["local-rate-limit"], &[], true, "local-rate-limit: limit-per-client"),
            (
                &["local-rate-limit"],
                &[],
                false,
                "local-rate-limit: limit-one-bucket limit-per-client limit-refused limit-announced",
            ),
            (&[], &["expired"], true, "jwt-reject: expired"),
            (&["local-rate-limit"], &["expired"], false, "no workload of local-rate-limit is among expired"),
        ];
        for (behaviours, only, quick, expected) in rows {
            assert_eq!(chosen(behaviours, only, *quick), *expected, "{behaviours:?} {only:?} {quick}");
        }
        assert!(ALL.iter().all(|it| it.quick.iter().all(|name| it.workloads.contains(name))));
        let mut names: Vec<_> = workloads().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), workloads().count(), "a name is there twice");
    }

    #[test]
    fn a_build_of_a_module_needs_one_behaviour_and_a_name_of_its_own() {
        let module = |name: &str| Module { name: name.to_owned(), file: PathBuf::from("/dev/null") };
        let refused = |behaviours: &[&str], name: &str| {
            let names: Vec<String> = behaviours.iter().map(|name| (*name).to_owned()).collect();
            let chosen = choose(&names, &[], true).unwrap();
            prepare(&chosen, &[module(name)]).map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(refused(&[], "x"), "--module: say with --behaviour of which module it is another build");
        assert_eq!(refused(&["local-rate-limit"], "lua"), "--module: \"lua\" is there already");
        assert_eq!(
            refused(&["local-rate-limit"], "local_rate_limit"),
            "--module: \"local_rate_limit\" is there already"
        );
    }
}
