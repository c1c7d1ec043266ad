//! Tokens and verdicts that nobody on this project wrote, through the real Envoy. They lie beside the
//! checkout, where they lie at all; without them a line says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use jwt_reject::algorithm::Algorithm;
use jwt_reject::keys::KeySet;
use real_envoy::client::{Client, Http, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::suite::{Gateway, hcm_mut};

/// Providers of one Envoy; the filter takes 64.
const PROVIDERS: usize = 60;

#[derive(Deserialize)]
struct Vector {
    id: String,
    jwks: Value,
    token: String,
    expect: String,
    now: Option<Value>,
    issuer: Value,
    audiences: Value,
    clock_skew: Option<u64>,
    /// What is weak about the key, where it is.
    weak_key: Option<Value>,
}

impl Vector {
    /// The provider that it asks for; none where it cannot be configured.
    fn provider(&self) -> Option<Value> {
        let jwks = match &self.jwks {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (keys, _) = KeySet::parse(&jwks, self.weak_key.is_some()).ok()?;
        let mut provider = json!({
            "local_jwks": { "inline_string": jwks },
            "allow_weak_keys": self.weak_key.is_some(),
            "issuer": self.issuer,
            "audiences": self.audiences,
            "clock_skew_seconds": self.clock_skew.unwrap_or(60),
        });
        if keys.mixes_secrets_and_public_keys() {
            provider["algorithms"] = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        }
        Some(provider)
    }

    fn request(&self, place: usize) -> Request {
        let in_a_header = !self.token.is_empty() && self.token.bytes().all(|byte| byte.is_ascii_graphic());
        if in_a_header {
            let value = format!("Bearer {}", self.token);
            return Request::get(&format!("/v/{place}/")).header("authorization", value);
        }
        let escaped: String = self.token.bytes().map(|byte| format!("%{byte:02X}")).collect();
        Request::get(&format!("/v/{place}/?access_token={escaped}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_vectors_get_their_verdicts() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
    if !folder.is_dir() {
        println!("skipped: outside vectors, since {} is not there", folder.display());
        return Ok(());
    }
    let (mut groups, mut unusable_keys) = (BTreeMap::<String, (Value, Vec<Vector>)>::new(), 0);
    for path in files(&folder)? {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let vectors: Vec<Vector> = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        for vector in vectors.into_iter().filter(|vector| vector.now.is_none()) {
            match vector.provider() {
                Some(provider) => {
                    let group = groups.entry(provider.to_string());
                    group.or_insert((provider, Vec::new())).1.push(vector);
                }
                None => {
                    ensure!(
                        vector.expect == "reject",
                        "{}: its keys are refused, and it is to be accepted",
                        vector.id
                    );
                    unusable_keys += 1;
                }
            }
        }
    }
    let groups: Vec<(Value, Vec<Vector>)> = groups.into_values().collect();
    ensure!(!groups.is_empty(), "no vectors in {}", folder.display());
    let (mut checked, mut wrong) = (0, Vec::new());
    for groups in groups.chunks(PROVIDERS) {
        checked += check(groups, &mut wrong).await?;
    }
    println!("{checked} outside vectors; {unusable_keys} more have keys that are refused when configured");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("jwt_") && name.ends_with(".json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Asks one Envoy about these groups, each on a path of its own; returns how many vectors there were.
async fn check(groups: &[(Value, Vec<Vector>)], wrong: &mut Vec<String>) -> anyhow::Result<usize> {
    let providers: serde_json::Map<String, Value> = groups
        .iter()
        .enumerate()
        .map(|(place, (provider, _))| (format!("v{place}"), provider.clone()))
        .collect();
    let rules: Vec<Value> = (0..groups.len())
        .map(|place| {
            json!({
                "match": { "prefix": format!("/v/{place}/") },
                "requires": { "provider_name": format!("v{place}") },
            })
        })
        .collect();
    let plugin = json!({ "providers": providers, "rules": rules, "max_token_bytes": 65536 });
    let gateway = Gateway::start(&JWT_REJECT, |config| {
        config.plugin_configuration(JWT_REJECT.plugin, &plugin)?.edit(|value| {
            hcm_mut(value)?.insert("max_request_headers_kb".to_owned(), 96.into());
            Ok(())
        })
    })
    .await?;
    let mut client = Client::connect(gateway.addr()?, Http::H1).await?;
    let mut checked = 0;
    for (place, (_, vectors)) in groups.iter().enumerate() {
        for vector in vectors {
            if !client.is_open() {
                client = Client::connect(gateway.addr()?, Http::H1).await?;
            }
            let answer = client.send(&vector.request(place)).await.with_context(|| vector.id.clone())?;
            let fits = match vector.expect.as_str() {
                "accept" => answer.status == 200,
                _ => matches!(answer.status, 401 | 403),
            };
            if !fits {
                wrong.push(format!(
                    "{}: to {}: {} {}",
                    vector.id,
                    vector.expect,
                    answer.status,
                    answer.text()
                ));
            }
            checked += 1;
        }
    }
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await?;
    Ok(checked)
}
