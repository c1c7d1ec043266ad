//! The queue of a worker's lines, and the batches that they leave it in.

use std::cell::RefCell;
use std::collections::VecDeque;

use filter_api::{Background, Counter, Fetch, Fetched, Filter, HostFailed, Level, Moment, Response, Work};

use super::otlp;
use super::settings::{Format, Settings};
use crate::{SampledLog, counters};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// How long to wait after the first failure; each time twice as long.
const FIRST_DELAY: u64 = 250 * MILLISECOND;
/// And at most.
const MOST_DELAY: u64 = 10 * SECOND;
/// The most that a collector may ask for by `retry-after`.
const MOST_ASKED_FOR: u64 = 30 * SECOND;
/// The least time between two lines in Envoy's log about lines that are lost.
const BETWEEN_COMPLAINTS: u64 = 60 * SECOND;
/// Ticks come this often by themselves.
const TICK: u64 = SECOND;
/// How long lines of a configuration that has ended are still sent, not counting the last answer.
const MOST_FLUSHING: u64 = 10 * SECOND;
/// The longest answer to a batch that is looked into.
const MOST_ANSWER_BYTES: usize = 65_536;

/// A line that waits to be sent.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The line, without a line feed.
    pub(crate) text: Box<str>,
    /// The status of the response; 0 for none.
    pub(crate) status: u64,
    /// When its request began, in nanoseconds since 1970.
    pub(crate) time: u64,
    /// Since when it waits, likewise.
    pub(crate) since: u64,
}

/// The lines of one worker and configuration that are to be sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    settings: Settings,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first; the batch is at the front until it is settled.
    lines: VecDeque<Waiting>,
    /// Bytes of all of them.
    bytes: usize,
    batch: Option<Batch>,
    /// Until when they are sent, where their configuration has ended.
    until: Option<u64>,
    /// When it was last told that lines are lost.
    told_at: Option<u64>,
    /// Lines lost since.
    untold: u64,
}

/// So many lines at the front of the queue.
#[derive(Debug, Clone, Copy)]
struct Batch {
    lines: usize,
    /// How often they were sent.
    tries: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Sent by the fetch of this number.
    Sent(u32),
    /// To be sent (again) at this time.
    At(u64),
}

/// What became of a batch.
enum Outcome {
    Taken,
    /// The collector cannot now, and says for how many nanoseconds, if it does.
    Later(String, Option<u64>),
    Refused(String),
}

impl Outbox {
    /// With nothing in it.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, state: RefCell::default() }
    }

    /// Takes a line in, if there is room.
    pub(crate) fn push(&self, line: Waiting) -> Work {
        let mut work = Work::default();
        let mut state = self.state.borrow_mut();
        let now = line.since;
        let bytes = state.bytes.saturating_add(line.text.len());
        if bytes > self.settings.max_queued_bytes {
            state.lose(1, counters::LOST_QUEUE_FULL, "the queue is full (max_queued_bytes)", now, &mut work);
            return work;
        }
        state.bytes = bytes;
        state.lines.push_back(line);
        work.soon = self.is_soon(&state, now);
        work
    }

    /// Sends what is due.
    pub(crate) fn tick(&self, background: &impl Background) -> Work {
        let mut work = Work::default();
        self.send_due(background, &mut work);
        work
    }

    /// Takes what became of a batch, and sends the next if one is due.
    pub(crate) fn fetched(&self, fetched: &Fetched<'_>, background: &impl Background) -> Work {
        let mut work = Work::default();
        let mut state = self.state.borrow_mut();
        let moment = background.moment();
        let batch = match state.batch {
            Some(batch @ Batch { stage: Stage::Sent(number), .. }) if number == fetched.number => batch,
            _ => {
                work.soon = self.is_soon(&state, moment.unix_nanos);
                return work;
            }
        };
        self.settle(&mut state, batch, fetched.response, moment, &mut work);
        drop(state);
        self.send_due(background, &mut work);
        work
    }

    /// Leaves what waits to another configuration, which is to send it at once. The host breaks off what is under way with
    /// its configuration, so that is to be sent again.
    pub(super) fn hand_over(&self, background: &impl Background) {
        let mut state = self.state.borrow_mut();
        let now = background.moment().unix_nanos;
        state.until.get_or_insert(now.saturating_add(MOST_FLUSHING));
        if let Some(Batch { stage: stage @ Stage::Sent(_), .. }) = &mut state.batch {
            *stage = Stage::At(now);
        }
    }

    /// Sends a last batch, and counts all that waits: whether anything arrives nobody will know.
    pub(super) fn end(&self, background: &impl Background) -> Work {
        let mut work = Work::default();
        let mut state = self.state.borrow_mut();
        let under_way = match state.batch {
            Some(Batch { lines, stage: Stage::Sent(_), .. }) => lines,
            _ => 0,
        };
        let waiting = || state.lines.iter().skip(under_way);
        if waiting().next().is_some() {
            let last = waiting().take(self.next_batch(waiting()));
            let _ = self.fetch(last, background);
        }
        let lines = state.lines.len();
        state.remove(lines);
        count(&mut work, counters::LOST_ENDED, lines as u64);
        work
    }

    /// Whether nothing waits or is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.state.borrow().lines.is_empty()
    }

    fn send_due(&self, background: &impl Background, work: &mut Work) {
        let mut state = self.state.borrow_mut();
        let now = background.moment().unix_nanos;
        if state.is_over(now) {
            let lines = state.lines.len();
            state.remove(lines);
            let why = "the collector did not take them in the time after their configuration's end";
            state.lose(lines as u64, counters::LOST_ENDED, why, now, work);
        }
        if self.is_due(&state, now, 0) {
            self.send(&mut state, now, background, work);
        }
        work.soon = self.is_soon(&state, now);
    }

    /// Whether the next tick that comes by itself would be too late.
    fn is_soon(&self, state: &State, now: u64) -> bool {
        self.is_due(state, now, TICK)
    }

    /// Whether something is to be sent now, or is before so much time has passed.
    fn is_due(&self, state: &State, now: u64, ahead: u64) -> bool {
        let near = |at, longest| is_near(at, now, ahead, longest);
        match (state.batch, state.lines.front()) {
            (Some(Batch { stage: Stage::Sent(_), .. }), _) | (None, None) => false,
            (Some(Batch { stage: Stage::At(at), .. }), _) => near(at, MOST_ASKED_FOR),
            (None, Some(oldest)) => {
                let interval = self.settings.flush_interval;
                state.until.is_some()
                    || state.lines.len() >= self.settings.max_batch_lines
                    || state.bytes >= self.settings.max_batch_bytes
                    || near(oldest.since.saturating_add(interval), interval)
            }
        }
    }

    fn send(&self, state: &mut State, now: u64, background: &impl Background, work: &mut Work) {
        let (lines, tries) = match state.batch {
            Some(batch) => (batch.lines, batch.tries),
            None => (self.next_batch(state.lines.iter()), 0),
        };
        match self.fetch(state.lines.iter().take(lines), background) {
            Ok(number) => {
                let tries = tries.saturating_add(1);
                state.batch = Some(Batch { lines, tries, stage: Stage::Sent(number) });
            }
            Err(HostFailed(status)) => {
                let why = format!(
                    "the host does not send them (status {status}): is there a cluster {:?}, and \
                     proxy_http_call allowed?",
                    self.settings.cluster
                );
                work.counters.add(counters::BATCHES_FAILED);
                state.remove(lines);
                state.lose(lines as u64, counters::LOST_REFUSED, &why, now, work);
            }
        }
    }

    fn fetch<'l>(
        &self,
        batch: impl Iterator<Item = &'l Waiting>,
        background: &impl Background,
    ) -> Result<u32, HostFailed> {
        let settings = &self.settings;
        let body = match settings.format {
            Format::Otlp => otlp::body(batch),
            Format::Ndjson => {
                let mut body = Vec::new();
                for line in batch {
                    body.extend_from_slice(line.text.as_bytes());
                    body.push(b'\n');
                }
                body
            }
        };
        background.fetch(&Fetch {
            cluster: &settings.cluster,
            headers: &settings.headers,
            body: &body,
            timeout_millis: settings.timeout_millis,
        })
    }

    /// How many of these lines, the next to be sent, are in a batch: one at least.
    fn next_batch<'l>(&self, lines: impl Iterator<Item = &'l Waiting>) -> usize {
        let mut bytes = 0_usize;
        let fits = |line: &&Waiting| {
            bytes = bytes.saturating_add(line.text.len());
            bytes <= self.settings.max_batch_bytes
        };
        lines.take(self.settings.max_batch_lines).take_while(fits).count().max(1)
    }

    fn settle(
        &self,
        state: &mut State,
        batch: Batch,
        response: Option<&dyn Response>,
        moment: Moment,
        work: &mut Work,
    ) {
        let now = moment.unix_nanos;
        let lines = batch.lines as u64;
        match outcome(response) {
            Outcome::Taken => {
                let rejected = match (self.settings.format, response) {
                    (Format::Otlp, Some(response)) => rejected(response).min(lines),
                    _ => 0,
                };
                work.counters.add(counters::BATCHES_OK);
                count(work, counters::SENT, lines.saturating_sub(rejected));
                state.remove(batch.lines);
                let why = "the collector has taken the others of their batch alone (partialSuccess)";
                state.lose(rejected, counters::LOST_REFUSED, why, now, work);
            }
            Outcome::Later(_, asked) if batch.tries <= self.settings.retries => {
                work.counters.add(counters::BATCHES_RETRIED);
                let delay = delay(batch.tries, moment.dice).max(asked.unwrap_or(0));
                state.batch = Some(Batch { stage: Stage::At(now.saturating_add(delay)), ..batch });
            }
            Outcome::Later(why, _) => {
                work.counters.add(counters::BATCHES_FAILED);
                state.remove(batch.lines);
                let why = format!("{} tries in vain; {why}", batch.tries);
                state.lose(lines, counters::LOST_GAVE_UP, &why, now, work);
            }
            Outcome::Refused(why) => {
                work.counters.add(counters::BATCHES_FAILED);
                state.remove(batch.lines);
                state.lose(lines, counters::LOST_REFUSED, &why, now, work);
            }
        }
    }

    /// How many lines wait or are under way, and their bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let state = self.state.borrow();
        (state.lines.len(), state.bytes)
    }
}

impl State {
    /// Whether the time is up in which what waits is still sent. An answer is always waited for.
    fn is_over(&self, now: u64) -> bool {
        !matches!(self.batch, Some(Batch { stage: Stage::Sent(_), .. }))
            && self.until.is_some_and(|until| is_near(until, now, 0, MOST_FLUSHING))
    }

    /// Takes a batch that is settled from the queue.
    fn remove(&mut self, lines: usize) {
        self.batch = None;
        for line in self.lines.drain(..lines.min(self.lines.len())) {
            self.bytes = self.bytes.saturating_sub(line.text.len());
        }
        if self.lines.is_empty() {
            // What a bad time has made it grow to.
            self.lines.shrink_to(256);
        }
    }

    /// Counts lines that are lost, and tells of them unless it was told lately.
    fn lose(&mut self, lines: u64, reason: Counter, why: &str, now: u64, work: &mut Work) {
        if lines == 0 {
            return;
        }
        count(work, reason, lines);
        self.untold = self.untold.saturating_add(lines);
        if self.told_at.is_some_and(|at| now.abs_diff(at) < BETWEEN_COMPLAINTS) {
            return;
        }
        self.told_at = Some(now);
        let lost = std::mem::take(&mut self.untold);
        let text = format!("{}: sink.http: lines lost: {lost}; the last because {why}", SampledLog::NAME);
        work.log(Level::Error, text);
    }
}

/// Whether a time has come, or is less than `ahead` away. None is more than `longest` away unless the clock was put back,
/// which must not keep lines for as long as it was put back by.
fn is_near(at: u64, now: u64, ahead: u64, longest: u64) -> bool {
    let away = at.saturating_sub(now);
    away == 0 || away < ahead || away > longest
}

fn outcome(response: Option<&dyn Response>) -> Outcome {
    let Some(response) = response else {
        return Outcome::Later("the response broke off".to_owned(), None);
    };
    let status = response.header(":status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let why = format!("the collector's answer is {status}");
    match &*status {
        "429" | "502" | "503" | "504" => Outcome::Later(why, asked_for(response)),
        _ if status.starts_with('2') => Outcome::Taken,
        _ => Outcome::Refused(why),
    }
}

/// How many nanoseconds the collector asks for, in whole seconds; a date is not understood.
fn asked_for(response: &dyn Response) -> Option<u64> {
    let seconds: u64 = std::str::from_utf8(&response.header("retry-after")?).ok()?.trim().parse().ok()?;
    Some(seconds.saturating_mul(SECOND).min(MOST_ASKED_FOR))
}

fn rejected(response: &dyn Response) -> u64 {
    match response.body_length() {
        1..=MOST_ANSWER_BYTES => response.body().map_or(0, |body| otlp::rejected(&body)),
        _ => 0,
    }
}

/// How long to wait after so many tries, less a part that the dice choose: workers must not all come at once.
fn delay(tries: u32, dice: u64) -> u64 {
    let factor = 1_u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX);
    let delay = FIRST_DELAY.saturating_mul(factor).min(MOST_DELAY);
    delay.saturating_sub((delay / 4000).saturating_mul(dice % 1000))
}

fn count(work: &mut Work, counter: Counter, by: u64) {
    if by > 0 {
        work.counts.push((counter, u32::try_from(by).unwrap_or(u32::MAX)));
    }
}
