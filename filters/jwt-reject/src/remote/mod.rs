//! Keys that are fetched, through a cluster of Envoy's.
//!
//! Every worker runs this; they share two cells, one with what is known of the set ([`State`]), one with the
//! set itself.
//! 1. At every tick a worker reads the first cell. Another version of the set than its own: it takes that in.
//! 2. A fetch is due: the worker takes the lease (by compare-and-swap, so that one of them has it) and
//!    fetches. The others wait for what it publishes; should it never come back, the lease runs out.
//! 3. A response with a usable set is published, and every worker takes it in at its next tick. Anything else
//!    changes nothing but when the next try is due: what was fetched before serves on, until it is older
//!    than `stale_if_error` allows.
//! 4. A token that names a key which is not in the set makes a fetch due, unless the last is not yet
//!    `min_refetch_interval` ago. Its request waits meanwhile.
//!
//! Requests never fetch and never read a cell: they see what the last tick took in.

mod freshness;
mod published;
mod settings;
mod state;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use filter_api::{
    Background, Cells, Fetch, Fetched, Filter, HostFailed, Level, Moment, Over, Response, SharedValue, Work,
};

use self::published::Published;
pub use self::settings::{Settings, Url};
use self::state::{State, lease_from};
use crate::JwtReject;
use crate::keys::KeySet;
use crate::reason::FetchResult;

/// How often publishing is tried again when another worker writes at the same time.
const TRIES: u8 = 8;

/// The most characters of a complaint about a response that go into a log line.
const MOST_COMPLAINT: usize = 300;

/// A remote set of keys, as one worker has it.
#[derive(Debug)]
pub struct Remote {
    settings: Settings,
    state_cell: String,
    keys_cell: String,
    /// What was in the state's cell when it was last looked at.
    state: Cell<State>,
    /// The set taken in.
    keys: RefCell<Option<Rc<KeySet>>>,
    /// Its `ETag`.
    etag: RefCell<Option<Vec<u8>>>,
    /// The version of that set; 0 for none.
    loaded: Cell<u64>,
    /// The fetch under way in this worker: the host's number, and the lease's holder.
    fetching: Cell<Option<(u32, u64)>>,
    /// Whether a request asked for a key that is not in the set.
    asked: Cell<bool>,
}

/// Why a fetch brought no keys.
struct Failure {
    result: FetchResult,
    complaint: String,
}

/// What a fetch brought.
enum Brought {
    /// What was published is still right.
    NotModified,
    /// A set.
    Keys(Published),
}

impl Remote {
    /// A set that nothing is known of yet.
    pub fn new(settings: Settings) -> Self {
        let identity = settings.identity();
        Self {
            state_cell: format!("foregate.jwt_reject.jwks.state.{identity}"),
            keys_cell: format!("foregate.jwt_reject.jwks.keys.{identity}"),
            settings,
            state: Cell::default(),
            keys: RefCell::default(),
            etag: RefCell::default(),
            loaded: Cell::default(),
            fetching: Cell::default(),
            asked: Cell::default(),
        }
    }

    /// The keys, where there are any.
    pub fn keys(&self) -> Option<Rc<KeySet>> {
        self.keys.borrow().clone()
    }

    /// The version of the keys taken in: another number, other keys.
    pub(crate) fn version(&self) -> u64 {
        self.loaded.get()
    }

    /// How long a request may wait for keys, in nanoseconds.
    pub(crate) fn patience(&self) -> u64 {
        self.settings.wait_for_keys
    }

    /// A request has to do with a key that is not there. Returns whether it may come soon.
    pub(crate) fn ask(&self, now: u64) -> bool {
        if self.loaded.get() == 0 {
            return true;
        }
        let state = self.state.get();
        let coming = self.asked.get()
            || state.is_leased(now, self.settings.timeout)
            || now.saturating_sub(state.attempted) >= self.settings.min_refetch_interval;
        self.asked.set(coming);
        coming
    }

    /// The first step: makes the cells, or takes in what was published to an earlier configuration.
    pub(crate) fn start(&self, background: &impl Background) -> Work {
        let mut work = Work { soon: true, ..Work::default() };
        match shared(background, &self.state_cell) {
            Some(cell) => {
                self.take_in(State::decode(&cell.bytes), background.moment(), background, &mut work)
            }
            None => {
                if !share(background, &self.state_cell, &State::default().encode(), Over::Anything) {
                    self.log(
                        &mut work,
                        Level::Error,
                        "the host refuses shared data, without which no keys can be fetched; allow \
                         proxy_get_shared_data and proxy_set_shared_data",
                    );
                }
            }
        }
        work
    }

    /// A tick's step.
    pub(crate) fn tick(&self, background: &impl Background) -> Work {
        let mut work = Work::default();
        let moment = background.moment();
        let now = moment.unix_nanos;
        if now == u64::MAX {
            // There is no clock, and without one no token passes: nothing is worth fetching.
            return work;
        }
        let Some(cell) = shared(background, &self.state_cell) else {
            // What removed it we cannot know; it must be there before anyone may take a lease.
            let _ = share(background, &self.state_cell, &State::default().encode(), Over::Nothing);
            return work;
        };
        let state = State::decode(&cell.bytes);
        let was_leased = self.state.get().lease != 0;
        self.take_in(state, moment, background, &mut work);
        let Settings { timeout, min_refetch_interval, .. } = self.settings;
        if state.is_leased(now, timeout) {
            return work;
        }
        let asked = self.asked.get() && now.saturating_sub(state.attempted) >= min_refetch_interval;
        if state.is_due(now, self.settings.horizon()) || asked {
            self.fetch(state, cell.version, moment, background, &mut work);
        } else if self.asked.replace(false) || was_leased {
            // It was fetched elsewhere; who waits should look at what came of it.
            work.resume = true;
        }
        work
    }

    /// What became of a fetch, if it is this one's.
    pub(crate) fn fetched(&self, fetched: &Fetched<'_>, background: &impl Background) -> Option<Work> {
        let (number, holder) = self.fetching.get()?;
        if number != fetched.number {
            return None;
        }
        self.fetching.set(None);
        self.asked.set(false);
        let mut work = Work { resume: true, ..Work::default() };
        let brought = self.brought(fetched.response, background);
        let lifetime = fetched.response.map_or(self.settings.cache_duration, |it| self.lifetime(it));
        self.settle(brought, lifetime, holder, background, &mut work);
        Some(work)
    }

    /// Takes the lease, and starts a fetch.
    fn fetch(
        &self,
        state: State,
        cell_version: u32,
        moment: Moment,
        background: &impl Background,
        work: &mut Work,
    ) {
        let (now, holder) = (moment.unix_nanos, moment.dice);
        let leased = State { lease: lease_from(now, self.settings.timeout), holder, attempted: now, ..state };
        if !share(background, &self.state_cell, &leased.encode(), Over::Version(cell_version)) {
            // Another worker was first.
            return;
        }
        self.asked.set(false);
        self.state.set(leased);
        let current = self.loaded.get() != 0 && self.loaded.get() == state.version;
        let headers = self.settings.headers(self.etag.borrow().as_deref().filter(|_| current));
        let timeout_millis = u32::try_from(self.settings.timeout / 1_000_000).unwrap_or(u32::MAX).max(1);
        let cluster = &self.settings.cluster;
        let started = background.fetch(&Fetch { cluster, headers: &headers, body: b"", timeout_millis });
        match started {
            Ok(number) => self.fetching.set(Some((number, holder))),
            Err(HostFailed(status)) => {
                let complaint = format!(
                    "the host does not start it (status {status}): is there a cluster {cluster:?}, and \
                     proxy_http_call allowed?"
                );
                let failure = Failure { result: FetchResult::NoResponse, complaint };
                self.settle(Err(failure), 0, holder, background, work);
                work.resume = true;
            }
        }
    }

    /// What a response holds.
    fn brought(
        &self,
        response: Option<&dyn Response>,
        background: &impl Background,
    ) -> Result<Brought, Failure> {
        let failure = |result, complaint: String| Failure { result, complaint };
        let response =
            response.ok_or_else(|| failure(FetchResult::NoResponse, "the response broke off".to_owned()))?;
        let status = response.header(":status").unwrap_or_default();
        match status.as_slice() {
            b"200" => {}
            b"304" if self.loaded.get() != 0 => return Ok(Brought::NotModified),
            other => {
                let complaint = format!("the response has status {}", String::from_utf8_lossy(other));
                return Err(failure(FetchResult::BadStatus, complaint));
            }
        }
        let (length, most) = (response.body_length(), self.settings.max_body_bytes);
        if length > most {
            let complaint = format!("the response has {length} bytes; the most is {most}");
            return Err(failure(FetchResult::TooLarge, complaint));
        }
        let body = response.body().unwrap_or_default();
        let published = Published { etag: response.header("etag").filter(|etag| etag.len() <= 256), body };
        match self.settings.parse(&published.body) {
            Ok(_) => {}
            Err(complaint) => return Err(failure(FetchResult::Unusable, complaint)),
        }
        let old = shared(background, &self.keys_cell);
        let old = old.as_ref().and_then(|cell| Published::decode(&cell.bytes));
        match old {
            // The same again: no worker need forget what it knows of tokens.
            Some((version, old)) if version == self.loaded.get() && old == published => {
                Ok(Brought::NotModified)
            }
            _ => Ok(Brought::Keys(published)),
        }
    }

    /// For how long the response is fresh, within our bounds.
    fn lifetime(&self, response: &dyn Response) -> u64 {
        let most = self.settings.cache_duration;
        let cache_control = response.header("cache-control");
        let seconds = freshness::max_age(cache_control.as_deref(), response.header("age").as_deref());
        let least = self.settings.min_refetch_interval.min(most);
        seconds.map_or(most, |seconds| seconds.saturating_mul(1_000_000_000).clamp(least, most))
    }

    /// Publishes what a fetch brought, or that it failed, and gives the lease back.
    fn settle(
        &self,
        brought: Result<Brought, Failure>,
        lifetime: u64,
        holder: u64,
        background: &impl Background,
        work: &mut Work,
    ) {
        let moment = background.moment();
        let now = moment.unix_nanos;
        work.counters.add(
            match &brought {
                Ok(Brought::Keys(_)) => FetchResult::NewKeys,
                Ok(Brought::NotModified) => FetchResult::NotModified,
                Err(failure) => failure.result,
            }
            .counter(),
        );
        for _ in 0..TRIES {
            let Some(cell) = shared(background, &self.state_cell) else { return };
            let state = State::decode(&cell.bytes);
            if state.holder != holder {
                // The lease had run out, and another worker has it: what it brings is newer.
                return;
            }
            let settled = State { lease: 0, ..state };
            let settled = match &brought {
                Ok(kept_or_new) => {
                    let version = match kept_or_new {
                        Brought::Keys(_) => state.version.saturating_add(1),
                        Brought::NotModified => state.version,
                    };
                    if let Brought::Keys(published) = kept_or_new
                        && !share(background, &self.keys_cell, &published.encode(version), Over::Anything)
                    {
                        self.log(work, Level::Error, "the host refuses to share the keys");
                        return;
                    }
                    let early = jitter(lifetime / 10, moment.dice);
                    let fresh_until = now.saturating_add(lifetime);
                    let next = fresh_until.saturating_sub(early);
                    State { version, fresh_until, next, failures: 0, ..settled }
                }
                Err(_) => {
                    let failures = state.failures.saturating_add(1);
                    let delay = self.settings.retry_delay(failures);
                    let next = now.saturating_add(delay).saturating_sub(jitter(delay / 4, moment.dice));
                    State { next, failures, ..settled }
                }
            };
            if share(background, &self.state_cell, &settled.encode(), Over::Version(cell.version)) {
                if let Err(failure) = &brought
                    // Not a line each second for as long as the server is down.
                    && settled.failures.is_power_of_two()
                {
                    let complaint: String = failure.complaint.chars().take(MOST_COMPLAINT).collect();
                    let text = format!("fetching failed ({} in a row): {complaint}", settled.failures);
                    self.log(work, Level::Warn, &text);
                }
                self.take_in(settled, moment, background, work);
                return;
            }
        }
    }

    /// Takes in what the cells hold, if it is other than what this worker has; drops what is too old.
    fn take_in(&self, state: State, moment: Moment, background: &impl Background, work: &mut Work) {
        self.state.set(state);
        let last = state.fresh_until.saturating_add(self.settings.stale_if_error);
        if state.version == 0 || moment.unix_nanos > last {
            if self.loaded.replace(0) != 0 {
                *self.keys.borrow_mut() = None;
                self.log(work, Level::Error, "the keys are too old to be used, and no newer ones can be had");
            }
            return;
        }
        if state.version == self.loaded.get() {
            return;
        }
        let cell = shared(background, &self.keys_cell);
        let Some((version, published)) = cell.as_ref().and_then(|cell| Published::decode(&cell.bytes)) else {
            return;
        };
        if version != state.version {
            // Just being written, by whoever will write the state next.
            return;
        }
        if let Ok((keys, skipped)) = self.settings.parse(&published.body) {
            for key in skipped.iter().take(3) {
                let text: String =
                    format!("{key}; the key is passed over").chars().take(MOST_COMPLAINT).collect();
                self.log(work, Level::Warn, &text);
            }
            *self.keys.borrow_mut() = Some(Rc::new(keys));
            *self.etag.borrow_mut() = published.etag;
            self.loaded.set(version);
            work.resume = true;
        }
    }

    fn log(&self, work: &mut Work, level: Level, text: &str) {
        work.log(level, format!("{}: {}: {text}", JwtReject::NAME, self.settings.place));
    }
}

/// What a cell holds; none too where the host does not allow it, of which [`Remote::start`] tells.
fn shared(cells: &impl Cells, cell: &str) -> Option<SharedValue> {
    cells.shared(cell).ok().flatten()
}

/// Whether the cell was written.
fn share(cells: &impl Cells, cell: &str, content: &[u8], over: Over) -> bool {
    cells.share(cell, content, over) == Ok(true)
}

/// A part of `most` that the dice choose.
fn jitter(most: u64, dice: u64) -> u64 {
    // In two steps, so that it cannot overflow: thousandths are fine enough.
    (most / 1000).saturating_mul(dice % 1000)
}

#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod tests;
