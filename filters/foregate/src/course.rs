//! A message on its way along the list.

use filter_api::{
    Counter, CounterSet, Edited, Effects, Facts, Head, HeaderOp, Host, LogLine, Outcome, Property,
    ResponseEffects, Waiting,
};
use smallvec::SmallVec;

use crate::around::Around;
use crate::link::{self, Link};

/// What is kept of a request.
#[derive(Debug)]
pub enum Kept {
    /// Of one that waits.
    Request(Paused),
    /// What is to be done about its response.
    Response(Answering),
}

/// What is to be done about a response, in the order of the list.
type Answering = SmallVec<[ToDo; 1]>;

/// What one filter wants done about a response.
#[derive(Debug)]
pub struct ToDo {
    /// Its place in the list.
    place: usize,
    /// What was known when the request came.
    operations: Vec<HeaderOp>,
    /// What it is to be asked with.
    kept: Option<link::Kept>,
}

/// A request that waits.
#[derive(Debug)]
pub struct Paused {
    /// The place of the filter that it waits for.
    place: usize,
    /// Since when, in nanoseconds since 1970.
    since: u64,
    edits: Vec<HeaderOp>,
    facts: Facts,
    properties: Vec<Property>,
    answering: Answering,
}

/// A request on its way.
pub(crate) struct Course<'h, H> {
    edited: Edited<'h, H>,
    facts: Facts,
    properties: Vec<Property>,
    counters: CounterSet,
    counts: Vec<(Counter, u32)>,
    log: Vec<LogLine>,
    answering: Answering,
    /// Where it goes on, and since when it has waited there.
    resumed: Option<(usize, u64)>,
}

impl<'h, H: Head> Course<'h, H> {
    /// At its beginning.
    pub(crate) fn new(head: &'h H, facts: &Facts) -> Self {
        Self {
            edited: Edited::new(head),
            facts: facts.clone(),
            properties: Vec::new(),
            counters: CounterSet::default(),
            counts: Vec::new(),
            log: Vec::new(),
            answering: Answering::new(),
            resumed: None,
        }
    }

    /// Where it has waited.
    pub(crate) fn resumed(head: &'h H, paused: Paused) -> Self {
        let Paused { place, since, edits, facts, properties, answering } = paused;
        let mut course = Self {
            facts,
            properties,
            answering,
            resumed: Some((place, since)),
            ..Self::new(head, &Facts::default())
        };
        edits.into_iter().for_each(|operation| course.edited.apply(operation));
        course
    }

    /// Goes along the list, as far as it goes.
    pub(crate) fn run(mut self, links: &[Link], host: &impl Host) -> Outcome<Kept> {
        let start = self.resumed.map_or(0, |(place, _)| place);
        for (place, link) in links.iter().enumerate().skip(start) {
            let waiting = match (host.waiting(), self.resumed) {
                (Waiting::Since(_), Some((own, since))) if own == place => Waiting::Since(since),
                (Waiting::Since(_), _) => Waiting::NotYet,
                (other, _) => other,
            };
            let around = Around { host, properties: &self.properties, waiting, place };
            match link.on_request(&self.edited, &around, &self.facts) {
                Outcome::Continue(effects) => self.take(place, link, effects),
                Outcome::Reply(reply, effects) => {
                    // Who refuses a request edits nothing of it.
                    self.take(place, link, effects);
                    self.foresee(links);
                    return Outcome::Reply(reply, self.finish());
                }
                Outcome::Wait(until, effects) => {
                    self.observe(link, effects.counters, effects.counts, effects.log);
                    let since = match waiting {
                        Waiting::Since(since) => since,
                        Waiting::NotYet | Waiting::Never => host.moment().unix_nanos,
                    };
                    return Outcome::Wait(until, self.pause(place, since));
                }
            }
        }
        self.foresee(links);
        Outcome::Continue(self.finish())
    }

    /// Notes what spares a log reading the headers once more.
    fn foresee(&mut self, links: &[Link]) {
        if self.edited.is_at_hand() {
            let number = links.iter().find_map(|link| link.foresee(&self.edited));
            self.facts.0.extend(number);
        }
    }

    /// Takes what a filter wants done.
    fn take(&mut self, place: usize, link: &Link, effects: Effects<link::Kept>) {
        let Effects { headers, response, kept, counters, counts, facts, properties, log } = effects;
        headers.into_iter().for_each(|operation| self.edited.apply(operation));
        if kept.is_some() || !response.is_empty() {
            self.answering.push(ToDo { place, operations: response, kept });
        }
        self.observe(link, counters, counts, log);
        self.facts.0.extend(facts.0);
        for property in properties {
            self.properties.retain(|other| other.name != property.name);
            self.properties.push(property);
        }
    }

    fn observe(&mut self, link: &Link, counters: CounterSet, counts: Vec<(Counter, u32)>, log: Vec<LogLine>) {
        counters.iter().for_each(|counter| self.counters.add(link.counter(counter)));
        self.counts.extend(counts.into_iter().map(|(counter, by)| (link.counter(counter), by)));
        self.log.extend(log);
    }

    fn pause(self, place: usize, since: u64) -> Effects<Kept> {
        let Self { edited, facts, properties, counters, counts, log, answering, resumed: _ } = self;
        let paused = Paused { place, since, edits: edited.finish(), facts, properties, answering };
        Effects { kept: Some(Kept::Request(paused)), counters, counts, log, ..Effects::default() }
    }

    fn finish(self) -> Effects<Kept> {
        let Self { edited, facts, properties, counters, counts, log, answering, resumed: _ } = self;
        let headers = edited.finish();
        let (response, kept) = if answering.iter().any(|to_do| to_do.kept.is_some()) {
            (Vec::new(), Some(Kept::Response(answering)))
        } else {
            (known(answering), None)
        };
        Effects { headers, response, kept, counters, counts, facts, properties, log }
    }
}

/// What is to be done about a response where no filter need look at it.
fn known(answering: Answering) -> Vec<HeaderOp> {
    if answering.len() < 2 {
        return answering.into_iter().next().map(|to_do| to_do.operations).unwrap_or_default();
    }
    let mut edited = Edited::new(&Unseen);
    let last_first = answering.into_iter().rev().flat_map(|to_do| to_do.operations);
    last_first.for_each(|operation| edited.apply(operation));
    edited.finish()
}

/// A head that is not there yet.
#[derive(Debug)]
struct Unseen;

impl Head for Unseen {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        std::iter::empty()
    }
}

/// Does what is to be done about a response: the last filter of the list first, each with the edits of those after it.
pub(crate) fn on_response(
    links: &[Link],
    kept: &Kept,
    head: &impl Head,
    host: &impl Host,
) -> ResponseEffects {
    let mut all = ResponseEffects::default();
    // A request that waits has no response.
    let Kept::Response(answering) = kept else { return all };
    let mut edited = Edited::new(head);
    for ToDo { place, operations, kept } in answering.iter().rev() {
        operations.iter().cloned().for_each(|operation| edited.apply(operation));
        let (Some(kept), Some(link)) = (kept, links.get(*place)) else { continue };
        let around = Around { host, properties: &[], waiting: Waiting::Never, place: *place };
        let effects = link.on_response(kept, &edited, &around);
        effects.counters.iter().for_each(|counter| all.counters.add(link.counter(counter)));
        all.log.extend(effects.log);
        effects.headers.into_iter().for_each(|operation| edited.apply(operation));
    }
    all.headers = edited.finish();
    all
}
