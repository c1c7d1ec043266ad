//! Configurations and exchanges, drawn from what people write and what clients send.

use std::sync::LazyLock;

use filter_api::HeadMap;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::SECOND;
use super::envoy::Exchange;
use super::tokens;

/// An object of which each member is left out, or is one of these. (`null` is left out.)
fn members(all: &[(&'static str, f64, Value)]) -> impl Strategy<Value = Map<String, Value>> + use<> {
    let member = |(name, likely, choices): &(&'static str, f64, Value)| {
        let choice = select(choices.as_array().unwrap().clone());
        (Just(*name), weighted(*likely, choice))
    };
    let members: Vec<_> = all.iter().map(member).collect();
    members.prop_map(|members| {
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn listed(choices: &Value, size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Value>> + use<> {
    vec(select(choices.as_array().unwrap().clone()), size)
}

fn jwt_reject() -> impl Strategy<Value = Value> {
    let claims = json!([
        [{ "header_name": "x-user", "claim_name": "sub" }],
        [{ "header_name": "x-user", "claim_name": "sub" }, { "header_name": "x-tenant", "claim_name": "tenant" }],
        [{ "header_name": "x-a", "claim_name": "realm.roles" }, { "header_name": "x-note", "claim_name": "note" }],
    ]);
    let provider = || {
        members(&[
            ("audiences", 0.2, json!([["api"], ["else"]])),
            ("claim_to_headers", 0.5, claims.clone()),
            (
                "claim_to_properties",
                0.5,
                json!([["sub", { "claim_name": "realm.roles", "property_name": "roles" }], ["sub", "tenant", "note"]]),
            ),
            ("forward", 0.3, json!([true, false])),
            ("forward_payload_header", 0.2, json!(["x-payload", "x-a"])),
            (
                "from_headers",
                0.2,
                json!([[{ "name": "x-jwt" }, { "name": "authorization", "value_prefix": "Bearer " }]]),
            ),
            ("from_cookies", 0.2, json!([["jwt"]])),
            ("jwt_cache_config", 0.2, json!([{ "jwt_cache_size": 0 }, { "jwt_cache_size": 1 }])),
            ("required_claims", 0.1, json!([[{ "claim": "realm.roles", "any_of": ["ops"] }]])),
        ])
    };
    let rules = json!([
        [{ "match": {}, "requires": { "provider_name": "main" } }],
        [{ "match": {}, "requires": { "provider_name": "main" } }],
        [{ "match": {}, "requires": "allow_missing" }],
        [{ "match": {}, "requires": { "requires_any": [{ "provider_name": "main" }, { "provider_name": "other" }, "allow_missing"] } }],
        [{ "match": {}, "requires": { "requires_all": [{ "provider_name": "main" }, { "provider_name": "other" }] } }],
        [
            { "match": { "prefix": "/public/" }, "requires": "none" },
            { "match": { "path": "/login", "method": "POST" }, "requires": "allow_missing_or_failed" },
            { "match": {}, "requires": { "requires_any": [{ "provider_name": "other" }, { "provider_name": "main" }] } },
        ],
        [{ "match": { "prefix": "/v1/" }, "requires": { "provider_name": "main" } }],
    ]);
    let top = members(&[
        ("mode", 0.25, json!(["shadow"])),
        ("default", 0.3, json!(["allow"])),
        ("status", 0.1, json!([403])),
        ("body", 0.1, json!(["no"])),
        ("strip_failure_response", 0.1, json!([true])),
        ("max_tokens", 0.1, json!([1])),
        ("bypass_cors_preflight", 0.2, json!([true])),
    ]);
    (top, select(rules.as_array().unwrap().clone()), provider(), provider()).prop_map(
        |(mut top, rules, main, other)| {
            let mut providers = tokens::providers();
            providers["main"].as_object_mut().unwrap().extend(main);
            providers["other"].as_object_mut().unwrap().extend(other);
            top.insert("providers".to_owned(), providers);
            top.insert("rules".to_owned(), rules);
            json!({ "jwt_reject": top })
        },
    )
}

fn local_rate_limit() -> impl Strategy<Value = Value> {
    let entries = json!([
        { "name": "per-key", "entries": [{ "header": "x-api-key" }], "rate": "2/m" },
        { "name": "per-key-or-none", "entries": [{ "header": "x-api-key", "default_value": "none", "overrides": [{ "value": "k1", "rate": "3/s" }] }], "rate": "1/s" },
        { "name": "per-user", "entries": [{ "jwt_claim": "sub" }], "rate": "1/10s" },
        { "name": "per-tenant", "entries": [{ "jwt_claim": "tenant" }], "rate": "2/10s" },
        { "name": "per-role", "entries": [{ "jwt_claim": "roles", "default_value": "none" }], "rate": "2/10s" },
        { "name": "per-client", "entries": ["client_address"], "rate": "3/10s" },
        { "name": "per-hop", "entries": [{ "client_address": { "trusted_hops": 1 } }], "rate": "2/10s" },
        { "name": "login", "match": { "path": "/login" }, "entries": ["method"], "rate": "1/10s" },
        { "name": "per-path", "entries": ["path", "host"], "token_bucket": { "max_tokens": 2, "fill_interval": "10s" } },
        { "name": "per-session", "entries": [{ "cookie": "sid" }], "rate": "1/s", "scope": "worker" },
        { "name": "per-query", "entries": [{ "query": "a" }], "rate": "2/s" },
        { "name": "per-connection", "match": { "method": "GET" }, "rate": "2/s", "scope": "connection" },
        { "name": "all", "entries": [{ "constant": "all" }], "rate": "4/s", "lease": 2 },
        { "name": "set-by-another", "entries": [{ "header": "x-a" }], "rate": "2/10s", "cost": { "header": "x-cost", "max": 2 } },
    ]);
    let top = members(&[
        ("scope", 0.2, json!(["worker", "connection"])),
        ("mode", 0.25, json!(["shadow"])),
        ("enable_x_ratelimit_headers", 0.4, json!(["DRAFT_VERSION_03"])),
        ("enable_ratelimit_headers", 0.4, json!([true])),
        ("filter_enabled", 0.2, json!([50])),
        ("filter_enforced", 0.2, json!([50])),
        ("status", 0.2, json!([503])),
        ("body", 0.1, json!(["later"])),
        ("cost", 0.1, json!([2])),
        ("lease", 0.1, json!([1])),
        ("always_consume_default_token_bucket", 0.2, json!([false])),
        ("exempt", 0.2, json!([{ "match": { "path": "/health" } }, { "cidrs": ["192.0.2.7/32"] }])),
        ("response_headers_to_add", 0.2, json!([[{ "key": "x-a", "value": "limited" }]])),
        (
            "request_headers_to_add_when_not_enforced",
            0.3,
            json!([
                [{ "header": { "key": "x-a", "value": "over" }, "append_action": "APPEND_IF_EXISTS_OR_ADD" }],
                [{ "header": { "key": "x-a", "value": "over" }, "append_action": "ADD_IF_ABSENT" }],
                [{ "header": { "key": "x-api-key", "value": "over" }, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" }],
            ]),
        ),
    ]);
    (top, weighted(0.5, select(vec!["1/10s", "3/10s", "1000/s"])), listed(&entries, 1..4)).prop_map(
        |(mut top, rate, mut descriptors)| {
            descriptors.sort_by_key(|descriptor| descriptor["name"].to_string());
            descriptors.dedup();
            top.insert("descriptors".to_owned(), descriptors.into());
            top.extend(rate.map(|rate| ("rate".to_owned(), json!(rate))));
            json!({ "local_rate_limit": top })
        },
    )
}

fn header_rewrite() -> impl Strategy<Value = Value> {
    let set = |name: &str, value: &str| json!({ "set": { "name": name, "value": value } });
    let both = [
        set("x-a", "1"),
        set("x-b", "%REQ(x-a)%"),
        set("x-user", "%CLAIM(sub)%"),
        set("x-tenant", "%CLAIM(tenant)%/%CLAIM(realm.roles):3%"),
        set("x-note", "%CLAIM(note)%"),
        // Of a property alone: no token has a claim of that name.
        set("x-roles", "%CLAIM(roles)%"),
        set("x-meta", "%DYNAMIC_METADATA(ns:a)% %ROUTE_NAME%"),
        json!({ "append": { "name": "x-a", "value": "%REQ(x-a)%+" } }),
        json!({ "append": { "name": "x-b", "value": "%METHOD% %PATH%" } }),
        json!({ "add_if_absent": { "name": "x-a", "value": "9" } }),
        json!({ "overwrite_if_exists": { "name": "x-a", "value": "%REQ(none)%-", "keep_empty_value": true } }),
        json!({ "remove": "x-a" }),
        json!({ "remove": [{ "prefix": "x-internal-" }, "x-note"] }),
        json!({ "remove": [{ "prefix": "x-ratelimit-" }, { "suffix": "-tenant" }] }),
        json!({ "rename": { "from": "x-a", "to": "x-b" } }),
        json!({ "rename": { "from": "x-b", "to": "x-a" } }),
        json!({ "copy": { "from": "x-a", "to": "x-c" } }),
        json!({ "replace": { "name": "x-a", "regex": "[0-9]", "with": "<\\0>" } }),
        json!({ "dedupe": { "name": "x-a", "keep": "unique" } }),
        json!({ "if_header": { "name": "x-user", "exact": "alice" }, "set": { "name": "x-a", "value": "of alice" } }),
        json!({ "match": { "headers": [{ "name": "x-a", "exact": "1" }] }, "mutations": [
            { "append": { "name": "x-a", "value": "seen" } },
            { "match": { "prefix": "/v1/" }, "set": { "name": "x-b", "value": "v1" } },
        ] }),
    ];
    let requests: Vec<Value> = both
        .iter()
        .cloned()
        .chain([
            set("authorization", &format!("Bearer {}", TOKENS[0])),
            set("x-api-key", "k1"),
            json!({ "remove": ["authorization", "x-forwarded-for"] }),
            json!({ "rename": { "from": "x-jwt", "to": "authorization" } }),
            json!({ "path": { "prefix": "/v1/", "with": "/public/" } }),
            json!({ "path": { "prefix": "/", "with": "/v1/" } }),
            json!({ "path": { "set": "/t/%REQ(x-api-key)%" } }),
            json!({ "path": { "regex": "^/login$", "with": "/health" } }),
            json!({ "host": { "set": "inner.example", "append_x_forwarded_host": true } }),
            json!({ "query": { "set": { "name": "a", "value": "%REQ(x-a)%" } } }),
            json!({ "query": { "remove": ["debug", { "prefix": "access_" }] } }),
            json!({ "cookie": { "set": { "name": "sid", "value": "%REQ(x-api-key)%" } } }),
            json!({ "cookie": { "remove": "jwt" } }),
            set("x-client", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
        ])
        .collect();
    let responses: Vec<Value> = both
        .iter()
        .cloned()
        .chain([
            set("x-status", "%RESPONSE_CODE%"),
            set("x-a", "%RESP(x-b?server)%"),
            json!({ "status": ["4xx", "503"], "set": { "name": "cache-control", "value": "no-store" } }),
            json!({ "response_headers": { "name": "x-a", "present_match": true }, "append": { "name": "x-a", "value": "there" } }),
            json!({ "remove": ["server", "www-authenticate"] }),
            json!({ "preset": "security_headers" }),
            json!({ "cookie": { "set": { "name": "sid", "value": "%REQ(x-api-key)%" } } }),
            json!({ "cookie": { "attributes": { "secure": true } } }),
            json!({ "rename": { "from": "x-ratelimit-limit", "to": "x-a" } }),
            json!({ "overwrite_if_exists": { "name": "x-ratelimit-remaining", "value": "?" } }),
        ])
        .collect();
    (listed(&requests.into(), 0..6), listed(&responses.into(), 0..5)).prop_map(|(requests, responses)| {
        let mut config = json!({});
        if !requests.is_empty() || responses.is_empty() {
            let nothing = || vec![json!({ "remove": "x-nothing" })];
            let requests = if requests.is_empty() { nothing() } else { requests };
            config["request_mutations"] = requests.into();
        }
        if !responses.is_empty() {
            config["response_mutations"] = responses.into();
        }
        json!({ "header_rewrite": config })
    })
}

fn sampled_log() -> impl Strategy<Value = Value> {
    members(&[
        ("always", 0.6, json!([
            [],
            [{ "status": "4xx" }],
            [{ "refused": "any" }],
            [{ "refused": ["local_rate_limit"] }, { "match": { "prefix": "/public/" } }],
            [{ "match": { "headers": [{ "name": "x-user", "present_match": true }] } }],
        ])),
        ("percent_sampled", 0.8, json!([0, 50, 100, 100])),
        ("rules", 0.3, json!([[{ "match": { "path": "/health" }, "percent_sampled": 0 }, { "status": 503, "percent_sampled": 50 }]])),
        ("max_lines_per_second", 0.3, json!([1, { "lines": 1, "burst": 3 }])),
        ("additional_fields", 0.5, json!([
            { "tenant": "%CLAIM(tenant)%", "a": "%REQ(x-a)% %RESP(x-a)%", "limit": "%RESP(x-ratelimit-limit)%" },
        ])),
        ("request_headers", 0.4, json!([["x-a", "x-user", "authorization"]])),
        ("response_headers", 0.4, json!([["x-a", "x-b", "retry-after"]])),
        ("redact", 0.2, json!(["drop"])),
        ("max_line_bytes", 0.1, json!([512])),
        ("sink", 0.4, json!(["access_log", "envoy_log"])),
    ])
    .prop_map(|config| json!({ "sampled_log": config }))
}

/// A list of filters.
pub(super) fn configuration() -> impl Strategy<Value = Value> {
    let filter = prop_oneof![
        3 => jwt_reject(),
        3 => local_rate_limit(),
        4 => header_rewrite(),
        2 => sampled_log(),
    ];
    vec((filter, any::<bool>()), 1..=6).prop_map(|filters| {
        let named = filters.into_iter().enumerate().map(|(place, (mut filter, has_name))| {
            if has_name {
                filter["name"] = format!("at-{place}").into();
            }
            filter
        });
        json!({ "filters": named.collect::<Vec<_>>() })
    })
}

static TOKENS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let good = tokens::main(&json!({ "tenant": "blue", "realm": { "roles": ["dev", "ops"] } }));
    vec![
        good.clone(),
        tokens::main(&json!({ "sub": "bob", "note": "a\nb" })),
        tokens::other(&json!({ "sub": "carol", "tenant": "green" })),
        tokens::main(&json!({ "sub": "dave", "realm": { "roles": ["ops"] }, "note": "n" })),
        tokens::main(&json!({ "exp": tokens::NOW - 100 })),
        tokens::main(&json!({ "exp": tokens::NOW - 57 })),
        tokens::main(&json!({ "aud": "else" })),
        tokens::forged(&good),
        tokens::forged(&tokens::other(&json!({}))),
        "x.y.z".to_owned(),
    ]
});

fn request() -> impl Strategy<Value = HeadMap> {
    let token = || prop_oneof![2 => Just(TOKENS[0].clone()), 3 => select(TOKENS.clone())];
    let fixed = |name: &'static str, value: &'static str| Just((name, value.to_owned())).boxed();
    let line = prop_oneof![
        6 => token().prop_map(|token| ("authorization", format!("Bearer {token}"))),
        1 => token().prop_map(|token| ("x-jwt", token)),
        1 => token().prop_map(|token| ("cookie", format!("jwt={token}; sid=2"))),
        1 => select(vec!["Basic eDp5", "Bearer"]).prop_map(|value| ("authorization", value.to_owned())),
        2 => select(vec!["k1", "k2", "a/b"]).prop_map(|key| ("x-api-key", key.to_owned())),
        1 => select(vec!["203.0.113.1", "203.0.113.2, 10.0.0.1"]).prop_map(|list| ("x-forwarded-for", list.to_owned())),
        1 => fixed("cookie", "sid=1; theme=dark"),
        2 => select(vec!["1", "2", "1, 2", ""]).prop_map(|value| ("x-a", value.to_owned())),
        1 => select(vec!["x-user", "x_user", "X-User", "x-tenant"]).prop_map(|name| (name, "mallory".to_owned())),
        1 => fixed("x-internal-role", "admin"),
        1 => select(vec!["application/grpc", "text/plain"]).prop_map(|kind| ("content-type", kind.to_owned())),
        1 => fixed("x-cost", "2"),
        1 => fixed("x-b", "caf\u{e9}\t\u{7f}"),
        2 => (0..20_u8).prop_map(|id| ("x-request-id", format!("request-{id}"))),
    ];
    let path = prop_oneof![
        6 => select(vec![
            "/", "/v1/orders?debug=1&a=b", "/v1/orders", "/login", "/public/x?a=1", "/health", "/admin//x",
            "/x/..;/login", "/%6cogin",
        ])
        .prop_map(str::to_owned),
        1 => token().prop_map(|token| format!("/v1/x?access_token={token}&debug=1")),
    ];
    let method = select(vec!["GET", "GET", "GET", "POST", "HEAD", "OPTIONS"]);
    (path, method, vec(line, 0..6)).prop_map(|(path, method, lines)| {
        let head = HeadMap::get(&path).with_only(":method", method);
        let head = match method {
            "OPTIONS" => head.with("origin", "https://a").with("access-control-request-method", "GET"),
            _ => head,
        };
        lines.into_iter().fold(head, |head, (name, value)| head.with(name, value))
    })
}

fn response() -> impl Strategy<Value = HeadMap> {
    let line = select(vec![
        ("content-type", "text/html"),
        ("server", "a"),
        ("x-a", "1"),
        ("x-a", "5"),
        ("x-b", "upstream"),
        ("x-tenant", "upstream"),
        ("x-ratelimit-limit", "9"),
        ("x-ratelimit-remaining", "9"),
        ("ratelimit", "x"),
        ("set-cookie", "sid=9; Path=/"),
        ("cache-control", "public"),
    ]);
    (select(vec!["200", "200", "404", "503", "302"]), vec(line, 0..5)).prop_map(|(status, lines)| {
        let head = HeadMap::default().with(":status", status);
        lines.into_iter().fold(head, |head, (name, value)| head.with(name, value))
    })
}

/// Several requests, so that buckets run dry and tokens are remembered.
pub(super) fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let waits = select(vec![0, 0, 0, SECOND / 3, SECOND, 4 * SECOND]);
    let sources = select(vec!["192.0.2.1:4711", "192.0.2.7:1", "[2001:db8::1]:443"]);
    let rest = (any::<u64>(), 1..3_u64, select(vec![0, 0, 2]), select(vec![5_000_000, 2 * SECOND]));
    let one = (request(), response(), waits, sources, rest);
    vec(
        one.prop_map(|(request, response, wait, source, (dice, connection, flags, duration))| Exchange {
            request,
            response,
            wait,
            dice,
            source,
            connection,
            flags,
            duration,
        }),
        1..10,
    )
}
