//! Edits requests before the router chooses their route, and responses before they leave.
//!
//! The decision, in order:
//! 1. When a request comes, the operations for requests run in list order. Each sees the edits of those before it, and
//!    runs if its conditions hold.
//! 2. What the operations for responses need of the request is kept: which conditions on it hold, and values of
//!    its headers.
//! 3. When the response comes, those run in list order in the same way.
//! 4. Of all edits to a message only what differs from what came is written.
//!
//! An operation whose value is missing is left out. So is one whose value cannot be written safely, and that is counted.
//!
//! Entry points: [`HeaderRewrite`] (the filter), `operation` (what each operation does), `condition` (when one runs),
//! `stage` (a message under way), `guard` (names that are not for everybody), [`config`] (the configuration).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod condition;
pub mod config;
pub mod counters;
pub mod explain;
mod guard;
mod operation;
mod pattern;
pub mod preset;
mod run;
mod stage;
mod value;

use filter_api::config::ConfigErrors;
use filter_api::{
    Callback, Configured, Effects, Facts, Filter, Head, Host, OnHostFailure, Outcome, ResponseEffects,
};

use crate::config::Config;
use crate::stage::{AtRequest, AtResponse, Kept};

/// The filter.
#[derive(Debug)]
pub struct HeaderRewrite {
    config: Config,
}

impl Filter for HeaderRewrite {
    const NAME: &'static str = "header_rewrite";
    const CALLBACKS: &'static [Callback] =
        &[Callback::RequestHeaders, Callback::ResponseHeaders, Callback::Tick];
    // A header that should have been removed, and was not, may be believed by who gets it.
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Refuse;
    const COUNTERS: &'static [&'static str] = counters::COUNTERS;
    type Kept = Kept;

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let (config, warnings) = Config::read(json)?;
        Ok(Configured { filter: Self { config }, warnings })
    }

    fn needs(&self, callback: Callback) -> bool {
        match callback {
            Callback::ResponseHeaders => !self.config.response.is_empty(),
            other => Self::CALLBACKS.contains(&other),
        }
    }

    fn on_request(&self, head: &impl Head, host: &impl Host, facts: &Facts) -> Outcome<Kept> {
        let mut stage = AtRequest::new(head, host, facts);
        run::all(&self.config.request, &mut stage);
        let kept = run::keep(&self.config, &stage);
        let (headers, counters) = stage.finish();
        Outcome::Continue(Effects { headers, kept, counters, ..Effects::default() })
    }

    fn on_response(&self, kept: &Kept, head: &impl Head, host: &impl Host) -> ResponseEffects {
        let mut stage = AtResponse::new(head, host, kept);
        run::all(&self.config.response, &mut stage);
        let (headers, counters) = stage.finish();
        ResponseEffects { headers, counters, log: Vec::new() }
    }
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::HeaderRewrite);

#[cfg(test)]
mod tests;
