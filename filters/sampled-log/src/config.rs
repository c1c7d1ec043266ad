//! The configuration: read from JSON, checked, and made into what the filter works with.

use filter_api::config::{ConfigErrors, Node, Object, Problem, read};
use filter_api::{Head, Host};

use crate::budget::Budget;
use crate::field::{Field, Fields, read_names};
use crate::line::Line;
use crate::redact::{HashKey, Redact, Redaction};
use crate::rule::{Ended, Rule};
use crate::sample::{Share, Why, number_of};
use crate::sink::{Sink, read_sink};

/// Lines that a worker may write each second, unless something else is said.
const LINES_PER_SECOND: u32 = 1000;

/// A configuration that can be worked with.
#[derive(Debug)]
pub struct Config {
    always: Vec<Rule>,
    rules: Vec<(Rule, Share)>,
    others: Share,
    /// The largest of these shares: no more of any requests is logged but by `always`.
    pub(crate) most: Share,
    /// The share of those that no rule of `always` is for that come here at all.
    before: Share,
    fields: Fields,
    pub(crate) budget: Option<Budget>,
    pub(crate) max_line_bytes: usize,
}

impl Config {
    /// Reads a configuration, and where lines go; see the README for its fields.
    ///
    /// # Errors
    /// Every problem found.
    pub(crate) fn read(json: &[u8]) -> Result<((Self, Sink), Vec<Problem>), ConfigErrors> {
        read(json, |root| {
            let always = match root.get("always") {
                Some(node) => read_always(&node),
                None => {
                    Some(Rule::of_errors().into_iter().chain([Rule::of_slow(), Rule::of_flagged()]).collect())
                }
            };
            let others = root.get("percent_sampled").map_or(Some(Share::TENTH), |node| Share::read(&node));
            let before = root.get("percent_sampled_before").map_or(Some(Share::ALL), |node| {
                Share::read(&node).filter(|share| {
                    let is_some = !share.is_none();
                    if !is_some {
                        node.error("must be more than 0: of nothing there is nothing to log");
                    }
                    is_some
                })
            });
            let rules = root.get("rules").map_or(Some(Vec::new()), |node| read_rules(&node));
            let budget = root
                .get("max_lines_per_second")
                .map_or(Some(Some(Budget { lines: LINES_PER_SECOND, burst: LINES_PER_SECOND })), |node| {
                    read_budget(&node)
                });
            let bytes = |name, usual: u64, least, most| {
                let bytes = root.get(name).map_or(Some(usual), |node| node.integer(least, most))?;
                usize::try_from(bytes).ok()
            };
            let max_field_bytes = bytes("max_field_bytes", 1024, 16, 65_536);
            let max_line_bytes = bytes("max_line_bytes", 8192, 512, 1_048_576);
            let fields = read_fields(root, max_field_bytes);
            let sink = root.get("sink").map_or(Some(Sink::EnvoyLog), |node| read_sink(&node, max_line_bytes));
            let (rules, others) = (rules?, others?);
            let config = Self {
                always: always?,
                most: rules.iter().fold(others, |most, (_, share)| most.or(*share)),
                rules,
                others,
                before: before?,
                fields: fields?,
                budget: budget?,
                max_line_bytes: max_line_bytes?,
            };
            Some((config, sink?))
        })
    }

    /// Whether a request is logged, why, and which share of its kind is.
    pub(crate) fn choose<Q: Head, R: Head, T: Host>(
        &self,
        ended: &Ended<'_, Q, R, T>,
    ) -> Option<(Why, String)> {
        if self.always.iter().any(|rule| rule.holds(ended)) {
            return Some((Why::Always, "1".to_owned()));
        }
        // Whatever rule holds, it cannot be in the sample: its headers need not be read to find the rule.
        if self.most.is_none() || ended.facts.sample_number().is_some_and(|number| !self.most.has(number)) {
            return None;
        }
        let rule = self.rules.iter().find(|(rule, _)| rule.holds(ended));
        let share = rule.map_or(self.others, |(_, share)| *share);
        if share.is_none() {
            return None;
        }
        let number = number_of(ended.request).unwrap_or_else(|| ended.host.moment().dice);
        share.has(number).then(|| (Why::Sampled, share.rate_of(self.before)))
    }

    /// Writes what is in a line.
    pub(crate) fn write<Q: Head, R: Head, T: Host>(&self, ended: &Ended<'_, Q, R, T>, line: &mut Line) {
        self.fields.write(ended, line);
    }
}

fn read_always(node: &Node<'_>) -> Option<Vec<Rule>> {
    let read = |item: &Node<'_>| {
        let object = item.object()?;
        let rule = Rule::read(&object);
        object.finish();
        rule
    };
    let rules: Vec<Option<Rule>> = node.array()?.iter().map(read).collect();
    rules.into_iter().collect()
}

fn read_rules(node: &Node<'_>) -> Option<Vec<(Rule, Share)>> {
    let read = |item: &Node<'_>| {
        let object = item.object()?;
        let share = object.required("percent_sampled").and_then(|node| Share::read(&node));
        let rule = Rule::read(&object);
        object.finish();
        Some((rule?, share?))
    };
    let rules: Vec<Option<(Rule, Share)>> = node.array()?.iter().map(read).collect();
    rules.into_iter().collect()
}

/// `1000`, `{lines: 1000, burst: 2000}` or `unlimited`; the inner none for the latter.
fn read_budget(node: &Node<'_>) -> Option<Option<Budget>> {
    const MOST: u64 = 1_000_000;
    let number = |node: &Node<'_>| u32::try_from(node.integer(1, MOST)?).ok();
    if node.value().as_str() == Some("unlimited") {
        return Some(None);
    }
    if !node.value().is_object() {
        let lines = number(node)?;
        return Some(Some(Budget { lines, burst: lines }));
    }
    let object = node.object()?;
    let lines = object.required("lines").and_then(|node| number(&node));
    let burst = object.get("burst").map_or(lines, |node| number(&node));
    object.finish();
    Some(Some(Budget { lines: lines?, burst: burst? }))
}

fn read_fields(root: &Object<'_>, max_field_bytes: Option<usize>) -> Option<Fields> {
    let redact = read_redact(root);
    let (request_headers, response_headers) =
        (read_names(root, "request_headers"), read_names(root, "response_headers"));
    let given = root.get("fields");
    let further = root.get("additional_fields");
    let redact = redact?;
    let fields = match &given {
        Some(node) => Field::read_all(node, &redact),
        None => Some(Field::defaults(&redact)),
    };
    let further_fields = match &further {
        Some(node) => Field::read_all(node, &redact),
        None => Some(Vec::new()),
    };
    let (mut fields, further_fields) = (fields?, further_fields?);
    for field in further_fields {
        if fields.iter().any(|other| other.name() == field.name())
            && let Some(node) = &further
        {
            node.error(format!("{:?} is a field already; give all of them under `fields`", field.name()));
            return None;
        }
        fields.push(field);
    }
    Some(Fields {
        fields,
        request_headers: request_headers?,
        response_headers: response_headers?,
        redact,
        max_field_bytes: max_field_bytes?,
    })
}

fn read_redact(root: &Object<'_>) -> Option<Redact> {
    let key = root.get("hash_key").map(|node| (node.filled_string().map(str::to_owned), node));
    let how = match root.get("redact") {
        None => Some(Redaction::Mask),
        Some(node) => match node.string() {
            Some("mask") => Some(Redaction::Mask),
            Some("drop") => Some(Redaction::Drop),
            Some("hash") => match &key {
                Some((Some(key), _)) => Some(Redaction::Hash(HashKey(key.clone().into_bytes()))),
                Some((None, _)) => None,
                None => {
                    node.error("`hash` needs a `hash_key`: without one, anybody could try values out");
                    None
                }
            },
            Some(other) => {
                node.error(format!("{other:?} must be mask, drop or hash"));
                None
            }
            None => None,
        },
    };
    if let (Some((_, node)), Some(Redaction::Mask | Redaction::Drop)) = (&key, &how) {
        node.warning("has no effect: it is for `redact: hash`");
    }
    let headers = read_names(root, "redacted_headers");
    let shown = match root.get("query_values") {
        Some(node) => {
            let names: Vec<Option<String>> =
                node.one_or_more().iter().map(|item| item.filled_string().map(str::to_owned)).collect();
            names.into_iter().collect()
        }
        None => Some(Vec::new()),
    };
    Some(Redact { how: how?, headers: headers?, shown: shown? })
}
