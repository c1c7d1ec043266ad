//! The filter as a whole: configuration in, outcomes out.

use filter_api::config::Problem;
use filter_api::{HeadMap, HeaderOp, Moment, NoHost};
use jwt_simple::prelude::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use filter_api::Fact;

use super::*;
use crate::reason;

const NOW: u64 = 1_796_000_000;

/// Signs with a key that the provider `main` of [`filter`] knows.
struct Issuer {
    key: HS256Key,
}

impl Issuer {
    fn new() -> Self {
        Self { key: HS256Key::from_bytes(&[7; 32]) }
    }

    fn token(&self, claims: &Value) -> String {
        let part = |json: &str| Base64UrlSafeNoPadding::encode_to_string(json).unwrap();
        let signed = format!("{}.{}", part(r#"{"alg":"HS256"}"#), part(&claims.to_string()));
        let mac = hmac_sha256(&self.key.to_bytes(), signed.as_bytes());
        format!("{signed}.{}", Base64UrlSafeNoPadding::encode_to_string(mac).unwrap())
    }

    fn good(&self) -> String {
        self.token(&json!({"iss": "https://issuer.example", "aud": "api", "sub": "alice", "exp": NOW + 60}))
    }
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn provider() -> Value {
    let jwks =
        json!({"keys": [{"kty": "oct", "k": Base64UrlSafeNoPadding::encode_to_string([7; 32]).unwrap()}]});
    json!({"issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": {"inline_string": jwks.to_string()}})
}

fn config(requires: Value) -> Value {
    json!({"providers": {"main": provider()}, "rules": [{"match": {"prefix": "/"}, "requires": requires}]})
}

fn filter(config: &Value) -> JwtReject {
    JwtReject::configure(config.to_string().as_bytes()).unwrap().filter
}

fn ask(filter: &JwtReject, head: &HeadMap) -> Outcome {
    filter.on_request(head, &NoHost(Moment::at(NOW)), &Facts::default())
}

/// The reason's label, or the way through.
fn verdict(filter: &JwtReject, head: &HeadMap) -> &'static str {
    let outcome = ask(filter, head);
    let named = |start: &str| {
        outcome
            .effects()
            .counters
            .iter()
            .find_map(|counter| reason::COUNTERS[usize::from(counter.0)].strip_prefix(start))
    };
    match &outcome {
        Outcome::Continue(_) => named("allowed.reason.").unwrap(),
        Outcome::Reply(reply, _) => {
            let label = named("refused.reason.").unwrap();
            assert_eq!(reply.details, *format!("jwt_reject{{{label}}}"));
            label
        }
        Outcome::Wait(..) => "wait",
    }
}

fn bearer(token: &str) -> HeadMap {
    HeadMap::get("/").with("authorization", format!("Bearer {token}"))
}

#[test]
fn tokens_one_by_one() {
    let issuer = Issuer::new();
    let filter = filter(&config(json!({"provider_name": "main"})));
    let good = issuer.good();
    let claims = |changes: Value| {
        let mut claims =
            json!({"iss": "https://issuer.example", "aud": "api", "sub": "alice", "exp": NOW + 60});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        bearer(&issuer.token(&claims))
    };
    let rows = [
        (bearer(&good), "verified"),
        (HeadMap::get("/"), "token_missing"),
        (HeadMap::get("/").with("authorization", ""), "token_missing"),
        (HeadMap::get("/").with("authorization", "Basic eDp5"), "token_missing"),
        (HeadMap::get("/").with("authorization", "Bearer"), "token_malformed"),
        (bearer(&good).with("authorization", "Basic eDp5"), "verified"),
        (bearer(&good).with("authorization", format!("Bearer {good}")), "verified"),
        (bearer(&good).with("authorization", "Bearer x"), "token_malformed"),
        (bearer(&good).with_only(":path", "/?access_token=x.y.z"), "header_not_base64url"),
        (HeadMap::get(&format!("/?access_token={good}")), "verified"),
        (bearer(&format!("{good}a")), "signature_wrong"),
        (bearer(&format!("{good}aa")), "signature_not_base64url"),
        (bearer(&format!("{good} .jjjj")), "token_malformed"),
        (bearer(&format!("{good}, Bearer {good}")), "token_malformed"),
        (bearer(&format!("{good},Bearer {good}")), "verified"),
        (bearer(&format!("{good},Basic eDp5")), "verified"),
        (bearer(&format!("{good},junk")), "signature_not_base64url"),
        (bearer(&format!("{good},")), "signature_not_base64url"),
        (HeadMap::get("/").with("authorization", format!("Basic eDp5,Bearer {good}")), "verified"),
        (HeadMap::get("/").with("authorization", format!("Basic eDp5, Bearer {good}")), "token_malformed"),
        (HeadMap::get("/").with("authorization", "Basic eDp5,Bearer x.y.z"), "header_not_base64url"),
        (bearer(&format!("{good}=")), "signature_not_base64url"),
        (bearer(&"x".repeat(8193)), "token_too_long"),
        (claims(json!({"exp": null})), "verified"),
        (claims(json!({"exp": NOW - 60})), "verified"),
        (claims(json!({"exp": NOW - 61})), "token_expired"),
        (claims(json!({"exp": 0})), "token_expired"),
        (claims(json!({"exp": NOW as f64 - 60.5})), "token_expired"),
        (claims(json!({"nbf": NOW + 60})), "verified"),
        (claims(json!({"nbf": NOW + 61})), "token_not_yet_valid"),
        (claims(json!({"exp": "1"})), "exp_not_number"),
        (claims(json!({"iss": "https://other.example"})), "issuer_not_configured"),
        (claims(json!({"iss": null})), "issuer_not_configured"),
        (claims(json!({"aud": ["x", "api"]})), "verified"),
        (claims(json!({"aud": "API"})), "audience_not_allowed"),
        (claims(json!({"aud": null})), "audience_not_allowed"),
        (claims(json!({"aud": []})), "audience_not_allowed"),
    ];
    for (head, expected) in rows {
        assert_eq!(verdict(&filter, &head), expected, "{head:?}");
    }
    let five = (0..5).fold(HeadMap::get("/"), |head, _| head.with("authorization", format!("Bearer {good}")));
    assert_eq!(verdict(&filter, &five), "too_many_tokens");
}

#[test]
fn no_header_line_makes_the_unsigned_signed() {
    let filter = filter(&config(json!({"provider_name": "main"})));
    let part = |json: &str| Base64UrlSafeNoPadding::encode_to_string(json).unwrap();
    let payload = part(&json!({"iss": "https://issuer.example", "aud": "api"}).to_string());
    for (header, expected) in [
        (r#"{"alg":"none"}"#, "alg_not_supported"),
        (r#"{"alg":"NONE"}"#, "alg_not_supported"),
        (r#"{"alg":"RS256"}"#, "key_not_found"),
        (r#"{"alg":"HS512"}"#, "key_not_found"),
        (r#"{"alg":"HS256","crit":["exp"]}"#, "crit_not_supported"),
        (r#"{"alg":"HS256","b64":false}"#, "b64_not_supported"),
        (r#"{"alg":"HS256","jwk":{"kty":"oct","k":""}}"#, "signature_wrong"),
    ] {
        for signature in ["", "AAAA"] {
            let token = format!("{}.{payload}.{signature}", part(header));
            assert_eq!(verdict(&filter, &bearer(&token)), expected, "{header} {signature:?}");
        }
    }
}

#[test]
fn policies() {
    let issuer = Issuer::new();
    let base = json!({"iss": "https://issuer.example", "aud": "api"});
    let token = |changes: Value| {
        let mut claims = base.clone();
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        bearer(&issuer.token(&claims))
    };
    let rows = [
        (json!({"clock_skew_seconds": 0}), json!({"exp": NOW - 1}), "token_expired"),
        (json!({"clock_skew_seconds": 0}), json!({"exp": NOW}), "token_expired"),
        (json!({"clock_skew_seconds": 0}), json!({"exp": NOW + 1}), "verified"),
        (json!({"clock_skew_seconds": 0}), json!({"nbf": NOW}), "verified"),
        (json!({"clock_skew_seconds": 0}), json!({"nbf": NOW + 1}), "token_not_yet_valid"),
        (json!({"clock_skew_seconds": 1}), json!({"exp": NOW - 1}), "verified"),
        (json!({"require_expiration": true}), json!({}), "exp_missing"),
        (json!({"max_lifetime": "3600s"}), json!({}), "exp_missing"),
        (json!({"max_lifetime": "3600s"}), json!({"exp": NOW + 3600}), "verified"),
        (json!({"max_lifetime": "3600s"}), json!({"exp": NOW + 3601}), "lifetime_too_long"),
        (json!({"subjects": ["alice"]}), json!({"sub": "alice"}), "verified"),
        (json!({"subjects": {"prefix": "spiffe://"}}), json!({"sub": "spiffe://x"}), "verified"),
        (json!({"subjects": ["alice"]}), json!({"sub": "mallory"}), "subject_not_allowed"),
        (json!({"subjects": ["alice"]}), json!({}), "subject_not_allowed"),
        (json!({"algorithms": ["HS256"]}), json!({}), "verified"),
        (json!({"algorithms": ["HS384"]}), json!({}), "alg_not_allowed"),
        (json!({"audiences": []}), json!({"aud": "anything"}), "verified"),
    ];
    for (policy, claims, expected) in rows {
        let mut config = config(json!({"provider_name": "main"}));
        config["providers"]["main"].as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        assert_eq!(verdict(&filter(&config), &token(claims.clone())), expected, "{policy} {claims}");
    }
}

#[test]
fn what_a_rule_may_require() {
    let issuer = Issuer::new();
    let (good, bad, none) = (bearer(&issuer.good()), bearer("x"), HeadMap::get("/"));
    let rows = [
        (json!({"provider_name": "main"}), ["verified", "token_malformed", "token_missing"]),
        (json!("none"), ["no_requirement"; 3]),
        (json!({"none": {}}), ["no_requirement"; 3]),
        (json!("allow_missing"), ["verified", "token_malformed", "missing"]),
        (json!({"allow_missing": {}}), ["verified", "token_malformed", "missing"]),
        (json!({"allow_missing_or_failed": true}), ["verified", "failed", "missing"]),
    ];
    for (requires, expected) in rows {
        let filter = filter(&config(requires.clone()));
        assert_eq!([&good, &bad, &none].map(|head| verdict(&filter, head)), expected, "{requires}");
    }
}

#[test]
fn several_providers_each_stand_for_their_issuer() {
    let issuer = Issuer::new();
    let mut config = config(json!("allow_missing"));
    let mut other = provider();
    other["issuer"] = json!("https://other.example");
    other["from_headers"] = json!([{"name": "x-other"}]);
    config["providers"]["other"] = other;
    let filter = filter(&config);
    let of = |issuer_name: &str| issuer.token(&json!({"iss": issuer_name, "aud": "api"}));
    let (main, other) = (of("https://issuer.example"), of("https://other.example"));
    assert_eq!(verdict(&filter, &bearer(&main)), "verified");
    assert_eq!(verdict(&filter, &bearer(&other)), "issuer_not_configured");
    assert_eq!(verdict(&filter, &HeadMap::get("/").with("x-other", &other)), "verified");
    assert_eq!(verdict(&filter, &bearer(&main).with("x-other", &main)), "issuer_not_configured");
}

#[test]
fn tokens_are_taken_out_unless_they_are_forwarded() {
    let issuer = Issuer::new();
    let head = bearer(&issuer.good());
    let removed = |config: &Value, head: &HeadMap| -> Vec<String> {
        let outcome = ask(&filter(config), head);
        let name = |operation: &HeaderOp| match operation {
            HeaderOp::Remove(name) => name.as_str().to_owned(),
            other => panic!("{other:?}"),
        };
        outcome.effects().headers.iter().map(name).collect()
    };
    let mut config = config(json!({"provider_name": "main"}));
    assert_eq!(removed(&config, &head), ["authorization"]);
    config["providers"]["main"]["forward"] = json!(true);
    assert!(removed(&config, &head).is_empty());
    let mut lax = self::config(json!("allow_missing_or_failed"));
    assert_eq!(removed(&lax, &bearer("x")), ["authorization"]);
    lax["providers"]["main"]["forward"] = json!(true);
    assert!(removed(&lax, &bearer("x")).is_empty());
    assert!(removed(&self::config(json!("none")), &head).is_empty());
}

#[test]
fn facts_hold_what_was_verified_and_who_was_refused() {
    let issuer = Issuer::new();
    let filter = filter(&config(json!({"provider_name": "main"})));
    let facts = ask(&filter, &bearer(&issuer.good())).effects().facts.clone();
    let (provider, claims) = facts.claims().next().unwrap();
    assert_eq!((provider, &claims["sub"]), ("main", &json!("alice")));
    let refused = ask(&filter, &bearer("x")).effects().facts.clone();
    assert_eq!(
        refused.0.as_slice(),
        [Fact::Refused { filter: "jwt_reject", reason: "token_malformed".into() }]
    );
}

#[test]
fn rules_in_order_and_none_means_refused() {
    let mut config = config(json!({"provider_name": "main"}));
    config["rules"] = json!([
        {"match": {"path": "/health", "method": "GET"}, "requires": "none"},
        {"match": {"prefix": "/public/"}, "requires": "allow_missing"},
        {"match": {"prefix": "/api/"}, "requires": {"provider_name": "main"}},
    ]);
    let filter = filter(&config);
    let rows = [
        ("/health", "no_requirement"),
        ("/health?x", "no_requirement"),
        ("/public/x", "missing"),
        ("/api/x", "token_missing"),
        ("/", "no_rule_matched"),
        ("/healthy", "no_rule_matched"),
        ("/public/../api/x", "path_ambiguous"),
        ("/public/..;/api/x", "path_ambiguous"),
        ("/public/..%2fapi/x", "no_rule_matched"),
    ];
    for (path, expected) in rows {
        let got = verdict(&filter, &HeadMap::get(path));
        assert!(
            got == expected || (got == "path_ambiguous" && expected == "no_rule_matched"),
            "{path}: {got}"
        );
    }
    assert_eq!(verdict(&filter, &HeadMap::get("/health").with_only(":method", "POST")), "no_rule_matched");
}

/// Providers `main` (Authorization) and `other` (x-other), of one key and two issuers.
fn two_providers(requires: Value) -> Value {
    let mut config = config(requires);
    let mut other = provider();
    other["issuer"] = json!("https://other.example");
    other["from_headers"] = json!([{"name": "x-other"}]);
    config["providers"]["other"] = other;
    config
}

#[test]
fn requirements_nest() {
    let issuer = Issuer::new();
    let of = |name: &str| issuer.token(&json!({"iss": format!("https://{name}.example"), "aud": "api"}));
    let (main, other) = (of("issuer"), of("other"));
    let bad = format!("{other}aa");
    let named = |name: &str| json!({ "provider_name": name });
    let both = json!([named("main"), named("other")]);
    // With: nothing, main, other, both, main and a bad one for other, a bad one alone.
    let heads = [
        HeadMap::get("/"),
        bearer(&main),
        HeadMap::get("/").with("x-other", &other),
        bearer(&main).with("x-other", &other),
        bearer(&main).with("x-other", &bad),
        HeadMap::get("/").with("x-other", &bad),
    ];
    let (none, wrong) = ("token_missing", "signature_not_base64url");
    let rows = [
        (json!({"requires_any": both}), [none, "verified", "verified", "verified", wrong, wrong]),
        (
            json!({"requires_any": {"requirements": both}}),
            [none, "verified", "verified", "verified", wrong, wrong],
        ),
        (json!({"requires_all": both}), [none, none, none, "verified", wrong, wrong]),
        (
            json!({"requires_any": [named("main"), named("other"), {"allow_missing": {}}]}),
            ["missing", "verified", "verified", "verified", wrong, wrong],
        ),
        (
            json!({"requires_all": [named("main"), "allow_missing_or_failed"]}),
            [none, "verified", none, "verified", "verified", none],
        ),
        (
            json!({"requires_all": [named("main"), {"requires_any": [named("other"), "allow_missing_or_failed"]}]}),
            [none, "verified", none, "verified", "failed", wrong],
        ),
        (
            json!({"requires_any": [named("other"), {"requires_all": [named("main"), named("other")]}]}),
            [none, none, "verified", "verified", wrong, wrong],
        ),
    ];
    for (requires, expected) in rows {
        let filter = filter(&two_providers(requires.clone()));
        assert_eq!(heads.each_ref().map(|head| verdict(&filter, head)), expected, "{requires}");
    }
}

#[test]
fn one_token_may_be_for_several_providers() {
    let issuer = Issuer::new();
    let mut config =
        config(json!({"requires_all": [{"provider_name": "main"}, {"provider_name": "second"}]}));
    let mut second = provider();
    second["audiences"] = json!(["second"]);
    config["providers"]["second"] = second;
    let filter = filter(&config);
    let token = |aud: Value| bearer(&issuer.token(&json!({"iss": "https://issuer.example", "aud": aud})));
    assert_eq!(verdict(&filter, &token(json!(["api", "second"]))), "verified");
    assert_eq!(verdict(&filter, &token(json!("api"))), "token_missing");
    assert_eq!(verdict(&filter, &token(json!("third"))), "audience_not_allowed");
}

#[test]
fn requirements_have_names() {
    let mut config = config(json!("none"));
    config["requirement_map"] = json!({"users": {"provider_name": "main"}, "anyone": "none"});
    config["rules"] = json!([
        {"match": {"prefix": "/api"}, "requirement_name": "users"},
        {"match": {"prefix": "/"}, "requirement_name": "anyone"},
    ]);
    let filter = filter(&config);
    assert_eq!(verdict(&filter, &HeadMap::get("/api")), "token_missing");
    assert_eq!(verdict(&filter, &HeadMap::get("/x")), "no_requirement");
}

#[test]
fn what_passes_without_a_rule() {
    let preflight = HeadMap::get("/api")
        .with_only(":method", "OPTIONS")
        .with("origin", "https://a.example")
        .with("access-control-request-method", "GET");
    let half = HeadMap::get("/api").with_only(":method", "OPTIONS").with("origin", "https://a.example");
    let mut config = config(json!({"provider_name": "main"}));
    config["rules"][0]["match"] = json!({"prefix": "/api"});
    let strict = filter(&config);
    assert_eq!(verdict(&strict, &preflight), "token_missing");
    assert_eq!(verdict(&strict, &HeadMap::get("/other")), "no_rule_matched");
    config["bypass_cors_preflight"] = json!(true);
    config["default"] = json!("allow");
    let lax = filter(&config);
    assert_eq!(verdict(&lax, &preflight), "cors_preflight");
    assert_eq!(verdict(&lax, &half), "token_missing");
    assert_eq!(verdict(&lax, &HeadMap::get("/other")), "no_rule");
    assert_eq!(verdict(&lax, &HeadMap::get("/api")), "token_missing");
    for trick in ["//api", "/x/..%2fapi", "/;/api", "/x/..;/api"] {
        assert_eq!(verdict(&lax, &HeadMap::get(trick)), "path_ambiguous", "{trick}");
    }
}

#[test]
fn shadow_mode_counts_and_changes_nothing() {
    let mut config = config(json!({"provider_name": "main"}));
    config["mode"] = json!("shadow");
    let filter = filter(&config);
    for (head, counter) in [
        (HeadMap::get("/"), "shadow_refused.reason.token_missing"),
        (bearer("x"), "shadow_refused.reason.token_malformed"),
        (bearer(&Issuer::new().good()), "allowed.reason.verified"),
    ] {
        let Outcome::Continue(effects) = ask(&filter, &head) else { panic!("refused in shadow mode") };
        assert!(effects.headers.is_empty(), "{counter}");
        let counted: Vec<&str> =
            effects.counters.iter().map(|counter| reason::COUNTERS[usize::from(counter.0)]).collect();
        assert!(counted.contains(&counter), "{counted:?}");
    }
}

/// What the cache did, by the counters of a request at this second.
fn remembered(filter: &JwtReject, head: &HeadMap, now: u64) -> (&'static str, Vec<&'static str>) {
    let outcome = filter.on_request(head, &NoHost(Moment::at(now)), &Facts::default());
    let names: Vec<&str> =
        outcome.effects().counters.iter().map(|counter| reason::COUNTERS[usize::from(counter.0)]).collect();
    let verdict = names.iter().find_map(|name| {
        name.strip_prefix("refused.reason.").or_else(|| name.strip_prefix("allowed.reason."))
    });
    let about = names.iter().filter(|name| name.starts_with("cache") || name.starts_with("signature"));
    (verdict.unwrap(), about.copied().collect())
}

#[test]
fn a_token_is_verified_once_and_its_times_each_time() {
    let issuer = Issuer::new();
    let filter = filter(&forwarding(json!({"provider_name": "main"})));
    let claims = json!({
        "iss": "https://issuer.example", "aud": "api", "sub": "alice", "exp": NOW + 60, "nbf": NOW - 600,
    });
    let token = issuer.token(&claims);
    let first = ["signature_checks.by.module", "cache.result.miss"];
    assert_eq!(remembered(&filter, &bearer(&token), NOW), ("verified", first.to_vec()));
    let operations_of_the_first = operations(&filter, &bearer(&token));
    for (now, expected) in [
        (NOW, "verified"),
        (NOW + 120, "verified"),
        (NOW + 121, "token_expired"),
        (NOW - 660, "verified"),
        (NOW - 661, "token_not_yet_valid"),
        (NOW, "verified"),
    ] {
        assert_eq!(remembered(&filter, &bearer(&token), now), (expected, vec!["cache.result.hit"]), "{now}");
    }
    assert_eq!(operations(&filter, &bearer(&token)), operations_of_the_first);
    let facts = ask(&filter, &bearer(&token)).effects().facts.clone();
    assert_eq!(facts.claims().next().unwrap().1["sub"], "alice");
}

#[test]
fn no_altered_copy_of_a_remembered_token_is_accepted() {
    let filter = filter(&config(json!({"provider_name": "main"})));
    let good = Issuer::new().good();
    assert_eq!(verdict(&filter, &bearer(&good)), "verified");
    for place in 0..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(matches!(ask(&filter, &bearer(&changed)), Outcome::Reply(..)), "{place}");
        assert!(matches!(ask(&filter, &bearer(&good[..place])), Outcome::Reply(..)), "{place}");
    }
    for added in ["a", "aa", "=", ".", "AAAA"] {
        assert!(matches!(ask(&filter, &bearer(&format!("{good}{added}"))), Outcome::Reply(..)), "{added}");
    }
    assert_eq!(remembered(&filter, &bearer(&good), NOW), ("verified", vec!["cache.result.hit"]));
}

#[test]
fn a_forged_token_is_checked_once() {
    let filter = filter(&config(json!({"provider_name": "main"})));
    let good = Issuer::new().good();
    let (signed, _) = good.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", "A".repeat(43));
    let first = ["signature_checks.by.module", "cache.result.miss"];
    assert_eq!(remembered(&filter, &bearer(&forged), NOW), ("signature_wrong", first.to_vec()));
    assert_eq!(remembered(&filter, &bearer(&forged), NOW), ("signature_wrong", vec!["cache.result.forged"]));
    assert_eq!(verdict(&filter, &bearer(&good)), "verified");
    // What costs nothing to find wrong is not worth remembering.
    for _ in 0..2 {
        assert_eq!(remembered(&filter, &bearer("x"), NOW), ("token_malformed", vec![]));
    }
}

#[test]
fn each_provider_remembers_for_itself() {
    let issuer = Issuer::new();
    let mut config = two_providers(json!("none"));
    config["providers"]["other"]["from_headers"] =
        json!([{"name": "authorization", "value_prefix": "Bearer "}]);
    config["providers"]["other"]["issuer"] = json!("https://issuer.example");
    config["providers"]["other"]["audiences"] = json!(["other"]);
    config["rules"] = json!([
        {"match": {"prefix": "/main"}, "requires": {"provider_name": "main"}},
        {"match": {"prefix": "/other"}, "requires": {"provider_name": "other"}},
    ]);
    let filter = filter(&config);
    let at = |path: &str| bearer(&issuer.good()).with_only(":path", path);
    for _ in 0..2 {
        assert_eq!(verdict(&filter, &at("/main")), "verified");
        assert_eq!(verdict(&filter, &at("/other")), "audience_not_allowed");
    }
}

#[test]
fn the_cache_can_be_switched_off() {
    let mut config = config(json!({"provider_name": "main"}));
    config["providers"]["main"]["jwt_cache_config"] = json!({"jwt_cache_size": 0});
    let filter = filter(&config);
    for _ in 0..2 {
        let seen = remembered(&filter, &bearer(&Issuer::new().good()), NOW);
        assert_eq!(seen, ("verified", vec!["signature_checks.by.module"]));
    }
}

/// The operations on the request, as `set name value`, in order; `None` where it is refused.
fn operations(filter: &JwtReject, head: &HeadMap) -> Option<Vec<String>> {
    let Outcome::Continue(effects) = ask(filter, head) else { return None };
    let show = |operation: &HeaderOp| match operation {
        HeaderOp::Set(name, value) => {
            format!("set {} {}", name.as_str(), String::from_utf8_lossy(value.as_bytes()))
        }
        HeaderOp::Add(name, value) => format!("add {} {value:?}", name.as_str()),
        HeaderOp::Remove(name) => format!("remove {}", name.as_str()),
    };
    Some(effects.headers.iter().map(show).collect())
}

fn forwarding(requires: Value) -> Value {
    let mut config = config(requires);
    let provider = config["providers"]["main"].as_object_mut().unwrap();
    provider.insert("forward_payload_header".into(), json!("x-jwt-payload"));
    provider.insert(
        "claim_to_headers".into(),
        json!([
            {"header_name": "x-user-id", "claim_name": "sub"},
            {"header_name": "X-Roles", "claim_name": "realm.roles"},
            {"header_name": "x-roles-json", "claim_name": "realm.roles", "array": "json"},
            {"header_name": "x-absent", "claim_name": "absent"},
        ]),
    );
    config
}

#[test]
fn claims_travel_in_headers_and_no_client_can_send_them() {
    let issuer = Issuer::new();
    let claims = json!({
        "iss": "https://issuer.example", "aud": "api", "sub": "alice", "realm": {"roles": ["a", "b"]},
    });
    let token = issuer.token(&claims);
    let payload = token.split('.').nth(1).unwrap();
    let filter = filter(&forwarding(json!({"provider_name": "main"})));
    let expected = [
        "remove authorization".to_owned(),
        format!("set x-jwt-payload {payload}"),
        "set x-user-id alice".to_owned(),
        "set x-roles a,b".to_owned(),
        "set x-roles-json [\"a\",\"b\"]".to_owned(),
    ];
    assert_eq!(operations(&filter, &bearer(&token)).unwrap(), expected);
    let forging = bearer(&token)
        .with("x-user-id", "mallory")
        .with("x_user_id", "mallory")
        .with("X-Absent", "mallory")
        .with("x-jwt_payload", "e30")
        .with("x-user-id", "again")
        .with("x-user-idx", "stays");
    let removed = ["remove x-user-id", "remove x_user_id", "remove x-absent", "remove x-jwt_payload"];
    let (token_removed, written) = expected.split_at(1);
    let expected = [token_removed, removed.map(str::to_owned).as_slice(), written].concat();
    assert_eq!(operations(&filter, &forging).unwrap(), expected);

    // Whichever way a request goes.
    let forging = HeadMap::get("/").with("x_user_id", "mallory");
    for requires in [json!("none"), json!("allow_missing"), json!("allow_missing_or_failed")] {
        let filter = self::filter(&forwarding(requires.clone()));
        assert_eq!(operations(&filter, &forging).unwrap(), ["remove x_user_id"], "{requires}");
    }
    let mut shadow = forwarding(json!({"provider_name": "main"}));
    shadow["mode"] = json!("shadow");
    let shadow = self::filter(&shadow);
    assert_eq!(operations(&shadow, &forging).unwrap(), ["remove x_user_id"]);
    assert_eq!(operations(&shadow, &bearer(&token)).unwrap(), [""; 0]);
    // What failed to verify says nothing.
    let lax = self::filter(&forwarding(json!("allow_missing_or_failed")));
    assert_eq!(operations(&lax, &bearer(&format!("{token}aa"))).unwrap(), ["remove authorization"]);
}

#[test]
fn a_claim_that_would_end_its_line_is_left_out_and_counted() {
    let issuer = Issuer::new();
    let filter = filter(&forwarding(json!({"provider_name": "main"})));
    for bad in ["a\r\nset-cookie: b", "a\0b", "a\u{7f}"] {
        let token = issuer.token(&json!({"iss": "https://issuer.example", "aud": "api", "sub": bad}));
        let operations = operations(&filter, &bearer(&token)).unwrap();
        assert!(!operations.iter().any(|it| it.contains("x-user-id")), "{operations:?}");
        assert!(ask(&filter, &bearer(&token)).effects().counters.contains(reason::CLAIMS_NOT_FORWARDED));
    }
}

#[test]
fn the_payload_may_be_padded() {
    let issuer = Issuer::new();
    let mut config = forwarding(json!({"provider_name": "main"}));
    config["providers"]["main"]["pad_forward_payload_header"] = json!(true);
    let filter = filter(&config);
    for sub in ["a", "ab", "abc", "abcd"] {
        let token = issuer.token(&json!({"iss": "https://issuer.example", "aud": "api", "sub": sub}));
        let set = operations(&filter, &bearer(&token)).unwrap();
        let payload = set.iter().find_map(|it| it.strip_prefix("set x-jwt-payload ")).unwrap();
        assert_eq!((payload.len() % 4, payload.trim_end_matches('=')), (0, token.split('.').nth(1).unwrap()));
    }
}

#[test]
fn claims_kinds_and_revocation() {
    let issuer = Issuer::new();
    let claims = json!({
        "iss": "https://issuer.example", "aud": "api", "sub": "alice", "jti": "t1", "iat": 1000, "scope": "read write",
        "realm": {"roles": ["dev"]},
    });
    let token = bearer(&issuer.token(&claims));
    let rows = [
        (json!({"required_claims": [{"claim": "realm.roles", "any_of": ["ops", "dev"]}]}), "verified"),
        (
            json!({"required_claims": [{"claim": "realm.roles", "any_of": [{"safe_regex": {"regex": "d.*"}}]}]}),
            "verified",
        ),
        (json!({"required_claims": [{"claim": "realm.roles", "any_of": "ops"}]}), "claim_not_allowed"),
        (json!({"required_claims": [{"claim": "absent"}]}), "claim_not_allowed"),
        (json!({"required_claims": [{"claim": "scope", "all_of": ["read", "write"]}]}), "verified"),
        (json!({"required_claims": [{"claim": "scope", "all_of": ["read", "admin"]}]}), "scope_missing"),
        (json!({"typ": ["JWT"]}), "typ_not_allowed"),
        (json!({"deny": {"jti": ["t2"], "sub": ["bob"], "iss": ["x"]}}), "verified"),
        (json!({"deny": {"jti": ["t1"]}}), "token_revoked"),
        (json!({"deny": {"sub": ["bob", "alice"]}}), "token_revoked"),
        (json!({"deny": {"iss": ["https://issuer.example"]}}), "token_revoked"),
        (json!({"deny": {"issued_before": [{"sub": "alice", "time": 1000}]}}), "verified"),
        (json!({"deny": {"issued_before": [{"sub": "alice", "time": 1001}]}}), "token_revoked"),
        (json!({"deny": {"issued_before": [{"sub": "bob", "time": 2000}]}}), "verified"),
        (
            json!({"deny": {"issued_before": [{"iss": "https://issuer.example", "time": 1001}]}}),
            "token_revoked",
        ),
    ];
    for (settings, expected) in rows {
        let mut config = config(json!({"provider_name": "main"}));
        config["providers"]["main"].as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        assert_eq!(verdict(&filter(&config), &token), expected, "{settings}");
    }
    // Who does not say when it was issued is taken to be older than any moment.
    let mut config = config(json!({"provider_name": "main"}));
    config["providers"]["main"]["deny"] = json!({"issued_before": [{"sub": "alice", "time": 1}]});
    assert_eq!(verdict(&filter(&config), &bearer(&issuer.good())), "token_revoked");
}

#[test]
fn revoking_thousands_costs_one_look_up() {
    let ids: Vec<String> = (0..20_000).map(|number| format!("id-{number}")).collect();
    let mut config = config(json!({"provider_name": "main"}));
    config["providers"]["main"]["deny"] = json!({ "jti": ids });
    let filter = filter(&config);
    let token = |id: &str| {
        bearer(&Issuer::new().token(&json!({"iss": "https://issuer.example", "aud": "api", "jti": id})))
    };
    assert_eq!(verdict(&filter, &token("id-19999")), "token_revoked");
    assert_eq!(verdict(&filter, &token("id-20000")), "verified");
}

fn problems(config: &str) -> Vec<String> {
    JwtReject::configure(config.as_bytes()).unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[test]
fn every_problem_of_a_configuration_is_named() {
    let mut wrong = config(json!({"provider_name": "mian"}));
    wrong["providers"]["main"]["issuerr"] = json!("x");
    wrong["providers"]["main"]["clock_skew_seconds"] = json!("soon");
    wrong["providers"]["main"]["algorithms"] = json!(["none"]);
    wrong["providers"]["weak"] =
        json!({"local_jwks": {"inline_string": "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\"}]}"}});
    wrong["rules"][0]["match"]["prefix"] = json!("api");
    wrong["max_tokens"] = json!(0);
    let found = problems(&wrong.to_string()).join("\n");
    for expected in [
        "providers.main: unknown field `issuerr`; did you mean `issuer`?",
        "providers.main.clock_skew_seconds: \"soon\" is not a whole number from 0 to 86400",
        "providers.main.algorithms[0]: \"none\" is no algorithm known here; there are: HS256,",
        "providers.weak.local_jwks.inline_string: keys[0]: the secret has 1 bytes",
        "rules[0].match.prefix: \"api\" can never match",
        "rules[0].requires.provider_name: no provider is named \"mian\"; there are: main, weak",
        "max_tokens: 0 is not a whole number from 1 to 64",
    ] {
        assert!(found.contains(expected), "{expected}\nnot in\n{found}");
    }
}

#[test]
fn other_configurations_that_are_refused() {
    let with = |path: &[&str], value: Value| {
        let mut config = config(json!({"provider_name": "main"}));
        let (last, way) = path.split_last().unwrap();
        way.iter().fold(&mut config, |at, name| &mut at[*name])[*last] = value;
        config.to_string()
    };
    let oct = json!({"kty": "oct", "k": Base64UrlSafeNoPadding::encode_to_string([7; 32]).unwrap()});
    let okp = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let mixed = json!({"inline_string": json!({"keys": [oct, okp]}).to_string()});
    let rows = [
        (String::new(), "the configuration is empty"),
        ("{".into(), "not valid JSON"),
        ("{}".into(), "`providers` is missing"),
        ("{}".into(), "`rules` is missing"),
        (with(&["rules"], json!([])), "rules: must not be empty"),
        (with(&["rules"], json!({})), "rules: must be an array, not an object"),
        (with(&["providers"], json!({})), "providers: must not be empty"),
        (with(&["rules"], json!([{"requires": "none"}])), "rules[0]: `match` is missing"),
        (
            with(&["rules"], json!([{"match": {}}])),
            "rules[0]: one of `requires`, `requirement_name` is missing",
        ),
        (
            with(&["rules"], json!([{"match": {}, "requires": "none", "requirement_name": "x"}])),
            "give one of them",
        ),
        (with(&["rules"], json!([{"match": {}, "requirement_name": "x"}])), "requirement_map has no \"x\""),
        (
            with(&["rules"], json!([{"match": {}, "requires": {"requires_any": []}}])),
            "requires_any: must not be empty",
        ),
        (
            with(&["rules"], json!([{"match": {}, "requires": {"requires_any": ["none"]}}])),
            "none stands alone",
        ),
        (with(&["rules"], json!([{"match": {}, "requires": {"allow_missing": 1}}])), "must be {} or true"),
        (
            with(&["requirement_map"], json!({"x": {"provider_name": "y"}})),
            "requirement_map.x.provider_name: no provider",
        ),
        (
            with(&["providers", "main", "required_claims"], json!([{"any_of": ["x"]}])),
            "required_claims[0]: `claim` is missing",
        ),
        (
            with(&["providers", "main", "required_claims"], json!([{"claim": "x", "any_of": []}])),
            "must not be an empty list",
        ),
        (
            with(
                &["providers", "main", "claim_to_headers"],
                json!([{"header_name": "host", "claim_name": "x"}]),
            ),
            "has a meaning of its own",
        ),
        (
            with(&["providers", "main", "claim_to_headers"], json!([{"header_name": "x"}])),
            "`claim_name` is missing",
        ),
        (
            with(
                &["providers", "main", "claim_to_headers"],
                json!([{"header_name": "x", "claim_name": "y", "array": "csv"}]),
            ),
            "must be joined or json",
        ),
        (with(&["providers", "main", "forward_payload_header"], json!(":path")), "has a meaning of its own"),
        (with(&["providers", "main", "typ"], json!([])), "must not be an empty list"),
        (
            with(&["providers", "main", "deny"], json!({"issued_before": [{"sub": "a", "time": "x"}]})),
            "must be a number of seconds since 1970",
        ),
        (with(&["providers", "main", "deny"], json!({"token": ["x"]})), "unknown field `token`"),
        (
            with(&["providers", "main", "claim_to_properties"], json!([{"property_name": "x"}])),
            "claim_to_properties[0]: `claim_name` is missing",
        ),
        (
            with(&["providers", "main", "claim_to_properties"], json!(["https://a.example/roles"])),
            "cannot name a property; give a property_name",
        ),
        (with(&["max_vm_verifications_per_second"], json!(0)), "0 is not a whole number from 1 to 1000000"),
        (with(&["mode"], json!("shade")), "mode: \"shade\" must be enforce or shadow"),
        (with(&["default"], json!("pass")), "default: \"pass\" must be deny or allow"),
        (with(&["status"], json!(200)), "status: 200 is not a whole number from 400 to 499"),
        (with(&["resource_metadata"], json!("a\"b")), "is no URL that can stand in quotes"),
        (with(&["rules"], json!([{"match": {}, "requires": "main"}])), "write none, allow_missing"),
        (
            with(&["rules"], json!([{"match": {}, "requires": {}}])),
            "one of `provider_name`, `requires_any`, `requires_all`, `none`",
        ),
        (
            with(&["providers", "main", "local_jwks"], json!(null)),
            "one of `local_jwks`, `remote_jwks` is missing",
        ),
        (with(&["providers", "main", "local_jwks"], json!({"filename": "x"})), "a module cannot read files"),
        (with(&["providers", "main", "local_jwks"], mixed), "has secrets and public keys in one set"),
        (with(&["providers", "main", "max_lifetime"], json!("5m")), "is not a duration"),
        (with(&["providers", "main", "issuer"], json!("")), "must not be empty"),
        (with(&["providers", "main", "from_headers"], json!([{"name": "a b"}])), "is not a header name"),
        (
            with(&["providers", "main", "from_headers"], json!([{"name": "cookie"}])),
            "use from_params or from_cookies",
        ),
        (with(&["providers", "main", "from_headers"], json!([])), "name no place to find a token in"),
        (with(&["providers", "main", "algorithms"], json!([])), "lists no algorithm"),
        (with(&["providers", "main", "subjects"], json!([])), "must not be an empty list"),
    ];
    for (config, expected) in rows {
        let found = problems(&config).join("\n");
        assert!(found.contains(expected), "{config}: {expected}\nnot in\n{found}");
    }
}

#[test]
fn remote_keys_that_are_refused() {
    let with = |path: &str, value: Value| {
        let mut remote = json!({"http_uri": {"uri": "https://a.example/k", "cluster": "c", "timeout": "5s"}});
        let (parent, name) = path.rsplit_once('/').unwrap();
        remote.pointer_mut(parent).unwrap()[name] = value;
        let mut config = config(json!({"provider_name": "main"}));
        config["providers"]["main"]["local_jwks"] = Value::Null;
        config["providers"]["main"]["remote_jwks"] = remote;
        config.to_string()
    };
    assert!(JwtReject::configure(with("/cache_duration", json!("300s")).as_bytes()).is_ok());
    let everything = json!({
        "http_uri": {"uri": "http://a.example", "cluster": "c", "timeout": {"seconds": 1}},
        "cache_duration": "300s", "stale_if_error": "0s", "min_refetch_interval": "10s", "wait_for_keys": "0s",
        "max_body_bytes": 2048, "async_fetch": {"fast_listener": true, "failed_refetch_duration": "0.5s"},
        "retry_policy": {"num_retries": 3, "retry_back_off": {"base_interval": "0.01s", "max_interval": "3s"}},
    });
    let mut whole = config(json!({"provider_name": "main"}));
    whole["providers"]["main"]["local_jwks"] = Value::Null;
    whole["providers"]["main"]["remote_jwks"] = everything;
    assert!(JwtReject::configure(whole.to_string().as_bytes()).is_ok());

    let rows = [
        ("/http_uri", json!(null), "providers.main.remote_jwks: `http_uri` is missing"),
        ("/http_uri/uri", json!(null), "http_uri: `uri` is missing"),
        ("/http_uri/cluster", json!(null), "http_uri: `cluster` is missing"),
        ("/http_uri/timeout", json!(null), "http_uri: `timeout` is missing"),
        ("/http_uri/timeout", json!("0s"), "http_uri.timeout: must be from \"0.001s\" to \"60s\""),
        ("/http_uri/cluster", json!(""), "http_uri.cluster: must not be empty"),
        ("/http_uri/uri", json!("a.example/k"), "http_uri.uri: must be an http:// or https:// URL"),
        ("/http_uri/uri", json!("https://user:pass@a.example/k"), "http_uri.uri: must be an http:// or"),
        ("/http_uri/url", json!("x"), "http_uri: unknown field `url`; did you mean `uri`?"),
        ("/cache_duration", json!("0.5s"), "cache_duration: must be from \"1s\" to \"31536000s\""),
        ("/cache_duration", json!(300), "cache_duration: must be a duration"),
        ("/wait_for_keys", json!("61s"), "wait_for_keys: must be from \"0s\" to \"60s\""),
        ("/max_body_bytes", json!(10), "max_body_bytes: 10 is not a whole number from 1024 to 1048576"),
        ("/async_fetch", json!({"failed_refetch_duration": "0s"}), "must be from \"0.100s\" to \"3600s\""),
        ("/async_fetch", json!({"fast_listener": "maybe"}), "fast_listener: must be"),
        ("/retry_policy", json!({"num_retries": 11}), "num_retries: 11 is not a whole number from 0 to 10"),
        ("/retry_policy", json!({"retry_back_off": {}}), "retry_back_off: `base_interval` is missing"),
        (
            "/retry_policy",
            json!({"retry_back_off": {"base_interval": "2s", "max_interval": "1s"}}),
            "max_interval must not be less than base_interval",
        ),
        ("/retry_policy", json!({"retry_on": "5xx"}), "retry_policy: unknown field `retry_on`"),
    ];
    for (path, value, expected) in rows {
        let config = with(path, value);
        let found = problems(&config).join("\n");
        assert!(found.contains(expected), "{config}: {expected}\nnot in\n{found}");
        assert!(!found.contains("pass@"), "{found}");
    }
    let mut both = config(json!({"provider_name": "main"}));
    both["providers"]["main"]["remote_jwks"] = json!({"http_uri": {}});
    assert!(problems(&both.to_string())[0].contains("give one of them"));
}

#[test]
fn what_looks_wrong_is_warned_of() {
    let warnings = |config: &Value| -> Vec<String> {
        let found = JwtReject::configure(config.to_string().as_bytes()).unwrap().warnings;
        found.iter().map(Problem::to_string).collect()
    };
    assert!(warnings(&config(json!({"provider_name": "main"}))).is_empty());
    let mut odd = config(json!("none"));
    odd["rules"] = json!([{"match": {}, "requires": "none"}, {"match": {"prefix": "/"}, "requires": "none"}]);
    odd["providers"]["main"]["algorithms"] = json!(["HS256", "RS256"]);
    odd["providers"]["main"]["issuer"] = json!(null);
    odd["providers"]["main"]["audiences"] = json!(null);
    odd["providers"]["main"]["from_headers"] = json!([{"name": "authorization", "value_prefix": "Bearer"}]);
    let found = warnings(&odd).join("\n");
    for expected in [
        "rules[0]: matches every request, so the rules after it are never reached",
        "providers.main.algorithms: no key is for RS256",
        "providers.main: neither issuer nor audiences are set",
        "providers.main.from_headers[0].value_prefix: \"Bearer\" is read as the scheme",
        "no rule requires provider \"main\"",
    ] {
        assert!(found.contains(expected), "{expected}\nnot in\n{found}");
    }
}

#[test]
fn numbers_and_flags_come_as_protobuf_json_writes_them() {
    let mut config = config(json!({"provider_name": "main"}));
    config["max_tokens"] = json!("4");
    config["max_token_bytes"] = json!(8192.0);
    config["providers"]["main"]["clock_skew_seconds"] = json!(1e1);
    config["providers"]["main"]["max_lifetime"] = json!({"seconds": 60});
    assert_eq!(verdict(&filter(&config), &bearer(&Issuer::new().good())), "verified");
}

/// Bytes that an attacker might try, most of them near something that means something.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let good = Issuer::new().good();
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "(?i)bearer[ \t,]{0,3}[A-Za-z0-9_=.-]{0,80}".prop_map(String::into_bytes),
        "Bearer eyJ[A-Za-z0-9_-]{0,60}\\.eyJ[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{0,60}"
            .prop_map(String::into_bytes),
        (0..good.len(), any::<u8>()).prop_map(move |(place, byte)| {
            let mut changed = good.clone().into_bytes();
            changed[place] = byte;
            [b"Bearer ", changed.as_slice()].concat()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The one token that is good is the one that was issued; nothing else gets in, and nothing
    /// panics.
    #[test]
    fn no_bytes_get_in(lines in proptest::collection::vec(hostile(), 0..4), path in "[/?&=.;%a-z0-9_]{0,40}", cookie in hostile()) {
        let filter = filter(&config(json!({"provider_name": "main"})));
        let good = format!("Bearer {}", Issuer::new().good());
        let head = lines.iter().fold(HeadMap::get(&format!("/{path}")).with("cookie", cookie), |head, line| {
            head.with("authorization", line)
        });
        // A line may by chance be the good one, its scheme in another case.
        let token = good.trim_start_matches("Bearer ");
        if lines.iter().any(|line| String::from_utf8_lossy(line).contains(token)) {
            return Ok(());
        }
        prop_assert!(matches!(ask(&filter, &head), Outcome::Reply(..)));
    }

    /// No configuration panics, however it is damaged.
    #[test]
    fn no_configuration_panics(place in 0_usize..2000, byte in any::<u8>(), cut in 0_usize..2000) {
        let mut text = config(json!({"provider_name": "main"})).to_string().into_bytes();
        let length = text.len();
        text[place % length] = byte;
        let _ = JwtReject::configure(&text);
        text.truncate(cut % length);
        let _ = JwtReject::configure(&text);
    }
}
