//! The host's cryptography and the module's own say the same of every signature. A module for this
//! test alone asks both, in one VM, with the filter's code (`tests/signature-probe`).

use std::path::Path;

use anyhow::{Context as _, ensure};
use real_envoy::client::{Client, Http, Request};
use real_envoy::{Config, Envoy, Options};
use serde_json::{Value, json};

use crate::jwt;
use crate::suite::{as_string_value, plugin_mut};

/// Configurations grow with their vectors; Envoy takes a few megabytes with ease.
const AT_ONCE: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn host_and_module_agree_on_every_signature() -> anyhow::Result<()> {
    let mut vectors = own_vectors()?;
    let own = vectors.len();
    vectors.extend(outside_vectors()?);
    let (mut by_host, mut accepted, mut wrong) = (0, 0, Vec::new());
    for some in vectors.chunks(AT_ONCE) {
        for (vector, answer) in some.iter().zip(ask(some).await?) {
            if answer["keys"] == "unusable" {
                continue;
            }
            let (host, module) = (&answer["host"], &answer["module"]);
            ensure!(module["verdict"].is_string(), "{answer}");
            if host["verdict"] != module["verdict"] {
                wrong.push(format!("{}: {answer}", vector["token"]));
            }
            by_host += usize::from(host["by"].as_array().is_some_and(|by| by.contains(&"host".into())));
            accepted += usize::from(host["verdict"] == "accept");
        }
    }
    println!(
        "{} tokens, {own} of them our own; the host checked {by_host}; {accepted} accepted",
        vectors.len()
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    // What our own tokens come to: those from outside need not be there.
    assert!(by_host >= 30 && accepted >= 12, "the host checked {by_host}, {accepted} were accepted");
    Ok(())
}

/// The RFC's examples, and tokens of every algorithm, each with its signature damaged in many ways.
fn own_vectors() -> anyhow::Result<Vec<Value>> {
    let examples: Vec<Value> =
        serde_json::from_str(include_str!("../../../filters/jwt-reject/tests/rfc.json"))?;
    let mut pairs: Vec<(Value, String)> = Vec::new();
    for example in examples {
        pairs.push((example["jwks"].clone(), example["token"].as_str().context("no token")?.to_owned()));
    }
    for (key, algorithm) in [
        ("rsa", "RS256"),
        ("rsa", "RS384"),
        ("rsa", "RS512"),
        ("rsa", "PS256"),
        ("p256", "ES256"),
        ("p384", "ES384"),
        ("p521", "ES512"),
    ] {
        let keys = jwt::jwks(&json!([key]))?;
        for tamper in [
            json!([]),
            json!(["flip_signature"]),
            json!(["flip_signature_start"]),
            json!(["zero_signature"]),
            json!(["shorten_signature"]),
            json!(["trailing_bits"]),
            json!([{ "append_to_part": [2, "AAAA"] }]),
            json!([{ "replace_claims": { "sub": "mallory" } }]),
        ] {
            let token = jwt::token::make(&json!({ "key": key, "alg": algorithm, "tamper": tamper }))?;
            pairs.push((keys.clone(), token));
        }
    }
    Ok(pairs.into_iter().map(|(jwks, token)| json!({ "jwks": jwks, "token": token })).collect())
}

/// All tokens of `../shared/vectors`, where it is there.
fn outside_vectors() -> anyhow::Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
    if !folder.is_dir() {
        println!("skipped: outside vectors, since {} is not there", folder.display());
        return Ok(Vec::new());
    }
    let mut vectors = Vec::new();
    for path in super::vectors::files(&folder)? {
        let listed: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        vectors.extend(
            listed.into_iter().map(|vector| json!({ "jwks": vector["jwks"], "token": vector["token"] })),
        );
    }
    Ok(vectors)
}

/// What the probe says of these vectors, in order.
async fn ask(vectors: &[Value]) -> anyhow::Result<Vec<Value>> {
    let envoy = start(&xtask::modules::ensure("signature_probe")?, vectors).await?;
    let mut client = Client::connect(envoy.listener()?, Http::H1).await?;
    let mut answers = Vec::new();
    for number in 0..vectors.len() {
        let response = client.send(&Request::get("/").header("x-vector", number.to_string())).await?;
        ensure!(response.status == 200, "vector {number}: {} {}", response.status, envoy.log());
        answers.push(response.json()?);
    }
    envoy.stop().await?;
    Ok(answers)
}

/// An Envoy with one worker that has a probe with these vectors.
pub(super) async fn start(module: &Path, vectors: &[Value]) -> anyhow::Result<Envoy> {
    let config = Config::load("envoy-configs/jwt-reject/wasm.yaml")?.on_free_ports()?.edit(|bootstrap| {
        let plugin = plugin_mut(bootstrap, "jwt_reject")?;
        plugin["vm_config"]["vm_id"] = json!("signature_probe");
        plugin["vm_config"]["code"]["local"]["filename"] = json!(module);
        Ok(())
    })?;
    let config = as_string_value(config, "jwt_reject")?
        .plugin_configuration("jwt_reject", &json!({ "vectors": vectors }))?;
    Envoy::start(&config, &Options { concurrency: 1, ..Options::default() }).await
}
