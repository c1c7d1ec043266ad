//! The configuration: read from JSON, checked, and made into what the filter works with.

mod provider;

use std::sync::Arc;

use filter_api::config::{ConfigErrors, Node, Object, Problem, read};
use filter_api::matcher::RequestMatcher;

pub use provider::Provider;

/// The most providers: who owns a location is kept as bits of a word.
const MAX_PROVIDERS: usize = 64;

/// A configuration that can be worked with.
#[derive(Debug)]
pub struct Config {
    /// The providers, in the order of their names.
    pub providers: Vec<Arc<Provider>>,
    /// The rules, in the order given.
    pub rules: Vec<Rule>,
    /// The most tokens in a request.
    pub max_tokens: usize,
    /// The most bytes of a token.
    pub max_token_bytes: usize,
}

/// A rule: what the requests that it is for must have.
#[derive(Debug)]
pub struct Rule {
    /// Which requests it is for.
    pub matcher: RequestMatcher,
    /// What they must have.
    pub requirement: Requirement,
}

/// What a request must have.
#[derive(Debug, Clone)]
pub enum Requirement {
    /// Nothing; tokens are not looked at.
    Nothing,
    /// A token of this provider.
    Provider(Arc<Provider>),
    /// No token, or tokens that all verify, each by some provider.
    AllowMissing,
    /// Anything.
    AllowMissingOrFailed,
}

impl Requirement {
    /// Whether a request without a token meets it.
    pub fn is_lenient(&self) -> bool {
        !matches!(self, Self::Provider(_))
    }
}

impl Config {
    /// Reads a configuration; see the README for its fields.
    ///
    /// # Errors
    /// Every problem found.
    pub fn read(json: &[u8]) -> Result<(Self, Vec<Problem>), ConfigErrors> {
        read(json, |root| {
            let providers = read_providers(root);
            let rules = root.required("rules").and_then(|node| read_rules(&node, providers.as_deref()));
            let number = |name, default, least, most| match root.get(name) {
                Some(node) => node.integer(least, most),
                None => Some(default),
            };
            let max_tokens = number("max_tokens", 4, 1, 64);
            let max_token_bytes = number("max_token_bytes", 8192, 64, 65_536);
            let (providers, rules) = (providers?, rules?);
            warn_of_unused(root, &providers, &rules);
            Some(Self {
                providers: providers.into_iter().map(|(_, provider)| provider).collect::<Option<_>>()?,
                rules,
                max_tokens: usize::try_from(max_tokens?).ok()?,
                max_token_bytes: usize::try_from(max_token_bytes?).ok()?,
            })
        })
    }
}

/// A provider's name, and the provider where it could be read.
type Named<'a> = (&'a str, Option<Arc<Provider>>);

fn read_providers<'a>(root: &Object<'a>) -> Option<Vec<Named<'a>>> {
    let node = root.required("providers")?;
    let entries = node.object()?.entries();
    if entries.is_empty() {
        node.error("must not be empty: name at least one provider");
    }
    if entries.len() > MAX_PROVIDERS {
        node.error(format!("{} providers; the most is {MAX_PROVIDERS}", entries.len()));
    }
    Some(
        entries.into_iter().map(|(name, entry)| (name, Provider::read(name, &entry).map(Arc::new))).collect(),
    )
}

fn read_rules(node: &Node<'_>, providers: Option<&[Named<'_>]>) -> Option<Vec<Rule>> {
    let items = node.array()?;
    if items.is_empty() {
        node.error("must not be empty: with no rule, every request would be refused");
    }
    let rules: Vec<Option<Rule>> = items.iter().map(|item| read_rule(item, providers)).collect();
    let every = rules.iter().position(|rule| rule.as_ref().is_some_and(|rule| rule.matcher.is_every()));
    if let Some((item, last)) =
        every.and_then(|place| items.get(place).zip(items.get(place.saturating_add(1)..)))
        && !last.is_empty()
    {
        item.warning("matches every request, so the rules after it are never reached");
    }
    rules.into_iter().collect()
}

fn read_rule(node: &Node<'_>, providers: Option<&[Named<'_>]>) -> Option<Rule> {
    let object = node.object()?;
    let matcher = object.required("match").and_then(|node| RequestMatcher::read(&node));
    let requirement = object.required("requires").and_then(|node| read_requirement(&node, providers));
    object.finish();
    Some(Rule { matcher: matcher?, requirement: requirement? })
}

/// `{provider_name: main}`, or one of the others as a word or as Envoy's empty message.
fn read_requirement(node: &Node<'_>, providers: Option<&[Named<'_>]>) -> Option<Requirement> {
    if node.value().is_string() {
        let word = node.string()?;
        let requirement = named_requirement(word);
        if requirement.is_none() {
            node.error(format!(
                "{word:?} is no requirement; write none, allow_missing, allow_missing_or_failed, \
                 or {{provider_name: {word}}}"
            ));
        }
        return requirement;
    }
    let object = node.object()?;
    let one = object.one_of(&["provider_name", "none", "allow_missing", "allow_missing_or_failed"]);
    object.finish();
    let (kind, value) = one?;
    if kind == "provider_name" {
        let name = value.filled_string()?;
        let providers = providers?;
        return match providers.iter().find(|(own, _)| *own == name) {
            // Where the provider could not be read, that has been said already.
            Some((_, provider)) => provider.clone().map(Requirement::Provider),
            None => {
                let known: Vec<&str> = providers.iter().map(|(name, _)| *name).collect();
                value.error(format!("no provider is named {name:?}; there are: {}", known.join(", ")));
                None
            }
        };
    }
    match value.value() {
        serde_json::Value::Bool(true) => {}
        serde_json::Value::Object(empty) if empty.is_empty() => {}
        _ => value.error("must be {} or true"),
    }
    named_requirement(kind)
}

fn named_requirement(word: &str) -> Option<Requirement> {
    match word {
        "none" => Some(Requirement::Nothing),
        "allow_missing" => Some(Requirement::AllowMissing),
        "allow_missing_or_failed" => Some(Requirement::AllowMissingOrFailed),
        _ => None,
    }
}

/// A provider that no rule asks for is most often a rule forgotten.
fn warn_of_unused(root: &Object<'_>, providers: &[Named<'_>], rules: &[Rule]) {
    let any = rules.iter().any(|rule| {
        matches!(rule.requirement, Requirement::AllowMissing | Requirement::AllowMissingOrFailed)
    });
    let asked = |name: &str| {
        rules
            .iter()
            .any(|rule| matches!(&rule.requirement, Requirement::Provider(own) if own.name.as_ref() == name))
    };
    if any {
        return;
    }
    for (name, _) in providers {
        if !asked(name) {
            root.node().warning(format!("no rule requires provider {name:?}"));
        }
    }
}
