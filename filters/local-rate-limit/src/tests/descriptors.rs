//! Which bucket a request is charged to.

use super::*;
use filter_api::Fact;
use std::sync::Arc;

/// How many of ten requests by turns of these two pass, where each bucket holds two tokens: 2 if they share
/// one, 4 if each has its own, 10 if the limit is not for them.
fn of_two(entries: Value, one: &HeadMap, other: &HeadMap) -> usize {
    let world = new_world();
    let worker = start_worker(&world, &json!({ "descriptors": [{ "entries": entries, "rate": "2/h" }] }));
    let asking = Asking(&world, &worker);
    (0..5).map(|_| asking.count(one, 1) + asking.count(other, 1)).sum()
}

#[test]
fn each_source_tells_its_values_apart() {
    let rows = [
        (json!([{"header": "X-Key"}]), get("/").with("x-key", "a"), get("/").with("x-key", "b"), 4),
        (json!([{"header": "x-key"}]), get("/").with("x-key", "a"), get("/").with("X-KEY", "a"), 2),
        (json!([{"header": "x-key"}]), get("/").with("x-key", "a"), get("/").with("x-key", [0xff]), 4),
        (
            json!([{"header": "x-key"}]),
            get("/").with("x-key", "a").with("x-key", "b"),
            get("/").with("x-key", "a,b"),
            2,
        ),
        (json!([{"header": "x-key"}]), get("/"), get("/"), 10),
        (json!([{"header": "x-key", "default_value": "none"}]), get("/"), get("/").with("x-key", "none"), 2),
        (json!(["path"]), get("/a?x=1"), get("/a?x=2"), 2),
        (json!(["path"]), get("/a"), get("/./%61"), 2),
        (json!(["path"]), get("/a"), get("/b"), 4),
        (json!(["method"]), get("/"), get("/").with_only(":method", "POST"), 4),
        (json!(["host"]), get("/"), get("/").with_only(":authority", "Gateway.Example:8080"), 2),
        (json!(["host"]), get("/"), get("/").with_only(":authority", "gateway.example."), 2),
        (json!(["host"]), get("/"), get("/").with_only(":authority", "other.example"), 4),
        (
            json!([{"cookie": "sid"}]),
            get("/").with("cookie", "a=1; sid=x"),
            get("/").with("cookie", "sid=\"x\""),
            2,
        ),
        (json!([{"cookie": "sid"}]), get("/").with("cookie", "sid=x"), get("/").with("cookie", "sid=y"), 4),
        (json!([{"cookie": "sid"}]), get("/").with("cookie", "xsid=x"), get("/"), 10),
        (json!([{"query": "key"}]), get("/?key=a%62"), get("/?x&%6bey=ab&key=c"), 2),
        (json!([{"query": "key"}]), get("/?key=a"), get("/?key=b"), 4),
        (json!([{"query": "key"}]), get("/key=a"), get("/"), 10),
        (json!([{"constant": "all"}]), get("/a"), get("/b"), 2),
        (
            json!([{"method": {}}, {"header": "x-key"}]),
            get("/").with("x-key", "a"),
            get("/").with("x-key", "b"),
            4,
        ),
        (json!([{"method": {}}, {"header": "x-key"}]), get("/"), get("/"), 10),
        // Two values are never one other: no separator can be forged.
        (
            json!([{"header": "a"}, {"header": "b"}]),
            get("/").with("a", "1").with("b", "23"),
            get("/").with("a", "12").with("b", "3"),
            4,
        ),
        (json!([{"header": "x", "value": "a"}]), get("/").with("x", "a"), get("/").with("x", "a"), 2),
        (json!([{"header": "x", "value": "a"}]), get("/").with("x", "b"), get("/"), 10),
        (json!([{"header": "x", "value": ["a", "b"]}]), get("/").with("x", "a"), get("/").with("x", "b"), 4),
    ];
    for (entries, one, other, expected) in rows {
        assert_eq!(of_two(entries.clone(), &one, &other), expected, "{entries}: {one:?} {other:?}");
    }
}

#[test]
fn clients_are_told_apart_by_their_networks() {
    let from = |address: &str| get("/").with("x-forwarded-for", format!("6.6.6.6, {address}, 10.0.0.1"));
    let rows = [
        (json!({"trusted_hops": 1}), "192.0.2.1", "192.0.2.2", 4),
        (json!({"trusted_hops": 1, "mask": {"v4": 24}}), "192.0.2.1", "192.0.2.2", 2),
        (json!({"trusted_hops": 1}), "2001:db8::1", "2001:db8::2", 2),
        (json!({"trusted_hops": 1, "mask": {"v6": 128}}), "2001:db8::1", "2001:db8::2", 4),
        (json!({"trusted_proxies": ["10.0.0.0/8"]}), "192.0.2.1", "192.0.2.2", 4),
        (json!({"trusted_proxies": ["10.0.0.0/8", "192.0.2.0/24"]}), "192.0.2.1", "192.0.2.2", 2),
        (json!({}), "192.0.2.1", "192.0.2.2", 2),
    ];
    for (settings, one, other, expected) in rows {
        let entries = json!([{ "client_address": settings }]);
        assert_eq!(of_two(entries, &from(one), &from(other)), expected, "{settings} {one} {other}");
    }
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "client_address": {"trusted_hops": 1}, "descriptors": [{"entries": ["client_address"], "rate": "2/h"}],
        }),
    );
    let asking = Asking(&world, &worker);
    assert_eq!(asking.count(&from("192.0.2.1"), 5) + asking.count(&from("192.0.2.2"), 5), 4);
}

#[test]
fn a_claim_is_taken_from_who_verified_it_and_never_from_the_client() {
    let world = new_world();
    let config = json!({"descriptors": [{"entries": [{"jwt_claim": "sub"}], "rate": "1/h"}]});
    let worker = start_worker(&world, &config);
    let asking = Asking(&world, &worker);
    let forged = get("/").with("foregate.jwt.sub", "a").with("authorization", "Bearer e30.eyJzdWIiOiJhIn0.");
    assert_eq!(asking.count(&forged, 5), 5);
    let says = |name: &str| world.properties.borrow_mut().insert("foregate.jwt.sub".to_owned(), name.into());
    says("alice");
    assert_eq!(asking.count(&get("/"), 5), 1);
    says("bob");
    assert_eq!(asking.count(&get("/"), 5), 1);
    // In the same module, from the facts of the filter before; they are the same buckets.
    let claims =
        |sub: &str| Fact::Claims { provider: "main".into(), claims: Arc::new(json!({ "sub": sub })) };
    world.properties.borrow_mut().clear();
    for (sub, passes) in [("alice", false), ("carol", true), ("carol", false)] {
        let facts = Facts([claims(sub)].into_iter().collect());
        let outcome = worker.on_request(&get("/"), &world, &facts);
        assert_eq!(matches!(outcome, Outcome::Continue(_)), passes, "{sub}");
    }
}

#[test]
fn some_values_have_buckets_of_another_shape() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({"descriptors": [{
            "name": "per-key",
            "entries": ["method", {
                "header": "x-key",
                "overrides": [{"value": "gold", "rate": "5/h"}, {"value": ["tin", "lead"], "rate": "1/h"}],
            }],
            "rate": "2/h",
        }]}),
    );
    let asking = Asking(&world, &worker);
    let count = |key: &str| asking.count(&get("/").with("x-key", key), 10);
    assert_eq!(["gold", "tin", "lead", "other", "another"].map(count), [5, 1, 1, 2, 2]);
    let other_method = get("/").with("x-key", "gold").with_only(":method", "POST");
    assert_eq!(asking.count(&other_method, 10), 5);
}

#[test]
fn a_limit_is_for_what_it_matches_however_its_path_is_read() {
    let world = new_world();
    let config = json!({"descriptors": [{"name": "login", "match": {"prefix": "/login"}, "rate": "3/h"}]});
    let worker = start_worker(&world, &config);
    let asking = Asking(&world, &worker);
    assert_eq!(asking.count(&get("/other"), 9), 9);
    assert!(
        asking.passes(&get("/login"))
            && asking.passes(&get("/x/..;/login"))
            && asking.passes(&get("//login"))
    );
    for path in ["/login", "/x/..;/login", "//login", "/login/../x", "/%6cogin?x"] {
        assert!(!asking.passes(&get(path)), "{path}");
    }
}

#[test]
fn all_are_charged_or_none() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "rate": "10/h",
            "descriptors": [{"name": "per-key", "entries": [{"header": "x-key"}], "rate": "3/h"}],
        }),
    );
    let asking = Asking(&world, &worker);
    let by = |key: &str| get("/").with("x-key", key);
    assert_eq!(asking.count(&by("a"), 9), 3);
    // The six that were refused have cost the default bucket nothing.
    assert_eq!(asking.count(&by("b"), 9), 3);
    assert_eq!(asking.count(&get("/"), 9), 4);
    // And what that refuses costs the keys nothing.
    assert_eq!(asking.count(&by("c"), 9), 0);
    assert_eq!(asking.refusal(&by("c")).details, "local_rate_limited{default}");
    world.wait(360 * SECOND);
    assert_eq!(asking.count(&by("c"), 9), 1);
    assert_eq!(asking.count(&by("a"), 9), 0);
}

#[test]
fn the_default_bucket_can_be_for_the_rest_alone() {
    let world = new_world();
    let config = |always: bool| {
        json!({
            "always_consume_default_token_bucket": always,
            "rate": "1/h",
            "descriptors": [{"entries": [{"header": "x-key"}], "rate": "3/h"}],
        })
    };
    let worker = start_worker(&world, &config(false));
    let asking = Asking(&world, &worker);
    let by_key = get("/").with("x-key", "a");
    assert_eq!((asking.count(&by_key, 9), asking.count(&get("/"), 9)), (3, 1));
    assert!(warnings(&config(false)).is_empty());
    let warned = warnings(&config(true));
    assert!(
        warned.len() == 1 && warned[0].starts_with("descriptors[0]: allows more than the default"),
        "{warned:?}"
    );
}

#[test]
fn keys_beyond_the_room_push_out_the_one_that_owes_the_least() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "max_dynamic_descriptors": 2,
            "descriptors": [{"entries": [{"header": "x-key"}], "rate": "2/m"}],
        }),
    );
    let asking = Asking(&world, &worker);
    let by = |key: &str| get("/").with("x-key", key);
    assert_eq!(asking.count(&by("a"), 9), 2);
    world.wait(SECOND);
    assert_eq!(asking.count(&by("b"), 9), 2);
    assert_eq!((asking.count(&by("a"), 9), asking.count(&by("b"), 9)), (0, 0));
    let third = asking.ask(&by("c"));
    assert_eq!(counted(&third, &worker), ["allowed.reason.within_limits", "keys_forgotten=1"]);
    // The oldest was forgotten, and begins anew; others did not move.
    assert_eq!(asking.count(&by("b"), 9), 0);
    // One that is full again takes no room: nothing need be forgotten.
    world.wait(120 * SECOND);
    let fourth = asking.ask(&by("d"));
    assert_eq!(counted(&fourth, &worker), ["allowed.reason.within_limits"]);
}

#[test]
fn a_flood_of_keys_does_not_grow_what_is_kept() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "max_dynamic_descriptors": 1000,
            "rate": "1000000/s",
            "descriptors": [{"entries": [{"header": "x-key"}], "rate": "1/h"}],
        }),
    );
    let asking = Asking(&world, &worker);
    for key in 0..30_000 {
        asking.ask(&get("/").with("x-key", key.to_string()));
    }
    let (cells, bytes) = world.cells.size();
    assert!(cells <= 65 && bytes <= 63 * 40 * cell::ENTRY + 100, "{cells} cells, {bytes} bytes");
    // The bucket of all is none of those that can be forgotten.
    assert!(bytes > 1000 * cell::ENTRY);
}

#[test]
fn nor_does_one_of_keys_with_another_shape() {
    let world = new_world();
    let worker = start_worker(
        &world,
        &json!({
            "max_dynamic_descriptors": 100,
            "descriptors": [{
                "entries": [{"header": "x-key"}, {"header": "x-plan", "overrides": [{"value": "gold", "rate": "2/h"}]}],
                "rate": "1/h",
            }],
        }),
    );
    let asking = Asking(&world, &worker);
    for key in 0..10_000 {
        let plan = if key % 2 == 0 { "gold" } else { "tin" };
        asking.ask(&get("/").with("x-key", key.to_string()).with("x-plan", plan));
    }
    let (cells, bytes) = world.cells.size();
    assert!(cells <= 8 && bytes <= 7 * 40 * cell::ENTRY + 100, "{cells} cells, {bytes} bytes");
}
