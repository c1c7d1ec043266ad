//! Lines of hostile requests and responses.
//!
//! The first line of an input begins with a digit which chooses the configuration; the others are of a request that is
//! over: see [`super::ended`].

use std::cell::RefCell;

use filter_api::{
    Background, Cells, Fetch, Filter, Head, HostFailed, HostMap, Level, Moment, Over, SharedValue,
};
use serde_json::{Map, Value};

use super::ended::{Ended, START};
use super::laws::{assert_counted, counted, members};
use super::secrets::{assert_none, written};
use super::setups::{self, Setup, Sink};

/// How many configurations there are.
pub const SETUPS: usize = setups::COUNT;

/// Reads an input, and checks its line. Returns what became of it.
pub fn run(input: &[u8]) -> &'static str {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next().and_then(|line| line.first()).copied().unwrap_or_default();
    let (mut ended, mut of_response) = (Ended::default(), false);
    lines.for_each(|line| ended.take(&mut of_response, line));
    check(usize::from(first.wrapping_sub(b'0')), &ended)
}

/// Checks the line of a request by the configuration at this place (any number is one). Returns what became of it.
pub fn check(setup: usize, ended: &Ended) -> &'static str {
    thread_local!(static SETUPS: Vec<Setup> = (0..setups::COUNT).map(setups::at).collect());
    SETUPS.with(|setups| of_setup(&setups[setup % setups::COUNT], ended))
}

fn of_setup(setup: &Setup, ended: &Ended) -> &'static str {
    let (line, counted) = written_by(setup, ended).unwrap();
    let members = hold(setup, ended, &line, &counted);
    assert_eq!(written_by(setup, ended).unwrap().0, line, "the same request has the same line");
    let why = members["why"].as_str().unwrap();
    match (why, members.contains_key("truncated")) {
        ("always", true) => "always, truncated",
        ("always", false) => "always",
        (_, true) => "sampled, truncated",
        (_, false) => "sampled",
    }
}

/// Holds a line to all laws, and returns its members.
pub(super) fn hold(setup: &Setup, ended: &Ended, line: &str, counted: &[&str]) -> Map<String, Value> {
    let members = members(line, setup.max_line_bytes);
    assert_counted(&members, counted);
    assert_none(&members, ended, setup);
    assert!(!line.contains("the-key-of-hashes"));
    assert_cut(&members, ended, setup);
    members
}

/// The line of a request, with the counters of it, as it comes to where the configuration sends it; none where it has
/// none, or where there is no room for it.
pub(super) fn written_by(setup: &Setup, ended: &Ended) -> Option<(String, Vec<&'static str>)> {
    let filter = setup.filter();
    let (host, facts) = (ended.host(START), ended.facts());
    let work = filter.on_log(&ended.request, &ended.response, &host, &facts);
    assert!(!work.resume);
    let counted = counted(&work);
    if !counted.iter().any(|name| name.starts_with("lines.why.")) {
        assert!(work.log.is_empty() && work.properties.is_empty(), "{work:?}");
        return None;
    }
    let line = match setup.sink {
        Sink::EnvoyLog => {
            let [line] = &work.log[..] else { panic!("{work:?}") };
            assert!(work.properties.is_empty() && line.level == Level::Info);
            line.text.clone()
        }
        Sink::AccessLog => {
            let [property] = &work.properties[..] else { panic!("{work:?}") };
            assert!(work.log.is_empty() && &*property.name == "foregate.sampled_log.line");
            String::from_utf8(property.value.as_bytes().to_vec()).unwrap()
        }
        Sink::Otlp | Sink::Ndjson => {
            assert!(work.properties.is_empty());
            if counted.contains(&"lost.reason.queue_full") {
                return None;
            }
            // As long as lines may wait.
            host.wait(60_000_000_000);
            let collector = Collector { host: &host, bodies: RefCell::default() };
            let sent = filter.on_tick(&collector);
            assert!(sent.log.is_empty(), "{sent:?}");
            of_bodies(&collector.bodies.take(), setup.sink)
        }
    };
    Some((line, counted))
}

/// The one line that was sent.
fn of_bodies(bodies: &[Vec<u8>], sink: Sink) -> String {
    let [body] = bodies else { panic!("{} bodies", bodies.len()) };
    let body = std::str::from_utf8(body).unwrap();
    if sink == Sink::Ndjson {
        return body.strip_suffix('\n').unwrap().to_owned();
    }
    let body = filter_api::json::parse(body.as_bytes(), 20).unwrap_or_else(|error| panic!("{error}: {body}"));
    let records = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
    assert_eq!(records.as_array().unwrap().len(), 1);
    let record = &records[0];
    for time in ["timeUnixNano", "observedTimeUnixNano"] {
        record[time].as_str().unwrap().parse::<u64>().unwrap();
    }
    let line = record["body"]["stringValue"].as_str().unwrap();
    let members: Map<String, Value> = serde_json::from_str(line).unwrap();
    for attribute in record["attributes"].as_array().unwrap() {
        let value = &attribute["value"];
        let said = &members[attribute["key"].as_str().unwrap()];
        let same = match said {
            Value::String(_) => value["stringValue"] == *said,
            Value::Bool(_) => value["boolValue"] == *said,
            // A whole number is a text of digits.
            _ => value["doubleValue"] == *said || value["intValue"].as_str() == Some(&said.to_string()),
        };
        assert!(same, "{attribute} {said}");
    }
    if let Some(id) = record.get("traceId") {
        assert!(
            id.as_str().is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        );
    }
    line.to_owned()
}

/// Values are cut where the configuration says, or one character before, and then it is said.
fn assert_cut(members: &Map<String, Value>, ended: &Ended, setup: &Setup) {
    let (Some(agent), Some(sent)) = (
        members.get("request_headers").and_then(|headers| headers["user-agent"].as_str()),
        ended.request.first("user-agent"),
    ) else {
        return;
    };
    if ended.request.get_all("user-agent").count() > 1 {
        return;
    }
    match sent.len() > setup.max_field_bytes {
        false => assert_eq!(agent, written(sent)),
        true => {
            let kept = agent.strip_suffix("...").unwrap();
            assert!(members.contains_key("truncated"));
            let cuts = (0..4).map(|less| written(&sent[..setup.max_field_bytes - less]));
            assert!(cuts.into_iter().any(|cut| cut == kept), "{agent}");
        }
    }
}

/// A collector that takes bodies and never answers.
struct Collector<'h> {
    host: &'h HostMap,
    bodies: RefCell<Vec<Vec<u8>>>,
}

impl Cells for Collector<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.host.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.host.share(cell, content, over)
    }
}

impl Background for Collector<'_> {
    fn moment(&self) -> Moment {
        Background::moment(self.host)
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, HostFailed> {
        self.bodies.borrow_mut().push(fetch.body.to_vec());
        Ok(1)
    }
}
