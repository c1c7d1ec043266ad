//! The filter with keys that come and go: who waits, who is refused, and what is forgotten.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use filter_api::{
    Attribute, Cells, Facts, Fetched, Filter, HeadMap, Host, HostFailed, HostVerdict, Level, Moment, Outcome,
    Over, SharedValue, SignatureCheck, Waiting,
};
use serde_json::{Value, json};

use super::tests::{Answer, SECOND, START, World};
use crate::JwtReject;
use crate::reason::COUNTERS;

/// A host of a request at the world's moment.
struct Asked {
    now: u64,
    waiting: Waiting,
}

impl Cells for Asked {
    fn shared(&self, _: &str) -> Result<Option<SharedValue>, HostFailed> {
        Ok(None)
    }

    fn share(&self, _: &str, _: &[u8], _: Over) -> Result<bool, HostFailed> {
        Ok(false)
    }
}

impl Host for Asked {
    fn moment(&self) -> Moment {
        Moment { unix_nanos: self.now, dice: 0 }
    }

    fn logs(&self, _: Level) -> bool {
        false
    }

    fn verify_signature(&self, _: &SignatureCheck<'_>) -> HostVerdict {
        HostVerdict::Unavailable
    }

    fn attribute(&self, _: Attribute<'_>) -> Option<Vec<u8>> {
        None
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }
}

fn filter(changes: &[(&str, Value)]) -> JwtReject {
    let mut config = json!({
        "providers": {"main": {
            "issuer": "https://issuer.example",
            "remote_jwks": {"http_uri": {"uri": "https://issuer.example/jwks", "cluster": "issuer", "timeout": "5s"}},
        }},
        "rules": [
            {"match": {"prefix": "/lenient"}, "requires": "allow_missing_or_failed"},
            {"match": {}, "requires": {"provider_name": "main"}},
        ],
    });
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        config.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    JwtReject::configure(config.to_string().as_bytes()).unwrap().filter
}

/// A token by the key that all sets of these tests hold, under this `kid`.
fn token(kid: Option<&str>, claims: Value) -> String {
    use hmac::{KeyInit, Mac};
    let part = |value: Value| Base64UrlUnpadded::encode_string(value.to_string().as_bytes());
    let mut header = json!({"alg": "HS256"});
    if let Some(kid) = kid {
        header["kid"] = kid.into();
    }
    let mut all = json!({"iss": "https://issuer.example", "exp": START / SECOND + 10_000});
    for (name, value) in claims.as_object().unwrap() {
        all[name] = value.clone();
    }
    let signed = format!("{}.{}", part(header), part(all));
    let mut mac = <hmac::Hmac<sha2::Sha256> as KeyInit>::new_from_slice(&[0; 32]).unwrap();
    mac.update(signed.as_bytes());
    let signature = mac.finalize().into_bytes();
    format!("{signed}.{}", Base64UrlUnpadded::encode_string(&signature))
}

/// The way through, the reason, or until when (in milliseconds from now) it waits.
fn verdict(filter: &JwtReject, world: &World, path: &str, token: &str, waiting: Waiting) -> String {
    let head = HeadMap::get(path).with("authorization", format!("Bearer {token}"));
    let host = Asked { now: world.now.get(), waiting };
    let outcome = filter.on_request(&head, &host, &Facts::default());
    if let Outcome::Wait(until, _) = outcome {
        return format!("wait {}", (until - world.now.get()) / 1_000_000);
    }
    let counted = outcome.effects().counters.iter().map(|counter| COUNTERS[usize::from(counter.0)]);
    let ways = ["allowed.reason.", "shadow_refused.reason.", "refused.reason."];
    counted.filter_map(|name| ways.iter().find_map(|way| name.strip_prefix(way))).collect()
}

/// A tick, and an answer to the fetch that it starts.
fn fetch(filter: &JwtReject, world: &World, answer: &Answer) -> bool {
    filter.on_tick(world);
    let open = std::mem::take(&mut *world.open.borrow_mut());
    for (number, _) in &open {
        assert!(filter.on_fetched(Fetched { number: *number, response: Some(answer) }, world).resume);
    }
    !open.is_empty()
}

#[test]
fn who_waits_and_for_how_long() {
    let world = World::new();
    let filter = filter(&[]);
    assert!(filter.on_start(&world).soon);
    let good = token(Some("a"), json!({}));
    let ask = |path: &str, token: &str, waiting| verdict(&filter, &world, path, token, waiting);
    let now = world.now.get();
    assert_eq!(ask("/", &good, Waiting::NotYet), "wait 2000");
    assert_eq!(ask("/", &good, Waiting::Since(now - SECOND)), "wait 1000");
    assert_eq!(ask("/", &good, Waiting::Since(now - 2 * SECOND)), "jwks_unavailable");
    assert_eq!(ask("/", &good, Waiting::Never), "jwks_unavailable");
    assert_eq!(ask("/lenient", &good, Waiting::NotYet), "wait 2000");
    assert_eq!(ask("/lenient", &good, Waiting::Since(now - 2 * SECOND)), "failed");
    // What no key could mend is said at once.
    for (token, reason) in [
        (token(Some("a"), json!({"exp": 1})), "token_expired"),
        (token(Some("a"), json!({"iss": "https://else.example"})), "issuer_not_configured"),
        ("x.y.z".to_owned(), "header_not_base64url"),
    ] {
        assert_eq!(ask("/", &token, Waiting::NotYet), reason);
        assert_eq!(ask("/lenient", &token, Waiting::NotYet), "failed");
    }

    assert!(fetch(&filter, &world, &Answer::with_keys(&["a"], &[])));
    assert_eq!(ask("/", &good, Waiting::Since(now - SECOND)), "verified");
    // Of another key, a moment after the set was fetched.
    let other = token(Some("b"), json!({}));
    assert_eq!(ask("/", &other, Waiting::NotYet), "key_not_found");
    world.wait(30 * SECOND);
    assert_eq!(ask("/", &other, Waiting::NotYet), "wait 2000");
    assert_eq!(ask("/", &token(Some("b"), json!({"exp": 1})), Waiting::NotYet), "token_expired");
    assert!(fetch(&filter, &world, &Answer::with_keys(&["a"], &[])));
    assert_eq!(ask("/", &other, Waiting::Since(world.now.get())), "key_not_found");
    // Neither for a key that is there and does not fit, nor for a signature that is wrong.
    world.wait(30 * SECOND);
    let mut forged = token(None, json!({}));
    forged.truncate(forged.len() - 2);
    forged.push_str("AA");
    assert_eq!(ask("/", &forged, Waiting::NotYet), "signature_wrong");
    assert!(!fetch(&filter, &world, &Answer::with_keys(&["a"], &[])), "nobody asked");
}

#[test]
fn in_shadow_mode_nobody_waits() {
    let world = World::new();
    let filter = filter(&[("/mode", json!("shadow"))]);
    filter.on_start(&world);
    let good = token(Some("a"), json!({}));
    assert_eq!(verdict(&filter, &world, "/", &good, Waiting::NotYet), "jwks_unavailable");
    assert!(fetch(&filter, &world, &Answer::with_keys(&["a"], &[])));
    assert_eq!(verdict(&filter, &world, "/", &good, Waiting::NotYet), "verified");
}

/// What a worker remembers of tokens goes with the keys that it was found out by.
#[test]
fn other_keys_empty_the_caches() {
    let world = World::new();
    let filter = filter(&[]);
    filter.on_start(&world);
    let (a, b) = (token(Some("a"), json!({})), token(Some("b"), json!({})));
    let ask = |token: &str| verdict(&filter, &world, "/", token, Waiting::Never);
    fetch(&filter, &world, &Answer::with_keys(&["a"], &[]));
    assert_eq!((ask(&a), ask(&a)), ("verified".into(), "verified".into()));
    world.wait(601 * SECOND);
    fetch(&filter, &world, &Answer::with_keys(&["b"], &[]));
    assert_eq!((ask(&a), ask(&b)), ("key_not_found".into(), "verified".into()));
    world.wait(601 * SECOND);
    fetch(&filter, &world, &Answer::status("500"));
    assert_eq!(ask(&b), "verified", "an old set serves on");
    world.wait(3601 * SECOND);
    fetch(&filter, &world, &Answer::status("500"));
    assert_eq!(ask(&b), "jwks_unavailable", "but not for ever, not even to what is remembered");
    assert_eq!(ask(&token(Some("b"), json!({"exp": 1}))), "token_expired");
}

/// A budget is for checks in the module alone, and what is remembered takes none of it.
#[test]
fn a_spent_budget_stops_nobody_who_is_remembered() {
    let world = World::new();
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let encode = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    let jwks = json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "x": encode(key.verifying_key().as_bytes())},
        {"kty": "oct", "k": encode(&[0; 32])},
    ]});
    let filter = filter(&[
        ("/max_vm_verifications_per_second", json!(3)),
        ("/providers/main/remote_jwks", Value::Null),
        ("/providers/main/algorithms", json!(["EdDSA", "HS256"])),
        ("/providers/main/local_jwks", json!({"inline_string": jwks.to_string()})),
    ]);
    let signed = |number: u32| {
        use ed25519_dalek::Signer;
        let payload = json!({"iss": "https://issuer.example", "jti": number.to_string()}).to_string();
        let signed = format!("{}.{}", encode(b"{\"alg\":\"EdDSA\"}"), encode(payload.as_bytes()));
        format!("{signed}.{}", encode(&key.sign(signed.as_bytes()).to_bytes()))
    };
    let ask = |token: &str| verdict(&filter, &world, "/", token, Waiting::NotYet);
    let good = signed(0);
    let verdicts: Vec<String> = (0..6).map(|number| ask(&signed(number))).collect();
    assert_eq!(verdicts, ["verified", "verified", "verified", "overloaded", "overloaded", "overloaded"]);
    for _ in 0..10 {
        assert_eq!(ask(&good), "verified");
        assert_eq!(ask(&token(None, json!({}))), "verified", "a secret's check is cheap");
    }
    world.wait(SECOND);
    assert_eq!(ask(&signed(3)), "verified", "that it was refused was not remembered");
}
