//! Faults that were reported of other limiters: here is asked about each, and everything of its kind. The README
//! lists the same ones.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use real_envoy::client::{self, Client, Http, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::start;
use crate::suite::{Gateway, crowd, statuses};

/// envoy#19474: a steady caller at the rate was refused, since a late timer skipped fills. Here at ten times the
/// speed, for more than twice what the bucket holds; and at several shapes of the same rate.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_19474_a_steady_caller_at_the_rate_is_not_refused() -> anyhow::Result<()> {
    const INTERVAL: Duration = Duration::from_millis(20);
    for bucket in [
        json!({ "max_tokens": 50, "tokens_per_fill": 50, "fill_interval": "1s" }),
        json!({ "max_tokens": 50, "tokens_per_fill": 500, "fill_interval": "10s" }),
        json!({ "max_tokens": 20, "tokens_per_fill": 3, "fill_interval": "0.06s" }),
    ] {
        let gateway = start(&json!({ "token_bucket": bucket }), &Gateway::options()).await?;
        let mut client = Client::connect(gateway.addr()?, Http::H1).await?;
        let begun = Instant::now();
        for number in 0..150_u32 {
            // By the clock, and not by how long the last one took.
            tokio::time::sleep(INTERVAL.mul_f64(number.into()).saturating_sub(begun.elapsed())).await;
            assert_eq!(client.send(&Request::get("/")).await?.status, 200, "request {number}, {bucket}");
        }
        gateway.envoy.stop().await?;
    }
    Ok(())
}

/// higress#3884: of a limit of 5 a minute for a header's value, twice as many passed.
#[tokio::test(flavor = "multi_thread")]
async fn higress_3884_the_sixth_of_five_a_minute_is_refused() -> anyhow::Result<()> {
    let plugin = json!({ "descriptors": [{ "entries": [{ "header": "x-key" }], "rate": "5/m" }] });
    let gateway = start(&plugin, &Gateway::options()).await?;
    for key in ["a", "b"] {
        let mut answers = Vec::new();
        for _ in 0..8 {
            let request = Request::get("/").header("x-key", key);
            answers.push(client::send(gateway.addr()?, &request).await?.status);
        }
        assert_eq!(answers, [200, 200, 200, 200, 200, 429, 429, 429]);
    }
    gateway.envoy.stop().await
}

/// wasm-extensions#43: shared data written without compare-and-swap let between a part and a multiple of the limit
/// through, by the number of workers.
#[tokio::test(flavor = "multi_thread")]
async fn wasm_extensions_43_the_limit_does_not_depend_on_the_number_of_workers() -> anyhow::Result<()> {
    for workers in [1, 3, 6] {
        let plugin = json!({ "token_bucket":
            { "max_tokens": 300, "tokens_per_fill": 1, "fill_interval": "86400s" } });
        let options = real_envoy::Options { concurrency: workers, ..Gateway::options() };
        let gateway = start(&plugin, &options).await?;
        let passed = crowd(gateway.addr()?, 16, |_, number| (number < 50).then(|| Request::get("/"))).await?;
        assert_eq!(passed, statuses(&[(200, 300), (429, 500)]), "{workers} workers");
        gateway.envoy.stop().await?;
    }
    Ok(())
}

/// envoy#24282: of 1000 a second, 600 to 700 passed where 5000 came.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_24282_what_passes_in_the_long_run_is_the_rate() -> anyhow::Result<()> {
    const RATE: usize = 300;
    const BURST: usize = 60;
    const SECONDS: usize = 4;
    let plugin = json!({ "rate": format!("{RATE}/s"), "burst": BURST });
    let gateway = start(&plugin, &Gateway::options()).await?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs(SECONDS as u64);
    let passed = crowd(gateway.addr()?, 8, move |_, _| (Instant::now() < end).then(|| Request::get("/")));
    let passed = passed.await?;
    let most = (begun.elapsed().as_secs_f64() * RATE as f64) as usize + BURST + 1;
    let (passed, refused) = (passed[&200], passed.get(&429).copied().unwrap_or_default());
    assert!(refused > RATE, "the load was too small to tell: {passed} passed, {refused} did not");
    let least = (SECONDS * RATE + BURST) * 95 / 100;
    assert!((least..=most).contains(&passed), "{passed} passed, of at most {most}");
    gateway.envoy.stop().await
}

/// The reports that are asked about: here, and in the table of configurations (traefik#8724).
const REPORTS: [&str; 5] =
    ["envoy#19474", "higress#3884", "wasm-extensions#43", "envoy#24282", "traefik#8724"];

#[test]
fn the_readme_lists_the_reports() -> anyhow::Result<()> {
    let readme = include_str!("../../../filters/local-rate-limit/README.md");
    let section = readme.split("\n## Faults reported elsewhere\n").nth(1).context("no such section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    let listed: Vec<&str> = rows.map(|(report, _)| report).collect();
    assert_eq!(listed, REPORTS);
    let table = include_str!("../../cases/local-rate-limit-configurations.yaml");
    assert!(table.contains("- name: \"traefik#8724: "));
    Ok(())
}

/// A report of the outside list.
#[derive(Deserialize)]
struct Report {
    report: String,
    area: String,
}

#[test]
fn every_report_about_limits_is_asked_about() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors/public_reports.json");
    if !path.is_file() {
        println!("skipped: the list of public reports, since {} is not there", path.display());
        return Ok(());
    }
    let reports: Vec<Report> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let ours: Vec<&Report> = reports.iter().filter(|report| report.area == "ratelimit").collect();
    assert!(!ours.is_empty(), "{} lists none about limits", path.display());
    for Report { report, .. } in ours {
        let short = report.rsplit('/').next().unwrap_or_default().to_lowercase();
        assert!(REPORTS.contains(&short.as_str()), "{report} is not asked about");
    }
    Ok(())
}

/// Steps of buckets that others wrote, from `../shared/vectors` beside the repository, where it is present: through
/// the real Envoy.
#[tokio::test(flavor = "multi_thread")]
async fn buckets_of_others_are_ours() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors/local_ratelimit.json");
    if !path.is_file() {
        println!("skipped: the steps of buckets, since {} is not there", path.display());
        return Ok(());
    }
    let vectors: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let mut asked = 0;
    for vector in &vectors {
        // Those with an answer of the whole filter; the others are steps of arithmetic, and asked of that.
        let Some(expect) = vector.get("expect").filter(|expect| expect.get("status").is_some()) else {
            continue;
        };
        let id = vector["id"].as_str().context("no id")?;
        let steps = vector["steps"].to_string();
        let percent = |name: &str| if steps.contains(&format!("{name} 0%")) { 0 } else { 100 };
        let plugin = json!({
            "token_bucket": { "max_tokens": vector["bucket"]["max_tokens"], "fill_interval": "1s" },
            "filter_enabled": percent("enabled"),
            "filter_enforced": percent("enforced"),
            "response_headers_to_add": [{ "header": { "key": "x-test-rate-limit", "value": "true" } }],
            "request_headers_to_add_when_not_enforced":
                [{ "header": { "key": "x-local-ratelimited", "value": "true" } }],
        });
        let gateway = start(&plugin, &Gateway::options()).await?;
        let answer = client::send(gateway.addr()?, &Request::get("/").header("x-case", "1")).await?;
        let passes = expect["status"] == "pass";
        assert_eq!(answer.status, expect["status"].as_u64().map_or(200, |status| status as u16), "{id}");
        if let Some(body) = expect["body"].as_str() {
            assert_eq!(answer.text(), body, "{id}");
        }
        // Ours name the limit beside what they expect.
        if let Some(details) = expect["details"].as_str() {
            assert_eq!(gateway.details(1).await?, format!("{details}{{default}}"), "{id}");
        }
        for (name, value) in expect["response_headers"].as_object().into_iter().flatten() {
            assert_eq!(answer.header(name), [value.as_str().context("a value")?], "{id}");
        }
        let seen = if passes { answer.json()? } else { Value::Null };
        for (name, value) in expect["request_headers"].as_object().into_iter().flatten() {
            let lines = seen["headers"].as_array().context("headers")?;
            assert!(lines.contains(&json!([name, value])), "{id}: {lines:?}");
        }
        // Their counters by ours: enabled are all that were counted, enforced those refused.
        let ours = gateway.counters().await?;
        let sum = |names: &[&str]| names.iter().map(|name| ours[*name]).sum::<u64>();
        let theirs = json!({
            "enabled": sum(&["allowed.reason.within_limits", "allowed.reason.not_enforced", "refused.limit.default"]),
            "enforced": sum(&["refused.limit.default"]),
            "ok": sum(&["allowed.reason.within_limits"]),
            "rate_limited": sum(&["refused.limit.default", "shadow_refused.limit.default"]),
        });
        for (name, count) in expect["counters"].as_object().into_iter().flatten() {
            assert_eq!(theirs[name], *count, "{id}: {name} in {ours:?}");
        }
        gateway.envoy.stop().await?;
        asked += 1;
    }
    println!("{asked} of {} vectors through Envoy", vectors.len());
    assert!(asked >= 3);
    Ok(())
}
