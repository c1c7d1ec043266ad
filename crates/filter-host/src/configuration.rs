//! A plugin's configuration as the host hands it over, made into JSON.
//!
//! A `google.protobuf.StringValue` or `BytesValue` arrives as its text. A `google.protobuf.Struct`,
//! which is what YAML in an Envoy file becomes, arrives as protobuf bytes (Envoy 1.40; its
//! documentation says JSON): see [`crate::protobuf`].

use std::borrow::Cow;

use serde_json::Value;

use crate::protobuf::{MAX_DEPTH, read_struct};

/// The JSON text of a configuration: of a Struct where the bytes are one, else the bytes as they
/// are.
///
/// A Struct begins with a byte that JSON takes for a line end, so both are tried; a text that is
/// valid as either does not exist in practice, since a Struct's lengths would have to add up.
pub fn to_json(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.first() == Some(&TAG_OF_ENTRY)
        && let Some(members) = read_struct(bytes, MAX_DEPTH)
    {
        return Cow::Owned(Value::Object(members).to_string().into_bytes());
    }
    Cow::Borrowed(bytes)
}

/// Field 1, length-delimited.
const TAG_OF_ENTRY: u8 = 0x0a;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protobuf::tests::write_struct;

    #[test]
    fn a_struct_becomes_json() {
        let value = serde_json::json!({
            "providers": {"main": {"audiences": ["a", "b"], "skew": 60.0, "flag": true, "none": null, "o": {}, "l": []}},
            "text": "x".repeat(300),
        });
        let bytes = write_struct(value.as_object().unwrap());
        let json: Value = serde_json::from_slice(&to_json(&bytes)).unwrap();
        assert_eq!(json, value);
    }

    #[test]
    fn text_stays_text() {
        let long = format!("\n{{\n\t\"a\": \"{}\"}}", "x".repeat(200));
        for text in ["", "{}", "\n{}", " {\"a\": 1}", "\n\n{\"a\": 1}", "not json", &long] {
            assert_eq!(to_json(text.as_bytes()).as_ref(), text.as_bytes(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut struct_like = bytes.clone();
            struct_like.insert(0, TAG_OF_ENTRY);
            let _ = to_json(&bytes);
            let _ = to_json(&struct_like);
        }
    }
}
