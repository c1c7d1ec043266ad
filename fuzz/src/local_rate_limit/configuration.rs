//! Reading configurations: any bytes, most of which are none.

use filter_api::{Filter, HeadMap, Outcome};
use local_rate_limit::LocalRateLimit;
use local_rate_limit::config::Config;

use super::world::{Request, World};

/// The most limits that a configuration may have, the default one among them.
const MOST_LIMITS: usize = 48;

/// Reads an input as a configuration, and panics where a law is broken. Returns what became of it.
pub fn run(input: &[u8]) -> &'static str {
    let read = Config::read(input);
    assert_eq!(format!("{read:?}"), format!("{:?}", Config::read(input)), "the same bytes say the same");
    let problems = match &read {
        Ok((_, warnings)) => warnings,
        Err(errors) => &errors.0,
    };
    for problem in problems {
        let said = problem.to_string();
        assert!(
            !said.is_empty() && !said.chars().any(|char| char < ' '),
            "a line for each problem: {said:?}"
        );
        assert!(said.len() <= 500 + 10 * input.len(), "{said}");
    }
    match (LocalRateLimit::configure(input), LocalRateLimit::configure(input)) {
        (Ok(one), Ok(other)) => {
            assert!(read.is_ok());
            decides(one.filter, other.filter);
            if problems.is_empty() { "accepted" } else { "accepted with warnings" }
        }
        (Err(errors), Err(_)) => {
            assert!(read.is_err() && !errors.0.is_empty());
            match errors.0[0].message.starts_with("not valid JSON") {
                true => "not JSON",
                false => "refused",
            }
        }
        _ => panic!("the same bytes are accepted and refused"),
    }
}

/// Whatever was accepted has no more limits than it may, and decides.
fn decides(one: LocalRateLimit, other: LocalRateLimit) {
    let own = one.own_counters();
    assert!(own.len() <= 2 * MOST_LIMITS, "{} limits", own.len() / 2);
    let names: std::collections::BTreeSet<&String> = own.iter().collect();
    assert_eq!(names.len(), own.len(), "two limits of one name");
    let most = LocalRateLimit::COUNTERS.len() + own.len();
    assert!(most <= filter_api::CounterSet::MOST_OF_ONE);
    let world = World::new([one, other]);
    for (turn, request) in requests().iter().enumerate() {
        for _ in 0..3 {
            for decided in world.ask(turn % 2, request) {
                let effects = decided.outcome.effects();
                assert!(effects.counters.iter().all(|counter| usize::from(counter.0) < most));
                match &decided.outcome {
                    Outcome::Continue(_) => {}
                    Outcome::Reply(reply, _) => {
                        assert!((400..600).contains(&reply.status), "{reply:?}");
                        let line = |value: &[u8]| {
                            !value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
                        };
                        assert!(reply.headers.iter().all(|(_, value)| line(value.as_bytes())), "{reply:?}");
                    }
                    Outcome::Wait(..) => panic!("no request has to wait"),
                }
            }
        }
        world.set_clock(world.now() + 700_000_000);
        world.tick(turn % 2);
    }
}

/// A few requests that between them have what limits ask for.
fn requests() -> [Request; 4] {
    let login = HeadMap::get("/login?key=a&only=this")
        .with_only(":method", "POST")
        .with("x-key", "a")
        .with("x-cost", "7")
        .with("cookie", "sid=x")
        .with("x-forwarded-for", "192.0.2.7, 10.0.0.1");
    let mut signed = Request::of(HeadMap::get("/api/x").with("x-key", [0xff, b',']).with("x-plan", "gold"));
    signed.claims = Some(serde_json::json!({"sub": "alice", "realm": {"roles": ["dev"]}}));
    let mut unknown = Request::of(HeadMap::default());
    (unknown.peer, unknown.connection) = (None, None);
    [Request::of(HeadMap::get("/health")), Request::of(login), signed, unknown]
}
