//! Edits of the query. Parameters that no edit is for stay as they were written, empty and repeated ones too.

use filter_api::config::{Node, Object, StringMatcher};
use filter_api::parts::{form_decoded, name_and_value};
use filter_api::template::Piece;
use filter_api::{Head, HeaderValue};

use super::name_node;
use super::path::PATH;
use crate::counters::Skipped;
use crate::stage::Stage;
use crate::value::{Left, MOST_BYTES, Reading, Value, escape};

/// An edit of the query.
#[derive(Debug)]
pub(crate) struct QueryEdit(pub(crate) QueryAction);

/// What is done.
#[derive(Debug)]
pub(crate) enum QueryAction {
    /// Writes a parameter.
    Write { how: super::How, name: String, value: Value },
    /// Removes those whose names one of these matches.
    Remove(Vec<StringMatcher>),
    /// Gives all of one name another.
    Rename { from: String, to: String },
}

impl QueryEdit {
    /// Reads `{set}`, `{add}`, `{add_if_absent}`, `{overwrite_if_exists}`, `{remove}` or `{rename}`.
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        use super::How::{AddIfAbsent, Append, OverwriteIfExists, Set};
        let object = node.object()?;
        let chosen =
            object.one_of(&["set", "add", "add_if_absent", "overwrite_if_exists", "remove", "rename"]);
        let action = chosen.and_then(|(name, node)| match name {
            "set" => read_write(Set, &node, reading),
            "add" => read_write(Append, &node, reading),
            "add_if_absent" => read_write(AddIfAbsent, &node, reading),
            "overwrite_if_exists" => read_write(OverwriteIfExists, &node, reading),
            "remove" => read_patterns(&node).map(QueryAction::Remove),
            _ => read_rename(&node),
        });
        object.finish();
        action.map(Self)
    }

    /// Reads an item of Envoy's `query_parameter_mutations`: `{append: {record: {key, value}, action}}` or `{remove}`.
    pub(crate) fn read_envoys(object: &Object<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let action = match object.one_of(&["append", "remove"])? {
            ("append", node) => {
                let append = node.object()?;
                let how =
                    append.get("action").map_or(Some(super::How::Append), |node| super::How::read(&node));
                let write = append.required("record").and_then(|node| read_write(how?, &node, reading));
                append.finish();
                write
            }
            (_, node) => read_patterns(&node).map(QueryAction::Remove),
        };
        action.map(Self)
    }

    pub(super) fn removes(&self) -> bool {
        matches!(self.0, QueryAction::Remove(_))
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let Some(target) = stage.edited().first(":path").filter(|path| path.starts_with(b"/")) else {
            return Ok(());
        };
        let mut halves = target.splitn(2, |byte| *byte == b'?');
        let (path, query) = (halves.next().unwrap_or_default(), halves.next());
        // A query of no bytes has no parameter.
        let own = || {
            query
                .filter(|query| !query.is_empty())
                .into_iter()
                .flat_map(|query| query.split(|byte| *byte == b'&'))
        };
        let is =
            |parameter: &[u8], name: &str| *form_decoded(name_and_value(parameter).0) == *name.as_bytes();
        let mut kept: Vec<Vec<u8>> = Vec::new();
        let changed = match &self.0 {
            QueryAction::Write { how, name, value } => {
                let any = own().any(|parameter| is(parameter, name));
                let runs = match how {
                    super::How::Set | super::How::Append => true,
                    super::How::AddIfAbsent => !any,
                    super::How::OverwriteIfExists => any,
                };
                if !runs {
                    return Ok(());
                }
                let mut written = Some(self.parameter(name, value, stage)?);
                for parameter in own() {
                    if *how == super::How::Append || !is(parameter, name) {
                        kept.push(parameter.to_vec());
                    } else {
                        kept.extend(written.take());
                    }
                }
                kept.extend(written);
                true
            }
            QueryAction::Remove(patterns) => {
                let stays = |parameter: &&[u8]| {
                    let name = form_decoded(name_and_value(parameter).0);
                    !patterns.iter().any(|pattern| pattern.matches(&name))
                };
                kept.extend(own().filter(stays).map(<[u8]>::to_vec));
                kept.len() < own().count()
            }
            QueryAction::Rename { from, to } => {
                let mut any = false;
                for parameter in own() {
                    if is(parameter, from) {
                        any = true;
                        let name = name_and_value(parameter).0.len();
                        let mut renamed = Vec::new();
                        escape(to.as_bytes(), &mut renamed);
                        renamed.extend_from_slice(parameter.get(name..).unwrap_or_default());
                        kept.push(renamed);
                    } else {
                        kept.push(parameter.to_vec());
                    }
                }
                any
            }
        };
        if !changed {
            return Ok(());
        }
        let mut new = path.to_vec();
        for (place, parameter) in kept.iter().enumerate() {
            new.push(if place == 0 { b'?' } else { b'&' });
            new.extend_from_slice(parameter);
        }
        if new.len() > MOST_BYTES {
            return Err(Left::Skipped(Skipped::TooLong));
        }
        let new = HeaderValue::new(new).map_err(|_| Left::Skipped(Skipped::InvalidValue))?;
        stage.edit().set(&PATH, new);
        Ok(())
    }

    fn parameter<'h>(&self, name: &str, value: &Value, stage: &impl Stage<'h>) -> Result<Vec<u8>, Left> {
        let mut parameter = Vec::new();
        escape(name.as_bytes(), &mut parameter);
        parameter.push(b'=');
        let push = |piece: Piece<'_>, out: &mut Vec<u8>| match piece {
            Piece::Text(bytes) | Piece::Value { bytes, .. } => escape(bytes, out),
        };
        value.with_bytes(stage, push, |bytes| {
            parameter.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(parameter)
    }
}

fn read_write(how: super::How, node: &Node<'_>, reading: &mut Reading<'_>) -> Option<QueryAction> {
    let object = node.object()?;
    let name = name_node(&object).and_then(|node| node.filled_string());
    let value = match object.required("value") {
        // A parameter may well be empty.
        Some(node) if node.value().as_str() == Some("") => Value::of_node(&node, true, reading),
        Some(node) => {
            let keep_empty = object.get("keep_empty_value").map_or(Some(false), |node| node.bool());
            keep_empty.and_then(|keep_empty| Value::of_node(&node, keep_empty, reading))
        }
        None => None,
    };
    let _ = object.get("keep_empty_value");
    object.finish();
    Some(QueryAction::Write { how, name: name?.to_owned(), value: value? })
}

fn read_rename(node: &Node<'_>) -> Option<QueryAction> {
    let object = node.object()?;
    let name = |name| object.required(name).and_then(|node| node.filled_string()).map(str::to_owned);
    let (from, to) = (name("from"), name("to"));
    object.finish();
    let (from, to) = (from?, to?);
    if from == to {
        node.error("names the same parameter twice");
        return None;
    }
    Some(QueryAction::Rename { from, to })
}

/// A name, a pattern, or a list of them.
pub(super) fn read_patterns(node: &Node<'_>) -> Option<Vec<StringMatcher>> {
    let items = node.one_or_more();
    if items.is_empty() {
        node.error("must not be an empty list, which nothing could match");
        return None;
    }
    let read: Vec<Option<StringMatcher>> = items.iter().map(StringMatcher::read).collect();
    read.into_iter().collect()
}
