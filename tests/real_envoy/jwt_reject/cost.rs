//! What a check of a signature costs in Envoy's V8, by algorithm, in CPU time of Envoy's worker:
//!
//! ```text
//! cargo test -p foregate-tests --test real_envoy cost -- --ignored --nocapture
//! ```
//!
//! `SIGNATURE_PROBES="name=path name=path"` compares several builds of `tests/signature-probe` instead of
//! the one of this workspace. Each has an Envoy of its own; the rounds go from one to the next, so that
//! whatever else the machine does meets all of them, and the least of all rounds counts.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use real_envoy::Envoy;
use real_envoy::client::{Client, Http, Request};
use serde_json::{Value, json};

use super::agreement;
use crate::jwt;

/// Every kind of check that the module can do, with the key that it takes.
const CHECKS: [(&str, &str); 9] = [
    ("secret", "HS256"),
    ("secret", "HS512"),
    ("rsa", "RS256"),
    ("rsa", "PS256"),
    ("rsa", "PS512"),
    ("ed25519", "EdDSA"),
    ("p256", "ES256"),
    ("p384", "ES384"),
    ("p521", "ES512"),
];

const ROUNDS: usize = 9;
/// How long one measurement takes: long against the request around it.
const LONG_ENOUGH: Duration = Duration::from_millis(40);

#[ignore = "a measurement, not a test: it takes a minute, and tells of this machine"]
#[tokio::test(flavor = "multi_thread")]
async fn cost_of_a_check_in_the_vm() -> anyhow::Result<()> {
    let vectors = CHECKS.iter().map(|(key, algorithm)| {
        let token = jwt::token::make(&json!({ "key": key, "alg": algorithm }))?;
        Ok(json!({ "jwks": jwt::jwks(&json!([key]))?, "token": token }))
    });
    let vectors = vectors.collect::<anyhow::Result<Vec<Value>>>()?;
    let mut probes = Vec::new();
    for (name, module) in modules()? {
        probes.push(Probe::start(name, &module, &vectors).await?);
    }
    let mut least = vec![vec![Duration::MAX; CHECKS.len()]; probes.len()];
    let mut times = vec![vec![0; CHECKS.len()]; probes.len()];
    // The first round finds out how many checks are long enough, and lets V8 compile what it runs.
    for round in 0..=ROUNDS {
        for check in 0..CHECKS.len() {
            for (number, probe) in probes.iter_mut().enumerate() {
                if round == 0 {
                    times[number][check] = probe.times_that_are_long_enough(check).await?;
                } else {
                    let took = probe.check(check, times[number][check]).await?;
                    least[number][check] = least[number][check].min(took / times[number][check]);
                }
            }
        }
    }
    print!("| {:9} |", "us/check");
    probes.iter().for_each(|probe| print!(" {:>12} |", probe.name));
    for (check, (_, algorithm)) in CHECKS.iter().enumerate() {
        print!("\n| {algorithm:9} |");
        for of_probe in &least {
            print!(" {:12.1} |", of_probe[check].as_secs_f64() * 1e6);
        }
    }
    println!();
    for probe in probes {
        probe.envoy.stop().await?;
    }
    Ok(())
}

/// The modules to measure, each with a name for its column.
fn modules() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let Ok(list) = std::env::var("SIGNATURE_PROBES") else {
        return Ok(vec![("module".to_owned(), xtask::modules::ensure("signature_probe")?)]);
    };
    let named = list.split_whitespace().map(|item| {
        let (name, path) = item.split_once('=').with_context(|| format!("no `name=path`: {item:?}"))?;
        Ok((name.to_owned(), std::path::absolute(path)?))
    });
    named.collect()
}

/// An Envoy with one worker and one build of the probe.
struct Probe {
    name: String,
    envoy: Envoy,
    client: Client,
}

impl Probe {
    async fn start(name: String, module: &std::path::Path, vectors: &[Value]) -> anyhow::Result<Self> {
        let envoy = agreement::start(module, vectors).await.with_context(|| name.clone())?;
        let client = Client::connect(envoy.listener()?, Http::H1).await?;
        Ok(Self { name, envoy, client })
    }

    /// The CPU time of that many checks of one vector.
    async fn check(&mut self, vector: usize, times: u32) -> anyhow::Result<Duration> {
        let request = Request::get("/").header("x-vector", vector.to_string());
        let request = request.header("x-repeat", times.to_string());
        let before = self.worker_time()?;
        let response = self.client.send(&request).await?;
        let took = self.worker_time()?.saturating_sub(before);
        let answer: Value = response.json()?;
        ensure!(answer["module"] == json!({ "verdict": "accept", "by": ["module"] }), "{answer}");
        Ok(took)
    }

    async fn times_that_are_long_enough(&mut self, vector: usize) -> anyhow::Result<u32> {
        let mut times = 4;
        // V8 compiles in the background what runs often; so the first answers are slower than the rest.
        for _ in 0..12 {
            let took = self.check(vector, times).await?;
            if took < LONG_ENOUGH {
                times *= 2;
            }
        }
        Ok(times)
    }

    /// The CPU time of the worker so far, which waiting for a turn is no part of.
    fn worker_time(&self) -> anyhow::Result<Duration> {
        for task in std::fs::read_dir(format!("/proc/{}/task", self.envoy.pid()))? {
            let task = task?.path();
            if std::fs::read_to_string(task.join("comm"))?.starts_with("wrk:worker_0") {
                let times = std::fs::read_to_string(task.join("schedstat"))?;
                let running = times.split_whitespace().next().context("an empty schedstat")?;
                return Ok(Duration::from_nanos(running.parse()?));
            }
        }
        anyhow::bail!("Envoy has no thread wrk:worker_0; this measurement needs Linux")
    }
}
