//! Keys of every kind, made anew in every run; what they sign is signed by AWS-LC.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaKeyPair, RsaPublicKeyComponents,
};
use aws_lc_rs::{hmac, rand};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use jsonwebtoken::DecodingKey;
use serde_json::{Value, json};

/// A key that can sign, and its public half as both sides want it.
pub(crate) struct Key {
    /// Its `kid`; none where its JWK has none.
    pub(crate) id: Option<&'static str>,
    /// The algorithms that it may sign by.
    pub(crate) algorithms: &'static [&'static str],
    /// As the filter reads it.
    pub(crate) jwk: Value,
    /// As the other library takes it.
    pub(crate) other: DecodingKey,
    /// What an attacker has of it, who may try to sign with that: everything that is public.
    pub(crate) public: Vec<Vec<u8>>,
    signer: Signer,
}

enum Signer {
    Secret(Vec<u8>),
    Rsa(Box<RsaKeyPair>),
    Ecdsa(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

impl Key {
    pub(crate) fn secret(id: Option<&'static str>) -> Self {
        let mut secret = vec![0; 64];
        rand::fill(&mut secret).unwrap();
        let other = DecodingKey::from_secret(&secret).unwrap();
        let jwk = json!({"kty": "oct", "k": encode(&secret)});
        let public = vec![vec![0; 64], b"secret".to_vec()];
        Self::new(id, &["HS256", "HS384", "HS512"], jwk, other, public, Signer::Secret(secret))
    }

    pub(crate) fn rsa(id: Option<&'static str>) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public_key().into();
        let other = DecodingKey::from_rsa_raw_components(&n, &e);
        let jwk = json!({"kty": "RSA", "n": encode(&n), "e": encode(&e)});
        let pkcs1 = pair.public_key().as_ref().to_vec();
        let public = vec![pem(&pkcs1), pkcs1, n, jwk.to_string().into_bytes()];
        let algorithms = &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
        Self::new(id, algorithms, jwk, other, public, Signer::Rsa(Box::new(pair)))
    }

    pub(crate) fn p256(id: Option<&'static str>) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self::ecdsa(id, "P-256", &["ES256"], pair)
    }

    pub(crate) fn p384(id: Option<&'static str>) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
        Self::ecdsa(id, "P-384", &["ES384"], pair)
    }

    fn ecdsa(
        id: Option<&'static str>,
        curve: &str,
        algorithms: &'static [&'static str],
        pair: EcdsaKeyPair,
    ) -> Self {
        let point = pair.public_key().as_ref().to_vec();
        let (x, y) = point[1..].split_at((point.len() - 1) / 2);
        let jwk = json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)});
        let other = DecodingKey::from_ec_der(&point);
        let public = vec![pem(&point), point, jwk.to_string().into_bytes()];
        Self::new(id, algorithms, jwk, other, public, Signer::Ecdsa(pair))
    }

    pub(crate) fn edwards(id: Option<&'static str>) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        let point = pair.public_key().as_ref().to_vec();
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": encode(&point)});
        let other = DecodingKey::from_ed_der(&point);
        let public = vec![pem(&point), point, jwk.to_string().into_bytes()];
        Self::new(id, &["EdDSA"], jwk, other, public, Signer::Edwards(pair))
    }

    fn new(
        id: Option<&'static str>,
        algorithms: &'static [&'static str],
        mut jwk: Value,
        other: DecodingKey,
        public: Vec<Vec<u8>>,
        signer: Signer,
    ) -> Self {
        if let Some(id) = id {
            jwk["kid"] = json!(id);
        }
        Self { id, algorithms, jwk, other, public, signer }
    }

    /// Signs by an algorithm that goes with the key; by the key's first where this one does not.
    pub(crate) fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.signer {
            Signer::Secret(secret) => mac(secret, algorithm, text),
            Signer::Ecdsa(pair) => pair.sign(&random, text).unwrap().as_ref().to_vec(),
            Signer::Edwards(pair) => pair.sign(text).as_ref().to_vec(),
            Signer::Rsa(pair) => {
                let padding: &dyn aws_lc_rs::signature::RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, text, &mut signature).unwrap();
                signature
            }
        }
    }
}

/// An HMAC by this algorithm; by HS256 where it is none of the family.
pub(crate) fn mac(secret: &[u8], algorithm: &str, text: &[u8]) -> Vec<u8> {
    let hash = match algorithm {
        "HS384" => hmac::HMAC_SHA384,
        "HS512" => hmac::HMAC_SHA512,
        _ => hmac::HMAC_SHA256,
    };
    hmac::sign(&hmac::Key::new(hash, secret), text).as_ref().to_vec()
}

fn pem(bytes: &[u8]) -> Vec<u8> {
    let body = base64ct::Base64::encode_string(bytes);
    format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n").into_bytes()
}
