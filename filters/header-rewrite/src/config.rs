//! The configuration: read from JSON, checked, and made into lists of operations.

use std::rc::Rc;

use filter_api::config::{ConfigErrors, Node, Object, Problem, read};
use filter_api::template::Phase;

use crate::condition::When;
use crate::guard::Guard;
use crate::operation::{FOR_REQUESTS, NAMES, Operation, QueryEdit};
use crate::preset;
use crate::value::Reading;

/// The most operations of a list. A configuration of more is a mistake.
const MOST_OPERATIONS: usize = 1000;

/// A configuration that can be worked with.
#[derive(Debug)]
pub struct Config {
    /// What is done to requests.
    pub(crate) request: Vec<Step>,
    /// What is done to responses.
    pub(crate) response: Vec<Step>,
    /// How many conditions on the request the latter have.
    pub(crate) conditions: usize,
    /// How many values they have that need the request.
    pub(crate) settled: usize,
}

/// An operation or a group, with its conditions.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) when: When,
    pub(crate) what: What,
}

/// What is done if the conditions hold.
#[derive(Debug)]
pub(crate) enum What {
    Operation(Operation),
    Group(Vec<Step>),
}

impl Config {
    /// Reads a configuration; see the README for its fields.
    ///
    /// # Errors
    /// Every problem found.
    pub fn read(json: &[u8]) -> Result<(Self, Vec<Problem>), ConfigErrors> {
        read(json, |root| {
            let guard = root.get("protected").map(|node| Guard::read(&node)).unwrap_or_default();
            let guard = Rc::new(guard);
            // Envoy has the lists in an object of their own.
            let nested = root.get("mutations").map(|node| node.object());
            if let Some(node) = root.get("most_specific_header_mutations_wins") {
                node.warning("has no effect here: there are no mutations of routes; use `match` instead");
            }
            let lists = Lists { root, nested: nested.as_ref().and_then(Option::as_ref) };
            let of = |phase| Reading { phase, guard: &guard, conditions: 0, settled: 0 };
            let mut at_request = of(Phase::Request);
            let mut request = lists.read("request_mutations", &mut at_request, read_steps);
            request.extend(lists.read("query_parameter_mutations", &mut at_request, read_query_steps));
            let mut at_response = of(Phase::Response);
            let response = lists.read("response_mutations", &mut at_response, read_steps);
            if let Some(nested) = lists.nested {
                nested.finish();
            }
            if request.is_empty() && response.is_empty() && lists.are_empty() {
                root.node().error("does nothing: give `request_mutations` or `response_mutations`");
            }
            if let Some(None) = nested {
                return None;
            }
            Some(Self { request, response, conditions: at_response.conditions, settled: at_response.settled })
        })
    }
}

/// Where the lists of operations are.
struct Lists<'o, 'a> {
    root: &'o Object<'a>,
    nested: Option<&'o Object<'a>>,
}

impl<'a> Lists<'_, 'a> {
    fn read(
        &self,
        name: &'static str,
        reading: &mut Reading<'_>,
        read: impl Fn(&Node<'a>, &mut Reading<'_>) -> Vec<Step>,
    ) -> Vec<Step> {
        let given =
            [Some(self.root), self.nested].into_iter().flatten().filter_map(|object| object.get(name));
        let given: Vec<Node<'a>> = given.collect();
        if let [first, _, ..] = given.as_slice() {
            first.error("is given here and under `mutations`; give it once");
        }
        given.first().map(|node| read(node, reading)).unwrap_or_default()
    }

    /// Whether none of them is there or has anything in it, right or wrong.
    fn are_empty(&self) -> bool {
        let names = ["request_mutations", "response_mutations", "query_parameter_mutations"];
        let objects = || [Some(self.root), self.nested].into_iter().flatten();
        let is_empty = |node: Node<'a>| node.value().as_array().is_some_and(Vec::is_empty);
        names.into_iter().flat_map(|name| objects().filter_map(move |object| object.get(name))).all(is_empty)
    }
}

/// Reads a list of operations and groups. What cannot be read is left out, having been noted.
fn read_steps(node: &Node<'_>, reading: &mut Reading<'_>) -> Vec<Step> {
    let items = node.array().unwrap_or_default();
    if items.len() > MOST_OPERATIONS {
        node.error(format!("has {} operations; the most is {MOST_OPERATIONS}", items.len()));
        return Vec::new();
    }
    items.iter().filter_map(|item| read_step(item, reading)).collect()
}

fn read_step(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Step> {
    let object = node.object()?;
    let names: Vec<&'static str> =
        NAMES.into_iter().chain(FOR_REQUESTS).chain(["cookie", "preset", "mutations"]).collect();
    let chosen = object.one_of(&names);
    let when = When::read(&object, reading.phase == Phase::Response, &mut reading.conditions);
    let what = chosen.and_then(|(name, node)| match name {
        "mutations" => {
            let steps = read_steps(&node, reading);
            if node.value().as_array().is_some_and(Vec::is_empty) {
                node.error("must not be empty");
            }
            Some(What::Group(steps))
        }
        "preset" => preset::read(&node, reading).map(What::Group),
        name => Operation::read(name, &node, reading).map(What::Operation),
    });
    object.finish();
    Some(Step { when: when?, what: what? })
}

/// Envoy's edits of the query.
fn read_query_steps(node: &Node<'_>, reading: &mut Reading<'_>) -> Vec<Step> {
    let items = node.array().unwrap_or_default();
    let read = |item: &Node<'_>| {
        let object = item.object()?;
        let edit = QueryEdit::read_envoys(&object, reading);
        object.finish();
        Some(Step { when: When::default(), what: What::Operation(Operation::Query(edit?)) })
    };
    items.iter().filter_map(read).collect()
}
