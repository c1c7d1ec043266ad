//! Taking tokens for one request: from every bucket that it needs, or from none.
//!
//! 1. All cells that the buckets are in are read, and each bucket is asked for its tokens. One that has too few:
//!    the request is refused, and nothing has been written.
//! 2. The cells are written one after the other, each only if it still is as it was read. One that is not is
//!    read again, and its buckets are asked again. If they refuse then, what was taken before is given back.
//!
//! Several buckets in one cell are so taken in one step. Of several cells those of dynamic keys come first: what
//! may have to be given back is missing, for that moment, to requests of the same key and nobody else.
//!
//! After [`TRIES`] lost races it is left to the configuration what becomes of the request. Each lost race was won
//! by another worker, so that does not happen but to who is very unlucky.
//!
//! With a lease, a worker takes more tokens than it needs and spends these first. [`give_back_old`] returns
//! what is left of them.

use filter_api::{Cells, HostFailed, Over};
use smallvec::SmallVec;

use crate::bucket::{Bucket, Level, SECOND};
use crate::cell::{Entries, Key, Place, Room};
use crate::worker::{Hold, Worker};

/// How many races a request may lose.
pub(crate) const TRIES: u32 = 64;

/// How long a worker keeps borrowed tokens that it does not spend, but for the time between two ticks.
const HOLD_TIME: u64 = SECOND;

/// As many as most requests have.
pub(crate) type Few<T> = SmallVec<[T; 3]>;

/// What one request needs of one bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    /// Which of the configuration's limits it is for.
    pub(crate) limit: usize,
    /// Which of that limit's overrides, where it is one.
    pub(crate) special: Option<usize>,
    /// Whether the bucket is kept by this worker alone.
    pub(crate) own: bool,
    /// The cell it is in.
    pub(crate) place: Place,
    /// Its key in there.
    pub(crate) key: Key,
    /// How many of its limit that cell may hold.
    pub(crate) room: Room,
    /// Its shape.
    pub(crate) bucket: Bucket,
    /// How many tokens are needed; no more than it can hold.
    pub(crate) cost: u32,
    /// How many are taken at a time, if that is more.
    pub(crate) lease: u32,
}

/// How a bucket stands after the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether it had too few tokens.
    pub(crate) refuses: bool,
    /// Tokens left.
    pub(crate) tokens: u32,
    /// Nanoseconds until it has the tokens that were needed; none where it never will.
    pub(crate) wait: Option<u64>,
    /// Nanoseconds until it is full.
    pub(crate) until_full: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Whether a bucket refused: then nothing was taken from any.
    pub(crate) refused: bool,
    /// The buckets as they were found, in the order of the charges.
    asked: Few<Asked>,
    /// Races lost to other workers.
    pub(crate) lost: u32,
    /// Buckets forgotten for want of room.
    pub(crate) forgotten: u32,
    /// Tokens that could not be given back.
    pub(crate) tokens_lost: u32,
}

impl Settled {
    /// How the buckets stand. Most requests need not know.
    pub(crate) fn standings(&self, charges: &[Charge], now: u64) -> Few<Standing> {
        let standing = |(charge, asked): (&Charge, &Asked)| {
            let bucket = charge.bucket;
            let all = asked.held.saturating_add(bucket.tokens(asked.level)).min(bucket.max_tokens());
            let level = match self.refused || asked.taken == 0 {
                true => asked.level,
                false => bucket.level(bucket.after_taking(asked.level, asked.taken, now), now),
            };
            Standing {
                refuses: asked.refuses,
                tokens: if self.refused { all } else { all.saturating_sub(charge.cost) },
                wait: bucket.wait(level, charge.cost.saturating_sub(asked.held)),
                until_full: bucket.until_full(level),
            }
        };
        charges.iter().zip(&self.asked).map(standing).collect()
    }
}

/// Why nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Too many races were lost, this many.
    Contention(u32),
    /// The host does not allow shared data.
    HostFailed,
}

impl From<HostFailed> for Undecided {
    fn from(_: HostFailed) -> Self {
        Self::HostFailed
    }
}

/// A bucket as it was found.
#[derive(Debug, Clone, Copy)]
struct Asked {
    level: Level,
    /// Tokens that this worker holds of it.
    held: u32,
    /// Tokens to take from it; none where those held are enough, or where it refuses.
    taken: u32,
    refuses: bool,
}

/// The state of one request's charges.
struct Taking<'t, C> {
    charges: &'t [Charge],
    now: u64,
    cells: &'t C,
    worker: &'t Worker,
    settled: Settled,
    name: String,
}

/// Takes the tokens of all charges, or none. The charges must be in the order of their cells.
pub(crate) fn take(
    charges: &[Charge],
    now: u64,
    cells: &impl Cells,
    worker: &Worker,
) -> Result<Settled, Undecided> {
    let mut taking =
        Taking { charges, now, cells, worker, settled: Settled::default(), name: worker.name.take() };
    let outcome = taking.run();
    worker.name.replace(taking.name);
    outcome.map(|()| taking.settled)
}

/// Whether two charges are in the same cell.
fn in_same_cell(one: &Charge, other: &Charge) -> bool {
    (one.own, one.place) == (other.own, other.place)
}

impl<C: Cells> Taking<'_, C> {
    fn run(&mut self) -> Result<(), Undecided> {
        'anew: loop {
            let mut found: Few<(Entries, Over)> = Few::new();
            let mut asked: Few<Asked> = Few::new();
            for group in self.charges.chunk_by(in_same_cell) {
                // Tokens that this worker holds need no look at where they came from.
                let (entries, over) = match group.first() {
                    Some(first) if group.iter().any(|charge| !self.is_held(charge)) => self.read(first)?,
                    _ => (Entries::default(), Over::Anything),
                };
                asked.extend(group.iter().map(|charge| self.ask(charge, &entries)));
                found.push((entries, over));
            }
            if asked.iter().any(|asked| asked.refuses) {
                self.refuse(&asked, found);
                self.settle(asked, true);
                return Ok(());
            }
            let mut done = 0_usize;
            let charges = self.charges;
            for (group, (mut entries, mut over)) in charges.chunk_by(in_same_cell).zip(found) {
                let end = done.saturating_add(group.len());
                while !self.write(group, asked.get(done..end).unwrap_or_default(), entries, over)? {
                    self.settled.lost = self.settled.lost.saturating_add(1);
                    if self.settled.lost >= TRIES {
                        self.undo(done, &asked);
                        return Err(Undecided::Contention(self.settled.lost));
                    }
                    if done == 0 {
                        continue 'anew;
                    }
                    let Some(first) = group.first() else { break };
                    (entries, over) = self.read(first)?;
                    for (asked, charge) in asked.iter_mut().skip(done).zip(group) {
                        *asked = self.ask(charge, &entries);
                    }
                    if asked.iter().any(|asked| asked.refuses) {
                        self.undo(done, &asked);
                        self.settle(asked, true);
                        return Ok(());
                    }
                }
                done = end;
            }
            self.spend(&asked);
            self.settle(asked, false);
            return Ok(());
        }
    }

    fn settle(&mut self, asked: Few<Asked>, refused: bool) {
        self.settled.asked = asked;
        self.settled.refused = refused;
    }

    fn is_held(&self, charge: &Charge) -> bool {
        charge.lease > 0 && self.worker.hold(charge.key).is_some_and(|hold| hold.tokens >= charge.cost)
    }

    fn read(&mut self, charge: &Charge) -> Result<(Entries, Over), Undecided> {
        if charge.own {
            return Ok((self.worker.read(charge.place), Over::Anything));
        }
        Ok(match self.cells.shared(charge.place.name(&mut self.name))? {
            Some(cell) => (Entries::new(cell.bytes), Over::Version(cell.version)),
            // Nobody has written it, and of those who now try one alone must succeed.
            None => (Entries::default(), Over::Nothing),
        })
    }

    /// What a bucket gives.
    fn ask(&self, charge: &Charge, entries: &Entries) -> Asked {
        let hold = if charge.lease > 0 { self.worker.hold(charge.key) } else { None };
        let held = hold.map_or(0, |hold| hold.tokens);
        let Some(needed) = charge.cost.checked_sub(held).filter(|needed| *needed > 0) else {
            let full_at = hold.map_or_else(|| entries.full_at(charge.key), |hold| hold.full_at);
            let level = charge.bucket.level(full_at, self.now);
            return Asked { level, held, taken: 0, refuses: false };
        };
        let level = charge.bucket.level(entries.full_at(charge.key), self.now);
        if !charge.bucket.holds(level, needed) {
            return Asked { level, held, taken: 0, refuses: true };
        }
        let taken = match charge.lease {
            lease if lease > needed && self.worker.may_hold(charge.key) => {
                lease.min(charge.bucket.tokens(level))
            }
            _ => needed,
        };
        Asked { level, held, taken, refuses: false }
    }

    /// Writes what is left in the buckets of one cell, and says whether it was still as it was read.
    fn write(
        &mut self,
        group: &[Charge],
        asked: &[Asked],
        mut entries: Entries,
        over: Over,
    ) -> Result<bool, Undecided> {
        let mut changed = false;
        let mut forgotten: u32 = 0;
        for (charge, asked) in group.iter().zip(asked).filter(|(_, asked)| asked.taken > 0) {
            let full_at = charge.bucket.after_taking(asked.level, asked.taken, self.now);
            forgotten =
                forgotten.saturating_add(entries.set(charge.key, full_at, charge.room, self.now).into());
            changed = true;
        }
        let Some(first) = group.first().filter(|_| changed) else { return Ok(true) };
        let written = self.put(first, entries, over)?;
        if written {
            self.settled.forgotten = self.settled.forgotten.saturating_add(forgotten);
        }
        Ok(written)
    }

    fn put(&mut self, charge: &Charge, entries: Entries, over: Over) -> Result<bool, Undecided> {
        if charge.own {
            self.worker.write(charge.place, entries);
            return Ok(true);
        }
        Ok(self.cells.share(charge.place.name(&mut self.name), entries.bytes(), over)?)
    }

    /// Nothing is taken. A bucket that is empty by another clock is written as empty by this one.
    fn refuse(&mut self, asked: &[Asked], found: Few<(Entries, Over)>) {
        let mut all = asked.iter();
        let charges = self.charges;
        for (group, (mut entries, over)) in charges.chunk_by(in_same_cell).zip(found) {
            let mut changed = false;
            for (charge, asked) in group.iter().zip(all.by_ref()) {
                if asked.refuses && asked.level.is_of_another_clock {
                    let full_at = charge.bucket.after_taking(asked.level, 0, self.now);
                    entries.set(charge.key, full_at, charge.room, self.now);
                    changed = true;
                }
            }
            if changed && let Some(first) = group.first() {
                // If another worker was first, so much the better.
                let _ = self.put(first, entries, over);
            }
        }
    }

    /// Gives back what the first charges took.
    fn undo(&mut self, done: usize, asked: &[Asked]) {
        for (charge, asked) in self.charges.iter().zip(asked).take(done) {
            if asked.taken > 0 && !self.give_back(charge, asked.taken) {
                self.settled.tokens_lost = self.settled.tokens_lost.saturating_add(asked.taken);
            }
        }
    }

    /// Gives tokens back to a bucket, and says whether that succeeded.
    fn give_back(&mut self, charge: &Charge, tokens: u32) -> bool {
        for _ in 0..TRIES {
            let Ok((mut entries, over)) = self.read(charge) else { return false };
            let level = charge.bucket.level(entries.full_at(charge.key), self.now);
            if charge.bucket.until_full(level) == 0 {
                return true;
            }
            let full_at = charge.bucket.after_giving_back(level, tokens, self.now);
            entries.set(charge.key, full_at, charge.room, self.now);
            match self.put(charge, entries, over) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Notes what this worker now holds of each bucket with a lease.
    fn spend(&self, asked: &[Asked]) {
        for (charge, asked) in self.charges.iter().zip(asked).filter(|(charge, _)| charge.lease > 0) {
            let tokens = asked.held.saturating_add(asked.taken).saturating_sub(charge.cost);
            let (since, full_at) = match self.worker.hold(charge.key) {
                Some(hold) if asked.taken == 0 => (hold.since, hold.full_at),
                _ => (self.now, charge.bucket.after_taking(asked.level, asked.taken, self.now)),
            };
            let hold = Hold { tokens, since, full_at, place: charge.place, bucket: charge.bucket };
            self.worker.set_hold(charge.key, hold);
        }
    }
}

/// Gives back the tokens that this worker has borrowed and not spent for a while. Returns how many were lost
/// over it.
pub(crate) fn give_back_old(now: u64, cells: &impl Cells, worker: &Worker) -> u32 {
    let mut lost: u32 = 0;
    for (key, hold) in worker.take_holds_before(now.saturating_sub(HOLD_TIME), now) {
        let charge = Charge {
            limit: 0,
            special: None,
            own: false,
            place: hold.place,
            key,
            // It was there, or it is full and need not be.
            room: Room::ForAll,
            bucket: hold.bucket,
            cost: 0,
            lease: 0,
        };
        let mut taking =
            Taking { charges: &[], now, cells, worker, settled: Settled::default(), name: String::new() };
        if !taking.give_back(&charge, hold.tokens) {
            lost = lost.saturating_add(hold.tokens);
        }
    }
    lost
}

#[cfg(test)]
mod tests;
