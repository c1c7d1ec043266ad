//! What becomes of hostile requests and responses, by any configuration.
//!
//! An input is a text, so that seeds can be read and written by hand:
//!
//! | line | what it is |
//! |---|---|
//! | `> {"set": {...}}` | an operation or group for requests |
//! | `< {"set": {...}}` | one for responses |
//! | `? {"remove": "debug"}` | one of Envoy's `query_parameter_mutations` |
//! | `! ["x-a"]` | the list `protected` |
//!
//! All other lines are of the messages: see [`super::exchange`]. Operations that cannot be used are left out.

use filter_api::{Filter, Outcome};
use header_rewrite::HeaderRewrite;
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::interpreter::{Message, Rewritten, message, rewrite};
use super::laws::{Allowed, host_stays_one, path_stays_one, performed, skipped};

/// The most operations of an input, for each list.
const MOST: usize = 16;

/// Reads an input, and checks what becomes of its messages. Returns what did.
pub fn run(input: &[u8]) -> &'static str {
    let (config, exchange) = read(input);
    check(&config, &exchange)
}

/// Checks what becomes of an exchange by a configuration, and panics where a law is broken.
pub fn check(config: &Value, exchange: &Exchange) -> &'static str {
    let text = config.to_string();
    let Ok(configured) = HeaderRewrite::configure(text.as_bytes()) else { return "refused" };
    let filter = configured.filter;
    let (host, facts) = (exchange.host(), exchange.facts());
    let Outcome::Continue(effects) = filter.on_request(&exchange.request, &host, &facts) else {
        panic!("a request was refused, or is to wait");
    };
    assert!(effects.response.is_empty() && effects.counts.is_empty() && effects.properties.is_empty());
    assert!(effects.facts.0.is_empty() && effects.log.is_empty());
    let answer = effects.kept.as_ref().map(|kept| filter.on_response(kept, &exchange.response, &host));
    let answer = answer.unwrap_or_default();
    assert!(answer.log.is_empty());

    let request = lists(config, &["request_mutations", "query_parameter_mutations"]);
    let mut of_request = request.clone();
    if !lists(config, &["query_parameter_mutations"]).is_empty() {
        of_request.push(json!({ "query": {} }));
    }
    Allowed::of(&of_request, &config["protected"]).hold(&effects.headers);
    Allowed::of(&lists(config, &["response_mutations"]), &config["protected"]).hold(&answer.headers);

    let before = [message(&exchange.request), message(&exchange.response)];
    let after =
        [performed(before[0].clone(), &effects.headers), performed(before[1].clone(), &answer.headers)];
    path_stays_one(&before[0], &after[0]);
    host_stays_one(&before[0], &after[0]);
    assert_eq!(before[1].get(":status"), after[1].get(":status"));
    if !exchange.is_fit() {
        // What of such a line is moved, and what is lost, is not told.
        return "not fit";
    }
    let left_out = [skipped(effects.counters), skipped(answer.counters)];
    let way = way(&before, &after, &left_out.iter().flatten().copied().collect::<Vec<_>>());
    let [request, response] = after;
    assert_eq!(Rewritten { request, response, skipped: left_out }, rewrite(config, exchange), "{config}");
    way
}

/// What became of the messages.
fn way(before: &[Message; 2], after: &[Message; 2], left_out: &[&str]) -> &'static str {
    let left_out = left_out.first().copied();
    match (left_out, before[0] != after[0], before[1] != after[1]) {
        (Some("too_long"), ..) => "too long",
        (Some(_), ..) => "invalid value",
        (None, true, true) => "both edited",
        (None, true, false) => "request edited",
        (None, false, true) => "response edited",
        (None, false, false) => "unchanged",
    }
}

fn lists(config: &Value, names: &[&str]) -> Vec<Value> {
    let mut items = Vec::new();
    for place in [config, &config["mutations"]] {
        for name in names {
            items.extend(place[*name].as_array().cloned().unwrap_or_default());
        }
    }
    items
}

fn read(input: &[u8]) -> (Value, Exchange) {
    let mut exchange = Exchange::default();
    let mut of_response = false;
    let (mut request, mut response, mut query) = (Vec::new(), Vec::new(), Vec::new());
    let mut protected = Value::Null;
    for line in input.split(|byte| *byte == b'\n') {
        let item = || serde_json::from_slice::<Value>(line.get(2..)?).ok();
        let (name, list) = match line.get(..2) {
            Some(b"> ") => ("request_mutations", &mut request),
            Some(b"< ") => ("response_mutations", &mut response),
            Some(b"? ") => ("query_parameter_mutations", &mut query),
            Some(b"! ") => {
                let given = item().filter(|given| usable(&json!({ "protected": given, "request_mutations": [{ "remove": "x-none-of-these" }] })));
                // What was read before might not be allowed with it.
                if request.is_empty() && response.is_empty() {
                    protected = given.unwrap_or(Value::Null);
                }
                continue;
            }
            _ => {
                exchange.take(&mut of_response, line);
                continue;
            }
        };
        let item = item().filter(|item| usable(&json!({ name: [item], "protected": protected })));
        if list.len() < MOST {
            list.extend(item);
        }
    }
    let config = json!({
        "request_mutations": request,
        "response_mutations": response,
        "query_parameter_mutations": query,
        "protected": protected,
    });
    (config, exchange)
}

fn usable(config: &Value) -> bool {
    HeaderRewrite::configure(config.to_string().as_bytes()).is_ok()
}
