//! Protobuf, as far as the host speaks it: the fields of a message, and `google.protobuf.Struct`.
//!
//! Fields 1 of a Struct are entries of key (1) and value (2), and a value is one of null (1), number (2),
//! string (3), bool (4), object (5) and list (6).

use serde_json::{Map, Number, Value};

/// Deeper than any configuration, shallow enough for any stack.
pub(crate) const MAX_DEPTH: u8 = 64;

/// Reads a Struct of at most this depth.
pub(crate) fn read_struct(bytes: &[u8], depth: u8) -> Option<Map<String, Value>> {
    let depth = depth.checked_sub(1)?;
    let mut members = Map::new();
    for field in Fields(bytes) {
        let (1, Content::Bytes(entry)) = field? else { return None };
        let (mut key, mut value) = (String::new(), Value::Null);
        for part in Fields(entry) {
            match part? {
                (1, Content::Bytes(text)) => key = String::from_utf8(text.to_vec()).ok()?,
                (2, Content::Bytes(inner)) => value = read_value(inner, depth)?,
                _ => return None,
            }
        }
        members.insert(key, value);
    }
    Some(members)
}

fn read_value(bytes: &[u8], depth: u8) -> Option<Value> {
    let mut value = Value::Null;
    for field in Fields(bytes) {
        value = match field? {
            (1, Content::Number(_)) => Value::Null,
            (2, Content::Fixed(bits)) => Value::Number(Number::from_f64(f64::from_bits(bits))?),
            (3, Content::Bytes(text)) => Value::String(String::from_utf8(text.to_vec()).ok()?),
            (4, Content::Number(flag)) => Value::Bool(flag != 0),
            (5, Content::Bytes(inner)) => Value::Object(read_struct(inner, depth)?),
            (6, Content::Bytes(inner)) => Value::Array(read_list(inner, depth)?),
            _ => return None,
        };
    }
    Some(value)
}

fn read_list(bytes: &[u8], depth: u8) -> Option<Vec<Value>> {
    let depth = depth.checked_sub(1)?;
    let item = |field| match field {
        Some((1, Content::Bytes(item))) => read_value(item, depth),
        _ => None,
    };
    Fields(bytes).map(item).collect()
}

/// The fields of a protobuf message: their numbers and contents; `None` where it is malformed,
/// and then nothing more.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

/// What a field holds.
pub(crate) enum Content<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Content<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut rest = self.0;
        let field = read_field(&mut rest);
        self.0 = if field.is_some() { rest } else { &[] };
        Some(field)
    }
}

fn read_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Content<'a>)> {
    let tag = read_varint(rest)?;
    let content = match tag & 7 {
        0 => Content::Number(read_varint(rest)?),
        1 => {
            let (bytes, after) = rest.split_first_chunk::<8>()?;
            *rest = after;
            Content::Fixed(u64::from_le_bytes(*bytes))
        }
        2 => {
            let length = usize::try_from(read_varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Content::Bytes(bytes)
        }
        _ => return None,
    };
    Some((tag >> 3, content))
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(bytes);
        out
    }

    /// Writes a value as protobuf does.
    fn write(value: &Value) -> Vec<u8> {
        match value {
            Value::Null => vec![0x08, 0],
            Value::Number(number) => {
                let mut out = vec![0x11];
                out.extend_from_slice(&number.as_f64().unwrap().to_le_bytes());
                out
            }
            Value::String(text) => field(3, text.as_bytes()),
            Value::Bool(flag) => vec![0x20, u8::from(*flag)],
            Value::Object(members) => field(5, &write_struct(members)),
            Value::Array(items) => {
                field(6, &items.iter().flat_map(|item| field(1, &write(item))).collect::<Vec<_>>())
            }
        }
    }

    pub(crate) fn write_struct(members: &Map<String, Value>) -> Vec<u8> {
        let entry = |(key, value): (&String, &Value)| {
            let mut entry = field(1, key.as_bytes());
            entry.extend(field(2, &write(value)));
            field(1, &entry)
        };
        members.iter().flat_map(entry).collect()
    }

    #[test]
    fn depth_is_capped_and_numbers_are_finite() {
        let mut deep = Value::Null;
        for _ in 0..200 {
            deep = serde_json::json!({ "a": deep });
        }
        assert!(read_struct(&write_struct(deep.as_object().unwrap()), MAX_DEPTH).is_none());
        let mut infinite = vec![0x11];
        infinite.extend_from_slice(&f64::INFINITY.to_le_bytes());
        assert!(read_value(&infinite, 9).is_none());
    }
}
