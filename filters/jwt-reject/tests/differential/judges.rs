//! The two who judge: the filter, as it runs, and another library, set up to want the same.

use filter_api::{Facts, Filter, HeadMap, Moment, NoHost, Outcome};
use jsonwebtoken::{Algorithm, Validation, decode, decode_header, get_current_timestamp};
use jwt_reject::JwtReject;
use serde_json::{Value, json};

use crate::keys::Key;

pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const AUDIENCE: &str = "api";

/// Some keys, and the algorithms that a configuration allows for them.
pub(crate) struct Set {
    pub(crate) keys: Vec<Key>,
    pub(crate) allowed: Vec<&'static str>,
}

impl Set {
    pub(crate) fn new(keys: Vec<Key>) -> Self {
        let allowed = keys.iter().flat_map(|key| key.algorithms.iter().copied()).collect();
        Self { keys, allowed }
    }

    pub(crate) fn allowing(self, allowed: &[&'static str]) -> Self {
        Self { allowed: allowed.to_vec(), ..self }
    }
}

/// The filter. The value of `x-token` is the token, as it is, so that no token is lost on the way.
pub(crate) struct Filtering(JwtReject);

impl Filtering {
    pub(crate) fn new(set: &Set) -> Self {
        let jwks: Vec<&Value> = set.keys.iter().map(|key| &key.jwk).collect();
        let provider = json!({
            "issuer": ISSUER, "audiences": [AUDIENCE], "algorithms": set.allowed, "require_expiration": true,
            "local_jwks": {"inline_string": json!({ "keys": jwks }).to_string()},
            "from_headers": [{"name": "x-token"}],
        });
        let rules = json!([{"match": {"prefix": "/"}, "requires": {"provider_name": "main"}}]);
        let config = json!({
            "providers": {"main": provider}, "rules": rules, "max_vm_verifications_per_second": 1_000_000,
        });
        Self(JwtReject::configure(config.to_string().as_bytes()).unwrap().filter)
    }

    /// Nothing where it accepts the token; else the reason why it does not.
    pub(crate) fn refuses(&self, token: &[u8]) -> Option<String> {
        let head = HeadMap::get("/").with("x-token", token);
        let host = NoHost(Moment::at(get_current_timestamp()));
        match self.0.on_request(&head, &host, &Facts::default()) {
            Outcome::Continue(_) => None,
            Outcome::Reply(reply, _) => Some(reply.details.to_string()),
            Outcome::Wait(..) => Some("waits".to_owned()),
        }
    }
}

/// The other library. It knows one key at a time, so which keys may serve is said here, as RFC 7515 section
/// 4.1.4 does: a `kid` tells keys apart, where both the token and the key have one.
pub(crate) struct Other<'s> {
    keys: Vec<(&'s Key, Validation)>,
}

impl<'s> Other<'s> {
    pub(crate) fn new(set: &'s Set) -> Self {
        let validation = |key: &'s Key| {
            let both = key.algorithms.iter().filter(|name| set.allowed.contains(name));
            let algorithms: Vec<Algorithm> = both.map(|name| name.parse().unwrap()).collect();
            let mut validation = Validation::new(*algorithms.first()?);
            validation.algorithms = algorithms;
            validation.set_issuer(&[ISSUER]);
            validation.set_audience(&[AUDIENCE]);
            validation.set_required_spec_claims(&["exp", "iss", "aud"]);
            validation.validate_nbf = true;
            Some((key, validation))
        };
        Self { keys: set.keys.iter().filter_map(validation).collect() }
    }

    pub(crate) fn accepts(&self, token: &[u8]) -> bool {
        let Ok(header) = decode_header(token) else { return false };
        let serves = |key: &Key| match (&header.kid, key.id) {
            (Some(wanted), Some(own)) => wanted == own,
            _ => true,
        };
        let mut serving = self.keys.iter().filter(|(key, _)| serves(key));
        serving.any(|(key, validation)| decode::<Value>(token, &key.other, validation).is_ok())
    }
}
