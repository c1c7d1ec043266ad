//! What a filter may do between requests: fetch things, and share them with its other workers.
//!
//! Every worker runs the filter in a VM of its own. What they share are cells: bytes by name, each with a
//! version, to be replaced only by who has seen the current one.

use crate::{CounterSet, HeaderName, HeaderValue, Level, LogLine, Moment};

/// What a filter may ask for between requests.
pub trait Background {
    /// This moment.
    fn moment(&self) -> Moment;

    /// A cell's content; none where nobody has written it, or it cannot be read.
    fn shared(&self, cell: &str) -> Option<SharedValue>;

    /// Writes a cell whatever it holds. Returns whether it was written.
    fn share(&self, cell: &str, content: &[u8]) -> bool;

    /// Writes a cell if it still has this version. Returns whether it was written. A cell that nobody has
    /// written has no version: any is taken for right, so that two workers may both believe to have been
    /// first. Hence cells are made in [`crate::Filter::on_start`].
    fn share_if(&self, cell: &str, content: &[u8], version: u32) -> bool;

    /// Starts an HTTP call; what becomes of it is told to [`crate::Filter::on_fetched`] by this number, unless
    /// the configuration ends before. Never more than once.
    ///
    /// # Errors
    /// It cannot be started: the host does not know the cluster, or does not allow calls.
    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, FetchRefused>;
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedValue {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The version, for [`Background::share_if`].
    pub version: u32,
}

/// A GET request to be made.
#[derive(Debug, Clone, Copy)]
pub struct Fetch<'a> {
    /// The name of Envoy's cluster.
    pub cluster: &'a str,
    /// The header lines, `:method`, `:path`, `:authority` and `:scheme` among them.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// When to give up, in milliseconds.
    pub timeout_millis: u32,
}

/// The host does not start a call: its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchRefused(pub u32);

/// What became of a fetch.
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
    /// Lines for the log. Errors and warnings only: nobody asks for these steps one by one.
    pub log: Vec<LogLine>,
    /// Whether requests that wait should be decided about again.
    pub resume: bool,
    /// Whether the next tick should come at once rather than in a second.
    pub soon: bool,
}

impl Work {
    /// Adds what another step wants done.
    pub fn add(&mut self, other: Self) {
        other.counters.iter().for_each(|counter| self.counters.add(counter));
        self.log.extend(other.log);
        self.resume |= other.resume;
        self.soon |= other.soon;
    }

    /// Adds a line.
    pub fn log(&mut self, level: Level, text: impl Into<String>) {
        self.log.push(LogLine { level, text: text.into() });
    }
}
