//! Foregate's filters, each with its own code that reads a configuration.

use filter_api::config::Problem;
use filter_api::{Filter, OnHostFailure};
use header_rewrite::HeaderRewrite;
use jwt_reject::JwtReject;
use local_rate_limit::LocalRateLimit;

/// One of Foregate's filters.
#[derive(Debug)]
pub struct Known {
    /// Its name: `jwt_reject`. Its module is the file `jwt_reject.wasm`.
    pub name: &'static str,
    /// Whether a request that it could not look at must not pass.
    pub guards: bool,
    /// Whether it can be explained.
    pub explained: bool,
    configure: fn(&[u8]) -> Verdict,
}

/// What a filter says of a configuration.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Why it cannot be used.
    pub errors: Vec<Problem>,
    /// What looks wrong but need not be.
    pub warnings: Vec<Problem>,
    /// What the filter does, in sentences; none where its configuration cannot be used, or it cannot be explained.
    pub explanation: Vec<String>,
}

/// All of them.
pub const ALL: &[Known] = &[
    Known::new::<JwtReject>(false, |json| configure::<JwtReject>(json, |_| Vec::new())),
    Known::new::<LocalRateLimit>(false, |json| configure::<LocalRateLimit>(json, |_| Vec::new())),
    Known::new::<HeaderRewrite>(false, |json| configure::<HeaderRewrite>(json, |_| Vec::new())),
];

impl Known {
    const fn new<F: Filter>(explained: bool, configure: fn(&[u8]) -> Verdict) -> Self {
        let guards = matches!(F::ON_HOST_FAILURE, OnHostFailure::Refuse);
        Self { name: F::NAME, guards, explained, configure }
    }

    /// The filter of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|known| known.name == name)
    }

    /// The filter whose module is that file, in whichever folder.
    pub fn of_module(file: &str) -> Option<&'static Self> {
        let name = file.rsplit(['/', '\\']).next()?;
        Self::named(name.strip_suffix(".wasm")?)
    }

    /// Reads a configuration (JSON) as the filter does in Envoy.
    pub fn configure(&self, json: &[u8]) -> Verdict {
        (self.configure)(json)
    }
}

fn configure<F: Filter>(json: &[u8], explain: impl Fn(&F) -> Vec<String>) -> Verdict {
    match F::configure(json) {
        Ok(configured) => Verdict {
            errors: Vec::new(),
            explanation: explain(&configured.filter),
            warnings: configured.warnings,
        },
        Err(errors) => Verdict { errors: errors.0, ..Verdict::default() },
    }
}
