//! Claims beyond the registered ones: what they must hold, and how they travel in headers.

use std::sync::Arc;

use filter_api::config::StringMatcher;
use filter_api::{ClaimPath, ClaimText, HeaderName};
use serde_json::{Map, Value};

/// A claim that must be there, and what it must hold.
#[derive(Debug, Clone)]
pub struct RequiredClaim {
    /// Which claim.
    pub path: ClaimPath,
    /// One of its values must match one of these; empty: it need only be there.
    pub any_of: Vec<StringMatcher>,
    /// Each of these must be one of its values.
    pub all_of: Vec<String>,
}

/// A header that a claim is written to.
#[derive(Debug, Clone)]
pub struct ClaimHeader {
    /// The header.
    pub header: HeaderName,
    /// The claim.
    pub claim: ClaimText,
}

/// A property of the request that a claim is written to.
#[derive(Debug, Clone)]
pub struct ClaimProperty {
    /// Its name, which begins with [`filter_api::Property::CLAIM`].
    pub name: Arc<str>,
    /// The claim.
    pub claim: ClaimText,
}

impl RequiredClaim {
    /// Whether the claims are as they must be.
    pub fn holds(&self, claims: &Map<String, Value>) -> bool {
        let Some(claim) = self.path.find(claims).filter(|claim| !claim.is_null()) else { return false };
        let split = self.path.is_scope();
        (self.any_of.is_empty()
            || any_value(claim, split, |value| self.any_of.iter().any(|it| it.matches(value))))
            && self.all_of.iter().all(|wanted| any_value(claim, split, |value| value == wanted.as_bytes()))
    }
}

/// Whether a value of the claim is as asked: the string, the number or bool as JSON writes it, an
/// item of the array; of scopes, each of them.
fn any_value(claim: &Value, split: bool, mut matches: impl FnMut(&[u8]) -> bool) -> bool {
    match claim {
        Value::String(text) if split => {
            text.split(' ').any(|scope| !scope.is_empty() && matches(scope.as_bytes()))
        }
        Value::String(text) => matches(text.as_bytes()),
        Value::Number(_) | Value::Bool(_) => matches(claim.to_string().as_bytes()),
        Value::Array(items) => items.iter().any(|item| match item {
            Value::String(text) => matches(text.as_bytes()),
            Value::Number(_) | Value::Bool(_) => matches(item.to_string().as_bytes()),
            _ => false,
        }),
        Value::Null | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims() -> Map<String, Value> {
        let claims = json!({
            "sub": "alice",
            "admin": true,
            "level": 7,
            "scope": "read  write",
            "scp": ["read", "write"],
            "realm": {"roles": ["user", "dev"], "deep": {"x": "y"}},
            "https://a.example/roles": ["ops"],
            "a.b": "whole name",
            "a": {"b": "path"},
            "mixed": ["x", 1, true, null],
            "line": "a\r\nset-cookie: b",
            "unicode": "\u{e9}",
            "empty": "",
            "none": null,
        });
        claims.as_object().unwrap().clone()
    }

    #[test]
    fn what_a_claim_must_hold() {
        let rows: &[(&str, &[&str], &[&str], bool)] = &[
            ("sub", &[], &[], true),
            ("absent", &[], &[], false),
            ("none", &[], &[], false),
            ("sub", &["bob", "alice"], &[], true),
            ("sub", &["Alice"], &[], false),
            ("sub", &["ali"], &[], false),
            ("admin", &["true"], &[], true),
            ("level", &["7"], &[], true),
            ("scope", &["write"], &[], true),
            ("scope", &["read  write"], &[], false),
            ("scope", &[""], &[], false),
            ("scope", &[], &["read", "write"], true),
            ("scope", &[], &["read", "delete"], false),
            ("scp", &[], &["write", "read"], true),
            ("realm.roles", &["dev"], &[], true),
            ("realm.roles", &["ops"], &["dev"], false),
            ("realm.deep.x", &["y"], &[], true),
            ("realm.roles.x", &[], &[], false),
            ("realm", &["user"], &[], false),
            ("realm", &[], &[], true),
            ("https://a.example/roles", &["ops"], &[], true),
            ("a.b", &["whole name"], &[], true),
            ("mixed", &["1"], &["true", "x"], true),
            ("mixed", &["null"], &[], false),
        ];
        for (name, any_of, all_of, expected) in rows {
            let required = RequiredClaim {
                path: ClaimPath::new(name),
                any_of: any_of.iter().map(|text| StringMatcher::Exact((*text).to_owned())).collect(),
                all_of: all_of.iter().map(|text| (*text).to_owned()).collect(),
            };
            assert_eq!(required.holds(&claims()), *expected, "{name} {any_of:?} {all_of:?}");
        }
    }

    #[test]
    fn how_claims_are_written() {
        let rows = [
            ("sub", false, Some(Ok("alice"))),
            ("admin", false, Some(Ok("true"))),
            ("level", false, Some(Ok("7"))),
            ("scp", false, Some(Ok("read,write"))),
            ("scp", true, Some(Ok("[\"read\",\"write\"]"))),
            ("mixed", false, Some(Ok("[\"x\",1,true,null]"))),
            ("realm.deep", false, Some(Ok("{\"x\":\"y\"}"))),
            ("empty", false, Some(Ok(""))),
            ("unicode", false, Some(Ok("\u{e9}"))),
            ("line", false, Some(Err(()))),
            ("absent", false, None),
            ("none", false, None),
        ];
        for (name, arrays_as_json, expected) in rows {
            let text = ClaimText { path: ClaimPath::new(name), arrays_as_json };
            let got = text.value(&claims());
            let got =
                got.map(|value| value.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()));
            assert_eq!(got, expected.map(|value| value.map(str::to_owned)), "{name}");
        }
    }
}
