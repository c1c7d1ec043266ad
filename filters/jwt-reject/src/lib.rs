//! Refuses requests that carry no valid JWT, before anything behind it spends work on them.
//!
//! The decision, in order:
//! 1. The first rule for the request says what it must have; no rule, or none for sure: refuse.
//! 2. Every token in the provider's locations is found; none: refuse, unless the rule allows it.
//! 3. More tokens than `max_tokens`, or one longer than `max_token_bytes`: refuse, undecoded.
//! 4. Each token must pass every check of [`verify`], the cheapest first. One that fails: refuse,
//!    unless the rule allows it.
//! 5. The tokens are taken out of the request, unless the provider forwards them.
//!
//! Entry points: [`JwtReject`] (the filter), [`verify`] (the checks), [`keys`] (reading keys),
//! [`config`] (the configuration), [`reason`] (why a request is refused).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod algorithm;
mod answer;
pub mod config;
pub mod keys;
pub mod locate;
pub mod reason;
mod signature;
pub mod token;
pub mod verify;

use filter_api::config::ConfigErrors;
use filter_api::matcher::{PathView, Selected, select};
use filter_api::{
    Callback, Configured, CounterSet, Effects, Fact, Facts, Filter, Head, Host, Level, LogLine,
    OnHostFailure, Outcome,
};

use crate::config::{Config, Provider, Requirement, Rule};
use crate::locate::Found;
use crate::reason::{Allowed, CheckedBy, Reason};
use crate::verify::{Observer, Unverified};

/// The filter.
#[derive(Debug)]
pub struct JwtReject {
    config: Config,
}

impl Filter for JwtReject {
    const NAME: &'static str = "jwt_reject";
    const CALLBACKS: &'static [Callback] = &[Callback::RequestHeaders, Callback::Tick];
    // A request that could not be looked at must not get past.
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Refuse;
    const COUNTERS: &'static [&'static str] = reason::COUNTERS;

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let (config, warnings) = Config::read(json)?;
        Ok(Configured { filter: Self { config }, warnings })
    }

    fn on_request(&self, head: &impl Head, host: &impl Host, _: &Facts) -> Outcome {
        let mut request = Request { config: &self.config, head, host, effects: Effects::default() };
        match request.decide() {
            Ok(allowed) => {
                request.effects.counters.add(allowed.counter());
                Outcome::Continue(request.effects)
            }
            Err(reason) => request.refuse(reason),
        }
    }
}

/// One request under decision.
struct Request<'r, H, T> {
    config: &'r Config,
    head: &'r H,
    host: &'r T,
    effects: Effects,
}

impl<H: Head, T: Host> Request<'_, H, T> {
    fn decide(&mut self) -> Result<Allowed, Reason> {
        let path = PathView::new(self.head.path());
        let lenient = |rule: &Rule| rule.requirement.is_lenient();
        match select(&self.config.rules, |rule| &rule.matcher, lenient, self.head, &path) {
            Selected::Nothing => Err(Reason::NoRuleMatched),
            Selected::Ambiguous => Err(Reason::PathAmbiguous),
            Selected::Rule(rule) => self.require(&rule.requirement),
        }
    }

    fn require(&mut self, requirement: &Requirement) -> Result<Allowed, Reason> {
        let head = self.head;
        let mut found = Vec::new();
        match requirement {
            Requirement::Nothing => return Ok(Allowed::NoRequirement),
            Requirement::Provider(provider) => provider.locations.find(head, 1, &mut found),
            Requirement::AllowMissing | Requirement::AllowMissingOrFailed => {
                for (provider, owner) in self.config.providers.iter().zip(owners()) {
                    provider.locations.find(head, owner, &mut found);
                }
            }
        }
        if found.is_empty() {
            return if requirement.is_lenient() { Ok(Allowed::Missing) } else { Err(Reason::TokenMissing) };
        }
        let candidates: &[_] = match requirement {
            Requirement::Provider(provider) => std::slice::from_ref(provider),
            _ => &self.config.providers,
        };
        let verified = self.verify_all(&found, candidates);
        match (verified, requirement) {
            (Err(_), Requirement::AllowMissingOrFailed) => {
                let forwarded =
                    |token: &Found<'_>| owning(token, candidates).all(|provider| provider.forward);
                self.strip(found, forwarded);
                self.effects.facts.clear();
                Ok(Allowed::Failed)
            }
            (Err(reason), _) => Err(reason),
            (Ok(by), _) => {
                let mut by = by.into_iter();
                self.strip(found, |_| by.next().is_some_and(|provider| provider.forward));
                Ok(Allowed::Verified)
            }
        }
    }

    /// Verifies every token; returns for each the provider that did.
    fn verify_all<'p>(
        &mut self,
        found: &[Found<'_>],
        candidates: &'p [std::sync::Arc<Provider>],
    ) -> Result<Vec<&'p Provider>, Reason> {
        if found.len() > self.config.max_tokens {
            return Err(Reason::TooManyTokens);
        }
        if found.iter().any(|token| token.token.len() > self.config.max_token_bytes) {
            return Err(Reason::TokenTooLong);
        }
        found.iter().map(|token| self.verify(token, candidates)).collect()
    }

    /// Verifies a token by whichever of its owners stands for its issuer.
    fn verify<'p>(
        &mut self,
        token: &Found<'_>,
        candidates: &'p [std::sync::Arc<Provider>],
    ) -> Result<&'p Provider, Reason> {
        let mut last = Reason::IssuerNotConfigured;
        let several = candidates.len() > 1;
        for provider in owning(token, candidates) {
            let unverified = match Unverified::read(&token.token, provider.policy.padding, &mut ()) {
                Ok(unverified) => unverified,
                Err(reason) => {
                    last = reason;
                    continue;
                }
            };
            let other_issuer =
                provider.policy.issuer.as_deref().is_some_and(|own| unverified.issuer() != Some(own));
            if several && other_issuer {
                continue;
            }
            let mut counting = Counting(&mut self.effects.counters);
            match unverified.verify(&provider.policy, &provider.keys, self.host, &mut counting) {
                Ok(()) => {
                    let claims = serde_json::Value::Object(unverified.into_claims());
                    self.effects.facts.push(Fact::Claims { provider: provider.name.clone(), claims });
                    return Ok(provider);
                }
                Err(reason) => last = reason,
            }
        }
        Err(last)
    }

    /// Takes the tokens out of the request, except those that are to stay.
    fn strip(&mut self, mut found: Vec<Found<'_>>, mut stays: impl FnMut(&Found<'_>) -> bool) {
        found.retain(|token| !stays(token));
        self.effects.headers = locate::removal(self.head, &found);
    }

    fn refuse(self, reason: Reason) -> Outcome {
        let mut effects = Effects { headers: Vec::new(), facts: Vec::new(), ..self.effects };
        effects.counters.add(reason.counter());
        effects.facts.push(Fact::Refused { filter: JwtReject::NAME, reason: reason.label() });
        if self.host.logs(Level::Debug) {
            let text = format!("{}: refused: {}", JwtReject::NAME, reason.label());
            effects.log = Some(LogLine { level: Level::Debug, text });
        }
        Outcome::Reply(answer::refusal(self.head, reason), effects)
    }
}

/// The bit of each provider, in order.
fn owners() -> impl Iterator<Item = u64> {
    (0..64).map(|place| 1_u64 << place)
}

fn owning<'p>(
    token: &Found<'_>,
    candidates: &'p [std::sync::Arc<Provider>],
) -> impl Iterator<Item = &'p Provider> {
    let mask = token.owners;
    candidates
        .iter()
        .zip(owners())
        .filter(move |(_, owner)| mask & owner != 0)
        .map(|(provider, _)| provider.as_ref())
}

/// Counts who checked signatures.
struct Counting<'c>(&'c mut CounterSet);

impl Observer for Counting<'_> {
    fn checked_signature(&mut self, by: CheckedBy) {
        self.0.add(by.counter());
    }
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::JwtReject);

#[cfg(test)]
mod tests;
