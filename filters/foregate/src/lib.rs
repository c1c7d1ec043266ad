//! Runs filters of the suite one after the other, in one module: what costs a module, reading the headers above all, is
//! paid once for all of them.
//!
//! A request's way:
//! 1. Each filter, in the order of the list, sees the request as those before it have left it, and what they have found
//!    out about it.
//! 2. The first that refuses ends it. What those before it have done stands.
//! 3. When the response comes, the filters that have something to do about it do it, the last in the list first, as
//!    Envoy has it for filters one after the other.
//! 4. What all of them want done is done at once: of several edits to a header the host hears of the last alone.
//!
//! Entry points: [`Foregate`] (the filter), `config` (the list), `link` (a filter in it), `course` (a message on its way
//! along it), `around` (what a link sees of the host), [`explain`] (a list in sentences).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod around;
pub mod config;
mod course;
pub mod explain;
mod link;

use filter_api::config::ConfigErrors;
use filter_api::{
    Background, Callback, Configured, Facts, Fetched, Filter, Head, Host, OnHostFailure, Outcome,
    ResponseEffects, Work,
};

use crate::course::Course;
pub use crate::course::Kept;
use crate::link::Link;

/// The filter.
#[derive(Debug)]
pub struct Foregate {
    links: Vec<Link>,
}

impl Filter for Foregate {
    const NAME: &'static str = "foregate";
    const CALLBACKS: &'static [Callback] = &[
        Callback::RequestHeaders,
        Callback::RequestBody,
        Callback::RequestTrailers,
        Callback::ResponseHeaders,
        Callback::Tick,
        Callback::HttpCallResponse,
        Callback::Log,
    ];
    // What its filters say, once it is known which these are.
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Refuse;
    // Those of its filters.
    const COUNTERS: &'static [&'static str] = &[];
    type Kept = Kept;

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let (links, warnings) = config::read(json)?;
        Ok(Configured { filter: Self { links }, warnings })
    }

    fn needs(&self, callback: Callback) -> bool {
        self.links.iter().any(|link| link.needs(callback))
    }

    fn on_host_failure(&self) -> OnHostFailure {
        let guards = self.links.iter().any(|link| link.on_host_failure() == OnHostFailure::Refuse);
        if guards { OnHostFailure::Refuse } else { OnHostFailure::Pass }
    }

    fn counter_names(&self) -> Vec<String> {
        self.links.iter().flat_map(Link::counter_names).collect()
    }

    fn on_request(&self, head: &impl Head, host: &impl Host, facts: &Facts) -> Outcome<Kept> {
        Course::new(head, facts).run(&self.links, host)
    }

    fn on_resume(
        &self,
        kept: Option<Kept>,
        head: &impl Head,
        host: &impl Host,
        facts: &Facts,
    ) -> Outcome<Kept> {
        match kept {
            Some(Kept::Request(paused)) => Course::resumed(head, paused).run(&self.links, host),
            _ => self.on_request(head, host, facts),
        }
    }

    fn on_response(&self, kept: &Kept, head: &impl Head, host: &impl Host) -> ResponseEffects {
        course::on_response(&self.links, kept, head, host)
    }

    fn on_log(&self, request: &impl Head, response: &impl Head, host: &impl Host, facts: &Facts) -> Work {
        self.each(|place, link| link.on_log(request, response, host, facts, place))
    }

    fn on_start(&self, background: &impl Background) -> Work {
        self.each(|_, link| link.on_start(background))
    }

    fn on_tick(&self, background: &impl Background) -> Work {
        self.each(|_, link| link.on_tick(background))
    }

    fn on_fetched(&self, fetched: Fetched<'_>, background: &impl Background) -> Work {
        // Whose it is knows it by its number.
        self.each(|_, link| link.on_fetched(fetched, background))
    }

    fn on_end(&self, background: &impl Background) -> Work {
        self.each(|_, link| link.on_end(background))
    }
}

impl Foregate {
    /// Takes a step with each link, and gives what all of them want done.
    fn each(&self, step: impl Fn(usize, &Link) -> Work) -> Work {
        let mut all = Work::default();
        for (place, link) in self.links.iter().enumerate() {
            let work = step(place, link);
            let counters = work.counters.iter().map(|counter| link.counter(counter));
            counters.for_each(|counter| all.counters.add(counter));
            let counts = work.counts.iter().map(|(counter, by)| (link.counter(*counter), *by));
            all.counts.extend(counts);
            all.add(Work { counters: Default::default(), counts: Vec::new(), ..work });
        }
        all
    }
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::Foregate);

#[cfg(test)]
mod tests;
