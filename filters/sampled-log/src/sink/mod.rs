//! Where lines go: to Envoy's log, to its access logs, or to a collector, through a cluster of Envoy's. Of the last:
//!
//! 1. A line that is finished waits in a queue of the worker's, which is bounded by bytes; what does not fit is lost.
//! 2. When enough lines wait, or the oldest has waited long enough, a batch is sent; one at a time.
//! 3. A collector that cannot take it now is asked again, later and later; one that says no is not.
//! 4. Every line that does not arrive is counted, by why.
//! 5. What waits when a configuration ends is sent at once, by another that serves the same worker.
//!
//! Entry points: [`Settings`] (the configuration), [`Outbox`] (queue, batches, retries), [`otlp`] (the body), [`Heir`] (what
//! outlasts a configuration).

mod heir;
mod otlp;
mod outbox;
mod settings;

pub(crate) use self::heir::Heir;
pub(crate) use self::outbox::{Outbox, Waiting};
pub(crate) use self::settings::{Sink, read_sink};

#[cfg(test)]
mod tests;
