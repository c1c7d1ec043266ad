//! `foregate jwt check` through the built command: exit codes, what is printed, and files of vectors.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

mod command;

use std::fs;

use jwt_simple::prelude::*;
use serde_json::{Value, json};

use command::{Files, foregate};

/// RFC 7515 appendix A.1: HS256, `iss` is joe, `exp` 1300819380.
const A1: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const A1_SECRET: &str =
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
/// RFC 7515 appendix A.3: the same claims with ES256.
const A3: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

/// HS256 with the secret "short", `sub` is alice, no `exp`.
const WEAK: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.jZj6AVhj8pVEWT5f2bRNftFrvvCa2SlSFM7EBTbQFgo";

fn a1_key() -> Value {
    json!({"kty": "oct", "k": A1_SECRET})
}

fn a3_key() -> Value {
    json!({"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})
}

fn key_set(files: &Files, keys: &[Value]) -> String {
    files.write("jwks.json", json!({"keys": keys}).to_string())
}

fn check(jwks: &str, token: &str, more: &[&str]) -> (i32, String, String) {
    foregate(&[&["jwt", "check", "--jwks", jwks, "--token", token], more].concat(), "")
}

#[test]
fn an_accepted_token_is_shown_without_its_signature() {
    let files = Files::new();
    let jwks = key_set(&files, &[a1_key(), json!({"kty": "RSA", "use": "enc"})]);
    let (code, out, err) = check(&jwks, A1, &["--now", "1300819000", "--issuer", "joe"]);
    let expected = "\
header: {
  \"alg\": \"HS256\",
  \"typ\": \"JWT\"
}
claims: {
  \"exp\": 1300819380,
  \"http://example.com/is_root\": true,
  \"iss\": \"joe\"
}
dates:
  exp 2011-03-22T18:43:00Z (in 6 minutes)
checks:
  presence   passed
  shape      passed
  header     passed
  algorithm  passed
  payload    passed
  key        passed
  time       passed
  issuer     passed
  audience   passed
  subject    passed
  claims     passed
  signature  passed
note: keys[1]: `use` is not \"sig\"; the key is passed over
accepted
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
    for secret in A1.split('.').chain([A1_SECRET]) {
        assert!(!out.contains(secret), "{secret}");
    }
}

#[test]
fn a_refused_token_tells_why_and_how_far_it_got() {
    let files = Files::new();
    let jwks = key_set(&files, &[a1_key()]);
    let (code, out, err) = check(&jwks, A1, &["--now", "1300819500"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains("\n  exp 2011-03-22T18:43:00Z (2 minutes ago)\n"), "{out}");
    assert!(
        out.contains("\n  key        passed\n  time       failed: token_expired (401): Jwt is expired\n")
    );
    assert!(out.contains("\n  issuer     not reached\n"), "{out}");
    assert!(out.ends_with("\nrefused: token_expired (401): Jwt is expired\n"), "{out}");

    let forged = A1.replacen(".dBj", ".dBk", 1);
    let expected_last = [
        (A1, &["--issuer", "jane"][..], "issuer_not_configured (401): Jwt issuer is not configured"),
        (A1, &["--audience", "api"], "audience_not_allowed (403): Audiences in Jwt are not allowed"),
        (A1, &["--subject", "alice"], "subject_not_allowed (403): Jwt subject is not allowed"),
        (A1, &["--algorithm", "ES256"], "alg_not_allowed (401): Jwt header [alg] is not allowed"),
        (A1, &["--max-lifetime", "300"], "lifetime_too_long (401): Jwt lifetime is too long"),
        (A1, &["--max-token-bytes", "10"], "token_too_long (401): Jwt is too long"),
        (A3, &[], "key_not_found (401): Jwks doesn't have key to match kid or alg from Jwt"),
        (forged.as_str(), &[], "signature_wrong (401): Jwt verification fails"),
        (forged.as_str(), &["--signature-only"], "signature_wrong (401): Jwt verification fails"),
        (" ", &[], "token_missing (401): Jwt is missing"),
    ];
    for (token, more, expected) in expected_last {
        let (code, out, err) = check(&jwks, token, &[&["--now", "1300819000"], more].concat());
        assert_eq!((code, err.as_str()), (1, ""), "{more:?}");
        assert_eq!(out.lines().last(), Some(format!("refused: {expected}").as_str()), "{more:?}");
    }
}

#[test]
fn settings_reach_the_filter() {
    let files = Files::new();
    let jwks = key_set(&files, &[a1_key()]);
    let weak = files.write("weak.json", r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#);
    let accepted = [
        (&jwks, A1, &["--now", "1300819440"][..]),
        (&jwks, A1, &["--now", "1300819500", "--skew", "120"]),
        (&jwks, A1, &["--now", "1300819500", "--signature-only"]),
        (&jwks, A1, &["--now", "0", "--algorithm", "RS256", "--algorithm", "HS256"]),
        (&jwks, A1, &["--now", "0", "--require-expiration"]),
        (&weak, WEAK, &["--allow-weak-keys"]),
    ];
    for (keys, token, more) in accepted {
        let (code, out, err) = check(keys, token, more);
        assert_eq!((code, out.lines().last(), err.as_str()), (0, Some("accepted"), ""), "{more:?}: {out}");
    }
    let padded = format!("{A1}=");
    let (code, out, _) = check(&jwks, &padded, &["--now", "0", "--allow-padding"]);
    assert_eq!((code, out.lines().last()), (0, Some("accepted")));
    let (code, out, _) = check(&jwks, &padded, &["--now", "0"]);
    assert!(code == 1 && out.contains("\n  signature  failed: signature_not_base64url"), "{out}");
}

#[test]
fn keys_and_tokens_come_from_files_and_the_standard_input() {
    let files = Files::new();
    let jwks = key_set(&files, &[a3_key()]);
    let more = ["--now", "0"];
    let (code, _, err) = foregate(
        &[&["jwt", "check", "--jwks", &jwks, "--token", "-"][..], &more].concat(),
        format!(" {A3}\r\n"),
    );
    assert_eq!((code, err.as_str()), (0, ""));
    let set = fs::read_to_string(&jwks).unwrap();
    let arguments = [&["jwt", "check", "--jwks", "-", "--token", A3][..], &more].concat();
    assert_eq!(foregate(&arguments, &set).0, 0);

    let pair = ES256KeyPair::generate();
    let pem = files.write("key.pem", pair.public_key().to_pem().unwrap());
    let token = pair.sign(Claims::create(Duration::from_mins(5)).with_audience("api")).unwrap();
    let (code, out, err) =
        foregate(&["jwt", "check", "--pem", &pem, "--token", &token, "--audience", "api"], "");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("\n  iat 20") && out.contains("\n  nbf 20"), "{out}");
    assert!(
        out.contains("Z (in 299 seconds)\n")
            || out.contains("Z (in 5 minutes)\n")
            || out.contains("Z (in 4 minutes)\n"),
        "{out}"
    );

    let mixed = key_set(&files, &[a1_key(), a3_key()]);
    assert!(check(&mixed, A1, &more).1.contains("note: the set holds secrets beside public keys"));
}

#[test]
fn json_has_the_documented_shape() {
    let files = Files::new();
    let jwks = key_set(&files, &[a1_key(), json!({"kty": "new"})]);
    let (code, out, _) = check(&jwks, A1, &["--now", "1300819500", "--json"]);
    assert_eq!((code, out.lines().count()), (1, 1));
    let step =
        |name: &str, result: &str, reason: Value| json!({"check": name, "result": result, "reason": reason});
    let passed = ["presence", "shape", "header", "algorithm", "payload", "key"];
    let not_reached = ["issuer", "audience", "subject", "claims", "signature"];
    let steps: Vec<Value> = passed
        .map(|name| step(name, "passed", Value::Null))
        .into_iter()
        .chain([step("time", "failed", json!("token_expired"))])
        .chain(not_reached.map(|name| step(name, "not_reached", Value::Null)))
        .collect();
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap(),
        json!({
            "verdict": "reject", "reason": "token_expired", "status": 401, "body": "Jwt is expired",
            "header": {"alg": "HS256", "typ": "JWT"},
            "claims": {"iss": "joe", "exp": 1300819380, "http://example.com/is_root": true},
            "checks": steps,
            "notes": ["keys[1]: `kty` \"new\" is not supported; the key is passed over"],
        })
    );

    let (code, out, _) = check(&jwks, "no token", &["--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["header"], &report["claims"]), (1, &Value::Null, &Value::Null));
    let (code, out, _) = check(&jwks, A1, &["--now", "0", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, report["verdict"].as_str()), (0, Some("accept")));
    assert_eq!([&report["reason"], &report["status"], &report["body"]], [&Value::Null; 3]);
}

#[test]
fn a_token_cannot_steer_the_terminal() {
    let files = Files::new();
    let claims = json!({"sub": "\u{1b}[2J\u{9b}31m\u{7f}\u{202e}gpj.exe\u{2066}\u{0}", "\u{1b}]0;": 1});
    let key = HS256Key::from_bytes(&[7; 32]);
    let token = key.authenticate(Claims::with_custom_claims(claims.clone(), Duration::from_mins(5))).unwrap();
    let jwks = key_set(
        &files,
        &[
            json!({"kty": "oct", "k": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc"}),
            json!({"kty": "\u{1b}[\u{202e}"}),
        ],
    );
    for more in [&[][..], &["--json"]] {
        let (code, out, _) = check(&jwks, &token, more);
        assert_eq!(code, 0);
        let wild = |c: char| (c.is_control() && c != '\n') || ('\u{2000}'..'\u{2070}').contains(&c);
        assert!(!out.contains(wild), "{out:?}");
        assert!(out.contains(r"\u001b[2J\u009b31m\u007f\u202egpj.exe\u2066\u0000"), "{out}");
        if more.contains(&"--json") {
            let report: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(report["claims"]["sub"], claims["sub"]);
        }
    }
}

#[test]
fn what_cannot_be_checked_is_a_usage_error() {
    let files = Files::new();
    let good = key_set(&files, &[a1_key()]);
    let single = files.write("single.json", a1_key().to_string());
    let short = files.write("short.json", r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#);
    let none = files.write("none.json", r#"{"keys":[{"kty":"new"}]}"#);
    let der = files.write("key.der", [0x30, 0x82, 0xff]);
    let private = files.write("private.pem", ES256KeyPair::generate().to_pem().unwrap());
    let rows: [(&[&str], &[&str]); 14] = [
        (&["--token", A1], &["--jwks"]),
        (&["--jwks", &good], &["--token"]),
        (&["--jwks", &good, "--pem", &good, "--token", A1], &["cannot be used with"]),
        (&["--jwks", "-", "--token", "-"], &["both come from the standard input"]),
        (&["--jwks", "/no/such/file", "--token", A1], &["cannot read \"/no/such/file\"", "No such file"]),
        (&["--jwks", &single, "--token", A1], &["single.json", "is a single JWK; put it into a set"]),
        (&["--jwks", &short, "--token", A1], &["keys[0]: the secret has 5 bytes", "--allow-weak-keys"]),
        (&["--jwks", &none, "--token", A1], &["no key that can check", "keys[0]: `kty` \"new\""]),
        (&["--pem", &der, "--token", A1], &["no text in UTF-8", "openssl pkey -pubin -inform DER"]),
        (&["--pem", &private, "--token", A1], &["is a private key", "-pubout"]),
        (&["--jwks", &good, "--token", A1, "--algorithm", "none"], &["'none'", "HS256, HS384"]),
        (&["--jwks", &good, "--token", A1, "--skew", "86401"], &["--skew"]),
        (&["--jwks", &good, "--token", A1, "--signature-only", "--issuer", "a"], &["cannot be used with"]),
        (&["--vectors", &good, "--token", A1], &["cannot be used with"]),
    ];
    for (arguments, expected) in rows {
        let (code, out, err) = foregate(&[&["jwt", "check"], arguments].concat(), "");
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        for text in expected {
            assert!(err.contains(text), "{arguments:?}: {err}");
        }
        assert!(!err.contains(A1_SECRET), "{err}");
    }
    for arguments in [&[][..], &["jwt"], &["jwt", "mend"], &["--no"]] {
        assert_eq!(foregate(arguments, "").0, 2, "{arguments:?}");
    }
    let (code, out, _) = foregate(&["--version"], "");
    assert_eq!((code, out), (0, format!("foregate {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, out, _) = foregate(&["jwt", "check", "--help"], "");
    assert!(code == 0 && out.contains("\"not_reached\"") && out.contains("\"as_expected\""), "{out}");
}

fn vector(id: &str, expect: &str) -> Value {
    json!({"id": id, "token": A1, "jwks": {"keys": [a1_key()]}, "expect": expect, "now": 1300819000,
        "issuer": null, "audiences": null})
}

fn with(mut vector: Value, more: Value) -> Value {
    vector.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    vector
}

#[test]
fn vectors_are_held_against_every_expectation() {
    let weak = json!({"token": WEAK, "jwks": {"keys": [{"kty": "oct", "k": "c2hvcnQ"}]}, "now": null, "weak_key": true});
    let rows = [
        (vector("good", "accept"), None),
        (vector("good-not", "reject"), Some("good-not: expected reject, got accept")),
        (vector("either", "either"), None),
        (with(vector("either-expired", "either"), json!({"now": null})), None),
        (with(vector("expired", "reject"), json!({"now": null})), None),
        (with(vector("skew", "accept"), json!({"now": 1300819480, "clock_skew": 100})), None),
        (
            with(vector("no-skew", "accept"), json!({"now": 1300819390, "clock_skew": 0})),
            Some("no-skew: expected accept, got reject: token_expired"),
        ),
        (with(vector("issuer", "reject"), json!({"issuer": "jane"})), None),
        (
            with(vector("audience", "accept"), json!({"audiences": ["api"]})),
            Some("audience: expected accept, got reject: audience_not_allowed"),
        ),
        (with(vector("keys", "reject"), json!({"jwks": {"keys": []}})), None),
        (
            with(vector("no-keys", "accept"), json!({"jwks": {}})),
            Some("no-keys: expected accept, got reject: jwks:  is no JWK set: `keys` is missing"),
        ),
        (with(vector("signature", "reject"), json!({"now": null, "signature_only": "accept"})), None),
        (
            with(vector("signature-not", "accept"), json!({"signature_only": "reject"})),
            Some("signature-not (signature alone): expected reject, got accept"),
        ),
        (with(vector("weak", "accept"), weak.clone()), None),
        (
            with(vector("weak-not", "accept"), json!({"weak_key": ["rsa_below_2048"]})),
            Some("weak-not (weak keys not allowed): expected reject, got accept"),
        ),
        (
            with(with(vector("strong-not", "accept"), weak), json!({"weak_key": false})),
            Some("strong-not: expected accept, got reject: jwks: keys[0] the secret has 5 bytes"),
        ),
    ];
    let files = Files::new();
    let all: Vec<&Value> = rows.iter().map(|(vector, _)| vector).collect();
    let file = files.write("vectors.json", json!(all).to_string());
    let (code, out, err) = foregate(&["jwt", "check", "--vectors", &file], "");
    assert_eq!((code, err.as_str()), (1, ""));
    let mut lines = out.lines();
    for expected in rows.iter().filter_map(|(_, expected)| *expected) {
        let line = lines.next().unwrap();
        assert!(line.starts_with(expected), "{line}");
    }
    assert_eq!((lines.next(), lines.next()), (Some("9 of 16 as expected"), None));

    let (code, out, _) = foregate(&["jwt", "check", "--vectors", &file, "--json"], "");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &summary["total"], &summary["as_expected"]), (1, &json!(16), &json!(9)));
    assert_eq!(
        summary["differences"][1],
        json!({"id": "no-skew", "part": "whole", "expected": "accept", "got": "reject", "reason": "token_expired"})
    );

    let file = files.write("vectors.json", json!([vector("good", "accept")]).to_string());
    assert_eq!(
        foregate(&["jwt", "check", "--vectors", &file], ""),
        (0, "1 of 1 as expected\n".into(), String::new())
    );
    let late = with(vector("good", "accept"), json!({"now": null}));
    let file = files.write("vectors.json", json!([late]).to_string());
    assert_eq!(foregate(&["jwt", "check", "--vectors", &file, "--now", "1300819000"], "").0, 0);
}

#[test]
fn a_file_that_holds_no_vectors_proves_nothing() {
    let files = Files::new();
    let rows = [
        ("[]".to_owned(), "0 of 0 as expected"),
        (String::new(), "line 1 column 0"),
        ("{}".to_owned(), "expected a sequence at line 1"),
        (json!([{"id": "x"}]).to_string(), "missing field `token` at line 1 column 11"),
        (json!([vector("x", "pass")]).to_string(), "unknown variant `pass`"),
        (json!([with(vector("x", "accept"), json!({"now": "y"}))]).to_string(), "invalid type: string \"y\""),
    ];
    for (text, expected) in rows {
        let file = files.write("vectors.json", &text);
        let (code, out, err) = foregate(&["jwt", "check", "--vectors", &file], "");
        assert_eq!((code, out.as_str()), (2, ""), "{text}");
        assert!(err.contains("vectors.json: ") && err.contains(expected), "{text}: {err}");
    }
    assert_eq!(foregate(&["jwt", "check", "--vectors", "/no/such/file"], "").0, 2);
}
