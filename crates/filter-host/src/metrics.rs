//! Counters, defined once a VM: defining one costs a crossing and a look-up by name, incrementing
//! it by its id costs neither.

use std::cell::RefCell;
use std::collections::BTreeMap;

use filter_api::{Counter, CounterSet, Filter, Level};

use crate::calls;

/// The ids of a filter's counters, by their places.
#[derive(Debug)]
pub(crate) struct Metrics(Vec<Option<u32>>);

thread_local! {
    /// Every counter defined in this VM, by its name. A new configuration makes a new context in the old VM,
    /// which finds its counters here.
    static DEFINED: RefCell<BTreeMap<String, Option<u32>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Metrics {
    /// The counters of this filter.
    pub(crate) fn of(filter: &impl Filter) -> Self {
        let names = filter.counter_names().into_iter();
        Self(names.map(|counter| id_of(format!("foregate.{counter}"))).collect())
    }

    /// Adds one to each counter of the set. A count that is lost does not stop a request.
    pub(crate) fn count(&self, counters: CounterSet) {
        for counter in counters.iter() {
            self.add(counter, 1);
        }
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, counter: Counter, by: u32) {
        if let Some(Some(id)) = self.0.get(usize::from(counter.0)) {
            let _ = calls::increment(*id, by);
        }
    }
}

fn id_of(name: String) -> Option<u32> {
    DEFINED.with_borrow_mut(|defined| {
        if let Some(id) = defined.get(&name) {
            return *id;
        }
        let id = calls::define_counter(&name);
        if let Err(failed) = id {
            calls::log(Level::Warn, &format!("{name}: the host refused the counter: {}", failed.0));
        }
        defined.insert(name, id.ok());
        id.ok()
    })
}
