//! Templates: any text, and what is written by those that are accepted.
//!
//! The first line of an input is the template; the others are of messages: see [`super::exchange`].

use filter_api::template::{Phase, Piece, Sources, Template, Written};
use filter_api::{HeaderValue, HostMap};
use serde_json::json;

use super::exchange::Exchange;
use super::rewriting;

/// Reads an input as a template, and panics where a law is broken. Returns what became of it.
pub fn run(input: &[u8]) -> &'static str {
    let mut lines = input.split(|byte| *byte == b'\n');
    let text = lines.next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let mut exchange = Exchange::default();
    let mut of_response = false;
    lines.for_each(|line| exchange.take(&mut of_response, line));
    check(&text, &exchange)
}

/// Checks a template on an exchange.
pub fn check(text: &str, exchange: &Exchange) -> &'static str {
    let read = |phase| Template::parse(text, phase);
    let (request, response) = (read(Phase::Request), read(Phase::Response));
    for problem in [&request, &response].into_iter().filter_map(|read| read.as_ref().err()) {
        assert!(!problem.is_empty() && !problem.chars().any(|char| char < ' '), "{problem:?}");
        assert!(problem.len() <= 500 + 10 * text.len(), "{problem}");
    }
    let Ok(response) = response else {
        assert!(request.is_err(), "what is known of a request is known of its response");
        return "refused";
    };
    let constant = response.constant().is_some();
    let (host, facts) = (exchange.host(), exchange.facts());
    let Ok(request) = request else {
        // It says something of the response.
        hold(text, exchange);
        return "of responses";
    };
    let sources = Sources::of_request(&exchange.request, &host, &facts);
    let (written, value) = write(&request, &sources);
    // When the response comes, what was settled is what it was.
    let kept = response.settled(&sources);
    assert_eq!(kept.is_some(), response.needs_request());
    let later = write(kept.as_ref().unwrap_or(&response), &Sources::of_response(&exchange.response, &host));
    assert_eq!(later, (written, value.clone()), "{text}");
    if constant {
        assert_eq!(
            (written, Some(&value[..])),
            (Written::All, request.constant().map(HeaderValue::as_bytes))
        );
    }
    hold(text, exchange);
    match written {
        Written::All if constant => "constant",
        Written::All => "written",
        Written::Missing => "missing",
        Written::Unfit => "unfit",
    }
}

fn write<Q: filter_api::Head, R: filter_api::Head>(
    template: &Template,
    sources: &Sources<'_, Q, R, HostMap>,
) -> (Written, Vec<u8>) {
    let mut whole = Vec::new();
    let written = template.write(sources, &mut whole);
    let mut pieces = Vec::new();
    let same = template.each(sources, |piece| match piece {
        Piece::Text(bytes) | Piece::Value { bytes, .. } => pieces.extend_from_slice(bytes),
    });
    assert_eq!((written, &whole), (same, &pieces), "piece by piece it is the same");
    (written, whole)
}

/// Whatever writes it, nothing that is written ends its line.
fn hold(text: &str, exchange: &Exchange) {
    let header = json!({ "name": "x-written", "value": text, "keep_empty_value": true });
    let parameter = json!({ "name": "written", "value": text, "keep_empty_value": true });
    let operations = json!([
        { "set": header },
        { "append": header },
        { "replace": { "name": "x-replaced", "regex": "[ab]|^", "with": text.replace('\\', "\\\\") } },
        { "cookie": { "set": parameter } },
    ]);
    let mut on_request = operations.as_array().cloned().unwrap_or_default();
    on_request.extend([
        json!({ "query": { "set": parameter } }),
        json!({ "host": { "set": text } }),
        json!({ "path": { "set": format!("/t/{text}") } }),
        json!({ "path": { "regex": "[^/]+$", "with": text.replace('\\', "\\\\") } }),
    ]);
    let exchange = Exchange {
        request: exchange.request.clone().with("x-replaced", "a-b"),
        response: exchange.response.clone().with("x-replaced", "a-b"),
        ..exchange.clone()
    };
    // Each by itself: some of these texts are no path, no host, or nothing at all.
    for operation in on_request {
        rewriting::check(&json!({ "request_mutations": [operation] }), &exchange);
    }
    for operation in operations.as_array().into_iter().flatten() {
        rewriting::check(&json!({ "response_mutations": [operation] }), &exchange);
    }
}
