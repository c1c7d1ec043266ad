//! header_rewrite: configurations made of all operations on hostile messages, and templates.

mod configurations;
mod exchanges;

use fuzz_targets::header_rewrite::exchange::Exchange;
use fuzz_targets::header_rewrite::{configuration, rewriting, templates};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::configurations::{Of, config, operation, template};
use self::exchanges::exchange;
use crate::any_json;

/// What is left of a configuration where every item that cannot be used is taken out.
fn usable(config: &Value) -> Value {
    let mut out = json!({ "protected": config["protected"] });
    for name in ["request_mutations", "response_mutations", "query_parameter_mutations"] {
        let given = config[name].as_array().or_else(|| config["mutations"][name].as_array());
        let fits = |item: &&Value| {
            let alone = json!({ name: [item], "protected": config["protected"] });
            rewriting::check(&alone, &Exchange::default()) != "refused"
        };
        let kept: Vec<Value> = given.into_iter().flatten().filter(fits).cloned().collect();
        if !kept.is_empty() {
            out[name] = json!(kept);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Whatever the configuration, and whatever comes: what is written is safe, and is what a plain reading of the
    /// configuration says.
    #[test]
    fn messages_become_what_the_configuration_says(config in config(), exchange in exchange()) {
        rewriting::check(&config, &exchange);
        rewriting::check(&usable(&config), &exchange);
    }

    /// Any text for a template.
    #[test]
    fn templates_of_any_shape(
        telling in template(Of::Responses),
        text in "[%A-Z_():a-z0-9?\\\\ ]{0,20}",
        any in any::<String>(),
        exchange in exchange(),
    ) {
        for text in [telling, text, any] {
            templates::check(&text, &exchange);
        }
    }

    /// Any bytes, and any JSON, for a configuration.
    #[test]
    fn configurations_of_any_shape(bytes in vec(any::<u8>(), 0..200), value in any_json(), config in config()) {
        configuration::run(&bytes);
        configuration::run(value.to_string().as_bytes());
        configuration::run(config.to_string().as_bytes());
        let wrapped = json!({ "request_mutations": [{ "set": value, "match": value }], "response_mutations": value });
        configuration::run(wrapped.to_string().as_bytes());
    }
}

/// The strategies make what they should: every operation, in messages that it changes.
#[test]
fn all_kinds_are_among_those_made_up() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut fared = std::collections::BTreeMap::<&str, usize>::new();
    let mut changing = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..4000 {
        let exchange = exchange().new_tree(&mut runner).unwrap().current();
        if round % 8 == 0 {
            let config = config().new_tree(&mut runner).unwrap().current();
            *fared.entry(rewriting::check(&usable(&config), &exchange)).or_default() += 1;
        }
        for of in [Of::Requests, Of::Responses] {
            let operation = operation(of).new_tree(&mut runner).unwrap().current();
            let list = if of == Of::Requests { "request_mutations" } else { "response_mutations" };
            let way = rewriting::check(&json!({ list: [operation] }), &exchange);
            if way.ends_with("edited") {
                let kind = operation.as_object().unwrap().keys().next().unwrap().clone();
                let inner = operation[&kind].as_object().and_then(|inner| inner.keys().next().cloned());
                let detail = ["path", "host", "query", "cookie"].contains(&&*kind).then_some(inner).flatten();
                let kind = detail.map_or(kind.clone(), |inner| format!("{kind} {inner}"));
                *changing.entry(format!("{of:?} {kind}")).or_default() += 1;
            }
        }
    }
    for way in ["both edited", "request edited", "response edited", "unchanged", "invalid value", "not fit"] {
        assert!(fared.get(way).is_some_and(|count| *count >= 15), "{fared:#?}");
    }
    let expected = [
        "set",
        "append",
        "add_if_absent",
        "overwrite_if_exists",
        "remove",
        "remove_on_match",
        "rename",
        "copy",
        "replace",
        "dedupe",
    ];
    let of_requests = [
        "path set",
        "path prefix",
        "path regex",
        "host append_x_forwarded_host",
        "query set",
        "query add",
        "query remove",
        "query rename",
        "cookie set",
        "cookie remove",
    ];
    let of_responses = ["cookie set", "cookie remove", "cookie attributes", "preset"];
    let wanted = expected.iter().chain(&of_requests).map(|kind| format!("Requests {kind}"));
    let wanted = wanted.chain(expected.iter().chain(&of_responses).map(|kind| format!("Responses {kind}")));
    for kind in wanted {
        assert!(changing.get(&kind).is_some_and(|count| *count >= 2), "{kind}: {changing:#?}");
    }
}
