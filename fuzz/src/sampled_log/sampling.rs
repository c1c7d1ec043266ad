//! Which requests have a line: rules, shares, ids, and a budget of lines at whatever time, held against a plain reading
//! of the configuration (`oracle`).
//!
//! The first line of an input begins with a digit which chooses the configuration. Each further line is of a request
//! that is over (see [`super::ended`]), or a step:
//!
//! | step | what happens |
//! |---|---|
//! | `@ask: 20` | it is decided about the request as it now is, 20 times |
//! | `@new: ` | the next lines are of a new request |
//! | `@forward: 1500`, `@back: 1500` | the clock goes by so many milliseconds; with `ns` at the end, nanoseconds |

use filter_api::{Facts, Filter, Head, HeadMap, HostMap, Work};
use sampled_log::SampledLog;
use serde_json::{Value, json};

use super::ended::{Ended, START};
use super::laws::{assert_counted, counted, members};
use super::oracle::{self, Chosen, SECOND};

/// The most decisions that an input may ask for.
const MOST_ASKED: usize = 60;

/// The latest that it can be: well before a clock of 64 bits ends, in the year 2116.
const LATEST: u64 = 1 << 62;

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// It is decided about a request, so many times.
    Ask(usize, Box<Ended>),
    /// The clock goes forward by so many nanoseconds.
    Forward(u64),
    /// The clock is put back by so many nanoseconds.
    Back(u64),
}

/// Reads an input, and checks all decisions. Returns what became of the last.
pub fn run(input: &[u8]) -> &'static str {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next().and_then(|line| line.first()).copied().unwrap_or_default();
    let (mut ended, mut of_response) = (Ended::default(), false);
    let mut steps = Vec::new();
    for line in lines {
        let step = |name: &[u8]| {
            let value = line.strip_prefix(name)?.strip_prefix(b": ")?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        if let Some(times) = step(b"@ask") {
            steps.push(Step::Ask(times.parse().unwrap_or(1), Box::new(ended.clone())));
        } else if step(b"@new").is_some() {
            (ended, of_response) = (Ended::default(), false);
        } else if let Some(time) = step(b"@forward") {
            steps.push(Step::Forward(nanos(&time)));
        } else if let Some(time) = step(b"@back") {
            steps.push(Step::Back(nanos(&time)));
        } else {
            ended.take(&mut of_response, line);
        }
    }
    check(usize::from(first.wrapping_sub(b'0')), &steps)
}

/// `1500` milliseconds, `1500ns`.
fn nanos(text: &str) -> u64 {
    match text.strip_suffix("ns") {
        Some(nanos) => nanos.parse().unwrap_or(1),
        None => text.parse::<u64>().unwrap_or(1).saturating_mul(1_000_000),
    }
}

/// Takes the steps, by the configuration at this place (any number is one), and panics where a law is broken. Returns
/// what became of the last request.
pub fn check(setup: usize, steps: &[Step]) -> &'static str {
    thread_local!(static LADDER: Vec<(u64, SampledLog)> = ladder());
    let config = CONFIGURATIONS[setup % SETUPS]();
    let mut run = Run::new(&config);
    let mut way = "nothing";
    let mut asked = 0;
    for step in steps {
        match step {
            Step::Ask(times, ended) => {
                for _ in 0..(*times).min(MOST_ASKED - asked) {
                    asked += 1;
                    way = run.ask(ended);
                }
                LADDER.with(|ladder| hold_to_ladder(ladder, ended));
            }
            Step::Forward(nanos) => {
                let nanos = (*nanos).min(LATEST.saturating_sub(run.now));
                run.now += nanos;
                run.forward += u128::from(nanos);
            }
            Step::Back(nanos) => {
                run.now = run.now.saturating_sub(*nanos);
                run.put_back = true;
            }
        }
    }
    way
}

/// A filter, and what is known of its budget.
struct Run<'c> {
    config: &'c Value,
    filter: SampledLog,
    /// Lines that flow in each second, and at most at once; none without a budget.
    budget: Option<(u128, u128)>,
    now: u64,
    /// How far the clock has gone forward, in nanoseconds, however often it was put back.
    forward: u128,
    put_back: bool,
    /// When lines were written, by `forward`.
    written: Vec<u128>,
    /// What the bucket holds, in nanoseconds, and when that was.
    level: u128,
    at: u128,
    /// Lines dropped since the last one.
    dropped: u64,
}

impl<'c> Run<'c> {
    fn new(config: &'c Value) -> Self {
        let said = &config["max_lines_per_second"];
        let number = |value: &Value| value.as_u64().map(u128::from);
        let budget = match said {
            Value::String(_) => None,
            Value::Object(_) => {
                let lines = number(&said["lines"]).unwrap();
                Some((lines, number(&said["burst"]).unwrap_or(lines)))
            }
            _ => Some([number(said).unwrap_or(1000); 2].into()),
        };
        let level = budget.map_or(0, |(lines, burst)| burst * each(lines));
        Self {
            config,
            filter: filter(config),
            budget,
            now: START,
            forward: 0,
            put_back: false,
            written: Vec::new(),
            level,
            at: 0,
            dropped: 0,
        }
    }

    /// Lets the filter decide, holds that to the laws, and returns what became of it.
    fn ask(&mut self, ended: &Ended) -> &'static str {
        let work = self.filter.on_log(&ended.request, &ended.response, &ended.host(self.now), &ended.facts());
        let counted = counted(&work);
        let chosen = oracle::choose(self.config, ended);
        let may_write = self.refill();
        if counted.contains(&"dropped") {
            assert!(work.log.is_empty() && counted.len() == 1, "{work:?}");
            assert_ne!(chosen, Chosen::No, "{ended:?}");
            assert!(self.budget.is_some() && may_write != Some(true), "dropped although there was room");
            self.dropped += 1;
            return "dropped";
        }
        let [line] = &work.log[..] else {
            assert_eq!(work, Work::default());
            assert!(matches!(chosen, Chosen::No | Chosen::Unknown), "{chosen:?}, but no line: {ended:?}");
            return "no line";
        };
        let members = members(&line.text, 8192);
        assert_counted(&members, &counted);
        assert_ne!(may_write, Some(false), "a line for which there was no room");
        let rate = members["sample_rate"].as_f64().unwrap();
        match chosen {
            Chosen::No => panic!("a line of what has none: {ended:?}"),
            Chosen::Always => assert_eq!(members["why"], "always"),
            Chosen::Sampled(share) => {
                assert_eq!(members["why"], "sampled");
                // The nearest to the same decimal fraction.
                assert!((rate - share as f64 / 1e12).abs() < f64::EPSILON * rate, "{rate} is not {share}");
            }
            Chosen::Unknown => {}
        }
        assert_eq!(members.get("dropped").map_or(Some(0), Value::as_u64), Some(self.dropped));
        self.spend();
        match (std::mem::take(&mut self.dropped), chosen) {
            (0, Chosen::Always) => "always",
            (0, Chosen::Sampled(_)) => "sampled",
            (0, _) => "by its path",
            _ => "told what was dropped",
        }
    }

    /// Whether there is room for a line; none where that is not known any more.
    fn refill(&mut self) -> Option<bool> {
        let (lines, burst) = self.budget?;
        self.level = (burst * each(lines)).min(self.level + self.forward - self.at);
        self.at = self.forward;
        (!self.put_back).then_some(self.level >= each(lines))
    }

    /// Notes a line. In no span of time are there more than the budget allows.
    fn spend(&mut self) {
        let Some((lines, burst)) = self.budget else { return };
        self.level = self.level.saturating_sub(each(lines));
        self.written.push(self.forward);
        for (place, begin) in self.written.iter().enumerate() {
            let count = self.written.len() - place;
            let most = burst + (self.forward - begin) * lines / SECOND;
            assert!(count as u128 <= most, "{count} lines where {most} are allowed");
        }
    }
}

/// The whole nanoseconds in which there is room for one more line.
fn each(lines: u128) -> u128 {
    SECOND.div_ceil(lines)
}

fn filter(config: &Value) -> SampledLog {
    let configured = SampledLog::configure(config.to_string().as_bytes());
    configured.unwrap_or_else(|errors| panic!("{errors}")).filter.on_its_own_worker()
}

/// Filters that have nothing but a share, of so many of a million, rising.
fn ladder() -> Vec<(u64, SampledLog)> {
    let of_share = |share: u64| {
        let percent = json!({ "numerator": share, "denominator": "MILLION" });
        let config = json!({ "always": [], "percent_sampled": percent, "max_lines_per_second": "unlimited" });
        (share, filter(&config))
    };
    [0, 1, 1000, 10_000, 100_000, 125_000, 333_333, 500_000, 900_000, 999_999, 1_000_000].map(of_share).into()
}

/// Who is in a share is in every larger one, whatever became of the request, on this hop and on others: what it is known by
/// is all that counts.
fn hold_to_ladder(ladder: &[(u64, SampledLog)], ended: &Ended) {
    let has_line = |filter: &SampledLog, request: &HeadMap, host: &HostMap| {
        !filter.on_log(request, &ended.response, host, &Facts::default()).log.is_empty()
    };
    let chosen = |request: &HeadMap, host: &HostMap| -> Vec<bool> {
        ladder.iter().map(|(_, filter)| has_line(filter, request, host)).collect()
    };
    let here = chosen(&ended.request, &ended.host(START));
    let number = oracle::number(ended);
    let expected: Vec<bool> = ladder.iter().map(|(share, _)| oracle::has(*share, number)).collect();
    assert_eq!(here, expected, "{ended:?}");
    assert!(here.is_sorted(), "{here:?}");
    if oracle::of_head(&ended.request).is_none() {
        return;
    }
    let elsewhere = Ended { dice: !ended.dice, ..Ended::default() };
    let of_others = |mut request: HeadMap| {
        for name in ["x-request-id", "traceparent"] {
            request = ended.request.get_all(name).fold(request, |head, value| head.with(name, value));
        }
        request
    };
    let there = of_others(HeadMap::get("/elsewhere").with_only(":method", "PUT"));
    assert_eq!(chosen(&there, &elsewhere.host(START + 1)), here, "{ended:?}");
    // Envoy writes into an id whether it is traced.
    if let Some(id) = ended.request.first("x-request-id").filter(|id| oracle::is_uuid(id)) {
        let mut traced = id.to_ascii_uppercase();
        traced[14] = b'9';
        let traced = HeadMap::get("/").with("x-request-id", traced);
        assert_eq!(chosen(&traced, &elsewhere.host(START)), here, "{ended:?}");
    }
}

/// How many configurations there are.
pub const SETUPS: usize = 8;

const CONFIGURATIONS: [fn() -> Value; SETUPS] =
    [|| json!({}), rules, conditions, all_of_them, shares, one_line, odd_budget, paths];

/// The first rule that holds counts; requests go by the digits of their ids.
fn rules() -> Value {
    json!({
        "always": [],
        "percent_sampled": 50,
        "rules": [
            { "match": { "method": "POST" }, "percent_sampled": 100 },
            { "status": "4xx", "percent_sampled": 0 },
            { "match": { "headers": [{ "name": "x-debug" }] }, "percent_sampled": 99.9999 },
            { "status": [302, "303", "500-599"], "percent_sampled": 12.5 },
        ],
        "max_lines_per_second": "unlimited",
    })
}

/// Every condition alone.
fn conditions() -> Value {
    json!({
        "always": [
            { "status": [0, "418"] },
            { "duration": "0.25s" },
            { "response_flags": ["UF", "DC"] },
            { "grpc_status": "any_error" },
            { "refused": ["local_rate_limit", "header_rewrite"] },
            { "match": { "method": "DELETE" } },
        ],
        "percent_sampled": 0,
        "rules": [{ "refused": "jwt_reject", "percent_sampled": 100 }],
        "max_lines_per_second": 20,
    })
}

/// Conditions that must all hold.
fn all_of_them() -> Value {
    json!({
        "always": [
            { "status": "5xx", "duration": "1s", "response_flags": "UT" },
            { "status": "2xx", "grpc_status": [4, 14], "match": { "method": "POST", "headers": [{ "name": "x-debug" }] } },
            { "refused": "any", "response_flags": ["RL", "NR", "UH"] },
        ],
        "percent_sampled": { "default_value": { "numerator": 25 }, "runtime_key": "none" },
        "max_lines_per_second": { "lines": 10, "burst": 3 },
    })
}

/// Shares of what Envoy has let through.
fn shares() -> Value {
    json!({
        "percent_sampled": { "numerator": 3333, "denominator": "TEN_THOUSAND" },
        "percent_sampled_before": 0.0003,
        "rules": [
            { "status": 404, "percent_sampled": { "numerator": 999_999, "denominator": "MILLION" } },
            { "status": 403, "percent_sampled": 100 },
        ],
        "max_lines_per_second": { "lines": 1000, "burst": 5 },
    })
}

fn one_line() -> Value {
    json!({ "always": [{ "status": "100-599" }], "percent_sampled": 50, "max_lines_per_second": 1 })
}

/// A budget whose lines are no whole number of nanoseconds apart.
fn odd_budget() -> Value {
    json!({ "percent_sampled": 100, "max_lines_per_second": { "lines": 666_667, "burst": 2 } })
}

/// By path, where that can be read in one way alone.
fn paths() -> Value {
    json!({
        "always": [{ "match": { "prefix": "/checkout" }, "status": "3xx" }],
        "percent_sampled": 10,
        "rules": [
            { "match": { "prefix": "/health" }, "percent_sampled": 0 },
            { "match": { "prefix": "/a" }, "percent_sampled": 100 },
        ],
        "max_lines_per_second": { "lines": 100, "burst": 4 },
    })
}
