//! What must hold of everything that is written, whatever comes in.

use std::collections::BTreeSet;

use filter_api::{CounterSet, HeaderOp};
use header_rewrite::counters::Skipped;
use serde_json::Value;

use super::interpreter::{Message, OF_A_CONNECTION};

/// What a configuration has a message's edits do.
pub(super) struct Allowed {
    /// The names that operations for them alone may write: those of path, host and cookies, and what tells what path and
    /// host were.
    own: BTreeSet<&'static str>,
    /// Names that no operation may touch, in lower case.
    protected: BTreeSet<String>,
}

impl Allowed {
    /// By the operations of a list, and of the groups in it.
    pub(super) fn of(items: &[Value], protected: &Value) -> Self {
        let mut own = BTreeSet::new();
        let mut add = |item: &Value| {
            if !item["path"].is_null() {
                own.extend([":path", "x-envoy-original-path"]);
            }
            if !item["query"].is_null() {
                own.insert(":path");
            }
            if !item["host"].is_null() {
                own.extend([":authority", "x-forwarded-host"]);
            }
            if !item["cookie"].is_null() {
                own.extend(["cookie", "set-cookie"]);
            }
        };
        each(items, &mut add);
        let names = protected.as_array().into_iter().flatten().filter_map(Value::as_str);
        Self { own, protected: names.map(str::to_ascii_lowercase).collect() }
    }

    /// Holds operations to the laws.
    pub(super) fn hold(&self, operations: &[HeaderOp]) {
        for operation in operations {
            let name = match operation {
                HeaderOp::Set(name, value) | HeaderOp::Add(name, value) => {
                    let splits =
                        value.as_bytes().iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
                    assert!(!splits, "{operation:?} holds a control character");
                    name.as_str()
                }
                HeaderOp::Remove(name) => name.as_str(),
            };
            assert!(
                !name.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || byte.is_ascii_uppercase()),
                "{name:?}"
            );
            assert!(!self.protected.contains(name), "{operation:?} of a protected name");
            if self.own.contains(name) {
                continue;
            }
            assert!(!name.starts_with(':') && name != "host", "{operation:?}");
            assert!(!OF_A_CONNECTION.contains(&name), "{operation:?}");
        }
    }
}

/// Calls `take` with every item, those of groups too.
pub(super) fn each(items: &[Value], take: &mut impl FnMut(&Value)) {
    for item in items {
        take(item);
        each(item["mutations"].as_array().map_or(&[], Vec::as_slice), take);
    }
}

/// Performs operations as Envoy does.
pub(super) fn performed(mut message: Message, operations: &[HeaderOp]) -> Message {
    for operation in operations {
        match operation {
            HeaderOp::Set(name, value) => {
                message.insert(name.as_str().to_owned(), vec![value.as_bytes().to_vec()]);
            }
            HeaderOp::Add(name, value) => {
                message.entry(name.as_str().to_owned()).or_default().push(value.as_bytes().to_vec());
            }
            HeaderOp::Remove(name) => drop(message.remove(name.as_str())),
        }
    }
    message
}

/// What was counted.
pub(super) fn skipped(counters: CounterSet) -> BTreeSet<&'static str> {
    let labels = ["invalid_value", "too_long"];
    counters
        .iter()
        .map(|counter| labels[usize::from(counter.0)])
        .inspect(|label| assert_is_known(label))
        .collect()
}

fn assert_is_known(label: &str) {
    assert!(Skipped::ALL.iter().any(|skipped| skipped.label() == label));
}

/// A path that came well is one afterwards too: it begins with a slash, and holds no byte that would end it in a
/// request's first line, but for those that came in it.
pub(super) fn path_stays_one(before: &Message, after: &Message) {
    let path = |message: &Message| message.get(":path").map(|lines| lines.concat()).unwrap_or_default();
    let (before, after) = (path(before), path(after));
    if before == after {
        return;
    }
    assert!(before.starts_with(b"/") && after.starts_with(b"/"), "{after:?}");
    let mut odd: BTreeSet<u8> = BTreeSet::new();
    let is_odd = |byte: &&u8| **byte <= b' ' || **byte >= 0x7f || **byte == b'#';
    odd.extend(before.iter().filter(is_odd));
    assert!(
        after.iter().filter(is_odd).all(|byte| odd.contains(byte)),
        "{:?}",
        String::from_utf8_lossy(&after)
    );
}

/// An authority that was written is one.
pub(super) fn host_stays_one(before: &Message, after: &Message) {
    let host = |message: &Message| message.get(":authority").cloned();
    if host(before) != host(after) {
        let after = host(after).unwrap();
        assert!(after.len() == 1 && !after[0].is_empty(), "{after:?}");
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
        assert!(after[0].iter().all(is_part), "{after:?}");
    }
}
