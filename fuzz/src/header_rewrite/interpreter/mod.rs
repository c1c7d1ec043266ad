//! What a configuration says, done step by step and in the plainest way, for the filter to be held against: read from the
//! JSON as it stands, on messages that are maps of lists. It knows valid configurations alone, and panics at others.

mod conditions;
mod edits;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use filter_api::matcher::{PathView, RequestMatcher};
use filter_api::{Head, HeadMap};
use header_rewrite::preset;
use serde_json::{Value, json};

use super::exchange::Exchange;
use conditions::{header_holds, matches, regex_of, statuses};
use template::Fault;
pub(super) use template::Source;

/// A message: the values of the lines of each name, in their order.
pub(super) type Message = BTreeMap<String, Vec<Vec<u8>>>;

/// Names that no operation may touch but those that are for them alone.
pub(super) const OF_A_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What comes of an exchange.
#[derive(PartialEq)]
pub(super) struct Rewritten {
    pub(super) request: Message,
    pub(super) response: Message,
    /// Why operations of the request, and of the response, were left out.
    pub(super) skipped: [BTreeSet<&'static str>; 2],
}

/// As text, to be read where two of them differ.
impl std::fmt::Debug for Rewritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (of, message) in [("request", &self.request), ("response", &self.response)] {
            for (name, lines) in message {
                for line in lines {
                    write!(f, "\n    {of} {name}: {:?}", String::from_utf8_lossy(line))?;
                }
            }
        }
        write!(f, "\n    left out: {:?}", self.skipped)
    }
}

/// A head as a message.
pub(super) fn message(head: &HeadMap) -> Message {
    let mut message = Message::new();
    for (name, value) in head.lines() {
        let name = String::from_utf8(name.to_ascii_lowercase()).unwrap();
        message.entry(name).or_default().push(value.to_vec());
    }
    message
}

/// Does what a configuration says.
pub(super) fn rewrite(config: &Value, exchange: &Exchange) -> Rewritten {
    let lists = |name: &str| {
        let given = [config.get(name), config.get("mutations").and_then(|lists| lists.get(name))];
        given.into_iter().flatten().filter_map(Value::as_array).next().cloned().unwrap_or_default()
    };
    let protected = one_or_more(&config["protected"]);
    let mut run = Run {
        exchange,
        protected: &protected,
        message: message(&exchange.request),
        before: None,
        rewritten: false,
        skipped: BTreeSet::new(),
    };
    run.all(&lists("request_mutations"), Holds::Yes);
    for item in lists("query_parameter_mutations") {
        run.query(&envoys_query(&item));
    }
    let (request, of_request) = (run.message, run.skipped);
    let mut run = Run {
        exchange,
        protected: &protected,
        message: message(&exchange.response),
        before: Some(&request),
        rewritten: false,
        skipped: BTreeSet::new(),
    };
    run.all(&lists("response_mutations"), Holds::Yes);
    let (response, of_response) = (run.message, run.skipped);
    Rewritten { request, response, skipped: [of_request, of_response] }
}

/// Whether conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    No,
    /// It depends on how the path is read.
    Maybe,
    Yes,
}

/// A list of operations under way.
struct Run<'e> {
    exchange: &'e Exchange,
    protected: &'e [Value],
    message: Message,
    /// The request as it was sent, where the message is the response.
    before: Option<&'e Message>,
    /// Whether the path was rewritten.
    rewritten: bool,
    skipped: BTreeSet<&'static str>,
}

impl Run<'_> {
    fn all(&mut self, items: &[Value], outer: Holds) {
        for item in items {
            let holds = outer.min(self.holds(item));
            if holds == Holds::No {
                continue;
            }
            if let Some(group) = present(&item["mutations"]) {
                self.all(group.as_array().unwrap(), holds);
            } else {
                self.one(item, holds);
            }
        }
    }

    /// What takes something away is done also where its conditions may hold or not.
    fn one(&mut self, item: &Value, holds: Holds) {
        let removes = present(&item["remove"]).is_some()
            || present(&item["remove_on_match"]).is_some()
            || ["query", "cookie"].iter().any(|name| present(&item[name]["remove"]).is_some());
        if holds == Holds::Maybe && !removes {
            return;
        }
        let done = self.operation(item);
        match done {
            Ok(()) | Err(Fault::Missing) => {}
            Err(Fault::Invalid) => drop(self.skipped.insert("invalid_value")),
            Err(Fault::TooLong) => drop(self.skipped.insert("too_long")),
        }
    }

    fn operation(&mut self, item: &Value) -> Result<(), Fault> {
        let of_response = self.before.is_some();
        for (name, how) in [
            ("set", "set"),
            ("append", "append"),
            ("add_if_absent", "add_if_absent"),
            ("overwrite_if_exists", "overwrite_if_exists"),
        ] {
            if let Some(write) = present(&item[name]) {
                return self.write(how, write);
            }
        }
        let given = |name: &str| present(&item[name]);
        if let Some(remove) = given("remove") {
            self.remove(&one_or_more(remove));
        } else if let Some(remove) = given("remove_on_match") {
            // A text alone is a whole name there.
            let pattern = &remove["key_matcher"];
            let pattern = if pattern.is_string() { json!({ "exact": pattern }) } else { pattern.clone() };
            self.remove(&[pattern]);
        } else if let Some(pair) = given("rename") {
            self.copy(pair, true);
        } else if let Some(pair) = given("copy") {
            self.copy(pair, false);
        } else if let Some(replace) = given("replace") {
            let name = name_of(replace);
            let mut lines = self.message.get(&name).cloned().unwrap_or_default();
            for line in &mut lines {
                if let Some(new) = self.replaced(line, replace, |bytes, _| bytes.to_vec())? {
                    *line = fit(new)?;
                }
            }
            self.put(&name, lines);
        } else if let Some(dedupe) = given("dedupe") {
            self.dedupe(dedupe);
        } else if let Some(path) = given("path") {
            self.path(path)?;
        } else if let Some(host) = given("host") {
            self.host(host)?;
        } else if let Some(query) = given("query") {
            return self.query_edit(query);
        } else if let Some(cookie) = given("cookie") {
            if of_response { self.set_cookie(cookie)? } else { self.cookie(cookie)? }
        } else if let Some(preset) = given("preset") {
            self.preset(preset);
        } else {
            panic!("what is {item}?");
        }
        Ok(())
    }

    /// Puts these lines in the place of all of a name.
    fn put(&mut self, name: &str, lines: Vec<Vec<u8>>) {
        if lines.is_empty() {
            self.message.remove(name);
        } else {
            self.message.insert(name.to_owned(), lines);
        }
    }

    fn write(&mut self, how: &str, write: &Value) -> Result<(), Fault> {
        let header = present(&write["header"]).filter(|_| how == "append").unwrap_or(write);
        let how = match write["append_action"].as_str().filter(|_| how == "append") {
            Some("OVERWRITE_IF_EXISTS_OR_ADD") => "set",
            Some("ADD_IF_ABSENT") => "add_if_absent",
            Some("OVERWRITE_IF_EXISTS") => "overwrite_if_exists",
            Some("APPEND_IF_EXISTS_OR_ADD") | None => how,
            Some(other) => panic!("what is {other}?"),
        };
        self.write_value(
            how,
            &name_of(header),
            header["value"].as_str().unwrap(),
            is_true(&write["keep_empty_value"]),
        )
    }

    fn write_value(&mut self, how: &str, name: &str, text: &str, keep_empty: bool) -> Result<(), Fault> {
        let there = self.message.contains_key(name);
        if (how == "add_if_absent" && there) || (how == "overwrite_if_exists" && !there) {
            return Ok(());
        }
        let value = self.source().value(text, keep_empty, |bytes, _| bytes.to_vec()).and_then(fit);
        if value.is_err() && how == "set" && template::is_of_trusted_origin(text) {
            self.put(name, Vec::new());
        }
        let value = value?;
        let mut lines =
            if how == "append" { self.message.remove(name).unwrap_or_default() } else { Vec::new() };
        lines.push(value);
        self.put(name, lines);
        Ok(())
    }

    fn remove(&mut self, items: &[Value]) {
        let names: Vec<String> = self.message.keys().cloned().collect();
        for name in names {
            let is_meant = items.iter().any(|item| match item.as_str() {
                Some(own) => own.eq_ignore_ascii_case(&name),
                None => self.may_be_removed(&name) && matches(item, name.as_bytes(), true),
            });
            if is_meant {
                self.message.remove(&name);
            }
        }
    }

    /// Whether a pattern may take a name with it.
    fn may_be_removed(&self, name: &str) -> bool {
        !name.starts_with(':')
            && name != "host"
            && !OF_A_CONNECTION.contains(&name)
            && !self.protected.iter().any(|pattern| matches(pattern, name.as_bytes(), true))
    }

    fn copy(&mut self, pair: &Value, renames: bool) {
        let name = |member: &str| pair[member].as_str().unwrap().to_ascii_lowercase();
        let (from, to) = (name("from"), name("to"));
        if let Some(lines) = self.message.get(&from).cloned() {
            self.put(&to, lines);
            if renames {
                self.message.remove(&from);
            }
        }
    }

    fn dedupe(&mut self, dedupe: &Value) {
        let Some(lines) = self.message.get_mut(&name_of(dedupe)) else { return };
        match dedupe["keep"].as_str().unwrap() {
            "first" => lines.truncate(1),
            "last" => drop(lines.drain(..lines.len() - 1)),
            _ => {
                let mut seen = BTreeSet::new();
                lines.retain(|line| seen.insert(line.clone()));
            }
        }
    }

    fn preset(&mut self, preset: &Value) {
        let names = |member: &str| -> BTreeSet<String> {
            let given = one_or_more(&preset[member]);
            given.iter().map(|name| name.as_str().unwrap().to_ascii_lowercase()).collect()
        };
        let except = if preset.is_object() { names("except") } else { BTreeSet::new() };
        let how = if is_true(&preset["overwrite"]) { "set" } else { "add_if_absent" };
        let own = preset["values"].as_object().cloned().unwrap_or_default();
        let own: BTreeMap<String, Value> =
            own.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let usual =
            preset::HEADERS.iter().filter(|(name, _)| !except.contains(*name) && !own.contains_key(*name));
        for (name, text) in usual {
            self.done(how, name, text);
        }
        for (name, value) in &own {
            self.done(how, name, value.as_str().unwrap());
        }
    }

    /// Writes a header of the preset.
    fn done(&mut self, how: &str, name: &str, text: &str) {
        match self.write_value(how, name, text, false) {
            Ok(()) | Err(Fault::Missing) => {}
            Err(Fault::Invalid) => drop(self.skipped.insert("invalid_value")),
            Err(Fault::TooLong) => drop(self.skipped.insert("too_long")),
        }
    }

    /// Whether the conditions beside an operation hold.
    fn holds(&self, item: &Value) -> Holds {
        let of_status = |ranges: &Value| {
            let status = self.exchange.response.first(":status").unwrap_or_default();
            let status =
                std::str::from_utf8(status).ok().and_then(|digits| digits.parse::<u16>().ok()).unwrap_or(0);
            one_or_more(ranges).iter().any(|range| statuses(range).contains(&status))
        };
        let original = message(&self.exchange.response);
        let all = |conditions: &Value, message: &Message| {
            one_or_more(conditions).iter().all(|condition| header_holds(condition, message))
        };
        let others = present(&item["status"]).is_none_or(of_status)
            && all(&item["response_headers"], &original)
            && all(&item["if_header"], &self.message);
        match (others, present(&item["match"])) {
            (false, _) => Holds::No,
            (true, None) => Holds::Yes,
            (true, Some(condition)) => self.of_request(condition),
        }
    }

    /// Whether the request as it came is one that a `match` is for. (This is shared by all filters, and has tests of its
    /// own.)
    fn of_request(&self, condition: &Value) -> Holds {
        let text = json!({ "match": condition }).to_string();
        let read =
            filter_api::config::read(text.as_bytes(), |root| RequestMatcher::read(&root.required("match")?));
        let (matcher, _) = read.unwrap();
        let head = &self.exchange.request;
        let path = PathView::new(head.path());
        if matcher.matches(head, &path) {
            Holds::Yes
        } else if matcher.depends_on_path() && matcher.may_match(head, &path) {
            Holds::Maybe
        } else {
            Holds::No
        }
    }

    fn source(&self) -> Source<'_> {
        Source {
            exchange: self.exchange,
            request: self.before.unwrap_or(&self.message),
            response: self.before.is_some().then_some(&self.message),
        }
    }
}

/// An item of Envoy's `query_parameter_mutations`, as an operation `query`.
fn envoys_query(item: &Value) -> Value {
    match present(&item["append"]) {
        None => json!({ "remove": item["remove"] }),
        Some(append) => {
            let how = match append["action"].as_str() {
                None | Some("APPEND_IF_EXISTS_OR_ADD") => "add",
                Some("ADD_IF_ABSENT") => "add_if_absent",
                Some("OVERWRITE_IF_EXISTS") => "overwrite_if_exists",
                _ => "set",
            };
            json!({ how: append["record"] })
        }
    }
}

/// `null` is the same as absent.
fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

/// The items of a list, or the one that stands in for a list of one; none of what is not there.
fn one_or_more(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    }
}

/// The name of a header that is to be written.
fn name_of(header: &Value) -> String {
    name_as_given(header).to_ascii_lowercase()
}

fn name_as_given(written: &Value) -> &str {
    present(&written["name"]).unwrap_or(&written["key"]).as_str().unwrap()
}

/// A value that can be a header's.
fn fit(value: Vec<u8>) -> Result<Vec<u8>, Fault> {
    let is_fit = value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
    if is_fit { Ok(value) } else { Err(Fault::Invalid) }
}
