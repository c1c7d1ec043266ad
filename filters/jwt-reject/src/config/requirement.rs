//! What a request must have: one provider's token, any or all of several things, or nothing.

use std::rc::Rc;

use filter_api::config::Node;

use super::{MAX_PROVIDERS, Named};
use crate::config::Provider;

/// How deep requirements may be nested.
const MAX_DEPTH: u8 = 8;

/// What a request must have.
#[derive(Debug, Clone)]
pub enum Requirement {
    /// Nothing; tokens are not looked at.
    Nothing,
    /// Tokens.
    Tokens(Tokens),
}

/// Which tokens a request must have. Whatever it is: every token found in a place of one of the
/// providers must verify by one of them, unless [`Tree::tolerates_failure`].
#[derive(Debug, Clone)]
pub struct Tokens {
    /// The providers in whose places tokens are looked for; at most 64.
    pub providers: Vec<Rc<Provider>>,
    /// What must hold of those that verified.
    pub tree: Tree,
    /// Whether it holds where there is no token.
    pub(crate) allows_none: bool,
    /// [`Tree::tolerates_failure`].
    pub(crate) tolerates_failure: bool,
    /// [`Tree::needs_every_verdict`].
    pub(crate) needs_every_verdict: bool,
}

impl Tokens {
    /// What the tree says of every request is found out once.
    fn new(providers: Vec<Rc<Provider>>, tree: Tree) -> Self {
        Self {
            allows_none: tree.holds(0),
            tolerates_failure: tree.tolerates_failure(),
            needs_every_verdict: tree.needs_every_verdict(),
            providers,
            tree,
        }
    }
}

/// A requirement, as nested as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// A token of the provider at this place of [`Tokens::providers`].
    Provider(usize),
    /// One of these.
    Any(Vec<Tree>),
    /// Each of these.
    All(Vec<Tree>),
    /// There may be no token.
    AllowMissing,
    /// There may be no token, or one that does not verify.
    AllowMissingOrFailed,
}

impl Requirement {
    /// Whether a request without a token meets it.
    pub fn is_lenient(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Tokens(tokens) => tokens.allows_none,
        }
    }
}

impl Tree {
    /// Whether it holds where these providers (bit n for the one at place n) have verified a token.
    pub fn holds(&self, verified: u64) -> bool {
        match self {
            Self::Provider(place) => bit(*place) & verified != 0,
            Self::Any(parts) => parts.iter().any(|part| part.holds(verified)),
            Self::All(parts) => parts.iter().all(|part| part.holds(verified)),
            Self::AllowMissing | Self::AllowMissingOrFailed => true,
        }
    }

    /// Whether a token that does not verify may be there all the same.
    pub fn tolerates_failure(&self) -> bool {
        match self {
            Self::Provider(_) | Self::AllowMissing => false,
            Self::Any(parts) | Self::All(parts) => parts.iter().any(Self::tolerates_failure),
            Self::AllowMissingOrFailed => true,
        }
    }

    /// Whether it may take a token's being verified by more than one provider to hold.
    pub fn needs_every_verdict(&self) -> bool {
        match self {
            Self::Any(parts) => parts.iter().any(Self::needs_every_verdict),
            Self::All(parts) => parts.len() > 1 || parts.iter().any(Self::needs_every_verdict),
            _ => false,
        }
    }

    fn names_a_provider(&self) -> bool {
        match self {
            Self::Provider(_) => true,
            Self::Any(parts) | Self::All(parts) => parts.iter().any(Self::names_a_provider),
            _ => false,
        }
    }
}

/// The bit of the provider at this place.
pub(crate) fn bit(place: usize) -> u64 {
    u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}

/// Reads requirements, each against the providers of the configuration.
pub(super) struct Reader<'r> {
    pub(super) providers: &'r [Named<'r>],
}

impl Reader<'_> {
    /// Reads one: a word, or an object as Envoy's `JwtRequirement`.
    pub(super) fn read(&self, node: &Node<'_>) -> Option<Requirement> {
        if let Some("none") = node.value().as_str() {
            return Some(Requirement::Nothing);
        }
        if node.value().get("none").is_some() {
            let object = node.object()?;
            let (_, value) = object.one_of(&KINDS)?;
            object.finish();
            return is_empty_message(&value).then_some(Requirement::Nothing);
        }
        let mut providers = Vec::new();
        let tree = self.read_tree(node, &mut providers, MAX_DEPTH)?;
        if !tree.names_a_provider() {
            // Whoever may bring a token: it must verify by someone.
            providers = self.providers.iter().map(|(_, provider)| provider.clone()).collect::<Option<_>>()?;
        }
        if providers.len() > MAX_PROVIDERS {
            node.error(format!("names {} providers; the most is {MAX_PROVIDERS}", providers.len()));
        }
        Some(Requirement::Tokens(Tokens::new(providers, tree)))
    }

    fn read_tree(&self, node: &Node<'_>, providers: &mut Vec<Rc<Provider>>, depth: u8) -> Option<Tree> {
        let Some(depth) = depth.checked_sub(1) else {
            node.error(format!("is nested too deep; the most is {MAX_DEPTH} levels"));
            return None;
        };
        if node.value().is_string() {
            return read_word(node);
        }
        let object = node.object()?;
        let one = object.one_of(&KINDS);
        object.finish();
        let (kind, value) = one?;
        match kind {
            "provider_name" => self.read_provider(&value, providers),
            "requires_any" => Some(Tree::Any(self.read_parts(&value, providers, depth)?)),
            "requires_all" => Some(Tree::All(self.read_parts(&value, providers, depth)?)),
            "none" => {
                value.error("stands alone; among others it would let everything through");
                None
            }
            "allow_missing" => is_empty_message(&value).then_some(Tree::AllowMissing),
            _ => is_empty_message(&value).then_some(Tree::AllowMissingOrFailed),
        }
    }

    fn read_provider(&self, value: &Node<'_>, providers: &mut Vec<Rc<Provider>>) -> Option<Tree> {
        let name = value.filled_string()?;
        let Some((_, provider)) = self.providers.iter().find(|(own, _)| *own == name) else {
            let known: Vec<&str> = self.providers.iter().map(|(name, _)| *name).collect();
            value.error(format!("no provider is named {name:?}; there are: {}", known.join(", ")));
            return None;
        };
        // Where the provider could not be read, that has been said already.
        let provider = provider.as_ref()?;
        let place = providers.iter().position(|own| own.name == provider.name).unwrap_or_else(|| {
            providers.push(Rc::clone(provider));
            providers.len().saturating_sub(1)
        });
        Some(Tree::Provider(place))
    }

    /// The parts of `requires_any` and `requires_all`: a list, or Envoy's `{requirements: [...]}`.
    fn read_parts(&self, node: &Node<'_>, providers: &mut Vec<Rc<Provider>>, depth: u8) -> Option<Vec<Tree>> {
        let items = if node.value().is_object() {
            let object = node.object()?;
            let list = object.required("requirements");
            object.finish();
            list?.array()?
        } else {
            node.array()?
        };
        if items.is_empty() {
            node.error("must not be empty: name at least one requirement");
            return None;
        }
        let parts: Vec<Option<Tree>> =
            items.iter().map(|item| self.read_tree(item, providers, depth)).collect();
        parts.into_iter().collect()
    }
}

const KINDS: [&str; 6] =
    ["provider_name", "requires_any", "requires_all", "none", "allow_missing", "allow_missing_or_failed"];

fn read_word(node: &Node<'_>) -> Option<Tree> {
    let word = node.string()?;
    match word {
        "allow_missing" => Some(Tree::AllowMissing),
        "allow_missing_or_failed" => Some(Tree::AllowMissingOrFailed),
        "none" => {
            node.error("none stands alone; among others it would let everything through");
            None
        }
        _ => {
            node.error(format!(
                "{word:?} is no requirement; write none, allow_missing, allow_missing_or_failed, \
                 or {{provider_name: {word}}}"
            ));
            None
        }
    }
}

/// Envoy writes these as `{}`; `true` says the same.
fn is_empty_message(value: &Node<'_>) -> bool {
    let empty = match value.value() {
        serde_json::Value::Bool(flag) => *flag,
        serde_json::Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if !empty {
        value.error("must be {} or true");
    }
    empty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees() {
        use Tree::{All, AllowMissing, AllowMissingOrFailed, Any, Provider};
        let (a, b) = (Provider(0), Provider(1));
        let rows = [
            // What holds with nothing, a, b, both; whether failure is tolerated.
            (a.clone(), [false, true, false, true], false),
            (Any(vec![a.clone(), b.clone()]), [false, true, true, true], false),
            (All(vec![a.clone(), b.clone()]), [false, false, false, true], false),
            (Any(vec![a.clone(), AllowMissing]), [true; 4], false),
            (All(vec![a.clone(), AllowMissing]), [false, true, false, true], false),
            (All(vec![a.clone(), AllowMissingOrFailed]), [false, true, false, true], true),
            (AllowMissing, [true; 4], false),
            (AllowMissingOrFailed, [true; 4], true),
        ];
        for (tree, holds, tolerates) in rows {
            assert_eq!([0, 1, 2, 3].map(|verified| tree.holds(verified)), holds, "{tree:?}");
            assert_eq!(tree.tolerates_failure(), tolerates, "{tree:?}");
        }
        assert_eq!((bit(0), bit(63), bit(64)), (1, 1 << 63, 0));
    }
}
