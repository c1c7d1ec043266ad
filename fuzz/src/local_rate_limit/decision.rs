//! Decisions about hostile requests, by two workers that share cells, at whatever time.
//!
//! An input is a text, so that seeds can be read and written by hand. Its first line begins with a digit which
//! chooses the configuration. Each further line is a line of the head, `name: value`, or a step, `@step: value`:
//!
//! | step | what happens |
//! |---|---|
//! | `@ask: 1 20` | worker 1 decides about the request as it now is, 20 times |
//! | `@new: ` | the next lines are of a new request |
//! | `@forward: 1500`, `@back: 1500` | the clock goes by so many milliseconds; with `ns` at the end, nanoseconds |
//! | `@tick: 0` | worker 0 does what is due between requests |
//! | `@race: 3` | before each of the next 3 writes of a worker, the other decides about the rival |
//! | `@rival: ` | the rival is the request as it now is; until then it is the request that is decided about |
//! | `@fail: 2` | the next 2 calls for shared cells fail |
//! | `@peer: 192.0.2.1:80`, `@connection: 7` | whose request it is; nobody knows where there is no value |
//! | `@subject: alice`, `@claims: {"sub": "alice"}` | the claims of a verified token, from another module or from this one |

use filter_api::{Filter, HeadMap, HeaderName, Outcome};
use local_rate_limit::LocalRateLimit;
use serde_json::Value;

use super::laws::{Laws, retry_after};
use super::setups::{self, Setup};
use super::world::{Request, WORKERS, World};

/// The most decisions that an input may ask for, beside those of rivals.
const MOST_ASKED: usize = 60;

/// The latest that it can be: well before a clock of 64 bits ends, in the year 2116.
const LATEST: u64 = 1 << 62;

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// A worker decides about a request, so many times.
    Ask(usize, usize, Request),
    /// The clock goes forward by so many nanoseconds.
    Forward(u64),
    /// The clock is put back by so many nanoseconds.
    Back(u64),
    /// A worker does what is due between requests.
    Tick(usize),
    /// Before so many writes the other worker decides about this rival, or about the same request.
    Race(u32, Option<Request>),
    /// So many calls for shared cells fail.
    Fail(u32),
}

/// Reads an input, and checks all decisions. Returns how the last is counted.
pub fn run(input: &[u8]) -> &'static str {
    let (setup, steps) = read(input);
    check(setup, &steps)
}

/// Takes the steps, from a new world of the configuration at this place (any number is one), and panics where a law
/// is broken. Returns how the last decision is counted.
pub fn check(setup: usize, steps: &[Step]) -> &'static str {
    thread_local!(static SETUPS: Vec<Setup> = (0..setups::COUNT).map(setups::at).collect());
    SETUPS.with(|setups| run_of(&setups[setup % setups::COUNT], steps))
}

/// How many configurations there are.
pub const SETUPS: usize = setups::COUNT;

/// Whether two requests share a bucket, by a configuration whose buckets let one request pass.
pub fn share_a_bucket(config: &Value, one: &Request, other: &Request) -> bool {
    let worker = || LocalRateLimit::configure(config.to_string().as_bytes()).unwrap().filter;
    let world = World::new([worker(), worker()]);
    let passes = |worker, request| {
        let decided = world.ask(worker, request).pop().unwrap();
        matches!(decided.outcome, Outcome::Continue(_))
    };
    assert!(passes(0, one));
    !passes(1, other)
}

fn run_of(setup: &Setup, steps: &[Step]) -> &'static str {
    let world = World::new([(); WORKERS].map(|()| setup.filter()));
    let mut laws = Laws::new(setup);
    let (mut way, mut last) = ("nothing", None);
    let mut asked = 0;
    for step in steps {
        match step {
            Step::Ask(worker, times, request) => {
                for _ in 0..*times {
                    asked += 1;
                    if asked > MOST_ASKED {
                        break;
                    }
                    for decided in world.ask(*worker % WORKERS, request) {
                        way = laws.decided(&decided);
                    }
                    last = Some((*worker % WORKERS, request));
                }
            }
            Step::Forward(nanos) => {
                forward((*nanos).min(LATEST.saturating_sub(world.now())), &world, &mut laws);
            }
            Step::Back(nanos) => {
                laws.back();
                world.set_clock(world.now().saturating_sub(*nanos));
            }
            Step::Tick(worker) => laws.worked(&world.tick(*worker % WORKERS)),
            Step::Race(times, rival) => {
                laws.disturb();
                world.race(*times, rival.clone());
            }
            Step::Fail(calls) => {
                laws.disturb();
                world.fail(*calls);
            }
        }
        laws.shared(world.size());
    }
    if let Some((worker, request)) = last {
        who_waits_passes(&world, &mut laws, worker, request);
        laws.shared(world.size());
    }
    way
}

fn forward(nanos: u64, world: &World, laws: &mut Laws<'_>) {
    laws.forward(nanos);
    world.set_clock(world.now() + nanos);
}

/// Who is refused, and comes again after the time that it was told, passes.
fn who_waits_passes(world: &World, laws: &mut Laws<'_>, worker: usize, request: &Request) {
    world.race(0, None);
    world.fail(0);
    let ask = |laws: &mut Laws<'_>| {
        let decided = world.ask(worker, request).pop().unwrap();
        (laws.decided(&decided), decided.outcome)
    };
    let (_, Outcome::Reply(reply, _)) = ask(laws) else { return };
    let Some(seconds) = retry_after(&reply) else { return };
    forward(seconds * 1_000_000_000, world, laws);
    let (way, again) = ask(laws);
    assert!(!matches!(again, Outcome::Reply(..)), "{way}, after {seconds} s: {request:?}");
}

fn read(input: &[u8]) -> (usize, Vec<Step>) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next().and_then(|line| line.first()).copied().unwrap_or_default();
    let mut steps = Vec::new();
    let mut request = new_request();
    let mut rival = None;
    for line in lines {
        let Some(colon) = line.windows(2).position(|pair| pair == b": ") else { continue };
        let Ok(name) = std::str::from_utf8(&line[..colon]) else { continue };
        let mut value = line[colon + 2..].to_vec();
        // Envoy hands over no value with one of these bytes.
        value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        let text = String::from_utf8_lossy(&value);
        let number = || text.parse::<u32>().unwrap_or(1);
        match name {
            "@ask" => {
                let (worker, times) = text.split_once(' ').unwrap_or((&text, "1"));
                let worker = worker.parse().unwrap_or_default();
                steps.push(Step::Ask(worker, times.parse().unwrap_or(1), request.clone()));
            }
            "@new" => request = new_request(),
            "@forward" => steps.push(Step::Forward(nanos(&text))),
            "@back" => steps.push(Step::Back(nanos(&text))),
            "@tick" => steps.push(Step::Tick(text.parse().unwrap_or_default())),
            "@race" => steps.push(Step::Race(number(), rival.clone())),
            "@rival" => rival = Some(request.clone()),
            "@fail" => steps.push(Step::Fail(number().min(10))),
            "@peer" => request.peer = Some(value).filter(|value| !value.is_empty()),
            "@connection" => request.connection = text.parse().ok(),
            "@subject" => request.subject = Some(value),
            "@claims" => request.claims = serde_json::from_slice(&value).ok(),
            // There is one line of each of these.
            _ if name.starts_with(':') => request.head = request.head.with_only(name, value),
            _ if HeaderName::new(name).is_ok() => request.head = request.head.with(name, value),
            _ => {}
        }
    }
    (usize::from(first.wrapping_sub(b'0')), steps)
}

fn new_request() -> Request {
    Request::of(HeadMap::get("/"))
}

/// `1500` milliseconds, `1500ns`.
fn nanos(text: &str) -> u64 {
    match text.strip_suffix("ns") {
        Some(nanos) => nanos.parse().unwrap_or(1),
        None => text.parse::<u64>().unwrap_or(1).saturating_mul(1_000_000),
    }
}
