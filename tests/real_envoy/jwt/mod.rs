//! Tokens and keys for the cases of filters that look at JWTs: what a case file says of them, made
//! into the real thing.

pub(crate) mod issuer;
pub(crate) mod keys;
pub(crate) mod token;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

/// Puts real keys into a plugin's configuration, wherever it says
/// - `local_jwks: {test_keys: [rsa, {key: p256, alg: ES256, kid: null}]}`: a JWK set of these keys,
///   each with its name for a `kid`, and with the members given (`null` takes one out), and of
///   `{as_is: ...}`, anything else;
/// - `local_jwks: {test_pem: [p256]}`: their public halves in PEM.
pub(crate) fn fill_in_keys(configuration: &mut Value) -> anyhow::Result<()> {
    match configuration {
        Value::Object(members) => {
            if let Some(list) = members.remove("test_keys") {
                members.insert("inline_string".to_owned(), jwks(&list)?.to_string().into());
            }
            if let Some(list) = members.remove("test_pem") {
                let names = list.as_array().context("test_pem must be a list of key names")?;
                let pem = names.iter().map(|name| keys::named(name.as_str().unwrap_or_default())?.pem());
                members.insert("inline_string".to_owned(), pem.collect::<anyhow::Result<String>>()?.into());
            }
            members.values_mut().try_for_each(fill_in_keys)
        }
        Value::Array(items) => items.iter_mut().try_for_each(fill_in_keys),
        _ => Ok(()),
    }
}

/// The JWK set of a list as `test_keys` has it.
pub(crate) fn jwks(list: &Value) -> anyhow::Result<Value> {
    let items = list.as_array().context("test_keys must be a list")?;
    let keys: Vec<Value> = items.iter().map(jwk).collect::<anyhow::Result<_>>()?;
    Ok(json!({ "keys": keys }))
}

fn jwk(item: &Value) -> anyhow::Result<Value> {
    let (name, members) = match item {
        Value::String(name) => (name.as_str(), Map::new()),
        Value::Object(members) if members.contains_key("as_is") => return Ok(item["as_is"].clone()),
        Value::Object(members) => {
            let mut members = members.clone();
            match members.remove("key") {
                Some(Value::String(_)) => {}
                _ => bail!("{item} names no key"),
            }
            (item["key"].as_str().unwrap_or_default(), members)
        }
        _ => bail!("{item} is no key"),
    };
    let mut jwk = keys::named(name)?.jwk();
    jwk.insert("kid".to_owned(), name.into());
    merge(&mut jwk, &members);
    Ok(Value::Object(jwk))
}

/// Sets these members; `null` takes one out.
pub(crate) fn merge(into: &mut Map<String, Value>, members: &Map<String, Value>) {
    for (name, value) in members {
        if value.is_null() {
            into.remove(name);
        } else {
            into.insert(name.clone(), value.clone());
        }
    }
}
