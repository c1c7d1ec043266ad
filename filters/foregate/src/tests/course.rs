//! A message on its way along the list: what each filter sees, and what comes of all of them.

use filter_api::{Effects, Fact, Host, Level, Property, Response};

use super::*;
use crate::around::dice_of;

fn host() -> HostMap {
    HostMap::at(START)
}

fn passed(chain: &Foregate, head: &HeadMap, host: &HostMap) -> Effects<Kept> {
    match chain.on_request(head, host, &Facts::default()) {
        Outcome::Continue(effects) => effects,
        other => panic!("{other:?}"),
    }
}

/// The details of a refusal; `passed` where there is none.
fn details(chain: &Foregate, head: &HeadMap, host: &HostMap) -> String {
    match chain.on_request(head, host, &Facts::default()) {
        Outcome::Continue(_) => "passed".to_owned(),
        Outcome::Reply(reply, _) => reply.details.to_string(),
        Outcome::Wait(..) => panic!("nothing to wait for"),
    }
}

fn limiter(rate: &str) -> Value {
    json!({ "local_rate_limit": { "rate": rate } })
}

#[test]
fn of_several_edits_the_host_hears_of_what_remains() {
    let append = |value: &str| json!({ "header_rewrite": { "request_mutations": [{ "append": { "name": "x-a", "value": value } }] } });
    let remove = json!({ "header_rewrite": { "request_mutations": [{ "remove": "x-a" }] } });
    let copy =
        json!({ "header_rewrite": { "request_mutations": [{ "copy": { "from": "x-a", "to": "x-b" } }] } });
    let head = || HeadMap::get("/").with("x-a", "1").with("x-a", "2");
    let rows: [(Value, HeadMap, &[&str]); 7] = [
        (json!([set(&[("x-a", "3")]), set(&[("x-a", "4"), ("x-b", "5")])]), head(), &["x-a: 4", "x-b: 5"]),
        (json!([append("3"), append("4")]), head(), &["+x-a: 3", "+x-a: 4"]),
        (json!([set(&[("x-a", "3")]), append("4")]), head(), &["x-a: 3", "+x-a: 4"]),
        (json!([append("3"), remove]), head(), &["-x-a"]),
        (json!([set(&[("x-a", "3")]), copy]), head(), &["x-a: 3", "x-b: 3"]),
        // The head was looked at: what is there already is not written.
        (json!([remove, append("1"), append("2"), copy]), head(), &["x-b: 1", "+x-b: 2"]),
        (json!([remove, copy]), HeadMap::get("/"), &[]),
    ];
    for (filters, head, expected) in rows {
        let effects = passed(&chain(&filters), &head, &host());
        assert_eq!(shown(&effects.headers), expected, "{filters}");
    }
}

#[test]
fn a_filter_sees_the_request_as_those_before_it_have_left_it() {
    let token = tokens::main(&json!({}));
    let authorize = set(&[("authorization", &format!("Bearer {token}"))]);
    let guard = tokens::requires_main(
        &json!({ "claim_to_headers": [{ "header_name": "x-user", "claim_name": "sub" }] }),
    );
    let per_user = json!({ "local_rate_limit": { "descriptors": [{ "name": "user", "entries": [{ "header": "x-user" }], "rate": "1/h" }] } });
    let path =
        json!({ "header_rewrite": { "request_mutations": [{ "path": { "prefix": "/v1/", "with": "/" } }] } });
    let by_path = json!({ "local_rate_limit": { "descriptors": [{ "name": "path", "match": { "path": "/x" }, "rate": "1/h" }] } });
    let host = host();
    let chain = started(&json!([authorize, guard, per_user, path, by_path]), &host);
    let effects = passed(&chain, &HeadMap::get("/v1/x").with("x-user", "mallory"), &host);
    // The client had sent no `authorization`, so that it was set and removed again is nobody's business.
    assert_eq!(shown(&effects.headers), ["x-user: alice", "x-envoy-original-path: /v1/x", ":path: /x"]);
    assert_eq!(details(&chain, &HeadMap::get("/v1/x"), &host), "local_rate_limited{user}");
}

#[test]
fn who_refuses_ends_it_and_what_was_done_before_stands() {
    let add = |name: &str| {
        json!({ "header_rewrite": {
        "request_mutations": [{ "append": { "name": "x-a", "value": name } }],
        "response_mutations": [{ "append": { "name": "x-a", "value": name } }],
    } })
    };
    let told =
        json!({ "local_rate_limit": { "rate": "2/h", "enable_x_ratelimit_headers": "DRAFT_VERSION_03" } });
    let host = host();
    let filters = json!([told, add("1"), add("2"), tokens::requires_main(&json!({})), add("3")]);
    let chain = started(&filters, &host);
    let Outcome::Reply(reply, effects) = chain.on_request(&HeadMap::get("/"), &host, &Facts::default())
    else {
        panic!("it has no token")
    };
    assert_eq!((reply.status, &*reply.details), (401, "jwt_reject{token_missing}"));
    assert_eq!(shown(&effects.headers), ["+x-a: 1", "+x-a: 2"]);
    assert_eq!(
        counted(&chain, &effects),
        ["local_rate_limit.allowed.reason.within_limits", "jwt_reject.refused.reason.token_missing"]
    );
    assert_eq!(effects.facts.0.len(), 1);
    // The refusal is a response: the last edits first.
    let response = HeadMap::default().with(":status", "401").with("www-authenticate", "Bearer");
    let done = chain.on_response(&effects.kept.unwrap(), &response, &host);
    assert_eq!(
        shown(&done.headers),
        ["+x-a: 2", "+x-a: 1", "x-ratelimit-limit: 2", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1800"]
    );
}

/// Where nobody need look at the response, nothing is kept of the request.
#[test]
fn what_is_known_of_a_response_by_then_is_said_at_once() {
    let told = |rate: &str| json!({ "local_rate_limit": { "rate": rate, "enable_x_ratelimit_headers": "DRAFT_VERSION_03" } });
    let host = host();
    let effects = passed(&started(&json!([told("5/h"), told("9/s")]), &host), &HeadMap::get("/"), &host);
    assert!(effects.kept.is_none());
    // The first of the list is the last to write.
    assert_eq!(
        shown(&effects.response),
        ["x-ratelimit-limit: 5", "x-ratelimit-remaining: 4", "x-ratelimit-reset: 720"]
    );
}

#[test]
fn each_filter_counts_at_its_own_places() {
    let host = host();
    let spoilt = json!({ "header_rewrite": {
        "request_mutations": [{ "path": { "set": "%REQ(x-path)%" } }],
        "response_mutations": [{ "set": { "name": "x-a", "value": "%RESP(x-bad)%" } }],
    } });
    let shadow = json!({ "name": "tried", "local_rate_limit": { "rate": "1/h", "mode": "shadow" } });
    let chain = started(&json!([limiter("2/h"), spoilt, shadow, limiter("1/h")]), &host);
    let effects = passed(&chain, &HeadMap::get("/").with("x-path", "no-slash"), &host);
    assert_eq!(
        counted(&chain, &effects),
        [
            "local_rate_limit.allowed.reason.within_limits",
            "header_rewrite.skipped.reason.invalid_value",
            "local_rate_limit.tried.allowed.reason.within_limits",
            "local_rate_limit.allowed.reason.within_limits",
        ]
    );
    let response = HeadMap::default().with(":status", "200").with("x-bad", "a\u{1}b");
    let done = chain.on_response(&effects.kept.unwrap(), &response, &host);
    let names = chain.counter_names();
    let of_response: Vec<&str> =
        done.counters.iter().map(|counter| names[usize::from(counter.0)].as_str()).collect();
    assert_eq!(of_response, ["header_rewrite.skipped.reason.invalid_value"]);

    let Outcome::Reply(_, effects) = chain.on_request(&HeadMap::get("/"), &host, &Facts::default()) else {
        panic!("the last limiter has one token")
    };
    assert_eq!(
        counted(&chain, &effects),
        [
            "local_rate_limit.allowed.reason.within_limits",
            "local_rate_limit.tried.allowed.reason.shadow",
            "local_rate_limit.tried.shadow_refused.limit.default",
            "local_rate_limit.refused.limit.default",
        ]
    );
}

#[test]
fn filters_of_a_kind_share_no_bucket() {
    for scope in ["process", "worker", "connection"] {
        let limiter = |name: Option<&str>| json!({ "name": name, "local_rate_limit": { "rate": "3/h", "scope": scope, "lease": if scope == "process" { 2 } else { 0 } } });
        let host = host();
        // Each has its three tokens: were one bucket behind them, the second request would be refused.
        let chain = started(&json!([limiter(None), limiter(None), limiter(Some("third"))]), &host);
        let verdicts: Vec<String> = (0..4).map(|_| details(&chain, &HeadMap::get("/"), &host)).collect();
        assert_eq!(verdicts, ["passed", "passed", "passed", "local_rate_limited{default}"], "{scope}");
    }
}

#[test]
fn a_bucket_stays_with_its_name_and_the_first_without_one_keeps_its_own() {
    let named = |name: &str| json!({ "name": name, "local_rate_limit": { "rate": "1/h" } });
    let host = host();
    assert_eq!(details(&started(&json!([named("mine")]), &host), &HeadMap::get("/"), &host), "passed");
    assert_eq!(details(&started(&json!([limiter("1/h")]), &host), &HeadMap::get("/"), &host), "passed");
    let spent = "local_rate_limited{default}";
    let rows = [
        (json!([named("other"), named("mine")]), spent),
        (json!([named("new")]), "passed"),
        (json!([named("another"), limiter("1/h")]), spent),
        (json!([set(&[("x-a", "1")]), limiter("1/h")]), spent),
    ];
    for (filters, expected) in rows {
        assert_eq!(details(&started(&filters, &host), &HeadMap::get("/"), &host), expected, "{filters}");
    }
}

#[test]
fn a_property_of_a_later_filter_takes_the_place_of_an_earlier_one() {
    let publishing = |header: &str| {
        tokens::requires_main(&json!({
            "claim_to_properties": [{ "claim_name": "sub", "property_name": "who" }],
            "from_headers": [{ "name": header }],
        }))
    };
    // It is no claim's name, so the property alone says it.
    let tell = set(&[("x-who", "%CLAIM(who)%"), ("x-sub", "%CLAIM(sub)%")]);
    let host = host();
    host.properties.borrow_mut().insert("foregate.jwt.who".to_owned(), b"of another module".to_vec());
    let chain = started(&json!([tell, publishing("x-first"), publishing("x-second"), tell]), &host);
    let head = HeadMap::get("/")
        .with("x-first", tokens::main(&json!({ "sub": "alice" })))
        .with("x-second", tokens::main(&json!({ "sub": "bob" })));
    let effects = passed(&chain, &head, &host);
    assert_eq!(shown(&effects.headers), ["x-who: bob", "-x-first", "-x-second", "x-sub: bob"]);
    let properties: Vec<(&str, &[u8])> =
        effects.properties.iter().map(|Property { name, value }| (name.as_ref(), value.as_bytes())).collect();
    assert_eq!(properties, [("foregate.jwt.who", &b"bob"[..])]);
    let effects = passed(&started(&json!([tell]), &host), &head, &host);
    assert_eq!(shown(&effects.headers), ["x-who: of another module"]);
}

/// What one filter has found out reaches those behind it, and the log, without a property.
#[test]
fn claims_reach_limits_templates_and_the_log() {
    let per_user = json!({ "local_rate_limit": { "descriptors": [{ "name": "user", "entries": [{ "jwt_claim": "sub" }], "rate": "1/h" }] } });
    let log = json!({ "sampled_log": { "fields": { "user": "%CLAIM(sub)%" }, "percent_sampled": 100 } });
    let tell = set(&[("x-user", "%CLAIM(sub)%")]);
    let host = HostMap { logs: true, ..host() };
    let chain = started(&json!([tokens::requires_main(&json!({})), per_user, tell, log]), &host);
    let head = bearer(&tokens::main(&json!({ "sub": "alice" })));
    let effects = passed(&chain, &head, &host);
    assert_eq!(shown(&effects.headers), ["-authorization", "x-user: alice"]);
    assert!(effects.properties.is_empty());
    let work = chain.on_log(&HeadMap::get("/"), &HeadMap::default(), &host, &effects.facts);
    assert!(work.log[0].text.starts_with(r#"{"user":"alice","#), "{}", work.log[0].text);
    assert_eq!(details(&chain, &head, &host), "local_rate_limited{user}");
    assert_eq!(details(&chain, &bearer(&tokens::main(&json!({ "sub": "bob" }))), &host), "passed");
}

/// As with headers and properties, what the token says that was found last counts.
#[test]
fn of_two_tokens_the_last_is_who_it_is() {
    let guard = tokens::requires_main(&json!({
        "claim_to_headers": [{ "header_name": "x-header", "claim_name": "sub" }],
    }));
    let tell = set(&[("x-fact", "%CLAIM(sub)%"), ("x-tenant", "%CLAIM(tenant)%")]);
    let head = bearer(&tokens::main(&json!({ "sub": "alice", "tenant": "blue" })))
        .with_only(":path", format!("/?access_token={}", tokens::main(&json!({ "sub": "bob" }))));
    let effects = passed(&chain(&json!([guard, tell])), &head, &host());
    assert_eq!(
        shown(&effects.headers),
        ["-authorization", ":path: /", "x-header: bob", "x-fact: bob"],
        "bob has no tenant, and none of alice's"
    );
}

#[test]
fn what_a_filter_would_have_refused_is_a_fact() {
    let shadow = json!({ "local_rate_limit": { "token_bucket": { "max_tokens": 0, "fill_interval": "1s" }, "mode": "shadow" } });
    let host = host();
    let effects = passed(&started(&json!([shadow]), &host), &HeadMap::get("/"), &host);
    assert_eq!(
        effects.facts.0.as_slice(),
        [Fact::Refused { filter: "local_rate_limit", reason: "default".into() }]
    );
}

#[test]
fn each_place_has_its_own_dice() {
    assert_eq!(dice_of(0, 7), 7, "alone it is as in a module of its own");
    // Of two filters that look at half of the requests each, a quarter is looked at by both.
    let half = |dice: u64| dice & u64::from(u32::MAX) < 1 << 31;
    let both = |one: usize, other: usize| {
        let of = |dice: &u64| half(dice_of(one, *dice)) && half(dice_of(other, *dice));
        (0..4000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).filter(of).count()
    };
    for (one, other) in [(0, 1), (1, 2), (0, 15)] {
        assert!((850..1150).contains(&both(one, other)), "{one} {other}: {}", both(one, other));
    }
    // And so it is in a chain: each of two that look at half lets a quarter of the requests by.
    let sampled = json!({ "local_rate_limit": { "token_bucket": { "max_tokens": 0, "fill_interval": "1s" }, "filter_enabled": 50 } });
    let host = host();
    let chain = started(&json!([sampled, sampled]), &host);
    let refused = (0..1000).filter(|_| {
        host.throw();
        details(&chain, &HeadMap::get("/"), &host) != "passed"
    });
    let refused = refused.count();
    assert!((700..800).contains(&refused), "{refused}");
}

/// Lines that wait when a chain ends are lost where nobody takes them over, and each of them is counted.
#[test]
fn several_logs_that_end_together_count_what_they_lose() {
    let collector = |name: &str| {
        json!({ "name": name, "sampled_log": {
        "percent_sampled": 100, "sink": { "http": { "cluster": name, "flush_interval": "60s" } },
    } })
    };
    let host = host();
    let chain = started(&json!([collector("one"), collector("two"), { "sampled_log": {} }]), &host);
    let names = chain.counter_names();
    let lost = |work: &Work| -> u32 {
        let lost = work.counts.iter().filter(|(counter, _)| names[usize::from(counter.0)].contains(".lost."));
        lost.map(|(_, by)| by).sum()
    };
    for _ in 0..3 {
        assert_eq!(lost(&chain.on_log(&HeadMap::get("/"), &HeadMap::default(), &host, &Facts::default())), 0);
    }
    assert_eq!(lost(&chain.on_end(&host)), 6);
}

/// A line of a log that goes by way of a property has one of its own in each place.
#[test]
fn several_logs_have_several_properties() {
    let log = |name: Option<&str>| json!({ "name": name, "sampled_log": { "percent_sampled": 100, "sink": "access_log" } });
    let host = host();
    let chain = started(&json!([log(None), log(Some("audit")), log(None)]), &host);
    let work = chain.on_log(&HeadMap::get("/"), &HeadMap::default(), &host, &Facts::default());
    let names: Vec<&str> = work.properties.iter().map(|property| property.name.as_ref()).collect();
    assert_eq!(
        names,
        ["foregate.sampled_log.line", "foregate.sampled_log.line.audit", "foregate.sampled_log.line.2"]
    );
    assert!(!host.logs(Level::Info), "the level of Envoy's log does not matter to it");
}

/// What a fetch brings goes to whoever asked.
#[test]
fn what_nobody_asked_for_goes_to_nobody() {
    #[derive(Debug)]
    struct Empty;
    impl Response for Empty {
        fn header(&self, _: &str) -> Option<Vec<u8>> {
            None
        }

        fn body_length(&self) -> usize {
            0
        }

        fn body(&self) -> Option<Vec<u8>> {
            None
        }
    }
    let host = host();
    let collector = json!({ "sampled_log": { "sink": { "http": { "cluster": "collector" } } } });
    let chain = started(&json!([limiter("1/h"), collector]), &host);
    let fetched = Fetched { number: 7, response: Some(&Empty) };
    assert_eq!(chain.on_fetched(fetched, &host), Work::default());
}
