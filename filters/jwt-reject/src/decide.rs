//! The decision about one request.

use std::rc::Rc;
use std::sync::Arc;

use filter_api::matcher::{PathView, Selected, select};
use filter_api::{
    CounterSet, Effects, Fact, Facts, Filter, Head, HeaderName, HeaderOp, HeaderValue, Host, Level, LogLine,
    Outcome, Property, Waiting,
};
use serde_json::Value;

use crate::JwtReject;
use crate::answer;
use crate::cache::{Good, Memory};
use crate::config::{Config, Provider, Requirement, Rule, Tokens, bit};
use crate::locate::{self, Few, Found};
use crate::reason::{Allowed, CLAIMS_NOT_FORWARDED, CacheResult, CheckedBy, Reason, WAITED};
use crate::remote::Remote;
use crate::token::Claims;
use crate::verify::{Means, Observer, Unverified, check_time};

/// Decides about a request.
pub(crate) fn outcome(config: &Config, head: &impl Head, host: &impl Host) -> Outcome {
    let mut request =
        Request { config, head, host, effects: Effects::default(), said: Few::new(), wait: None };
    let verdict = request.decide();
    // What keys that are to come cannot change is said at once.
    let depends_on_keys =
        matches!(verdict, Err(Reason::JwksUnavailable | Reason::KeyNotFound) | Ok(Allowed::Failed));
    if depends_on_keys && let Some(until) = request.wait {
        return request.hold(until);
    }
    match verdict {
        Ok(allowed) => request.allow(allowed),
        Err(reason) => request.refuse(reason),
    }
}

/// One request under decision.
struct Request<'r, H, T> {
    config: &'r Config,
    head: &'r H,
    host: &'r T,
    /// Its header operations take tokens out.
    effects: Effects,
    /// What verified tokens say.
    said: Few<Said<'r>>,
    /// Until when it is worth waiting for keys that a token needs.
    wait: Option<u64>,
}

/// What a token says, by the provider that verified it.
struct Said<'r> {
    /// Which of the request's tokens.
    token: usize,
    provider: &'r Provider,
    good: Rc<Good>,
}

impl Said<'_> {
    fn writes(&self, header: &HeaderName) -> bool {
        self.provider.written_headers().any(|own| own == header)
    }

    fn publishes(&self, property: &str) -> bool {
        self.provider.claim_properties.iter().any(|own| own.name.as_ref() == property)
    }
}

/// What was found out about a token.
struct Checked {
    /// The providers that verified it, as bits.
    verified: u64,
    /// Whether it stays in the request.
    stays: bool,
    /// Why nobody did, if nobody did.
    failed: Option<Reason>,
}

impl<'r, H: Head, T: Host> Request<'r, H, T> {
    fn decide(&mut self) -> Result<Allowed, Reason> {
        if self.config.bypass_cors_preflight && is_cors_preflight(self.head) {
            return Ok(Allowed::CorsPreflight);
        }
        let path = PathView::new(self.head.path());
        let lenient = |rule: &Rule| rule.requirement.is_lenient();
        let config = self.config;
        match select(&config.rules, |rule| &rule.matcher, lenient, self.head, &path) {
            Selected::Nothing if config.allow_by_default => Ok(Allowed::NoRule),
            Selected::Nothing => Err(Reason::NoRuleMatched),
            Selected::Ambiguous => Err(Reason::PathAmbiguous),
            Selected::Rule(rule) => match &rule.requirement {
                Requirement::Nothing => Ok(Allowed::NoRequirement),
                Requirement::Tokens(tokens) => self.require(tokens),
            },
        }
    }

    fn require(&mut self, required: &'r Tokens) -> Result<Allowed, Reason> {
        let mut found = Few::new();
        for (place, provider) in required.providers.iter().enumerate() {
            provider.locations.find(self.head, bit(place), &mut found);
        }
        if found.is_empty() {
            return if required.allows_none { Ok(Allowed::Missing) } else { Err(Reason::TokenMissing) };
        }
        let tolerant = required.tolerates_failure;
        let mut failed = self.out_of_bounds(&found);
        let mut checked: Few<Checked> = Few::new();
        if failed.is_none() {
            for (number, token) in found.iter().enumerate() {
                let token = self.check(number, token, required);
                failed = failed.or(token.failed);
                checked.push(token);
                if failed.is_some() && !tolerant {
                    break;
                }
            }
        }
        if let Some(reason) = failed
            && !tolerant
        {
            return Err(reason);
        }
        let verified = checked.iter().fold(0, |all, token| all | token.verified);
        if !required.tree.holds(verified) {
            return Err(failed.unwrap_or(Reason::TokenMissing));
        }
        let mut checked = checked.into_iter();
        found
            .retain(|token| !checked.next().map_or_else(|| forwarded_by_all(token, required), |it| it.stays));
        self.effects.headers = locate::removal(self.head, &found);
        match failed {
            None => Ok(Allowed::Verified),
            Some(_) => {
                self.effects.facts.0.clear();
                self.said.clear();
                Ok(Allowed::Failed)
            }
        }
    }

    /// What is said of the tokens without looking at them.
    fn out_of_bounds(&self, found: &[Found<'_>]) -> Option<Reason> {
        if found.len() > self.config.max_tokens {
            return Some(Reason::TooManyTokens);
        }
        let too_long = found.iter().any(|token| token.token.len() > self.config.max_token_bytes);
        too_long.then_some(Reason::TokenTooLong)
    }

    /// Checks a token by those of its owners who stand for its issuer.
    fn check(&mut self, number: usize, token: &Found<'_>, required: &'r Tokens) -> Checked {
        let several = required.providers.len() > 1;
        let mut verified = 0;
        let mut stays = true;
        let mut failed = Reason::IssuerNotConfigured;
        for (place, provider) in owning(token, required) {
            match self.check_by(provider, &token.token, several) {
                Ok(Some(good)) => {
                    verified |= bit(place);
                    stays &= provider.forward;
                    if good.left_out {
                        self.effects.counters.add(CLAIMS_NOT_FORWARDED);
                    }
                    let claims = Arc::clone(&good.claims);
                    self.effects.facts.0.push(Fact::Claims { provider: provider.name.clone(), claims });
                    self.said.push(Said { token: number, provider, good });
                    if !required.needs_every_verdict {
                        break;
                    }
                }
                Ok(None) => {}
                Err(reason) => failed = reason,
            }
        }
        match verified {
            0 => Checked { verified, stays: forwarded_by_all(token, required), failed: Some(failed) },
            _ => Checked { verified, stays, failed: None },
        }
    }

    /// Checks a token by one provider; nothing where it is one of `several` and another's.
    fn check_by(
        &mut self,
        provider: &Provider,
        token: &[u8],
        several: bool,
    ) -> Result<Option<Rc<Good>>, Reason> {
        let policy = &provider.policy;
        let counters = &mut self.effects.counters;
        let key = provider.cache.borrow().key(token);
        if let Some(key) = key {
            match provider.cache.borrow_mut().find(key, token) {
                Some(Memory::Good(good)) => {
                    counters.add(CacheResult::Hit.counter());
                    check_time(good.expires, good.not_before, policy, self.host)?;
                    return Ok(Some(good));
                }
                Some(Memory::Forged) => {
                    counters.add(CacheResult::Forged.counter());
                    return Err(Reason::SignatureWrong);
                }
                None => {}
            }
        }
        let unverified = Unverified::read(token, policy.padding, &mut ())?;
        if several && policy.issuer.as_deref().is_some_and(|own| unverified.issuer() != Some(own)) {
            return Ok(None);
        }
        let means = Means { host: self.host, budget: &self.config.budget };
        let keys = provider.keys.current();
        let verified = match &keys {
            Some(keys) => unverified.verify_within(policy, keys, &means, &mut Counting(counters)),
            None => Err(Reason::JwksUnavailable),
        };
        let verified = match (verified, provider.keys.remote()) {
            (Err(reason @ (Reason::KeyNotFound | Reason::JwksUnavailable)), Some(remote)) => {
                // A key that is there and does not fit is not to come.
                let known = |id: &str| keys.as_ref().is_some_and(|keys| keys.has_key_named(id));
                if unverified.key_id().is_some_and(known) {
                    return Err(reason);
                }
                // Nobody need wait for a key, nor fetch any, for a token that is refused all the same.
                unverified.verify_without_keys(policy, self.host).and_then(|()| {
                    self.ask_for_keys(remote);
                    Err(reason)
                })
            }
            (verified, _) => verified,
        };
        let good = match verified {
            Ok(()) => {
                let payload = unverified.payload();
                Some(Rc::new(provider.what_it_says(payload, unverified.into_claims())))
            }
            Err(Reason::SignatureWrong) => None,
            // What costs little to find wrong is not worth remembering.
            Err(reason) => return Err(reason),
        };
        if let Some(key) = key {
            let counters = &mut self.effects.counters;
            counters.add(CacheResult::Miss.counter());
            if provider.cache.borrow_mut().add(key, token, good.clone()) {
                counters.add(CacheResult::Evicted.counter());
            }
        }
        good.map(Some).ok_or(Reason::SignatureWrong)
    }

    /// Asks for keys that are not there, and notes until when they may be waited for.
    fn ask_for_keys(&mut self, remote: &Remote) {
        let now = self.host.moment().unix_nanos;
        let coming = remote.ask(now);
        let since = match self.host.waiting() {
            // In shadow mode nobody is kept waiting.
            _ if self.config.shadow || !coming => return,
            Waiting::Never => return,
            Waiting::NotYet => now,
            Waiting::Since(since) => since,
        };
        let until = since.saturating_add(remote.patience());
        if now < until {
            self.wait = Some(self.wait.map_or(until, |other| other.max(until)));
        }
    }

    /// The operations that take out what a client may have sent in place of our own headers.
    fn removed_copies(&self) -> Vec<HeaderOp> {
        let mut operations: Vec<HeaderOp> = Vec::new();
        if self.config.written_headers.is_empty() {
            return operations;
        }
        for (name, _) in self.head.lines() {
            let ours = self.config.written_headers.iter().any(|own| is_copy(name, own.as_str().as_bytes()));
            let name =
                std::str::from_utf8(name).ok().filter(|_| ours).and_then(|name| HeaderName::new(name).ok());
            if let Some(operation) = name.map(HeaderOp::Remove)
                && !operations.contains(&operation)
            {
                operations.push(operation);
            }
        }
        operations
    }

    fn allow(self, allowed: Allowed) -> Outcome {
        let copies = self.removed_copies();
        let Self { config, mut effects, said, .. } = self;
        effects.counters.add(allowed.counter());
        if config.shadow {
            effects.headers = copies;
            return Outcome::Continue(effects);
        }
        effects.headers.extend(copies);
        for (place, own) in said.iter().enumerate() {
            // What one token claims never stands beside what another does: a header or property that the
            // later one's provider writes is that one's, or is not there.
            let after = said.get(place..).unwrap_or_default();
            let later = || after.iter().filter(|other| other.token > own.token);
            let headers = own.good.headers.iter().filter(|operation| match operation {
                HeaderOp::Set(name, _) => !later().any(|other| other.writes(name)),
                _ => true,
            });
            effects.headers.extend(headers.cloned());
            let properties = own.good.properties.iter();
            let properties = properties.filter(|it| !later().any(|other| other.publishes(&it.name)));
            effects.properties.extend(properties.cloned());
        }
        Outcome::Continue(effects)
    }

    fn hold(self, until: u64) -> Outcome {
        let mut counters = CounterSet::default();
        if self.host.waiting() == Waiting::NotYet {
            counters.add(WAITED);
        }
        Outcome::Wait(until, Effects { counters, ..Effects::default() })
    }

    fn refuse(self, reason: Reason) -> Outcome {
        let headers = if self.config.shadow { self.removed_copies() } else { Vec::new() };
        let Self { config, head, host, effects, .. } = self;
        let mut effects = Effects { headers, facts: Facts::default(), ..effects };
        effects.facts.0.push(Fact::Refused { filter: JwtReject::NAME, reason: reason.label().into() });
        let (counter, level, what) = match config.shadow {
            false => (reason.counter(), Level::Debug, "refused"),
            true => (reason.shadow_counter(), Level::Info, "would refuse"),
        };
        effects.counters.add(counter);
        if host.logs(level) {
            let text = format!("{}: {what}: {}", JwtReject::NAME, reason.label());
            effects.log.push(LogLine { level, text });
        }
        if config.shadow {
            return Outcome::Continue(effects);
        }
        Outcome::Reply(answer::refusal(head, reason, &config.refusal), effects)
    }
}

/// Whether a client's header would be taken for ours: some upstreams make no difference between `-`
/// and `_`, nor between upper and lower case.
fn is_copy(name: &[u8], own: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == own.len() && name.iter().map(plain).eq(own.iter().map(plain))
}

impl Provider {
    /// What becomes of the claims of a token that verified.
    fn what_it_says(&self, payload: &str, claims: Claims) -> Good {
        let mut headers = Vec::new();
        let mut left_out = false;
        if let Some((header, pad)) = &self.payload_header {
            let mut text = payload.trim_end_matches('=').to_owned();
            while *pad && !text.len().is_multiple_of(4) {
                text.push('=');
            }
            if let Ok(value) = HeaderValue::new(text) {
                headers.push(HeaderOp::Set(header.clone(), value));
            }
        }
        for claim in &self.claim_headers {
            match claim.claim.value(&claims.json) {
                Some(Ok(value)) => headers.push(HeaderOp::Set(claim.header.clone(), value)),
                Some(Err(())) => left_out = true,
                None => {}
            }
        }
        let mut properties = Vec::new();
        for property in &self.claim_properties {
            match property.claim.value(&claims.json) {
                Some(Ok(value)) => properties.push(Property { name: Arc::clone(&property.name), value }),
                Some(Err(())) => left_out = true,
                None => {}
            }
        }
        let Claims { json, expires, not_before, .. } = claims;
        Good { expires, not_before, claims: Arc::new(Value::Object(json)), headers, properties, left_out }
    }
}

/// A preflight of the Fetch standard, which by its nature carries no credentials.
fn is_cors_preflight(head: &impl Head) -> bool {
    let filled = |name| head.first(name).is_some_and(|value| !value.is_empty());
    head.method() == b"OPTIONS" && filled("origin") && filled("access-control-request-method")
}

/// The providers in whose places the token was, each with its place among those required.
fn owning<'p>(token: &Found<'_>, required: &'p Tokens) -> impl Iterator<Item = (usize, &'p Provider)> {
    let owners = token.owners;
    let providers = required.providers.iter().enumerate();
    providers
        .filter(move |(place, _)| owners & bit(*place) != 0)
        .map(|(place, provider)| (place, provider.as_ref()))
}

/// Whether a token that nobody verified stays: only where everyone who looks there would forward it.
fn forwarded_by_all(token: &Found<'_>, required: &Tokens) -> bool {
    owning(token, required).all(|(_, provider)| provider.forward)
}

/// Counts who checked signatures.
struct Counting<'c>(&'c mut CounterSet);

impl Observer for Counting<'_> {
    fn checked_signature(&mut self, by: CheckedBy) {
        self.0.add(by.counter());
    }
}
