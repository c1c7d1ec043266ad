//! What an implementation takes beside time for requests: Envoy's resident memory, for all of it and for each worker, and
//! how long Envoy takes to start. `cargo xtask bench --footprint`.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use real_envoy::client::{Client, Http};
use serde::Serialize;

use crate::behaviour::Setup;
use crate::rival::{BASELINE, Rival};
use crate::statistics::{estimate, median};
use crate::workload::Sent;

/// Workers: the difference tells what one of them takes.
const FEW: u32 = 1;
const MANY: u32 = 8;

/// Connections, each with so many requests: more than enough that every worker has some.
const CONNECTIONS: usize = 64;
const REQUESTS: usize = 50;

/// What was found out about one implementation, a value for each round.
#[derive(Debug, Serialize)]
pub(crate) struct Footprint {
    name: String,
    /// Milliseconds until it serves, with one worker and with eight.
    start: [Vec<f64>; 2],
    /// Kilobytes resident after requests, likewise.
    resident: [Vec<f64>; 2],
}

/// Starts each in turn, again and again, sends requests, and looks.
pub(crate) async fn measure(setup: &Setup, rounds: usize) -> anyhow::Result<Vec<Footprint>> {
    let request = setup.workloads.first().and_then(|workload| workload.requests.first());
    let request = request.context("there is no request")?;
    let mut all: Vec<Footprint> = setup
        .rivals
        .iter()
        .map(|rival| Footprint {
            name: rival.name.clone(),
            start: Default::default(),
            resident: Default::default(),
        })
        .collect();
    for _ in 0..rounds {
        for (rival, footprint) in setup.rivals.iter().zip(&mut all) {
            let workers = [FEW, MANY].into_iter().zip(&mut footprint.start).zip(&mut footprint.resident);
            for ((workers, start), resident) in workers {
                let (took, kilobytes) = once(rival, workers, request).await?;
                start.push(took);
                resident.push(kilobytes);
            }
        }
    }
    Ok(all)
}

async fn once(rival: &Rival, workers: u32, request: &Sent) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let envoy = rival.start_with(workers).await?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    let sent = request.request();
    // All are open before the first is used, so that they are spread over the workers.
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect(envoy.listener()?, Http::H1).await?);
    }
    for client in &mut clients {
        for _ in 0..REQUESTS {
            client.send(&sent).await?;
        }
    }
    let kilobytes = envoy.resident_kilobytes()?;
    drop(clients);
    envoy.stop().await?;
    Ok((took, kilobytes as f64))
}

/// A table, in the form that both a terminal and a README show.
pub(crate) fn table(all: &[Footprint]) -> String {
    let mut out = format!(
        "| | start, {FEW} worker | start, {MANY} workers | resident, {FEW} worker | resident, {MANY} workers | each \
         worker, over the baseline |\n|---|---:|---:|---:|---:|---:|\n"
    );
    let megabytes = |kilobytes: f64| kilobytes / 1024.0;
    let each_worker = |it: &Footprint| -> Vec<f64> {
        let [few, many] = &it.resident;
        few.iter().zip(many).map(|(few, many)| megabytes(many - few) / f64::from(MANY - FEW)).collect()
    };
    let baseline = all.iter().find(|it| it.name == BASELINE).and_then(|it| median(&each_worker(it)));
    for footprint in all {
        let _ = write!(out, "| {} |", footprint.name);
        for values in &footprint.start {
            let _ = write!(out, " {:.0} ms |", median(values).unwrap_or(0.0));
        }
        for values in &footprint.resident {
            let _ = write!(out, " {:.1} MB |", megabytes(median(values).unwrap_or(0.0)));
        }
        let own = each_worker(footprint);
        let over: Vec<f64> = own.iter().map(|own| own - baseline.unwrap_or(0.0)).collect();
        let _ = match estimate(&over).filter(|_| footprint.name != BASELINE) {
            Some(over) => writeln!(out, " {:.1} MB [{:.1}, {:.1}] |", over.median, over.low, over.high),
            None => writeln!(out, " |"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_takes_is_told_over_the_baseline() {
        let footprint = |name: &str, few: f64, many: f64| Footprint {
            name: name.to_owned(),
            start: [vec![100.0; 3], vec![200.0; 3]],
            resident: [vec![few * 1024.0; 3], vec![many * 1024.0; 3]],
        };
        let text = table(&[footprint(BASELINE, 50.0, 57.0), footprint("foregate", 60.0, 95.0)]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "| baseline | 100 ms | 200 ms | 50.0 MB | 57.0 MB | |",
            "| foregate | 100 ms | 200 ms | 60.0 MB | 95.0 MB | 4.0 MB [4.0, 4.0] |",
        ];
        assert_eq!(lines, expected);
    }
}
