//! What a filter wants done: header operations, counters, facts and a log line, as plain values.

use std::sync::Arc;

use crate::{Facts, HeaderName, HeaderValue, LocalReply};

/// What a filter decided about a request. `K` is what it keeps until the response comes: see
/// [`crate::Filter::Kept`].
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<K = ()> {
    /// The request goes on, once the effects are applied.
    Continue(Effects<K>),
    /// The request ends here, once the effects are applied: what was edited shows in access logs, and what is to be done
    /// about a response is done about this one.
    Reply(LocalReply, Effects<K>),
    /// The request is held, and asked about again when [`crate::Work::resume`] says so or at this moment (in
    /// nanoseconds since 1970), whichever comes first. Of the effects, only counters and the log
    /// apply, and what is kept comes back with [`crate::Filter::on_resume`]. Only to be said where [`crate::Host::waiting`] allows it.
    Wait(u64, Effects<K>),
}

impl<K> Outcome<K> {
    /// The effects, whichever way it went.
    pub fn effects(&self) -> &Effects<K> {
        match self {
            Self::Continue(effects) | Self::Reply(_, effects) | Self::Wait(_, effects) => effects,
        }
    }

    /// The same, with what is kept made into something else.
    pub fn map_kept<L>(self, map: impl FnOnce(K) -> L) -> Outcome<L> {
        match self {
            Self::Continue(effects) => Outcome::Continue(effects.map_kept(map)),
            Self::Reply(reply, effects) => Outcome::Reply(reply, effects.map_kept(map)),
            Self::Wait(until, effects) => Outcome::Wait(until, effects.map_kept(map)),
        }
    }
}

/// What to do besides continuing or replying. Empty effects allocate nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects<K = ()> {
    /// Operations on the request's headers, applied in this order.
    pub headers: Vec<HeaderOp>,
    /// Operations on the response's headers that are known by now, applied in this order when they come, whoever
    /// answers. Needs [`crate::Callback::ResponseHeaders`].
    pub response: Vec<HeaderOp>,
    /// What the filter keeps of the request. If there is anything, it is asked about the response, with
    /// [`crate::Filter::on_response`]; that too needs the callback. Of a request that waits, it is kept until that is
    /// asked about again.
    pub kept: Option<K>,
    /// Counters to increment by one.
    pub counters: CounterSet,
    /// Counters to increment by more.
    pub counts: Vec<(Counter, u32)>,
    /// Findings for later filters of the same module.
    pub facts: Facts,
    /// Findings for whatever else looks at this request: see [`Property`].
    pub properties: Vec<Property>,
    /// Lines for the log. Made only where [`crate::Host::logs`] says that they would be written.
    pub log: Vec<LogLine>,
}

impl<K> Effects<K> {
    fn map_kept<L>(self, map: impl FnOnce(K) -> L) -> Effects<L> {
        let Self { headers, response, kept, counters, counts, facts, properties, log } = self;
        Effects { headers, response, kept: kept.map(map), counters, counts, facts, properties, log }
    }
}

impl<K> Default for Effects<K> {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            response: Vec::new(),
            kept: None,
            counters: CounterSet::default(),
            counts: Vec::new(),
            facts: Facts::default(),
            properties: Vec::new(),
            log: Vec::new(),
        }
    }
}

/// What a filter wants done when the headers of a response have come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseEffects {
    /// Operations on the response's headers, applied in this order.
    pub headers: Vec<HeaderOp>,
    /// Counters to increment by one.
    pub counters: CounterSet,
    /// Lines for the log. Made only where [`crate::Host::logs`] says that they would be written.
    pub log: Vec<LogLine>,
}

/// One operation on headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderOp {
    /// Replaces every line of this name by one.
    Set(HeaderName, HeaderValue),
    /// Adds a line, leaving those that are there.
    Add(HeaderName, HeaderValue),
    /// Removes every line of this name.
    Remove(HeaderName),
}

/// A property of the request: an entry of Envoy's filter state under `wasm.<name>`, for access logs, routes
/// and filters that are not ours. Like a header's value, it holds no control characters, since it may
/// become a part of a log line or of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name, such as `foregate.jwt.sub`.
    pub name: Arc<str>,
    /// What it holds.
    pub value: HeaderValue,
}

impl Property {
    /// What the names of properties begin with that hold claims of verified tokens.
    pub const CLAIM: &str = "foregate.jwt.";
}

/// A counter, by its place in [`crate::Filter::COUNTERS`] and, after these, [`crate::Filter::own_counters`].
/// Places from [`CounterSet::MOST`] on do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter(pub u16);

/// A set of counters, each to be incremented by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSet([u64; CounterSet::MOST / 64]);

impl CounterSet {
    /// The most counters that there may be.
    pub const MOST: usize = 512;
    /// The most that one filter may have: several may be in one.
    pub const MOST_OF_ONE: usize = 128;

    /// Adds a counter to the set.
    pub fn add(&mut self, counter: Counter) {
        if let Some(word) = self.0.get_mut(usize::from(counter.0 / 64)) {
            *word |= 1 << (counter.0 % 64);
        }
    }

    /// Whether the counter is in the set.
    pub fn contains(self, counter: Counter) -> bool {
        self.iter().any(|each| each == counter)
    }

    /// The counters in the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Counter> {
        self.0.into_iter().zip((0_u16..).step_by(64)).flat_map(|(word, first)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let next = u16::try_from(rest.trailing_zeros()).ok().filter(|_| rest != 0)?;
                rest &= rest.wrapping_sub(1);
                Some(Counter(first.saturating_add(next)))
            })
        })
    }
}

/// How much a log line matters, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is broken.
    Error,
    /// Something needs a look.
    Warn,
    /// What a running system says.
    Info,
    /// What each request did.
    Debug,
    /// Everything.
    Trace,
}

/// A line for the host's log. It never holds a token, a key or another secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// The text, without a line end.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_set_holds_what_was_added() {
        let mut set = CounterSet::default();
        for place in [511, 0, 64, 7, 7, 512, 65535] {
            set.add(Counter(place));
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [Counter(0), Counter(7), Counter(64), Counter(511)]);
        assert!(set.contains(Counter(7)) && !set.contains(Counter(8)));
    }
}
