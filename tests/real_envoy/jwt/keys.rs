//! The fixed set of keys, each made anew in every run when it is first asked for.
//!
//! | name | for |
//! |---|---|
//! | `rsa`, `other_rsa` (2048 bits) | RS256 to PS512 |
//! | `p256`, `other_p256` | ES256 |
//! | `p384`, `p521` | ES384, ES512 |
//! | `ed25519` | EdDSA |
//! | `secret`, `other_secret` (64 bytes) | HS256 to HS512 |
//! | `weak_secret` (10 bytes) | HS256, where weak keys are allowed |
//! | `rsa_pem_as_secret` | HS256, as an attacker signs who has the public key only |

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context as _, bail, ensure};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac::Hmac;
use rsa::traits::PublicKeyParts as _;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use spki::EncodePublicKey as _;

/// A key that can sign.
pub(crate) enum Key {
    Rsa(Box<rsa::PrivateKey>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(p521::ecdsa::SigningKey),
    Ed25519(ed25519_dalek::SigningKey),
    Secret(Vec<u8>),
}

type Made = LazyLock<Key>;
type Make = fn() -> Key;

static KEYS: LazyLock<BTreeMap<&'static str, Made>> = LazyLock::new(|| {
    let makers: [(&str, Make); 11] = [
        ("rsa", rsa),
        ("other_rsa", rsa),
        ("p256", || Key::P256(p256::ecdsa::SigningKey::from_slice(&random::<32>()).unwrap())),
        ("other_p256", || Key::P256(p256::ecdsa::SigningKey::from_slice(&random::<32>()).unwrap())),
        ("p384", || Key::P384(p384::ecdsa::SigningKey::from_slice(&random::<48>()).unwrap())),
        ("p521", p521),
        ("ed25519", || Key::Ed25519(ed25519_dalek::SigningKey::from_bytes(&random()))),
        ("secret", || Key::Secret(random::<64>().to_vec())),
        ("weak_secret", || Key::Secret(random::<10>().to_vec())),
        ("other_secret", || Key::Secret(random::<64>().to_vec())),
        ("rsa_pem_as_secret", || Key::Secret(named("rsa").unwrap().pem().unwrap().into_bytes())),
    ];
    makers.into_iter().map(|(name, make)| (name, LazyLock::new(make))).collect()
});

/// The key of that name.
pub(crate) fn named(name: &str) -> anyhow::Result<&'static Key> {
    match KEYS.get(name) {
        Some(key) => Ok(key),
        None => bail!("no key is named {name:?}; there are {:?}", KEYS.keys().collect::<Vec<_>>()),
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

fn rsa() -> Key {
    Key::Rsa(Box::new(rsa::PrivateKey::new(&mut getrandom::SysRng, 2048).unwrap()))
}

fn p521() -> Key {
    let mut bytes = random::<66>();
    // The order of the curve has 521 bits, all of the first ones set: 520 bits are below it.
    bytes[0] = 0;
    Key::P521(p521::ecdsa::SigningKey::from_slice(&bytes).unwrap())
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

impl Key {
    /// The algorithm that a token of this key has unless the case says otherwise.
    pub(crate) fn usual_algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::P521(_) => "ES512",
            Self::Ed25519(_) => "EdDSA",
            Self::Secret(_) => "HS256",
        }
    }

    /// The JWK, without `kid` and `alg`.
    pub(crate) fn jwk(&self) -> Map<String, Value> {
        fn point(curve: &str, uncompressed: &[u8]) -> Vec<(&'static str, String)> {
            let (x, y) = uncompressed[1..].split_at((uncompressed.len() - 1) / 2);
            vec![("kty", "EC".to_owned()), ("crv", curve.to_owned()), ("x", encode(x)), ("y", encode(y))]
        }
        let members = match self {
            Self::Rsa(key) => {
                vec![("kty", "RSA".to_owned()), ("n", encode(key.n_bytes())), ("e", encode(key.e_bytes()))]
            }
            Self::P256(key) => point("P-256", key.verifying_key().to_sec1_point(false).as_bytes()),
            Self::P384(key) => point("P-384", key.verifying_key().to_sec1_point(false).as_bytes()),
            Self::P521(key) => point("P-521", key.verifying_key().to_sec1_point(false).as_bytes()),
            Self::Ed25519(key) => vec![
                ("kty", "OKP".to_owned()),
                ("crv", "Ed25519".to_owned()),
                ("x", encode(key.verifying_key().as_bytes())),
            ],
            Self::Secret(secret) => vec![("kty", "oct".to_owned()), ("k", encode(secret))],
        };
        members.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// The public half in PEM.
    pub(crate) fn pem(&self) -> anyhow::Result<String> {
        let ending = spki::der::pem::LineEnding::LF;
        let pem = match self {
            Self::Rsa(key) => key.as_public_key().to_public_key_pem(ending),
            Self::P256(key) => key.verifying_key().to_public_key_pem(ending),
            Self::P384(key) => key.verifying_key().to_public_key_pem(ending),
            Self::P521(key) => key.verifying_key().to_public_key_pem(ending),
            Self::Ed25519(key) => {
                // RFC 8410: the key behind a fixed beginning.
                let mut der = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".to_vec();
                der.extend_from_slice(key.verifying_key().as_bytes());
                let body = base64ct::Base64::encode_string(&der);
                Ok(format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"))
            }
            Self::Secret(_) => bail!("a secret has no public half"),
        };
        pem.context("cannot write a key in PEM")
    }

    /// The signature of a text, as a JWS has it.
    pub(crate) fn sign(&self, algorithm: &str, text: &[u8]) -> anyhow::Result<Vec<u8>> {
        use p256::ecdsa::signature::Signer as _;
        use rsa::{Pkcs1v15Sign, Pss};
        let (sha256, sha384, sha512) = (Sha256::digest(text), Sha384::digest(text), Sha512::digest(text));
        Ok(match (self, algorithm) {
            (Self::Rsa(key), "RS256") => key.sign(Pkcs1v15Sign::new::<Sha256>(), &sha256)?,
            (Self::Rsa(key), "RS384") => key.sign(Pkcs1v15Sign::new::<Sha384>(), &sha384)?,
            (Self::Rsa(key), "RS512") => key.sign(Pkcs1v15Sign::new::<Sha512>(), &sha512)?,
            (Self::Rsa(key), "PS256") => key.sign(Pss::<Sha256>::new(), &sha256)?,
            (Self::Rsa(key), "PS384") => key.sign(Pss::<Sha384>::new(), &sha384)?,
            (Self::Rsa(key), "PS512") => key.sign(Pss::<Sha512>::new(), &sha512)?,
            (Self::P256(key), "ES256") => {
                let signature: p256::ecdsa::Signature = key.sign(text);
                signature.to_bytes().to_vec()
            }
            (Self::P384(key), "ES384") => {
                let signature: p384::ecdsa::Signature = key.sign(text);
                signature.to_bytes().to_vec()
            }
            (Self::P521(key), "ES512") => {
                let signature: p521::ecdsa::Signature = key.sign(text);
                signature.to_bytes().to_vec()
            }
            (Self::Ed25519(key), "EdDSA") => key.sign(text).to_bytes().to_vec(),
            (Self::Secret(secret), "HS256") => mac::<Hmac<Sha256>>(secret, text),
            (Self::Secret(secret), "HS384") => mac::<Hmac<Sha384>>(secret, text),
            (Self::Secret(secret), "HS512") => mac::<Hmac<Sha512>>(secret, text),
            _ => bail!("{algorithm} does not go with this kind of key"),
        })
    }
}

fn mac<M: hmac::Mac + hmac::KeyInit>(secret: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = <M as hmac::KeyInit>::new_from_slice(secret).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// The DER form of an ECDSA signature over P-256: what JWS does not take.
pub(crate) fn p256_der(raw: &[u8]) -> anyhow::Result<Vec<u8>> {
    ensure!(raw.len() == 64, "no P-256 signature");
    Ok(p256::ecdsa::Signature::from_slice(raw)?.to_der().as_bytes().to_vec())
}

/// What is made here is checked by a library that the filter does not use.
#[test]
fn another_library_verifies_what_these_keys_sign() {
    use jwt_simple::prelude::*;

    fn token(key: &str, algorithm: &str) -> String {
        super::token::make(&serde_json::json!({ "key": key, "alg": algorithm })).unwrap()
    }
    fn check(name: &str, outcome: Result<JWTClaims<NoCustomClaims>, jwt_simple::Error>) {
        let claims = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(claims.issuer.as_deref(), Some("https://issuer.example"));
    }

    let rsa = named("rsa").unwrap().pem().unwrap();
    check("RS256", RS256PublicKey::from_pem(&rsa).unwrap().verify_token(&token("rsa", "RS256"), None));
    check("RS384", RS384PublicKey::from_pem(&rsa).unwrap().verify_token(&token("rsa", "RS384"), None));
    check("RS512", RS512PublicKey::from_pem(&rsa).unwrap().verify_token(&token("rsa", "RS512"), None));
    check("PS256", PS256PublicKey::from_pem(&rsa).unwrap().verify_token(&token("rsa", "PS256"), None));
    check("PS384", PS384PublicKey::from_pem(&rsa).unwrap().verify_token(&token("rsa", "PS384"), None));
    check("PS512", PS512PublicKey::from_pem(&rsa).unwrap().verify_token(&token("rsa", "PS512"), None));
    let p256 = ES256PublicKey::from_pem(&named("p256").unwrap().pem().unwrap()).unwrap();
    check("ES256", p256.verify_token(&token("p256", "ES256"), None));
    let p384 = ES384PublicKey::from_pem(&named("p384").unwrap().pem().unwrap()).unwrap();
    check("ES384", p384.verify_token(&token("p384", "ES384"), None));
    let edwards = Ed25519PublicKey::from_pem(&named("ed25519").unwrap().pem().unwrap()).unwrap();
    check("EdDSA", edwards.verify_token(&token("ed25519", "EdDSA"), None));
    let Key::Secret(secret) = named("secret").unwrap() else { panic!("a secret") };
    check("HS256", HS256Key::from_bytes(secret).verify_token(&token("secret", "HS256"), None));
    check("HS384", HS384Key::from_bytes(secret).verify_token(&token("secret", "HS384"), None));
    check("HS512", HS512Key::from_bytes(secret).verify_token(&token("secret", "HS512"), None));
}
