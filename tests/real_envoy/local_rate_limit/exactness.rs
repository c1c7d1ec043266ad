//! However many workers and clients there are: as many requests pass as there are tokens.

use real_envoy::Options;
use real_envoy::client::{Client, Http, Request};
use serde_json::{Value, json};

use super::start;
use crate::suite::{Gateway, crowd, statuses};

/// Tokens that do not come back within a test.
fn tokens(count: usize) -> Value {
    json!({ "max_tokens": count, "tokens_per_fill": 1, "fill_interval": "86400s" })
}

async fn with_workers(workers: u32, plugin: &Value) -> anyhow::Result<Gateway> {
    start(plugin, &Options { concurrency: workers, ..Gateway::options() }).await
}

/// That so many workers have had connections.
async fn check_workers(gateway: &Gateway, workers: usize) -> anyhow::Result<()> {
    let stats = gateway.envoy.stats_matching("listener.").await?;
    let busy = stats.iter().filter(|(name, count)| {
        name.contains(".worker_")
            && name.ends_with("downstream_cx_total")
            && **count > 0
            && !name.contains("admin")
    });
    let busy = busy.count();
    assert!(busy >= workers, "{busy} workers had connections: {stats:?}");
    Ok(())
}

async fn end(gateway: Gateway) -> anyhow::Result<()> {
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_n_tokens_exactly_n_pass() -> anyhow::Result<()> {
    const TOKENS: usize = 700;
    const CONNECTIONS: usize = 32;
    const EACH: usize = 60;
    for (workers, least_busy) in [(2, 2), (8, 5)] {
        for plugin in [
            json!({ "token_bucket": tokens(TOKENS) }),
            json!({ "descriptors": [{ "entries": ["client_address"], "token_bucket": tokens(TOKENS) }] }),
            // Two cells: a key of each connection that never refuses, and one for all.
            json!({
                "token_bucket": tokens(TOKENS),
                "descriptors": [{ "entries": [{ "header": "x-key" }], "token_bucket": tokens(EACH) }],
            }),
        ] {
            let gateway = with_workers(workers, &plugin).await?;
            let passed = crowd(gateway.addr()?, CONNECTIONS, |connection, number| {
                (number < EACH).then(|| Request::get("/").header("x-key", connection.to_string()))
            });
            let expected = statuses(&[(200, TOKENS), (429, CONNECTIONS * EACH - TOKENS)]);
            assert_eq!(passed.await?, expected, "{workers} workers, {plugin}");
            assert_eq!(gateway.echo.requests(), TOKENS as u64);
            check_workers(&gateway, least_busy).await?;
            end(gateway).await?;
        }
    }
    Ok(())
}

/// A cell that nobody has written yet takes any writer for the right one: of several first requests at the same time
/// each could think itself the first.
#[tokio::test(flavor = "multi_thread")]
async fn of_several_first_requests_one_is_the_first() -> anyhow::Result<()> {
    const KEYS: usize = 300;
    const CONNECTIONS: usize = 16;
    // Each key in a set of its own, so that nearly every one finds its cell missing.
    let plugin = json!({
        "max_dynamic_descriptors": 1_000_000,
        "descriptors": [{ "entries": [{ "header": "x-key" }], "token_bucket": tokens(1) }],
    });
    let gateway = with_workers(8, &plugin).await?;
    let passed = crowd(gateway.addr()?, CONNECTIONS, |_, number| {
        (number < KEYS).then(|| Request::get("/").header("x-key", number.to_string()))
    });
    assert_eq!(passed.await?, statuses(&[(200, KEYS), (429, KEYS * (CONNECTIONS - 1))]));
    check_workers(&gateway, 5).await?;
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_refuses_has_charged_nothing_else() -> anyhow::Result<()> {
    // Each key lets 20 of 200 pass, and with them 160 of the 200 tokens for all are gone.
    let plugin = json!({
        "token_bucket": tokens(200),
        "descriptors": [{ "entries": [{ "header": "x-key" }], "token_bucket": tokens(20) }],
    });
    let gateway = with_workers(8, &plugin).await?;
    let passed = crowd(gateway.addr()?, 16, |connection, number| {
        (number < 100).then(|| Request::get("/").header("x-key", (connection % 8).to_string()))
    });
    assert_eq!(passed.await?, statuses(&[(200, 160), (429, 1600 - 160)]));
    let rest = crowd(gateway.addr()?, 8, |_, number| (number < 100).then(|| Request::get("/")));
    assert_eq!(rest.await?, statuses(&[(200, 40), (429, 760)]));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_connections_can_have_their_own() -> anyhow::Result<()> {
    let gateway = with_workers(2, &json!({ "scope": "worker", "token_bucket": tokens(50) })).await?;
    let passed = crowd(gateway.addr()?, 16, |_, number| (number < 40).then(|| Request::get("/"))).await?;
    check_workers(&gateway, 2).await?;
    assert_eq!(passed, statuses(&[(200, 100), (429, 540)]));
    end(gateway).await?;

    let gateway = with_workers(2, &json!({ "scope": "connection", "token_bucket": tokens(5) })).await?;
    let passed = crowd(gateway.addr()?, 16, |_, number| (number < 12).then(|| Request::get("/"))).await?;
    assert_eq!(passed, statuses(&[(200, 80), (429, 112)]));
    let mut client = Client::connect(gateway.addr()?, Http::H2).await?;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(client.send(&Request::get("/")).await?.status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
    end(gateway).await
}

/// With a lease, workers hold tokens that others then lack; those come back after a second or two.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_errs_by_no_more_than_it_says() -> anyhow::Result<()> {
    const TOKENS: usize = 400;
    const LEASE: usize = 20;
    const WORKERS: usize = 4;
    let plugin = json!({ "token_bucket": tokens(TOKENS), "lease": LEASE });
    let gateway = with_workers(WORKERS as u32, &plugin).await?;
    // On each connection until it is refused: whoever is refused leaves what other workers hold.
    let burst = async || {
        let all = crowd(gateway.addr()?, 24, |_, number| (number < 100).then(|| Request::get("/"))).await?;
        anyhow::Ok(all.get(&200).copied().unwrap_or_default())
    };
    let at_once = burst().await?;
    assert!(at_once <= TOKENS && at_once + LEASE * (WORKERS - 1) >= TOKENS, "{at_once} of {TOKENS}");
    tokio::time::sleep(std::time::Duration::from_millis(3500)).await;
    let later = burst().await?;
    assert_eq!(at_once + later, TOKENS);
    check_workers(&gateway, 3).await?;
    end(gateway).await
}

/// All workers at one bucket as fast as they can: the races that are lost are counted, and no request is wronged.
#[tokio::test(flavor = "multi_thread")]
async fn contention_wrongs_no_request() -> anyhow::Result<()> {
    const CONNECTIONS: usize = 32;
    const EACH: usize = 250;
    let plugin =
        json!({ "token_bucket": tokens(1_000_000), "enable_x_ratelimit_headers": "DRAFT_VERSION_03" });
    let gateway = with_workers(8, &plugin).await?;
    let passed = crowd(gateway.addr()?, CONNECTIONS, |_, number| (number < EACH).then(|| Request::get("/")));
    assert_eq!(passed.await?, statuses(&[(200, CONNECTIONS * EACH)]));
    let last = real_envoy::client::send(gateway.addr()?, &Request::get("/")).await?;
    assert_eq!(last.header("x-ratelimit-remaining"), [(1_000_000 - CONNECTIONS * EACH - 1).to_string()]);
    let counters = gateway.counters().await?;
    let (all, lost) = (counters["allowed.reason.within_limits"], counters["swaps_lost"]);
    println!("{lost} of {} compare-and-swaps were lost", all + lost);
    assert_eq!(all, (CONNECTIONS * EACH + 1) as u64);
    assert_eq!((counters["refused_by_contention"], counters["allowed.reason.contention"]), (0, 0));
    check_workers(&gateway, 5).await?;
    end(gateway).await
}
