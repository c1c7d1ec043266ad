//! Two workers that share cells, and get in each other's way; a clock that goes where it is told; calls that fail.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use filter_api::{
    Attribute, Background, CellMap, Cells, Fact, Facts, Fetch, Filter, HeadMap, Host, HostFailed,
    HostVerdict, Level, Moment, Outcome, Over, Property, SharedValue, SignatureCheck, Waiting, Work,
};
use local_rate_limit::LocalRateLimit;
use serde_json::Value;

/// When every world begins, in nanoseconds since 1970.
pub const START: u64 = 1_796_000_000_000_000_000;

/// How many workers there are.
pub const WORKERS: usize = 2;

/// A request: its head, and what a host knows of it beside that.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The head.
    pub head: HeadMap,
    /// Envoy's `source.address`.
    pub peer: Option<Vec<u8>>,
    /// Envoy's `connection.id`.
    pub connection: Option<u64>,
    /// The claim `sub`, as another module left it.
    pub subject: Option<Vec<u8>>,
    /// The claims of a token that a filter before this one verified.
    pub claims: Option<Value>,
}

impl Request {
    /// A request with this head, over a connection as they usually are, and no token.
    pub fn of(head: HeadMap) -> Self {
        let peer = Some(b"192.0.2.1:4711".to_vec());
        Self { head, peer, connection: Some(1), subject: None, claims: None }
    }

    fn facts(&self) -> Facts {
        let claims =
            |claims: &Value| Fact::Claims { provider: "main".into(), claims: Arc::new(claims.clone()) };
        Facts(self.claims.iter().map(claims).collect())
    }
}

/// A decision that was made.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) worker: usize,
    pub(crate) request: Request,
    pub(crate) outcome: Outcome,
}

/// The workers, and what is around them.
pub(crate) struct World {
    workers: [LocalRateLimit; WORKERS],
    now: Cell<u64>,
    draws: Cell<u64>,
    cells: CellMap,
    /// How many calls for cells fail from now on.
    failing: Cell<u32>,
    /// Before so many writes from now on the other worker decides about the rival.
    races: Cell<u32>,
    racing: Cell<bool>,
    rival: RefCell<Option<Request>>,
    decided: RefCell<Vec<Decided>>,
}

impl World {
    /// Starts the workers.
    pub(crate) fn new(workers: [LocalRateLimit; WORKERS]) -> Self {
        let world = Self {
            workers: workers.map(LocalRateLimit::on_its_own_worker),
            now: Cell::new(START),
            draws: Cell::new(0),
            cells: CellMap::default(),
            failing: Cell::new(0),
            races: Cell::new(0),
            racing: Cell::new(false),
            rival: RefCell::new(None),
            decided: RefCell::default(),
        };
        for worker in &world.workers {
            worker.on_start(&world);
        }
        world
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    pub(crate) fn set_clock(&self, now: u64) {
        self.now.set(now);
    }

    pub(crate) fn fail(&self, calls: u32) {
        self.failing.set(calls);
    }

    /// Before so many writes the other worker decides about this rival; without one about the same request.
    pub(crate) fn race(&self, times: u32, rival: Option<Request>) {
        self.races.set(times);
        self.rival.replace(rival);
    }

    /// Lets a worker decide. Returns what was decided meanwhile, in the order in which it was; this is the last.
    pub(crate) fn ask(&self, worker: usize, request: &Request) -> Vec<Decided> {
        self.decide(worker, request);
        self.decided.take()
    }

    pub(crate) fn tick(&self, worker: usize) -> Work {
        self.workers[worker].on_tick(self)
    }

    /// How many cells there are, and how many bytes they hold.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.cells.size()
    }

    fn decide(&self, worker: usize, request: &Request) {
        let host = Asked { world: self, worker, request, moment: self.moment() };
        let outcome = self.workers[worker].on_request(&request.head, &host, &request.facts());
        self.decided.borrow_mut().push(Decided { worker, request: request.clone(), outcome });
    }

    fn may_call(&self) -> Result<(), HostFailed> {
        match self.failing.get().checked_sub(1) {
            Some(left) => {
                self.failing.set(left);
                Err(HostFailed(12))
            }
            None => Ok(()),
        }
    }
}

impl Cells for World {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.may_call()?;
        self.cells.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.may_call()?;
        self.cells.share(cell, content, over)
    }
}

impl Background for World {
    fn moment(&self) -> Moment {
        self.draws.set(self.draws.get() + 1);
        let dice = self.draws.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Moment { unix_nanos: self.now.get(), dice: dice ^ (dice >> 29) }
    }

    fn fetch(&self, _: &Fetch<'_>) -> Result<u32, HostFailed> {
        Err(HostFailed(1))
    }
}

/// The host as one request has it.
struct Asked<'w> {
    world: &'w World,
    worker: usize,
    request: &'w Request,
    moment: Moment,
}

impl Cells for Asked<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.world.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        let world = self.world;
        if let Some(left) = world.races.get().checked_sub(1).filter(|_| !world.racing.get()) {
            world.races.set(left);
            world.racing.set(true);
            let rival = world.rival.borrow().clone();
            world.decide((self.worker + 1) % WORKERS, rival.as_ref().unwrap_or(self.request));
            world.racing.set(false);
        }
        world.share(cell, content, over)
    }
}

impl Host for Asked<'_> {
    fn moment(&self) -> Moment {
        self.moment
    }

    fn logs(&self, _: Level) -> bool {
        true
    }

    fn verify_signature(&self, _: &SignatureCheck<'_>) -> HostVerdict {
        HostVerdict::Unavailable
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        match attribute {
            Attribute::SourceAddress => self.request.peer.clone(),
            Attribute::ConnectionId => Some(self.request.connection?.to_le_bytes().to_vec()),
            Attribute::Property(name) => {
                let subject = name.strip_prefix(Property::CLAIM) == Some("sub");
                self.request.subject.clone().filter(|_| subject)
            }
            _ => None,
        }
    }

    fn waiting(&self) -> Waiting {
        Waiting::Never
    }
}
