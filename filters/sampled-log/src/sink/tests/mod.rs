//! The sink without Envoy: time is a number, and the collector answers what it is told to.

mod courses;
mod ending;
mod formats;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use filter_api::{
    Background, Cells, Fetch, Fetched, Filter, HostFailed, Moment, Over, Response, SharedValue, Work,
};
use serde_json::{Value, json};

use super::*;
use crate::{SampledLog, counters};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_796_000_000 * SECOND;

/// The host: what was sent and is not answered.
struct World {
    now: Cell<u64>,
    dice: Cell<u64>,
    open: RefCell<Vec<(u32, Vec<u8>)>>,
    started: Cell<u32>,
    knows_the_cluster: Cell<bool>,
    takes_several: Cell<bool>,
    counted: RefCell<BTreeMap<&'static str, u64>>,
    log: RefCell<Vec<String>>,
    soon: Cell<bool>,
}

impl World {
    fn new() -> Self {
        Self {
            now: Cell::new(START),
            dice: Cell::new(0),
            open: RefCell::default(),
            started: Cell::new(0),
            knows_the_cluster: Cell::new(true),
            takes_several: Cell::new(false),
            counted: RefCell::default(),
            log: RefCell::default(),
            soon: Cell::new(false),
        }
    }

    fn wait(&self, nanos: u64) {
        self.now.set(self.now.get() + nanos);
    }

    fn take(&self, work: Work) {
        let mut counted = self.counted.borrow_mut();
        let mut add = |counter: filter_api::Counter, by: u32| {
            *counted.entry(counters::COUNTERS[usize::from(counter.0)]).or_default() += u64::from(by);
        };
        work.counters.iter().for_each(|counter| add(counter, 1));
        work.counts.iter().for_each(|(counter, by)| add(*counter, *by));
        self.log.borrow_mut().extend(work.log.into_iter().map(|line| line.text));
        self.soon.set(work.soon);
    }

    fn count(&self, name: &str) -> u64 {
        self.counted.borrow().get(name).copied().unwrap_or(0)
    }

    fn lost(&self) -> u64 {
        ["queue_full", "gave_up", "refused", "ended"]
            .iter()
            .map(|reason| self.count(&format!("lost.reason.{reason}")))
            .sum()
    }

    fn push(&self, outbox: &Outbox, text: &str) {
        let now = self.now.get();
        self.take(outbox.push(Waiting { text: text.into(), status: 200, time: now, since: now }));
    }

    fn tick(&self, outbox: &Outbox) {
        self.take(outbox.tick(self));
    }

    /// Answers the only batch under way, and returns its body.
    fn answer(&self, outbox: &Outbox, answer: Option<&Answer>) -> String {
        let [(number, body)] = self.open.take().try_into().unwrap();
        let response = answer.map(|answer| answer as &dyn Response);
        self.take(outbox.fetched(&Fetched { number, response }, self));
        String::from_utf8(body).unwrap()
    }

    /// How long it takes until a batch is sent, in milliseconds, looking as often as the host would.
    fn until_sent(&self, outbox: &Outbox) -> u64 {
        self.until(|| !self.open.borrow().is_empty(), || self.tick(outbox))
    }

    /// How long it takes until something is so, in milliseconds, with ticks as often as the host would.
    fn until(&self, is_so: impl Fn() -> bool, tick: impl Fn()) -> u64 {
        let begun = self.now.get();
        while !is_so() {
            assert!(self.now.get() - begun < 100 * SECOND, "nothing comes of it");
            self.wait(if self.soon.get() { SECOND / 50 } else { SECOND });
            tick();
        }
        (self.now.get() - begun) / 1_000_000
    }

    /// Breaks off what is under way, as the host does with calls of a configuration that ends, and gives the bodies.
    fn break_off(&self) -> Vec<String> {
        let open = self.open.take();
        open.into_iter().map(|(_, body)| String::from_utf8(body).unwrap()).collect()
    }
}

impl Cells for World {
    fn shared(&self, _: &str) -> Result<Option<SharedValue>, HostFailed> {
        panic!("nothing is shared")
    }

    fn share(&self, _: &str, _: &[u8], _: Over) -> Result<bool, HostFailed> {
        panic!("nothing is shared")
    }
}

impl Background for World {
    fn moment(&self) -> Moment {
        Moment { unix_nanos: self.now.get(), dice: self.dice.get() }
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, HostFailed> {
        assert!(self.open.borrow().is_empty() || self.takes_several.get(), "two batches at a time");
        assert_eq!((fetch.cluster, fetch.timeout_millis), ("collector", 2000));
        if !self.knows_the_cluster.get() {
            return Err(HostFailed(2));
        }
        self.started.set(self.started.get() + 1);
        self.open.borrow_mut().push((self.started.get(), fetch.body.to_vec()));
        Ok(self.started.get())
    }
}

/// A response: header lines and body.
struct Answer(Vec<(&'static str, String)>, Vec<u8>);

impl Answer {
    fn status(status: u16) -> Self {
        Self(vec![(":status", status.to_string())], Vec::new())
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, value.to_owned()));
        self
    }
}

impl Response for Answer {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone().into_bytes())
    }

    fn body_length(&self) -> usize {
        self.1.len()
    }

    fn body(&self) -> Option<Vec<u8>> {
        Some(self.1.clone())
    }
}

fn settings(members: Value) -> settings::Settings {
    let mut http = json!({ "cluster": "collector" });
    http.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let config = json!({ "sink": { "http": http } }).to_string();
    let Sink::Http(settings) = crate::config::Config::read(config.as_bytes()).unwrap().0.1 else {
        panic!("another sink")
    };
    settings
}

fn outbox(members: Value) -> Outbox {
    Outbox::new(settings(members))
}

fn lines_outbox(mut members: Value) -> Outbox {
    members["format"] = "NDJSON".into();
    outbox(members)
}
