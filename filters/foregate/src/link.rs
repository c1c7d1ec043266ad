//! A filter in the list.

use filter_api::config::Node;
use filter_api::{
    Background, Callback, Counter, Fact, Facts, Fetched, Filter, Head, Host, OnHostFailure, Outcome,
    ResponseEffects, Work,
};
use header_rewrite::HeaderRewrite;
use jwt_reject::JwtReject;
use local_rate_limit::LocalRateLimit;
use sampled_log::SampledLog;

use crate::around::Around;

/// Which filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    JwtReject,
    LocalRateLimit,
    HeaderRewrite,
    SampledLog,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::LocalRateLimit, Self::JwtReject, Self::HeaderRewrite, Self::SampledLog];

    /// Its name, by which it stands in the list.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::JwtReject => JwtReject::NAME,
            Self::LocalRateLimit => LocalRateLimit::NAME,
            Self::HeaderRewrite => HeaderRewrite::NAME,
            Self::SampledLog => SampledLog::NAME,
        }
    }
}

/// A filter in the list.
#[derive(Debug)]
pub(crate) struct Link {
    filter: Which,
    /// What stands in the names of its counters after the filter's own: `per-client`.
    name: Option<String>,
    /// How many counters those before it have.
    counters_before: u16,
}

#[derive(Debug)]
enum Which {
    JwtReject(Box<JwtReject>),
    LocalRateLimit(Box<LocalRateLimit>),
    HeaderRewrite(Box<HeaderRewrite>),
    SampledLog(Box<SampledLog>),
}

/// What a filter keeps of a request until the response comes.
pub(crate) type Kept = <HeaderRewrite as Filter>::Kept;

/// Calls a method of the filter.
macro_rules! ask {
    ($link:expr, $filter:ident => $asked:expr) => {
        match &$link.filter {
            Which::JwtReject($filter) => $asked,
            Which::LocalRateLimit($filter) => $asked,
            Which::HeaderRewrite($filter) => $asked,
            Which::SampledLog($filter) => $asked,
        }
    };
}

impl Link {
    /// Reads a filter's own configuration.
    pub(crate) fn read(
        kind: Kind,
        name: Option<&str>,
        instance: &str,
        counters_before: usize,
        node: &Node<'_>,
    ) -> Option<Self> {
        let filter = match kind {
            Kind::JwtReject => Which::JwtReject(configured(instance, node)?),
            Kind::LocalRateLimit => Which::LocalRateLimit(configured(instance, node)?),
            Kind::HeaderRewrite => Which::HeaderRewrite(configured(instance, node)?),
            Kind::SampledLog => Which::SampledLog(configured(instance, node)?),
        };
        // Places beyond those that there are count nothing.
        let counters_before = u16::try_from(counters_before).unwrap_or(u16::MAX);
        Some(Self { filter, name: name.map(str::to_owned), counters_before })
    }

    pub(crate) fn needs(&self, callback: Callback) -> bool {
        ask!(self, filter => filter.needs(callback))
    }

    pub(crate) fn on_host_failure(&self) -> OnHostFailure {
        ask!(self, filter => filter.on_host_failure())
    }

    /// The names of its counters, by their places.
    pub(crate) fn counter_names(&self) -> Vec<String> {
        let names = ask!(self, filter => filter.counter_names());
        let Some(own) = &self.name else { return names };
        let with_own = |name: String| match name.split_once('.') {
            Some((filter, counter)) => format!("{filter}.{own}.{counter}"),
            None => name,
        };
        names.into_iter().map(with_own).collect()
    }

    /// The place of one of its counters among those of the whole list.
    pub(crate) fn counter(&self, own: Counter) -> Counter {
        Counter(self.counters_before.saturating_add(own.0))
    }

    pub(crate) fn on_request(&self, head: &impl Head, host: &impl Host, facts: &Facts) -> Outcome<Kept> {
        match &self.filter {
            Which::JwtReject(filter) => filter.on_request(head, host, facts).map_kept(|()| Kept::default()),
            Which::LocalRateLimit(filter) => {
                filter.on_request(head, host, facts).map_kept(|()| Kept::default())
            }
            Which::HeaderRewrite(filter) => filter.on_request(head, host, facts),
            Which::SampledLog(_) => Outcome::Continue(filter_api::Effects::default()),
        }
    }

    pub(crate) fn on_response(&self, kept: &Kept, head: &impl Head, host: &impl Host) -> ResponseEffects {
        match &self.filter {
            Which::HeaderRewrite(filter) => filter.on_response(kept, head, host),
            Which::JwtReject(_) | Which::LocalRateLimit(_) | Which::SampledLog(_) => {
                ResponseEffects::default()
            }
        }
    }

    /// What a log can tell of its sample when the request has come as far as it comes.
    pub(crate) fn foresee(&self, head: &impl Head) -> Option<Fact> {
        match &self.filter {
            Which::SampledLog(filter) => filter.foresee(head),
            Which::JwtReject(_) | Which::LocalRateLimit(_) | Which::HeaderRewrite(_) => None,
        }
    }

    pub(crate) fn on_log(
        &self,
        request: &impl Head,
        response: &impl Head,
        host: &impl Host,
        facts: &Facts,
        place: usize,
    ) -> Work {
        match &self.filter {
            Which::SampledLog(filter) => {
                let host = Around { host, properties: &[], waiting: host.waiting(), place };
                filter.on_log(request, response, &host, facts)
            }
            Which::JwtReject(_) | Which::LocalRateLimit(_) | Which::HeaderRewrite(_) => Work::default(),
        }
    }

    pub(crate) fn on_start(&self, background: &impl Background) -> Work {
        ask!(self, filter => filter.on_start(background))
    }

    pub(crate) fn on_tick(&self, background: &impl Background) -> Work {
        ask!(self, filter => filter.on_tick(background))
    }

    pub(crate) fn on_fetched(&self, fetched: Fetched<'_>, background: &impl Background) -> Work {
        ask!(self, filter => filter.on_fetched(fetched, background))
    }

    pub(crate) fn on_end(&self, background: &impl Background) -> Work {
        ask!(self, filter => filter.on_end(background))
    }
}

fn configured<F: Filter>(instance: &str, node: &Node<'_>) -> Option<Box<F>> {
    node.embedded(|json| F::configure_as(instance, json)).map(Box::new)
}
