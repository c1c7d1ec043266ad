//! Buckets as bytes: what a cell holds, shared by all workers or kept by one.
//!
//! A cell is a list of entries: the key of a bucket (8 bytes) and when it will be full (12 bytes and a fraction of
//! 4), little-endian. A bucket without an entry is full. So an entry whose time is past says nothing, and is
//! dropped where room is needed: limits that no configuration has any longer vanish by themselves.

use crate::bucket::FullAt;

/// The bytes of an entry.
pub(crate) const ENTRY: usize = 24;

/// Cells of buckets whose number the configuration gives.
const FIXED_CELLS: u64 = 256;

/// How many keys a set of dynamic ones is made for.
const KEYS_IN_A_SET: u32 = 16;
/// And how many it has room for: keys are spread by chance, and one set in ten million gets more.
const ROOM_IN_A_SET: u32 = 40;
/// Up to so many keys are all kept in one set, and no more than these.
const SMALL: u32 = 32;

/// Which cell a bucket is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// One of those for dynamic keys. They come first, since what is changed first may have to be changed back:
    /// that is felt by requests of the same key alone.
    Keyed(u32),
    /// One of those for buckets whose number the configuration gives.
    Fixed(u8),
}

impl Place {
    /// The cell's name, written into `name`.
    pub(crate) fn name(self, name: &mut String) -> &str {
        let (kind, number) = match self {
            Self::Keyed(set) => ('k', set),
            Self::Fixed(cell) => ('f', cell.into()),
        };
        name.clear();
        name.push_str("foregate.local_rate_limit.");
        name.push(kind);
        // By hand: what formatting machinery would take is more than all the rest of it.
        let digits = (0..u32::BITS).step_by(4).rev().map(|shift| (number >> shift) & 0xf);
        name.extend(digits.filter_map(|digit| char::from_digit(digit, 16)));
        name
    }

    /// The place of the only bucket of its limit.
    pub(crate) const FIRST: Self = Self::Fixed(0);

    /// The place of one of several fixed buckets of a limit.
    pub(crate) fn of_several(key: u64) -> Self {
        let cell = key.checked_rem(FIXED_CELLS.saturating_sub(1)).unwrap_or(0).saturating_add(1);
        Self::Fixed(u8::try_from(cell).unwrap_or(u8::MAX))
    }
}

/// How many dynamic keys a limit remembers, and how they are spread over sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    sets: u32,
    room: u32,
}

impl Table {
    /// Room for this many keys.
    pub(crate) fn of(keys: u32) -> Self {
        if keys <= SMALL {
            Self { sets: 1, room: keys }
        } else {
            Self { sets: keys.div_ceil(KEYS_IN_A_SET), room: ROOM_IN_A_SET }
        }
    }

    /// The set that a key belongs to.
    pub(crate) fn place(self, hash: u64) -> Place {
        let set = (hash >> 32).saturating_mul(u64::from(self.sets)) >> 32;
        Place::Keyed(u32::try_from(set).unwrap_or(0))
    }

    /// The room in a set.
    pub(crate) fn room(self) -> Room {
        Room::Of(self.room)
    }
}

/// How many entries of a limit a cell may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// As many as come: the configuration says how many.
    ForAll,
    /// This many.
    Of(u32),
}

/// A bucket's key: 16 bits that tell the limit, 48 that tell the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    /// A key of this limit.
    pub(crate) fn new(limit: u64, bucket: u64) -> Self {
        Self((limit << 48) | (bucket >> 16))
    }

    fn is_of_same_limit(self, other: Self) -> bool {
        self.0 >> 48 == other.0 >> 48
    }
}

/// What a cell holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<u8>);

impl Entries {
    /// Takes a cell's bytes. Bytes that are no entries are none.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        if bytes.len().is_multiple_of(ENTRY) { Self(bytes) } else { Self::default() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// When the bucket will be full; one that is not there is full.
    pub(crate) fn full_at(&self, key: Key) -> FullAt {
        self.iter().find(|(own, _)| *own == key).map_or(FullAt::default(), |(_, full_at)| full_at)
    }

    /// Notes when the bucket will be full. Where there is no room, the bucket of the same limit that would be
    /// full first is forgotten, which returns true.
    pub(crate) fn set(&mut self, key: Key, full_at: FullAt, room: Room, now: u64) -> bool {
        let mut entries = self.0.as_chunks_mut::<ENTRY>().0.iter_mut();
        if let Some(entry) = entries.find(|entry| decode(entry).0 == key) {
            *entry = encode(key, full_at);
            return false;
        }
        let mut kept = Vec::with_capacity(self.0.len().saturating_add(ENTRY));
        let mut own: u32 = 0;
        let mut first: Option<(FullAt, Key)> = None;
        for (other, other_full_at) in self.iter().filter(|(_, full_at)| !full_at.is_past(now)) {
            kept.extend_from_slice(&encode(other, other_full_at));
            if other.is_of_same_limit(key) {
                own = own.saturating_add(1);
                let this = (other_full_at, other);
                first = Some(first.map_or(this, |first| first.min(this)));
            }
        }
        self.0 = kept;
        let forgotten = first.filter(|_| matches!(room, Room::Of(most) if own >= most));
        let replaced = forgotten.and_then(|(_, forgotten)| {
            self.0.as_chunks_mut::<ENTRY>().0.iter_mut().find(|entry| decode(entry).0 == forgotten)
        });
        match replaced {
            Some(entry) => {
                *entry = encode(key, full_at);
                true
            }
            None => {
                self.0.extend_from_slice(&encode(key, full_at));
                false
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Key, FullAt)> {
        self.0.as_chunks::<ENTRY>().0.iter().map(decode)
    }
}

/// Fractions have the lower 32 bits of a number, nanoseconds the other 96.
const PART_BITS: u32 = 32;

fn decode(entry: &[u8; ENTRY]) -> (Key, FullAt) {
    let (key, rest) = entry.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let full_at = rest.first_chunk::<16>().map_or(0, |bytes| u128::from_le_bytes(*bytes));
    let part = u32::try_from(full_at & u128::from(u32::MAX)).unwrap_or(0);
    (Key(u64::from_le_bytes(*key)), FullAt { nanos: full_at >> PART_BITS, part })
}

fn encode(key: Key, full_at: FullAt) -> [u8; ENTRY] {
    let number = full_at.nanos << PART_BITS | u128::from(full_at.part);
    let mut entry = [0; ENTRY];
    let bytes = key.0.to_le_bytes().into_iter().chain(number.to_le_bytes());
    entry.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u128) -> FullAt {
        FullAt { nanos, part: 7 }
    }

    #[test]
    fn what_is_noted_is_found_and_what_is_past_makes_room() {
        let mut entries = Entries::default();
        let room = Room::Of(2);
        let key = |bucket: u64| Key::new(1, bucket << 16);
        assert_eq!(entries.full_at(key(1)), FullAt::default());
        assert!(!entries.set(key(1), at(100), room, 0));
        assert!(!entries.set(key(1), at(110), room, 0));
        assert!(!entries.set(key(2), at(120), room, 0));
        assert_eq!((entries.full_at(key(1)), entries.full_at(key(2))), (at(110), at(120)));
        // Another limit's entries take none of the room.
        assert!(!entries.set(Key::new(2, 0), at(105), room, 0));
        // The one that would be full first is forgotten, of the same limit.
        assert!(entries.set(key(3), at(130), room, 0));
        assert_eq!(entries.full_at(key(1)), FullAt::default());
        assert_eq!((entries.full_at(key(2)), entries.full_at(Key::new(2, 0))), (at(120), at(105)));
        // One that is full anyway is dropped for nothing.
        assert!(!entries.set(key(4), at(140), room, 121));
        assert_eq!(entries.bytes().len(), 2 * ENTRY);
        assert_eq!(Entries::new(entries.bytes().to_vec()), entries);
    }

    #[test]
    fn the_largest_times_fit() {
        for full_at in
            [FullAt { nanos: (1 << 96) - 1, part: u32::MAX }, FullAt { nanos: 1 << 64, part: 0 }, at(0)]
        {
            assert_eq!(decode(&encode(Key(u64::MAX), full_at)), (Key(u64::MAX), full_at));
        }
    }

    #[test]
    fn fixed_buckets_are_never_forgotten() {
        let mut entries = Entries::default();
        for bucket in 0..100 {
            assert!(!entries.set(Key::new(1, bucket << 16), at(10), Room::ForAll, 0));
        }
        assert_eq!(entries.bytes().len(), 100 * ENTRY);
    }

    #[test]
    fn bytes_of_any_length_are_read() {
        for length in 0..200_usize {
            let entries = Entries::new(vec![0xff; length]);
            assert_eq!(entries.iter().count(), if length.is_multiple_of(ENTRY) { length / ENTRY } else { 0 });
        }
    }

    #[test]
    fn keys_are_spread_over_all_sets() {
        assert_eq!((Table::of(1), Table::of(32)), (Table { sets: 1, room: 1 }, Table { sets: 1, room: 32 }));
        let table = Table::of(10_000);
        assert_eq!(table, Table { sets: 625, room: 40 });
        assert_eq!(table.place(0), Place::Keyed(0));
        assert_eq!(table.place(u64::MAX), Place::Keyed(624));
        let mut counts = vec![0; 625];
        for number in 0_u64..10_000 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let Place::Keyed(set) = table.place(hash) else { panic!() };
            counts[set as usize] += 1;
        }
        assert!(counts.iter().all(|count| (5..=ROOM_IN_A_SET).contains(count)), "{counts:?}");
    }

    #[test]
    fn names_are_short_and_different() {
        let mut name = String::new();
        assert_eq!(Place::Keyed(0x12_34ff).name(&mut name), "foregate.local_rate_limit.k001234ff");
        assert_eq!(Place::FIRST.name(&mut name), "foregate.local_rate_limit.f00000000");
        for key in 0..1000 {
            assert_ne!(Place::of_several(key), Place::FIRST);
        }
    }
}
