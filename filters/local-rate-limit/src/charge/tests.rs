//! Workers that get in each other's way.

use std::cell::{Cell, RefCell};

use filter_api::{CellMap, SharedValue};
use proptest::prelude::*;

use super::*;

const START: u64 = 1_796_000_000 * SECOND;

/// Cells into which another worker writes whenever one is about to.
struct Contended<'c> {
    cells: &'c CellMap,
    /// What happens before the next writes.
    others: RefCell<Vec<Box<dyn Fn() + 'c>>>,
    reads: Cell<usize>,
    writes: Cell<usize>,
}

impl<'c> Contended<'c> {
    fn new(cells: &'c CellMap, others: Vec<Box<dyn Fn() + 'c>>) -> Self {
        Self { cells, others: RefCell::new(others), reads: Cell::new(0), writes: Cell::new(0) }
    }
}

impl Cells for Contended<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.reads.set(self.reads.get() + 1);
        self.cells.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.writes.set(self.writes.get() + 1);
        let other = self.others.borrow_mut().pop();
        if let Some(other) = other {
            other();
        }
        self.cells.share(cell, content, over)
    }
}

fn charge(place: Place, key: u64, max_tokens: u32) -> Charge {
    Charge {
        limit: 0,
        special: None,
        own: false,
        place,
        key: Key(key),
        room: Room::ForAll,
        bucket: Bucket::new(max_tokens, 1, 3600 * SECOND),
        cost: 1,
        lease: 0,
    }
}

fn tokens(cells: &CellMap, charge: &Charge) -> u32 {
    let probe = Charge { cost: 0, lease: 0, ..*charge };
    take(&[probe], START, cells, &Worker::default()).unwrap().standings(&[probe], START)[0].tokens
}

fn passes(charges: &[Charge], cells: &impl Cells) -> bool {
    !take(charges, START, cells, &Worker::default()).unwrap().refused
}

#[test]
fn one_bucket_costs_one_read_and_one_write_and_a_refusal_only_the_read() {
    let cells = CellMap::default();
    let counting = Contended::new(&cells, Vec::new());
    let one = charge(Place::FIRST, 1, 1);
    assert!(passes(&[one], &counting));
    assert_eq!((counting.reads.get(), counting.writes.get()), (1, 1));
    assert!(!passes(&[one], &counting));
    assert_eq!((counting.reads.get(), counting.writes.get()), (2, 1));
    // As many buckets as one likes in the same cell.
    let charges = [charge(Place::FIRST, 2, 1), charge(Place::FIRST, 3, 1), charge(Place::FIRST, 4, 1)];
    assert!(passes(&charges, &counting));
    assert_eq!((counting.reads.get(), counting.writes.get()), (3, 2));
}

#[test]
fn of_two_takers_of_the_last_token_one_gets_it() {
    for present in [false, true] {
        let cells = CellMap::default();
        let one = charge(Place::FIRST, 1, 1);
        if present {
            // The cell is there, though not the bucket.
            assert!(passes(&[charge(Place::FIRST, 2, 1)], &cells));
        }
        let other_passed = Cell::new(false);
        let other = || other_passed.set(passes(&[one], &cells));
        let contended = Contended::new(&cells, vec![Box::new(other)]);
        let settled = take(&[one], START, &contended, &Worker::default()).unwrap();
        assert!(other_passed.get());
        assert!(settled.refused);
        assert_eq!(settled.lost, 1);
    }
}

#[test]
fn who_loses_every_race_is_not_decided_about() {
    let cells = CellMap::default();
    let one = charge(Place::FIRST, 1, 1000);
    let others = (0..TRIES).map(|_| Box::new(|| assert!(passes(&[one], &cells))) as Box<dyn Fn()>).collect();
    let contended = Contended::new(&cells, others);
    let undecided = take(&[one], START, &contended, &Worker::default()).unwrap_err();
    assert_eq!(undecided, Undecided::Contention(TRIES));
    assert_eq!(tokens(&cells, &one), 1000 - TRIES);
}

#[test]
fn what_a_second_cell_refuses_is_given_back_to_the_first() {
    let cells = CellMap::default();
    let (keyed, all) = (charge(Place::Keyed(0), 1, 10), charge(Place::FIRST, 2, 1));
    // Between the write of the first cell and that of the second, another takes the last token.
    let others: Vec<Box<dyn Fn()>> = vec![Box::new(|| assert!(passes(&[all], &cells))), Box::new(|| ())];
    let contended = Contended::new(&cells, others);
    let settled = take(&[keyed, all], START, &contended, &Worker::default()).unwrap();
    let standings = settled.standings(&[keyed, all], START);
    assert!(settled.refused && !standings[0].refuses && standings[1].refuses);
    assert_eq!((settled.lost, settled.tokens_lost), (1, 0));
    assert_eq!((tokens(&cells, &keyed), tokens(&cells, &all)), (10, 0));
}

#[test]
fn a_host_that_refuses_is_told_apart_from_a_lost_race() {
    struct Forbidden;
    impl Cells for Forbidden {
        fn shared(&self, _: &str) -> Result<Option<SharedValue>, HostFailed> {
            Err(HostFailed(12))
        }
        fn share(&self, _: &str, _: &[u8], _: Over) -> Result<bool, HostFailed> {
            Err(HostFailed(12))
        }
    }
    let undecided = take(&[charge(Place::FIRST, 1, 1)], START, &Forbidden, &Worker::default()).unwrap_err();
    assert_eq!(undecided, Undecided::HostFailed);
}

#[test]
fn bytes_of_others_in_a_cell_are_no_entries() {
    let cells = CellMap::default();
    let one = charge(Place::FIRST, 1, 5);
    for junk in [&b"x"[..], &[0xff; 19], &[0xff; 21]] {
        cells.share(Place::FIRST.name(&mut String::new()), junk, Over::Anything).unwrap();
        assert!(passes(&[one], &cells));
        assert_eq!(tokens(&cells, &one), 4);
    }
}

proptest! {
    /// However workers get in each other's way, over however many buckets: of each bucket exactly as many tokens are
    /// gone as requests have passed that needed it, and no request was refused while all of its buckets had tokens
    /// and nobody else was at them.
    #[test]
    fn tokens_are_neither_lost_nor_won(
        sizes in proptest::collection::vec(0_u32..12, 4),
        requests in proptest::collection::vec((1_u8..16, proptest::collection::vec(1_u8..16, 0..4)), 1..40),
    ) {
        let cells = CellMap::default();
        let places = [Place::Keyed(0), Place::Keyed(1), Place::FIRST, Place::FIRST];
        let all: Vec<Charge> =
            (0..4).map(|n| charge(places[n], n as u64 + 1, sizes[n])).collect();
        let of = |mask: u8| -> Vec<Charge> {
            all.iter().enumerate().filter(|(n, _)| mask & (1 << n) != 0).map(|(_, charge)| *charge).collect()
        };
        let taken = RefCell::new([0_u32; 4]);
        let note = |mask: u8, passed: bool| {
            if passed {
                (0..4).filter(|n| mask & (1 << n) != 0).for_each(|n| taken.borrow_mut()[n] += 1);
            }
        };
        for (mask, interfering) in &requests {
            let others = interfering.iter().map(|other| {
                let (other, of, note, cells) = (*other, &of, &note, &cells);
                Box::new(move || note(other, passes(&of(other), cells))) as Box<dyn Fn()>
            });
            let contended = Contended::new(&cells, others.collect());
            let before: Vec<u32> = of(*mask).iter().map(|charge| tokens(&cells, charge)).collect();
            let passed = passes(&of(*mask), &contended);
            note(*mask, passed);
            if interfering.is_empty() {
                prop_assert_eq!(passed, before.iter().all(|tokens| *tokens > 0));
            }
            for (n, charge) in all.iter().enumerate() {
                prop_assert_eq!(tokens(&cells, charge), sizes[n] - taken.borrow()[n]);
            }
        }
    }

    /// With leases too, and in all: held, left or spent, every token is somewhere.
    #[test]
    fn leases_lose_no_token(
        size in 1_u32..200,
        lease in 0_u32..20,
        steps in proptest::collection::vec((0_usize..3, 1_u32..4, any::<bool>()), 1..200),
    ) {
        let cells = CellMap::default();
        let workers = [(); 3].map(|()| Worker::default());
        let one = charge(Place::FIRST, 1, size);
        let mut spent = 0;
        let mut now = START;
        for (number, cost, tick) in steps {
            let worker = &workers[number];
            let wanted = Charge { cost: cost.min(size), lease: lease.min(size), ..one };
            let settled = take(&[wanted], now, &cells, worker).unwrap();
            if !settled.refused {
                spent += wanted.cost;
            }
            if tick {
                // Too short for anything to flow in.
                now += 2 * SECOND;
                give_back_old(now, &cells, worker);
            }
            let held: u32 = workers.iter().filter_map(|worker| worker.hold(one.key)).map(|hold| hold.tokens).sum();
            let left = tokens(&cells, &one);
            prop_assert!(held <= 3 * lease.max(3));
            prop_assert_eq!(left + held + spent, size);
        }
    }
}
