//! What a worker remembers of tokens: those that verified, and those whose signature was wrong.
//!
//! - Good tokens are held whole, and compared whole: no altered copy is taken for one. Forged ones are
//!   held as 128-bit keyed hashes, in a store of their own that good tokens cannot be pushed out of.
//! - What may change with time is not remembered: the caller checks `exp` and `nbf` at every hit. All
//!   else depends on the token, the keys and the configuration; a new configuration begins with empty
//!   caches, and other keys empty them.
//! - Both stores are bounded, in entries and in bytes of tokens. Where there is no room, the one of a few is
//!   forgotten that was not asked for the longest.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use filter_api::{HeaderOp, Property};
use serde_json::Value;

/// The most bytes of good tokens held, of one provider.
const MOST_BYTES: usize = 2 << 20;

/// How many forged tokens are remembered, of one provider.
const FORGED: usize = 4096;

/// A token that verified, and what was made of it.
#[derive(Debug)]
pub(crate) struct Good {
    /// `exp` in nanoseconds since 1970.
    pub(crate) expires: Option<u64>,
    /// `nbf` in nanoseconds since 1970.
    pub(crate) not_before: Option<u64>,
    /// The claims.
    pub(crate) claims: Arc<Value>,
    /// The headers that they are written to.
    pub(crate) headers: Vec<HeaderOp>,
    /// The properties that they are written to.
    pub(crate) properties: Vec<Property>,
    /// Whether a claim could not be written.
    pub(crate) left_out: bool,
}

/// What is remembered of a token.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    /// It verified.
    Good(Rc<Good>),
    /// Its signature was wrong.
    Forged,
}

/// The memory of one provider in one worker.
#[derive(Debug)]
pub(crate) struct Cache {
    keys: [RandomState; 2],
    good: Store,
    forged: Store,
    most_token_bytes: usize,
}

/// A token's keyed hash: no client can foresee it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Cache {
    /// A cache of this many good tokens, none longer than this. Of no tokens at all, where it is
    /// to remember none.
    pub(crate) fn new(tokens: usize, most_token_bytes: usize) -> Self {
        let forged = if tokens == 0 { 0 } else { FORGED };
        Self {
            keys: [RandomState::new(), RandomState::new()],
            good: Store::new(tokens, MOST_BYTES),
            forged: Store::new(forged, usize::MAX),
            most_token_bytes,
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.good.clear();
        self.forged.clear();
    }

    /// The key of a token that may be remembered.
    pub(crate) fn key(&self, token: &[u8]) -> Option<Key> {
        if self.good.most == 0 || token.len() > self.most_token_bytes {
            return None;
        }
        let [high, low] = self.keys.each_ref().map(|key| u128::from(key.hash_one(token)));
        Some(Key(high << 64 | low))
    }

    /// What is remembered of the token.
    pub(crate) fn find(&mut self, key: Key, token: &[u8]) -> Option<Memory> {
        if let Some(entry) = self.good.find(key)
            && entry.token.as_ref() == token
        {
            return entry.good.clone().map(Memory::Good);
        }
        self.forged.find(key).map(|_| Memory::Forged)
    }

    /// Remembers a token that verified, or one whose signature was wrong. Returns whether others had
    /// to be forgotten.
    pub(crate) fn add(&mut self, key: Key, token: &[u8], good: Option<Rc<Good>>) -> bool {
        match good {
            Some(_) => self.good.add(key, token, good),
            None => self.forged.add(key, b"", good),
        }
    }
}

#[derive(Debug)]
struct Entry {
    /// The whole token; empty for a forged one.
    token: Box<[u8]>,
    good: Option<Rc<Good>>,
    /// When it was asked for last: the number of that question.
    asked: u64,
}

/// Of how many that chance picks the one is forgotten that was not asked for the longest.
const PICKED: u32 = 5;

/// A bounded store that forgets what was not asked for the longest, roughly: it picks a few by chance, and
/// forgets the oldest of those.
#[derive(Debug)]
struct Store {
    entries: BTreeMap<Key, Entry>,
    /// Bytes of all tokens in it.
    bytes: usize,
    questions: u64,
    most: usize,
    most_bytes: usize,
}

impl Store {
    fn new(most: usize, most_bytes: usize) -> Self {
        Self { entries: BTreeMap::new(), bytes: 0, questions: 0, most, most_bytes }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    fn find(&mut self, key: Key) -> Option<&Entry> {
        self.questions = self.questions.wrapping_add(1);
        let entry = self.entries.get_mut(&key)?;
        entry.asked = self.questions;
        Some(entry)
    }

    fn add(&mut self, key: Key, token: &[u8], good: Option<Rc<Good>>) -> bool {
        let mut forgotten = false;
        self.remove(key);
        while self.entries.len() >= self.most || self.bytes.saturating_add(token.len()) > self.most_bytes {
            let Some(oldest) = self.oldest_of_some(key) else { return forgotten };
            self.remove(oldest);
            forgotten = true;
        }
        self.bytes = self.bytes.saturating_add(token.len());
        self.entries.insert(key, Entry { token: token.into(), good, asked: self.questions });
        forgotten
    }

    fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.bytes = self.bytes.saturating_sub(entry.token.len());
        }
    }

    /// The oldest of those that the key picks. A key is as good as random, and so is each of its rotations.
    fn oldest_of_some(&self, key: Key) -> Option<Key> {
        let picks = (1..=PICKED)
            .map(|turn| Key(key.0.rotate_left(turn.wrapping_mul(23)) ^ u128::from(self.questions)));
        let picked = picks.filter_map(|pick| {
            let mut from = self.entries.range(pick..).chain(self.entries.iter());
            from.next()
        });
        picked.min_by_key(|(_, entry)| entry.asked).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Rc<Good> {
        let claims = Arc::new(Value::Null);
        Rc::new(Good {
            expires: None,
            not_before: None,
            claims,
            headers: Vec::new(),
            properties: Vec::new(),
            left_out: false,
        })
    }

    fn is_good(cache: &mut Cache, token: &str) -> bool {
        let key = cache.key(token.as_bytes()).unwrap();
        matches!(cache.find(key, token.as_bytes()), Some(Memory::Good(_)))
    }

    fn add_good(cache: &mut Cache, token: &str) -> bool {
        let key = cache.key(token.as_bytes()).unwrap();
        cache.add(key, token.as_bytes(), Some(good()))
    }

    #[test]
    fn only_the_very_token_is_remembered() {
        let mut cache = Cache::new(10, 100);
        add_good(&mut cache, "a.b.c");
        assert!(is_good(&mut cache, "a.b.c"));
        for other in ["a.b.cc", "a.b.", "a.b.C", "A.b.c", ""] {
            assert!(!is_good(&mut cache, other), "{other}");
        }
        // Even where the hashes are the same.
        let key = cache.key(b"a.b.c").unwrap();
        assert!(cache.find(key, b"a.b.d").is_none());
        assert_ne!(Cache::new(10, 100).key(b"a.b.c"), Some(key), "the hash has a key of its own");
    }

    #[test]
    fn both_stores_are_bounded_and_neither_pushes_the_other_out() {
        let mut cache = Cache::new(100, 100);
        add_good(&mut cache, "kept");
        let mut forgotten = 0;
        for number in 0..100_000_u32 {
            let key = cache.key(&number.to_le_bytes()).unwrap();
            forgotten += u32::from(cache.add(key, b"", None));
        }
        assert!(forgotten > 0 && is_good(&mut cache, "kept"));
        assert_eq!(cache.forged.entries.len(), FORGED);
        let mut lost = 0;
        for number in 0..10_000 {
            add_good(&mut cache, &format!("token {number}"));
            // What is asked for stays, but for once in a great while.
            if !is_good(&mut cache, "kept") {
                lost += 1;
                add_good(&mut cache, "kept");
            }
            assert!(cache.good.entries.len() <= 100);
        }
        assert!(lost < 10, "{lost}");
        let kept = (0..10_000).filter(|number| is_good(&mut cache, &format!("token {number}")));
        assert!(kept.count() <= 100);
        let old = (0..9000).filter(|number| is_good(&mut cache, &format!("token {number}")));
        assert!(old.count() < 10, "the oldest go first");
    }

    /// As many as there is room for, in turn: the case in which forgetting the oldest first forgets each just
    /// before it comes again.
    #[test]
    fn as_many_as_there_is_room_for_stay() {
        let mut cache = Cache::new(1000, 100);
        for round in 0..5 {
            for number in 0..1000 {
                let token = format!("token {number}");
                assert_eq!(is_good(&mut cache, &token), round > 0, "{round} {number}");
                if round == 0 {
                    assert!(!add_good(&mut cache, &token), "nothing is forgotten");
                }
            }
        }
        // And of some more than that, most.
        let mut found = 0;
        for number in (0..1100).cycle().take(11_000) {
            let token = format!("token {number}");
            match is_good(&mut cache, &token) {
                true => found += 1,
                false => drop(add_good(&mut cache, &token)),
            }
        }
        assert!(found > 5500, "{found} of 11,000");
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut cache = Cache::new(1_000_000, usize::MAX);
        for number in 0..1000 {
            add_good(&mut cache, &format!("{number:0>8192}"));
        }
        let held: usize = cache.good.entries.values().map(|entry| entry.token.len()).sum();
        assert!(held == cache.good.bytes && held <= MOST_BYTES && held > MOST_BYTES - 8192, "{held}");
    }

    #[test]
    fn a_cache_of_nothing_remembers_nothing() {
        let cache = Cache::new(0, 100);
        assert_eq!(cache.key(b"a"), None);
        assert_eq!(Cache::new(1, 3).key(b"long"), None);
    }
}
