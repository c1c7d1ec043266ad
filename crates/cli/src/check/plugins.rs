//! Finds the Wasm plugins of an Envoy configuration, wherever they are in it.

use super::filters::Known;
use super::tree::{Content, Node};

/// A Wasm plugin.
#[derive(Debug)]
pub struct Plugin<'a> {
    /// Where it is.
    pub path: Path,
    /// The line where it begins.
    pub line: usize,
    /// The name of the filter or logger that it is, if it has one.
    pub name: Option<&'a str>,
    /// What it is loaded as.
    pub place: Place,
    /// `envoy.extensions.wasm.v3.PluginConfig`.
    pub config: &'a Node,
}

/// What a plugin is loaded as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A filter of HTTP requests.
    HttpFilter,
    /// An access logger.
    AccessLogger,
    /// A network filter, a service, a sink of statistics.
    Other,
}

impl Place {
    fn of_type(name: &str) -> Option<Self> {
        if !name.contains(".wasm.v3.Wasm") {
            return None;
        }
        Some(if name.contains(".filters.http.") {
            Self::HttpFilter
        } else if name.contains(".access_loggers.") {
            Self::AccessLogger
        } else {
            Self::Other
        })
    }
}

/// Where a plugin's code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code<'a> {
    /// In a file of the machine that Envoy runs on.
    File(&'a str),
    /// At a URL.
    Remote(&'a str),
    /// Somewhere else, or nowhere.
    Unknown,
}

impl<'a> Plugin<'a> {
    /// Where its code is.
    pub fn code(&self) -> Code<'a> {
        let code = self.config.at(&["vm_config", "code"]);
        let text = |path: &[&str]| code.and_then(|code| code.at(path)).and_then(Node::text);
        text(&["local", "filename"])
            .map(Code::File)
            .unwrap_or_else(|| text(&["remote", "http_uri", "uri"]).map_or(Code::Unknown, Code::Remote))
    }

    /// Which of Foregate's filters it is: by its module's file, else by what it is called.
    pub fn filter(&self) -> Option<&'static Known> {
        let module = match self.code() {
            Code::File(file) => Some(file),
            Code::Remote(uri) => uri.split(['?', '#']).next(),
            Code::Unknown => None,
        };
        module.and_then(Known::of_module).or_else(|| {
            let called = |field| self.config.get(field).and_then(Node::text).and_then(Known::named);
            called("name").or_else(|| called("root_id"))
        })
    }

    /// What people call it: its own name, that of its configuration, or that of its module.
    pub fn title(&self) -> &'a str {
        let code = match self.code() {
            Code::File(code) | Code::Remote(code) => Some(code),
            Code::Unknown => None,
        };
        self.name.or_else(|| self.config.get("name").and_then(Node::text)).or(code).unwrap_or("(no name)")
    }
}

/// The plugins of a document, in its order.
pub fn find(document: &Node) -> Vec<Plugin<'_>> {
    let mut found = Vec::new();
    visit(document, &mut Path::default(), &mut found);
    found
}

/// The names of all HTTP filters of a document, in its order, each once.
pub fn http_filters(document: &Node) -> Vec<&str> {
    fn visit<'a>(node: &'a Node, names: &mut Vec<&'a str>) {
        for member in node.members() {
            if matches!(member.name.as_str(), "http_filters" | "httpFilters") {
                let of_list = member.value.items().iter().filter_map(|filter| filter.get("name")?.text());
                of_list.for_each(|name| {
                    if !names.contains(&name) {
                        names.push(name)
                    }
                });
            }
            visit(&member.value, names);
        }
        node.items().iter().for_each(|item| visit(item, names));
    }
    let mut names = Vec::new();
    visit(document, &mut names);
    names
}

fn visit<'a>(node: &'a Node, path: &mut Path, found: &mut Vec<Plugin<'a>>) {
    const TYPED: &str = "typed_config";
    let typed = node.member(TYPED).and_then(|typed| Some((&typed.name, plugin_config(&typed.value)?)));
    let own = typed.is_none().then(|| plugin_config(node)).flatten();
    if let Some((place, config)) = typed.map(|(_, plugin)| plugin).or(own) {
        let name = node.get("name").and_then(Node::text);
        found.push(Plugin { path: path.clone(), line: node.line, name, place, config });
    }
    if own.is_some() {
        return;
    }
    for member in node.members().iter().filter(|member| typed.is_none_or(|(name, _)| member.name != *name)) {
        path.0.push(Part::Member(member.name.clone()));
        visit(&member.value, path, found);
        path.0.pop();
    }
    let items = node.items();
    for (place, item) in items.iter().enumerate() {
        path.0.push(Part::Item { place, of: items.len() });
        visit(item, path, found);
        path.0.pop();
    }
}

/// The `PluginConfig` in a `typed_config`, if it is that of a Wasm plugin, and what the plugin is loaded as.
fn plugin_config(typed: &Node) -> Option<(Place, &Node)> {
    let name = typed.get("@type")?.text()?;
    // How Istio's older examples write what their version of the API did not know.
    let (name, typed) = if name.ends_with(".TypedStruct") {
        (typed.get("type_url")?.text()?, typed.get("value")?)
    } else {
        (name, typed)
    };
    Some((Place::of_type(name)?, typed.get("config")?))
}

/// Where something is in a document.
#[derive(Debug, Clone, Default)]
pub struct Path(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Member(String),
    Item { place: usize, of: usize },
}

impl Path {
    /// All of it: `static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[2]`.
    pub fn full(&self) -> String {
        self.groups().iter().map(|group| group.text.as_str()).collect::<Vec<_>>().join(".")
    }

    /// The beginning, the end, and what is one of several: `static_resources.listeners[0]...http_filters[2]`.
    pub fn short(&self) -> String {
        const AT_LENGTH: usize = 4;
        let groups = self.groups();
        let mut text = String::new();
        let mut left_out = false;
        for (place, group) in groups.iter().enumerate() {
            let shown =
                groups.len() <= AT_LENGTH || place < 2 || place + 1 == groups.len() || group.one_of_several;
            if shown {
                text.push_str(if left_out {
                    "..."
                } else if place > 0 {
                    "."
                } else {
                    ""
                });
                text.push_str(&group.text);
            }
            left_out = !shown;
        }
        text
    }

    /// The members, each with the places behind it.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for part in &self.0 {
            match part {
                Part::Member(name) => groups.push(Group { text: name.clone(), one_of_several: false }),
                Part::Item { place, of } => {
                    if groups.is_empty() {
                        groups.push(Group { text: String::new(), one_of_several: false });
                    }
                    if let Some(group) = groups.last_mut() {
                        group.text.push_str(&format!("[{place}]"));
                        group.one_of_several |= *of > 1;
                    }
                }
            }
        }
        groups
    }
}

struct Group {
    text: String,
    one_of_several: bool,
}

/// What a document is, for who looked for a plugin in it.
pub fn describe(document: &Node) -> String {
    let kind = document.get("kind").and_then(Node::text);
    let filters = http_filters(document);
    match &document.content {
        Content::Map(_) if kind.is_some() => format!("of kind {}", kind.unwrap_or_default()),
        Content::Map(_) if !filters.is_empty() => format!("with the HTTP filters {}", filters.join(", ")),
        Content::Map(members) => {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).take(8).collect();
            let more = if members.len() > names.len() { ", ..." } else { "" };
            format!("with the members {}{more}", names.join(", "))
        }
        Content::List(items) => format!("a list of {}", items.len()),
        _ => "no mapping".to_owned(),
    }
}
