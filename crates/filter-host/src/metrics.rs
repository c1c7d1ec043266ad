//! Counters, defined once a VM: defining one costs a crossing and a look-up by name, incrementing
//! it by its id costs neither.

use std::cell::RefCell;
use std::rc::Rc;

use filter_api::{CounterSet, Filter, Level};

use crate::calls;

/// The ids of a filter's counters, by their place in [`Filter::COUNTERS`].
#[derive(Debug)]
pub(crate) struct Metrics(Vec<Option<u32>>);

thread_local! {
    /// Every filter's counters in this VM. A new configuration makes a new context in the old VM,
    /// which finds its counters here.
    static DEFINED: RefCell<Vec<(&'static str, Rc<Metrics>)>> = const { RefCell::new(Vec::new()) };
}

impl Metrics {
    /// The counters of this filter.
    pub(crate) fn of<F: Filter>() -> Rc<Self> {
        const { assert!(F::COUNTERS.len() <= CounterSet::MOST, "a filter has more counters than a set holds") };
        DEFINED.with_borrow_mut(|defined| {
            if let Some((_, metrics)) = defined.iter().find(|(name, _)| *name == F::NAME) {
                return Rc::clone(metrics);
            }
            let define = |counter: &&str| {
                let name = format!("foregate.{}.{counter}", F::NAME);
                let id = calls::define_counter(&name);
                if let Err(failed) = id {
                    calls::log(Level::Warn, &format!("{name}: the host refused the counter: {}", failed.0));
                }
                id.ok()
            };
            let metrics = Rc::new(Self(F::COUNTERS.iter().map(define).collect()));
            defined.push((F::NAME, Rc::clone(&metrics)));
            metrics
        })
    }

    /// Adds one to each counter of the set. A count that is lost does not stop a request.
    pub(crate) fn count(&self, counters: CounterSet) {
        for counter in counters.iter() {
            if let Some(Some(id)) = self.0.get(usize::from(counter.0)) {
                let _ = calls::increment(*id);
            }
        }
    }
}
