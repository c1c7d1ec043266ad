//! Outside test data that is not tokens: audiences, times, key sets, and where tokens are. Read
//! from `../shared/vectors` beside the repository, where it is present.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use filter_api::{Facts, Filter, HeadMap, Moment, NoHost, Outcome};
use jwt_reject::JwtReject;
use jwt_reject::keys::KeySet;
use jwt_reject::locate::{HeaderLocation, Locations, Prefix};
use serde_json::{Value, json};

/// The entries of a file, or none, having said so.
fn entries(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    if !folder.is_dir() {
        println!("skipped {file}: no outside test data in ../shared/vectors");
        return Vec::new();
    }
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let entries: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(!entries.is_empty(), "{file} is empty");
    entries
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

const SECRET: [u8; 32] = [7; 32];

/// Whether a token with these claims passes a provider with these settings.
fn accepts(settings: Value, claims: &Value, now: u64) -> bool {
    use base64ct::{Base64UrlUnpadded, Encoding};
    use hmac::{Hmac, KeyInit, Mac};
    let part = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    let signed = format!("{}.{}", part(br#"{"alg":"HS256"}"#), part(claims.to_string().as_bytes()));
    let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(&SECRET).unwrap();
    mac.update(signed.as_bytes());
    let token = format!("{signed}.{}", part(&mac.finalize().into_bytes()));

    let jwks = json!({"keys": [{"kty": "oct", "k": part(&SECRET)}]});
    let mut provider = json!({"local_jwks": {"inline_string": jwks.to_string()}});
    provider.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let config = json!({
        "providers": {"main": provider},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "main"}}],
    });
    let filter = JwtReject::configure(config.to_string().as_bytes()).unwrap().filter;
    let head = HeadMap::get("/").with("authorization", format!("Bearer {token}"));
    matches!(filter.on_request(&head, &NoHost(Moment::at(now)), &Facts::default()), Outcome::Continue(_))
}

#[test]
fn audiences_are_compared_exactly() {
    for entry in entries("aud_match.json") {
        let accepted =
            accepts(json!({"audiences": entry["configured"]}), &json!({"aud": entry["token_aud"]}), 0);
        assert_eq!(accepted, entry["exact_match_allows"].as_bool().unwrap(), "{entry}");
    }
}

#[test]
fn times() {
    for entry in entries("time_rules.json") {
        let settings = json!({"clock_skew_seconds": entry["clock_skew"]});
        let accepted = accepts(settings, &entry["claims"], entry["now"].as_u64().unwrap());
        assert_eq!(accepted, entry["expect"] == "accept", "{entry}");
    }
}

#[test]
fn key_sets() {
    for entry in entries("jwks_parse.json") {
        let parsed = KeySet::parse(entry["jwks_text"].as_str().unwrap(), false);
        assert_eq!(parsed.is_ok(), entry["expect"] == "ok", "{}: {parsed:?}", entry["id"]);
        if let (Some(usable), Ok((keys, _))) = (entry["usable_keys"].as_u64(), &parsed) {
            assert_eq!(keys.len() as u64, usable, "{}", entry["id"]);
        }
    }
}

#[test]
fn where_tokens_are() {
    for entry in entries("envoy_extract.json") {
        let id = entry["id"].as_str().unwrap();
        let mut lines: Vec<(String, String)> = Vec::new();
        let pair = |line: &Value| {
            let pair = strings(line);
            (pair[0].to_owned(), pair[1].to_owned())
        };
        match &entry["request"] {
            Value::Object(map) => {
                lines.extend(
                    map.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())),
                );
            }
            list => lines.extend(list.as_array().unwrap().iter().map(pair)),
        }
        let mut head = HeadMap::get("/");
        for (name, value) in &lines {
            head = if name == ":path" { head.with_only(":path", value) } else { head.with(name, value) };
        }
        let wanted = strings(&entry["expect"]["tokens"]);
        let cookies: Vec<String> =
            ["token-cookie", "token-cookie-2", "token-cookie-3"].into_iter().map(str::to_owned).collect();
        let locations = match entry.get("value_prefixes") {
            Some(prefixes) => {
                let location = |prefix: &str| HeaderLocation {
                    name: filter_api::HeaderName::from_static("prefix-header"),
                    prefix: Prefix::from_value_prefix(prefix),
                };
                Locations {
                    headers: strings(prefixes).into_iter().map(location).collect(),
                    ..Locations::default()
                }
            }
            None if lines.iter().any(|(name, _)| name == "cookie") => {
                Locations { cookies, ..Locations::default() }
            }
            None => Locations::standard(),
        };
        let mut found = jwt_reject::locate::Few::new();
        locations.find(&head, 1, &mut found);
        let found: Vec<String> =
            found.iter().map(|token| String::from_utf8_lossy(&token.token).into_owned()).collect();
        assert_eq!(found, wanted, "{id}");
        if entry["expect"]["final"] == "reject" {
            assert!(refuses(&head), "{id}");
        }
    }
}

/// Whether a filter in its standard set-up refuses the request.
fn refuses(head: &HeadMap) -> bool {
    let config = json!({
        "providers": {"main": {"local_jwks": {"inline_string":
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#}}},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "main"}}],
    });
    let filter = JwtReject::configure(config.to_string().as_bytes()).unwrap().filter;
    matches!(filter.on_request(head, &NoHost::default(), &Facts::default()), Outcome::Reply(..))
}
