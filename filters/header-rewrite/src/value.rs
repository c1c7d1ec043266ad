//! The values that operations write: templates, and what becomes of one that has nothing to say.

use std::rc::Rc;

use filter_api::HeaderValue;
use filter_api::config::{Node, Object};
use filter_api::template::{Phase, Piece, Template, Written};

use crate::counters::Skipped;
use crate::guard::Guard;
use crate::stage::Stage;

/// The most bytes of a value. Operations that double a value could otherwise be strung together.
pub(crate) const MOST_BYTES: usize = 65_536;

/// What the reading of operations needs to know, and finds out.
#[derive(Debug)]
pub(crate) struct Reading<'g> {
    pub(crate) phase: Phase,
    pub(crate) guard: &'g Rc<Guard>,
    /// How many conditions on the request have been read.
    pub(crate) conditions: usize,
    /// How many values have been read that are settled when the request comes.
    pub(crate) settled: usize,
}

/// A value to write.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) template: Template,
    /// Whether it is written also where there is nothing to write.
    pub(crate) keep_empty: bool,
    /// Where the template is kept with what it needs of the request, if it is for a response and needs any.
    pub(crate) place: Option<usize>,
}

/// Why there is no value to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// It is missing.
    Missing,
    /// It cannot be written.
    Skipped(Skipped),
}

impl Value {
    /// Reads the member `value` of an operation, and `keep_empty_value` beside it.
    pub(crate) fn read(object: &Object<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        let keep_empty = object.get("keep_empty_value").map_or(Some(false), |node| node.bool());
        let node = object.required("value")?;
        Self::of_node(&node, keep_empty?, reading)
    }

    /// Reads a template.
    pub(crate) fn of_node(node: &Node<'_>, keep_empty: bool, reading: &mut Reading<'_>) -> Option<Self> {
        let template = Template::read(node, reading.phase)?;
        if !keep_empty && template.constant().is_some_and(|text| text.as_bytes().is_empty()) {
            node.error(
                "is empty, so nothing would be written; `keep_empty_value: true` writes an empty value",
            );
            return None;
        }
        Some(Self::of_template(template, keep_empty, reading))
    }

    /// A value of this template.
    pub(crate) fn of_template(template: Template, keep_empty: bool, reading: &mut Reading<'_>) -> Self {
        let is_settled = reading.phase == Phase::Response && template.needs_request();
        let place = is_settled.then_some(reading.settled);
        reading.settled = reading.settled.saturating_add(usize::from(is_settled));
        Self { template, keep_empty, place }
    }

    /// The value as a header's.
    pub(crate) fn evaluate<'h>(&self, stage: &impl Stage<'h>) -> Result<HeaderValue, Left> {
        let template = stage.template(self);
        if let Some(constant) = template.constant() {
            self.check(Written::All, constant.as_bytes().len())?;
            return Ok(constant.clone());
        }
        let valid = |bytes: &[u8]| HeaderValue::new(bytes).map_err(|_| Left::Skipped(Skipped::InvalidValue));
        if template.parts().len() > 1 {
            return self.with_bytes(stage, push_plain, valid);
        }
        // What is one value alone need not be put together.
        let mut value = None;
        let written = stage.each(template, |piece| match piece {
            Piece::Text(bytes) | Piece::Value { bytes, .. } => value = Some((bytes.len(), valid(bytes))),
        });
        let (length, value) = value.unwrap_or_else(|| (0, valid(b"")));
        self.check(written, length)?;
        value
    }

    /// Whether what was evaluated is there, and not too much.
    fn check(&self, written: Written, length: usize) -> Result<(), Left> {
        match written {
            Written::Unfit => Err(Left::Skipped(Skipped::InvalidValue)),
            Written::Missing if !self.keep_empty => Err(Left::Missing),
            _ if length == 0 && !self.keep_empty => Err(Left::Missing),
            _ if length > MOST_BYTES => Err(Left::Skipped(Skipped::TooLong)),
            Written::All | Written::Missing => Ok(()),
        }
    }

    /// Evaluates it, each piece written by `push`, and gives what came of it to `take`.
    pub(crate) fn with_bytes<'h, T>(
        &self,
        stage: &impl Stage<'h>,
        mut push: impl FnMut(Piece<'_>, &mut Vec<u8>),
        take: impl FnOnce(&[u8]) -> Result<T, Left>,
    ) -> Result<T, Left> {
        let mut buffer = stage.message().buffer.borrow_mut();
        buffer.clear();
        let written = stage.each(stage.template(self), |piece| push(piece, &mut buffer));
        self.check(written, buffer.len())?;
        take(&buffer)
    }
}

/// Writes a piece as it is.
pub(crate) fn push_plain(piece: Piece<'_>, out: &mut Vec<u8>) {
    match piece {
        Piece::Text(bytes) | Piece::Value { bytes, .. } => out.extend_from_slice(bytes),
    }
}

/// Writes a piece with everything escaped but letters, digits and `-._~` (RFC 3986 section 2.3): as a segment of a
/// path, or as a part of a query. What is a path already stays as it is.
pub(crate) fn push_escaped(piece: Piece<'_>, out: &mut Vec<u8>) {
    match piece {
        Piece::Text(bytes) => out.extend_from_slice(bytes),
        Piece::Value { bytes, is_path: true } => {
            out.extend_from_slice(bytes.split(|byte| *byte == b'?').next().unwrap_or_default());
        }
        Piece::Value { bytes, is_path: false } => escape(bytes, out),
    }
}

/// Escapes everything but letters, digits and `-._~`.
pub(crate) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(*byte);
        } else {
            out.push(b'%');
            for digit in [byte >> 4, byte & 15] {
                out.extend(DIGITS.get(usize::from(digit)));
            }
        }
    }
}
