//! The configuration: read from JSON, checked, and made into what the filter works with.

mod keys;
mod provider;
mod requirement;

use std::rc::Rc;

use filter_api::HeaderName;
use filter_api::config::{ConfigErrors, Node, Object, Problem, read};
use filter_api::matcher::RequestMatcher;

use crate::budget::Budget;

pub use keys::Keys;
pub use provider::Provider;
pub(crate) use requirement::bit;
pub use requirement::{Requirement, Tokens, Tree};

/// The most providers: who owns a location is kept as bits of a word.
const MAX_PROVIDERS: usize = 64;

/// A configuration that can be worked with.
#[derive(Debug)]
pub struct Config {
    /// The rules, in the order given.
    pub rules: Vec<Rule>,
    /// Whether a request passes that no rule is for.
    pub allow_by_default: bool,
    /// Whether a request passes that would be refused; it is counted and logged.
    pub shadow: bool,
    /// Whether a CORS preflight passes, which carries no credentials.
    pub bypass_cors_preflight: bool,
    /// The most tokens in a request.
    pub max_tokens: usize,
    /// The most bytes of a token.
    pub max_token_bytes: usize,
    /// What a refused request is answered with.
    pub refusal: Refusal,
    /// How many signatures may be checked in the module.
    pub budget: Budget,
    /// All providers, each once.
    pub providers: Vec<Rc<Provider>>,
    /// Every header that some provider writes; clients' copies of them are removed.
    pub written_headers: Vec<HeaderName>,
}

/// What the configuration says of the answer to a refused request.
#[derive(Debug, Default)]
pub struct Refusal {
    /// Instead of the reason's status.
    pub status: Option<u16>,
    /// Instead of the reason's body.
    pub body: Option<String>,
    /// No body and no challenge.
    pub strip: bool,
    /// `resource_metadata` of the challenge (RFC 9728 section 5.1).
    pub resource_metadata: Option<String>,
    /// The parameters that some provider looks for tokens in: not to be shown.
    pub token_params: Vec<String>,
}

/// A rule: what the requests that it is for must have.
#[derive(Debug)]
pub struct Rule {
    /// Which requests it is for.
    pub matcher: RequestMatcher,
    /// What they must have.
    pub requirement: Requirement,
}

impl Config {
    /// Reads a configuration; see the README for its fields.
    ///
    /// # Errors
    /// Every problem found.
    pub fn read(json: &[u8]) -> Result<(Self, Vec<Problem>), ConfigErrors> {
        read(json, |root| {
            let providers = read_providers(root);
            let shared = root.get("requirement_map").map(|node| read_shared(&node, providers.as_deref()));
            let rules = root.required("rules");
            let rules = rules.and_then(|node| read_rules(&node, providers.as_deref(), shared.as_deref()));
            let flag = |name| root.get(name).and_then(|node| node.bool()).unwrap_or(false);
            let word = |name, usual, other| match root.get(name) {
                Some(node) => node.second_of(usual, other),
                None => Some(false),
            };
            let number = |name, default, least, most| match root.get(name) {
                Some(node) => node.integer(least, most),
                None => Some(default),
            };
            let allow_by_default = word("default", "deny", "allow");
            let shadow = word("mode", "enforce", "shadow");
            let bypass_cors_preflight = flag("bypass_cors_preflight");
            let max_tokens = number("max_tokens", 4, 1, 64);
            let max_token_bytes = number("max_token_bytes", 8192, 64, 65_536);
            let checks = number("max_vm_verifications_per_second", 500, 1, 1_000_000);
            let mut refusal = read_refusal(root);
            let (providers, rules) = (providers?, rules?);
            let read = providers.iter().filter_map(|(_, provider)| provider.as_deref());
            refusal.token_params =
                read.flat_map(|provider| provider.locations.params.iter().cloned()).collect();
            warn_of_unused(root, &providers, &rules);
            let read = providers.iter().filter_map(|(_, provider)| provider.as_deref());
            let written_headers = read.flat_map(Provider::written_headers).cloned().collect();
            Some(Self {
                written_headers,
                rules,
                allow_by_default: allow_by_default?,
                shadow: shadow?,
                bypass_cors_preflight,
                max_tokens: usize::try_from(max_tokens?).ok()?,
                max_token_bytes: usize::try_from(max_token_bytes?).ok()?,
                refusal,
                budget: Budget::per_second(checks?),
                providers: providers.into_iter().filter_map(|(_, provider)| provider).collect(),
            })
        })
    }
}

fn read_refusal(root: &Object<'_>) -> Refusal {
    let status = root.get("status").and_then(|node| node.integer(400, 499));
    let body = root.get("body").and_then(|node| node.string()).map(str::to_owned);
    let resource_metadata = root.get("resource_metadata").and_then(|node| {
        let url = node.filled_string()?;
        let quotable = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
        if !quotable {
            node.error(format!("{url:?} is no URL that can stand in quotes"));
        }
        quotable.then(|| url.to_owned())
    });
    Refusal {
        status: status.and_then(|status| u16::try_from(status).ok()),
        body,
        strip: root.get("strip_failure_response").and_then(|node| node.bool()).unwrap_or(false),
        resource_metadata,
        token_params: Vec::new(),
    }
}

/// A provider's name, and the provider where it could be read.
type Named<'a> = (&'a str, Option<Rc<Provider>>);

fn read_providers<'a>(root: &Object<'a>) -> Option<Vec<Named<'a>>> {
    let node = root.required("providers")?;
    let entries = node.object()?.entries();
    if entries.is_empty() {
        node.error("must not be empty: name at least one provider");
    }
    if entries.len() > MAX_PROVIDERS {
        node.error(format!("{} providers; the most is {MAX_PROVIDERS}", entries.len()));
    }
    Some(entries.into_iter().map(|(name, entry)| (name, Provider::read(name, &entry).map(Rc::new))).collect())
}

/// The requirements that rules refer to by name; without a requirement where it could not be read.
type Shared<'a> = (&'a str, Option<Requirement>);

fn read_shared<'a>(node: &Node<'a>, providers: Option<&[Named<'_>]>) -> Vec<Shared<'a>> {
    let Some(object) = node.object() else { return Vec::new() };
    let read = |(name, node): (&'a str, Node<'a>)| {
        (name, providers.and_then(|providers| requirement::Reader { providers }.read(&node)))
    };
    object.entries().into_iter().map(read).collect()
}

fn read_rules(
    node: &Node<'_>,
    providers: Option<&[Named<'_>]>,
    shared: Option<&[Shared<'_>]>,
) -> Option<Vec<Rule>> {
    let items = node.array()?;
    if items.is_empty() {
        node.error("must not be empty: with no rule, every request would be refused");
    }
    let rules: Vec<Option<Rule>> = items.iter().map(|item| read_rule(item, providers, shared)).collect();
    let every = rules.iter().position(|rule| rule.as_ref().is_some_and(|rule| rule.matcher.is_every()));
    if let Some((item, last)) =
        every.and_then(|place| items.get(place).zip(items.get(place.saturating_add(1)..)))
        && !last.is_empty()
    {
        item.warning("matches every request, so the rules after it are never reached");
    }
    rules.into_iter().collect()
}

fn read_rule(
    node: &Node<'_>,
    providers: Option<&[Named<'_>]>,
    shared: Option<&[Shared<'_>]>,
) -> Option<Rule> {
    let object = node.object()?;
    let matcher = object.required("match").and_then(|node| RequestMatcher::read(&node));
    let requirement = object.one_of(&["requires", "requirement_name"]).and_then(|(kind, value)| match kind {
        "requires" => requirement::Reader { providers: providers? }.read(&value),
        _ => named_requirement(&value, shared.unwrap_or_default()),
    });
    object.finish();
    Some(Rule { matcher: matcher?, requirement: requirement? })
}

fn named_requirement(node: &Node<'_>, shared: &[Shared<'_>]) -> Option<Requirement> {
    let name = node.filled_string()?;
    match shared.iter().find(|(own, _)| *own == name) {
        Some((_, requirement)) => requirement.clone(),
        None => {
            let known: Vec<&str> = shared.iter().map(|(name, _)| *name).collect();
            node.error(format!("requirement_map has no {name:?}; it has: {}", known.join(", ")));
            None
        }
    }
}

/// A provider that no rule asks for is most often a rule forgotten.
fn warn_of_unused(root: &Object<'_>, providers: &[Named<'_>], rules: &[Rule]) {
    let asked = |name: &str| {
        rules.iter().any(|rule| match &rule.requirement {
            Requirement::Nothing => false,
            Requirement::Tokens(tokens) => tokens.providers.iter().any(|own| own.name.as_ref() == name),
        })
    };
    for (name, _) in providers {
        if !asked(name) {
            root.node().warning(format!("no rule requires provider {name:?}"));
        }
    }
}
