//! Operations on headers by name.

use std::rc::Rc;

use filter_api::config::{Node, StringMatcher};
use filter_api::{Edited, Head, HeaderName, HeaderValue, Line, Lines};
use smallvec::SmallVec;

use super::name_node;
use crate::counters::Skipped;
use crate::guard::{Guard, read_pattern};
use crate::pattern::Substitution;
use crate::stage::Stage;
use crate::value::{Left, Reading, Value, push_plain};

/// Writes a header.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) how: How,
    pub(crate) name: HeaderName,
    pub(crate) value: Value,
}

/// What becomes of lines that are there: Envoy's `append_action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The one line takes their place: `OVERWRITE_IF_EXISTS_OR_ADD`.
    Set,
    /// They stay beside it: `APPEND_IF_EXISTS_OR_ADD`.
    Append,
    /// If there are any, nothing is written: `ADD_IF_ABSENT`.
    AddIfAbsent,
    /// If there are none, nothing is written; else it takes their place: `OVERWRITE_IF_EXISTS`.
    OverwriteIfExists,
}

impl How {
    /// Reads the name that Envoy has for it.
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        match node.string()? {
            "OVERWRITE_IF_EXISTS_OR_ADD" => Some(Self::Set),
            "APPEND_IF_EXISTS_OR_ADD" => Some(Self::Append),
            "ADD_IF_ABSENT" => Some(Self::AddIfAbsent),
            "OVERWRITE_IF_EXISTS" => Some(Self::OverwriteIfExists),
            other => {
                node.error(format!(
                    "{other:?} must be APPEND_IF_EXISTS_OR_ADD, ADD_IF_ABSENT, OVERWRITE_IF_EXISTS or \
                     OVERWRITE_IF_EXISTS_OR_ADD"
                ));
                None
            }
        }
    }
}

impl Write {
    /// Reads `{name, value, keep_empty_value}`; for `append` also Envoy's `{header: {key, value}, append_action,
    /// keep_empty_value}`.
    pub(crate) fn read(how: How, node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let header = if how == How::Append { object.get("header") } else { None };
        let action = if how == How::Append { object.get("append_action") } else { None };
        let how = action.map_or(Some(how), |node| How::read(&node));
        let (name, value) = match header {
            Some(header) => {
                let keep_empty = object.get("keep_empty_value").map_or(Some(false), |node| node.bool());
                let inner = header.object()?;
                let name = name_node(&inner).and_then(|node| reading.guard.writable(&node));
                let value = inner.required("value");
                let value = value.and_then(|node| Value::of_node(&node, keep_empty?, reading));
                inner.finish();
                (name, value)
            }
            None => {
                let name = name_node(&object).and_then(|node| reading.guard.writable(&node));
                (name, Value::read(&object, reading))
            }
        };
        object.finish();
        Some(Self { how: how?, name: name?, value: value? })
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let runs = match self.how {
            How::Set | How::Append => true,
            How::AddIfAbsent => !stage.edited().has(self.name.as_str()),
            How::OverwriteIfExists => stage.edited().has(self.name.as_str()),
        };
        if !runs {
            return Ok(());
        }
        let value = self.value.evaluate(stage);
        // Who reads a header that is set from a token takes it for one of a token: a client's own must not be there
        // in its place.
        if value.is_err() && self.how == How::Set && self.value.template.is_of_trusted_origin() {
            remove(stage.edit(), &self.name);
        }
        let value = value?;
        match self.how {
            How::Append => stage.edit().add(&self.name, value),
            How::Set | How::AddIfAbsent | How::OverwriteIfExists => stage.edit().set(&self.name, value),
        }
        Ok(())
    }
}

/// Removes all lines of a name, if there are any.
fn remove<H: Head>(edited: &mut Edited<'_, H>, name: &HeaderName) {
    if edited.has(name.as_str()) {
        edited.remove(name);
    }
}

/// Removes headers.
#[derive(Debug)]
pub(crate) struct Remove {
    /// These.
    pub(crate) names: Vec<HeaderName>,
    /// Those whose names one of these matches, but for those that it must not remove.
    pub(crate) patterns: Vec<StringMatcher>,
    guard: Rc<Guard>,
}

impl Remove {
    /// Reads a name, a pattern, or a list of them.
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let mut remove = Self { names: Vec::new(), patterns: Vec::new(), guard: Rc::clone(reading.guard) };
        let items = node.one_or_more();
        if items.is_empty() {
            node.error("must not be an empty list, which removes nothing");
            return None;
        }
        let mut all = true;
        for item in items {
            if item.value().is_string() {
                match reading.guard.removable(&item) {
                    Some(name) => remove.names.push(name),
                    None => all = false,
                }
            } else {
                match read_pattern(&item) {
                    Some(pattern) => remove.patterns.push(pattern),
                    None => all = false,
                }
            }
        }
        all.then_some(remove)
    }

    /// Reads Envoy's `{key_matcher: {...}}`.
    pub(crate) fn read_on_match(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let pattern = object.required("key_matcher").and_then(|node| read_pattern(&node));
        object.finish();
        Some(Self { names: Vec::new(), patterns: vec![pattern?], guard: Rc::clone(reading.guard) })
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) {
        self.names.iter().for_each(|name| remove(stage.edit(), name));
        if !self.patterns.is_empty() {
            self.matching(stage.edited()).iter().for_each(|name| stage.edit().remove(name));
        }
    }

    /// The names that are there, match, and may be removed.
    fn matching(&self, head: &impl Head) -> SmallVec<[HeaderName; 4]> {
        let mut names: SmallVec<[HeaderName; 4]> = SmallVec::new();
        for (name, _) in head.lines() {
            let matches = self.patterns.iter().any(|pattern| pattern.matches(name));
            if matches
                && self.guard.allows(name)
                && !names.iter().any(|known| known.as_str().as_bytes() == name)
            {
                names.extend(std::str::from_utf8(name).ok().and_then(|name| HeaderName::new(name).ok()));
            }
        }
        names
    }
}

/// Makes lines of one name those of another.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) from: HeaderName,
    pub(crate) to: HeaderName,
    /// Whether they are no longer of the first.
    pub(crate) renames: bool,
}

impl Copy {
    pub(crate) fn read(node: &Node<'_>, renames: bool, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let from = object
            .required("from")
            .and_then(|node| if renames { reading.guard.removable(&node) } else { node.header_name() });
        let to = object.required("to").and_then(|node| reading.guard.writable(&node));
        object.finish();
        let (from, to) = (from?, to?);
        if from == to {
            node.error("names the same header twice");
            return None;
        }
        Some(Self { from, to, renames })
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) {
        let lines = stage.edited().lines_of(self.from.as_str());
        if lines.is_empty() {
            return;
        }
        stage.edit().replace(&self.to, lines);
        if self.renames {
            stage.edit().remove(&self.from);
        }
    }
}

/// Replaces parts of a header's values.
#[derive(Debug)]
pub(crate) struct Replace {
    pub(crate) name: HeaderName,
    pub(crate) substitution: Substitution,
}

impl Replace {
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let name = name_node(&object).and_then(|node| reading.guard.writable(&node));
        let substitution = Substitution::read(object.required("regex"), object.required("with"), reading);
        object.finish();
        Some(Self { name: name?, substitution: substitution? })
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) -> Result<(), Left> {
        let mut lines = stage.edited().lines_of(self.name.as_str());
        let mut any = false;
        for line in &mut lines {
            if let Some(text) = self.substitution.replaced(line.as_bytes(), stage, push_plain)? {
                let value = HeaderValue::new(text).map_err(|_| Left::Skipped(Skipped::InvalidValue))?;
                *line = Line::New(value);
                any = true;
            }
        }
        if any {
            stage.edit().replace(&self.name, lines);
        }
        Ok(())
    }
}

/// Removes all but some lines of a name.
#[derive(Debug)]
pub(crate) struct Dedupe {
    pub(crate) name: HeaderName,
    pub(crate) keep: Keep,
}

/// Which lines stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    First,
    Last,
    /// The first of those that are alike.
    Unique,
}

impl Dedupe {
    pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let object = node.object()?;
        let name = name_node(&object).and_then(|node| reading.guard.writable(&node));
        let keep = object.required("keep").and_then(|node| match node.string()? {
            "first" => Some(Keep::First),
            "last" => Some(Keep::Last),
            "unique" => Some(Keep::Unique),
            other => {
                node.error(format!("{other:?} must be first, last or unique"));
                None
            }
        });
        object.finish();
        Some(Self { name: name?, keep: keep? })
    }

    pub(super) fn run<'h>(&self, stage: &mut impl Stage<'h>) {
        let lines = stage.edited().lines_of(self.name.as_str());
        if lines.len() < 2 {
            return;
        }
        let kept: Lines<'h> = match self.keep {
            Keep::First => lines.into_iter().take(1).collect(),
            Keep::Last => lines.into_iter().next_back().into_iter().collect(),
            Keep::Unique => {
                let mut kept = Lines::new();
                for line in lines {
                    if !kept.iter().any(|other: &Line<'_>| other.as_bytes() == line.as_bytes()) {
                        kept.push(line);
                    }
                }
                kept
            }
        };
        stage.edit().replace(&self.name, kept);
    }
}
