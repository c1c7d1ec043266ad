//! Claims of a token, by name, and as text: for headers, properties, and whatever else must be one line.

use serde_json::{Map, Value};

use crate::HeaderValue;

/// A claim by its name: that of a member, or members of members joined by dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath(String);

/// A claim, and how it is written as text.
#[derive(Debug, Clone)]
pub struct ClaimText {
    /// The claim.
    pub path: ClaimPath,
    /// Whether an array of scalars is written as JSON, as objects and other arrays are; else its
    /// items are joined by commas.
    pub arrays_as_json: bool,
}

impl ClaimPath {
    /// A path of this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether the claim holds scopes, which are written as one string with spaces between them
    /// (RFC 8693 section 4.2; `scp` is what some issuers call it).
    pub fn is_scope(&self) -> bool {
        matches!(self.0.as_str(), "scope" | "scp")
    }

    /// The claim. A member of the whole name comes first: names like `https://a.example/roles` have
    /// dots in them.
    pub fn find<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        if let Some(claim) = claims.get(&self.0) {
            return Some(claim);
        }
        let mut names = self.0.split('.');
        let first = claims.get(names.next()?)?;
        names.try_fold(first, |claim, name| claim.get(name))
    }
}

impl ClaimText {
    /// The text, fit for a header's value; `None` where the claim is absent or null, `Err` where it is not
    /// fit: a control character in it would end the line.
    pub fn value(&self, claims: &Map<String, Value>) -> Option<Result<HeaderValue, ()>> {
        let claim = self.path.find(claims)?;
        let text = match claim {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Array(items) if !self.arrays_as_json => match join(items) {
                Some(joined) => joined,
                None => claim.to_string(),
            },
            _ => claim.to_string(),
        };
        Some(HeaderValue::new(text).map_err(|_| ()))
    }
}

/// The items joined by commas; `None` where one of them is no scalar.
fn join(items: &[Value]) -> Option<String> {
    let mut out = String::new();
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        match item {
            Value::String(text) => out.push_str(text),
            Value::Number(_) | Value::Bool(_) => out.push_str(&item.to_string()),
            _ => return None,
        }
    }
    Some(out)
}
