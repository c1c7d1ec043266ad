//! Who shares a bucket, and for how long.

use super::*;

#[test]
fn workers_share_a_bucket_unless_told_otherwise() {
    for (scope, expected) in [("process", 10), ("worker", 30)] {
        for config in [
            json!({"scope": scope, "rate": "10/h"}),
            json!({"scope": scope, "descriptors": [{"entries": ["client_address"], "rate": "10/h"}]}),
            json!({"descriptors": [{"scope": scope, "entries": ["client_address"], "rate": "10/h"}]}),
        ] {
            let world = new_world();
            let workers = [(); 3].map(|()| start_worker(&world, &config));
            let passed: usize =
                (0..20).flat_map(|_| &workers).map(|worker| Asking(&world, worker).count(&get("/"), 1)).sum();
            assert_eq!(passed, expected, "{config}");
        }
    }
}

#[test]
fn each_connection_can_have_its_own() {
    let world = new_world();
    for config in [
        json!({"scope": "connection", "rate": "10/h"}),
        json!({"local_rate_limit_per_downstream_connection": true, "rate": "10/h"}),
    ] {
        let worker = start_worker(&world, &config);
        let asking = Asking(&world, &worker);
        for connection in 1..4 {
            world.connection.set(connection);
            assert_eq!(asking.count(&get("/"), 20), 10, "{config}");
        }
        assert_eq!(world.cells.size().0, 1, "nothing but the seed is shared");
    }
}

#[test]
fn a_new_configuration_keeps_what_it_does_not_change() {
    let config = |per_key: &str, name: &str, lease: u32| {
        json!({
            "rate": "5/h",
            "lease": lease,
            "descriptors": [{"name": name, "entries": [{"header": "x-key"}], "rate": per_key}],
        })
    };
    for scope in ["process", "worker"] {
        let world = new_world();
        let ask = |mut config: Value, head: &HeadMap| {
            config["scope"] = scope.into();
            // Of this worker, as after a change of configuration.
            let filter = filter(&config);
            filter.on_start(&world);
            Asking(&world, &filter).count(head, 9)
        };
        let by_key = get("/").with("x-key", "a");
        assert_eq!(ask(config("2/h", "per-key", 0), &by_key), 2, "{scope}");
        assert_eq!(ask(config("2/h", "per-key", 0), &by_key), 0, "{scope}: nothing has changed");
        assert_eq!(ask(config("3/h", "per-key", 0), &by_key), 3, "{scope}: another rate");
        assert_eq!(
            ask(config("3/h", "by-key", 0), &get("/")),
            0,
            "{scope}: the default bucket was never another"
        );
        assert_eq!(
            ask(config("2/h", "per-key", 0), &by_key),
            0,
            "{scope}: the old one has not been forgotten"
        );
    }
}

#[test]
fn what_is_removed_is_forgotten() {
    let world = new_world();
    for number in 0..1000 {
        let config = json!({"descriptors": [{"name": format!("n{number}"), "match": {}, "rate": "10/s"}]});
        assert_eq!(Asking(&world, &start_worker(&world, &config)).count(&get("/"), 9), 9);
        world.wait(SECOND);
    }
    let (cells, bytes) = world.cells.size();
    assert!(cells == 2 && bytes <= 16 + 2 * cell::ENTRY, "{cells} cells, {bytes} bytes");
}

#[test]
fn a_lease_is_exact_to_its_bound() {
    const WORKERS: usize = 3;
    const LEASE: usize = 10;
    let world = new_world();
    let config = json!({"rate": "100/h", "lease": LEASE});
    let workers = [(); WORKERS].map(|()| start_worker(&world, &config));
    let count = |worker: &LocalRateLimit, times| Asking(&world, worker).count(&get("/"), times);
    // Two take one each, and so hold the rest of what they borrowed.
    assert_eq!((count(&workers[1], 1), count(&workers[2], 1)), (1, 1));
    let passed = count(&workers[0], 200);
    assert_eq!(passed, 100 - (WORKERS - 1) * LEASE);
    // What they do not spend is given back a second later, and nothing is lost or won.
    world.wait(SECOND);
    workers.iter().for_each(|worker| drop(worker.on_tick(&world)));
    assert_eq!(count(&workers[0], 200), (WORKERS - 1) * (LEASE - 1));
    assert_eq!(workers.iter().map(|worker| count(worker, 50)).sum::<usize>(), 0);
}

#[test]
fn a_lease_of_all_limits_is_not_for_those_that_are_smaller() {
    let config = |own: Value| {
        let mut config = json!({"rate": "100/h", "lease": 10, "descriptors": [{"match": {}, "rate": "9/h"}]});
        config["descriptors"][0]["lease"] = own;
        config
    };
    let leases =
        |config: &Value| filter(config).config.limits.iter().map(|limit| limit.lease).collect::<Vec<_>>();
    assert_eq!(leases(&config(Value::Null)), [10, 0]);
    assert_eq!(leases(&config(json!(3))), [10, 3]);
    assert!(
        problems(&config(json!(10)))[0]
            .starts_with("descriptors[0]: a lease of 10 is more than the bucket can hold (9)")
    );
    assert!(problems(&json!({"rate": "9/h", "lease": 10}))[0].starts_with("a lease of 10 is more than"));
}

#[test]
fn a_lease_spares_the_shared_cell() {
    let world = new_world();
    let worker = start_worker(&world, &json!({"rate": "1000/h", "lease": 100}));
    let asking = Asking(&world, &worker);
    let version = || world.cells.shared("foregate.local_rate_limit.f00000000").unwrap().unwrap().version;
    assert!(asking.passes(&get("/")));
    let first = version();
    assert_eq!(asking.count(&get("/"), 99), 99);
    assert_eq!(version(), first);
    assert!(asking.passes(&get("/")));
    assert_ne!(version(), first);
    // Held back in the bucket or here, they are all the same to who asks how many are left.
    let config = json!({"rate": "1000/h", "lease": 100, "enable_x_ratelimit_headers": "DRAFT_VERSION_03"});
    let worker = start_worker(&world, &config);
    let left = |outcome: Outcome| match &outcome.effects().response[1] {
        HeaderOp::Set(_, value) => String::from_utf8(value.as_bytes().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    let asking = Asking(&world, &worker);
    assert_eq!([0; 3].map(|_| left(asking.ask(&get("/")))), ["799", "798", "797"]);
}

#[test]
fn what_a_lease_has_of_a_bucket_is_not_what_another_shape_has() {
    let world = new_world();
    let filter_of = |rate: &str| {
        let filter = filter(&json!({"rate": rate, "lease": 5}));
        filter.on_start(&world);
        filter
    };
    assert_eq!(Asking(&world, &filter_of("10/h")).count(&get("/"), 3), 3);
    assert_eq!(Asking(&world, &filter_of("20/h")).count(&get("/"), 99), 20);
    let filter = filter_of("10/h");
    world.wait(SECOND);
    // The tokens of a limit that is gone go back as well.
    filter.on_tick(&world);
    assert!(!filter.worker.holds_any());
    assert_eq!(Asking(&world, &filter).count(&get("/"), 99), 7);
}
