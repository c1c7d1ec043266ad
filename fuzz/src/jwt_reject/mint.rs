//! Tokens with a good signature, of whatever header and payload: only with these does fuzzing get past the
//! last check. The keys are made up, and known to the configurations of `setups`.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use ed25519_dalek::Signer as _;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Sha256, Sha384, Sha512};

/// A token that was signed, and what it says.
#[derive(Debug, Clone)]
pub struct Minted {
    /// All of it.
    pub token: Vec<u8>,
    /// Its header, decoded.
    pub header: Vec<u8>,
    /// Its payload, decoded.
    pub payload: Vec<u8>,
}

const SECRET: [u8; 64] = [7; 64];

fn p256_key() -> p256::ecdsa::SigningKey {
    p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap()
}

fn edwards_key() -> ed25519_dalek::SigningKey {
    ed25519_dalek::SigningKey::from_bytes(&[7; 32])
}

/// Encodes as a token does.
pub fn encode(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Signs this header and payload, be they JSON or not, with the algorithm that the header names;
/// HS256 where it names none of HS384, HS512, ES256 and EdDSA.
pub fn mint(header: &[u8], payload: &[u8]) -> Minted {
    let signed = format!("{}.{}", encode(header), encode(payload));
    let text = signed.as_bytes();
    let named = |name: &[u8]| header.windows(name.len()).any(|window| window == name);
    let signature = match () {
        () if named(b"EdDSA") => edwards_key().sign(text).to_bytes().to_vec(),
        () if named(b"ES256") => {
            let signature: p256::ecdsa::Signature = p256_key().sign(text);
            signature.to_bytes().to_vec()
        }
        () if named(b"HS512") => mac::<Hmac<Sha512>>(text),
        () if named(b"HS384") => mac::<Hmac<Sha384>>(text),
        () => mac::<Hmac<Sha256>>(text),
    };
    let token = format!("{signed}.{}", encode(&signature)).into_bytes();
    Minted { token, header: header.to_vec(), payload: payload.to_vec() }
}

fn mac<M: Mac + KeyInit>(text: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(&SECRET).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// The JWK set of the secret.
pub(crate) fn secret_set() -> Value {
    json!({"keys": [{"kty": "oct", "k": encode(&SECRET)}]})
}

/// The JWK set of the public keys, and an RSA key whose private half nobody knows.
pub(crate) fn public_set() -> Value {
    let point = p256_key().verifying_key().to_sec1_point(false);
    let (x, y) = point.as_bytes()[1..].split_at(32);
    json!({"keys": [
        {"kty": "EC", "crv": "P-256", "kid": "p256", "x": encode(x), "y": encode(y)},
        {"kty": "OKP", "crv": "Ed25519", "kid": "ed25519", "x": encode(edwards_key().verifying_key().as_bytes())},
        {"kty": "RSA", "kid": "rsa", "n": encode(&[0xb5; 256]), "e": "AQAB"},
    ]})
}
