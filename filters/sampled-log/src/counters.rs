//! The filter's counters.

use filter_api::Counter;

/// All of them.
pub(crate) const COUNTERS: &[&str] = &[
    "lines.why.always",
    "lines.why.sampled",
    "dropped",
    "truncated",
    "sent",
    "batches.result.ok",
    "batches.result.retried",
    "batches.result.failed",
    "lost.reason.queue_full",
    "lost.reason.gave_up",
    "lost.reason.refused",
    "lost.reason.ended",
];

/// Lines of requests that are always logged.
pub const ALWAYS: Counter = Counter(0);
/// Lines of requests that are among the sample.
pub const SAMPLED: Counter = Counter(1);
/// Lines that the budget did not allow.
pub const DROPPED: Counter = Counter(2);
/// Lines that something was left out of, or cut.
pub const TRUNCATED: Counter = Counter(3);
/// Lines that the collector has taken.
pub const SENT: Counter = Counter(4);
/// Batches that it has taken.
pub const BATCHES_OK: Counter = Counter(5);
/// Batches that could not be delivered, and are to be sent again: counted each time.
pub const BATCHES_RETRIED: Counter = Counter(6);
/// Batches that are lost.
pub const BATCHES_FAILED: Counter = Counter(7);
/// Lines that there was no room for in the queue.
pub const LOST_QUEUE_FULL: Counter = Counter(8);
/// Lines that were sent in vain as often as allowed.
pub const LOST_GAVE_UP: Counter = Counter(9);
/// Lines that the collector, or the host, does not want.
pub const LOST_REFUSED: Counter = Counter(10);
/// Lines that waited when their configuration ended.
pub const LOST_ENDED: Counter = Counter(11);
