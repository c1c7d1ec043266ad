//! Host conditions, as Envoy's virtual hosts write domains.

use crate::config::Node;

/// A host: exact, any below a domain, or any at all. Case and port are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// `api.example`.
    Exact(String),
    /// `*.example`: any name that ends in `.example`, at any depth.
    Below(String),
    /// `*`.
    Any,
}

impl HostPattern {
    /// Reads one.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        let text = node.filled_string()?.to_ascii_lowercase();
        if text == "*" {
            return Some(Self::Any);
        }
        let name = text.strip_prefix('*').unwrap_or(&text);
        let bare = without_port(name.as_bytes());
        if bare.len() != name.len() {
            node.error(format!("{text:?} names a port; hosts are compared without one, so leave it out"));
            return None;
        }
        let below = text.len() != name.len();
        if name.contains(['*', '/', ' ', '@'])
            || (below && !name.starts_with('.'))
            || name.starts_with('.') != below
        {
            node.error(format!("{text:?} is not a host; write \"api.example\", \"*.example\" or \"*\""));
            return None;
        }
        Some(if below { Self::Below(name.to_owned()) } else { Self::Exact(name.to_owned()) })
    }

    /// Whether this `:authority` names the host.
    pub fn matches(&self, authority: &[u8]) -> bool {
        // What most of many patterns come to: nothing but this is looked at.
        if let Self::Exact(name) = self
            && !authority.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        {
            return false;
        }
        let host = without_port(authority);
        let host = host.strip_suffix(b".").unwrap_or(host);
        match self {
            Self::Any => true,
            // Two Host lines reach a filter as one value, joined by a comma: neither is to be trusted.
            _ if host.iter().any(|byte| matches!(byte, b',' | b' ' | b'\t' | b'@' | b'/')) => false,
            Self::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            Self::Below(suffix) => host
                .len()
                .checked_sub(suffix.len())
                .filter(|rest| *rest > 0)
                .and_then(|rest| host.get(rest..))
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes())),
        }
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
pub fn without_port(authority: &[u8]) -> &[u8] {
    let Some(colon) = authority.iter().rposition(|byte| *byte == b':') else { return authority };
    let (host, port) = authority.split_at_checked(colon).unwrap_or((authority, b""));
    let digits = port.iter().skip(1).all(u8::is_ascii_digit);
    let v6_without_port = host.contains(&b':') && !host.ends_with(b"]");
    if digits && !v6_without_port { host } else { authority }
}
