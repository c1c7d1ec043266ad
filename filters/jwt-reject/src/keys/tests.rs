//! Tables of what is a usable key, what is passed over, and what is refused.

use serde_json::{Value, json};

use super::*;

const P256_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const P256_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const ED_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn ec() -> Value {
    json!({"kty": "EC", "crv": "P-256", "x": P256_X, "y": P256_Y})
}

fn oct(bytes: usize) -> Value {
    use base64ct::{Base64UrlUnpadded, Encoding};
    json!({"kty": "oct", "k": Base64UrlUnpadded::encode_string(&vec![7; bytes])})
}

fn with(mut jwk: Value, name: &str, value: impl Into<Value>) -> Value {
    jwk[name] = value.into();
    jwk
}

/// The message about a set of this one key; empty where it is usable.
fn about(jwk: Value) -> String {
    match KeySet::parse(&json!({"keys": [jwk]}).to_string(), false) {
        Ok((keys, skipped)) => {
            assert!(skipped.is_empty() && keys.len() == 1);
            String::new()
        }
        Err(errors) => errors.iter().map(|error| format!("{}: {}\n", error.place, error.message)).collect(),
    }
}

#[test]
fn keys_and_what_is_wrong_with_them() {
    let rows = [
        (ec(), ""),
        (with(ec(), "alg", "ES256"), ""),
        (with(ec(), "use", "sig"), ""),
        (with(ec(), "key_ops", json!(["sign", "verify"])), ""),
        (with(ec(), "x5c", json!(["junk"])), ""),
        (json!({"kty": "OKP", "crv": "Ed25519", "x": ED_X}), ""),
        (oct(32), ""),
        (with(oct(48), "alg", "HS384"), ""),
        (with(ec(), "alg", "ES384"), "keys[0]: `alg` \"ES384\" does not go with its kind of key"),
        (with(ec(), "alg", "HS256"), "does not go with its kind of key"),
        (with(oct(32), "alg", "RS256"), "does not go with its kind of key"),
        (with(ec(), "alg", "none"), "`alg` \"none\" is not supported"),
        (with(ec(), "alg", 7), "`alg` is no string"),
        (with(ec(), "use", "enc"), "`use` is not \"sig\""),
        (with(ec(), "key_ops", json!(["sign"])), "`key_ops` does not list \"verify\""),
        (with(ec(), "key_ops", "verify"), "`key_ops` does not list \"verify\""),
        (with(ec(), "crv", "P-384"), "`x` and `y` are no point of the curve"),
        (with(ec(), "x", format!("AAAA{P256_X}A")), "`x` and `y` must have 32 bytes each"),
        (with(ec(), "crv", "secp256k1"), "`crv` \"secp256k1\" is not supported"),
        (with(ec(), "y", P256_X), "`x` and `y` are no point of the curve"),
        (with(ec(), "x", format!("{P256_X}=")), "`x` is not base64url"),
        (with(ec(), "x", "+83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"), "`x` is not base64url"),
        (with(ec(), "kty", "XYZ"), "`kty` \"XYZ\" is not supported"),
        (json!({"alg": "ES256"}), "`kty` is missing"),
        (json!("key"), "is no JSON object"),
        (json!({"kty": "OKP", "crv": "X25519", "x": ED_X}), "`crv` is not \"Ed25519\""),
        // The identity: a point of small order, for which signatures can be made without the key.
        (
            json!({"kty": "OKP", "crv": "Ed25519", "x": "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}),
            "no Ed25519 key",
        ),
        (json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}), "the RSA key has 17 bits, fewer than 2048"),
        (oct(0), "keys[0]: the secret is empty"),
        (oct(31), "the secret has 31 bytes, fewer than the 32 of its hash"),
        (with(oct(48), "alg", "HS512"), "the secret has 48 bytes, fewer than the 64 of its hash"),
    ];
    for (jwk, expected) in rows {
        let message = about(jwk.clone());
        assert!(
            message.contains(expected) && message.is_empty() == expected.is_empty(),
            "{jwk}: {message:?}"
        );
    }
}

#[test]
fn texts_that_are_no_set() {
    let rows = [
        ("", "is empty; it must be a JWK set or public keys in PEM"),
        ("not json", "neither PEM nor valid JSON"),
        ("[]", "`keys` is missing"),
        ("{\"keys\": {}}", "`keys` must be an array"),
        ("{\"keys\": []}", "holds no key that can check a signature"),
        ("{\"kty\": \"oct\", \"k\": \"\"}", "is a single JWK; put it into a set"),
        ("{\"keys\": [], \"keys\": []}", "given twice"),
    ];
    for (text, expected) in rows {
        let errors = KeySet::parse(text, true).unwrap_err();
        assert!(errors[0].message.contains(expected), "{text}: {errors:?}");
    }
    let many = json!({"keys": vec![ec(); 101]}).to_string();
    assert_eq!(KeySet::parse(&many, true).unwrap_err()[0].message, "holds 101 keys; the most is 100");
}

#[test]
fn what_is_unusable_is_passed_over_and_what_is_dangerous_is_not() {
    let set = |keys: Value| KeySet::parse(&json!({ "keys": keys }).to_string(), false);
    let (keys, skipped) = set(json!([{"kty": "QQQ"}, ec(), with(ec(), "use", "enc")])).unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(skipped.iter().map(|key| key.place.as_str()).collect::<Vec<_>>(), ["keys[0]", "keys[2]"]);
    let errors = set(json!([ec(), oct(5)])).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].place, "keys[1]");
}

#[test]
fn weak_keys_serve_where_they_are_allowed_but_empty_ones_never() {
    let weak = json!({"keys": [oct(5)]}).to_string();
    assert!(KeySet::parse(&weak, true).is_ok());
    assert!(KeySet::parse(&json!({"keys": [oct(0)]}).to_string(), true).is_err());
}

#[test]
fn a_key_serves_what_its_type_curve_alg_and_length_bind_it_to() {
    let serves = |jwk: Value| -> Vec<&str> {
        let (keys, _) = KeySet::parse(&json!({"keys": [jwk]}).to_string(), false).unwrap();
        Algorithm::ALL.into_iter().filter(|each| keys.serves(*each)).map(Algorithm::name).collect()
    };
    assert_eq!(serves(ec()), ["ES256"]);
    assert_eq!(serves(json!({"kty": "OKP", "crv": "Ed25519", "x": ED_X})), ["EdDSA"]);
    assert_eq!(serves(oct(64)), ["HS256", "HS384", "HS512"]);
    assert_eq!(serves(oct(48)), ["HS256", "HS384"]);
    assert_eq!(serves(with(oct(64), "alg", "HS384")), ["HS384"]);
}

#[test]
fn candidates_by_kid() {
    let set = json!({"keys": [with(ec(), "kid", "a"), with(ec(), "kid", "b"), ec(), with(ec(), "kid", "a")]});
    let (keys, _) = KeySet::parse(&set.to_string(), false).unwrap();
    let count = |kid| keys.candidates(kid, Algorithm::ES256).count();
    assert_eq!(count(None), 4);
    assert_eq!(count(Some("a")), 3);
    assert_eq!(count(Some("b")), 2);
    assert_eq!(count(Some("zzz")), 1);
    assert_eq!(keys.candidates(Some("a"), Algorithm::ES384).count(), 0);
}

const PEM_P256: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
-----END PUBLIC KEY-----
";

#[test]
fn pem_holds_the_same_key_as_its_jwk() {
    let (from_pem, _) = KeySet::parse(PEM_P256, false).unwrap();
    let (from_jwk, _) = KeySet::parse(&json!({"keys": [ec()]}).to_string(), false).unwrap();
    let spki = |keys: &KeySet| match &keys.keys[0].material {
        Material::P256 { spki, .. } => spki.clone(),
        _ => panic!("not P-256"),
    };
    assert_eq!(spki(&from_pem), spki(&from_jwk));
    let crlf = PEM_P256.replace('\n', "\r\n");
    let two = format!("\n{PEM_P256}\n{crlf}\n");
    assert_eq!(KeySet::parse(&two, false).unwrap().0.len(), 2);
}

#[test]
fn pem_that_is_no_public_key_says_what_to_do() {
    let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    let rows = [
        (block("CERTIFICATE"), "openssl x509 -in FILE -pubkey -noout"),
        (block("RSA PUBLIC KEY"), "openssl rsa -RSAPublicKey_in"),
        (block("EC PRIVATE KEY"), "is a private key, which a gateway must not have"),
        (block("PRIVATE KEY"), "is a private key"),
        (block("SOMETHING"), "must be PUBLIC KEY"),
        (block("PUBLIC KEY"), "holds no key that can check a signature"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n".into(), "the block does not end"),
        (format!("{PEM_P256}\njunk"), "PEM block 2: text that belongs to no PEM block"),
        (PEM_P256.replace("MFkw", "!!!!"), "no valid PEM"),
    ];
    for (text, expected) in rows {
        let errors = KeySet::parse(&text, false).unwrap_err();
        let message = format!("{}: {}", errors[0].place, errors[0].message);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn no_key_is_ever_shown() {
    let (keys, _) = KeySet::parse(&json!({"keys": [oct(32)]}).to_string(), false).unwrap();
    let shown = format!("{keys:?}");
    assert!(!shown.contains("7, 7") && !shown.contains("BwcH"), "{shown}");
}
