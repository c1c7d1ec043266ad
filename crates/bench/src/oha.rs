//! Throughput and latency by `oha`, a load generator that others know: one request, sent again and again over
//! [`CONNECTIONS`] connections that are kept open, in HTTP/1.1.
//!
//! It has the cores of the thread that starts it, since a child inherits these; so it runs on the load's core once
//! [`Pinning::choose`](crate::cpu::Pinning::choose) has put this thread there.
//!
//! What it does not do: look at bodies, or send different requests. At a held rate it notes the moment at which a request is
//! due and counts its latency from there, however long the request then waits for a connection
//! (`--latency-correction`); but its timer wakes once a millisecond, so that requests due within the same millisecond go
//! out together and wait for one another. That is the same for all whom it asks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use tokio::process::Command;

use crate::latency::{Latency, Mode, Outcome};
use crate::load::CONNECTIONS;

/// A rate was to be held that was too high for who was asked: requests were due that were never sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NotHeld {
    /// Answers a second.
    pub reached: f64,
    /// Requests a second that were to be sent.
    pub rate: f64,
}

impl std::fmt::Display for NotHeld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reached, rate } = self;
        write!(
            f,
            "the run is void: {reached:.0} requests a second instead of the {rate:.0} that were to be held"
        )
    }
}

impl std::error::Error for NotHeld {}

/// What starting and ending may take beside the run.
const BESIDE: Duration = Duration::from_secs(20);
/// The share of a held rate that must be reached: below, requests were due that were never sent, and latencies are
/// those of a few.
const REACHED: f64 = 0.95;
/// In a second.
const MICROSECONDS: f64 = 1e6;

/// Sends a request for so long to `address`, where its URI names a path. Any answer of another status than `status`
/// is an error, and so is a request without an answer, and a rate that could not be held.
pub async fn run<B>(
    oha: &Path,
    address: SocketAddr,
    request: &hyper::Request<B>,
    status: u16,
    mode: Mode,
    length: Duration,
) -> anyhow::Result<Outcome> {
    let mut command = Command::new(oha);
    command.args(arguments(address, request, mode, length)?);
    // Its own variables would change what it sends; a dropped future must not leave it running.
    command.env_remove("TOKIO_WORKER_THREADS").env_remove("NO_COLOR").kill_on_drop(true);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("cannot start {}", oha.display()))?;
    let limit = length.saturating_add(BESIDE);
    let output = tokio::time::timeout(limit, child.wait_with_output()).await;
    let output = output.with_context(|| format!("oha: no end within {limit:?}"))?.context("oha")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("oha ended with {}: {}", output.status, said.trim());
    }
    let report = serde_json::from_slice::<Report>(&output.stdout).context("oha prints something unknown")?;
    report.outcome(status, mode)
}

/// Fails where it would send something else than this request.
pub fn can_send<B>(request: &hyper::Request<B>) -> anyhow::Result<()> {
    let target = target(request);
    ensure!(is_sent_as_written(target), "oha would not send the path {target:?} as it is");
    let headers = request.headers();
    ensure!(headers.len() == headers.keys_len(), "oha sends one header of a name only");
    let is_plain = |value: &hyper::header::HeaderValue| value.to_str().is_ok();
    ensure!(headers.values().all(is_plain), "oha takes headers in ASCII only");
    Ok(())
}

fn target<B>(request: &hyper::Request<B>) -> &str {
    request.uri().path_and_query().map_or("/", |target| target.as_str())
}

/// What it is told. The threads of its runtime share the load's core, so one is enough.
fn arguments<B>(
    address: SocketAddr,
    request: &hyper::Request<B>,
    mode: Mode,
    length: Duration,
) -> anyhow::Result<Vec<String>> {
    can_send(request)?;
    let mut arguments: Vec<String> =
        ["--no-tui", "--output-format", "json", "--http-version", "1.1", "--redirect", "0"]
            .map(str::to_owned)
            .into();
    // Or it would add headers that nobody asked for.
    arguments.push("--disable-compression".to_owned());
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--worker-threads", "1".to_owned());
    option("-c", CONNECTIONS.to_string());
    option("-z", format!("{}ms", length.as_millis()));
    option("-m", request.method().to_string());
    for (name, value) in request.headers() {
        option("-H", format!("{name}: {}", value.to_str()?));
    }
    if let Mode::Held(rate) = mode {
        option("-q", format!("{rate:.3}"));
        arguments.push("--latency-correction".to_owned());
    }
    // What is under way at the end is waited for, so that it is neither lost nor an error.
    arguments.push("-w".to_owned());
    arguments.push(format!("http://{address}{}", target(request)));
    Ok(arguments)
}

/// Whether a URL parser leaves a request target alone: it resolves dot segments, drops fragments, and encodes what does
/// not stand in a URL.
fn is_sent_as_written(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&()*+,;=:@/%?".contains(&byte);
    target.starts_with('/') && target.bytes().all(is_plain) && !path.split('/').any(is_dots)
}

/// What is used of what oha prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    summary: Summary,
    /// `p50` and so on, in seconds; null where there was no answer.
    latency_percentiles: BTreeMap<String, Option<f64>>,
    /// How many answers had each status.
    status_code_distribution: BTreeMap<String, u64>,
    /// How many requests had no answer, by the reason.
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct Summary {
    /// Seconds.
    total: f64,
}

impl Report {
    fn outcome(&self, status: u16, mode: Mode) -> anyhow::Result<Outcome> {
        let wanted = status.to_string();
        let others: Vec<String> = self
            .status_code_distribution
            .iter()
            .filter(|(code, _)| **code != wanted)
            .map(|(code, count)| format!("{code} ({count} times)"))
            .collect();
        ensure!(others.is_empty(), "the run is void: instead of {status} came {}", others.join(", "));
        let failed: Vec<String> =
            self.error_distribution.iter().map(|(why, count)| format!("{why} ({count} times)")).collect();
        ensure!(failed.is_empty(), "the run is void: requests without an answer: {}", failed.join(", "));
        let requests = self.status_code_distribution.get(&wanted).copied().unwrap_or_default();
        ensure!(requests > 0 && self.summary.total > 0.0, "the run is void: oha sent nothing");
        let requests_per_second = requests as f64 / self.summary.total;
        if let Mode::Held(rate) = mode {
            let held = requests_per_second >= rate * REACHED;
            ensure!(held, NotHeld { reached: requests_per_second, rate });
        }
        let microseconds = |name: &str| {
            let seconds = self.latency_percentiles.get(name).copied().flatten();
            seconds.map(|seconds| seconds * MICROSECONDS).with_context(|| format!("oha gives no {name}"))
        };
        let latency = Latency {
            p50: microseconds("p50")?,
            p90: microseconds("p90")?,
            p99: microseconds("p99")?,
            p99_9: microseconds("p99.9")?,
        };
        Ok(Outcome { requests, requests_per_second, latency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(statuses: &str, errors: &str) -> Report {
        let text = format!(
            r#"{{"summary": {{"total": 2.0, "slowest": 1}}, "metrics": {{}},
                "latencyPercentiles": {{"p10": 0.1, "p50": 0.0002, "p90": 0.0004, "p99": 0.001, "p99.9": 0.002}},
                "statusCodeDistribution": {{{statuses}}}, "errorDistribution": {{{errors}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn figures_are_those_of_answers_in_microseconds() {
        let outcome = report(r#""200": 3000"#, "").outcome(200, Mode::Held(1500.0)).unwrap();
        assert_eq!((outcome.requests, outcome.requests_per_second), (3000, 1500.0));
        let Latency { p50, p90, p99, p99_9 } = outcome.latency;
        for (found, expected) in [(p50, 200.0), (p90, 400.0), (p99, 1000.0), (p99_9, 2000.0)] {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn what_went_wrong_voids_a_run() {
        let rows = [
            (r#""200": 3000, "503": 2"#, "", Mode::Closed, "instead of 200 came 503 (2 times)"),
            (r#""401": 3000"#, "", Mode::Closed, "instead of 200 came 401 (3000 times)"),
            (
                r#""200": 3000"#,
                r#""timeout": 1"#,
                Mode::Closed,
                "requests without an answer: timeout (1 times)",
            ),
            ("", "", Mode::Closed, "oha sent nothing"),
            (
                r#""200": 3000"#,
                "",
                Mode::Held(1600.0),
                "1500 requests a second instead of the 1600 that were to be held",
            ),
        ];
        for (statuses, errors, mode, expected) in rows {
            let error = report(statuses, errors).outcome(200, mode).unwrap_err();
            assert_eq!(error.to_string(), format!("the run is void: {expected}"));
        }
    }

    #[test]
    fn percentiles_of_nothing_are_an_error() {
        let mut report = report(r#""200": 1"#, "");
        report.latency_percentiles.insert("p99".to_owned(), None);
        assert_eq!(report.outcome(200, Mode::Closed).unwrap_err().to_string(), "oha gives no p99");
    }

    #[test]
    fn a_target_is_sent_as_it_is_or_not_at_all() {
        for (target, expected) in [
            ("/", true),
            ("/a/b.c?x=1&y=%2F..", true),
            ("/a//b", true),
            ("/a/../b", false),
            ("/a/%2E%2e/b", false),
            ("/.", false),
            ("/a#b", false),
            ("/a\\b", false),
            ("/a|b", false),
            ("*", false),
        ] {
            assert_eq!(is_sent_as_written(target), expected, "{target}");
        }
    }

    #[test]
    fn a_header_that_would_be_lost_is_no_request_for_it() {
        let request = |builder: hyper::http::request::Builder| builder.body(()).unwrap();
        let get = || hyper::Request::get("/");
        assert!(can_send(&request(get().header("a", "1").header("b", "1"))).is_ok());
        assert!(can_send(&request(get().header("a", "1").header("a", "2"))).is_err());
        assert!(can_send(&request(get().header("a", "\u{e9}"))).is_err());
    }

    #[test]
    fn a_held_rate_is_corrected_for_what_it_omits() {
        let request = hyper::Request::get("/x?y=1").header("host", "a.example").body(()).unwrap();
        let told = |mode| {
            let address = "127.0.0.1:80".parse().unwrap();
            arguments(address, &request, mode, Duration::from_millis(1500)).unwrap().join(" ")
        };
        assert_eq!(
            told(Mode::Held(1234.5)),
            "--no-tui --output-format json --http-version 1.1 --redirect 0 --disable-compression --worker-threads 1 \
             -c 4 -z 1500ms -m GET -H host: a.example -q 1234.500 --latency-correction -w http://127.0.0.1:80/x?y=1"
        );
        assert!(!told(Mode::Closed).contains("-q"));
    }
}
