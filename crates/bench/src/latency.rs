//! Throughput and latency by this crate's own load: it can send many different requests in turn, and looks at the
//! status and body of every answer.
//!
//! At a held rate each request is due at a moment of its own, and its latency is counted from that, however long it
//! then waits for a connection: an Envoy that stops for a moment makes all those late that were due meanwhile, and not
//! only the few under way (coordinated omission). What is still not sent when twice the time is over counts as having
//! taken until then, so that a rate that is too high ends, and shows.
//!
//! Waiting for the next moment takes all of the load's core, since timers are too coarse for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::load::{CONNECTIONS, Connection, Requests};

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Each connection sends its next request when it has the answer to the last: as many as can be.
    Closed,
    /// So many a second, whether or not the last ones have been answered.
    Held(f64),
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Requests that were answered.
    pub requests: u64,
    /// How many of them a second.
    pub requests_per_second: f64,
    /// How long answers took.
    pub latency: Latency,
}

/// How long answers took at most, of that share of the requests, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
}

/// The longest latency that is told apart, in nanoseconds.
const LONGEST: u64 = 600_000_000_000;
/// Digits that are kept of it.
const DIGITS: u8 = 3;
/// However slow: a run that takes this much longer hangs.
const BESIDE: Duration = Duration::from_secs(20);

/// Sends requests for so long. Any answer but the expected one is an error.
pub async fn run(
    address: SocketAddr,
    requests: &Arc<Requests>,
    mode: Mode,
    length: Duration,
) -> anyhow::Result<Outcome> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address).await?);
    }
    let timetable = Arc::new(Timetable::new(mode, length)?);
    let mut running = JoinSet::new();
    for connection in connections {
        let (requests, timetable) = (Arc::clone(requests), Arc::clone(&timetable));
        running.spawn(async move { timetable.keep(connection, &requests).await });
    }
    let all = async {
        timetable.call_out().await;
        let mut sum = Tally::new()?;
        while let Some(tally) = running.join_next().await {
            sum.add(&tally.context("a connection panicked")??)?;
        }
        sum.outcome(timetable.start)
    };
    let limit = length.saturating_mul(2).saturating_add(BESIDE);
    tokio::time::timeout(limit, all).await.with_context(|| format!("no end within {limit:?}"))?
}

/// When which request is due.
#[derive(Debug)]
struct Timetable {
    start: Instant,
    length: Duration,
    /// Requests a second, where that is held.
    rate: Option<f64>,
    /// How many there are, where the rate is held.
    all: u64,
    /// The next to be taken by a connection.
    next: AtomicU64,
    /// As many permits as are due and not taken.
    due: Semaphore,
}

impl Timetable {
    fn new(mode: Mode, length: Duration) -> anyhow::Result<Self> {
        let rate = match mode {
            Mode::Closed => None,
            Mode::Held(rate) => Some(rate),
        };
        ensure!(rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "no rate to hold: {mode:?}");
        let all = rate.map_or(u64::MAX, |rate| (rate * length.as_secs_f64()).ceil() as u64);
        let start = Instant::now();
        Ok(Self { start, length, rate, all, next: AtomicU64::new(0), due: Semaphore::new(0) })
    }

    /// Lets each request go when it is due.
    async fn call_out(&self) {
        let Some(rate) = self.rate else { return };
        let mut called = 0;
        while called < self.all {
            // The first is due at once.
            let due = ((self.start.elapsed().as_secs_f64() * rate) as u64).saturating_add(1).min(self.all);
            self.due.add_permits(usize::try_from(due.saturating_sub(called)).unwrap_or(usize::MAX));
            called = due;
            // First the connections of this thread, then whoever shares its core.
            tokio::task::yield_now().await;
            std::thread::yield_now();
        }
    }

    /// Sends on this connection what is due next, until the end.
    async fn keep(&self, mut connection: Connection, requests: &Requests) -> anyhow::Result<Tally> {
        let mut tally = Tally::new()?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let due = match self.rate {
                None => Instant::now(),
                Some(_) if number >= self.all => break,
                Some(rate) => {
                    self.due.acquire().await?.forget();
                    self.start + Duration::from_secs_f64(number as f64 / rate)
                }
            };
            let over = self.start.elapsed();
            if self.rate.is_none() && over >= self.length {
                break;
            }
            if over >= self.length.saturating_mul(2) {
                tally.unanswered(due)?;
                continue;
            }
            connection.exchange(requests).await?;
            tally.answered(due)?;
        }
        Ok(tally)
    }
}

/// What came back on one connection, or on all.
#[derive(Debug)]
struct Tally {
    latencies: Histogram<u64>,
    answered: u64,
    last: Option<Instant>,
}

impl Tally {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { latencies: Histogram::new_with_bounds(1, LONGEST, DIGITS)?, answered: 0, last: None })
    }

    fn answered(&mut self, due: Instant) -> anyhow::Result<()> {
        let now = Instant::now();
        self.answered = self.answered.saturating_add(1);
        self.last = Some(now);
        self.record(now.saturating_duration_since(due))
    }

    fn unanswered(&mut self, due: Instant) -> anyhow::Result<()> {
        self.record(due.elapsed())
    }

    fn record(&mut self, latency: Duration) -> anyhow::Result<()> {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        Ok(self.latencies.record(nanoseconds.clamp(1, LONGEST))?)
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.latencies.add(&other.latencies)?;
        self.answered = self.answered.saturating_add(other.answered);
        self.last = self.last.max(other.last);
        Ok(())
    }

    fn outcome(&self, start: Instant) -> anyhow::Result<Outcome> {
        let last = self.last.context("nothing was answered")?;
        let seconds = last.saturating_duration_since(start).as_secs_f64();
        let at = |share| self.latencies.value_at_quantile(share) as f64 / 1000.0;
        Ok(Outcome {
            requests: self.answered,
            requests_per_second: self.answered as f64 / seconds,
            latency: Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999) },
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;

    use super::*;
    use crate::workload::{Answer, PASSED, Sent};

    /// A server that answers "ok", and once, when it has answered so many, is silent for so long.
    async fn server(silent_after: u64, silence: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicU64::new(0));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answered = Arc::clone(&answered);
                let service = hyper::service::service_fn(move |_| {
                    let answered = Arc::clone(&answered);
                    async move {
                        if answered.fetch_add(1, Ordering::Relaxed) == silent_after {
                            // All of the thread: what is sent meanwhile waits too.
                            std::thread::sleep(silence);
                        }
                        anyhow::Ok(hyper::Response::new(Full::new(Bytes::from_static(b"ok"))))
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move { http.serve_connection(TokioIo::new(stream), service).await });
            }
        });
        address
    }

    /// A server in a thread of its own, as another process would be.
    fn apart(silent_after: u64, silence: Duration) -> SocketAddr {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tell.send(server(silent_after, silence).await).unwrap();
                std::future::pending::<()>().await;
            });
        });
        told.recv().unwrap()
    }

    fn requests(expected: Answer) -> Arc<Requests> {
        Arc::new(Requests::from_sent(&[Sent::plain("/")], |_| expected).unwrap())
    }

    #[tokio::test]
    async fn a_held_rate_is_held_and_a_closed_loop_is_faster() {
        let address = apart(u64::MAX, Duration::ZERO);
        let length = Duration::from_millis(400);
        let held = run(address, &requests(PASSED), Mode::Held(200.0), length).await.unwrap();
        assert_eq!(held.requests, 80);
        assert!((150.0..=260.0).contains(&held.requests_per_second), "{held:?}");
        let Latency { p50, p90, p99, p99_9 } = held.latency;
        assert!(0.0 < p50 && p50 <= p90 && p90 <= p99 && p99 <= p99_9, "{held:?}");
        let closed = run(address, &requests(PASSED), Mode::Closed, length).await.unwrap();
        assert!(closed.requests_per_second > 300.0, "{closed:?}");
    }

    #[tokio::test]
    async fn a_server_that_stops_makes_all_late_that_are_due_meanwhile() {
        let silence = Duration::from_millis(300);
        let address = apart(20, silence);
        let length = Duration::from_millis(600);
        let held = run(address, &requests(PASSED), Mode::Held(500.0), length).await.unwrap();
        assert_eq!(held.requests, 300);
        // Half of all were due in the silence; of those under way there were but four.
        assert!(held.latency.p90 > 100_000.0, "{held:?}");
        assert!(held.latency.p99 > 200_000.0, "{held:?}");
    }

    #[tokio::test]
    async fn a_rate_that_is_too_high_ends_and_shows() {
        let address = apart(0, Duration::from_millis(500));
        let length = Duration::from_millis(100);
        let held = run(address, &requests(PASSED), Mode::Held(1000.0), length).await.unwrap();
        assert!(held.requests < 100, "{held:?}");
        assert!(held.requests_per_second < 500.0, "{held:?}");
        assert!(held.latency.p50 > 100_000.0, "{held:?}");
    }

    #[tokio::test]
    async fn another_answer_voids_the_run() {
        let address = apart(u64::MAX, Duration::ZERO);
        for expected in [Answer { status: 401, body: "ok" }, Answer { status: 200, body: "no" }] {
            for mode in [Mode::Closed, Mode::Held(100.0)] {
                let error = run(address, &requests(expected), mode, Duration::from_millis(100)).await;
                let error = format!("{:#}", error.unwrap_err());
                assert!(error.contains("the run is void"), "{error}");
            }
        }
        let no_rate = run(address, &requests(PASSED), Mode::Held(0.0), Duration::ZERO).await;
        assert!(no_rate.is_err());
    }
}
