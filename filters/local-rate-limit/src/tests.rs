//! The filter as a whole, natively: workers that share cells, and a clock that is a number.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use filter_api::{
    Attribute, CellMap, Fetch, HeadMap, HeaderOp, HostVerdict, Level, LocalReply, SharedValue,
    SignatureCheck, Waiting,
};
use serde_json::{Value, json};

use super::*;
use crate::bucket::SECOND;
use crate::counters::Allowed;

pub(crate) const START: u64 = 1_796_000_000 * SECOND;

/// What workers share, and the time.
pub(crate) struct World {
    pub(crate) now: Cell<u64>,
    pub(crate) dice: Cell<u64>,
    pub(crate) cells: CellMap,
    properties: RefCell<BTreeMap<String, Vec<u8>>>,
    peer: RefCell<String>,
    connection: Cell<u64>,
    /// Whether shared data is forbidden.
    forbidden: Cell<bool>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            now: Cell::new(START),
            dice: Cell::new(1),
            cells: CellMap::default(),
            properties: RefCell::default(),
            peer: RefCell::new("192.0.2.1:4711".to_owned()),
            connection: Cell::new(1),
            forbidden: Cell::new(false),
        }
    }

    pub(crate) fn wait(&self, nanos: u64) {
        self.now.set(self.now.get() + nanos);
    }

    pub(crate) fn peer(&self, peer: &str) {
        peer.clone_into(&mut self.peer.borrow_mut());
    }

    /// A host as a request has it.
    pub(crate) fn asked(&self) -> AskedWorld<'_> {
        AskedWorld(self)
    }

    /// A worker with this configuration.
    fn worker(&self, config: &Value) -> LocalRateLimit {
        let filter = filter(config).on_its_own_worker();
        filter.on_start(self);
        filter
    }
}

pub(crate) struct AskedWorld<'w>(&'w World);

impl Cells for World {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        if self.forbidden.get() { Err(HostFailed(12)) } else { self.cells.shared(cell) }
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        if self.forbidden.get() { Err(HostFailed(12)) } else { self.cells.share(cell, content, over) }
    }
}

impl Cells for AskedWorld<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.0.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.0.share(cell, content, over)
    }
}

impl Background for World {
    fn moment(&self) -> Moment {
        self.dice.set(self.dice.get().wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
        Moment { unix_nanos: self.now.get(), dice: self.dice.get() }
    }

    fn fetch(&self, _: &Fetch<'_>) -> Result<u32, HostFailed> {
        Err(HostFailed(1))
    }
}

impl Host for AskedWorld<'_> {
    fn moment(&self) -> Moment {
        Moment { unix_nanos: self.0.now.get(), dice: self.0.dice.get() }
    }

    fn logs(&self, _: Level) -> bool {
        true
    }

    fn verify_signature(&self, _: &SignatureCheck<'_>) -> HostVerdict {
        HostVerdict::Unavailable
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        match attribute {
            Attribute::SourceAddress => Some(self.0.peer.borrow().clone().into_bytes()),
            Attribute::ConnectionId => Some(self.0.connection.get().to_le_bytes().to_vec()),
            Attribute::Property(name) => self.0.properties.borrow().get(name).cloned(),
        }
    }

    fn waiting(&self) -> Waiting {
        Waiting::Never
    }
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
struct Asking<'a>(&'a World, &'a LocalRateLimit);

impl Asking<'_> {
    fn ask(&self, head: &HeadMap) -> Outcome {
        self.1.on_request(head, &self.0.asked(), &Facts::default())
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

mod descriptors;
mod enforcement;
mod scopes;
