//! Refuses requests that carry no valid JWT, before anything behind it spends work on them.
//!
//! The decision, in order:
//! 1. The first rule for the request says what it must have; no rule, or none for sure: refuse.
//! 2. Every token in the places of the providers that the rule names is found; none: refuse, unless
//!    the rule allows it.
//! 3. More tokens than `max_tokens`, or one longer than `max_token_bytes`: refuse, undecoded.
//! 4. Each token must pass every check of [`verify`] for one of those providers, the cheapest first.
//!    One that fails: refuse, unless the rule allows it.
//! 5. The providers that verified a token must be those that the rule asks for.
//! 6. The tokens are taken out of the request, unless the provider forwards them; what the provider
//!    says of their claims is written to headers.
//!
//! Client copies of those headers are removed from every request, whichever way it goes. In shadow
//! mode nothing else is changed, and what would be refused is counted, logged, and passes.
//!
//! Tokens seen before are remembered by each worker: see `cache`. Keys that are fetched come in behind the
//! requests' backs: see [`remote`]. Until they have come, a request that needs them waits or is refused.
//!
//! Entry points: [`JwtReject`] (the filter), [`verify`] (the checks), [`keys`] (reading keys),
//! [`config`] (the configuration), [`reason`] (why a request is refused).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod algorithm;
mod answer;
pub mod budget;
mod cache;
pub mod claims;
pub mod config;
mod decide;
pub mod deny;
pub mod keys;
pub mod locate;
pub mod reason;
pub mod remote;
mod signature;
pub mod token;
pub mod verify;

use filter_api::config::ConfigErrors;
use filter_api::{
    Background, Callback, Configured, Facts, Fetched, Filter, Head, Host, OnHostFailure, Outcome, Work,
};

use crate::config::Config;
use crate::remote::Remote;

/// The filter.
#[derive(Debug)]
pub struct JwtReject {
    config: Config,
}

impl Filter for JwtReject {
    const NAME: &'static str = "jwt_reject";
    const CALLBACKS: &'static [Callback] = &[
        Callback::RequestHeaders,
        Callback::RequestBody,
        Callback::RequestTrailers,
        Callback::Tick,
        Callback::HttpCallResponse,
    ];
    // A request that could not be looked at must not get past.
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Refuse;
    type Kept = ();
    const COUNTERS: &'static [&'static str] = reason::COUNTERS;

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let (config, warnings) = Config::read(json)?;
        Ok(Configured { filter: Self { config }, warnings })
    }

    fn needs(&self, callback: Callback) -> bool {
        match callback {
            Callback::RequestHeaders | Callback::Tick => true,
            // Requests wait for keys that are fetched, and for nothing else.
            Callback::RequestBody | Callback::RequestTrailers | Callback::HttpCallResponse => {
                self.config.providers.iter().any(|provider| provider.keys.remote().is_some())
            }
            Callback::ResponseHeaders | Callback::Log => false,
        }
    }

    fn on_request(&self, head: &impl Head, host: &impl Host, _: &Facts) -> Outcome {
        decide::outcome(&self.config, head, host)
    }

    fn on_start(&self, background: &impl Background) -> Work {
        self.with_remote_keys(|remote| Some(remote.start(background)))
    }

    fn on_tick(&self, background: &impl Background) -> Work {
        self.with_remote_keys(|remote| Some(remote.tick(background)))
    }

    fn on_fetched(&self, fetched: Fetched<'_>, background: &impl Background) -> Work {
        self.with_remote_keys(|remote| remote.fetched(&fetched, background))
    }
}

/// For tools that read a configuration, and change what no configuration says.
impl From<Config> for JwtReject {
    fn from(config: Config) -> Self {
        Self { config }
    }
}

impl JwtReject {
    /// Takes a step with each remote set of keys. Other keys: what was found out by the old ones is forgotten.
    fn with_remote_keys(&self, step: impl Fn(&Remote) -> Option<Work>) -> Work {
        let mut work = Work::default();
        for provider in &self.config.providers {
            let Some(remote) = provider.keys.remote() else { continue };
            let before = remote.version();
            work.add(step(remote).unwrap_or_default());
            if remote.version() != before {
                provider.cache.borrow_mut().clear();
            }
        }
        work
    }
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::JwtReject);

#[cfg(test)]
mod tests;
