//! A message on its way through the operations.

use std::cell::{OnceCell, RefCell};

use filter_api::matcher::{PathView, RequestMatcher};
use filter_api::template::{Piece, Sources, Template, Written};
use filter_api::{CounterSet, Edited, Facts, Head, HeaderOp, Host};
use smallvec::SmallVec;

use crate::condition::{Holds, When};
use crate::counters::Skipped;
use crate::value::Value;

/// What of a request is kept until its response comes.
#[derive(Debug, Default)]
pub struct Kept {
    /// Which conditions hold, by their places.
    pub(crate) holds: SmallVec<[Holds; 8]>,
    /// Templates with what they need of the request written out, by their places.
    pub(crate) settled: Vec<Option<Template>>,
}

/// A message on its way, and what operations may ask about it.
pub(crate) trait Stage<'h> {
    /// The head of the message.
    type Head: Head + 'h;

    /// What every message has.
    fn message(&self) -> &Message<'h, Self::Head>;

    /// The same, to be changed.
    fn message_mut(&mut self) -> &mut Message<'h, Self::Head>;

    /// Whether conditions hold.
    fn holds(&self, when: &When) -> Holds;

    /// The template of a value, with what is known of the request by now.
    fn template<'v>(&'v self, value: &'v Value) -> &'v Template;

    /// Evaluates a template piece by piece.
    fn each(&self, template: &Template, take: impl FnMut(Piece<'_>)) -> Written;

    /// Whether the path is being rewritten for the first time.
    fn is_first_rewrite(&mut self) -> bool;

    /// The message as it stands.
    fn edited(&self) -> &Edited<'h, Self::Head> {
        &self.message().edited
    }

    /// The message, to be edited.
    fn edit(&mut self) -> &mut Edited<'h, Self::Head> {
        &mut self.message_mut().edited
    }

    /// Notes that an operation was left out.
    fn skip(&mut self, why: Skipped) {
        self.message_mut().counters.add(why.counter());
    }
}

/// What every message has.
pub(crate) struct Message<'h, H> {
    edited: Edited<'h, H>,
    counters: CounterSet,
    /// Room for a value under way. Nobody keeps it borrowed.
    pub(crate) buffer: RefCell<Vec<u8>>,
}

impl<'h, H: Head> Message<'h, H> {
    fn new(head: &'h H) -> Self {
        Self { edited: Edited::new(head), counters: CounterSet::default(), buffer: RefCell::default() }
    }

    fn finish(self) -> (Vec<HeaderOp>, CounterSet) {
        (self.edited.finish(), self.counters)
    }
}

/// A request.
pub(crate) struct AtRequest<'h, H, T> {
    message: Message<'h, H>,
    /// The path that conditions are about: as it came.
    path: OnceCell<PathView<'h>>,
    host: &'h T,
    facts: &'h Facts,
    is_rewritten: bool,
}

/// A response.
pub(crate) struct AtResponse<'h, H, T> {
    message: Message<'h, H>,
    host: &'h T,
    kept: &'h Kept,
}

impl<'h, H: Head, T: Host> AtRequest<'h, H, T> {
    pub(crate) fn new(head: &'h H, host: &'h T, facts: &'h Facts) -> Self {
        Self { message: Message::new(head), path: OnceCell::new(), host, facts, is_rewritten: false }
    }

    /// Whether the request, as it came, meets a condition.
    pub(crate) fn meets(&self, matcher: &RequestMatcher) -> Holds {
        let head = self.edited().original();
        let path = self.path.get_or_init(|| PathView::new(head.of(":path").next().unwrap_or_default()));
        if matcher.matches(head, path) {
            Holds::Yes
        } else if matcher.depends_on_path() && matcher.may_match(head, path) {
            Holds::Maybe
        } else {
            Holds::No
        }
    }

    /// A template for the response, with what it needs of the request as it stands.
    pub(crate) fn settled(&self, template: &Template) -> Option<Template> {
        template.settled(&self.sources())
    }

    pub(crate) fn finish(self) -> (Vec<HeaderOp>, CounterSet) {
        self.message.finish()
    }

    fn sources(&self) -> Sources<'_, Edited<'h, H>, filter_api::HeadMap, T> {
        Sources::of_request(self.edited(), self.host, self.facts)
    }
}

impl<'h, H: Head, T: Host> Stage<'h> for AtRequest<'h, H, T> {
    type Head = H;

    fn message(&self) -> &Message<'h, H> {
        &self.message
    }

    fn message_mut(&mut self) -> &mut Message<'h, H> {
        &mut self.message
    }

    fn holds(&self, when: &When) -> Holds {
        let holds = when.request.as_ref().map_or(Holds::Yes, |request| self.meets(&request.matcher));
        if holds != Holds::No && !when.if_header.iter().all(|condition| condition.holds(self.edited())) {
            return Holds::No;
        }
        holds
    }

    fn template<'v>(&'v self, value: &'v Value) -> &'v Template {
        &value.template
    }

    fn each(&self, template: &Template, take: impl FnMut(Piece<'_>)) -> Written {
        template.each(&self.sources(), take)
    }

    fn is_first_rewrite(&mut self) -> bool {
        !std::mem::replace(&mut self.is_rewritten, true)
    }
}

impl<'h, H: Head, T: Host> AtResponse<'h, H, T> {
    pub(crate) fn new(head: &'h H, host: &'h T, kept: &'h Kept) -> Self {
        Self { message: Message::new(head), host, kept }
    }

    pub(crate) fn finish(self) -> (Vec<HeaderOp>, CounterSet) {
        self.message.finish()
    }
}

impl<'h, H: Head, T: Host> Stage<'h> for AtResponse<'h, H, T> {
    type Head = H;

    fn message(&self) -> &Message<'h, H> {
        &self.message
    }

    fn message_mut(&mut self) -> &mut Message<'h, H> {
        &mut self.message
    }

    fn holds(&self, when: &When) -> Holds {
        let holds = match &when.request {
            Some(request) => self.kept.holds.get(request.place).copied().unwrap_or_default(),
            None => Holds::Yes,
        };
        let is_met = holds != Holds::No
            && (!when.is_of_response() || when.holds_for_response(self.edited().original()))
            && when.if_header.iter().all(|condition| condition.holds(self.edited()));
        if is_met { holds } else { Holds::No }
    }

    fn template<'v>(&'v self, value: &'v Value) -> &'v Template {
        let settled = value.place.and_then(|place| self.kept.settled.get(place)?.as_ref());
        settled.unwrap_or(&value.template)
    }

    fn each(&self, template: &Template, take: impl FnMut(Piece<'_>)) -> Written {
        template.each(&Sources::of_response(self.edited(), self.host), take)
    }

    fn is_first_rewrite(&mut self) -> bool {
        false
    }
}
