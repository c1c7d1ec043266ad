//! What stands around a plugin's own configuration, where Envoy takes a mistake in silence or refuses it in words that
//! do not lead to it.

use std::path::Path;

use base64ct::{Base64, Encoding as _};

use super::filters::{Known, Nature};
use super::plugins::{Code, Place, Plugin};
use super::report::{Finding, Severity};
use super::tree::{Content, Node};

/// What Envoy hands to a plugin as its configuration.
#[derive(Debug)]
pub struct Configuration<'a> {
    /// The bytes, as JSON.
    pub json: Vec<u8>,
    /// Where it is in the file, for lines; a text is on one.
    pub node: &'a Node,
}

/// A plugin's own configuration, from a `google.protobuf.Struct`, `StringValue` or `BytesValue`. Something else is said
/// to be wrong, and read where it can be.
pub fn configuration<'a>(plugin: &Plugin<'a>, findings: &mut Vec<Finding>) -> Option<Configuration<'a>> {
    const REMEDY: &str = "write `\"@type\": type.googleapis.com/google.protobuf.Struct` and the configuration under \
                          `value`";
    let Some(member) = plugin.config.member("configuration") else {
        return Some(Configuration { json: Vec::new(), node: plugin.config });
    };
    let given = &member.value;
    let mut wrong = |line, message: String| {
        findings.push(Finding::error(line, "config.configuration", message));
    };
    let Some(name) = given.get("@type").and_then(Node::text) else {
        wrong(member.line, format!("has no `@type`, without which Envoy refuses it; {REMEDY}"));
        return matches!(given.content, Content::Map(_))
            .then(|| Configuration { json: of_struct(given), node: given });
    };
    let value = given.get("value");
    let node = value.unwrap_or(given);
    let text = value.and_then(Node::text);
    match name.rsplit('/').next().unwrap_or_default() {
        "google.protobuf.Struct" => match value.map(|value| &value.content) {
            None => Some(Configuration { json: Vec::new(), node }),
            Some(Content::Map(_)) => Some(Configuration { json: of_struct(node), node }),
            Some(_) => {
                wrong(node.line, "the `value` of a Struct must be a mapping".to_owned());
                None
            }
        },
        "google.protobuf.StringValue" if value.is_none() || text.is_some() => {
            Some(Configuration { json: text.unwrap_or_default().into(), node })
        }
        "google.protobuf.BytesValue" if text.is_some() => {
            match Base64::decode_vec(text.unwrap_or_default()) {
                Ok(json) => Some(Configuration { json, node }),
                Err(_) => {
                    wrong(node.line, "the `value` of a BytesValue must be base64".to_owned());
                    None
                }
            }
        }
        "google.protobuf.StringValue" | "google.protobuf.BytesValue" => {
            wrong(node.line, format!("its `value` must be text; for a mapping, {REMEDY}"));
            None
        }
        _ => {
            wrong(member.line, format!("{name:?} is nothing that a Foregate filter can read; {REMEDY}"));
            None
        }
    }
}

/// The JSON of a Struct. An empty one has no bytes at all.
pub fn of_struct(node: &Node) -> Vec<u8> {
    if node.members().is_empty() { Vec::new() } else { node.to_json().to_string().into_bytes() }
}

/// Looks at what a plugin stands in. `nature` is what it is by its configuration, `others` are the plugins before it in
/// its document, `folder` is the one that Envoy is started from.
pub fn look(
    plugin: &Plugin<'_>,
    known: &Known,
    nature: Nature,
    others: &[Plugin<'_>],
    folder: &Path,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    failure_policy(plugin, nature, &mut findings);
    module_file(plugin, folder, &mut findings);
    vm_id(plugin, others, &mut findings);
    names(plugin, known, nature, &mut findings);
    findings
}

/// The member at this path of the plugin's configuration: the line of its name, and the value.
fn member<'a>(plugin: &Plugin<'a>, path: &[&str]) -> Option<(usize, &'a Node)> {
    let (last, before) = path.split_last()?;
    plugin.config.at(before)?.member(last).map(|member| (member.line, &member.value))
}

fn failure_policy(plugin: &Plugin<'_>, nature: Nature, findings: &mut Vec<Finding>) {
    const PATH: &str = "config.failure_policy";
    let policy = member(plugin, &["failure_policy"]);
    let name = policy.map(|(_, node)| match &node.content {
        Content::Text(text) => text.to_ascii_uppercase(),
        // The numbers of envoy.extensions.wasm.v3.FailurePolicy.
        Content::Number(0.0) => "UNSPECIFIED".to_owned(),
        Content::Number(1.0) => "FAIL_RELOAD".to_owned(),
        Content::Number(2.0) => "FAIL_CLOSED".to_owned(),
        Content::Number(3.0) => "FAIL_OPEN".to_owned(),
        _ => String::new(),
    });
    let set = name.as_deref().filter(|name| *name != "UNSPECIFIED");
    let line = policy.map_or(plugin.config.line, |(line, _)| line);
    if let Some(name) = set.filter(|name| !["FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"].contains(name)) {
        let message = format!("{name:?} must be FAIL_RELOAD, FAIL_CLOSED or FAIL_OPEN");
        findings.push(Finding::error(line, PATH, message));
    }
    let open = member(plugin, &["fail_open"]).filter(|(_, node)| node.content == Content::Bool(true));
    match (open, set) {
        (Some((line, _)), Some(_)) => findings.push(Finding::error(
            line,
            "config.fail_open",
            "is given beside `failure_policy`, which Envoy refuses; leave it out",
        )),
        (Some((line, _)), None) => {
            let meaning = if nature.guards { ": requests pass unchecked once the filter has failed" } else { "" };
            let message = format!("is what `failure_policy: FAIL_OPEN` is written as now{meaning}; FAIL_RELOAD makes \
                the VM anew");
            findings.push(Finding::warning(line, "config.fail_open", message));
        }
        (None, None) => findings.push(Finding::warning(
            line,
            PATH,
            "is not set, which means FAIL_CLOSED: after a trap a worker answers every request with 503 until Envoy is \
             started again; write FAIL_RELOAD",
        )),
        (None, Some(_)) => {}
    }
}

fn module_file(plugin: &Plugin<'_>, folder: &Path, findings: &mut Vec<Finding>) {
    const PATH: [&str; 4] = ["vm_config", "code", "local", "filename"];
    let (Code::File(file), Some((line, _))) = (plugin.code(), member(plugin, &PATH)) else { return };
    // An absolute one is of the machine that Envoy runs on, which this may not be.
    let elsewhere = Path::new(file).is_absolute() && !Path::new(file).parent().is_some_and(Path::is_dir);
    if !elsewhere && !folder.join(file).is_file() {
        let message =
            format!("there is no file {file:?} here; Envoy takes it from the folder that it is started in");
        findings.push(Finding::warning(line, format!("config.{}", PATH.join(".")), message));
    }
}

fn vm_id(plugin: &Plugin<'_>, others: &[Plugin<'_>], findings: &mut Vec<Finding>) {
    const PATH: [&str; 2] = ["vm_config", "vm_id"];
    let of = |plugin: &Plugin<'_>| Some(plugin.config.at(&PATH)?.text()?.to_owned());
    let Some((line, _)) = member(plugin, &PATH) else { return };
    let Some(own) = of(plugin).filter(|id| !id.is_empty()) else { return };
    let differs = |other: &&Plugin<'_>| {
        let known = other.code() != Code::Unknown && plugin.code() != Code::Unknown;
        known && of(other).as_ref() == Some(&own) && other.code() != plugin.code()
    };
    if let Some(other) = others.iter().find(differs) {
        let message = format!(
            "{own:?} is also that of {} (line {}), whose code is another file; they share data but no VM: give each a \
             `vm_id` of its own",
            other.title(),
            other.line
        );
        findings.push(Finding::warning(line, format!("config.{}", PATH.join(".")), message));
    }
}

fn names(plugin: &Plugin<'_>, known: &Known, nature: Nature, findings: &mut Vec<Finding>) {
    if let Some((line, node)) = member(plugin, &["name"])
        && let Some(other) = node.text().and_then(Known::named)
        && other.name != known.name
    {
        let message = format!("is {:?}, but the module is that of {}", other.name, known.name);
        findings.push(Finding::warning(line, "config.name", message));
    }
    let place = match plugin.place {
        Place::HttpFilter => return,
        Place::AccessLogger if nature.logs => return,
        Place::AccessLogger => "an access logger",
        Place::Other => "no HTTP filter",
    };
    let message = format!("{} does nothing here, as {place}; it belongs into `http_filters`", known.name);
    findings.push(Finding { severity: Severity::Warning, line: plugin.line, path: String::new(), message });
}
