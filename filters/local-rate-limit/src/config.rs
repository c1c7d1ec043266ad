//! The configuration: read from JSON, checked, and made into what the filter works with.

mod answer;
mod bucket;
mod entry;
mod limit;
mod sample;

use filter_api::config::{ConfigErrors, Node, Object, Problem, read};
use filter_api::matcher::RequestMatcher;
use filter_api::{HeaderName, HeaderValue, Text};
use ipnet::IpNet;

pub(crate) use self::answer::{Add, Refusal, When};
pub(crate) use self::limit::{Cost, Kind, Limit, Scope};
pub(crate) use self::sample::Sample;
use crate::client::Origin;
use crate::keys::hash_of;

/// The most limits: two counters each.
const MAX_LIMITS: usize = 48;

/// The name of the limit that is for every request.
const DEFAULT: &str = "default";

/// Stands where a limit's name does when no limit refused.
pub(crate) const CONTENTION: &str = "contention";

/// A configuration that can be worked with.
#[derive(Debug)]
pub struct Config {
    /// The limits; the default one first, if there is one.
    pub(crate) limits: Vec<Limit>,
    /// Whether the first limit is for requests alone that no other is for.
    pub(crate) first_is_fallback: bool,
    /// Requests that are counted at all.
    pub(crate) enabled: Sample,
    /// Requests that are refused when over a limit.
    pub(crate) enforced: Sample,
    /// Whether nothing is refused.
    pub(crate) shadow: bool,
    /// Requests that no limit is for.
    pub(crate) exempt: Exempt,
    /// What a refused request is answered with.
    pub(crate) refusal: Refusal,
    /// What is added to a request that passes though over a limit.
    pub(crate) when_not_enforced: Vec<Add>,
    /// The headers that tell clients of their limits.
    pub(crate) announce: Announce,
    /// Whether a request passes that lost too many races.
    pub(crate) allow_on_contention: bool,
}

/// Requests that no limit is for.
#[derive(Debug, Default)]
pub(crate) struct Exempt {
    /// Any of these.
    pub(crate) matchers: Vec<RequestMatcher>,
    /// Whose client is in one of these.
    pub(crate) networks: Vec<IpNet>,
    /// Where the client's address is taken from.
    pub(crate) origin: Origin,
}

/// Headers that tell clients of their limits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Announce {
    /// `x-ratelimit-limit`, `-remaining`, `-reset`.
    pub(crate) x_ratelimit: bool,
    /// `ratelimit-policy` and `ratelimit`.
    pub(crate) ratelimit: bool,
}

impl Announce {
    /// Whether clients are told anything.
    pub(crate) fn is_anything(self) -> bool {
        self.x_ratelimit || self.ratelimit
    }
}

impl Config {
    /// Reads a configuration; see the README for its fields.
    ///
    /// # Errors
    /// Every problem found.
    pub fn read(json: &[u8]) -> Result<(Self, Vec<Problem>), ConfigErrors> {
        read(json, |root| {
            let usual = limit::Usual::read(root);
            let flag = |name, default| root.get(name).map_or(Some(default), |node| node.bool());
            let word = |name, usual, other| match root.get(name) {
                Some(node) => node.second_of(usual, other),
                None => Some(false),
            };
            let sample = |name| root.get(name).map_or(Some(Sample::ALL), |node| Sample::read(&node));
            let shadow = word("mode", "enforce", "shadow");
            let allow_on_contention = word("on_contention", "deny", "allow");
            let always = flag("always_consume_default_token_bucket", true);
            let (enabled, enforced) = (sample("filter_enabled"), sample("filter_enforced"));
            let announce = read_announce(root);
            let refusal = Refusal::read(root);
            let when_not_enforced = match root.get("request_headers_to_add_when_not_enforced") {
                Some(node) => answer::read_headers(&node),
                None => Vec::new(),
            };
            let exempt = match root.get("exempt") {
                Some(node) => read_exempt(&node, &usual),
                None => Some(Exempt::default()),
            };
            if let Some(node) = root.get("stat_prefix") {
                node.warning("has no effect here: metrics begin with foregate.local_rate_limit");
            }
            let (limits, with_default) = read_limits(root, &usual, always.unwrap_or(true))?;
            Some(Self {
                limits,
                first_is_fallback: with_default && !always?,
                enabled: enabled?,
                enforced: enforced?,
                shadow: shadow?,
                exempt: exempt?,
                refusal: refusal?,
                when_not_enforced,
                announce: announce?,
                allow_on_contention: allow_on_contention?,
            })
        })
    }
}

impl Config {
    /// Gives the limits other buckets than those of other instances have.
    pub(crate) fn tell_apart(&mut self, instance: &str) {
        if !instance.is_empty() {
            let own = hash_of(instance);
            self.limits.iter_mut().for_each(|limit| limit.tell_apart(own));
        }
    }
}

/// All limits, and whether the first is the default one.
fn read_limits(root: &Object<'_>, usual: &limit::Usual, always: bool) -> Option<(Vec<Limit>, bool)> {
    let default = Limit::read_default(DEFAULT, root, usual);
    let with_default = default.is_some();
    let nodes = match root.get("descriptors") {
        Some(node) => node.array()?,
        None => Vec::new(),
    };
    if !with_default && nodes.is_empty() && !bucket::is_given(root) {
        root.node().error("limits nothing: give `token_bucket` or `rate`, or `descriptors`");
    }
    if nodes.len() >= MAX_LIMITS {
        root.node().error(format!(
            "{} descriptors; the most is {}",
            nodes.len(),
            MAX_LIMITS.saturating_sub(1)
        ));
    }
    let others: Vec<Option<Limit>> = nodes.iter().map(|node| Limit::read(node, usual)).collect();
    for (place, (node, limit)) in nodes.iter().zip(&others).enumerate() {
        let Some(limit) = limit else { continue };
        let name = &*limit.name;
        let taken = others.iter().take(place).flatten().any(|other| *other.name == *name);
        if taken || name == DEFAULT || name == CONTENTION {
            let why = if taken { "another limit has it" } else { "it has a meaning of its own" };
            node.error(format!("cannot be named {name:?}, since {why}; give it another `name`"));
        }
        if let Some(default) = default.as_ref().filter(|_| always) {
            warn_of_cap(node, default, limit);
        }
    }
    Some((default.into_iter().map(Some).chain(others).collect::<Option<Vec<_>>>()?, with_default))
}

/// What a default bucket lets through is all that any other can.
fn warn_of_cap(node: &Node<'_>, default: &Limit, limit: &Limit) {
    let buckets = std::iter::once(&limit.bucket).chain(limit.specials.iter().map(|special| &special.bucket));
    if buckets.into_iter().any(|bucket| default.bucket.is_tighter_than(bucket)) {
        node.warning(
            "allows more than the default bucket, which every request is charged to as well and so is the real \
             limit; enlarge that, or set `always_consume_default_token_bucket: false`",
        );
    }
}

/// An object, or a list of them: whoever is in one is exempt.
fn read_exempt(node: &Node<'_>, usual: &limit::Usual) -> Option<Exempt> {
    let mut exempt = Exempt { origin: usual.origin.clone(), ..Exempt::default() };
    for item in node.one_or_more() {
        let object = item.object()?;
        let matchers: Option<Vec<RequestMatcher>> = match object.get("match") {
            Some(node) => node.one_or_more().iter().map(RequestMatcher::read).collect(),
            None => Some(Vec::new()),
        };
        let networks = object.get("cidrs").map_or(Some(Vec::new()), |node| entry::read_networks(&node));
        object.finish();
        let (matchers, networks) = (matchers?, networks?);
        if matchers.is_empty() && networks.is_empty() {
            item.error("exempts nothing; give `match` or `cidrs`, or leave it out");
        }
        if matchers.iter().any(RequestMatcher::is_every) {
            item.warning("exempts every request, so that nothing is limited");
        }
        exempt.matchers.extend(matchers);
        exempt.networks.extend(networks);
    }
    Some(exempt)
}

fn read_announce(root: &Object<'_>) -> Option<Announce> {
    let x_ratelimit = match root.get("enable_x_ratelimit_headers") {
        Some(node) => node.second_of("OFF", "DRAFT_VERSION_03"),
        None => Some(false),
    };
    let ratelimit = root.get("enable_ratelimit_headers").map_or(Some(false), |node| node.bool());
    Some(Announce { x_ratelimit: x_ratelimit?, ratelimit: ratelimit? })
}

/// A header's name and value of the configuration, as this filter may write them.
pub(crate) type Line = (HeaderName, HeaderValue);

/// The details of a refusal by this limit.
pub(crate) fn details(name: &str) -> Text {
    format!("local_rate_limited{{{name}}}").into()
}
