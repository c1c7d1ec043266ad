//! The filter as a whole, natively.

mod conditions;
mod configuration;
mod headers;
mod laws;
mod paths;
mod values;

use filter_api::{CounterSet, Facts, HeadMap, HeaderOp, HostMap};
use serde_json::{Value, json};

use super::*;
use crate::counters::Skipped;

/// 1 December 2026, 08:15:43 and 14 ms.
const START: u64 = 1_796_112_943_014_000_000;

fn filter(config: &Value) -> HeaderRewrite {
    HeaderRewrite::configure(config.to_string().as_bytes())
        .unwrap_or_else(|errors| panic!("{config}\n{errors}"))
        .filter
}

fn problems(config: &Value) -> Vec<String> {
    match HeaderRewrite::configure(config.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

/// A filter with these operations for requests, or for responses.
fn on_request(operations: &Value) -> HeaderRewrite {
    filter(&json!({ "request_mutations": operations }))
}

fn on_response(operations: &Value) -> HeaderRewrite {
    filter(&json!({ "response_mutations": operations }))
}

/// What came of a message.
struct Done {
    head: HeadMap,
    operations: Vec<HeaderOp>,
    counters: CounterSet,
}

impl Done {
    /// The lines of this name, as they are then.
    fn lines(&self, name: &str) -> Vec<String> {
        self.head.get_all(name).map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    fn skipped(&self) -> Vec<Skipped> {
        Skipped::ALL.into_iter().filter(|why| self.counters.contains(why.counter())).collect()
    }
}

/// Performs operations as Envoy does.
fn performed(head: &HeadMap, operations: Vec<HeaderOp>, counters: CounterSet) -> Done {
    let mut new = head.clone();
    for operation in &operations {
        new = match operation {
            HeaderOp::Set(name, value) => new.with_only(name.as_str(), value.as_bytes()),
            HeaderOp::Add(name, value) => new.with(name.as_str(), value.as_bytes()),
            HeaderOp::Remove(name) => new.without(name.as_str()),
        };
    }
    Done { head: new, operations, counters }
}

fn host() -> HostMap {
    HostMap::at(START)
}

/// What the upstream gets of a request, and what is kept of it.
fn sent(filter: &HeaderRewrite, head: &HeadMap, host: &HostMap, facts: &Facts) -> (Done, Option<Kept>) {
    match filter.on_request(head, host, facts) {
        Outcome::Continue(Effects { headers, kept, counters, response, .. }) => {
            assert!(response.is_empty());
            (performed(head, headers, counters), kept)
        }
        other => panic!("{other:?}"),
    }
}

fn request(filter: &HeaderRewrite, head: &HeadMap) -> Done {
    sent(filter, head, &host(), &Facts::default()).0
}

/// What the client gets of a response to a request.
fn response(filter: &HeaderRewrite, request: &HeadMap, head: &HeadMap) -> Done {
    let host = host();
    let (_, kept) = sent(filter, request, &host, &Facts::default());
    match kept {
        Some(kept) => {
            let ResponseEffects { headers, counters, .. } = filter.on_response(&kept, head, &host);
            performed(head, headers, counters)
        }
        None => performed(head, Vec::new(), CounterSet::default()),
    }
}

/// A response of this status.
fn status(status: &str) -> HeadMap {
    HeadMap::default().with(":status", status).with("content-type", "text/plain")
}
