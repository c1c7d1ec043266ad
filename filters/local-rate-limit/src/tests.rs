//! The filter as a whole, natively: workers that share cells, and a clock that is a number.

use std::collections::BTreeMap;

use filter_api::{HeadMap, HeaderOp, HostMap, Level, LocalReply};
use serde_json::{Value, json};

use super::*;
use crate::bucket::SECOND;
use crate::counters::Allowed;

pub(crate) const START: u64 = 1_796_000_000 * SECOND;

/// What workers share, and the time.
pub(crate) fn new_world() -> HostMap {
    HostMap { logs: true, ..HostMap::at(START) }
}

/// A worker with this configuration.
fn start_worker(world: &HostMap, config: &Value) -> LocalRateLimit {
    let filter = filter(config).on_its_own_worker();
    filter.on_start(world);
    filter
}

fn filter(config: &Value) -> LocalRateLimit {
    LocalRateLimit::configure(config.to_string().as_bytes())
        .unwrap_or_else(|errors| panic!("{errors}"))
        .filter
}

fn warnings(config: &Value) -> Vec<String> {
    let configured = LocalRateLimit::configure(config.to_string().as_bytes()).unwrap();
    configured.warnings.iter().map(ToString::to_string).collect()
}

fn problems(config: &Value) -> Vec<String> {
    let errors = LocalRateLimit::configure(config.to_string().as_bytes()).unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

/// What a worker answers in a world.
struct Asking<'a>(&'a HostMap, &'a LocalRateLimit);

impl Asking<'_> {
    fn ask(&self, head: &HeadMap) -> Outcome {
        self.1.on_request(head, self.0, &Facts::default())
    }

    fn passes(&self, head: &HeadMap) -> bool {
        matches!(self.ask(head), Outcome::Continue(_))
    }

    /// How many of so many pass.
    fn count(&self, head: &HeadMap, times: usize) -> usize {
        (0..times).filter(|_| self.passes(head)).count()
    }

    fn refusal(&self, head: &HeadMap) -> LocalReply {
        match self.ask(head) {
            Outcome::Reply(reply, _) => reply,
            other => panic!("{other:?}"),
        }
    }
}

fn header(reply: &LocalReply, name: &str) -> Option<String> {
    let values: Vec<_> = reply.headers.iter().filter(|(own, _)| own.as_str() == name).collect();
    assert!(values.len() < 2, "{values:?}");
    values.first().map(|(_, value)| String::from_utf8(value.as_bytes().to_vec()).unwrap())
}

fn counted(outcome: &Outcome, filter: &LocalRateLimit) -> Vec<String> {
    let own = filter.own_counters();
    let names: Vec<&str> = counters::COUNTERS.iter().copied().chain(own.iter().map(String::as_str)).collect();
    let effects = outcome.effects();
    let sets = effects.counters.iter().map(|counter| names[usize::from(counter.0)].to_owned());
    let counts = effects.counts.iter().map(|(counter, by)| format!("{}={by}", names[usize::from(counter.0)]));
    sets.chain(counts).collect()
}

fn get(path: &str) -> HeadMap {
    HeadMap::get(path)
}

mod configuration;
mod descriptors;
mod enforcement;
mod scopes;
