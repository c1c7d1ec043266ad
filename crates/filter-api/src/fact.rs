//! What one filter found out and a later one may use: verified claims, who refused and why.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::Text;

/// One finding. The list is closed, so that a reader finds every one of them here.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A token was verified. `claims` is its payload, a JSON object.
    Claims {
        /// The provider that verified it, as the configuration names it.
        provider: Arc<str>,
        /// The payload, parsed.
        claims: Arc<serde_json::Value>,
    },
    /// A filter refused the request, or would have in shadow mode.
    Refused {
        /// The filter's name.
        filter: &'static str,
        /// The reason: of the filter's own closed list, or a name that its configuration gives.
        reason: Text,
    },
}

/// Facts, in the order in which they were found. One of them, as most requests have, allocates nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(pub SmallVec<[Fact; 1]>);

impl Facts {
    /// The claims of every verified token, in the order of verification.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        self.0.iter().filter_map(|fact| match fact {
            Fact::Claims { provider, claims } => Some((provider.as_ref(), claims.as_ref())),
            Fact::Refused { .. } => None,
        })
    }
}
