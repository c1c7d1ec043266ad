//! What becomes of a request that is over a limit, and what clients are told.

use super::*;
use filter_api::{Attribute, Fact, GrpcStatus, HostVerdict, SharedValue, SignatureCheck, Waiting};

fn over(config: &Value) -> (HostMap, LocalRateLimit) {
    let world = new_world();
    let worker = start_worker(&world, config);
    Asking(&world, &worker).count(&get("/"), 100);
    (world, worker)
}

#[test]
fn a_refusal_names_the_limit_and_the_time() {
    let (world, worker) = over(&json!({"rate": "10/m"}));
    let outcome = Asking(&world, &worker).ask(&get("/"));
    assert_eq!(counted(&outcome, &worker), ["refused.limit.default"]);
    let refused = Fact::Refused { filter: "local_rate_limit", reason: "default".into() };
    assert_eq!(outcome.effects().facts.0.as_slice(), [refused]);
    assert_eq!(outcome.effects().log[0].text, "local_rate_limit: refused: default");
    let Outcome::Reply(reply, _) = outcome else { panic!() };
    assert_eq!((reply.status, reply.grpc_status), (429, GrpcStatus::ResourceExhausted));
    assert_eq!((&*reply.body, &*reply.details), ("local_rate_limited", "local_rate_limited{default}"));
    assert_eq!(reply.headers.len(), 1);
    assert_eq!(header(&reply, "retry-after").unwrap(), "6");
    // Just so long, and not a moment less.
    world.wait(6 * SECOND - 1);
    assert!(!Asking(&world, &worker).passes(&get("/")));
    world.wait(1);
    assert!(Asking(&world, &worker).passes(&get("/")));
    world.wait(100);
    assert_eq!(header(&Asking(&world, &worker).refusal(&get("/")), "retry-after").unwrap(), "6");
    world.wait(SECOND);
    assert_eq!(header(&Asking(&world, &worker).refusal(&get("/")), "retry-after").unwrap(), "5");
}

#[test]
fn the_time_is_right_though_the_clock_was_put_back_a_little() {
    let (world, worker) = over(&json!({"rate": "10/m"}));
    world.now.set(START - SECOND / 2);
    assert_eq!(header(&Asking(&world, &worker).refusal(&get("/")), "retry-after").unwrap(), "7");
    world.wait(7 * SECOND);
    assert!(Asking(&world, &worker).passes(&get("/")));
}

#[test]
fn of_several_that_refuse_the_longest_wait_counts() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "rate": "1/s",
            "descriptors": [{"name": "hourly", "match": {}, "rate": "1/h"}, {"name": "never", "match": {"path": "/no"},
                "token_bucket": {"max_tokens": 0, "fill_interval": "1s"}}],
        }),
    );
    let asking = Asking(&world, &worker);
    assert!(asking.passes(&get("/")));
    let reply = asking.refusal(&get("/"));
    assert_eq!(reply.details, "local_rate_limited{hourly}");
    assert_eq!(header(&reply, "retry-after").unwrap(), "3600");
    let reply = asking.refusal(&get("/no"));
    assert_eq!(reply.details, "local_rate_limited{never}");
    assert_eq!(header(&reply, "retry-after"), None);
}

#[test]
fn a_bucket_that_nobody_will_live_to_see_full_is_exact() {
    for bucket in [
        json!({"max_tokens": 200_000, "fill_interval": "86400s"}),
        json!({"max_tokens": 4_294_967_295_u32, "fill_interval": "31622400s"}),
    ] {
        let world = new_world();
        let worker = start_worker(
            &world,
            &json!({"token_bucket": bucket, "cost": {"header": "x", "max": 4_294_967_295_u32}}),
        );
        let asking = Asking(&world, &worker);
        let most = bucket["max_tokens"].as_u64().unwrap();
        let take = |tokens: u64| asking.passes(&get("/").with("x", tokens.to_string()));
        assert!(take(most - 2) && take(1) && !take(2) && take(1) && !take(1));
        world.wait(3600 * SECOND);
        assert!(!take(1), "{bucket}");
    }
}

#[test]
fn the_answer_is_as_configured() {
    let (world, worker) = over(&json!({
        "rate": "1/m",
        "status": 503,
        "body": "later",
        "rate_limited_as_resource_exhausted": false,
        "response_headers_to_add": [
            {"header": {"key": "x-test", "value": "100%%"}},
            {"header": {"key": "retry-after", "value": "7"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
            {"key": "x-test", "value": "no", "append_action": "ADD_IF_ABSENT"},
        ],
    }));
    let reply = Asking(&world, &worker).refusal(&get("/"));
    assert_eq!((reply.status, reply.grpc_status, &*reply.body), (503, GrpcStatus::Unavailable, "later"));
    assert_eq!(header(&reply, "x-test").unwrap(), "100%");
    assert_eq!(header(&reply, "retry-after").unwrap(), "7");
}

#[test]
fn headers_tell_how_limits_stand_on_every_response() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "rate": "100/10s",
            "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
            "enable_ratelimit_headers": true,
            "descriptors": [{"name": "per-key", "entries": [{"header": "x-key"}], "rate": "2/m"}],
        }),
    );
    let asking = Asking(&world, &worker);
    let told = |lines: Vec<(String, String)>| -> BTreeMap<String, String> {
        let count = lines.len();
        let map: BTreeMap<_, _> = lines.into_iter().collect();
        assert_eq!(map.len(), count);
        map
    };
    let text = |value: &filter_api::HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
    let of_passed = |outcome: Outcome| {
        let Outcome::Continue(effects) = outcome else { panic!() };
        let line = |operation: &HeaderOp| match operation {
            HeaderOp::Set(name, value) => (name.as_str().to_owned(), text(value)),
            other => panic!("{other:?}"),
        };
        told(effects.response.iter().map(line).collect())
    };
    let expected = |rows: &[(&str, &str)]| {
        rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let policy = "\"per-key\";q=2;w=60, \"default\";q=100;w=10";
    let by_key = get("/").with("x-key", "a");
    assert_eq!(
        of_passed(asking.ask(&by_key)),
        expected(&[
            ("x-ratelimit-limit", "2"),
            ("x-ratelimit-remaining", "1"),
            ("x-ratelimit-reset", "30"),
            ("ratelimit-policy", policy),
            ("ratelimit", "\"per-key\";r=1;t=30, \"default\";r=99;t=1"),
        ])
    );
    of_passed(asking.ask(&by_key));
    let reply = asking.refusal(&by_key);
    let lines = reply.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    assert_eq!(
        told(lines),
        expected(&[
            ("retry-after", "30"),
            ("x-ratelimit-limit", "2"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "60"),
            ("ratelimit-policy", policy),
            ("ratelimit", "\"per-key\";r=0;t=60, \"default\";r=98;t=1"),
        ])
    );
    // One that no key limit is for.
    assert_eq!(of_passed(asking.ask(&get("/")))["ratelimit"], "\"default\";r=97;t=1");
}

#[test]
fn shadow_and_samples_let_pass_and_tell() {
    for (changes, reason) in
        [(json!({"mode": "shadow"}), "shadow"), (json!({"filter_enforced": 0}), "not_enforced")]
    {
        let mut config = json!({
            "rate": "1/m",
            "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
            "request_headers_to_add_when_not_enforced": [{"header": {"key": "x-local-ratelimited", "value": "true"}}],
        });
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let (world, worker) = over(&config);
        let outcome = Asking(&world, &worker).ask(&get("/"));
        let reason = format!("allowed.reason.{reason}");
        assert_eq!(counted(&outcome, &worker), [reason.as_str(), "shadow_refused.limit.default"]);
        let Outcome::Continue(effects) = outcome else { panic!() };
        assert_eq!(effects.headers.len(), 1);
        assert_eq!(effects.response.len(), 3);
        assert_eq!(effects.properties[0].name.as_ref(), "foregate.local_rate_limit.refused");
        assert_eq!(effects.properties[0].value.as_bytes(), b"default");
        assert_eq!(effects.log[0].level, Level::Info);
        // Nothing is added to those that are within the limit.
        world.wait(60 * SECOND);
        let Outcome::Continue(effects) = Asking(&world, &worker).ask(&get("/")) else { panic!() };
        assert!(effects.headers.is_empty() && effects.properties.is_empty() && effects.log.is_empty());
    }
}

#[test]
fn what_is_not_enabled_is_not_counted() {
    let world = new_world();
    let worker = start_worker(&world, &json!({"rate": "1/m", "filter_enabled": 0}));
    let outcome = Asking(&world, &worker).ask(&get("/"));
    assert_eq!(counted(&outcome, &worker), ["allowed.reason.not_enabled"]);
    let half =
        json!({"rate": "1/h", "burst": 100_000, "filter_enabled": {"default_value": {"numerator": 50}}});
    let worker = start_worker(&world, &half);
    let enabled = (0..10_000).filter(|_| {
        world.throw();
        counted(&Asking(&world, &worker).ask(&get("/")), &worker) == ["allowed.reason.within_limits"]
    });
    assert!((4800..5200).contains(&enabled.count()));
}

#[test]
fn who_is_exempt_takes_no_token() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "rate": "1/h",
            "client_address": {"trusted_hops": 0},
            "exempt": {"match": [{"path": "/health"}, {"headers": [{"name": "x-internal"}]}], "cidrs": ["10.0.0.0/8", "::1"]},
        }),
    );
    let asking = Asking(&world, &worker);
    let from = |address: &str| get("/").with("x-forwarded-for", address);
    for head in [get("/health?x"), get("/").with("x-internal", "1"), from("10.1.2.3"), from("::1")] {
        assert_eq!(asking.count(&head, 5), 5, "{head:?}");
        assert_eq!(counted(&asking.ask(&head), &worker), ["allowed.reason.exempt"]);
    }
    assert_eq!(asking.count(&get("/"), 5), 1);
    for head in [
        from("10.1.2.3, 1.1.1.1"),
        from("::2"),
        get("/x/..;/health"),
        get("/health/../x"),
        get("/health%2f.."),
    ] {
        assert_eq!(asking.count(&head, 5), 0, "{head:?}");
    }
}

#[test]
fn exemptions_may_be_a_list() {
    let world = new_world();
    let config = json!({
        "rate": "1/h",
        "client_address": {"trusted_hops": 0},
        "exempt": [{"match": {"path": "/health"}}, {"cidrs": "10.0.0.0/8"}, {"match": {"path": "/a"}, "cidrs": ["::1"]}],
    });
    let worker = start_worker(&world, &config);
    for head in [get("/health"), get("/a"), get("/").with("x-forwarded-for", "10.0.0.1")] {
        assert_eq!(Asking(&world, &worker).count(&head, 5), 5, "{head:?}");
    }
    assert_eq!(Asking(&world, &worker).count(&get("/b"), 5), 1);
    assert!(problems(&json!({"rate": "1/h", "exempt": [{}]}))[0].starts_with("exempt[0]: exempts nothing"));
    assert!(
        warnings(&json!({"rate": "1/h", "exempt": {"match": {}}}))[0]
            .starts_with("exempt: exempts every request")
    );
}

#[test]
fn a_request_may_cost_several_tokens() {
    let world = new_world();
    let cost = |cost: Value| json!({"rate": "10/h", "cost": cost});
    let by = |worker: &LocalRateLimit, head: &HeadMap| Asking(&world, worker).count(head, 20);
    assert_eq!(by(&start_worker(&world, &cost(json!(3))), &get("/")), 3);
    let with = |value: &str| get("/").with("x-cost", value);
    let fresh = |value: &HeadMap| {
        let world = new_world();
        let worker = start_worker(&world, &cost(json!({"header": "x-cost", "max": 8})));
        Asking(&world, &worker).count(value, 20)
    };
    let rows = [
        ("5", 2),
        ("8", 1),
        ("9", 1),
        ("999999999999999999999", 1),
        ("0", 10),
        ("-1", 10),
        ("x", 10),
        ("", 10),
    ];
    for (value, passed) in rows {
        assert_eq!(fresh(&with(value)), passed, "{value}");
    }
    assert_eq!(fresh(&get("/")), 10);
    assert_eq!(fresh(&with("5").with("x-cost", "1")), 10);
    // More than the bucket holds is all that it holds.
    let world = new_world();
    let worker = start_worker(&world, &json!({"rate": "10/h", "cost": {"header": "x-cost"}}));
    assert_eq!(Asking(&world, &worker).count(&with("500"), 20), 1);
    let reply = Asking(&world, &worker).refusal(&with("500"));
    assert_eq!(header(&reply, "retry-after").unwrap(), "3600");
}

/// A host whose cells another worker always was first at.
struct Contended(HostMap);

impl Cells for Contended {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.0.shared(cell)
    }

    fn share(&self, _: &str, _: &[u8], _: Over) -> Result<bool, HostFailed> {
        Ok(false)
    }
}

impl Host for Contended {
    fn moment(&self) -> Moment {
        Host::moment(&self.0)
    }

    fn logs(&self, level: Level) -> bool {
        self.0.logs(level)
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        self.0.verify_signature(check)
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        self.0.attribute(attribute)
    }

    fn waiting(&self) -> Waiting {
        self.0.waiting()
    }
}

#[test]
fn the_policy_says_what_becomes_of_who_loses_every_race() {
    let host = Contended(new_world());
    let ask = |changes: Value| {
        let mut config = json!({"rate": "1/h"});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let worker = start_worker(&host.0, &config);
        let outcome = worker.on_request(&get("/"), &host, &Facts::default());
        (counted(&outcome, &worker), outcome)
    };
    let (counters, outcome) = ask(json!({}));
    assert_eq!(counters, ["refused_by_contention", "swaps_lost=64"]);
    let Outcome::Reply(reply, _) = outcome else { panic!() };
    assert_eq!((reply.status, &*reply.details), (429, "local_rate_limited{contention}"));
    assert_eq!(header(&reply, "retry-after").unwrap(), "1");
    for changes in [json!({"on_contention": "allow"}), json!({"mode": "shadow"})] {
        let (counters, outcome) = ask(changes);
        assert_eq!(counters, ["allowed.reason.contention", "swaps_lost=64"]);
        assert!(matches!(outcome, Outcome::Continue(_)));
    }
}

#[test]
fn a_host_that_does_not_share_lets_all_pass_and_says_so() {
    let (world, worker) = over(&json!({"rate": "1/h"}));
    world.forbids_sharing.set(true);
    let outcome = Asking(&world, &worker).ask(&get("/"));
    assert_eq!(counted(&outcome, &worker), ["allowed.reason.host_failure"]);
    assert_eq!(outcome.effects().log[0].level, Level::Error);
    world.forbids_sharing.set(false);
    world.now.set(u64::MAX);
    let outcome = Asking(&world, &worker).ask(&get("/"));
    assert_eq!(counted(&outcome, &worker), ["allowed.reason.host_failure"]);
}

#[test]
fn every_reason_to_pass_has_its_counter() {
    assert_eq!(Allowed::ALL.len() + 4, counters::COUNTERS.len());
    let most: Vec<Value> =
        (0..47).map(|n| json!({"name": format!("n{n}"), "match": {}, "rate": "1/s"})).collect();
    let worker = filter(&json!({"rate": "1/s", "descriptors": most}));
    assert!(counters::COUNTERS.len() + worker.own_counters().len() <= filter_api::CounterSet::MOST_OF_ONE);
    let more: Vec<Value> =
        (0..48).map(|n| json!({"name": format!("n{n}"), "match": {}, "rate": "1/s"})).collect();
    assert!(problems(&json!({"descriptors": more}))[0].contains("the most is 47"));
}
