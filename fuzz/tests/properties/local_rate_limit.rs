//! local_rate_limit: hostile heads at any time, values that must not be taken for each other, and configurations that
//! are nearly good.

use std::net::IpAddr;

use filter_api::HeadMap;
use fuzz_targets::local_rate_limit::configuration;
use fuzz_targets::local_rate_limit::decision::{SETUPS, Step, check, share_a_bucket};
use fuzz_targets::local_rate_limit::world::Request;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::{any_json, head_value};

/// A value that means something somewhere, or any bytes.
fn telling_value() -> impl Strategy<Value = Vec<u8>> {
    let telling = select(vec![
        "a",
        "gold",
        "tin",
        "GET",
        "POST",
        "1",
        "7",
        "4294967295",
        "sid=x",
        "sid=\"x\"; sid=y",
        "192.0.2.1",
        "10.0.0.1",
        "1.1.1.1, 10.0.0.1",
        "[2001:db8::1]:80, ::ffff:10.0.0.1",
        "api.example:80",
        "",
    ]);
    prop_oneof![3 => telling.prop_map(|text| text.as_bytes().to_vec()), 1 => head_value()]
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let telling = select(vec![
        "/",
        "/login",
        "/x/..;/login",
        "/health",
        "/never",
        "/free/x",
        "/huge",
        "/?key=a&only=this",
        "/%2e%2e//a?key=%zz",
        "*",
        "",
    ]);
    prop_oneof![3 => telling.prop_map(|text| text.as_bytes().to_vec()), 1 => head_value()]
}

fn request() -> impl Strategy<Value = Request> {
    let name = select(vec![
        ":method",
        ":authority",
        "x-key",
        "X-Key",
        "x-plan",
        "x-zone",
        "x-cost",
        "x-internal",
        "cookie",
        "x-forwarded-for",
        "content-type",
        "foregate.jwt.sub",
        "other",
    ]);
    let peer = prop_oneof![
        4 => select(vec!["192.0.2.1:1", "192.0.2.70:1", "[2001:db8::1]:443", "@/tmp/x"])
            .prop_map(|text| Some(text.as_bytes().to_vec())),
        1 => head_value().prop_map(Some),
        1 => Just(None),
    ];
    let connection = prop_oneof![4 => (1_u64..4).prop_map(Some), 1 => Just(None)];
    let subject = prop_oneof![2 => Just(None), 1 => telling_value().prop_map(Some)];
    let claims = prop_oneof![3 => Just(None), 1 => any_json().prop_map(|sub| Some(json!({ "sub": sub })))];
    (path(), vec((name, telling_value()), 0..6), peer, connection, subject, claims).prop_map(
        |(path, lines, peer, connection, subject, claims)| {
            let head = HeadMap::get("/").with_only(":path", path);
            let head = lines.iter().fold(head, |head, (name, value)| match name.strip_prefix(':') {
                Some(_) => head.with_only(name, value),
                None => head.with(name, value),
            });
            Request { head, peer, connection, subject, claims }
        },
    )
}

/// Steps over a few requests, so that buckets run empty.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(request(), 1..4).prop_flat_map(|requests| {
        let one = || select(requests.clone());
        let nanos = || prop_oneof![0_u64..3_000_000_000, 0_u64..100_000_000_000, any::<u64>()];
        let step = prop_oneof![
            8 => (0_usize..2, 1_usize..9, one()).prop_map(|(worker, times, it)| Step::Ask(worker, times, it)),
            2 => nanos().prop_map(Step::Forward),
            1 => nanos().prop_map(Step::Back),
            1 => (0_usize..2).prop_map(Step::Tick),
            1 => (1_u32..4, one()).prop_map(|(times, rival)| Step::Race(times, Some(rival))),
            1 => (1_u32..3).prop_map(Step::Fail),
        ];
        vec(step, 1..14)
    })
}

/// A configuration of one limit with these entries, whose buckets hold one token.
fn one_of_each(entries: &Value) -> Value {
    json!({"descriptors": [{"name": "one", "entries": entries, "rate": "1/h"}]})
}

fn address() -> impl Strategy<Value = IpAddr> {
    // None of them a proxy of ours.
    prop_oneof![
        (0_u8..4, any::<u16>()).prop_map(|(net, host)| IpAddr::from([
            203,
            net,
            (host >> 8) as u8,
            host as u8
        ])),
        any::<(u16, u16)>().prop_map(|(net, host)| IpAddr::from([0x2001, 0xdb8, net, 0, 0, 0, 0, host])),
    ]
}

/// How a proxy may write an address.
fn written(address: IpAddr, how: usize) -> String {
    match (address, how % 4) {
        (IpAddr::V4(address), 1) => format!("{}", address.to_ipv6_mapped()),
        (_, 2) => std::net::SocketAddr::from((address, 4711)).to_string(),
        (IpAddr::V6(address), 3) => format!("[{address}]"),
        _ => address.to_string(),
    }
}

/// A request that came by proxies: after whatever the client wrote, each has appended whom it was called from.
fn forwarded(forged: &[Vec<u8>], appended: &[String], lines: bool) -> Request {
    let mut head = HeadMap::get("/");
    let mut own = forged.to_vec();
    let mut last = own.pop().unwrap_or_default();
    head = own.iter().fold(head, |head, line| head.with("x-forwarded-for", line));
    for entry in appended {
        if lines {
            head = head.with("X-Forwarded-For", &last);
            last.clear();
        } else if !last.is_empty() {
            last.extend(b", ");
        }
        last.extend(entry.bytes());
    }
    Request::of(head.with("x-forwarded-for", last))
}

/// What stands where, such that a member of the one may be put into the other.
fn good_configurations() -> Vec<Value> {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/local_rate_limit_configuration");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.into_iter().map(|file| std::fs::read(file).unwrap());
    let good: Vec<Value> = texts
        .filter(|text| configuration::run(text).starts_with("accepted"))
        .map(|text| serde_json::from_slice(&text).unwrap())
        .collect();
    assert!(good.len() >= 10);
    good
}

/// A change to a configuration: the member or item at a place becomes another, or goes.
fn change() -> impl Strategy<Value = (Index, Option<Value>)> {
    let telling = select(vec![
        json!(0),
        json!(1),
        json!(7),
        json!(1e3),
        json!(4_294_967_295_u32),
        json!(4_294_967_296_u64),
        json!(-1),
        json!(0.5),
        json!("2/s"),
        json!("1/d"),
        json!("0.05s"),
        json!("60s"),
        json!("31622400s"),
        json!("worker"),
        json!("process"),
        json!("shadow"),
        json!("x-key"),
        json!("a b"),
        json!(true),
        json!(false),
        json!([]),
        json!({}),
        json!("client_address"),
        json!([{"header": "x-key"}]),
        json!(["client_address", "path"]),
        json!({"prefix": "/"}),
        json!("10.0.0.0/8"),
        json!({"numerator": 50}),
        json!({"header": "x-cost", "min": 0, "max": 9}),
        json!("\r\n"),
        json!("%"),
    ]);
    let value = prop_oneof![
        1 => Just(None),
        4 => telling.prop_map(Some),
        1 => any_json().prop_map(Some),
    ];
    (any::<Index>(), value)
}

/// Every place in a value but the whole of it, as JSON pointers.
fn places(value: &Value, place: &str, into: &mut Vec<String>) {
    let mut add = |name: &str, inner: &Value| {
        let place = format!("{place}/{name}");
        into.push(place.clone());
        places(inner, &place, into);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| add(name, inner)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, inner)| add(&at.to_string(), inner)),
        _ => {}
    }
}

fn changed(mut config: Value, changes: &[(Index, Option<Value>)]) -> Value {
    for (which, change) in changes {
        let mut all = Vec::new();
        places(&config, "", &mut all);
        if all.is_empty() {
            break;
        }
        let place = which.get(&all);
        // A name with a slash in it is not found.
        let Some(found) = config.pointer_mut(place) else { continue };
        *found = change.clone().unwrap_or_default();
    }
    config
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Whatever comes, whenever, to whichever worker.
    #[test]
    fn every_law_holds_for_decisions(setup in 0..SETUPS, steps in steps()) {
        check(setup, &steps);
    }

    /// What a client writes before its proxies do neither helps it, nor harms others.
    #[test]
    fn a_client_is_who_its_proxies_say(
        clients in (address(), address()),
        proxies in vec(any::<u16>(), 0..3),
        forged in (vec(head_value(), 0..3), vec(head_value(), 0..3)),
        how in vec(0_usize..4, 4),
        lines in any::<bool>(),
        trusted_hops in any::<bool>(),
        mask in (0_u8..33, 0_u8..129),
    ) {
        let proxies: Vec<IpAddr> =
            proxies.iter().map(|host| IpAddr::from([10, 0, (host >> 8) as u8, *host as u8])).collect();
        let mut client_address = json!({"mask": {"v4": mask.0, "v6": mask.1}});
        if trusted_hops {
            client_address["trusted_hops"] = json!(proxies.len());
        } else {
            client_address["trusted_proxies"] = json!(["10.0.0.0/8"]);
        }
        let config = one_of_each(&json!([{ "client_address": client_address }]));
        let of = |client: IpAddr, forged: &[Vec<u8>], how: &[usize]| {
            let chain = std::iter::once(client).chain(proxies.iter().copied());
            let appended: Vec<String> = chain.zip(how).map(|(address, how)| written(address, *how)).collect();
            forwarded(forged, &appended, lines)
        };
        let same = match clients {
            (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= mask.0.into(),
            (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= mask.1.into(),
            _ => false,
        };
        let one = of(clients.0, &forged.0, &how);
        let other_how: Vec<usize> = how.iter().rev().copied().collect();
        prop_assert!(share_a_bucket(&config, &one, &of(clients.0, &forged.1, &other_how)));
        prop_assert_eq!(share_a_bucket(&config, &one, &of(clients.1, &forged.1, &other_how)), same);
    }

    /// Keys are the same if all their values are, and no two values are another.
    #[test]
    fn keys_are_told_apart_by_every_byte(
        one in (head_value(), head_value(), "[ -~]{0,3}"),
        other in (head_value(), head_value(), "[ -~]{0,3}"),
        swaps in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let entries = json!([{"header": "a"}, {"header": "b"}, {"query": "c"}]);
        let of = |(a, b, c): &(Vec<u8>, Vec<u8>, String)| {
            let query: String = c.bytes().map(|byte| format!("%{byte:02x}")).collect();
            Request::of(HeadMap::get(&format!("/?b=x&%63={query}&c=y")).with("b", b).with("a", a))
        };
        // Often much the same.
        let other = (
            if swaps.0 { one.0.clone() } else { other.0 },
            if swaps.1 { one.1.clone() } else { other.1 },
            if swaps.2 { one.2.clone() } else { other.2 },
        );
        prop_assert_eq!(share_a_bucket(&one_of_each(&entries), &of(&one), &of(&other)), one == other);
    }

    /// Any bytes, and any JSON, for a configuration.
    #[test]
    fn configurations_of_any_shape(bytes in vec(any::<u8>(), 0..200), value in any_json(), entries in any_json()) {
        configuration::run(&bytes);
        configuration::run(value.to_string().as_bytes());
        let wrapped = json!({"rate": "1/s", "exempt": value, "descriptors": [{"name": "x", "rate": "1/m", "entries": entries}]});
        configuration::run(wrapped.to_string().as_bytes());
    }

    /// Good ones with a few changes.
    #[test]
    fn configurations_that_are_nearly_good(
        config in select(good_configurations()),
        changes in vec(change(), 0..4),
    ) {
        configuration::run(changed(config, &changes).to_string().as_bytes());
    }
}

/// The strategies make what they should: requests that pass and that are refused, in every configuration; and
/// configurations that are accepted, and that are not.
#[test]
fn all_kinds_are_among_those_made_up() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut passed, mut over) = ([0; SETUPS], [0; SETUPS]);
    for round in 0..100 * SETUPS {
        let way = check(round % SETUPS, &steps().new_tree(&mut runner).unwrap().current());
        passed[round % SETUPS] += usize::from(way.starts_with("allowed.") && way != "allowed.reason.shadow");
        over[round % SETUPS] +=
            usize::from(way.starts_with("refused.limit.") || way == "allowed.reason.shadow");
    }
    assert!(passed.iter().chain(&over).all(|count| *count >= 5), "{passed:?} {over:?}");
    let good = good_configurations();
    let mut accepted = 0;
    for round in 0..600 {
        let changes = vec(change(), 0..4).new_tree(&mut runner).unwrap().current();
        let config = changed(good[round % good.len()].clone(), &changes);
        accepted += usize::from(configuration::run(config.to_string().as_bytes()).starts_with("accepted"));
    }
    assert!((100..500).contains(&accepted), "{accepted}");
}
