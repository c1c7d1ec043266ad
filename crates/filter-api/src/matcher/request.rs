//! The conditions of one rule.

use super::{HostPattern, PathPattern, PathView};
use crate::config::{Node, Object, StringMatcher, WAYS};
use crate::{Head, HeaderName};

/// Conditions on a request; all of those given must hold.
#[derive(Debug, Clone, Default)]
pub struct RequestMatcher {
    hosts: Vec<HostPattern>,
    paths: Vec<PathPattern>,
    methods: Vec<String>,
    headers: Vec<HeaderCondition>,
}

/// A condition on a header: that it is there, or how one of its lines looks.
#[derive(Debug, Clone)]
pub struct HeaderCondition {
    name: HeaderName,
    /// Any of these; empty: the header is there.
    values: Vec<StringMatcher>,
    invert: bool,
}

impl RequestMatcher {
    /// Reads a `match` object.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.object()?;
        let matcher = Self {
            hosts: read_list(&object, "host", HostPattern::read),
            paths: read_paths(&object),
            methods: read_list(&object, "method", read_method),
            headers: read_list(&object, "headers", HeaderCondition::read),
        };
        object.finish();
        Some(matcher)
    }

    /// Whether the request meets the conditions, however its path is read.
    pub fn matches(&self, head: &impl Head, path: &PathView<'_>) -> bool {
        !(self.depends_on_path() && path.is_unreadable())
            && path.readings().all(|reading| self.matches_reading(head, reading))
    }

    /// Whether the request meets the conditions if its path is read in one way or another: for rules that nobody
    /// should get around. One whose readings nobody can list meets any condition on the path.
    pub fn may_match(&self, head: &impl Head, path: &PathView<'_>) -> bool {
        path.readings().any(|reading| self.matches_reading(head, reading))
            || (self.depends_on_path() && path.is_unreadable() && self.matches_but_for_path(head))
    }

    /// Whether it has a condition on the path.
    pub fn depends_on_path(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether the request meets the conditions, its path read as this. An empty path, which a
    /// CONNECT request has, meets no path condition.
    pub(super) fn matches_reading(&self, head: &impl Head, path: &[u8]) -> bool {
        (self.paths.is_empty() || self.paths.iter().any(|pattern| pattern.matches(path)))
            && self.matches_but_for_path(head)
    }

    fn matches_but_for_path(&self, head: &impl Head) -> bool {
        (self.methods.is_empty() || self.methods.iter().any(|method| method.as_bytes() == head.method()))
            && (self.hosts.is_empty() || self.hosts.iter().any(|host| host.matches(head.authority())))
            && self.headers.iter().all(|condition| condition.holds(head))
    }

    /// Whether it has no condition at all: every request matches.
    pub fn is_every(&self) -> bool {
        self.hosts.is_empty() && self.paths.is_empty() && self.methods.is_empty() && self.headers.is_empty()
    }
}

impl HeaderCondition {
    /// Reads `{name}` and at most one way in which its lines must look.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.object()?;
        let name = object.required("name").and_then(|name| name.header_name());
        let invert = object.get("invert_match").and_then(|flag| flag.bool()).unwrap_or(false);
        let ignore_case = object.get("ignore_case").and_then(|flag| flag.bool()).unwrap_or(false);
        let mut values = Vec::new();
        let mut ways = 0_usize;
        for (way, value) in object.any_of(&WAYS) {
            ways = ways.saturating_add(1);
            let read = |item: Node<'_>| StringMatcher::of_way(way, &item, ignore_case);
            values.extend(value.one_or_more().into_iter().filter_map(read));
        }
        if let Some(string_match) = object.get("string_match") {
            ways = ways.saturating_add(1);
            values.extend(StringMatcher::read(&string_match));
        }
        let mut absent = false;
        if let Some(present) = object.any_of(&["present_match", "present"]).pop() {
            ways = ways.saturating_add(1);
            absent = present.1.bool() == Some(false);
        }
        if ways > 1 {
            node.error("says in several ways how the header must look; give one");
        }
        object.finish();
        Some(Self { name: name?, values, invert: invert != absent })
    }

    /// Whether the head meets it.
    pub fn holds(&self, head: &impl Head) -> bool {
        let mut lines = head.get_all(self.name.as_str());
        let found = if self.values.is_empty() {
            lines.next().is_some()
        } else {
            lines.any(|line| self.values.iter().any(|value| value.matches(line)))
        };
        found != self.invert
    }
}

fn read_list<T>(object: &Object<'_>, name: &'static str, read: impl Fn(&Node<'_>) -> Option<T>) -> Vec<T> {
    let Some(node) = object.get(name) else { return Vec::new() };
    let items = node.one_or_more();
    if items.is_empty() {
        node.error("must not be an empty list, which nothing could match; leave it out instead");
    }
    items.iter().filter_map(read).collect()
}

fn read_paths(object: &Object<'_>) -> Vec<PathPattern> {
    let mut given = object.any_of(&["path", "prefix", "path_separated_prefix", "safe_regex", "regex"]);
    if given.len() > 1 {
        let names: Vec<String> = given.iter().map(|(name, _)| format!("`{name}`")).collect();
        let message = format!("{} are given; give one, or list them under `path`", names.join(" and "));
        object.node().error(message);
        return Vec::new();
    }
    match given.pop() {
        Some(("path", _)) => read_list(object, "path", PathPattern::read),
        Some((way, node)) => PathPattern::of_way(way, &node).into_iter().collect(),
        None => Vec::new(),
    }
}

fn read_method(node: &Node<'_>) -> Option<String> {
    let method = node.filled_string()?;
    if !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_') {
        node.error(format!("{method:?} is not a method; they are compared with case, such as \"GET\""));
        return None;
    }
    Some(method.to_owned())
}
