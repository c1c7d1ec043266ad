//! Configurations made of all operations; most of them are good.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// When an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Requests,
    Responses,
}

/// Names of headers, as a configuration may write them.
fn name() -> impl Strategy<Value = &'static str> {
    select(vec![
        "x-a",
        "x-a",
        "X-A",
        "x-b",
        "x-b",
        "x-c",
        "x-internal-role",
        "server",
        "cookie",
        "set-cookie",
        "x-envoy-original-path",
        "x-forwarded-host",
        "x-frame-options",
        "referrer-policy",
        "x-request-id",
    ])
}

/// An operator, or what is none.
fn operator(of: Of) -> impl Strategy<Value = String> {
    let mut all = vec![
        "%REQ(x-a)%",
        "%REQ(x-a?x-b)%",
        "%REQ(:path)%",
        "%REQ(host)%",
        "%REQ(none)%",
        "%REQ(cookie):3%",
        "%PATH%",
        "%PATH(NQ)%",
        "%PATH(WQ:ORIG)%",
        "%PATH(NQ:PATH):4%",
        "%METHOD%",
        "%PROTOCOL%",
        "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "%DYNAMIC_METADATA(ns:a)%",
        "%DYNAMIC_METADATA(ns:a:b):2%",
        "%ROUTE_NAME%",
        "%REQUEST_ID%",
        "%START_TIME%",
        "%START_TIME(%s.%3f)%",
        "%CLAIM(sub)%",
        "%CLAIM(realm.roles)%",
        "%%",
    ];
    if of == Of::Responses {
        all.extend(["%RESP(x-a)%", "%RESP(server?x-b):5%", "%RESPONSE_CODE%", "%RESP(set-cookie)%"]);
    }
    // One in some is not right.
    prop_oneof![
        12 => select(all).prop_map(str::to_owned),
        1 => "%[A-Z_]{0,8}(\\([a-z:?-]{0,6}\\))?(:[0-9]{0,2})?%?",
    ]
}

/// A template: text and operators.
pub(super) fn template(of: Of) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => operator(of),
        2 => select(vec!["a", "-", "/", " ", "blue", "; ", "é", "\"", "?", "#", "..", "\\1", "\\0", "\\\\", "=", "&"])
            .prop_map(str::to_owned),
    ];
    vec(part, 0..4).prop_map(|parts| parts.concat())
}

/// A pattern for names.
fn pattern() -> impl Strategy<Value = Value> {
    let text = select(vec![
        "x-", "X-A", "a", "-role", "x-a", "server", "utm_", "debug", "session", "theme", "a", "session",
        "theme", "",
    ]);
    let way = select(vec!["exact", "prefix", "suffix", "contains", "regex"]);
    prop_oneof![
        3 => (way, text.clone(), any::<bool>()).prop_map(|(way, text, ignore_case)| match way {
            "regex" => json!({ "regex": format!("{text}.*") }),
            _ if ignore_case => json!({ way: text, "ignore_case": true }),
            _ => json!({ way: text }),
        }),
        1 => text.prop_map(Value::from),
        1 => Just(json!({ "safe_regex": { "google_re2": {}, "regex": "(x|set)-.+" } })),
    ]
}

fn patterns() -> impl Strategy<Value = Value> {
    prop_oneof![2 => pattern(), 1 => vec(pattern(), 0..3).prop_map(Value::from)]
}

/// A regular expression.
fn regex() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => select(vec![
            "a", "^/([^/]+)/(.*)$", "(a)|(b)", "[0-9]+", "^", "x*", ".+", "(?i)BLUE", "é", "^([^.]+)\\.example", "%", "(", "/",
        ]).prop_map(Value::from),
        1 => Just(json!({ "regex": "([a-z]+)", "google_re2": {} })),
    ]
}

/// An object with a name and a value.
fn written(of: Of, names: impl Strategy<Value = &'static str>) -> impl Strategy<Value = Value> {
    (names, template(of), any::<bool>(), any::<bool>()).prop_map(|(name, value, as_key, keep)| {
        let mut written = json!({ "value": value });
        written[if as_key { "key" } else { "name" }] = json!(name);
        if keep {
            written["keep_empty_value"] = json!(true);
        }
        written
    })
}

fn pair(names: impl Strategy<Value = &'static str> + Clone) -> impl Strategy<Value = Value> {
    (names.clone(), names).prop_map(|(from, to)| json!({ "from": from, "to": to }))
}

fn parameter() -> impl Strategy<Value = &'static str> + Clone {
    select(vec!["a", "b", "debug", "a b", "%61", "ü", "utm_x"])
}

fn cookie() -> impl Strategy<Value = &'static str> + Clone {
    select(vec!["a", "session", "theme", "canary", "__Host-a", "b=c"])
}

/// An edit of the cookies that a response sets.
fn set_cookie() -> BoxedStrategy<Value> {
    let attributes = (
        select(vec![json!(null), json!(true), json!(false)]),
        select(vec![json!(null), json!(true), json!(false)]),
        select(vec![json!(null), json!("Lax"), json!("strict"), json!("NONE")]),
    );
    let set = (
        written(Of::Responses, cookie()),
        attributes.clone(),
        select(vec![json!(null), json!("/"), json!("/a")]),
        select(vec![json!(null), json!("a.example")]),
        select(vec![
            json!(null),
            json!("3600s"),
            json!({ "seconds": 60 }),
            json!("0.5s"),
            json!({ "seconds": "7", "nanos": 9 }),
        ]),
        any::<bool>(),
    );
    prop_oneof![
        set.prop_map(|(mut set, (secure, http_only, same_site), path, domain, max_age, partitioned)| {
            set["secure"] = secure;
            set["http_only"] = http_only;
            set["same_site"] = same_site;
            set["path"] = path;
            set["domain"] = domain;
            set["max_age"] = max_age;
            set["partitioned"] = json!(partitioned);
            json!({ "cookie": { "set": set } })
        }),
        patterns().prop_map(|patterns| json!({ "cookie": { "remove": patterns } })),
        (attributes, prop_oneof![Just(json!(null)), patterns()]).prop_map(|((secure, http_only, same_site), names)| {
            let change = json!({ "secure": secure, "http_only": http_only, "same_site": same_site, "names": names });
            json!({ "cookie": { "attributes": change } })
        }),
    ]
    .boxed()
}

/// An operation, without conditions.
pub(super) fn operation(of: Of) -> BoxedStrategy<Value> {
    let write = select(vec!["set", "append", "add_if_absent", "overwrite_if_exists"]);
    let action = select(vec![
        "APPEND_IF_EXISTS_OR_ADD",
        "ADD_IF_ABSENT",
        "OVERWRITE_IF_EXISTS",
        "OVERWRITE_IF_EXISTS_OR_ADD",
    ]);
    let of_headers = prop_oneof![
        6 => (write, written(of, name())).prop_map(|(how, written)| json!({ how: written })),
        1 => (name(), template(of), action.clone(), any::<bool>()).prop_map(|(name, value, action, keep)| json!({
            "append": { "header": { "key": name, "value": value }, "append_action": action, "keep_empty_value": keep }
        })),
        2 => prop_oneof![name().prop_map(Value::from), patterns()].prop_map(|what| json!({ "remove": what })),
        1 => (name(), patterns()).prop_map(|(name, pattern)| json!({ "remove": [name, pattern] })),
        1 => pattern().prop_map(|pattern| json!({ "remove_on_match": { "key_matcher": pattern } })),
        2 => pair(name().boxed()).prop_map(|pair| json!({ "rename": pair })),
        2 => prop_oneof![pair(name().boxed()), name().prop_map(|to| json!({ "from": ":path", "to": to }))]
            .prop_map(|pair| json!({ "copy": pair })),
        3 => (name(), regex(), template(of))
            .prop_map(|(name, regex, with)| json!({ "replace": { "name": name, "regex": regex, "with": with } })),
        2 => (select(vec!["x-a", "x-b", "set-cookie"]), select(vec!["first", "last", "unique"]))
            .prop_map(|(name, keep)| json!({ "dedupe": { "name": name, "keep": keep } })),
    ];
    if of == Of::Responses {
        let preset = prop_oneof![
            Just(json!("security_headers")),
            (any::<bool>(), vec(select(vec!["x-frame-options", "Referrer-Policy"]), 0..2), template(of))
                .prop_map(|(overwrite, except, value)| json!({
                    "name": "security_headers", "overwrite": overwrite, "except": except,
                    "values": { "content-security-policy": value, "x-dns-prefetch-control": "on" },
                })),
        ];
        return prop_oneof![8 => of_headers, 4 => set_cookie(), 1 => preset.prop_map(|preset| json!({ "preset": preset }))].boxed();
    }
    let path = prop_oneof![
        template(of).prop_map(|text| json!({ "set": format!("/t/{text}") })),
        operator(of).prop_map(|text| json!({ "set": text })),
        (select(vec!["/v1/", "/", "/a", "/v1/../"]), select(vec!["/", "/v2/", "/x%20y", "//"]))
            .prop_map(|(prefix, with)| json!({ "prefix": prefix, "with": with })),
        (regex(), template(of)).prop_map(|(regex, with)| json!({ "regex": regex, "with": with })),
        (regex(), template(of))
            .prop_map(|(regex, with)| json!({ "regex": regex, "with": format!("/{with}") })),
    ];
    let host = prop_oneof![
        select(vec![
            "b.example",
            "b.example:8080",
            "%REQ(x-a)%",
            "%REQ(host)%",
            "[::1]:80",
            "%METHOD%.example",
            "a b"
        ])
        .prop_map(|text| json!({ "set": text })),
        (regex(), template(of)).prop_map(|(regex, with)| json!({ "regex": regex, "with": with })),
    ];
    let host = (host, any::<bool>()).prop_map(|(mut host, tells)| {
        host["append_x_forwarded_host"] = json!(tells);
        host
    });
    let query_write = select(vec!["set", "add", "add_if_absent", "overwrite_if_exists"]);
    let query = prop_oneof![
        3 => (query_write, written(of, parameter())).prop_map(|(how, written)| json!({ how: written })),
        1 => patterns().prop_map(|patterns| json!({ "remove": patterns })),
        1 => pair(parameter()).prop_map(|pair| json!({ "rename": pair })),
    ];
    let cookies = prop_oneof![
        written(of, cookie()).prop_map(|written| json!({ "set": written })),
        patterns().prop_map(|patterns| json!({ "remove": patterns })),
    ];
    prop_oneof![
        6 => of_headers,
        2 => path.prop_map(|path| json!({ "path": path })),
        1 => host.prop_map(|host| json!({ "host": host })),
        2 => query.prop_map(|query| json!({ "query": query })),
        2 => cookies.prop_map(|cookies| json!({ "cookie": cookies })),
    ]
    .boxed()
}

/// A condition on a header.
fn header_condition() -> impl Strategy<Value = Value> {
    let name = select(vec!["x-a", "X-B", "x-canary", "server", "cookie", "none"]);
    let how = select(vec![
        json!({}),
        json!({ "exact": "1" }),
        json!({ "prefix": ["b", "1"] }),
        json!({ "contains": "A", "ignore_case": true }),
        json!({ "suffix": "e" }),
        json!({ "safe_regex": { "regex": "[0-9]+" } }),
        json!({ "string_match": { "exact": "1" } }),
        json!({ "present_match": false }),
        json!({ "present": true }),
    ]);
    (name, how, any::<bool>()).prop_map(|(name, mut condition, invert)| {
        condition["name"] = json!(name);
        if invert {
            condition["invert_match"] = json!(true);
        }
        condition
    })
}

/// Conditions beside an operation.
fn conditions(of: Of) -> impl Strategy<Value = Value> {
    let request = select(vec![
        json!({}),
        json!({ "prefix": "/v1" }),
        json!({ "path": "/account" }),
        json!({ "path_separated_prefix": "/account" }),
        json!({ "method": "GET" }),
        json!({ "host": "*.example" }),
        json!({ "headers": [{ "name": "x-canary" }], "prefix": "/" }),
    ]);
    let matched = prop_oneof![3 => Just(Value::Null), 1 => request];
    let condition = || {
        prop_oneof![
            4 => Just(Value::Null),
            1 => header_condition(),
            1 => vec(header_condition(), 0..3).prop_map(Value::from),
        ]
    };
    let status = prop_oneof![
        3 => Just(Value::Null),
        1 => select(vec![json!(200), json!(404.0), json!("4xx"), json!("500-599"), json!(["2xx", "404", 503])]),
    ];
    (matched, condition(), condition(), status).prop_map(move |(matched, if_header, of_response, status)| {
        let mut conditions = json!({ "match": matched, "if_header": if_header });
        if of == Of::Responses {
            conditions["response_headers"] = of_response;
            conditions["status"] = status;
        }
        conditions
    })
}

/// An operation or a group, with conditions.
pub(super) fn item(of: Of) -> BoxedStrategy<Value> {
    let with = |(mut item, conditions): (Value, Value)| {
        let members = conditions.as_object().cloned().unwrap_or_default();
        item.as_object_mut().unwrap().extend(members.into_iter().filter(|(_, value)| !value.is_null()));
        item
    };
    let one = (operation(of), conditions(of)).prop_map(with);
    one.prop_recursive(2, 8, 3, move |inner| {
        let group = vec(inner, 1..4).prop_map(|items| json!({ "mutations": items }));
        (group, conditions(of)).prop_map(with)
    })
    .boxed()
}

/// A configuration; most of them are good.
pub(super) fn config() -> impl Strategy<Value = Value> {
    let query = select(vec![
        json!({ "remove": "debug" }),
        json!({ "append": { "record": { "key": "a", "value": "%METHOD%" } } }),
        json!({ "append": { "record": { "key": "b", "value": "" }, "action": "OVERWRITE_IF_EXISTS" } }),
    ]);
    let protected = prop_oneof![
        3 => Just(Value::Null),
        1 => vec(prop_oneof![name().prop_map(Value::from), pattern()], 0..2).prop_map(Value::from),
    ];
    (
        vec(item(Of::Requests), 0..6),
        vec(item(Of::Responses), 0..6),
        vec(query, 0..2),
        protected,
        any::<bool>(),
    )
        .prop_map(|(request, response, query, protected, nested)| {
            let mut lists = json!({
                "request_mutations": request,
                "response_mutations": response,
                "query_parameter_mutations": query,
            });
            // One that is there and empty is one all the same.
            lists.as_object_mut().unwrap().retain(|_, list| list != &json!([]));
            let mut config = if nested { json!({ "mutations": lists }) } else { lists };
            config["protected"] = protected;
            config
        })
}
