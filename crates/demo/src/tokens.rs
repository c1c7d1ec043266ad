//! The demo's key pair and tokens, made anew at every start.

use anyhow::{Context as _, anyhow};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use jwt_simple::prelude::{
    Claims, Clock, Duration, ECDSAP256KeyPairLike as _, ES256KeyPair, JWTClaims, NoCustomClaims,
};
use real_envoy::Config;

/// Who issues them, and for whom: as the shipped configuration asks.
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "api";
/// Whom they are about.
pub(crate) const SUBJECT: &str = "alice";

/// Tokens, each with what is right or wrong about it.
#[derive(Debug)]
pub(crate) struct Tokens {
    jwks: String,
    /// As it should be, for a day.
    pub(crate) good: String,
    /// Expired an hour ago.
    pub(crate) expired: String,
    /// Good but for one character of its signature.
    pub(crate) forged: String,
    /// The good one's claims, `alg` none, no signature.
    pub(crate) unsigned: String,
    /// For another audience.
    pub(crate) other_audience: String,
}

impl Tokens {
    /// Makes the key pair and signs.
    pub(crate) fn mint() -> anyhow::Result<Self> {
        let key = ES256KeyPair::generate().with_key_id("demo");
        let sign = |claims| key.sign(claims).map_err(|error| anyhow!("cannot sign a token: {error}"));
        let good = sign(claims(AUDIENCE))?;
        let (signed, signature) = good.rsplit_once('.').context("a token has no signature")?;
        let (_, payload) = signed.split_once('.').context("a token has no payload")?;
        let hour_ago = Clock::now_since_epoch() - Duration::from_hours(1);
        let expired = JWTClaims {
            issued_at: Some(hour_ago - Duration::from_hours(1)),
            invalid_before: None,
            expires_at: Some(hour_ago),
            ..claims(AUDIENCE)
        };
        Ok(Self {
            jwks: format!("{{\"keys\":[{}]}}", key.public_key().to_jwk()),
            expired: sign(expired)?,
            forged: format!("{signed}.{}", altered(signature)),
            unsigned: format!(
                "{}.{payload}.",
                Base64UrlUnpadded::encode_string(br#"{"alg":"none","typ":"JWT"}"#)
            ),
            other_audience: sign(claims("billing"))?,
            good,
        })
    }

    /// A shipped configuration with the public key, as a JWK set, in this place.
    pub(crate) fn trusted_by(&self, configuration: &str, place: &str) -> anyhow::Result<Config> {
        Config::load(configuration)?.edit(|value| {
            let keys = value.pointer_mut(place);
            *keys.with_context(|| format!("{configuration} has no keys at {place}"))? =
                self.jwks.clone().into();
            Ok(())
        })
    }
}

fn claims(audience: &str) -> JWTClaims<NoCustomClaims> {
    Claims::create(Duration::from_hours(24)).with_issuer(ISSUER).with_subject(SUBJECT).with_audience(audience)
}

/// The text with its first character changed: still base64url, and another signature.
fn altered(signature: &str) -> String {
    let mut rest = signature.chars();
    let first = if rest.next() == Some('A') { 'B' } else { 'A' };
    std::iter::once(first).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_what_they_are_called() {
        let tokens = Tokens::mint().unwrap();
        let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (good, forged, unsigned) = (parts(&tokens.good), parts(&tokens.forged), parts(&tokens.unsigned));
        assert_eq!(good[..2], forged[..2]);
        assert!(good[2] != forged[2] && good[2].len() == forged[2].len());
        assert!(unsigned[1] == good[1] && unsigned[2].is_empty());
        assert!(tokens.jwks.contains("\"P-256\"") && !tokens.jwks.contains("\"d\""));
    }
}
