//! What is measured: for each behaviour its kinds of requests, and who can do the job.

mod chain;
mod header_rewrite;
pub(crate) mod jwt_reject;
mod local_rate_limit;
mod sampled_log;

pub(crate) use self::chain::attack;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use crate::rival::Rival;
use crate::workload::{Kind, Workload};

/// A behaviour that several can do.
#[derive(Debug)]
pub(crate) struct Behaviour {
    /// As its folder is called.
    pub(crate) name: &'static str,
    /// Its workloads, in the order in which they run. No other behaviour has one of that name.
    pub(crate) workloads: &'static [Kind],
    /// Those of a smoke run: none of the chain, whose many Envoys take longer to start than that run may.
    pub(crate) smoke: &'static [&'static str],
    /// Prepares these of them.
    prepare: fn(&[&'static Kind], &[Module]) -> anyhow::Result<Vec<Setup>>,
}

/// Envoys that run side by side, and what they are sent.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) rivals: Vec<Rival>,
    pub(crate) workloads: Vec<Workload>,
}

/// What the module of all filters is called in tables where it does the work of one: the filter alone in its list.
const FUSED: &str = "fused";

/// Another build of a behaviour's module.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// What it is called in tables.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

/// All of them, in the order in which they run.
pub(crate) static ALL: [Behaviour; 6] = [
    jwt_reject::BEHAVIOUR,
    local_rate_limit::BEHAVIOUR,
    header_rewrite::BEHAVIOUR,
    sampled_log::BEHAVIOUR,
    chain::BEHAVIOUR,
    chain::parts::BEHAVIOUR,
];

/// The names of all workloads.
pub(crate) fn workloads() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|behaviour| behaviour.workloads).map(|kind| kind.name)
}

/// What is to run: of each behaviour the workloads.
pub(crate) type Chosen = Vec<(&'static Behaviour, Vec<&'static Kind>)>;

/// Which workloads are asked for: all, or those of `behaviours`, and of these all, or `only` some, or those of a
/// smoke run.
pub(crate) fn choose(behaviours: &[String], only: &[String], smoke: bool) -> anyhow::Result<Chosen> {
    let mut chosen = Vec::new();
    for behaviour in &ALL {
        if !behaviours.is_empty() && !behaviours.iter().any(|name| name == behaviour.name) {
            continue;
        }
        let asked = |kind: &&Kind| match only {
            [] => !smoke || behaviour.smoke.contains(&kind.name),
            only => only.iter().any(|only| only == kind.name),
        };
        let kinds: Vec<&Kind> = behaviour.workloads.iter().filter(asked).collect();
        if !kinds.is_empty() {
            chosen.push((behaviour, kinds));
        }
    }
    ensure!(!chosen.is_empty(), "no workload of {} is among {}", behaviours.join(", "), only.join(", "));
    Ok(chosen)
}

/// Prepares what was chosen, by the names of the behaviours, with other builds of the module where there is only one that can be meant.
pub(crate) fn prepare(
    chosen: &[(&'static Behaviour, Vec<&'static Kind>)],
    modules: &[Module],
) -> anyhow::Result<Vec<(&'static str, Setup)>> {
    ensure!(
        modules.is_empty() || chosen.len() == 1,
        "--module: say with --behaviour of which module it is another build"
    );
    let mut setups = Vec::new();
    for (behaviour, kinds) in chosen {
        let prepared = (behaviour.prepare)(kinds, modules).with_context(|| behaviour.name)?;
        for setup in &prepared {
            let mut names: Vec<&str> = setup.rivals.iter().map(|rival| rival.name.as_str()).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[&str]>::first);
            ensure!(twice.is_none(), "--module: {:?} is there already", twice.unwrap_or(&""));
        }
        setups.extend(prepared.into_iter().map(|setup| (behaviour.name, setup)));
    }
    Ok(setups)
}

/// Holds a setup to what is told of its workloads: the same rivals in the same order, and the same answers.
#[cfg(test)]
fn assert_is_as_told(setup: &Setup, kinds: &[&Kind]) {
    let rivals: Vec<&str> = setup.rivals.iter().map(|rival| rival.name.as_str()).collect();
    let names: Vec<&str> = setup.workloads.iter().map(|workload| workload.name).collect();
    assert_eq!(names, kinds.iter().map(|kind| kind.name).collect::<Vec<_>>());
    for (workload, kind) in setup.workloads.iter().zip(kinds) {
        assert_eq!(rivals, kind.rivals, "{}", kind.name);
        let expected = |sent: &crate::workload::Sent| sent.expected.unwrap_or(workload.expected);
        for sent in &workload.requests {
            assert!(kind.answers.contains(&expected(sent)), "{}: {:?}", kind.name, expected(sent));
        }
        for answer in kind.answers {
            assert!(
                workload.requests.iter().any(|sent| expected(sent) == *answer),
                "{}: {answer:?}",
                kind.name
            );
        }
        assert!(!workload.probes.is_empty(), "{}", kind.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(behaviours: &[&str], only: &[&str], smoke: bool) -> String {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        match choose(&owned(behaviours), &owned(only), smoke) {
            Ok(chosen) => {
                let shown = |(behaviour, kinds): &(&Behaviour, Vec<&Kind>)| {
                    let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
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
                 sampled-log: log-10",
            ),
            (&["local-rate-limit"], &[], true, "local-rate-limit: limit-per-client"),
            (
                &["local-rate-limit"],
                &[],
                false,
                "local-rate-limit: limit-one-bucket limit-per-client limit-10000-clients limit-refused \
                 limit-announced limit-two-workers",
            ),
            (&[], &["expired"], true, "jwt-reject: expired"),
            (&["local-rate-limit"], &["expired"], false, "no workload of local-rate-limit is among expired"),
        ];
        for (behaviours, only, smoke, expected) in rows {
            assert_eq!(chosen(behaviours, only, *smoke), *expected, "{behaviours:?} {only:?} {smoke}");
        }
        assert!(
            ALL.iter()
                .all(|it| it.smoke.iter().all(|name| it.workloads.iter().any(|kind| kind.name == *name)))
        );
        let mut names: Vec<_> = workloads().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), workloads().count(), "a name is there twice");
    }

    #[test]
    fn the_baseline_comes_first_and_what_is_said_of_rivals_is_said_of_some_that_are_there() {
        for kind in ALL.iter().flat_map(|behaviour| behaviour.workloads) {
            let Kind { name, rivals, budgets, unfair, answers, .. } = kind;
            assert_eq!(rivals.first(), Some(&crate::rival::BASELINE), "{name}");
            assert!(!answers.is_empty(), "{name}");
            let named = budgets.iter().map(|it| it.rival).chain(unfair.iter().map(|it| it.rival));
            for rival in named {
                assert!(rivals.contains(&rival), "{name}: {rival}");
            }
        }
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
