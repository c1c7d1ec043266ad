//! That no secret is in a line: what is one is told here by a plain reading of the two heads.

use filter_api::{Head, HeadMap};
use serde_json::{Map, Value};

use super::ended::Ended;
use super::setups::Setup;

/// So many bytes of a secret tell it from all else.
const TELLING: usize = 8;

/// Members of lines that are never of what a client sends.
const OF_NO_CLIENT: [&str; 3] = ["time", "why", "refused_by"];

/// Panics where so much of a secret is in a line that it is told from all else, and is nowhere in what may be shown.
pub(super) fn assert_none(members: &Map<String, Value>, ended: &Ended, setup: &Setup) {
    let (hidden, open) = parted(ended, setup);
    let mut shown = Vec::new();
    let of_clients = members.iter().filter(|(name, _)| !OF_NO_CLIENT.contains(&name.as_str()));
    of_clients.for_each(|(_, value)| texts(value, &mut shown));
    let shown: Vec<&str> = shown.iter().flat_map(|text| pieces(text)).collect();
    for secret in hidden.iter().map(|secret| written(secret)) {
        for part in secret.as_bytes().windows(TELLING) {
            let is_in = |text: &str| text.as_bytes().windows(TELLING).any(|window| window == part);
            if shown.iter().any(|text| is_in(text)) && !open.iter().any(|text| is_in(text)) {
                panic!("{:?} of {secret:?} is in {members:?}", String::from_utf8_lossy(part));
            }
        }
    }
}

/// A text without what the filter puts between values, and in the place of secrets: of two pieces that are public, and only
/// look like a secret together, none is one.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let text = text.strip_suffix("...").unwrap_or(text);
    for mut rest in text.split(", ").flat_map(|text| text.split("***")) {
        let hashed = |text: &str| {
            let is_digit = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
            let starts = text.match_indices("h:").map(|(start, _)| start);
            let mut hashes =
                starts.filter_map(|start| Some((start, text.as_bytes().get(start + 2..start + 18)?)));
            hashes.find(|(_, digits)| digits.iter().all(is_digit)).map(|(start, _)| start)
        };
        while let Some(start) = hashed(rest) {
            pieces.push(&rest[..start]);
            rest = &rest[start + 18..];
        }
        pieces.push(rest);
    }
    pieces
}

/// What no line may hold, and what one may, as lines have it.
fn parted(ended: &Ended, setup: &Setup) -> (Vec<Vec<u8>>, Vec<String>) {
    let (mut hidden, mut open) = (Vec::new(), Vec::new());
    let mut take = |head: &HeadMap| {
        for (name, value) in head.lines() {
            let lower = name.to_ascii_lowercase();
            if setup.redacted.iter().any(|own| own.as_bytes() == lower) {
                hidden.push(value.to_vec());
            } else if lower == b":path" || lower == b"x-envoy-original-path" {
                path(value, setup, &mut hidden, &mut open);
            } else {
                open.push(value.to_vec());
            }
        }
    };
    take(&ended.request);
    take(&ended.response);
    open.extend(ended.known.values().cloned());
    open.extend(ended.properties.iter().chain(&ended.metadata).map(|(_, value)| value.clone()));
    open.extend([&ended.route, &ended.peer, &ended.protocol].map(|text| text.as_bytes().to_vec()));
    let mut open: Vec<String> = open.iter().map(|value| written(value)).collect();
    if let Some(claims) = &ended.claims {
        open.push(claims.to_string());
        texts(claims, &mut open);
    }
    // Texts of the configuration's own.
    open.push(setup.json.clone());
    (hidden, open)
}

/// The values of a query are secrets, those apart whose names are on the list; one without a name is a value.
fn path(path: &[u8], setup: &Setup, hidden: &mut Vec<Vec<u8>>, open: &mut Vec<Vec<u8>>) {
    let Some(mark) = path.iter().position(|byte| *byte == b'?') else {
        open.push(path.to_vec());
        return;
    };
    // What a name is beside, also: `?page=2&token=`.
    let mut around = path[..=mark].to_vec();
    for (place, parameter) in path[mark + 1..].split(|byte| *byte == b'&').enumerate() {
        if place > 0 {
            around.push(b'&');
        }
        let is_on_list = |name: &[u8]| setup.shown.iter().any(|shown| shown.as_bytes() == name);
        match parameter.iter().position(|byte| *byte == b'=') {
            Some(equals) if is_on_list(&parameter[..equals]) && !parameter[equals..].contains(&b';') => {
                around.extend_from_slice(parameter);
            }
            Some(equals) => {
                around.extend_from_slice(&parameter[..=equals]);
                hidden.push(parameter[equals + 1..].to_vec());
            }
            None if is_on_list(parameter) => around.extend_from_slice(parameter),
            None => hidden.push(parameter.to_vec()),
        }
    }
    open.push(around);
}

/// As a text in a line has bytes that are no UTF-8: `\xff`.
pub(super) fn written(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// All texts in a value, but for the names of members.
fn texts(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(members) => members.values().for_each(|value| texts(value, out)),
        _ => {}
    }
}
