//! Collectors that are not well.

use super::collector::Answer;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_collector_is_asked_by_each_worker_once_at_a_time() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::TakeLate(Duration::from_millis(400))).await?;
    let gateway = start(collector.addr, &json!({ "max_batch_lines": 100 })).await?;
    send(&gateway, 0, 100).await?;
    wait_for(&gateway, "sent", 800).await?;
    assert_eq!(counted(&gateway).await?, [800, 800, 0, 0, 0]);
    assert_eq!(collector.numbers()?, all(800));
    assert!(collector.most_at_once() <= 2, "{} at once", collector.most_at_once());
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_fails_for_a_while_gets_everything_once_in_the_end() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Status(503, None)).await?;
    let gateway = start(collector.addr, &json!({})).await?;
    send(&gateway, 0, 50).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    collector.answer(Answer::Status(429, Some(1)));
    tokio::time::sleep(Duration::from_millis(1000)).await;
    send(&gateway, 400, 10).await?;
    // Asked again as agreed, not in a loop.
    assert!((2..=16).contains(&collector.asked()), "asked {} times", collector.asked());
    collector.answer(Answer::Take);
    wait_for(&gateway, "sent", 480).await?;
    assert_eq!(counted(&gateway).await?, [480, 480, 0, 0, 0]);
    assert_eq!(collector.numbers()?, all(480));
    let counters = gateway.counters().await?;
    assert_eq!(counters["batches.result.retried"] + counters["batches.result.ok"], collector.asked() as u64);
    assert_eq!((counters["batches.result.failed"], complaints(&gateway)), (0, Vec::new()));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_refuses_is_lost_at_once_and_told_once_of_each_worker() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Status(400, None)).await?;
    let gateway = start(collector.addr, &json!({ "max_batch_lines": 20 })).await?;
    send(&gateway, 0, 50).await?;
    wait_for(&gateway, "lost.reason.refused", 400).await?;
    assert_eq!(counted(&gateway).await?, [400, 0, 0, 0, 400]);
    assert_eq!(gateway.counters().await?["batches.result.failed"], collector.asked() as u64);
    let told = complaints(&gateway);
    assert!((1..=2).contains(&told.len()), "{told:?}");
    assert!(told[0].contains("the collector's answer is 400"), "{told:?}");
    // It has thought better of it.
    collector.answer(Answer::Take);
    send(&gateway, 0, 5).await?;
    wait_for(&gateway, "sent", 40).await?;
    assert_eq!(collector.numbers()?, all(40));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_is_given_up() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Nothing).await?;
    let gateway =
        start(collector.addr, &json!({ "timeout": "0.3s", "retries": 1, "max_batch_lines": 1000 })).await?;
    send(&gateway, 0, 10).await?;
    wait_for(&gateway, "lost.reason.gave_up", 80).await?;
    assert_eq!(counted(&gateway).await?, [80, 0, 0, 80, 0]);
    let told = complaints(&gateway);
    assert!(
        told.iter().all(|line| line.contains("2 tries in vain; the collector's answer is 504")),
        "{told:?}"
    );
    // All that is sent while it hangs, and arrives when it does not any more.
    send(&gateway, 0, 10).await?;
    tokio::time::sleep(Duration::from_millis(250)).await;
    collector.answer(Answer::Take);
    wait_for(&gateway, "sent", 80).await?;
    assert_eq!(collector.numbers()?, all(80));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_collector_is_gone_what_fits_is_kept_and_the_rest_is_counted() -> anyhow::Result<()> {
    const MOST_BYTES: usize = 20_000;
    let addr = nobody().await?;
    let gateway =
        start(addr, &json!({ "max_queued_bytes": MOST_BYTES, "retries": 100, "format": "NDJSON" })).await?;
    send(&gateway, 0, 250).await?;
    let [lines, sent, full, gave_up, refused] = counted(&gateway).await?;
    assert_eq!([lines, sent, gave_up, refused], [2000, 0, 0, 0]);
    // Of each worker, or of one of them if the other got no connection.
    let kept = 2000 - full;
    assert!((20..=200).contains(&kept), "{kept} lines are kept");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(gateway.counters().await?["batches.result.retried"] >= 1);

    let collector = Collector::start_at(addr, Answer::Take).await?;
    wait_for(&gateway, "sent", kept).await?;
    assert_eq!(counted(&gateway).await?, [2000, kept, full, 0, 0]);
    let mut numbers = collector.numbers()?;
    assert_eq!(numbers.len() as u64, kept);
    numbers.dedup();
    assert_eq!(numbers.len() as u64, kept, "none arrives twice");
    let bytes: usize = collector.taken().iter().map(|batch| batch.body.len()).sum();
    assert!(bytes <= 2 * MOST_BYTES + numbers.len(), "{bytes} bytes");
    assert!(bytes >= MOST_BYTES - 1000, "{bytes} bytes");
    let told = complaints(&gateway);
    assert!((1..=2).contains(&told.len()) && told[0].contains("the queue is full"), "{told:?}");

    // It goes, and comes back: nothing that fits is lost.
    drop(collector);
    tokio::time::sleep(Duration::from_millis(50)).await;
    send(&gateway, 5000, 1).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let collector = Collector::start_at(addr, Answer::Take).await?;
    wait_for(&gateway, "sent", kept + 8).await?;
    assert_eq!(collector.numbers()?, (5000..5008).collect::<Vec<_>>());
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_there_costs_lines_and_no_request() -> anyhow::Result<()> {
    let gateway = start(nobody().await?, &json!({ "cluster": "colector" })).await?;
    send(&gateway, 0, 50).await?;
    wait_for(&gateway, "lost.reason.refused", 400).await?;
    assert_eq!(counted(&gateway).await?, [400, 0, 0, 0, 400]);
    let told = complaints(&gateway);
    assert!((1..=2).contains(&told.len()) && told[0].contains("is there a cluster \"colector\""), "{told:?}");
    end(gateway).await
}
