//! What a filter's configuration counts on elsewhere in the document: clusters that it calls, and access loggers that
//! write what it leaves for them. Envoy looks for neither before a request needs it.

use serde_json::Value;

use super::filters::Known;
use super::plugins::{Place, Plugin};
use super::report::Finding;
use super::surroundings::Configuration;
use super::tree::{Content, Node};

/// Where the filters have the names of clusters, and what becomes of a name that Envoy does not know. `*` is every
/// member.
const CLUSTERS: [(&str, &[&str], &str); 2] = [
    ("jwt_reject", &["providers", "*", "remote_jwks", "http_uri", "cluster"], "no keys are fetched"),
    ("sampled_log", &["sink", "http", "cluster"], "all lines are lost"),
];

/// The entry of the filter state that the sink `access_log` leaves a line in.
const LINE: &str = "wasm.foregate.sampled_log.line";

/// The configuration that shows how the sink `access_log` is used.
const EXAMPLE: &str = "envoy-configs/sampled-log/file.yaml";

/// Looks for what a plugin's configuration names in the document that it is in.
pub fn look(
    document: &Node,
    plugin: &Plugin<'_>,
    known: &Known,
    configuration: &Configuration<'_>,
    findings: &mut Vec<Finding>,
) {
    // What is no JSON the filter says itself.
    let Ok(config) = serde_json::from_slice::<Value>(&configuration.json) else { return };
    for own in filters(known, &config) {
        clusters(document, &own, configuration.node, findings);
        if own.name == "sampled_log" && own.config.get("sink").and_then(Value::as_str) == Some("access_log") {
            let path = format!("{}sink", own.prefix);
            if let Some(message) = access_log(document, plugin, &own.line) {
                findings.push(Finding::warning(configuration.node.line_of(&path), path, message));
            }
        }
    }
}

/// A filter that a plugin runs.
struct Own<'c> {
    name: &'c str,
    /// What the paths of its configuration begin with.
    prefix: String,
    config: &'c Value,
    /// The entry of the filter state that a sampled_log leaves a line in.
    line: String,
}

/// The filter, or all of a chain.
fn filters<'c>(known: &'c Known, config: &'c Value) -> Vec<Own<'c>> {
    let Some(list) = config.get("filters").filter(|_| known.name == "foregate") else {
        return vec![Own { name: known.name, prefix: String::new(), config, line: LINE.to_owned() }];
    };
    let mut all = Vec::new();
    for (place, item) in list.as_array().into_iter().flatten().enumerate() {
        let line = match item.get("name").and_then(Value::as_str) {
            Some(own) => format!("{LINE}.{own}"),
            None => LINE.to_owned(),
        };
        for (name, config) in item.as_object().into_iter().flatten().filter(|(_, own)| own.is_object()) {
            let prefix = format!("filters[{place}].{name}.");
            all.push(Own { name, prefix, config, line: line.clone() });
        }
    }
    all
}

/// Names of clusters that are not among those that Envoy has from this document, where it has none from elsewhere.
fn clusters(document: &Node, own: &Own<'_>, node: &Node, findings: &mut Vec<Finding>) {
    let Some(clusters) = document.at(&["static_resources", "clusters"]) else { return };
    if document.get("dynamic_resources").is_some() {
        return;
    }
    let there: Vec<&str> =
        clusters.items().iter().filter_map(|cluster| cluster.get("name")?.text()).collect();
    for (_, path, consequence) in CLUSTERS.iter().filter(|(filter, ..)| *filter == own.name) {
        let mut named = Vec::new();
        values(own.config, path, String::new(), &mut named);
        for (path, value) in named {
            let path = format!("{}{path}", own.prefix);
            let Some(name) = value.as_str().filter(|name| !name.is_empty() && !there.contains(name)) else {
                continue;
            };
            let line = node.line_of(&path);
            let message = format!(
                "there is no cluster {name:?} in `static_resources.clusters`, and without it {consequence}; add it, or \
                 name one that is there"
            );
            findings.push(Finding::warning(line, path, message));
        }
    }
}

/// The values at a path, each with its own path as filters write it.
fn values<'v>(value: &'v Value, path: &[&str], before: String, found: &mut Vec<(String, &'v Value)>) {
    let Some((first, rest)) = path.split_first() else {
        found.push((before, value));
        return;
    };
    let Value::Object(members) = value else { return };
    for (name, inner) in members.iter().filter(|(name, _)| *first == "*" || name == first) {
        let is_word = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let own = match (is_word, before.is_empty()) {
            (true, true) => name.clone(),
            (true, false) => format!("{before}.{name}"),
            (false, _) => format!("{before}[{name:?}]"),
        };
        values(inner, rest, own, found);
    }
}

/// Why no line will be written by way of the sink `access_log`, as far as the document tells.
fn access_log(document: &Node, plugin: &Plugin<'_>, line: &str) -> Option<String> {
    match plugin.place {
        Place::AccessLogger => Some(format!(
            "access_log does nothing in an access logger, which has no request to leave a line with: no line is \
             written; load the module as an HTTP filter, as in {EXAMPLE}, or write another sink"
        )),
        // In a part of a configuration the access loggers may be elsewhere.
        Place::HttpFilter => {
            let manager = connection_manager(document, plugin.config)?;
            let names_it = manager.get("access_log").is_some_and(|loggers| mentions(loggers, line));
            (!names_it).then(|| {
                format!(
                    "no `access_log` of its connection manager names {line}, so no line is written; add one as in \
                     {EXAMPLE}, or write another sink"
                )
            })
        }
        Place::Other => None,
    }
}

/// The connection manager that has the plugin of this configuration among its filters, if it is in the document.
fn connection_manager<'a>(node: &'a Node, config: &Node) -> Option<&'a Node> {
    let inner = node.members().iter().map(|member| &member.value).chain(node.items());
    inner
        .filter_map(|inner| connection_manager(inner, config))
        .next()
        .or_else(|| node.get("http_filters").filter(|filters| holds(filters, config)).map(|_| node))
}

/// Whether a node is this very one, or holds it.
fn holds(node: &Node, wanted: &Node) -> bool {
    std::ptr::eq(node, wanted)
        || node.items().iter().any(|item| holds(item, wanted))
        || node.members().iter().any(|member| holds(&member.value, wanted))
}

/// Whether anything in a node names the entry that a line is in.
fn mentions(node: &Node, line: &str) -> bool {
    match &node.content {
        Content::Text(text) => text.contains(line),
        Content::List(items) => items.iter().any(|item| mentions(item, line)),
        Content::Map(members) => {
            members.iter().any(|member| member.name.contains(line) || mentions(&member.value, line))
        }
        Content::Null | Content::Bool(_) | Content::Number(_) => false,
    }
}
