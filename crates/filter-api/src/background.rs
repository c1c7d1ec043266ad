//! What a filter may do between requests: fetch things, and share them with its other workers.
//!
//! Every worker runs the filter in a VM of its own. What they share are [`Cells`].

use crate::{
    Cells, Counter, CounterSet, HeaderName, HeaderValue, HostFailed, Level, LogLine, Moment, Property,
};

/// What a filter may ask for between requests.
pub trait Background: Cells {
    /// This moment.
    fn moment(&self) -> Moment;

    /// Starts an HTTP call; what becomes of it is told to [`crate::Filter::on_fetched`] by this number, unless
    /// the configuration ends before. Never more than once.
    ///
    /// # Errors
    /// It cannot be started: the host does not know the cluster, or does not allow calls.
    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, HostFailed>;
}

/// A request to be made.
#[derive(Debug, Clone, Copy)]
pub struct Fetch<'a> {
    /// The name of Envoy's cluster.
    pub cluster: &'a str,
    /// The header lines, `:method`, `:path`, `:authority` and `:scheme` among them.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// The body; empty for a request without one. The host gives its length by itself.
    pub body: &'a [u8],
    /// When to give up, in milliseconds.
    pub timeout_millis: u32,
}

/// What became of a fetch.
#[derive(Clone, Copy)]
pub struct Fetched<'a> {
    /// The number that [`Background::fetch`] gave it.
    pub number: u32,
    /// The response; none where it broke off. Where there was none at all, Envoy makes one: 503 where it could
    /// not connect, 504 where none came in time.
    pub response: Option<&'a dyn Response>,
}

/// A response to a fetch. Nothing of it is copied before it is asked for.
pub trait Response {
    /// The values of all header lines of this name (lower case), joined by commas.
    fn header(&self, name: &str) -> Option<Vec<u8>>;

    /// How long the body is, in bytes.
    fn body_length(&self) -> usize;

    /// The body; none where the host does not hand it over.
    fn body(&self) -> Option<Vec<u8>>;
}

/// What a filter wants done after a step behind the scenes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Counters to increment by one.
    pub counters: CounterSet,
    /// Counters to increment by more.
    pub counts: Vec<(Counter, u32)>,
    /// Lines for the log. Behind the scenes errors and warnings only: nobody asks for these steps one by one.
    pub log: Vec<LogLine>,
    /// Findings about the request that has ended, for the access logs that are written after the filter was asked. Of
    /// [`crate::Filter::on_log`] only: behind the scenes there is no request.
    pub properties: Vec<Property>,
    /// Whether requests that wait should be decided about again.
    pub resume: bool,
    /// Whether the next tick should come at once rather than in a second.
    pub soon: bool,
}

impl Work {
    /// Adds what another step wants done.
    pub fn add(&mut self, other: Self) {
        other.counters.iter().for_each(|counter| self.counters.add(counter));
        self.counts.extend(other.counts);
        self.log.extend(other.log);
        self.properties.extend(other.properties);
        self.resume |= other.resume;
        self.soon |= other.soon;
    }

    /// Adds a line.
    pub fn log(&mut self, level: Level, text: impl Into<String>) {
        self.log.push(LogLine { level, text: text.into() });
    }
}
