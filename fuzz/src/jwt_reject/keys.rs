//! Reading keys: any text as a JWK set or as PEM.
//!
//! The first byte of an input says by its lowest bit whether weak keys are allowed; the rest is the text.

use filter_api::NoHost;
use jwt_reject::algorithm::Algorithm;
use jwt_reject::keys::{KeySet, MAX_KEYS};
use jwt_reject::verify::{Policy, signature_only};

use super::mint::encode;

/// Reads an input, and checks what became of it.
pub fn run(input: &[u8]) -> &'static str {
    let Some((first, text)) = input.split_first() else { return "empty" };
    check(&String::from_utf8_lossy(text), first & 1 == 1)
}

/// Reads a text, and panics where a law is broken. Returns what became of it.
pub fn check(text: &str, allow_weak: bool) -> &'static str {
    let parsed = KeySet::parse(text, allow_weak);
    let again = KeySet::parse(text, allow_weak);
    assert_eq!(format!("{parsed:?}"), format!("{again:?}"), "the same text is read in the same way");
    match &parsed {
        Ok((keys, skipped)) => {
            assert!(!keys.is_empty() && keys.len() + skipped.len() <= MAX_KEYS, "{} keys", keys.len());
            for problem in skipped {
                assert!(problem.to_string().len() <= most(text), "{problem}");
            }
            if !allow_weak {
                let (lax, _) = KeySet::parse(text, true).unwrap();
                assert_eq!(lax.len(), keys.len(), "allowing weak keys takes none away");
            }
            accepts_no_signature_without_the_key(keys);
            if skipped.is_empty() { "whole" } else { "partly" }
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= MAX_KEYS + 1, "{} errors", errors.len());
            for error in errors {
                assert!(error.to_string().len() <= most(text), "{error}");
            }
            if text.trim_start().starts_with("-----BEGIN") { "no PEM" } else { "no set" }
        }
    }
}

/// The longest that a message may be: it may quote a value, escaped, once.
fn most(text: &str) -> usize {
    200 + 10 * text.len()
}

/// Whatever the keys are, what anybody can write down is no signature of theirs.
fn accepts_no_signature_without_the_key(keys: &KeySet) {
    let policy = Policy::default();
    for algorithm in Algorithm::ALL {
        if !keys.serves(algorithm) {
            continue;
        }
        let header = format!("{{\"alg\":\"{}\"}}", algorithm.name());
        for length in [0, 32, 48, 64, 96, 132, 256] {
            for byte in [0, 1, 0xff] {
                let mut signature = vec![0; length];
                // All bytes the same, or the number 1.
                if byte == 1 {
                    signature.iter_mut().rev().take(1).for_each(|last| *last = 1);
                } else {
                    signature.fill(byte);
                }
                let token = format!("{}.e30.{}", encode(header.as_bytes()), encode(&signature));
                let verdict = signature_only(token.as_bytes(), &policy, keys, &NoHost::default(), &mut ());
                assert!(verdict.is_err(), "{algorithm:?} accepts {length} bytes of {byte}");
            }
        }
    }
}
