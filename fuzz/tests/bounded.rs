//! Each target over its seeds and some thousands of mutations of them: what `cargo xtask fuzz` does without
//! end, bounded, and the same in every run.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::{TARGETS, Target};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name)
}

/// The seeds, in the order of their names.
fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// The words of a dictionary of libFuzzer: `"..."`, with `\"`, `\\` and `\xAB`.
fn words(target: &Target) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("dictionaries").join(target.name);
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| word(line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap())).collect()
}

fn word(mut text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(place) = text.find('\\') {
        out.extend_from_slice(&text.as_bytes()[..place]);
        let escape = &text[place + 1..];
        match escape.strip_prefix('x') {
            Some(digits) => {
                out.push(u8::from_str_radix(&digits[..2], 16).unwrap());
                text = &digits[2..];
            }
            None => {
                out.push(escape.as_bytes()[0]);
                text = &escape[1..];
            }
        }
    }
    out.extend_from_slice(text.as_bytes());
    out
}

/// Changes inputs as libFuzzer does: bytes, words of a dictionary, and parts of other seeds. (Crates that
/// mutate know of no dictionary and of no other seeds, without which nothing that parses is ever made.)
struct Mutator {
    random: TestRng,
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.next_u32()).unwrap() % end.max(1)
    }

    fn seed(&mut self) -> Vec<u8> {
        let place = self.below(self.seeds.len());
        self.seeds[place].clone()
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + 1 + self.below(16)).min(length)
    }

    fn mutation(&mut self) -> Vec<u8> {
        let mut input = self.seed();
        for _ in 0..=self.below(4) {
            let range = self.range(input.len());
            match self.below(8) {
                0 if !range.is_empty() => input[range.start] ^= 1 << self.below(8),
                1 if !range.is_empty() => input[range.start] = self.random.next_u32().to_le_bytes()[0],
                2 => drop(input.drain(range)),
                3 => {
                    let copy = input[range.clone()].to_vec();
                    input.splice(range.end..range.end, copy);
                }
                4 => {
                    let mut bytes = vec![0; range.len()];
                    self.random.fill_bytes(&mut bytes);
                    input.splice(range.start..range.start, bytes);
                }
                5 => {
                    let other = self.seed();
                    let part = self.range(other.len()).start..other.len();
                    input.splice(range.start.., other[part].iter().copied());
                }
                choice => {
                    let place = self.below(self.words.len());
                    let end = if choice == 6 { range.start } else { range.end };
                    input.splice(range.start..end, self.words[place].iter().copied());
                }
            }
        }
        input
    }
}

/// Runs the target over its seeds and so many mutations of them, and returns how many inputs fared how.
fn bounded(name: &str, mutations: usize) -> BTreeMap<&'static str, usize> {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut fared = BTreeMap::new();
    let (seeds, words) = (seeds(target), words(target));
    assert!(seeds.len() > 20 && words.len() > 20);
    for seed in &seeds {
        *fared.entry((target.run)(seed)).or_default() += 1;
    }
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut mutator = Mutator { random, seeds, words };
    for _ in 0..mutations {
        let input = mutator.mutation();
        // Printed where the test fails: the input that broke a law.
        let shown = Shown(&input);
        *fared.entry((target.run)(&input)).or_default() += 1;
        std::mem::forget(shown);
    }
    println!("{name}: {fared:#?}");
    fared
}

/// Prints the input when it is dropped, which happens only in a panic.
struct Shown<'i>(&'i [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("input that broke a law: {:?}", String::from_utf8_lossy(self.0));
        println!("its bytes: {:?}", self.0);
    }
}

#[test]
fn every_law_holds_for_decisions() {
    let fared = bounded("jwt_reject_decision", 20_000);
    // The inputs get everywhere: tokens verify, and fail at every check.
    for (way, least) in [
        ("allowed.reason.verified", 200),
        ("allowed.reason.failed", 20),
        ("allowed.reason.missing", 20),
        ("allowed.reason.no_requirement", 1),
        ("allowed.reason.cors_preflight", 1),
        ("refused.reason.signature_wrong", 50),
        ("refused.reason.payload_not_json", 50),
        ("refused.reason.token_expired", 20),
        ("refused.reason.scope_missing", 1),
        ("refused.reason.claim_not_allowed", 1),
        ("refused.reason.token_revoked", 1),
        ("refused.reason.path_ambiguous", 10),
        ("shadow_refused.reason.token_malformed", 10),
    ] {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
    assert!(fared.len() > 40, "{fared:#?}");
}

#[test]
fn every_law_holds_for_keys() {
    let fared = bounded("jwt_reject_keys", 20_000);
    for way in ["whole", "partly", "no set", "no PEM"] {
        assert!(fared.get(way).is_some_and(|count| *count >= 100), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_limits() {
    // Each makes many decisions.
    let fared = bounded("local_rate_limit_decision", 4_000);
    // The inputs get everywhere: requests pass and are refused for every reason, by limits of every kind.
    for (way, least) in [
        ("allowed.reason.within_limits", 300),
        ("allowed.reason.no_limit", 5),
        ("allowed.reason.exempt", 20),
        ("allowed.reason.not_enabled", 2),
        ("allowed.reason.not_enforced", 5),
        ("allowed.reason.shadow", 20),
        ("allowed.reason.contention", 3),
        ("allowed.reason.host_failure", 20),
        ("refused_by_contention", 3),
        ("refused.limit.default", 50),
        ("refused.limit.never", 10),
        ("refused.limit.plan", 20),
        ("refused.limit.verb", 5),
        ("refused.limit.huge", 4),
        ("refused.limit.exact", 2),
        ("refused.limit.worker", 10),
        ("refused.limit.connection-path", 20),
        ("refused.limit.network", 20),
    ] {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
    assert!(fared.len() > 25, "{fared:#?}");
}

#[test]
fn every_law_holds_for_configurations_of_limits() {
    let fared = bounded("local_rate_limit_configuration", 20_000);
    for (way, least) in
        [("accepted", 40), ("accepted with warnings", 5), ("refused", 500), ("not JSON", 1000)]
    {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_rewriting() {
    let fared = bounded("header_rewrite_rewriting", 4_000);
    // The inputs get everywhere: messages of both kinds are edited, and edits left out.
    for (way, least) in [
        ("request edited", 500),
        ("response edited", 100),
        ("both edited", 100),
        ("unchanged", 100),
        ("invalid value", 50),
        ("too long", 10),
        ("not fit", 20),
    ] {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_templates() {
    let fared = bounded("header_rewrite_templates", 4_000);
    for (way, least) in [
        ("refused", 500),
        ("written", 300),
        ("missing", 200),
        ("constant", 50),
        ("unfit", 3),
        ("of responses", 20),
    ] {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_configurations_of_rewriting() {
    let fared = bounded("header_rewrite_configuration", 10_000);
    for (way, least) in
        [("accepted", 60), ("accepted with warnings", 2), ("refused", 500), ("not JSON", 1000)]
    {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_lines() {
    let fared = bounded("sampled_log_line", 10_000);
    for (way, least) in
        [("sampled", 1000), ("sampled, truncated", 500), ("always", 100), ("always, truncated", 50)]
    {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_sampling() {
    // Each makes many decisions.
    let fared = bounded("sampled_log_sampling", 4_000);
    for (way, least) in [
        ("always", 300),
        ("sampled", 300),
        ("no line", 500),
        ("dropped", 200),
        ("told what was dropped", 20),
        ("by its path", 3),
    ] {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

#[test]
fn every_law_holds_for_configurations_of_logs() {
    let fared = bounded("sampled_log_configuration", 20_000);
    for (way, least) in
        [("accepted", 40), ("accepted with warnings", 5), ("refused", 500), ("not JSON", 1000)]
    {
        assert!(fared.get(way).is_some_and(|count| *count >= least), "{way}: {fared:#?}");
    }
}

/// No seed, word or driver is for a target that is not there, and none of them lacks.
#[test]
fn every_target_has_what_it_needs() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    for (place, ending) in [("seeds", ""), ("dictionaries", ""), ("libfuzzer/fuzz_targets", ".rs")] {
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(place)).unwrap();
        let mut found: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        let wanted: Vec<String> = names.iter().map(|name| format!("{name}{ending}")).collect();
        assert_eq!(found, wanted, "{place}");
    }
}
