//! The configuration: a list of filters, each with its own.

use filter_api::CounterSet;
use filter_api::config::{ConfigErrors, Node, Problem, read as read_root};

use crate::link::{Kind, Link};

/// The most filters in a list.
pub const MOST_FILTERS: usize = 16;

/// The longest name of one.
const MOST_NAME: usize = 64;

/// Reads a configuration; see the README for its fields.
pub(crate) fn read(json: &[u8]) -> Result<(Vec<Link>, Vec<Problem>), ConfigErrors> {
    read_root(json, |root| {
        let list = root.required("filters")?;
        let nodes = list.array()?;
        if nodes.is_empty() {
            list.error("has no filter in it; give at least one");
        }
        if nodes.len() > MOST_FILTERS {
            list.error(format!("has {} filters; the most is {MOST_FILTERS}", nodes.len()));
            return None;
        }
        let mut reading = Reading { seen: Vec::new(), counters: 0 };
        // All are read, so that all problems are noted.
        let links: Vec<Option<Link>> = nodes.iter().map(|node| reading.link(node)).collect();
        if reading.counters > CounterSet::MOST {
            list.error(format!(
                "its filters have {} counters between them; the most is {}: list fewer filters, or give them fewer \
                 limits",
                reading.counters,
                CounterSet::MOST
            ));
        }
        links.into_iter().collect()
    })
}

/// The list, as far as it has been read.
struct Reading {
    seen: Vec<(Kind, Option<String>)>,
    counters: usize,
}

impl Reading {
    fn link(&mut self, node: &Node<'_>) -> Option<Link> {
        let object = node.object()?;
        let given = object.get("name");
        let name = given.as_ref().and_then(|node| self.read_name(node));
        let chosen = object.one_of(&Kind::ALL.map(Kind::name));
        object.finish();
        let (kind, node) = chosen?;
        let kind = Kind::ALL.into_iter().find(|own| own.name() == kind)?;
        // A name stays the same when others come and go. A number does not, but tells those apart that have no name.
        let instance = match &name {
            Some(name) => name.clone(),
            None => match self.seen.iter().filter(|(other, name)| *other == kind && name.is_none()).count() {
                0 => String::new(),
                before => before.saturating_add(1).to_string(),
            },
        };
        self.seen.push((kind, name.clone()));
        // Its own problems are noted whatever is wrong with its name.
        let link = Link::read(kind, name.as_deref(), &instance, self.counters, &node)?;
        self.counters = self.counters.saturating_add(link.counter_names().len());
        Some(link)
    }

    /// A name, if it can be one and no other filter has it.
    fn read_name(&self, node: &Node<'_>) -> Option<String> {
        let name = node.filled_string()?;
        if !is_name(name) {
            node.error(format!(
                "{name:?} must be a letter and up to {} letters, digits, - and _: metrics have it in their names",
                MOST_NAME.saturating_sub(1)
            ));
            return None;
        }
        if self.seen.iter().any(|(_, other)| other.as_deref() == Some(name)) {
            node.error(format!("another filter is named {name:?}; give it another name"));
        }
        Some(name.to_owned())
    }
}

fn is_name(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_alphabetic());
    name.len() <= MOST_NAME && name.bytes().all(is_fit) && starts_with_letter
}
