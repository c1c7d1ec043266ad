//! A storm of errors: the budget of lines holds, and what it drops is counted to the last one.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use real_envoy::client::Request;
use serde_json::{Value, json};

use super::{end, lines, set_routes, start_with};
use crate::suite::{Gateway, SOON, crowd, statuses};

const REQUESTS: usize = 20_000;
const CONNECTIONS: usize = 16;
/// As many as [`Gateway::options`] has.
const WORKERS: f64 = 2.0;

/// A gateway whose every answer is an error that Envoy gives itself.
async fn start(plugin: &Value) -> anyhow::Result<Gateway> {
    start_with(plugin, &Gateway::options(), |config| {
        config.edit(|bootstrap| {
            set_routes(
                bootstrap,
                json!([{ "match": { "prefix": "/" }, "direct_response": { "status": 500 } }]),
            )
        })
    })
    .await
}

/// How long the storm took, in seconds.
async fn storm(gateway: &Gateway) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let next = |_, number| (number < REQUESTS / CONNECTIONS).then(|| Request::get("/"));
    assert_eq!(crowd(gateway.addr()?, CONNECTIONS, next).await?, statuses(&[(500, REQUESTS)]));
    let took = begun.elapsed().as_secs_f64();
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    Ok(took)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_holds_and_every_dropped_line_is_counted() -> anyhow::Result<()> {
    let gateway = start(&json!({ "max_lines_per_second": { "lines": 50, "burst": 100 } })).await?;
    // From before any worker could have begun to after all have ended.
    let begun = Instant::now();
    let took = storm(&gateway).await?;
    let all = lines(&gateway.envoy)?;
    let most = WORKERS * (100.0 + 50.0 * begun.elapsed().as_secs_f64());
    let count = f64::from(u32::try_from(all.len())?);
    assert!(count <= most.ceil(), "{count} lines in {took} s");
    // A burst of each worker at least: 16 connections do not all fall to one.
    assert!(count >= WORKERS * 100.0, "{count} lines in {took} s");
    let counters = gateway.counters().await?;
    assert_eq!(counters["lines.why.always"], all.len() as u64);
    assert_eq!(counters["lines.why.always"] + counters["dropped"], REQUESTS as u64);

    // When it is over, the next line of each worker tells what is still untold.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let more = crowd(gateway.addr()?, 40, |_, number| (number < 1).then(|| Request::get("/"))).await?;
    assert_eq!(more, statuses(&[(500, 40)]));
    let told = async || {
        let all = lines(&gateway.envoy)?;
        anyhow::Ok((all.len() as u64, all.iter().filter_map(|line| line["dropped"].as_u64()).sum::<u64>()))
    };
    let waiting = async {
        while told().await? != (counters["lines.why.always"] + 40, counters["dropped"]) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    let outcome = tokio::time::timeout(SOON, waiting).await;
    outcome.with_context(|| {
        format!("dropped {}; lines and dropped: {:?}", counters["dropped"], lines(&gateway.envoy))
    })??;
    // Zeros are not told.
    assert!(lines(&gateway.envoy)?.iter().all(|line| line["dropped"] != 0));
    end(gateway).await
}

/// Not a measurement to publish: clients, Envoy and upstream share the machine. It shows that a storm's lines do not
/// bring a gateway down.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_is_survived_at_nearly_the_speed_of_no_logging() -> anyhow::Result<()> {
    let rows = [
        ("nothing is logged", json!({ "always": [], "percent_sampled": 0 })),
        (
            "50 lines a second of each worker",
            json!({ "max_lines_per_second": { "lines": 50, "burst": 100 } }),
        ),
        ("everything is logged", json!({ "max_lines_per_second": "unlimited" })),
    ];
    let mut speeds = Vec::new();
    for (what, plugin) in &rows {
        let gateway = start(plugin).await?;
        let took = storm(&gateway).await?;
        let speed = f64::from(u32::try_from(REQUESTS)?) / took;
        println!("{what}: {speed:.0} requests/s, {} lines", lines(&gateway.envoy)?.len());
        speeds.push(speed);
        if *what == "everything is logged" {
            assert_eq!(lines(&gateway.envoy)?.len(), REQUESTS);
        }
        end(gateway).await?;
    }
    assert!(speeds[1] > speeds[0] / 3.0, "{speeds:?}");
    Ok(())
}
