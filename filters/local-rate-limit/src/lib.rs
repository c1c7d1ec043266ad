//! Refuses requests beyond a rate, before anything behind it spends work on them.
//!
//! The decision, in order:
//! 1. A request that is not among those that `filter_enabled` is for, or is exempt, passes.
//! 2. Each limit says whether it is for the request, which of its buckets that is charged to, and how many
//!    tokens. No limit: it passes.
//! 3. If every one of these buckets has the tokens, they are taken, and it passes. If one has not, none is taken,
//!    and it is refused: by the limit that it would have to wait for the longest.
//! 4. In shadow mode, and where `filter_enforced` does not have it, it passes all the same, and that is counted.
//!
//! Entry points: [`LocalRateLimit`] (the filter), [`bucket`] (the arithmetic), `charge` (taking tokens from several
//! buckets that several workers share), `cell` (how buckets are kept), `keys` and `client` (what tells buckets
//! apart), [`config`] (the configuration).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod answer;
pub mod bucket;
mod cell;
mod charge;
mod client;
pub mod config;
pub mod counters;
mod decide;
mod keys;
mod worker;

use std::cell::Cell;
use std::rc::Rc;

use filter_api::config::ConfigErrors;
use filter_api::{
    Background, Callback, Cells, Configured, Facts, Filter, Head, Host, HostFailed, Moment, OnHostFailure,
    Outcome, Over, Work,
};

use crate::charge::Undecided;
use crate::config::Config;
use crate::keys::Seed;
use crate::worker::Worker;

/// The cell of what makes the keys of clients unforeseeable.
const SEED_CELL: &str = "foregate.local_rate_limit.seed";

/// The filter.
#[derive(Debug)]
pub struct LocalRateLimit {
    config: Config,
    worker: Rc<Worker>,
    seed: Cell<Option<Seed>>,
}

impl Filter for LocalRateLimit {
    const NAME: &'static str = "local_rate_limit";
    const CALLBACKS: &'static [Callback] =
        &[Callback::RequestHeaders, Callback::ResponseHeaders, Callback::Tick];
    // It guards against too much, not against anybody: what it cannot count it does not stop.
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Pass;
    type Kept = ();
    const COUNTERS: &'static [&'static str] = counters::COUNTERS;

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        Self::configure_as("", json)
    }

    fn configure_as(instance: &str, json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let (mut config, warnings) = Config::read(json)?;
        config.tell_apart(instance);
        Ok(Configured { filter: Self { config, worker: Worker::here(), seed: Cell::new(None) }, warnings })
    }

    fn needs(&self, callback: Callback) -> bool {
        match callback {
            Callback::ResponseHeaders => self.config.announce.is_anything(),
            other => Self::CALLBACKS.contains(&other),
        }
    }

    fn own_counters(&self) -> Vec<String> {
        self.config.limits.iter().flat_map(|limit| counters::names_of(&limit.name)).collect()
    }

    fn on_request(&self, head: &impl Head, host: &impl Host, facts: &Facts) -> Outcome {
        decide::outcome(self, head, host, facts)
    }

    fn on_start(&self, background: &impl Background) -> Work {
        // Where the host does not allow it, every request will say so.
        let _ = self.find_seed(background, || background.moment());
        Work::default()
    }

    fn on_tick(&self, background: &impl Background) -> Work {
        let mut work = Work::default();
        if self.worker.holds_any() {
            let now = background.moment().unix_nanos;
            let lost = charge::give_back_old(now, background, &self.worker);
            work.counts.extend((lost > 0).then_some((counters::TOKENS_LOST, lost)));
        }
        work
    }
}

impl LocalRateLimit {
    /// This filter with the state of a worker of its own. In Envoy each worker has a VM; who runs several workers in one
    /// thread, as tests and tools do, tells them apart by this.
    #[must_use]
    pub fn on_its_own_worker(self) -> Self {
        Self { worker: Rc::default(), ..self }
    }

    /// What all workers begin their hashes with.
    fn seed(&self, host: &impl Host) -> Result<Seed, Undecided> {
        match self.seed.get() {
            Some(seed) => Ok(seed),
            None => Ok(self.find_seed(host, || host.moment())?),
        }
    }

    fn find_seed(&self, cells: &impl Cells, moment: impl Fn() -> Moment) -> Result<Seed, HostFailed> {
        let drawn = || {
            let (one, other) = (moment(), moment());
            let mut seed = [0; 16];
            let bytes = one.dice.to_le_bytes().into_iter().chain(other.dice.to_le_bytes());
            seed.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
            Seed(seed)
        };
        let mut found = cells.shared(SEED_CELL)?;
        if found.is_none() {
            // Of several workers that try, one succeeds.
            cells.share(SEED_CELL, &drawn().0, Over::Nothing)?;
            found = cells.shared(SEED_CELL)?;
        }
        let seed = found.and_then(|cell| Some(Seed(cell.bytes.try_into().ok()?)));
        // A cell that holds something else is not ours; without a seed in common each worker counts for itself.
        let seed = seed.unwrap_or_else(drawn);
        self.seed.set(Some(seed));
        Ok(seed)
    }
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::LocalRateLimit);

#[cfg(test)]
mod tests;
