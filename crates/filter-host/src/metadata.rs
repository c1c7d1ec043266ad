//! Dynamic metadata, which other filters of Envoy's leave with a request.
//!
//! As a property, an entry does not say whether it is a text, a number or a list. The whole of it does: it comes as a
//! message `envoy.config.core.v3.Metadata`, whose fields 1 are entries of a namespace (1) and a Struct (2).

use serde_json::{Number, Value};

use crate::protobuf::{Content, Fields, MAX_DEPTH, read_struct};

/// An entry as text: a string as it is, anything else as JSON. `path` is a namespace, then names of members. `None`
/// where there is no such entry, or it is null.
pub fn find(metadata: &[u8], path: &[Box<str>]) -> Option<Vec<u8>> {
    let (namespace, names) = path.split_first()?;
    let mut members = Value::Object(read_struct(of_namespace(metadata, namespace.as_bytes())?, MAX_DEPTH)?);
    let found = names.iter().try_fold(&mut members, |value, name| value.get_mut(&**name))?;
    with_whole_numbers(found);
    match found {
        Value::Null => None,
        Value::String(text) => Some(std::mem::take(text).into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}

fn of_namespace<'m>(metadata: &'m [u8], namespace: &[u8]) -> Option<&'m [u8]> {
    for field in Fields(metadata) {
        let (1, Content::Bytes(entry)) = field? else { continue };
        let (mut key, mut value) = (&b""[..], &b""[..]);
        for part in Fields(entry) {
            match part? {
                (1, Content::Bytes(text)) => key = text,
                (2, Content::Bytes(inner)) => value = inner,
                _ => {}
            }
        }
        if key == namespace {
            return Some(value);
        }
    }
    None
}

/// All numbers of a Struct are fractions; JSON writes whole ones without a point.
fn with_whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() <= EXACT
            {
                #[allow(clippy::cast_possible_truncation)] // checked just before
                let whole = float as i64;
                *number = Number::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_whole_numbers),
        Value::Object(members) => members.values_mut().for_each(with_whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protobuf::tests::{field, write_struct};

    fn metadata() -> Vec<u8> {
        let entry = |namespace: &str, value: &Value| {
            let mut entry = field(1, namespace.as_bytes());
            entry.extend(field(2, &write_struct(value.as_object().unwrap())));
            field(1, &entry)
        };
        let mut bytes = entry("other", &json!({"s": "wrong"}));
        let value = json!({"s": "a \"b\"", "n": 3.0, "f": -1.5, "b": true, "l": [1.0, "a"], "o": {"k": "v"}, "z": null});
        bytes.extend(entry("ns", &value));
        bytes.extend(field(2, b"typed metadata"));
        bytes
    }

    #[test]
    fn entries_are_found_and_written_as_text() {
        let rows = [
            ("ns:s", Some("a \"b\"")),
            ("ns:n", Some("3")),
            ("ns:f", Some("-1.5")),
            ("ns:b", Some("true")),
            ("ns:l", Some("[1,\"a\"]")),
            ("ns:o", Some("{\"k\":\"v\"}")),
            ("ns:o:k", Some("v")),
            ("ns:z", None),
            ("ns:x", None),
            ("ns:s:x", None),
            ("nowhere:s", None),
            ("other:s", Some("wrong")),
        ];
        for (path, expected) in rows {
            let path: Vec<Box<str>> = path.split(':').map(Box::from).collect();
            assert_eq!(find(&metadata(), &path).as_deref(), expected.map(str::as_bytes), "{path:?}");
        }
        assert_eq!(find(b"\xff\xff", &["ns".into()]), None);
        assert_eq!(find(b"", &["ns".into()]), None);
        assert_eq!(find(&metadata(), &[]), None);
    }
}
