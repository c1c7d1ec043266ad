//! Writes a line for every request that failed, and for a fair sample of the rest, within a budget.
//!
//! The decision, when a request is over:
//! 1. If one of the rules of `always` holds, it is logged.
//! 2. Of the others, the first of `rules` that holds says which share is logged, else `percent_sampled` does. Which
//!    requests those are is told by their id, so every hop and every worker chooses the same ones.
//! 3. What the budget of lines does not allow is dropped, counted, and told in the next line.
//!
//! A line goes to Envoy's log, to its access logs, or to a collector in batches (`sink`).
//!
//! Entry points: [`SampledLog`] (the filter), `rule` (conditions), [`sample`] (which share, and who is in it), `budget`,
//! `line` (the JSON), `field` (what is in it), `redact`, `sink` (sending lines), [`config`] (the configuration).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod budget;
pub mod config;
pub mod counters;
mod field;
mod line;
mod redact;
mod rule;
pub mod sample;
mod sink;

use std::rc::Rc;
use std::sync::Arc;

use filter_api::config::ConfigErrors;
use filter_api::{
    Attribute, Background, Callback, Configured, Effects, Fact, Facts, Fetched, Filter, Head, HeaderValue,
    Host, Level, LogLine, OnHostFailure, Outcome, Property, Work,
};

use crate::budget::Worker;
use crate::config::Config;
use crate::line::Line;
use crate::rule::Ended;
use crate::sample::{Share, Why, number_of_id};
use crate::sink::{Heir, Outbox, Sink, Waiting};

/// The filter.
#[derive(Debug)]
pub struct SampledLog {
    config: Config,
    worker: Rc<Worker>,
    sink: Way,
    heir: Heir,
}

/// The property that a line is in on its way to an access log.
fn property_of(instance: &str) -> String {
    let dot = if instance.is_empty() { "" } else { "." };
    format!("foregate.sampled_log.line{dot}{instance}")
}

/// Where lines go, with what it takes to bring them there.
#[derive(Debug)]
enum Way {
    EnvoyLog,
    AccessLog(Arc<str>),
    Http(Rc<Outbox>),
}

impl Filter for SampledLog {
    const NAME: &'static str = "sampled_log";
    const CALLBACKS: &'static [Callback] = &[Callback::Log, Callback::Tick, Callback::HttpCallResponse];
    // It observes: it never stands in anybody's way.
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Pass;
    const COUNTERS: &'static [&'static str] = counters::COUNTERS;
    type Kept = ();

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        Self::configure_as("", json)
    }

    fn configure_as(instance: &str, json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let ((config, sink), warnings) = Config::read(json)?;
        let sink = match sink {
            Sink::EnvoyLog => Way::EnvoyLog,
            Sink::AccessLog => Way::AccessLog(property_of(instance).into()),
            Sink::Http(settings) => Way::Http(Rc::new(Outbox::new(settings))),
        };
        let filter = Self { config, worker: Worker::here(instance), sink, heir: Heir::here() };
        Ok(Configured { filter, warnings })
    }

    fn needs(&self, callback: Callback) -> bool {
        match callback {
            Callback::HttpCallResponse => self.outbox().is_some(),
            other => Self::CALLBACKS.contains(&other),
        }
    }

    fn on_request(&self, _: &impl Head, _: &impl Host, _: &Facts) -> Outcome {
        Outcome::Continue(Effects::default())
    }

    fn on_log(&self, request: &impl Head, response: &impl Head, host: &impl Host, facts: &Facts) -> Work {
        let mut work = Work::default();
        // What is not written need not be decided.
        if matches!(self.sink, Way::EnvoyLog) && !host.logs(Level::Info) {
            return work;
        }
        let ended = Ended::new(request, response, host, facts);
        let Some((why, rate)) = self.config.choose(&ended) else { return work };
        let now = host.moment().unix_nanos;
        let Some(dropped) = self.worker.spend(self.config.budget, now) else {
            work.counters.add(counters::DROPPED);
            return work;
        };
        let mut line = Line::new(self.config.max_line_bytes);
        self.config.write(&ended, &mut line);
        line.begin_end();
        line.number("sample_rate", &rate);
        line.text("why", why.label().as_bytes());
        if dropped > 0 {
            line.number("dropped", &dropped.to_string());
        }
        let (text, is_truncated) = line.finish();
        work.counters.add(why.counter());
        if is_truncated {
            work.counters.add(counters::TRUNCATED);
        }
        match &self.sink {
            Way::EnvoyLog => work.log.push(LogLine { level: Level::Info, text }),
            Way::AccessLog(name) => {
                // A line has no control characters, so it is always a value.
                let value = HeaderValue::new(text).ok();
                let property = value.map(|value| Property { name: Arc::clone(name), value });
                work.properties.extend(property);
            }
            Way::Http(outbox) => {
                let time = number(host, Attribute::StartTime).unwrap_or(now);
                let line = Waiting { text: text.into(), status: ended.status(), time, since: now };
                work.add(outbox.push(line));
            }
        }
        work
    }

    fn on_tick(&self, background: &impl Background) -> Work {
        self.heir.take_over();
        self.for_outboxes(|outbox| outbox.tick(background))
    }

    fn on_fetched(&self, fetched: Fetched<'_>, background: &impl Background) -> Work {
        self.for_outboxes(|outbox| outbox.fetched(&fetched, background))
    }

    fn on_end(&self, background: &impl Background) -> Work {
        self.heir.end(self.outbox(), background)
    }
}

impl SampledLog {
    fn outbox(&self) -> Option<&Rc<Outbox>> {
        match &self.sink {
            Way::Http(outbox) => Some(outbox),
            Way::EnvoyLog | Way::AccessLog(_) => None,
        }
    }

    /// What can be told of the sample when the request comes, for a host that has its headers at hand then. By its id alone:
    /// a trace may yet begin.
    pub fn foresee(&self, request: &impl Head) -> Option<Fact> {
        let most = self.config.most;
        let depends = !most.is_none() && most != Share::ALL;
        depends.then(|| number_of_id(request)).flatten().map(Fact::SampleNumber)
    }

    /// Does a step for its own outbox, and for those that it has taken over.
    fn for_outboxes(&self, step: impl Fn(&Outbox) -> Work) -> Work {
        let mut work = self.outbox().map_or_else(Work::default, |outbox| step(outbox));
        work.add(self.heir.for_inherited(step));
        work
    }

    /// This filter with the state of a worker of its own. In Envoy each worker has a VM; who runs several workers in one
    /// thread, as tests and tools do, tells them apart by this.
    #[must_use]
    pub fn on_its_own_worker(self) -> Self {
        Self { worker: Rc::default(), heir: Heir::default(), ..self }
    }
}

impl Why {
    fn counter(self) -> filter_api::Counter {
        match self {
            Self::Always => counters::ALWAYS,
            Self::Sampled => counters::SAMPLED,
        }
    }
}

/// An attribute that is a number.
fn number<T: Host>(host: &T, attribute: Attribute<'_>) -> Option<u64> {
    let bytes = host.attribute(attribute)?;
    u64::try_from(i64::from_le_bytes(*bytes.first_chunk::<8>()?)).ok()
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::SampledLog);

#[cfg(test)]
mod tests;
