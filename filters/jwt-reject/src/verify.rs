//! What is looked at in a token, and in which order: the cheapest first, the signature last.
//!
//! 1. shape and size; 2. header; 3. algorithm; 4. payload and the types of its registered claims;
//! 5. a key for it; 6. times; 7. issuer; 8. audience; 9. subject; 10. other claims and revocation;
//! 11. signature.
//!
//! The first that fails is the reason. `foregate jwt check` runs this very code, and learns each
//! step through an [`Observer`].
//!
//! Where there are no keys, all else is looked at all the same: what is refused anyway need not wait for them.

use filter_api::Host;
use filter_api::config::StringMatcher;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::budget::Budget;
use crate::claims::RequiredClaim;
use crate::deny::Deny;
use crate::keys::{Key, KeySet};
use crate::reason::{Check, CheckedBy, Reason};
use crate::signature;
use crate::token::{Claims, Header, Padding, Parts, decode_base64url, decode_object};

/// Whose tokens are accepted, and which.
#[derive(Debug, Clone)]
pub struct Policy {
    /// `iss` must be this; none: any, or none at all.
    pub issuer: Option<String>,
    /// `aud` must name one of these; empty: not looked at.
    pub audiences: Vec<String>,
    /// `sub` must match one of these; empty: not looked at.
    pub subjects: Vec<StringMatcher>,
    /// What other claims must hold.
    pub required_claims: Vec<RequiredClaim>,
    /// What is revoked.
    pub deny: Deny,
    /// `typ` must be one of these, in any case; empty: not looked at.
    pub kinds: Vec<String>,
    /// The algorithms allowed.
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may differ, in nanoseconds.
    pub clock_skew: u64,
    /// Whether `exp` must be there.
    pub require_expiration: bool,
    /// The most that `exp` may be ahead, in nanoseconds. Asks for `exp` too.
    pub max_lifetime: Option<u64>,
    /// Whether `=` may end a part.
    pub padding: Padding,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            issuer: None,
            audiences: Vec::new(),
            subjects: Vec::new(),
            required_claims: Vec::new(),
            deny: Deny::default(),
            kinds: Vec::new(),
            algorithms: Algorithm::ALL.to_vec(),
            clock_skew: 60_000_000_000,
            require_expiration: false,
            max_lifetime: None,
            padding: Padding::Refused,
        }
    }
}

/// Learns what is found in a token and how far it gets.
pub trait Observer {
    /// The header was decoded; whether it is good comes next.
    fn header(&mut self, _: &Map<String, Value>) {}
    /// The claims were decoded; whether they are good comes next.
    fn claims(&mut self, _: &Map<String, Value>) {}
    /// A check was passed.
    fn passed(&mut self, _: Check) {}
    /// A signature was checked against one key, by the host or here.
    fn checked_signature(&mut self, _: CheckedBy) {}
}

/// Learns nothing.
impl Observer for () {}

/// What signatures are checked with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Means<'m, H> {
    /// Whoever checks what the host can.
    pub(crate) host: &'m H,
    /// How much of the rest may be checked here.
    pub(crate) budget: &'m Budget,
}

/// A token that was read but not yet believed. Which provider it is for can be seen from it.
#[derive(Debug, Clone)]
pub struct Unverified<'a> {
    parts: Parts<'a>,
    header: Header,
    claims: Claims,
    padding: Padding,
}

impl<'a> Unverified<'a> {
    /// Takes steps 1, 2 and 4 (and as much of 3 as needs no policy): what can be said of a token
    /// without knowing whose it should be.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn read(token: &'a [u8], padding: Padding, observer: &mut impl Observer) -> Result<Self, Reason> {
        let (parts, header) = read_header(token, padding, observer)?;
        let json =
            decode_object(parts.payload, padding, Reason::PayloadNotBase64url, Reason::PayloadNotJson)?;
        observer.claims(&json);
        let claims = Claims::read(json)?;
        observer.passed(Check::Payload);
        Ok(Self { parts, header, claims, padding })
    }

    /// The payload as it stands in the token, base64url.
    pub fn payload(&self) -> &'a str {
        self.parts.payload
    }

    /// `iss`, unverified.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.issuer()
    }

    /// `kid`, unverified.
    pub fn key_id(&self) -> Option<&str> {
        self.header.key_id()
    }

    /// The claims: to be believed once [`Unverified::verify`] said so.
    pub fn into_claims(self) -> Claims {
        self.claims
    }

    /// Takes the other steps.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn verify(
        &self,
        policy: &Policy,
        keys: &KeySet,
        host: &impl Host,
        observer: &mut impl Observer,
    ) -> Result<(), Reason> {
        self.verify_within(policy, keys, &Means { host, budget: &Budget::unlimited() }, observer)
    }

    /// Takes them within a budget.
    ///
    /// # Errors
    /// The first check that failed, or that the budget is spent.
    pub(crate) fn verify_within(
        &self,
        policy: &Policy,
        keys: &KeySet,
        means: &Means<'_, impl Host>,
        observer: &mut impl Observer,
    ) -> Result<(), Reason> {
        allowed_header(&self.header, policy, observer)?;
        let candidates = candidates(&self.header, keys, observer)?;
        self.check_claims(policy, means.host, observer)?;
        check_signature(&self.parts, &self.header, self.padding, candidates, means, observer)
    }

    /// Takes the steps that need no key.
    ///
    /// # Errors
    /// The first check that failed.
    pub(crate) fn verify_without_keys(&self, policy: &Policy, host: &impl Host) -> Result<(), Reason> {
        allowed_header(&self.header, policy, &mut ())?;
        self.check_claims(policy, host, &mut ())
    }

    /// Takes steps 6 to 10.
    fn check_claims(
        &self,
        policy: &Policy,
        host: &impl Host,
        observer: &mut impl Observer,
    ) -> Result<(), Reason> {
        check_time(self.claims.expires, self.claims.not_before, policy, host)?;
        observer.passed(Check::Time);
        check_issuer(&self.claims, policy)?;
        observer.passed(Check::Issuer);
        check_audience(&self.claims, policy)?;
        observer.passed(Check::Audience);
        check_subject(&self.claims, policy)?;
        observer.passed(Check::Subject);
        check_claims(&self.claims, policy)?;
        observer.passed(Check::Claims);
        Ok(())
    }
}

/// Checks header, key and signature alone, whatever the payload is: for tools. A filter never
/// stops here.
///
/// # Errors
/// The first check that failed.
pub fn signature_only(
    token: &[u8],
    policy: &Policy,
    keys: &KeySet,
    host: &impl Host,
    observer: &mut impl Observer,
) -> Result<(), Reason> {
    let means = Means { host, budget: &Budget::unlimited() };
    let (parts, header) = read_header(token, policy.padding, observer)?;
    decode_base64url(parts.payload, policy.padding).ok_or(Reason::PayloadNotBase64url)?;
    allowed_header(&header, policy, observer)?;
    let candidates = candidates(&header, keys, observer)?;
    check_signature(&parts, &header, policy.padding, candidates, &means, observer)
}

fn read_header<'a>(
    token: &'a [u8],
    padding: Padding,
    observer: &mut impl Observer,
) -> Result<(Parts<'a>, Header), Reason> {
    let parts = Parts::split(token)?;
    observer.passed(Check::Shape);
    let json = decode_object(parts.header, padding, Reason::HeaderNotBase64url, Reason::HeaderNotJson)?;
    observer.header(&json);
    Header::check(&json)?;
    observer.passed(Check::Header);
    Ok((parts, Header::read(json)?))
}

fn allowed_header(header: &Header, policy: &Policy, observer: &mut impl Observer) -> Result<(), Reason> {
    let listed = |kind: &str| policy.kinds.iter().any(|own| own.eq_ignore_ascii_case(kind));
    if !policy.kinds.is_empty() && !header.kind().is_some_and(listed) {
        return Err(Reason::TypNotAllowed);
    }
    if !policy.algorithms.contains(&header.algorithm) {
        return Err(Reason::AlgNotAllowed);
    }
    observer.passed(Check::Algorithm);
    Ok(())
}

fn candidates<'k, O: Observer>(
    header: &'k Header,
    keys: &'k KeySet,
    observer: &mut O,
) -> Result<impl Iterator<Item = &'k Key> + use<'k, O>, Reason> {
    let mut candidates = keys.candidates(header.key_id(), header.algorithm).peekable();
    if candidates.peek().is_none() {
        return Err(Reason::KeyNotFound);
    }
    observer.passed(Check::Key);
    Ok(candidates)
}

/// Step 6, which a token that was verified before has to take again.
pub(crate) fn check_time(
    expires: Option<u64>,
    not_before: Option<u64>,
    policy: &Policy,
    host: &impl Host,
) -> Result<(), Reason> {
    if expires.is_none() && (policy.require_expiration || policy.max_lifetime.is_some()) {
        return Err(Reason::ExpMissing);
    }
    if expires.is_none() && not_before.is_none() {
        return Ok(());
    }
    let now = host.moment().unix_nanos;
    if let Some(expires) = expires {
        // RFC 7519 section 4.1.4: not to be accepted on or after it. A skew is what is tolerated
        // beyond that, itself included.
        let last = expires.saturating_add(policy.clock_skew);
        if now > last || (now == last && policy.clock_skew == 0) {
            return Err(Reason::TokenExpired);
        }
        if policy.max_lifetime.is_some_and(|most| expires.saturating_sub(now) > most) {
            return Err(Reason::LifetimeTooLong);
        }
    }
    if not_before.is_some_and(|not_before| now.saturating_add(policy.clock_skew) < not_before) {
        return Err(Reason::TokenNotYetValid);
    }
    Ok(())
}

fn check_issuer(claims: &Claims, policy: &Policy) -> Result<(), Reason> {
    match &policy.issuer {
        Some(issuer) if claims.issuer() != Some(issuer) => Err(Reason::IssuerNotConfigured),
        _ => Ok(()),
    }
}

fn check_audience(claims: &Claims, policy: &Policy) -> Result<(), Reason> {
    let mut named = claims.audiences();
    if policy.audiences.is_empty() || named.any(|audience| policy.audiences.iter().any(|own| own == audience))
    {
        Ok(())
    } else {
        Err(Reason::AudienceNotAllowed)
    }
}

fn check_subject(claims: &Claims, policy: &Policy) -> Result<(), Reason> {
    let matches = |subject: &str| policy.subjects.iter().any(|own| own.matches(subject.as_bytes()));
    if policy.subjects.is_empty() || claims.subject().is_some_and(matches) {
        Ok(())
    } else {
        Err(Reason::SubjectNotAllowed)
    }
}

fn check_claims(claims: &Claims, policy: &Policy) -> Result<(), Reason> {
    match policy.required_claims.iter().find(|required| !required.holds(&claims.json)) {
        Some(required) if required.path.is_scope() => return Err(Reason::ScopeMissing),
        Some(_) => return Err(Reason::ClaimNotAllowed),
        None => {}
    }
    if policy.deny.holds(claims) { Err(Reason::TokenRevoked) } else { Ok(()) }
}

fn check_signature<'k>(
    parts: &Parts<'_>,
    header: &Header,
    padding: Padding,
    candidates: impl Iterator<Item = &'k Key>,
    means: &Means<'_, impl Host>,
    observer: &mut impl Observer,
) -> Result<(), Reason> {
    let bytes = decode_base64url(parts.signature, padding).ok_or(Reason::SignatureNotBase64url)?;
    for key in candidates {
        let (good, by) = signature::check(key, header.algorithm, parts.signed.as_bytes(), &bytes, means)
            .ok_or(Reason::Overloaded)?;
        observer.checked_signature(by);
        if good {
            observer.passed(Check::Signature);
            return Ok(());
        }
    }
    Err(Reason::SignatureWrong)
}
