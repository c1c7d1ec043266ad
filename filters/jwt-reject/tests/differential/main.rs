//! The filter never accepts a token that another strict library refuses, over 100,000 mutated ones.
//!
//! The other library is `jsonwebtoken` on AWS-LC, which also signs the tokens. Neither its reading of tokens nor
//! its cryptography has a line in common with the filter's, which is RustCrypto's here; what both use is
//! `serde_json`. It takes a C compiler, and no more. (Of other libraries, `jwt-simple` is made of RustCrypto as
//! well, and `josekit` takes the headers of OpenSSL.)
//!
//! Where the filter accepts and the other refuses, it must be for one of [`LENIENCIES`]; where it is the other
//! way about, for one of [`STRICTNESSES`].

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod draft;
mod judges;
mod keys;
mod mutations;

use std::collections::BTreeMap;
use std::thread;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use draft::{Draft, below};
use jsonwebtoken::get_current_timestamp;
use judges::{Filtering, Other, Set};
use keys::Key;
use mutations::{Base, KINDS, kind};
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Map, Value};

const TOKENS: usize = 100_000;
const THREADS: usize = 2;

/// How often each algorithm is drawn; those that cost milliseconds less often.
const ALGORITHMS: [(&str, usize); 12] = [
    ("HS256", 28),
    ("HS384", 5),
    ("HS512", 5),
    ("EdDSA", 24),
    ("ES256", 20),
    ("ES384", 3),
    ("RS256", 6),
    ("RS384", 1),
    ("RS512", 1),
    ("PS256", 5),
    ("PS384", 1),
    ("PS512", 1),
];

/// Why the filter accepts what the other library refuses.
struct Leniency {
    /// The kind of mutation that it is seen in.
    kind: &'static str,
    why: &'static str,
    /// Whether the header is a case of it.
    holds: fn(&Map<String, Value>) -> bool,
}

const LENIENCIES: [Leniency; 1] = [Leniency {
    kind: "header member",
    // The other library reads all registered members of a header, whether it uses them or not. To the filter
    // they are nothing to go by (a token must not name its own keys), so their type does not matter.
    why: "a header member that the filter ignores is of another type than its RFC says",
    holds: |header| {
        let other_than = |names: &[&str], fits: fn(&Value) -> bool| {
            names.iter().any(|name| header.get(*name).is_some_and(|value| !value.is_null() && !fits(value)))
        };
        let texts = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        other_than(&["typ", "cty", "jku", "x5u", "x5t", "enc", "zip"], Value::is_string)
            || other_than(&["x5c"], texts)
            || other_than(&["jwk"], |value| value.get("kty").is_some())
    },
}];

/// Why the filter refuses what the other library accepts.
const STRICTNESSES: [&str; 11] = [
    // A member given twice, where the other library has no use for it, and JSON nested too deep.
    "jwt_reject{header_not_json}",
    "jwt_reject{payload_not_json}",
    // There, though they change nothing.
    "jwt_reject{b64_not_supported}",
    "jwt_reject{crit_not_supported}",
    // Of another type than RFC 7519 says: null, where the other library reads that as absent; a list of
    // issuers; and claims that it does not look at.
    "jwt_reject{kid_not_string}",
    "jwt_reject{iss_not_string}",
    "jwt_reject{sub_not_string}",
    "jwt_reject{jti_not_string}",
    "jwt_reject{nbf_not_number}",
    "jwt_reject{iat_not_number}",
    // Beyond the year 9999: milliseconds.
    "jwt_reject{exp_not_number}",
];

/// Kinds of mutation that leave a token as good as it was.
const ALWAYS: [&str; 2] = ["seen before", "signed anew"];

/// Kinds of mutation that no token survives.
const NEVER: [&str; 8] = [
    "bit of the token flipped",
    "bit of a decoded part flipped",
    "byte inserted",
    "byte removed",
    "member twice",
    "number of parts",
    "parts encoded in another way",
    "public key taken for a secret",
];

/// Kinds of mutation that some tokens survive, and how many at least.
const SOMETIMES: [(&str, usize); 7] = [
    ("algorithm changed, signed again", 100),
    ("claim", 500),
    ("header member", 500),
    ("kid", 300),
    ("text around the JSON", 100),
    ("time", 400),
    // The other signature of ECDSA.
    ("signature", 30),
];

/// How often who accepted: by kind of mutation and by algorithm.
#[derive(Default)]
struct Counts {
    by_kind: BTreeMap<&'static str, [usize; 4]>,
    accepted: BTreeMap<&'static str, usize>,
    stricter: BTreeMap<String, usize>,
    lenient: BTreeMap<&'static str, usize>,
}

fn sets() -> Vec<Set> {
    vec![
        Set::new(vec![Key::secret(Some("secret")), Key::secret(Some("second"))]),
        Set::new(vec![
            Key::rsa(Some("rsa")),
            Key::p256(Some("p256")),
            Key::p256(Some("second")),
            Key::p384(Some("p384")),
            Key::edwards(Some("ed25519")),
        ]),
        Set::new(vec![Key::edwards(None), Key::p256(None), Key::edwards(Some("named"))]),
        Set::new(vec![Key::secret(Some("secret")), Key::rsa(Some("rsa")), Key::edwards(Some("ed25519"))])
            .allowing(&["HS256", "PS256", "EdDSA"]),
    ]
}

fn draw_algorithm(random: &mut TestRng) -> &'static str {
    let mut left = below(random, ALGORITHMS.iter().map(|(_, weight)| weight).sum());
    for (name, weight) in ALGORITHMS {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return name,
        }
    }
    unreachable!("the weights add up")
}

/// A set and a key of it that may sign by the algorithm.
fn draw_key<'s>(random: &mut TestRng, sets: &'s [Set], algorithm: &str) -> (usize, &'s Key) {
    let fits: Vec<(usize, &Key)> = sets
        .iter()
        .enumerate()
        .filter(|(_, set)| set.allowed.contains(&algorithm))
        .flat_map(|(place, set)| set.keys.iter().map(move |key| (place, key)))
        .filter(|(_, key)| key.algorithms.contains(&algorithm))
        .collect();
    fits[below(random, fits.len())]
}

/// The header of a token that was accepted.
fn header(token: &[u8]) -> Map<String, Value> {
    let part = token.split(|byte| *byte == b'.').next().unwrap();
    let text = Base64UrlUnpadded::decode_vec(std::str::from_utf8(part).unwrap()).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn compare(sets: &[Set], seed: u8, tokens: usize) -> Counts {
    let mut counts = Counts::default();
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let now = get_current_timestamp();
    let judges: Vec<(Filtering, Other<'_>)> =
        sets.iter().map(|set| (Filtering::new(set), Other::new(set))).collect();
    // Good tokens of each set, for mutations that need no new one.
    let mut good: Vec<Vec<Vec<u8>>> = sets.iter().map(|_| Vec::new()).collect();
    for _ in 0..600 {
        let algorithm = draw_algorithm(&mut random);
        let (place, key) = draw_key(&mut random, sets, algorithm);
        good[place].push(Draft::good(&mut random, key, algorithm, now).token(key, algorithm));
    }
    for _ in 0..tokens {
        let algorithm = draw_algorithm(&mut random);
        let (place, key) = draw_key(&mut random, sets, algorithm);
        let draft = Draft::good(&mut random, key, algorithm, now);
        let base = Base { set: &sets[place], key, algorithm, draft, now, others: &good[place] };
        let (name, _, mutate) = KINDS[kind(&mut random)];
        let token = mutate(&mut random, &base);
        let (filter, other) = &judges[place];
        let (refused, accepted) = (filter.refuses(&token), other.accepts(&token));
        let cell = match (&refused, accepted) {
            (None, true) => {
                *counts.accepted.entry(algorithm).or_default() += 1;
                0
            }
            (None, false) => {
                let header = header(&token);
                let reason = LENIENCIES.iter().find(|it| it.kind == name && (it.holds)(&header));
                let Some(reason) = reason else {
                    panic!("{name}: accepted by the filter alone: {}", String::from_utf8_lossy(&token));
                };
                *counts.lenient.entry(reason.why).or_default() += 1;
                1
            }
            (Some(reason), true) => {
                *counts.stricter.entry(reason.clone()).or_default() += 1;
                2
            }
            (Some(_), false) => 3,
        };
        counts.by_kind.entry(name).or_default()[cell] += 1;
    }
    counts
}

#[test]
fn nothing_is_accepted_that_another_library_refuses() {
    let sets = sets();
    let mut all = Counts::default();
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| {
                let sets = &sets;
                scope.spawn(move || compare(sets, u8::try_from(seed).unwrap(), TOKENS / THREADS))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for part in parts {
        for (name, cells) in part.by_kind {
            let sum = all.by_kind.entry(name).or_default();
            sum.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
        }
        part.accepted.into_iter().for_each(|(name, count)| *all.accepted.entry(name).or_default() += count);
        part.stricter.into_iter().for_each(|(name, count)| *all.stricter.entry(name).or_default() += count);
        part.lenient.into_iter().for_each(|(name, count)| *all.lenient.entry(name).or_default() += count);
    }
    println!("{:38} {:>7} {:>7} {:>7} {:>7}", "kind", "both", "filter", "other", "neither");
    for (name, [both, ours, theirs, neither]) in &all.by_kind {
        println!("{name:38} {both:7} {ours:7} {theirs:7} {neither:7}");
    }
    println!("accepted by both, by algorithm: {:?}", all.accepted);
    println!("accepted by the filter alone: {:?}", all.lenient);
    println!("accepted by the other alone, refused by the filter for: {:?}", all.stricter);

    // That nothing was accepted by the filter alone has been seen to above; this is what gives it weight.
    assert_eq!(all.by_kind.values().flatten().sum::<usize>(), TOKENS);
    for reason in all.stricter.keys() {
        assert!(STRICTNESSES.contains(&reason.as_str()), "refused by the filter alone for {reason}");
    }
    for kind in ALWAYS {
        let [both, others @ ..] = all.by_kind[kind];
        assert!(both > 1000 && others == [0; 3], "{kind}: {both} {others:?}");
    }
    for kind in NEVER {
        let [both, ours, theirs, neither] = all.by_kind[kind];
        assert!(both + ours == 0 && theirs + neither > 500, "{kind}: {both} {ours} {theirs} {neither}");
    }
    for (kind, least) in SOMETIMES {
        let [both, ours, theirs, neither] = all.by_kind[kind];
        assert!(both >= least && theirs + neither >= least, "{kind}: {both} {ours} {theirs} {neither}");
    }
    for (algorithm, weight) in ALGORITHMS {
        let accepted = all.accepted.get(algorithm).copied().unwrap_or_default();
        assert!(accepted >= 50 * weight, "{algorithm}: {accepted}");
    }
}
