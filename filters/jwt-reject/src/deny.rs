//! Revocation: tokens that verify, and are refused all the same.
//!
//! By what they claim, never by their bytes: a signature can be written in more than one way, so one
//! token has many spellings. However long a list is, a token costs one look-up in it.

use std::collections::BTreeMap;

use crate::token::Claims;

/// What is revoked: for each `jti`, `sub` and `iss` listed, what was issued before a moment, in
/// nanoseconds since 1970. A token that does not say when it was issued is taken to be older.
#[derive(Debug, Clone, Default)]
pub struct Deny {
    /// Single tokens, by `jti`.
    pub ids: BTreeMap<String, u64>,
    /// By `sub`.
    pub subjects: BTreeMap<String, u64>,
    /// By `iss`.
    pub issuers: BTreeMap<String, u64>,
}

/// The moment that everything was issued before.
pub const ALWAYS: u64 = u64::MAX;

impl Deny {
    /// Whether a token with these claims is revoked.
    pub fn holds(&self, claims: &Claims) -> bool {
        let lists =
            [(&self.ids, claims.id()), (&self.subjects, claims.subject()), (&self.issuers, claims.issuer())];
        lists.into_iter().any(|(list, claim)| {
            let moment = claim.filter(|_| !list.is_empty()).and_then(|claim| list.get(claim));
            moment.is_some_and(|moment| {
                *moment == ALWAYS || claims.issued_at.is_none_or(|issued| issued < *moment)
            })
        })
    }
}
