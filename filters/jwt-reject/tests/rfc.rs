//! The examples of RFC 7515, 7520 and 8037, word for word (`rfc.json`), and their neighbours: each
//! with every single character of its signature changed.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use filter_api::{Moment, NoHost};
use jwt_reject::keys::KeySet;
use jwt_reject::verify::{Policy, Unverified, signature_only};
use serde_json::Value;

struct Example {
    name: String,
    token: String,
    keys: KeySet,
    policy: Policy,
    host: NoHost,
    whole: String,
    signature_only: String,
}

impl Example {
    fn whole(&self, token: &str) -> String {
        let read = Unverified::read(token.as_bytes(), self.policy.padding, &mut ());
        label(read.and_then(|unverified| unverified.verify(&self.policy, &self.keys, &self.host, &mut ())))
    }

    fn signature_only(&self, token: &str) -> String {
        label(signature_only(token.as_bytes(), &self.policy, &self.keys, &self.host, &mut ()))
    }
}

fn label(result: Result<(), jwt_reject::reason::Reason>) -> String {
    result.map_or_else(|reason| reason.label().to_owned(), |()| "accept".to_owned())
}

fn examples() -> Vec<Example> {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rfc.json")).unwrap();
    assert_eq!(rows.len(), 12);
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| Example {
            name: text(row, "name"),
            token: text(row, "token"),
            keys: KeySet::parse(&row["jwks"].to_string(), false).unwrap().0,
            policy: Policy { issuer: row["issuer"].as_str().map(str::to_owned), ..Policy::default() },
            host: NoHost(Moment::at(row["now"].as_u64().unwrap())),
            whole: text(row, "whole"),
            signature_only: text(row, "signature_only"),
        })
        .collect()
}

#[test]
fn every_example_is_as_the_rfc_says() {
    for example in examples() {
        assert_eq!(example.whole(&example.token), example.whole, "{}", example.name);
        assert_eq!(example.signature_only(&example.token), example.signature_only, "{}", example.name);
    }
}

#[test]
fn no_changed_signature_is_accepted() {
    for example in examples() {
        if example.signature_only != "accept" {
            continue;
        }
        let start = example.token.rfind('.').unwrap() + 1;
        for place in start..example.token.len() {
            let mut changed = example.token.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_ne!(example.signature_only(&changed), "accept", "{} at {place}", example.name);
        }
        for shorter in start..example.token.len() {
            assert_ne!(example.signature_only(&example.token[..shorter]), "accept", "{}", example.name);
        }
        for added in ["A", "AA", "AAAA", "=", ".", " ", "\n"] {
            let longer = format!("{}{added}", example.token);
            assert_ne!(example.signature_only(&longer), "accept", "{} and {added:?}", example.name);
        }
    }
}
