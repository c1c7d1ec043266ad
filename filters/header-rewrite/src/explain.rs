//! A configuration in sentences, for people. They are made of its JSON, so that what is configured need not keep any
//! texts for them.

use serde_json::{Map, Value};

/// What a configuration that can be used does, one sentence for each operation, in the order in which they run.
/// Empty where it cannot be used.
pub fn explain(json: &[u8]) -> Vec<String> {
    let Ok(Value::Object(root)) = serde_json::from_slice(json) else { return Vec::new() };
    if crate::config::Config::read(json).is_err() {
        return Vec::new();
    }
    let list = |name: &str| {
        let nested = root.get("mutations").and_then(|nested| nested.get(name));
        // `null` is the same as absent.
        let own = root.get(name).filter(|own| !own.is_null());
        own.or(nested).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    };
    let mut lines = Vec::new();
    if let Some(names) = root.get("protected") {
        lines.push(format!("no operation touches headers whose name {}", any_of(names)));
    }
    explain_list(list("request_mutations"), "request", "", &mut lines);
    let queries = list("query_parameter_mutations").iter().filter_map(Value::as_object);
    for (place, item) in queries.enumerate() {
        let number = list("request_mutations").len().saturating_add(place).saturating_add(1);
        lines.push(format!("request {number}: {}", envoys_query(item)));
    }
    explain_list(list("response_mutations"), "response", "", &mut lines);
    lines
}

fn explain_list(items: &[Value], message: &str, above: &str, lines: &mut Vec<String>) {
    for (place, item) in items.iter().enumerate() {
        let Some(item) = item.as_object() else { continue };
        let number = format!("{above}{}", place.saturating_add(1));
        let when = conditions(item);
        let if_any = if when.is_empty() { String::new() } else { format!("if {}: ", when.join(", and ")) };
        let start = format!("{message} {number}: {if_any}");
        match item.get("mutations").and_then(Value::as_array) {
            Some(group) => {
                lines.push(format!("{start}the following {}", group.len()));
                explain_list(group, message, &format!("{number}."), lines);
            }
            None => {
                let operation = item.iter().find_map(|(name, value)| operation(name, value));
                lines.push(start + &operation.unwrap_or_default());
            }
        }
    }
}

/// The conditions of an operation or a group.
fn conditions(item: &Map<String, Value>) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in item.get("match").and_then(Value::as_object).into_iter().flatten() {
        all.push(match name.as_str() {
            "host" => format!("the host is {}", any(value, quoted)),
            "path" => format!("the path {}", any_of(value)),
            "prefix" => format!("the path begins with {}", quoted(value)),
            "path_separated_prefix" => format!("the path is {} or below it", quoted(value)),
            "method" => format!("the method is {}", any(value, plain)),
            "headers" => {
                each(value, |header| format!("of the request as it came, {}", header_condition(header)))
            }
            _ => format!("the path matches {}", quoted(value.get("regex").unwrap_or(value))),
        });
    }
    if let Some(status) = item.get("status") {
        all.push(format!("the status is {}", any(status, plain)));
    }
    if let Some(headers) = item.get("response_headers") {
        all.push(each(headers, |header| format!("of the response as it came, {}", header_condition(header))));
    }
    if let Some(headers) = item.get("if_header") {
        all.push(each(headers, |header| format!("by now, {}", header_condition(header))));
    }
    all
}

/// What the operation of this name does; none where it is no name of one.
fn operation(name: &str, value: &Value) -> Option<String> {
    let get = |member: &str| value.get(member).unwrap_or(&Value::Null);
    let own = |value: &Value| plain(value.get("name").or_else(|| value.get("key")).unwrap_or(&Value::Null));
    let text = |value: &Value| quoted(value.get("value").unwrap_or(&Value::Null));
    Some(match name {
        "set" => format!("make {} one line, {}", own(value), text(value)),
        "append" => {
            let header = value.get("header").unwrap_or(value);
            let (name, text) = (own(header), text(header));
            match value.get("append_action").and_then(Value::as_str) {
                Some("ADD_IF_ABSENT") => format!("add {name}: {text}, if there is none"),
                Some("OVERWRITE_IF_EXISTS") => format!("make {name} one line, {text}, if there is any"),
                Some("OVERWRITE_IF_EXISTS_OR_ADD") => format!("make {name} one line, {text}"),
                _ => format!("add a line {name}: {text}"),
            }
        }
        "add_if_absent" => format!("add {}: {}, if there is none", own(value), text(value)),
        "overwrite_if_exists" => format!("make {} one line, {}, if there is any", own(value), text(value)),
        "remove" => format!("remove headers whose name {}", any_of(value)),
        "remove_on_match" => format!("remove headers whose name {}", any_of(get("key_matcher"))),
        "rename" => format!("make lines of {} lines of {}", plain(get("from")), plain(get("to"))),
        "copy" => format!("copy lines of {} to {}", plain(get("from")), plain(get("to"))),
        "replace" => format!("in {}, {}", own(value), substitution(value)),
        "dedupe" => match get("keep").as_str() {
            Some("unique") => format!("leave each line of {} once", own(value)),
            _ => format!("leave the {} line of {}", plain(get("keep")), own(value)),
        },
        "path" => format!("{}, and choose the route anew", path(value)),
        "host" => {
            let how = match value.get("set") {
                Some(new) => format!("make the host {}", quoted(new)),
                None => format!("in the host, {}", substitution(value)),
            };
            format!("{how}, and choose the route anew")
        }
        "query" => {
            let (name, value) = value.as_object()?.iter().next()?;
            query(name, value)
        }
        "cookie" => {
            let (name, value) = value.as_object()?.iter().next()?;
            match name.as_str() {
                "set" => format!("set the cookie {} to {}", own(value), text(value)),
                "remove" => format!("remove cookies whose name {}", any_of(value)),
                _ => attributes(value),
            }
        }
        "preset" => {
            let overwrites = get("overwrite").as_bool() == Some(true);
            let how = if overwrites { "instead of those that are there" } else { "where there are none yet" };
            format!("write security headers {how}")
        }
        _ => return None,
    })
}

fn path(value: &Value) -> String {
    match (value.get("set"), value.get("prefix")) {
        (Some(new), _) => format!("make the path {}", quoted(new)),
        (_, Some(prefix)) => {
            let with = value.get("with").unwrap_or(&Value::Null);
            format!("begin the path with {} if it begins with {}", quoted(with), quoted(prefix))
        }
        _ => format!("in the path, {}", substitution(value)),
    }
}

fn query(action: &str, value: &Value) -> String {
    let get = |member: &str| value.get(member).unwrap_or(&Value::Null);
    let name = quoted(value.get("name").or_else(|| value.get("key")).unwrap_or(&Value::Null));
    let text = quoted(get("value"));
    match action {
        "set" => format!("make the parameter {name} one, {text}"),
        "add" => format!("add a parameter {name}, {text}"),
        "add_if_absent" => format!("add a parameter {name}, {text}, if there is none"),
        "overwrite_if_exists" => format!("make the parameter {name} one, {text}, if there is any"),
        "rename" => format!("call the parameter {} {}", quoted(get("from")), quoted(get("to"))),
        _ => format!("remove parameters whose name {}", any_of(value)),
    }
}

fn envoys_query(item: &Map<String, Value>) -> String {
    let Some(append) = item.get("append") else {
        return query("remove", item.get("remove").unwrap_or(&Value::Null));
    };
    let action = match append.get("action").and_then(Value::as_str) {
        Some("ADD_IF_ABSENT") => "add_if_absent",
        Some("OVERWRITE_IF_EXISTS") => "overwrite_if_exists",
        Some("OVERWRITE_IF_EXISTS_OR_ADD") => "set",
        _ => "add",
    };
    query(action, append.get("record").unwrap_or(&Value::Null))
}

fn attributes(value: &Value) -> String {
    let whose = value.get("names").map_or(String::new(), |names| format!(" whose name {}", any_of(names)));
    let flag = |name: &str, shown: &str| match value.get(name)?.as_bool()? {
        true => Some(shown.to_owned()),
        false => Some(format!("not {shown}")),
    };
    let same_site = value.get("same_site").map(|value| format!("SameSite={}", plain(value)));
    let all = [flag("secure", "Secure"), flag("http_only", "HttpOnly"), same_site];
    format!("make cookies{whose} {}", all.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn substitution(value: &Value) -> String {
    let get = |member: &str| value.get(member).unwrap_or(&Value::Null);
    let regex = get("regex");
    format!(
        "replace every match of {} by {}",
        quoted(regex.get("regex").unwrap_or(regex)),
        quoted(get("with"))
    )
}

fn header_condition(value: &Value) -> String {
    let name = plain(value.get("name").unwrap_or(&Value::Null));
    let inverted = value.get("invert_match").and_then(Value::as_bool) == Some(true);
    let absent = value.get("present_match").or_else(|| value.get("present")) == Some(&Value::Bool(false));
    let pattern = value.get("string_match").or_else(|| {
        let ways = ["exact", "prefix", "suffix", "contains", "safe_regex", "regex"];
        ways.iter().any(|way| value.get(way).is_some()).then_some(value)
    });
    match (pattern, inverted != absent) {
        (Some(pattern), false) => format!("{name} {}", any_of(pattern)),
        (Some(pattern), true) => format!("{name} is none that {}", any_of(pattern)),
        (None, false) => format!("there is {name}"),
        (None, true) => format!("there is no {name}"),
    }
}

/// What one of several patterns asks for.
fn any_of(value: &Value) -> String {
    any(value, |pattern| {
        let Some(ways) = pattern.as_object() else { return format!("is {}", quoted(pattern)) };
        let way = ways.iter().find_map(|(way, value)| {
            let is = match way.as_str() {
                "exact" => "is",
                "prefix" => "begins with",
                "suffix" => "ends with",
                "contains" => "contains",
                "path_separated_prefix" => "is or is below",
                "safe_regex" | "regex" => "matches",
                _ => return None,
            };
            let text = value.get("regex").unwrap_or(value);
            Some(format!("{is} {}", any(text, quoted)))
        });
        way.unwrap_or_default()
    })
}

fn any(value: &Value, one: impl Fn(&Value) -> String) -> String {
    match value.as_array() {
        Some(items) => items.iter().map(one).collect::<Vec<_>>().join(" or "),
        None => one(value),
    }
}

fn each(value: &Value, one: impl Fn(&Value) -> String) -> String {
    match value.as_array() {
        Some(items) => items.iter().map(one).collect::<Vec<_>>().join(", and "),
        None => one(value),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // A Struct holds fractions alone.
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    }
}

fn quoted(value: &Value) -> String {
    format!("\"{}\"", plain(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_operation_has_a_sentence() {
        let config = json!({
            "protected": ["x-user", { "prefix": "x-sec-" }],
            "request_mutations": [
                { "remove": { "prefix": "x-internal-" } },
                { "set": { "name": "x-a", "value": "%REQ(x-b)%" }, "match": { "prefix": "/v1", "method": ["GET", "HEAD"] } },
                { "append": { "header": { "key": "x-a", "value": "1" }, "append_action": "ADD_IF_ABSENT" } },
                { "path": { "prefix": "/v1/", "with": "/" } },
                { "match": { "headers": [{ "name": "x-c", "exact": ["1", "2"] }] }, "mutations": [
                    { "cookie": { "set": { "name": "c", "value": "1" } } },
                    { "if_header": { "name": "x-d", "present_match": false }, "query": { "remove": "debug" } },
                ] },
            ],
            "query_parameter_mutations": [{ "append": { "record": { "key": "q", "value": "1" } } }],
            "response_mutations": [
                { "preset": "security_headers", "status": [200.0, "4xx"] },
                { "cookie": { "attributes": { "names": ["a"], "secure": true, "same_site": "Lax" } } },
                { "replace": { "name": "location", "regex": "^http:", "with": "https:" } },
                { "dedupe": { "name": "vary", "keep": "unique" } },
            ],
        });
        assert_eq!(
            explain(config.to_string().as_bytes()),
            [
                "no operation touches headers whose name is \"x-user\" or begins with \"x-sec-\"",
                "request 1: remove headers whose name begins with \"x-internal-\"",
                "request 2: if the method is GET or HEAD, and the path begins with \"/v1\": make x-a one line, \"%REQ(x-b)%\"",
                "request 3: add x-a: \"1\", if there is none",
                "request 4: begin the path with \"/\" if it begins with \"/v1/\", and choose the route anew",
                "request 5: if of the request as it came, x-c is \"1\" or \"2\": the following 2",
                "request 5.1: set the cookie c to \"1\"",
                "request 5.2: if by now, there is no x-d: remove parameters whose name is \"debug\"",
                "request 6: add a parameter \"q\", \"1\"",
                "response 1: if the status is 200 or 4xx: write security headers where there are none yet",
                "response 2: make cookies whose name is \"a\" Secure, SameSite=Lax",
                "response 3: in location, replace every match of \"^http:\" by \"https:\"",
                "response 4: leave each line of vary once",
            ]
        );
        assert!(explain(b"{}").is_empty() && explain(b"").is_empty());
    }
}
