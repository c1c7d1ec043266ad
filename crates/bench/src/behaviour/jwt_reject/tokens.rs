//! Keys and tokens, made anew in every run.

use anyhow::{Context as _, anyhow};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use jwt_simple::prelude::{
    Claims, Clock, Duration, ECDSAP256KeyPairLike as _, ES256KeyPair, Ed25519KeyPair, EdDSAKeyPairLike as _,
    HS256Key, JWTClaims, MACLike as _, RS256KeyPair, RSAKeyPairLike as _,
};
use serde::Serialize;

/// As the shipped configurations ask.
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "api";

/// The keys that every implementation knows, in one set or the other.
pub(crate) struct Keys {
    rs256: RS256KeyPair,
    es256: ES256KeyPair,
    eddsa: Ed25519KeyPair,
    secret: HS256Key,
}

/// Which key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    Eddsa,
    Hs256,
}

/// Those whose keys are in one set.
pub(crate) const WITH_PUBLIC_KEYS: &[Algorithm] = &[Algorithm::Rs256, Algorithm::Es256, Algorithm::Eddsa];

/// What an identity provider adds to the registered claims, more or less.
#[derive(Serialize)]
struct Extra {
    scope: &'static str,
    client_id: &'static str,
    email: String,
    roles: [&'static str; 2],
}

impl Keys {
    /// Makes them: RSA with 2048 bits, P-256, Ed25519, and a secret of 32 bytes.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let rs256 = RS256KeyPair::generate(2048).map_err(|error| anyhow!("cannot make a key: {error}"))?;
        Ok(Self {
            rs256: rs256.with_key_id("rsa"),
            es256: ES256KeyPair::generate().with_key_id("p256"),
            eddsa: Ed25519KeyPair::generate().with_key_id("ed25519"),
            secret: HS256Key::generate().with_key_id("secret"),
        })
    }

    /// The public halves, as a JWK set.
    pub(crate) fn jwks(&self) -> String {
        let rs256 = self.rs256.public_key().to_jwk();
        let (es256, eddsa) = (self.es256.public_key().to_jwk(), self.eddsa.public_key().to_jwk());
        format!("{{\"keys\":[{rs256},{es256},{eddsa}]}}")
    }

    /// The secret, as a JWK set.
    pub(in crate::behaviour) fn secret_jwks(&self) -> String {
        let key = Base64UrlUnpadded::encode_string(&self.secret.to_bytes());
        serde_json::json!({ "keys": [{ "kty": "oct", "kid": "secret", "alg": "HS256", "k": key }] })
            .to_string()
    }

    /// A token that every implementation accepts for a day. Each number has its own.
    pub(crate) fn good(&self, algorithm: Algorithm, number: usize) -> anyhow::Result<String> {
        self.sign(algorithm, claims(number))
    }

    /// As many of them, made by all cores.
    pub(in crate::behaviour) fn many(
        &self,
        algorithm: Algorithm,
        count: usize,
    ) -> anyhow::Result<Vec<String>> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let share = count.div_ceil(workers).max(1);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..count)
                .step_by(share)
                .map(|from| {
                    let numbers = from..count.min(from + share);
                    scope.spawn(move || {
                        numbers.map(|it| self.good(algorithm, it)).collect::<Result<Vec<_>, _>>()
                    })
                })
                .collect();
            let mut all = Vec::with_capacity(count);
            for worker in workers {
                all.extend(worker.join().map_err(|_| anyhow!("a thread that makes tokens panicked"))??);
            }
            Ok(all)
        })
    }

    /// A token that expired an hour ago, its signature good.
    pub(crate) fn expired(&self, algorithm: Algorithm) -> anyhow::Result<String> {
        let hour_ago = Clock::now_since_epoch() - Duration::from_hours(1);
        let expired = JWTClaims {
            issued_at: Some(hour_ago - Duration::from_hours(1)),
            invalid_before: None,
            expires_at: Some(hour_ago),
            ..claims(0)
        };
        self.sign(algorithm, expired)
    }

    /// A token of somebody else whose keys these are too, which they should not be.
    pub(in crate::behaviour) fn of_another_issuer(&self, algorithm: Algorithm) -> anyhow::Result<String> {
        self.sign(algorithm, claims(0).with_issuer("https://other.example"))
    }

    /// A token for somebody else.
    pub(in crate::behaviour) fn for_another_audience(&self, algorithm: Algorithm) -> anyhow::Result<String> {
        self.sign(algorithm, claims(0).with_audience("admin"))
    }

    fn sign(&self, algorithm: Algorithm, claims: JWTClaims<Extra>) -> anyhow::Result<String> {
        match algorithm {
            Algorithm::Rs256 => self.rs256.sign(claims),
            Algorithm::Es256 => self.es256.sign(claims),
            Algorithm::Eddsa => self.eddsa.sign(claims),
            Algorithm::Hs256 => self.secret.authenticate(claims),
        }
        .map_err(|error| anyhow!("cannot sign a token: {error}"))
    }
}

fn claims(number: usize) -> JWTClaims<Extra> {
    let extra = Extra {
        scope: "openid profile orders:read orders:write",
        client_id: "storefront",
        email: format!("user-{number}@customer.example"),
        roles: ["customer", "reviewer"],
    };
    let claims = Claims::with_custom_claims(extra, Duration::from_hours(24));
    claims.with_issuer(ISSUER).with_subject(format!("{number:032x}")).with_audience(AUDIENCE)
}

/// A good token without its signature and the dot before it.
pub(in crate::behaviour) fn without_signature(token: &str) -> anyhow::Result<String> {
    let (signed, _) = token.rsplit_once('.').context("a token has no dot")?;
    Ok(signed.to_owned())
}

/// A good token with another signature, a different one for each number. Its first bytes stay, so that the
/// signature is a number that the key could have signed with: no check ends early.
pub(crate) fn forged(token: &str, number: usize) -> anyhow::Result<String> {
    let (signed, signature) = token.rsplit_once('.').context("a token has no dot")?;
    let mut signature =
        Base64UrlUnpadded::decode_vec(signature).map_err(|error| anyhow!("a signature: {error}"))?;
    let change = (number as u64).wrapping_add(1).to_le_bytes();
    let from = signature.len() / 2;
    let middle = signature.get_mut(from..).into_iter().flatten();
    middle.zip(change).for_each(|(byte, change)| *byte ^= change);
    Ok(format!("{signed}.{}", Base64UrlUnpadded::encode_string(&signature)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn forged_tokens_are_all_different_and_none_is_the_good_one() {
        let keys = Keys::make().unwrap();
        for algorithm in WITH_PUBLIC_KEYS.iter().copied().chain([Algorithm::Hs256]) {
            let good = keys.good(algorithm, 0).unwrap();
            let mut all: HashSet<String> = (0..5000).map(|it| forged(&good, it).unwrap()).collect();
            assert!(all.insert(good));
            assert_eq!(all.len(), 5001);
        }
    }

    #[test]
    fn many_are_as_many_and_all_different() {
        let keys = Keys::make().unwrap();
        for count in [0, 1, 7, 100] {
            let many = keys.many(Algorithm::Es256, count).unwrap();
            assert_eq!(many.iter().collect::<HashSet<_>>().len(), count);
        }
    }
}
