//! Names that are not for every operation: those that a message's framing depends on, those of one connection, and
//! those that the configuration protects.

use filter_api::HeaderName;
use filter_api::config::{Node, StringMatcher};

/// Of one connection, or of a message's framing: Envoy writes them itself.
const OF_A_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Without it, Envoy finds no route for a request. It may be written, but not taken away.
const OF_A_ROUTE: &str = "x-forwarded-proto";

/// Names that the configuration protects.
#[derive(Debug, Default)]
pub(crate) struct Guard(Vec<StringMatcher>);

impl Guard {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        Self(node.one_or_more().iter().filter_map(read_pattern).collect())
    }

    /// A name that an operation may write or remove. `None` where it may not, having said so.
    pub(crate) fn writable(&self, node: &Node<'_>) -> Option<HeaderName> {
        let name = node.header_name()?;
        let problem = match name.as_str() {
            ":path" => "is changed by the operations `path` and `query`".to_owned(),
            ":authority" | "host" => "is changed by the operation `host`".to_owned(),
            pseudo if pseudo.starts_with(':') => "is not for any operation to change".to_owned(),
            own if OF_A_CONNECTION.contains(&own) => {
                "is Envoy's own: a message's framing or its connection depends on it".to_owned()
            }
            own if self.protects(own.as_bytes()) => "is on the list `protected`".to_owned(),
            _ => return Some(name),
        };
        node.error(format!("{:?} {problem}", name.as_str()));
        None
    }

    /// A name that an operation may remove. `None` where it may not, having said so.
    pub(crate) fn removable(&self, node: &Node<'_>) -> Option<HeaderName> {
        let name = self.writable(node)?;
        if name.as_str() == OF_A_ROUTE {
            node.error(format!("{OF_A_ROUTE:?} cannot be removed: Envoy finds no route without it"));
            return None;
        }
        Some(name)
    }

    /// Whether an operation that names no name may remove this one.
    pub(crate) fn allows(&self, name: &[u8]) -> bool {
        let is_kept = name.starts_with(b":")
            || name == b"host"
            || name == OF_A_ROUTE.as_bytes()
            || OF_A_CONNECTION.iter().any(|own| own.as_bytes() == name)
            || self.protects(name);
        !is_kept
    }

    /// Whether an operation that writes this name of its own may. Says so where it may not.
    pub(crate) fn allows_own(&self, node: &Node<'_>, name: &HeaderName) -> bool {
        let is_protected = self.protects(name.as_str().as_bytes());
        if is_protected {
            node.error(format!("writes {:?}, which is on the list `protected`", name.as_str()));
        }
        !is_protected
    }

    fn protects(&self, name: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }
}

/// A pattern for names of headers, which are in lower case: a name alone, or `{prefix: ...}` and so on.
pub(crate) fn read_pattern(node: &Node<'_>) -> Option<StringMatcher> {
    Some(lower_case(StringMatcher::read(node)?))
}

fn lower_case(pattern: StringMatcher) -> StringMatcher {
    match pattern {
        StringMatcher::Exact(text) => StringMatcher::Exact(text.to_ascii_lowercase()),
        StringMatcher::Prefix(text) => StringMatcher::Prefix(text.to_ascii_lowercase()),
        StringMatcher::Suffix(text) => StringMatcher::Suffix(text.to_ascii_lowercase()),
        StringMatcher::Contains(text) => StringMatcher::Contains(text.to_ascii_lowercase()),
        StringMatcher::IgnoreCase(inner) => lower_case(*inner),
        StringMatcher::Regex(regex) => StringMatcher::Regex(regex),
    }
}
