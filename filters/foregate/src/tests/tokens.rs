//! Tokens, and the providers that know their keys.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac::{Hmac, KeyInit, Mac};
use p256::ecdsa::signature::Signer as _;
use serde_json::{Value, json};

pub(super) const NOW: u64 = 1_796_112_943;

const SECRET: [u8; 32] = [7; 32];

fn encode(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

fn signed(algorithm: &str, issuer: &str, changes: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let mut claims = json!({ "iss": issuer, "aud": "api", "sub": "alice", "exp": NOW + 600 });
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let header = json!({ "alg": algorithm });
    let text = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
    let signature = sign(text.as_bytes());
    format!("{text}.{}", encode(&signature))
}

/// A token of the issuer `main`, with a secret.
pub(super) fn main(changes: &Value) -> String {
    signed("HS256", "https://main.example", changes, |text| {
        let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(&SECRET).unwrap();
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    })
}

/// A token of the issuer `other`, with a key pair.
pub(super) fn other(changes: &Value) -> String {
    signed("ES256", "https://other.example", changes, |text| {
        let signature: p256::ecdsa::Signature = key().sign(text);
        signature.to_bytes().to_vec()
    })
}

/// The same, its signature not that of its text.
pub(super) fn forged(token: &str) -> String {
    let (text, signature) = token.rsplit_once('.').unwrap();
    let last = if signature.starts_with('A') { "B" } else { "A" };
    format!("{text}.{last}{}", &signature[1..])
}

fn key() -> p256::ecdsa::SigningKey {
    p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap()
}

/// The keys of `main`.
pub(super) fn main_keys() -> Value {
    json!({ "keys": [{ "kty": "oct", "k": encode(&SECRET) }] })
}

/// Whom these tokens are of.
pub(super) fn providers() -> Value {
    let point = key().verifying_key().to_sec1_point(false);
    let (x, y) = point.as_bytes()[1..].split_at(32);
    let keys = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) }] });
    json!({
        "main": {
            "issuer": "https://main.example",
            "local_jwks": { "inline_string": main_keys().to_string() },
        },
        "other": {
            "issuer": "https://other.example",
            "local_jwks": { "inline_string": keys.to_string() },
        },
    })
}

/// A filter that asks every request for a token of `main`.
pub(super) fn requires_main(changes: &Value) -> Value {
    let mut provider = providers()["main"].clone();
    provider.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    json!({ "jwt_reject": {
        "providers": { "main": provider },
        "rules": [{ "match": {}, "requires": { "provider_name": "main" } }],
    } })
}
