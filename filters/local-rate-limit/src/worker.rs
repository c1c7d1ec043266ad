//! What one worker keeps to itself: buckets of limits that are not shared, and tokens borrowed from those that
//! are. It outlasts a change of configuration, as the shared cells do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bucket::{Bucket, FullAt};
use crate::cell::{Entries, Key, Place};

/// The most buckets that a worker holds borrowed tokens of. Of others it borrows none in advance.
const MOST_HOLDS: usize = 4096;

/// One worker's own state.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    cells: RefCell<BTreeMap<Place, Vec<u8>>>,
    holds: RefCell<BTreeMap<Key, Hold>>,
    /// Room for the name of a cell, kept between requests.
    pub(crate) name: RefCell<String>,
}

/// Tokens borrowed from a shared bucket and not spent yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold {
    /// How many.
    pub(crate) tokens: u32,
    /// When they were borrowed, in nanoseconds since 1970.
    pub(crate) since: u64,
    /// When the shared bucket would be full, as it was left then.
    pub(crate) full_at: FullAt,
    /// Where to give them back.
    pub(crate) place: Place,
    /// The shape of the bucket.
    pub(crate) bucket: Bucket,
}

impl Worker {
    /// That of this thread: in a VM there is but one.
    pub(crate) fn here() -> Rc<Self> {
        thread_local! {
            static HERE: Rc<Worker> = Rc::default();
        }
        HERE.with(Rc::clone)
    }

    /// What a cell of its own holds.
    pub(crate) fn read(&self, place: Place) -> Entries {
        Entries::new(self.cells.borrow().get(&place).cloned().unwrap_or_default())
    }

    /// Replaces what a cell of its own holds.
    pub(crate) fn write(&self, place: Place, entries: Entries) {
        self.cells.borrow_mut().insert(place, entries.into_bytes());
    }

    /// Whether it holds tokens of any bucket.
    pub(crate) fn holds_any(&self) -> bool {
        !self.holds.borrow().is_empty()
    }

    /// The tokens it holds of this bucket.
    pub(crate) fn hold(&self, key: Key) -> Option<Hold> {
        let holds = self.holds.borrow();
        // Without a lease anywhere, as is usual, nothing is looked up.
        if holds.is_empty() { None } else { holds.get(&key).copied() }
    }

    /// Whether it may hold tokens of this bucket.
    pub(crate) fn may_hold(&self, key: Key) -> bool {
        let holds = self.holds.borrow();
        holds.len() < MOST_HOLDS || holds.contains_key(&key)
    }

    /// Notes the tokens it holds of this bucket.
    pub(crate) fn set_hold(&self, key: Key, hold: Hold) {
        let mut holds = self.holds.borrow_mut();
        if hold.tokens == 0 {
            holds.remove(&key);
        } else {
            holds.insert(key, hold);
        }
    }

    /// Takes out the tokens that were borrowed before this moment, or after `now`, by a clock since put back.
    pub(crate) fn take_holds_before(&self, moment: u64, now: u64) -> Vec<(Key, Hold)> {
        let mut holds = self.holds.borrow_mut();
        let due = |hold: &Hold| hold.since <= moment || hold.since > now;
        let taken: Vec<_> =
            holds.iter().filter(|(_, hold)| due(hold)).map(|(key, hold)| (*key, *hold)).collect();
        for (key, _) in &taken {
            holds.remove(key);
        }
        taken
    }
}
