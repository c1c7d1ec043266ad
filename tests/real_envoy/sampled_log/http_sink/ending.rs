//! What becomes of lines that wait when their configuration ends. They would wait for half a minute; nothing but the end
//! can have sent what arrives here.

use std::process::Command;

use real_envoy::Update;
use real_envoy::client;

use super::collector::Answer;
use super::*;

/// Old listeners are gone a second after they were replaced.
fn options() -> Options<'static> {
    Options { extra_args: &["--file-flush-interval-msec", "20", "--drain-time-s", "1"], ..Gateway::options() }
}

/// A gateway whose listeners can be replaced.
async fn start_replaceable(addr: SocketAddr, settings: &Value) -> anyhow::Result<Gateway> {
    let mut members = json!({ "flush_interval": "30s" });
    members.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    start_with(&plugin(&members), &options(), |config| with_collector(config, addr)?.with_file_lds()).await
}

/// Replaces the listener by one with this configuration of the plugin.
async fn replace(gateway: &mut Gateway, plugin: &Value) -> anyhow::Result<()> {
    replace_with(gateway, plugin, Ok).await
}

async fn replace_with(
    gateway: &mut Gateway,
    plugin: &Value,
    change: impl FnOnce(Config) -> anyhow::Result<Config>,
) -> anyhow::Result<()> {
    let config = Gateway::config(&SAMPLED_LOG, gateway.echo.addr())?
        .plugin_configuration(SAMPLED_LOG.plugin, plugin)?
        .listener_port(gateway.addr()?.port())?;
    assert_eq!(gateway.envoy.update_listeners(&change(config)?).await?, Update::Accepted);
    Ok(())
}

/// A configuration without a sink of this kind.
fn elsewhere() -> Value {
    json!({ "percent_sampled": 0 })
}

/// In a VM of its own.
fn other_vm(config: Config) -> anyhow::Result<Config> {
    config.edit(|value| {
        let plugin = plugin_mut(value, SAMPLED_LOG.plugin)?;
        plugin["vm_config"]["vm_id"] = "another".into();
        Ok(())
    })
}

/// Sends requests until each worker that has any has a connection to the collector, and some lines wait: batches of three
/// leave at once. Gives how many lines there are, and how many of them wait.
async fn until_some_wait(gateway: &Gateway) -> anyhow::Result<(u64, u64)> {
    send(gateway, 0, 10).await?;
    let mut lines = 80;
    loop {
        // A batch is looked for every 20 ms, and is under way for moments.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let sent = counted(gateway).await?[1];
        if lines > sent {
            return Ok((lines, lines - sent));
        }
        let request = Request::get("/orders").header("x-number", lines.to_string());
        assert_eq!(client::send(gateway.addr()?, &request).await?.status, 200);
        lines += 1;
    }
}

async fn until_taken(collector: &Collector, lines: u64) -> anyhow::Result<()> {
    let waiting = async {
        while (collector.numbers()?.len() as u64) < lines {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SOON, waiting).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_when_the_configuration_is_replaced_is_sent_by_the_old_one() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let settings = json!({ "flush_interval": "2s", "path": "/old" });
    let mut gateway = start_with(&plugin(&settings), &Gateway::options(), |config| {
        with_collector(config, collector.addr)?.with_file_lds()
    })
    .await?;
    send(&gateway, 0, 5).await?;
    assert!(collector.taken().is_empty());
    replace(&mut gateway, &plugin(&json!({ "path": "/new" }))).await?;
    send(&gateway, 40, 5).await?;
    wait_for(&gateway, "sent", 80).await?;
    assert_eq!(collector.numbers()?, all(80));
    for batch in collector.taken() {
        let is_old = batch.line.ends_with("/old");
        assert!(
            batch
                .lines()?
                .iter()
                .all(|line| { is_old == (line["number"].as_str().unwrap().parse::<u64>().unwrap() < 40) })
        );
    }
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_when_the_old_configuration_ends_is_sent_by_the_new_one() -> anyhow::Result<()> {
    for new in [plugin(&json!({ "path": "/new", "flush_interval": "30s" })), elsewhere()] {
        let collector = Collector::start(Answer::TakeLate(Duration::from_millis(50))).await?;
        let mut gateway =
            start_replaceable(collector.addr, &json!({ "path": "/old", "max_batch_lines": 50 })).await?;
        send(&gateway, 0, 5).await?;
        assert_eq!((collector.asked(), counted(&gateway).await?), (0, [40, 0, 0, 0, 0]));
        replace(&mut gateway, &new).await?;
        wait_for(&gateway, "sent", 40).await?;
        assert_eq!(collector.numbers()?, all(40));
        assert!(collector.taken().iter().all(|batch| batch.line.ends_with("/old")));
        // Each worker's at once.
        assert!(collector.asked() <= 2 && complaints(&gateway).is_empty());
        assert_eq!(gateway.counters().await?["lost.reason.ended"], 0);
        end(gateway).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_batches_that_wait_follow_each_other() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::TakeLate(Duration::from_millis(400))).await?;
    let mut gateway = start_replaceable(collector.addr, &json!({ "max_batch_lines": 10 })).await?;
    send(&gateway, 0, 25).await?;
    replace(&mut gateway, &elsewhere()).await?;
    wait_for(&gateway, "sent", 200).await?;
    let mut numbers = collector.numbers()?;
    // One that is broken off when it has just been taken is taken again.
    numbers.dedup();
    assert_eq!(numbers, all(200));
    assert!(collector.taken().iter().all(|batch| batch.lines().unwrap().len() <= 10));
    assert!(collector.most_at_once() <= 2, "{} at once", collector.most_at_once());
    assert_eq!(gateway.counters().await?["lost.reason.ended"], 0);
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_when_the_configuration_ends_is_sent_again() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Nothing).await?;
    let settings = json!({ "flush_interval": "0.1s", "timeout": "30s" });
    let mut gateway = start_replaceable(collector.addr, &settings).await?;
    send(&gateway, 0, 5).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = collector.asked();
    assert!(asked > 0);
    collector.answer(Answer::Take);
    replace(&mut gateway, &elsewhere()).await?;
    wait_for(&gateway, "sent", 40).await?;
    assert_eq!((collector.numbers()?, counted(&gateway).await?), (all(40), [40, 40, 0, 0, 0]));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_collector_does_not_take_in_time_is_counted() -> anyhow::Result<()> {
    let mut gateway = start_replaceable(nobody().await?, &json!({ "retries": 100 })).await?;
    send(&gateway, 0, 5).await?;
    replace(&mut gateway, &plugin(&json!({ "cluster": "none" }))).await?;
    wait_for(&gateway, "lost.reason.ended", 40).await?;
    assert_eq!(counted(&gateway).await?, [40, 0, 0, 0, 0]);
    let told = complaints(&gateway);
    assert!((1..=2).contains(&told.len()) && told[0].contains("after their configuration's end"), "{told:?}");
    end(gateway).await
}

/// Envoy breaks off the last batch, and sends what the open connection takes nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_ends_sends_a_last_batch_over_an_open_connection() -> anyhow::Result<()> {
    let collector = Collector::start_patient(Answer::Take).await?;
    let mut gateway = start_replaceable(collector.addr, &json!({ "max_batch_lines": 3 })).await?;
    let (lines, waiting) = until_some_wait(&gateway).await?;
    replace_with(&mut gateway, &elsewhere(), other_vm).await?;
    until_taken(&collector, lines).await?;
    assert_eq!(collector.numbers()?, all(lines as usize));
    // Nobody knows, so they are not among those sent.
    let counters = gateway.counters().await?;
    assert_eq!((counters["sent"], counters["lost.reason.ended"]), (lines - waiting, waiting));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_ends_without_an_open_connection_loses_what_waits() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let mut gateway = start_replaceable(collector.addr, &json!({})).await?;
    send(&gateway, 0, 5).await?;
    replace_with(&mut gateway, &elsewhere(), other_vm).await?;
    wait_for(&gateway, "lost.reason.ended", 40).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((counted(&gateway).await?, collector.asked()), ([40, 0, 0, 0, 0], 0));
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_ends_sends_a_last_batch_over_an_open_connection() -> anyhow::Result<()> {
    for signal in [None, Some("-TERM")] {
        let collector = Collector::start_patient(Answer::Take).await?;
        let gateway = start_replaceable(collector.addr, &json!({ "max_batch_lines": 3 })).await?;
        let (lines, _) = until_some_wait(&gateway).await?;
        match signal {
            None => end(gateway).await?,
            Some(signal) => {
                let pid = gateway.envoy.pid().to_string();
                assert!(Command::new("kill").args([signal, &pid]).status()?.success());
                until_taken(&collector, lines).await?;
            }
        }
        until_taken(&collector, lines).await?;
        assert_eq!(collector.numbers()?, all(lines as usize), "{signal:?}");
    }
    Ok(())
}

/// Whatever the collector does just then.
#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_ends_well_whatever_waits_or_is_under_way() -> anyhow::Result<()> {
    for (answer, flush_interval) in [
        (Some(Answer::Take), "30s"),
        (Some(Answer::Nothing), "0.1s"),
        (Some(Answer::Status(503, None)), "0.1s"),
        (None, "0.1s"),
    ] {
        let collector = match answer {
            Some(answer) => Some(Collector::start(answer).await?),
            None => None,
        };
        let addr = match &collector {
            Some(collector) => collector.addr,
            None => nobody().await?,
        };
        let settings = json!({ "flush_interval": flush_interval, "max_batch_lines": 5 });
        let gateway = start_replaceable(addr, &settings).await?;
        send(&gateway, 0, 5).await?;
        end(gateway).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_listeners_ends_no_configuration_so_lines_leave_when_they_would() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let gateway = start_replaceable(collector.addr, &json!({ "flush_interval": "4s" })).await?;
    send(&gateway, 0, 5).await?;
    gateway.envoy.admin_post("/drain_listeners?graceful").await?;
    // Twice as long as draining takes.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(collector.asked(), 0);
    wait_for(&gateway, "sent", 40).await?;
    assert_eq!(collector.numbers()?, all(40));
    end(gateway).await
}
