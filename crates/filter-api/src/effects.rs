//! What a filter wants done: header operations, counters, facts and a log line, as plain values.

use std::sync::Arc;

use crate::{Facts, HeaderName, HeaderValue, LocalReply};

/// What a filter decided about a request. `K` is what it keeps until the response comes: see
/// [`crate::Filter::Kept`].
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<K = ()> {
    /// The request goes on, once the effects are applied.
    Continue(Effects<K>),
    /// The request ends here. Of the effects, only counters, counts, facts and the log line apply.
    Reply(LocalReply, Effects<K>),
    /// The request is held, and asked about again when [`crate::Work::resume`] says so or at this moment (in
    /// nanoseconds since 1970), whichever comes first. Of the effects, only counters and the log line
    /// apply. Only to be said where [`crate::Host::waiting`] allows it.
    Wait(u64, Effects<K>),
}

impl<K> Outcome<K> {
    /// The effects, whichever way it went.
    pub fn effects(&self) -> &Effects<K> {
        match self {
            Self::Continue(effects) | Self::Reply(_, effects) | Self::Wait(_, effects) => effects,
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
    /// [`crate::Filter::on_response`]; that too needs the callback.
    pub kept: Option<K>,
    /// Counters to increment by one.
    pub counters: CounterSet,
    /// Counters to increment by more.
    pub counts: Vec<(Counter, u32)>,
    /// Findings for later filters of the same module.
    pub facts: Facts,
    /// Findings for whatever else looks at this request: see [`Property`].
    pub properties: Vec<Property>,
    /// A line for the log. Made only where [`crate::Host::logs`] says that it would be written.
    pub log: Option<LogLine>,
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
            log: None,
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
    /// A line for the log. Made only where [`crate::Host::logs`] says that it would be written.
    pub log: Option<LogLine>,
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
pub struct Counter(pub u8);

/// A set of counters, each to be incremented by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSet(u128);

impl CounterSet {
    /// The most counters that a filter may have.
    pub const MOST: usize = 128;

    /// Adds a counter to the set.
    pub fn add(&mut self, counter: Counter) {
        self.0 |= 1_u128.checked_shl(u32::from(counter.0)).unwrap_or(0);
    }

    /// Whether the counter is in the set.
    pub fn contains(self, counter: Counter) -> bool {
        self.iter().any(|each| each == counter)
    }

    /// The counters in the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Counter> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = u8::try_from(rest.trailing_zeros()).ok().filter(|_| rest != 0)?;
            rest &= rest.wrapping_sub(1);
            Some(Counter(next))
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
        for place in [127, 0, 7, 7, 128, 255] {
            set.add(Counter(place));
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [Counter(0), Counter(7), Counter(127)]);
        assert!(set.contains(Counter(7)) && !set.contains(Counter(8)));
    }
}
