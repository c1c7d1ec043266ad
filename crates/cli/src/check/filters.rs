//! Foregate's filters, each with its own code that reads a configuration.

use filter_api::config::Problem;
use filter_api::{Callback, Configured, Filter, OnHostFailure};
use foregate::Foregate;
use header_rewrite::HeaderRewrite;
use jwt_reject::JwtReject;
use local_rate_limit::LocalRateLimit;
use sampled_log::SampledLog;

/// One of Foregate's filters.
#[derive(Debug)]
pub struct Known {
    /// Its name: `jwt_reject`. Its module is the file `jwt_reject.wasm`.
    pub name: &'static str,
    /// What it is, where its configuration does not say.
    pub nature: Nature,
    configure: fn(&[u8]) -> Verdict,
    explain: Option<Explain>,
}

/// What a filter is to those around it. Of a chain, its configuration says that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nature {
    /// Whether a request that it could not look at must not pass.
    pub guards: bool,
    /// Whether it does its work as an access logger too.
    pub logs: bool,
}

/// Makes sentences of a configuration (JSON) that can be used.
type Explain = fn(&[u8]) -> Vec<String>;

/// What a filter says of a configuration.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Why it cannot be used.
    pub errors: Vec<Problem>,
    /// What looks wrong but need not be.
    pub warnings: Vec<Problem>,
    /// What the filter is by it; none where it cannot be used.
    pub nature: Option<Nature>,
}

/// All of them.
pub const ALL: &[Known] = &[
    Known::new::<JwtReject>(None),
    Known::new::<LocalRateLimit>(None),
    Known::new::<HeaderRewrite>(Some(header_rewrite::explain::explain)),
    Known::new::<SampledLog>(None),
    Known::new::<Foregate>(Some(foregate::explain::explain)),
];

impl Known {
    const fn new<F: Filter>(explain: Option<Explain>) -> Self {
        let guards = matches!(F::ON_HOST_FAILURE, OnHostFailure::Refuse);
        let nature = Nature { guards, logs: has_log(F::CALLBACKS) };
        Self { name: F::NAME, nature, configure: configure::<F>, explain }
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

    /// Whether what it does can be told in sentences.
    pub fn is_explained(&self) -> bool {
        self.explain.is_some()
    }

    /// What it does by a configuration (JSON), in sentences; none where that cannot be used, or it cannot be told.
    pub fn explain(&self, json: &[u8]) -> Vec<String> {
        self.explain.map(|explain| explain(json)).unwrap_or_default()
    }
}

const fn has_log(callbacks: &[Callback]) -> bool {
    let mut rest = callbacks;
    while let [first, others @ ..] = rest {
        if matches!(first, Callback::Log) {
            return true;
        }
        rest = others;
    }
    false
}

fn configure<F: Filter>(json: &[u8]) -> Verdict {
    match F::configure(json) {
        Ok(Configured { filter, warnings }) => {
            let guards = filter.on_host_failure() == OnHostFailure::Refuse;
            let nature = Nature { guards, logs: filter.needs(Callback::Log) };
            Verdict { errors: Vec::new(), warnings, nature: Some(nature) }
        }
        Err(errors) => Verdict { errors: errors.0, ..Verdict::default() },
    }
}
