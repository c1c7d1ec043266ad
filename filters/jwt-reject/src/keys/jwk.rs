//! JWK sets (RFC 7517), and the keys in them (RFC 7518 section 6, RFC 8037).

use filter_api::json;
use serde_json::{Map, Value};

use super::{Found, Key, KeyError, MAX_KEYS, Material, Unfit};
use crate::algorithm::Algorithm;
use crate::token::{Padding, decode_base64url};

/// Levels of arrays and objects in a set: the set, its list, a key, and what a key may hold.
const MAX_DEPTH: u8 = 8;

/// Reads a set. Each key with its place, in the order of the text.
pub(super) fn read(text: &str, allow_weak: bool) -> Result<Found, KeyError> {
    let whole = |message: String| KeyError { place: String::new(), message };
    if text.trim().is_empty() {
        return Err(whole("is empty; it must be a JWK set or public keys in PEM".into()));
    }
    let json = json::parse(text.as_bytes(), MAX_DEPTH)
        .map_err(|error| whole(format!("neither PEM nor valid JSON: {error}")))?;
    let Some(keys) = json.get("keys") else {
        let hint = if json.get("kty").is_some() {
            "is a single JWK; put it into a set: {\"keys\": [...]}"
        } else {
            "is no JWK set: `keys` is missing"
        };
        return Err(whole(hint.into()));
    };
    let Some(keys) = keys.as_array() else { return Err(whole("`keys` must be an array".into())) };
    if keys.len() > MAX_KEYS {
        return Err(whole(format!("holds {} keys; the most is {MAX_KEYS}", keys.len())));
    }
    let key = |(place, key): (usize, &Value)| {
        let read = match key {
            Value::Object(members) => read_key(members, allow_weak),
            _ => Err(no("is no JSON object")),
        };
        (format!("keys[{place}]"), read)
    };
    Ok(keys.iter().enumerate().map(key).collect())
}

fn read_key(jwk: &Map<String, Value>, allow_weak: bool) -> Result<Key, Unfit> {
    let kind = text(jwk, "kty")?.ok_or_else(|| no("`kty` is missing"))?;
    if text(jwk, "use")?.is_some_and(|purpose| purpose != "sig") {
        return Err(no("`use` is not \"sig\""));
    }
    match jwk.get("key_ops") {
        None => {}
        Some(Value::Array(operations)) if operations.iter().any(|op| op == "verify") => {}
        Some(_) => return Err(no("`key_ops` does not list \"verify\"")),
    }
    let algorithm = match text(jwk, "alg")? {
        None => None,
        Some(name) => Some(
            Algorithm::from_name(name)
                .ok_or_else(|| no(&format!("`alg` \"{}\" is not supported", name.escape_debug())))?,
        ),
    };
    let material = match kind {
        "oct" => Material::Hmac(bytes(jwk, "k")?),
        "RSA" => Material::rsa(&bytes(jwk, "n")?, &bytes(jwk, "e")?, allow_weak)?,
        "EC" => elliptic(jwk, algorithm)?,
        "OKP" => match text(jwk, "crv")? {
            Some("Ed25519") => {
                Material::ed25519(&bytes(jwk, "x")?).ok_or_else(|| no("`x` is no Ed25519 key"))?
            }
            _ => return Err(no("`crv` is not \"Ed25519\"")),
        },
        other => return Err(no(&format!("`kty` \"{}\" is not supported", other.escape_debug()))),
    };
    Key::new(text(jwk, "kid")?.map(str::to_owned), algorithm, material, allow_weak)
}

/// An EC key. Its curve is what `crv` says; where that is missing, what `alg` takes, or P-256.
fn elliptic(jwk: &Map<String, Value>, algorithm: Option<Algorithm>) -> Result<Material, Unfit> {
    let curve = match (text(jwk, "crv")?, algorithm) {
        (Some(curve), _) => curve,
        (None, Some(Algorithm::ES384)) => "P-384",
        (None, Some(Algorithm::ES512)) => "P-521",
        (None, _) => "P-256",
    };
    type Read = fn(&[u8]) -> Option<Material>;
    let (length, read) = match curve {
        "P-256" => (32_usize, Material::p256 as Read),
        "P-384" => (48, Material::p384 as Read),
        "P-521" => (66, Material::p521 as Read),
        other => return Err(no(&format!("`crv` \"{}\" is not supported", other.escape_debug()))),
    };
    let mut point = vec![4];
    for coordinate in [bytes(jwk, "x")?, bytes(jwk, "y")?] {
        // RFC 7518 section 6.2.1.2 wants the full size; some issuers drop leading zeros.
        let missing = length
            .checked_sub(coordinate.len())
            .ok_or_else(|| no(&format!("`x` and `y` must have {length} bytes each")))?;
        point.resize(point.len().saturating_add(missing), 0);
        point.extend(coordinate);
    }
    read(&point).ok_or_else(|| no("`x` and `y` are no point of the curve"))
}

fn no(message: &str) -> Unfit {
    Unfit::unusable(message)
}

fn text<'a>(jwk: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Unfit> {
    match jwk.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(no(&format!("`{name}` is no string"))),
    }
}

fn bytes(jwk: &Map<String, Value>, name: &str) -> Result<Vec<u8>, Unfit> {
    let encoded = text(jwk, name)?.ok_or_else(|| no(&format!("`{name}` is missing")))?;
    decode_base64url(encoded, Padding::Refused).ok_or_else(|| no(&format!("`{name}` is not base64url")))
}
