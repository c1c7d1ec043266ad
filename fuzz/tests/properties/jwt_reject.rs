//! jwt_reject: JSON of any shape in headers, claims and key sets, any bytes in heads, tokens damaged in any place.

use filter_api::{HeadMap, Outcome};
use fuzz_targets::jwt_reject::decision::{NOW, Request, ask, check, filters};
use fuzz_targets::jwt_reject::keys;
use fuzz_targets::jwt_reject::mint::{Minted, encode, mint};
use jwt_reject::keys::KeySet;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

use crate::{any_json, head_value};

const ALGORITHMS: [&str; 9] =
    ["HS256", "HS384", "HS512", "EdDSA", "ES256", "RS256", "PS512", "none", "hs256"];

/// Members that replace or join those that are there.
fn changes(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(String, Value)>> {
    let name = prop_oneof![4 => select(names).prop_map(str::to_owned), 1 => any::<String>()];
    vec((name, any_json()), 0..3)
}

fn changed(base: Value, changes: Vec<(String, Value)>) -> String {
    let mut members: Map<String, Value> = base.as_object().unwrap().clone();
    members.extend(changes);
    Value::Object(members).to_string()
}

/// A token with a good signature, that is good, or nearly so.
fn minted() -> impl Strategy<Value = Minted> {
    let header = changes(&["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", "cty"]);
    let claims = changes(&[
        "iss",
        "aud",
        "sub",
        "jti",
        "exp",
        "nbf",
        "iat",
        "scope",
        "scp",
        "realm",
        "a",
        "realm.roles",
    ]);
    let issuer = select(vec!["https://issuer.example", "https://issuer.example", "https://other.example"]);
    (select(ALGORITHMS.to_vec()), header, issuer, claims).prop_map(|(algorithm, header, issuer, claims)| {
        let header = changed(json!({"alg": algorithm, "typ": "JWT"}), header);
        let base = json!({
            "iss": issuer, "aud": ["x", "api"], "sub": "alice", "exp": NOW + 60, "scope": "read write",
            "realm": {"roles": ["dev"]}, "a": [1, "b"],
        });
        mint(header.as_bytes(), changed(base, claims).as_bytes())
    })
}

/// The head with a token in one of the places that a configuration may look in.
fn placed(head: HeadMap, place: usize, token: &[u8]) -> HeadMap {
    let after = |before: &[u8]| [before, token].concat();
    match place {
        0 | 1 => head.with("authorization", after(b"Bearer ")),
        2 => head.with("authorization", after(b"Basic eDp5,bEARER  ")),
        3 => head.with("x-token", token),
        4 => head.with("x-other", token),
        5 => head.with("cookie", [b"a=b; token=\"", token, b"\"; c"].concat()),
        6 => head.with_only(":path", after(b"/api/x?a=b&t=")),
        _ => head.with_only(":path", [b"/public/x?access_token=", token, b"&a=b"].concat()),
    }
}

/// A change to a token's bytes.
#[derive(Debug, Clone)]
enum Damage {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Double(Index),
    /// To the end of one of the parts between dots, or of the last one there is.
    Append(usize, &'static str),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(place, byte)| Damage::Replace(place, byte)),
        (any::<Index>(), vec(prop_oneof![any::<u8>(), select(b"=. ,AQ".to_vec())], 1..5))
            .prop_map(|(place, bytes)| Damage::Insert(place, bytes)),
        (any::<Index>(), 1_usize..50).prop_map(|(place, count)| Damage::Remove(place, count)),
        any::<Index>().prop_map(Damage::Double),
        (0_usize..3, select(vec!["=", "==", "A", ".", " ", "AAAA"]))
            .prop_map(|(part, text)| Damage::Append(part, text)),
    ]
}

impl Damage {
    fn apply(&self, token: &mut Vec<u8>) {
        match self {
            Self::Replace(place, byte) => {
                let place = place.index(token.len());
                token[place] = *byte;
            }
            Self::Insert(place, bytes) => {
                let place = place.index(token.len());
                token.splice(place..place, bytes.iter().copied());
            }
            Self::Remove(place, count) => {
                let place = place.index(token.len());
                token.drain(place..(place + count).min(token.len() - 1));
            }
            Self::Double(place) => {
                let tail = token[place.index(token.len())..].to_vec();
                token.extend(tail);
            }
            Self::Append(part, text) => {
                let dots = (0..token.len()).filter(|place| token[*place] == b'.');
                let end = dots.chain(std::iter::once(token.len())).take(part + 1).last().unwrap();
                token.splice(end..end, text.bytes());
            }
        }
        token.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        if token.is_empty() {
            token.push(b'x');
        }
    }
}

/// A JWK that is one, or nearly.
fn jwk() -> impl Strategy<Value = Value> {
    let bytes = prop_oneof![
        select(vec![0_usize, 1, 31, 32, 48, 64, 65, 66, 97, 128, 256, 257, 1024, 1025, 3000])
            .prop_flat_map(|length| vec(any::<u8>(), length))
            .prop_map(|bytes| json!(encode(&bytes))),
        select(vec!["AQAB", "Aw", "AQ", "Ag", "", "AQAB=", "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"])
            .prop_map(Value::from),
        any_json(),
    ];
    let word = prop_oneof![
        6 => select(vec![
            "oct", "RSA", "EC", "OKP", "P-256", "P-384", "P-521", "Ed25519", "X25519", "sig", "enc", "HS256", "HS512",
            "RS256", "PS384", "ES256", "ES512", "EdDSA", "none", "verify",
        ])
        .prop_map(Value::from),
        1 => any_json(),
    ];
    let kinds = select(vec![
        (json!("oct"), json!(null)),
        (json!("RSA"), json!(null)),
        (json!("EC"), json!("P-256")),
        (json!("EC"), json!("P-521")),
        (json!("OKP"), json!("Ed25519")),
    ]);
    let material = btree_map(select(vec!["k", "n", "e", "x", "y"]), bytes, 0..6);
    let words = btree_map(select(vec!["kty", "crv", "alg", "use", "key_ops", "kid"]), word, 0..2);
    (kinds, material, words).prop_map(|((kind, curve), material, words)| {
        let mut jwk = json!({"kty": kind, "crv": curve});
        let members = jwk.as_object_mut().unwrap();
        members.retain(|_, value| !value.is_null());
        members.extend(material.into_iter().chain(words).map(|(name, value)| (name.to_owned(), value)));
        jwk
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Whatever the JSON of header and claims, wherever the tokens are, whole or damaged.
    #[test]
    fn tokens_of_any_shape(
        setup in 0_usize..6,
        tokens in vec((minted(), 0_usize..8, prop_oneof![2 => Just(vec![]), 1 => vec(damage(), 1..4)]), 1..4),
    ) {
        let mut head = HeadMap::get("/api/x");
        for (minted, place, damages) in &tokens {
            let mut token = minted.token.clone();
            damages.iter().for_each(|damage| damage.apply(&mut token));
            head = placed(head, *place, &token);
        }
        check(&Request { setup, head, minted: tokens.into_iter().map(|(minted, ..)| minted).collect() });
    }

    /// A good token is verified, and with the least damage it is not.
    #[test]
    fn a_damaged_token_is_none(
        (setup, algorithm) in select(vec![(0_usize, "HS256"), (0, "HS512"), (2, "EdDSA"), (2, "ES256")]),
        subject in any::<String>(),
        damages in vec(damage(), 1..30),
    ) {
        let header = json!({"alg": algorithm}).to_string();
        let claims = json!({"iss": "https://issuer.example", "aud": "api", "sub": subject});
        let good = mint(header.as_bytes(), claims.to_string().as_bytes());
        let way = |token: &[u8]| {
            let head = placed(HeadMap::get("/"), 0, token);
            check(&Request { setup, head, minted: vec![good.clone()] })
        };
        prop_assert_eq!(way(&good.token), "allowed.reason.verified");
        for damage in damages {
            let mut token = good.token.clone();
            damage.apply(&mut token);
            // Spaces between the scheme and the token are no part of it.
            let start = token.iter().position(|byte| *byte != b' ').unwrap_or_default();
            let same = token[start..] == good.token;
            prop_assert_eq!(way(&token) == "allowed.reason.verified", same, "{:?}", damage);
        }
    }

    /// Any bytes, in lines of names that mean something and of others.
    #[test]
    fn heads_of_any_bytes(
        setup in 0_usize..6,
        lines in vec((
            select(vec![
                ":path", ":method", ":authority", ":scheme", "authorization", "Authorization", "x-token", "x-other",
                "cookie", "content-type", "origin", "access-control-request-method", "x-user-id", "X_Roles", "other",
            ]),
            head_value(),
        ), 0..8),
    ) {
        let head = lines.iter().fold(HeadMap::default(), |head, (name, value)| head.with(name, value));
        let way = check(&Request { setup, head, minted: Vec::new() });
        prop_assert_ne!(way, "allowed.reason.verified");
    }

    /// What a worker has seen before changes no verdict, whenever it is asked.
    #[test]
    fn the_memory_changes_no_verdict(
        setup in select(vec![0_usize, 2, 3]),
        tokens in vec((minted(), prop_oneof![2 => Just(vec![]), 1 => vec(damage(), 1..2)]), 1..5),
        asked in vec((any::<Index>(), select(vec![NOW - 7200, NOW - 61, NOW, NOW + 119, NOW + 121, NOW + 90_000])), 1..12),
    ) {
        let [remembering, forgetful] = filters(setup);
        for (which, now) in asked {
            let (minted, damages) = &tokens[which.index(tokens.len())];
            let mut token = minted.token.clone();
            damages.iter().for_each(|damage| damage.apply(&mut token));
            let head = placed(HeadMap::get("/"), 0, &token);
            let passes = |outcome: &Outcome| matches!(outcome, Outcome::Continue(_));
            let (warm, cold) = (ask(&remembering, &head, now), ask(&forgetful, &head, now));
            prop_assert_eq!(passes(&warm), passes(&cold), "{:?} and {:?}", warm, cold);
            if passes(&warm) {
                prop_assert_eq!(&warm.effects().headers, &cold.effects().headers);
                prop_assert_eq!(&warm.effects().facts, &cold.effects().facts);
            }
        }
    }

    /// Any bytes for a key set.
    #[test]
    fn key_sets_of_any_bytes(bytes in vec(any::<u8>(), 0..300), text in any::<String>(), weak in any::<bool>()) {
        keys::check(&String::from_utf8_lossy(&bytes), weak);
        keys::check(&text, weak);
        keys::check(&format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"), weak);
        let der = bytes.chunks(48).map(encode_standard).collect::<Vec<_>>().join("\n");
        keys::check(&format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n"), weak);
    }

    /// Any JSON for a key set.
    #[test]
    fn key_sets_of_any_shape(set in any_json(), list in vec(any_json(), 0..4), weak in any::<bool>()) {
        keys::check(&set.to_string(), weak);
        keys::check(&json!({ "keys": list }).to_string(), weak);
        keys::check(&json!({ "keys": set, "kty": "RSA" }).to_string(), weak);
    }
}

proptest! {
    // A key of RSA takes its time to be checked.
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Keys that are nearly good; and what is said of them tells no secret.
    #[test]
    fn key_sets_that_are_nearly_good(list in vec(jwk(), 0..5), weak in any::<bool>()) {
        let text = json!({ "keys": list }).to_string();
        keys::check(&text, weak);
        let said = format!("{:?}", KeySet::parse(&text, weak));
        for key in &list {
            for part in ["k", "n", "x", "y"] {
                let secret = key.get(part).and_then(Value::as_str).filter(|secret| secret.len() >= 16);
                prop_assert!(secret.is_none_or(|secret| !said.contains(secret)), "{}", said);
            }
        }
    }
}

fn encode_standard(bytes: &[u8]) -> String {
    use base64ct::{Base64, Encoding as _};
    Base64::encode_string(bytes)
}

/// The strategies make what they should: tokens that verify, in every configuration that has a provider for
/// them, and others.
#[test]
fn good_tokens_are_among_those_made_up() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut verified, mut refused) = ([0; 6], [0; 6]);
    for round in 0..3000 {
        let minted = minted().new_tree(&mut runner).unwrap().current();
        let setup = round % 6;
        let mut head = placed(HeadMap::get("/api/x"), 0, &minted.token);
        let mut all = vec![minted];
        if setup == 3 {
            // One of the other issuer, which the second provider may have.
            let claims = json!({"iss": "https://other.example", "aud": "api"}).to_string();
            all.push(mint(br#"{"alg":"HS256"}"#, claims.as_bytes()));
            head = placed(head, 4, &all[1].token);
        }
        let way = check(&Request { setup, head, minted: all });
        verified[setup] += usize::from(way == "allowed.reason.verified");
        refused[setup] += usize::from(way.contains("refused."));
    }
    assert!(verified.iter().all(|count| *count >= 10), "{verified:?}");
    assert!(refused.iter().all(|count| *count >= 100), "{refused:?}");
}
