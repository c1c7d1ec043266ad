//! Requests whose way through the filter is known: what the benchmarks time, and what the test of
//! allocations counts. Each is made with the counters that it must add to, so that nothing is measured
//! that goes another way than its name says.

use std::cell::LazyCell;
use std::rc::Rc;

use filter_api::{Facts, Filter, HeadMap, Moment, NoHost, Outcome};
use jwt_reject::JwtReject;
use jwt_simple::prelude::*;
use p521::ecdsa::signature::Signer as _;
use serde_json::{Map, Value, json};

/// The second at which every request arrives.
pub(crate) const NOW: u64 = 1_796_000_000;

/// A request, the filter that is asked, and what must come of it.
pub(crate) struct Case {
    /// What happens, in words.
    pub(crate) name: String,
    filter: Rc<JwtReject>,
    head: HeadMap,
    /// Counters that the request adds to, by name.
    counters: &'static [&'static str],
}

impl Case {
    /// Asks the filter.
    pub(crate) fn decide(&self) -> Outcome {
        self.filter.on_request(&self.head, &NoHost(Moment::at(NOW)), &Facts::default())
    }

    /// Fails unless the request takes the way that it should.
    pub(crate) fn check(&self) {
        let outcome = self.decide();
        let counted: Vec<&str> =
            outcome.effects().counters.iter().map(|it| JwtReject::COUNTERS[usize::from(it.0)]).collect();
        for wanted in self.counters {
            assert!(counted.contains(wanted), "{}: {counted:?}", self.name);
        }
    }
}

/// One key of each kind, made anew in every run.
pub(crate) struct Keys {
    hs256: HS256Key,
    hs384: HS384Key,
    hs512: HS512Key,
    // Made when asked for: RSA takes a second or more.
    rs256: LazyCell<RS256KeyPair>,
    ps256: LazyCell<PS256KeyPair>,
    es256: ES256KeyPair,
    es384: ES384KeyPair,
    es512: p521::ecdsa::SigningKey,
    eddsa: Ed25519KeyPair,
}

const SECRET: [u8; 64] = [7; 64];

impl Keys {
    pub(crate) fn make() -> Self {
        Self {
            hs256: HS256Key::from_bytes(&SECRET).with_key_id("HS256"),
            hs384: HS384Key::from_bytes(&SECRET).with_key_id("HS384"),
            hs512: HS512Key::from_bytes(&SECRET).with_key_id("HS512"),
            rs256: LazyCell::new(|| RS256KeyPair::generate(2048).unwrap().with_key_id("RS256")),
            ps256: LazyCell::new(|| PS256KeyPair::generate(2048).unwrap().with_key_id("PS256")),
            es256: ES256KeyPair::generate().with_key_id("ES256"),
            es384: ES384KeyPair::generate().with_key_id("ES384"),
            es512: p521::ecdsa::SigningKey::from_slice(&[1; 66]).unwrap(),
            eddsa: Ed25519KeyPair::generate().with_key_id("EdDSA"),
        }
    }

    /// The key for one algorithm, as a JWK set.
    pub(crate) fn jwks(&self, algorithm: &str) -> String {
        let jwk = match algorithm {
            "HS256" | "HS384" | "HS512" => json!({"kty": "oct", "k": encode(SECRET)}).to_string(),
            "RS256" => self.rs256.public_key().to_jwk(),
            "PS256" => self.ps256.public_key().to_jwk(),
            "ES256" => self.es256.public_key().to_jwk(),
            "ES384" => self.es384.public_key().to_jwk(),
            "ES512" => {
                let point = self.es512.verifying_key().to_sec1_point(false);
                let (x, y) = point.as_bytes()[1..].split_at(66);
                json!({"kty": "EC", "crv": "P-521", "x": encode(x), "y": encode(y)}).to_string()
            }
            "EdDSA" => self.eddsa.public_key().to_jwk(),
            other => panic!("no key for {other}"),
        };
        format!("{{\"keys\":[{jwk}]}}")
    }

    /// A token of the usual claims, changed by these; `null` takes one out.
    pub(crate) fn token(&self, algorithm: &str, changes: &Value) -> String {
        let claims = claims(changes);
        match algorithm {
            "HS256" => self.hs256.authenticate(claims),
            "HS384" => self.hs384.authenticate(claims),
            "HS512" => self.hs512.authenticate(claims),
            "RS256" => self.rs256.sign(claims),
            "PS256" => self.ps256.sign(claims),
            "ES256" => self.es256.sign(claims),
            "ES384" => self.es384.sign(claims),
            // Which jwt-simple has not.
            "ES512" => {
                let claims = serde_json::to_string(&claims).unwrap();
                let signed = format!("{}.{}", encode(r#"{"alg":"ES512","typ":"JWT"}"#), encode(claims));
                let signature: p521::ecdsa::Signature = self.es512.sign(signed.as_bytes());
                Ok(format!("{signed}.{}", encode(signature.to_bytes())))
            }
            "EdDSA" => self.eddsa.sign(claims),
            other => panic!("no key for {other}"),
        }
        .unwrap()
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlSafeNoPadding::encode_to_string(bytes).unwrap()
}

/// What an identity provider puts into an access token, more or less.
fn claims(changes: &Value) -> JWTClaims<Map<String, Value>> {
    let mut members = json!({
        "iss": "https://issuer.example", "aud": "api", "sub": "3f1c9a52-6b0e-4d2b-9a53-5d5f0a4f8c11",
        "iat": NOW, "exp": NOW + 300, "jti": "b61c6f0e-7b43-4f55-9d2e-0f0a8f3f1c22",
        "scope": "openid profile orders:read orders:write", "client_id": "storefront",
        "email": "alice@customer.example", "realm_access": {"roles": ["customer", "reviewer"]},
    });
    for (name, value) in changes.as_object().unwrap() {
        members[name] = value.clone();
    }
    let members = members.as_object().unwrap().clone();
    let custom = members.into_iter().filter(|(_, value)| !value.is_null()).collect();
    JWTClaims {
        issued_at: None,
        expires_at: None,
        invalid_before: None,
        issuer: None,
        subject: None,
        audiences: None,
        jwt_id: None,
        nonce: None,
        custom,
    }
}

/// A provider of this key, its issuer and audience as [`Keys::token`] writes them.
fn provider(keys: &Keys, algorithm: &str) -> Value {
    json!({
        "issuer": "https://issuer.example", "audiences": ["api"],
        "local_jwks": {"inline_string": keys.jwks(algorithm)},
    })
}

/// A filter with one rule that asks for a token of `provider`.
fn filter(provider: &Value) -> Rc<JwtReject> {
    configured(&json!({
        "providers": {"main": provider},
        "max_vm_verifications_per_second": 1_000_000,
        "rules": [
            {"match": {"path": "/health"}, "requires": "none"},
            {"match": {"prefix": "/"}, "requires": {"provider_name": "main"}},
        ],
    }))
}

fn configured(config: &Value) -> Rc<JwtReject> {
    Rc::new(JwtReject::configure(config.to_string().as_bytes()).unwrap().filter)
}

/// A request with the headers that a browser behind a load balancer sends.
fn request(path: &str) -> HeadMap {
    HeadMap::get(path)
        .with("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")
        .with("accept", "application/json")
        .with("accept-encoding", "gzip, deflate, br")
        .with("x-forwarded-for", "203.0.113.7")
        .with("x-forwarded-proto", "http")
        .with("x-request-id", "6d1c1f0a-3c64-4a8e-8f3b-1e2c9ab0d7f4")
}

fn bearer(token: &str) -> HeadMap {
    request("/orders/17").with("authorization", format!("Bearer {token}"))
}

/// The token with another first character of its signature: still base64url.
fn forged(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    format!("{signed}.{first}{}", &signature[1..])
}

/// Every algorithm, its signature checked anew for each request.
#[allow(dead_code, reason = "the test of allocations leaves out what the libraries of signatures do")]
pub(crate) fn algorithms(keys: &Keys) -> Vec<Case> {
    let all = ["HS256", "HS384", "HS512", "RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"];
    let case = |algorithm: &str| {
        let mut provider = provider(keys, algorithm);
        provider["jwt_cache_config"] = json!({"jwt_cache_size": 0});
        Case {
            name: algorithm.to_owned(),
            filter: filter(&provider),
            head: bearer(&keys.token(algorithm, &json!({}))),
            counters: &["allowed.reason.verified", "signature_checks.by.module"],
        }
    };
    all.map(case).into()
}

/// The ways that take no check of a signature: refusals, and tokens seen before.
pub(crate) fn cheap(keys: &Keys) -> Vec<Case> {
    let plain = filter(&provider(keys, "ES256"));
    let with = |member: &str, value: Value| {
        let mut provider = provider(keys, "ES256");
        provider[member] = value;
        filter(&provider)
    };
    let claim_headers = with(
        "claim_to_headers",
        json!([
            {"header_name": "x-user-id", "claim_name": "sub"},
            {"header_name": "x-roles", "claim_name": "realm_access.roles"},
        ]),
    );
    let denying = with("deny", json!({"jti": ["b61c6f0e-7b43-4f55-9d2e-0f0a8f3f1c22"]}));
    let forwarding = with("forward", json!(true));
    let token = |changes: Value| keys.token("ES256", &changes);
    let good = token(json!({}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (_, payload) = signed.split_once('.').unwrap();
    let with_header = |header: &str| format!("{}.{payload}.{signature}", encode(header));
    let case = |name: &str, filter: &Rc<JwtReject>, head: HeadMap, counters: &'static [&'static str]| Case {
        name: name.to_owned(),
        filter: Rc::clone(filter),
        head,
        counters,
    };
    let cases = vec![
        case("no requirement", &plain, request("/health"), &["allowed.reason.no_requirement"]),
        case("missing", &plain, request("/orders/17"), &["refused.reason.token_missing"]),
        case("malformed", &plain, bearer("not-a-token"), &["refused.reason.token_malformed"]),
        case("too long", &plain, bearer(&"x".repeat(8193)), &["refused.reason.token_too_long"]),
        case(
            "header not base64url",
            &plain,
            bearer(&format!("!{good}")),
            &["refused.reason.header_not_base64url"],
        ),
        case(
            "alg none",
            &plain,
            bearer(&with_header(r#"{"alg":"none"}"#)),
            &["refused.reason.alg_not_supported"],
        ),
        case(
            "key not found",
            &plain,
            bearer(&with_header(r#"{"alg":"ES256","kid":"x"}"#)),
            &["refused.reason.key_not_found"],
        ),
        case("expired", &plain, bearer(&token(json!({"exp": NOW - 100}))), &["refused.reason.token_expired"]),
        case(
            "wrong issuer",
            &plain,
            bearer(&token(json!({"iss": "https://other.example"}))),
            &["refused.reason.issuer_not_configured"],
        ),
        case(
            "wrong audience",
            &plain,
            bearer(&token(json!({"aud": "billing"}))),
            &["refused.reason.audience_not_allowed"],
        ),
        case("revoked", &denying, bearer(&good), &["refused.reason.token_revoked"]),
        case("good, seen before", &plain, bearer(&good), &["allowed.reason.verified", "cache.result.hit"]),
        case(
            "good, seen before, forwarded",
            &forwarding,
            bearer(&good),
            &["allowed.reason.verified", "cache.result.hit"],
        ),
        case(
            "good, seen before, 2 claim headers",
            &claim_headers,
            bearer(&good),
            &["allowed.reason.verified", "cache.result.hit"],
        ),
        case(
            "forged, seen before",
            &plain,
            bearer(&forged(&good)),
            &["refused.reason.signature_wrong", "cache.result.forged"],
        ),
    ];
    // From here on each token that can be remembered is.
    cases.iter().for_each(|case| drop(case.decide()));
    cases
}

/// Many rules, of which the last matches; and many keys. What a request costs with them, and what
/// reading them does.
#[allow(dead_code, reason = "the test of allocations has no use for it")]
pub(crate) fn many_rules(keys: &Keys) -> Vec<Case> {
    let case = |name: &str, rule: &dyn Fn(usize) -> Value| {
        let mut rules: Vec<Value> = (0..199).map(rule).collect();
        rules.push(json!({"match": {"prefix": "/"}, "requires": "none"}));
        let config = json!({"providers": {"main": provider(keys, "ES256")}, "rules": rules});
        Case {
            name: name.to_owned(),
            filter: configured(&config),
            head: request("/orders/17"),
            counters: &["allowed.reason.no_requirement"],
        }
    };
    let requires = json!({"provider_name": "main"});
    vec![
        case(
            "200 rules by prefix",
            &|n| json!({"match": {"prefix": format!("/v{n}/")}, "requires": requires}),
        ),
        case("200 rules by prefix, method and host", &|n| {
            json!({
                "match": {"prefix": "/", "method": ["GET"], "host": format!("h{n}.example")}, "requires": requires,
            })
        }),
        case(
            "200 rules by regular expression",
            &|n| json!({"match": {"safe_regex": {"regex": format!("/v{n}/[a-z]+")}}, "requires": requires}),
        ),
    ]
}
