//! Reading a list: what is wrong with one, and what each needs of its host.

use filter_api::{Callback, OnHostFailure};

use super::*;

fn problems(config: &Value) -> Vec<String> {
    match Foregate::configure(config.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

fn limit() -> Value {
    json!({ "local_rate_limit": { "rate": "1/h" } })
}

fn log() -> Value {
    json!({ "sampled_log": {} })
}

#[test]
fn every_problem_is_named_with_its_path() {
    let many: Vec<Value> = (0..17).map(|_| limit()).collect();
    let rows = [
        (json!({}), vec!["`filters` is missing"]),
        (json!({ "filters": {} }), vec!["filters: must be an array, not an object"]),
        (json!({ "filters": [] }), vec!["filters: has no filter in it; give at least one"]),
        (json!({ "filters": many }), vec!["filters: has 17 filters; the most is 16"]),
        (
            json!({ "filters": [limit(), 1], "filter": [] }),
            vec![
                "filters[1]: must be an object, not a number",
                "unknown field `filter`; did you mean `filters`?",
            ],
        ),
        (
            json!({ "filters": [{ "name": "a" }, { "jwt_rejects": {} }] }),
            vec![
                "filters[0]: one of `local_rate_limit`, `jwt_reject`, `header_rewrite`, `sampled_log` is missing",
                "filters[1]: one of `local_rate_limit`, `jwt_reject`, `header_rewrite`, `sampled_log` is missing",
                "filters[1]: unknown field `jwt_rejects`; did you mean `jwt_reject`?",
            ],
        ),
        (
            json!({ "filters": [{ "local_rate_limit": { "rate": "1/s" }, "sampled_log": {} }] }),
            vec!["filters[0]: `local_rate_limit` and `sampled_log` are given; give one of them"],
        ),
        // Of several filters, and of names, all problems at once.
        (
            json!({ "filters": [
                { "local_rate_limit": { "rate": "1/s", "descriptors": [{ "entries": ["method"], "rate": "often" }] } },
                { "header_rewrite": { "request_mutations": [{ "remove": "te" }, { "sett": {} }] } },
                { "name": "1st", "sampled_log": { "percent_sampled": 101.0 } },
                { "name": "", "jwt_reject": [] },
                { "name": "a.b", "sampled_log": {} },
                { "name": "twice", "sampled_log": {} },
                { "name": "twice", "local_rate_limit": { "rate": "1/s", "my field": 1 } },
            ] }),
            vec![
                "filters[0].local_rate_limit.descriptors[0].rate: \"often\" is not a rate; write tokens, a slash, and \
                 s, m, h or d, such as \"100/s\" or \"5/10m\"",
                "filters[1].header_rewrite.request_mutations[0].remove: \"te\" is Envoy's own: a message's framing or \
                 its connection depends on it",
                "filters[1].header_rewrite.request_mutations[1]: one of `set`, ",
                "filters[1].header_rewrite.request_mutations[1]: unknown field `sett`; did you mean `set`?",
                "filters[2].name: \"1st\" must be a letter and up to 63 letters, digits, - and _: metrics have it in \
                 their names",
                "filters[2].sampled_log.percent_sampled: 101 is not a number of percent from 0 to 100 in steps of \
                 0.0001",
                "filters[3].name: must not be empty; leave it out instead",
                "filters[3].jwt_reject: must be an object, not an array",
                "filters[4].name: \"a.b\" must be a letter and up to 63 letters, digits, - and _: metrics have it in \
                 their names",
                "filters[6].name: another filter is named \"twice\"; give it another name",
                "filters[6].local_rate_limit: unknown field `my field`",
            ],
        ),
    ];
    for (config, expected) in rows {
        let found = problems(&config);
        let fit = found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected));
        assert!(fit && found.len() == expected.len(), "{config}\n{found:#?}");
    }
}

#[test]
fn a_configuration_may_come_as_a_struct_has_it() {
    let config = json!({ "filters": [
        { "local_rate_limit": { "token_bucket": { "max_tokens": 10.0, "fill_interval": "1s" }, "status": 4.29e2 } },
        { "name": null, "sampled_log": { "percent_sampled": 1.0 } },
    ] });
    assert_eq!(problems(&config), Vec::<String>::new());
}

#[test]
fn warnings_have_their_paths_too() {
    let config = json!({ "filters": [limit(), { "header_rewrite": {
        "request_mutations": [{ "remove": "x-a" }], "most_specific_header_mutations_wins": true,
    } }] });
    let warnings = Foregate::configure(config.to_string().as_bytes()).unwrap().warnings;
    let paths: Vec<&str> = warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(paths, ["filters[1].header_rewrite.most_specific_header_mutations_wins"]);
}

#[test]
fn a_list_has_at_most_512_counters() {
    let limiter = |limits: usize| {
        let limits: Vec<Value> = (0..limits)
            .map(|n| json!({ "name": format!("l{n}"), "entries": [{ "header": "x" }], "rate": "1/s" }))
            .collect();
        json!({ "local_rate_limit": { "descriptors": limits } })
    };
    // 12, and two for each limit.
    let full = json!([limiter(47), limiter(47), limiter(47), limiter(47), limiter(38)]);
    assert_eq!(chain(&full).counter_names().len(), 512);
    let more = json!({ "filters": [limiter(47), limiter(47), limiter(47), limiter(47), limiter(39)] });
    assert_eq!(
        problems(&more),
        [
            "filters: its filters have 514 counters between them; the most is 512: list fewer filters, or give them \
          fewer limits"
        ]
    );
}

#[test]
fn metrics_have_the_name_after_that_of_the_filter() {
    let chain = chain(&json!([
        { "local_rate_limit": { "rate": "1/s" } },
        { "name": "per-user", "local_rate_limit": { "descriptors": [{ "name": "user", "entries": [{ "jwt_claim": "sub" }], "rate": "1/s" }] } },
        { "name": "edits", "header_rewrite": { "request_mutations": [{ "remove": "x-a" }] } },
        { "sampled_log": {} },
    ]));
    let names = chain.counter_names();
    assert_eq!(names.len(), 12 + 2 + 12 + 2 + 2 + 12);
    let at = |place: usize| names[place].as_str();
    assert_eq!(at(0), "local_rate_limit.allowed.reason.within_limits");
    assert_eq!(at(12), "local_rate_limit.refused.limit.default");
    assert_eq!(at(14), "local_rate_limit.per-user.allowed.reason.within_limits");
    assert_eq!(at(26), "local_rate_limit.per-user.refused.limit.user");
    assert_eq!(at(28), "header_rewrite.edits.skipped.reason.invalid_value");
    assert_eq!(at(30), "sampled_log.lines.why.always");
}

#[test]
fn a_list_needs_what_its_filters_need() {
    use Callback::{
        HttpCallResponse, Log, RequestBody, RequestHeaders, RequestTrailers, ResponseHeaders, Tick,
    };
    let remote = |uri: &str| {
        json!({ "jwt_reject": {
            "providers": { "main": { "remote_jwks": { "http_uri": { "uri": uri, "cluster": "issuer", "timeout": "5s" } } } },
            "rules": [{ "match": {}, "requires": { "provider_name": "main" } }],
        } })
    };
    let edit = |message: &str| json!({ "header_rewrite": { message: [{ "remove": "x-a" }] } });
    let collector = json!({ "sampled_log": { "sink": { "http": { "cluster": "collector" } } } });
    let told = json!({ "local_rate_limit": { "rate": "1/h", "enable_ratelimit_headers": true } });
    let token = tokens::requires_main(&json!({}));
    let rows = [
        (json!([log()]), vec![Tick, Log]),
        (json!([collector]), vec![Tick, Log, HttpCallResponse]),
        (json!([limit()]), vec![RequestHeaders, Tick]),
        (json!([log(), limit()]), vec![RequestHeaders, Tick, Log]),
        (json!([limit(), told]), vec![RequestHeaders, ResponseHeaders, Tick]),
        (json!([token]), vec![RequestHeaders, Tick]),
        (
            json!([limit(), remote("https://issuer.example/jwks")]),
            vec![RequestHeaders, RequestBody, RequestTrailers, Tick, HttpCallResponse],
        ),
        (json!([edit("request_mutations")]), vec![RequestHeaders, Tick]),
        (json!([edit("response_mutations")]), vec![RequestHeaders, ResponseHeaders, Tick]),
    ];
    for (filters, expected) in rows {
        let chain = chain(&filters);
        for callback in
            [RequestHeaders, RequestBody, RequestTrailers, ResponseHeaders, Tick, HttpCallResponse, Log]
        {
            assert_eq!(chain.needs(callback), expected.contains(&callback), "{filters} {callback:?}");
            assert!(Foregate::CALLBACKS.contains(&callback));
        }
    }
}

#[test]
fn one_filter_that_guards_makes_the_list_guard() {
    let edit = json!({ "header_rewrite": { "request_mutations": [{ "remove": "x-a" }] } });
    let token = tokens::requires_main(&json!({}));
    let rows = [
        (json!([limit()]), OnHostFailure::Pass),
        (json!([limit(), log()]), OnHostFailure::Pass),
        (json!([limit(), edit]), OnHostFailure::Refuse),
        (json!([token, log()]), OnHostFailure::Refuse),
    ];
    for (filters, expected) in rows {
        assert_eq!(chain(&filters).on_host_failure(), expected, "{filters}");
    }
}
