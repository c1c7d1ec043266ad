//! JSON read strictly: a member given twice is an error, and so is nesting deeper than asked for.
//!
//! Both matter where two readers of one text must agree: which of two `"iss"` members counts is a
//! question that parsers answer differently, and attackers ask.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a JSON text of at most `max_depth` levels of arrays and objects.
///
/// # Errors
/// Not JSON, not UTF-8, a member named twice in one object, nested too deep, or something after
/// the value. The error quotes member names and places, never values.
pub fn parse(text: &[u8], max_depth: u8) -> Result<Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict { depth_left: max_depth }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Why a text was not taken.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl JsonError {
    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.0.line()
    }

    /// The column, from 1; 0 where the line is empty.
    pub fn column(&self) -> usize {
        self.0.column()
    }
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for JsonError {}

/// Builds a [`Value`], counting levels and refusing second members of a name.
struct Strict {
    depth_left: u8,
}

impl Strict {
    fn deeper<E: serde::de::Error>(&self) -> Result<u8, E> {
        self.depth_left.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth_left = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Strict { depth_left })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth_left = self.deeper()?;
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("member {name:?} is given twice")));
            }
            let value = access.next_value_seed(Strict { depth_left })?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_what_is_not() {
        let rows: &[(&[u8], bool)] = &[
            (b"{}", true),
            (b" {\r\n\"a\": [1, 2.5, 1e3, true, null, \"x\"]} ", true),
            (b"{\"a\":1,\"A\":2}", true),
            (b"{\"a\":{\"b\":1},\"c\":{\"b\":1}}", true),
            (b"", false),
            (b"{\"a\":1,\"a\":1}", false),
            (b"{\"a\":1,\"\\u0061\":1}", false),
            (b"{\"x\":{\"a\":1,\"a\":1}}", false),
            (b"[{\"a\":1,\"a\":1}]", false),
            (b"{} {}", false),
            (b"{}x", false),
            (b"{\"a\":1e999}", false),
            (b"{\"a\":NaN}", false),
            (b"{\"a\":\"\xff\"}", false),
            (b"{\"\xff\":1}", false),
            (b"{\"a\":\"\\ud800\"}", false),
            (b"\xef\xbb\xbf{}", false),
            (b"{\"a\":01}", false),
            (b"{'a':1}", false),
            (b"{\"a\":1,}", false),
        ];
        for (text, taken) in rows {
            let result = parse(text, 8);
            assert_eq!(result.is_ok(), *taken, "{}: {result:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn depth_is_capped_and_deep_text_does_not_exhaust_the_stack() {
        assert!(parse(b"[[[]]]", 3).is_ok());
        assert!(parse(b"[[[[]]]]", 3).is_err());
        assert!(parse(b"{\"a\":{\"a\":[]}}", 2).is_err());
        assert!(parse("[".repeat(1_000_000).as_bytes(), 255).is_err());
    }

    #[test]
    fn a_second_member_is_named_and_placed() {
        let error = parse(b"{\n \"a\": 1,\n \"a\": 2}", 8).unwrap_err();
        assert_eq!(error.line(), 3);
        assert!(error.to_string().contains("member \"a\" is given twice"), "{error}");
    }
}
