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
    /// What tells the request apart from others in a sample: the same number for the same id. It was found while its
    /// headers were at hand, so that they need not be read again to learn that it is not in the sample.
    SampleNumber(u64),
}

/// Facts, in the order in which they were found. Two of them, more than most requests have, allocate nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(pub SmallVec<[Fact; 2]>);

impl Facts {
    /// The claims of verified tokens, those found last first: what they say goes before what others did, as it does
    /// in headers and properties. Of several tokens that one provider has verified, the last alone: what two of them
    /// claim never stands side by side.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        let all = self.0.iter().enumerate().rev();
        all.filter_map(|(place, fact)| match fact {
            Fact::Claims { provider, claims } => {
                let mut later = self.0.iter().skip(place.saturating_add(1));
                (!later.any(|other| other.is_of(provider))).then_some((provider.as_ref(), claims.as_ref()))
            }
            Fact::Refused { .. } | Fact::SampleNumber(_) => None,
        })
    }

    /// What tells the request apart in a sample, where it was found out.
    pub fn sample_number(&self) -> Option<u64> {
        self.0.iter().rev().find_map(|fact| match fact {
            Fact::SampleNumber(number) => Some(*number),
            Fact::Claims { .. } | Fact::Refused { .. } => None,
        })
    }
}

impl Fact {
    /// Whether it is what this very provider has found out. In a chain, another filter's may have the same name.
    fn is_of(&self, provider: &Arc<str>) -> bool {
        matches!(self, Self::Claims { provider: own, .. } if Arc::ptr_eq(own, provider))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_found_last_goes_first_and_tokens_of_one_provider_are_not_mixed() {
        let (main, other, namesake): (Arc<str>, Arc<str>, Arc<str>) =
            ("main".into(), "other".into(), "main".into());
        let claims = |provider: &Arc<str>, number: u8| Fact::Claims {
            provider: Arc::clone(provider),
            claims: Arc::new(json!(number)),
        };
        let refused = Fact::Refused { filter: "a", reason: "b".into() };
        let found = [
            claims(&main, 1),
            claims(&namesake, 2),
            claims(&main, 3),
            refused,
            claims(&other, 4),
            claims(&other, 5),
        ];
        let facts = Facts(found.into_iter().collect());
        let said: Vec<(&str, u64)> =
            facts.claims().map(|(provider, claims)| (provider, claims.as_u64().unwrap())).collect();
        assert_eq!(said, [("other", 5), ("main", 3), ("main", 2)]);
    }
}
