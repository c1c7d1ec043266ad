//! Tokens as a case file declares them: made as they should be, or hostile in one stated way.
//!
//! ```yaml
//! good: { key: p256 }
//! expired: { key: rsa, alg: PS256, claims: { exp: now-3600 } }
//! unsigned: { key: p256, header: { alg: none }, tamper: [strip_signature] }
//! ```
//! A token has by default the header `{alg, typ: JWT, kid: <the key's name>}` and the claims
//! `{iss: https://issuer.example, aud: api, sub: alice, iat: now, exp: now+300}`. `header` and
//! `claims` change members, and `null` takes one out. `padded` lists the parts, 0 to 2, that are written
//! with `=` at their end, as some issuers do, who sign them so. `tamper` is what is done to it afterwards.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::keys::{encode, named, p256_der};
use super::merge;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    /// The name of the key that signs.
    #[serde(default = "usual_key")]
    key: String,
    /// The algorithm to sign with, also the header's `alg`; by default what goes with the key.
    alg: Option<String>,
    /// Members of the header.
    #[serde(default)]
    header: Map<String, Value>,
    /// The header's text, whatever it is.
    header_text: Option<String>,
    /// Members of the payload. `now`, `now+60` and `now-60` stand for seconds since 1970.
    #[serde(default)]
    claims: Map<String, Value>,
    /// The payload's text, whatever it is.
    payload_text: Option<String>,
    /// All of the token, whatever it is.
    text: Option<String>,
    /// The parts that are written with padding, which must need it.
    #[serde(default)]
    padded: Vec<usize>,
    #[serde(default)]
    tamper: Vec<Tamper>,
}

fn usual_key() -> String {
    "p256".to_owned()
}

/// What is done to a token after it was signed, in the order given.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Tamper {
    /// Changes the last byte of the signature.
    FlipSignature,
    /// Changes the first byte of the signature.
    FlipSignatureStart,
    /// Leaves nothing after the second dot.
    StripSignature,
    /// Takes the second dot too.
    DropSignature,
    /// Sets all bytes of the signature to 0.
    ZeroSignature,
    /// Takes the last byte off the signature.
    ShortenSignature,
    /// Writes the signature of ES256 as DER.
    DerSignature,
    /// Sets a bit that belongs to no byte, in the last character of the signature.
    TrailingBits,
    /// Puts these members into the payload, the signature being that of the old one.
    ReplaceClaims(Map<String, Value>),
    /// Puts these members into the header, likewise.
    ReplaceHeader(Map<String, Value>),
    /// Sets one of the parts, 0 to 2.
    SetPart(usize, String),
    /// Adds to the end of one of the parts, 0 to 2.
    AppendToPart(usize, String),
    /// Adds to the end of the token.
    Append(String),
    /// Adds to the beginning of the token.
    Prepend(String),
}

/// Makes a token.
pub(crate) fn make(spec: &Value) -> anyhow::Result<String> {
    let spec: Spec = serde_json::from_value(spec.clone()).with_context(|| format!("no token: {spec}"))?;
    let token = match &spec.text {
        Some(text) => text.clone(),
        None => sign(&spec)?,
    };
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    for step in &spec.tamper {
        step.apply(&mut parts)?;
    }
    Ok(parts.join("."))
}

fn sign(spec: &Spec) -> anyhow::Result<String> {
    let key = named(&spec.key)?;
    let algorithm = spec.alg.as_deref().unwrap_or(key.usual_algorithm());
    let header = match &spec.header_text {
        Some(text) => text.clone(),
        None => {
            let mut header = object(json!({ "alg": algorithm, "typ": "JWT", "kid": spec.key }));
            merge(&mut header, &spec.header);
            Value::Object(header).to_string()
        }
    };
    let now = now();
    let payload = match &spec.payload_text {
        Some(text) => text.clone(),
        None => {
            let mut claims = object(json!({
                "iss": "https://issuer.example", "aud": "api", "sub": "alice", "iat": now, "exp": now + 300,
            }));
            let mut changes = spec.claims.clone();
            changes.values_mut().for_each(|value| resolve_time(value, now));
            merge(&mut claims, &changes);
            Value::Object(claims).to_string()
        }
    };
    let signed = format!("{}.{}", spec.part(0, header.as_bytes())?, spec.part(1, payload.as_bytes())?);
    let signature = key.sign(algorithm, signed.as_bytes())?;
    Ok(format!("{signed}.{}", spec.part(2, &signature)?))
}

impl Spec {
    fn part(&self, place: usize, bytes: &[u8]) -> anyhow::Result<String> {
        let mut part = encode(bytes);
        if self.padded.contains(&place) {
            ensure!(!part.len().is_multiple_of(4), "part {place} needs no padding");
            part.push_str(&"=".repeat(4 - part.len() % 4));
        }
        Ok(part)
    }
}

impl Tamper {
    fn apply(&self, parts: &mut Vec<String>) -> anyhow::Result<()> {
        match self {
            Self::FlipSignature => change_bytes(parts, 2, |bytes| {
                if let Some(last) = bytes.last_mut() {
                    *last ^= 1;
                }
            }),
            Self::FlipSignatureStart => change_bytes(parts, 2, |bytes| {
                if let Some(first) = bytes.first_mut() {
                    *first ^= 1;
                }
            }),
            Self::StripSignature => set(parts, 2, String::new()),
            Self::DropSignature => {
                parts.truncate(2);
                Ok(())
            }
            Self::ZeroSignature => change_bytes(parts, 2, |bytes| bytes.fill(0)),
            Self::ShortenSignature => change_bytes(parts, 2, |bytes| {
                bytes.pop();
            }),
            Self::DerSignature => {
                let der = p256_der(&decoded(parts, 2)?)?;
                set(parts, 2, encode(der))
            }
            Self::TrailingBits => {
                const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
                let part = part(parts, 2)?;
                let last = part.pop().context("the signature is empty")?;
                let place = ALPHABET.iter().position(|byte| char::from(*byte) == last);
                part.push(char::from(ALPHABET[place.context("not base64url")? | 1]));
                Ok(())
            }
            Self::ReplaceClaims(members) => change_members(parts, 1, members),
            Self::ReplaceHeader(members) => change_members(parts, 0, members),
            Self::SetPart(place, text) => set(parts, *place, text.clone()),
            Self::AppendToPart(place, text) => {
                part(parts, *place)?.push_str(text);
                Ok(())
            }
            Self::Append(text) => {
                let last = parts.len().saturating_sub(1);
                part(parts, last)?.push_str(text);
                Ok(())
            }
            Self::Prepend(text) => {
                part(parts, 0)?.insert_str(0, text);
                Ok(())
            }
        }
    }
}

fn part(parts: &mut [String], place: usize) -> anyhow::Result<&mut String> {
    parts.get_mut(place).with_context(|| format!("the token has no part {place}"))
}

fn set(parts: &mut [String], place: usize, text: String) -> anyhow::Result<()> {
    *part(parts, place)? = text;
    Ok(())
}

fn decoded(parts: &mut [String], place: usize) -> anyhow::Result<Vec<u8>> {
    let text = part(parts, place)?;
    Base64UrlUnpadded::decode_vec(text).map_err(|_| anyhow::anyhow!("part {place} is not base64url"))
}

fn change_bytes(parts: &mut [String], place: usize, change: impl FnOnce(&mut Vec<u8>)) -> anyhow::Result<()> {
    let mut bytes = decoded(parts, place)?;
    change(&mut bytes);
    set(parts, place, encode(bytes))
}

fn change_members(parts: &mut [String], place: usize, members: &Map<String, Value>) -> anyhow::Result<()> {
    let Value::Object(mut object) = serde_json::from_slice(&decoded(parts, place)?)? else {
        bail!("part {place} is no JSON object");
    };
    let mut members = members.clone();
    members.values_mut().for_each(|value| resolve_time(value, now()));
    merge(&mut object, &members);
    set(parts, place, encode(Value::Object(object).to_string()))
}

/// `now`, `now+60`, `now-60`.
fn resolve_time(value: &mut Value, now: u64) {
    let Some(rest) = value.as_str().and_then(|text| text.strip_prefix("now")) else { return };
    if rest.is_empty() {
        *value = now.into();
    } else if let Ok(offset) = rest.parse::<i64>() {
        *value = now.saturating_add_signed(offset).into();
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
