//! What cannot be used as a configuration, and what it is told.

use super::*;

#[test]
fn every_problem_of_a_configuration_is_named() {
    let found = problems(&json!({
        "token_bucket": {"max_tokens": -1, "fill_interval": "0.049s"},
        "rates": 1,
        "always_consume_default_token_bucket": "yes",
        "status": 399,
        "response_headers_to_add": [{"header": {"key": ":status", "value": "1"}}, {"key": "a", "value": "%REQ(x)%"},
            {"key": "a", "value": "\r\n"}, {"key": "content-length", "value": "0", "append_action": "ADD"}],
        "exempt": {"cidrs": ["10.0.0.1/8", "x"]},
        "descriptors": [
            {"rate": "1", "entries": ["header", {"header": "a", "cookie": "b"}, {"client_address": {"trusted_hops": 1,
                "trusted_proxies": []}}]},
            {"name": "a b", "rate": "1/s", "match": {}},
            {"rate": "1/s", "burst": 0, "token_bucket": {}, "entries": []},
            {"rate": "1/s"},
        ],
    }));
    let expected = [
        "token_bucket.max_tokens: -1 is not a whole number from 0 to 4294967295",
        "token_bucket.fill_interval: must be at least 50ms",
        "unknown field `rates`; did you mean `rate`?",
        "always_consume_default_token_bucket: must be true or false, not a string",
        "status: 399 is not a whole number from 400 to 599",
        "response_headers_to_add[0].header.key: \":status\" cannot be added",
        "response_headers_to_add[1].value: format operators are not read here",
        "response_headers_to_add[2].value: a header value cannot hold control characters",
        "response_headers_to_add[3].key: \"content-length\" cannot be added",
        "response_headers_to_add[3].append_action: \"ADD\" must be APPEND_IF_EXISTS_OR_ADD,",
        "exempt.cidrs[0]: \"10.0.0.1/8\" has bits behind its prefix; write \"10.0.0.0/8\"",
        "exempt.cidrs[1]: \"x\" is not a network",
        "descriptors[0].rate: \"1\" is not a rate",
        "descriptors[0].entries[0]: \"header\" must be path, method, host, client_address, or an object",
        "descriptors[0].entries[1]: `header` and `cookie` are given; give one of them",
        "descriptors[0].entries[2].client_address: `trusted_hops` and `trusted_proxies` are given",
        "descriptors[1].name: \"a b\" must be up to 64 letters",
        "descriptors[2]: `token_bucket` and `rate` are given; give one of them",
        "descriptors[2].entries: must not be empty",
        "descriptors[3]: is for every request, as the default bucket is; give `entries` or `match`",
    ];
    for wanted in expected {
        assert!(
            found.iter().any(|problem| problem.starts_with(wanted)),
            "{wanted}\nin\n{}",
            found.join("\n")
        );
    }
    assert_eq!(found.len(), expected.len(), "{}", found.join("\n"));
}

#[test]
fn what_limits_nothing_is_an_error() {
    let first = |config: Value| problems(&config).remove(0);
    assert!(first(json!({})).starts_with("limits nothing"));
    assert!(first(json!({"descriptors": []})).starts_with("limits nothing"));
    // Others take a burst without a time for no limit at all.
    assert_eq!(first(json!({"burst": 10})), "one of `token_bucket`, `rate` is missing");
    assert_eq!(
        first(json!({"token_bucket": {"max_tokens": 10, "tokens_per_fill": 10}})),
        "token_bucket: `fill_interval` is missing"
    );
    let twice = json!({"descriptors": [{"rate": "1/s", "match": {}, "name": "a"}, {"rate": "1/s", "match": {}, "name": "a"}]});
    assert_eq!(
        first(twice),
        "descriptors[1]: cannot be named \"a\", since another limit has it; give it another `name`"
    );
    for name in ["default", "contention"] {
        let config = json!({"descriptors": [{"rate": "1/s", "match": {}, "name": name}]});
        assert!(first(config).contains("it has a meaning of its own"));
    }
}

#[test]
fn limits_without_a_name_have_one_of_what_they_tell_apart() {
    let worker = filter(&json!({"descriptors": [
        {"rate": "1/s", "entries": [{"header": "X-Api-Key"}, "client_address"]},
        {"rate": "1/s", "entries": [{"jwt_claim": "realm.role"}]},
        {"rate": "1/s", "match": {"prefix": "/login"}},
    ]}));
    let names: Vec<&str> = worker.config.limits.iter().map(|limit| &*limit.name).collect();
    assert_eq!(names, ["header-x-api-key_client_address", "jwt_claim-realm-role", "match"]);
    assert!(worker.own_counters().contains(&"refused.limit.match".to_owned()));
}
