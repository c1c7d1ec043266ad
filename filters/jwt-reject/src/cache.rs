//! What a worker remembers of tokens: those that verified, and those whose signature was wrong.
//!
//! - Good tokens are held whole, and compared whole: no altered copy is taken for one. Forged ones are
//!   held as 128-bit keyed hashes, in a store of their own that good tokens cannot be pushed out of.
//! - What may change with time is not remembered: the caller checks `exp` and `nbf` at every hit. All
//!   else depends on the token, the keys and the configuration; a new configuration begins with empty
//!   caches, and other keys empty them.
//! - Both stores are bounded. Each has a young and an old half: when the young half is full it becomes
//!   the old one, and what was old and not asked for since is forgotten.

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
            Some(_) => self.good.add(key, Entry { token: token.into(), good }),
            None => self.forged.add(key, Entry { token: Box::default(), good }),
        }
    }
}

#[derive(Debug)]
struct Entry {
    /// The whole token; empty for a forged one.
    token: Box<[u8]>,
    good: Option<Rc<Good>>,
}

/// A bounded store that forgets what was not asked for the longest, roughly.
#[derive(Debug)]
struct Store {
    young: BTreeMap<Key, Entry>,
    old: BTreeMap<Key, Entry>,
    /// Bytes of tokens in the young half.
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Store {
    fn new(most: usize, most_bytes: usize) -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), bytes: 0, most, most_bytes }
    }

    fn clear(&mut self) {
        (self.young, self.old, self.bytes) = (BTreeMap::new(), BTreeMap::new(), 0);
    }

    fn find(&mut self, key: Key) -> Option<&Entry> {
        if !self.young.contains_key(&key)
            && let Some(entry) = self.old.remove(&key)
        {
            self.add(key, entry);
        }
        self.young.get(&key)
    }

    fn add(&mut self, key: Key, entry: Entry) -> bool {
        let mut forgotten = false;
        let bytes = self.bytes.saturating_add(entry.token.len());
        if self.young.len() >= self.most.div_ceil(2) || bytes > self.most_bytes / 2 {
            self.bytes = 0;
            let young = std::mem::take(&mut self.young);
            forgotten = !std::mem::replace(&mut self.old, young).is_empty();
        }
        self.bytes = self.bytes.saturating_add(entry.token.len());
        self.young.insert(key, entry);
        forgotten
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
        assert!(cache.forged.young.len() + cache.forged.old.len() <= FORGED);
        for number in 0..10_000 {
            add_good(&mut cache, &format!("token {number}"));
            // What is asked for stays.
            assert!(is_good(&mut cache, "kept"), "{number}");
            assert!(cache.good.young.len() + cache.good.old.len() <= 101);
        }
        assert!(!is_good(&mut cache, "token 0"));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut cache = Cache::new(1_000_000, usize::MAX);
        for number in 0..1000 {
            add_good(&mut cache, &format!("{number:0>8192}"));
        }
        let held = cache.good.young.values().chain(cache.good.old.values()).map(|entry| entry.token.len());
        assert!(held.sum::<usize>() <= MOST_BYTES);
    }

    #[test]
    fn a_cache_of_nothing_remembers_nothing() {
        let cache = Cache::new(0, 100);
        assert_eq!(cache.key(b"a"), None);
        assert_eq!(Cache::new(1, 3).key(b"long"), None);
    }
}
