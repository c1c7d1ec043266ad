//! When an operation runs.

use filter_api::Head;
use filter_api::config::{Node, Object, StatusRange};
use filter_api::matcher::{HeaderCondition, RequestMatcher};

/// Conditions of an operation or a group; all of them must hold.
#[derive(Debug, Default)]
pub(crate) struct When {
    /// Of the request as it came.
    pub(crate) request: Option<OfRequest>,
    /// Of the response's status: any of these.
    pub(crate) status: Vec<StatusRange>,
    /// Of the response as it came.
    pub(crate) response_headers: Vec<HeaderCondition>,
    /// Of the message as it stands.
    pub(crate) if_header: Vec<HeaderCondition>,
}

/// A condition on the request.
#[derive(Debug)]
pub(crate) struct OfRequest {
    pub(crate) matcher: RequestMatcher,
    /// Where the answer is kept until the response comes; for operations on responses.
    pub(crate) place: usize,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holds {
    /// It does not.
    #[default]
    No,
    /// That depends on how the request's path is read: enough to remove something, too little to write anything.
    Maybe,
    /// It does.
    Yes,
}

impl When {
    /// Reads the conditions beside an operation. Those on a response are errors where it has none yet.
    pub(crate) fn read(object: &Object<'_>, of_response: bool, places: &mut usize) -> Option<Self> {
        let matcher = object.get("match").map(|node| RequestMatcher::read(&node));
        let status = list(object, "status", StatusRange::read);
        let response_headers = list(object, "response_headers", HeaderCondition::read);
        let if_header = list(object, "if_header", HeaderCondition::read);
        for name in ["status", "response_headers"] {
            if !of_response && let Some(node) = object.get(name) {
                node.error("is not known before the response has come; it is for `response_mutations`");
            }
        }
        let request = match matcher {
            None => None,
            Some(matcher) => {
                let place = *places;
                *places = places.saturating_add(1);
                Some(OfRequest { matcher: matcher?, place })
            }
        };
        Some(Self {
            request: request.filter(|condition| !condition.matcher.is_every()),
            status: status?,
            response_headers: response_headers?,
            if_header: if_header?,
        })
    }

    /// Whether there are conditions on the response as it came.
    pub(crate) fn is_of_response(&self) -> bool {
        !self.status.is_empty() || !self.response_headers.is_empty()
    }

    /// Whether those on the response hold.
    pub(crate) fn holds_for_response(&self, head: &impl Head) -> bool {
        let status = || {
            let digits = head.first(":status").and_then(|text| std::str::from_utf8(text).ok());
            digits.and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0)
        };
        (self.status.is_empty() || {
            let status = status();
            self.status.iter().any(|range| range.has(status))
        }) && self.response_headers.iter().all(|condition| condition.holds(head))
    }
}

/// A list, or one item that stands in for a list of one.
fn list<T>(object: &Object<'_>, name: &'static str, read: impl Fn(&Node<'_>) -> Option<T>) -> Option<Vec<T>> {
    let Some(node) = object.get(name) else { return Some(Vec::new()) };
    let items = node.one_or_more();
    if items.is_empty() {
        node.error("must not be an empty list, which nothing could match; leave it out instead");
        return None;
    }
    // All are read, so that all problems are noted.
    let read: Vec<Option<T>> = items.iter().map(read).collect();
    read.into_iter().collect()
}
