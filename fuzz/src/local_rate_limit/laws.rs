//! What must hold of every decision, and of all of them together.
//!
//! The accounts are kept by what the filter says that it charged, in the header `ratelimit`. That it charges
//! whom it must is a law of its own, where that can be known without doing the filter's work again.

use std::collections::BTreeMap;

use filter_api::{Effects, Fact, HeaderOp, HeaderValue, LocalReply, LogLine, Outcome, Work};

use super::limits::{Limit, Scope, Shape};
use super::setups::Setup;
use super::world::{Decided, Request};

/// The laws, and what they must remember of a run.
pub(crate) struct Laws<'s> {
    setup: &'s Setup,
    /// How far the clock has gone forward, in nanoseconds, however often it was put back.
    forward: u128,
    /// Whether the clock was put back.
    put_back: bool,
    /// Whether workers were in each other's way, or calls failed.
    disturbed: bool,
    /// Whether buckets were forgotten for want of room; these begin anew.
    forgotten: bool,
    /// Different ones.
    requests: Vec<Request>,
    accounts: BTreeMap<Bucket, Account>,
}

/// What was taken from a bucket.
struct Account {
    spent: u128,
    /// What it holds, if it is followed exactly: tokens times the nanoseconds of a fill.
    level: u128,
    /// When that was.
    at: u128,
}

/// What is known to be one bucket. Different requests may have the same bucket, but the same request has no two.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    limit: usize,
    shape: usize,
    worker: Option<usize>,
    connection: Option<u64>,
    request: Option<usize>,
}

/// How a limit stands, as clients are told.
struct Told<'s> {
    place: usize,
    limit: &'s Limit,
    shape: usize,
    remaining: u128,
    seconds: u128,
}

impl<'s> Laws<'s> {
    pub(crate) fn new(setup: &'s Setup) -> Self {
        Self {
            setup,
            forward: 0,
            put_back: false,
            disturbed: false,
            forgotten: false,
            requests: Vec::new(),
            accounts: BTreeMap::new(),
        }
    }

    /// The clock has gone forward.
    pub(crate) fn forward(&mut self, nanos: u64) {
        self.forward += u128::from(nanos);
    }

    /// The clock was put back.
    pub(crate) fn back(&mut self) {
        self.put_back = true;
    }

    /// Workers will be in each other's way, or calls will fail.
    pub(crate) fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Holds a decision to the laws, and returns how it is counted.
    pub(crate) fn decided(&mut self, decided: &Decided) -> &'static str {
        let Decided { worker, request, outcome } = decided;
        let effects = outcome.effects();
        let (way, over) = self.way(effects);
        assert_sound(effects, over);
        let lines = match outcome {
            Outcome::Continue(_) => effects.response.iter().map(set).collect(),
            Outcome::Reply(reply, _) => {
                reply.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect::<Vec<_>>()
            }
            Outcome::Wait(..) => panic!("no request has to wait"),
        };
        let told = self.told(&lines);
        match outcome {
            Outcome::Reply(reply, _) => self.assert_refused(reply, over.unwrap(), request, &told),
            _ => assert!(way.starts_with("allowed.reason."), "{way}"),
        }
        match way {
            "allowed.reason.host_failure" => {
                assert!(self.disturbed || request.connection.is_none(), "{request:?}")
            }
            "allowed.reason.contention" | "refused_by_contention" => assert!(self.disturbed),
            "allowed.reason.exempt" | "allowed.reason.not_enabled" => assert!(self.setup.leaves_out),
            _ => self.assert_all_are_charged(request, &told),
        }
        for told in &told {
            self.charge(told, *worker, request, way == "allowed.reason.within_limits");
        }
        way
    }

    /// Holds what a worker did between requests to the laws.
    pub(crate) fn worked(&self, work: &Work) {
        assert!(self.disturbed || work.counts.is_empty(), "tokens were lost: {work:?}");
        assert!(work.log.is_empty() && !work.resume, "{work:?}");
    }

    /// Holds what is shared to the laws.
    pub(crate) fn shared(&self, (cells, bytes): (usize, usize)) {
        let most: usize = self.setup.limits.iter().map(|limit| limit.most_kept).sum();
        // The seed of the hashes, and 24 bytes for each bucket.
        assert!(
            cells <= 1 + most && bytes <= 16 + 24 * most,
            "{cells} cells with {bytes} bytes for {most} buckets"
        );
    }

    /// The counter that says how the request fared, of which there is one; and the limit that it is over.
    fn way(&mut self, effects: &Effects) -> (&'static str, Option<&'static str>) {
        let name = |counter: filter_api::Counter| self.setup.counters[usize::from(counter.0)];
        let (ways, others): (Vec<_>, Vec<_>) =
            effects.counters.iter().map(name).partition(|name| !name.starts_with("shadow_refused.limit."));
        let [way] = ways[..] else { panic!("{ways:?}") };
        let over = match way {
            "allowed.reason.shadow" | "allowed.reason.not_enforced" => {
                others[0].strip_prefix("shadow_refused.limit.")
            }
            "refused_by_contention" => Some("contention"),
            _ => way.strip_prefix("refused.limit."),
        };
        assert_eq!(
            others.len(),
            usize::from(way.starts_with("allowed.") && over.is_some()),
            "{way} {others:?}"
        );
        for (counter, count) in &effects.counts {
            assert!(*count > 0);
            match name(*counter) {
                "keys_forgotten" => self.forgotten = true,
                other => assert!(self.disturbed, "{count} {other}"),
            }
        }
        (way, over)
    }

    /// What the headers tell, which must agree with each other.
    fn told(&self, lines: &[(&str, String)]) -> Vec<Told<'s>> {
        let line = |name: &str| {
            let mut values = lines.iter().filter(|(own, _)| *own == name);
            let value = values.next().map(|(_, value)| value.as_str());
            assert!(values.next().is_none(), "two lines of {name}");
            value
        };
        let list = |name| line(name).into_iter().flat_map(|list| list.split(", ")).collect::<Vec<_>>();
        let (policies, standings) = (list("ratelimit-policy"), list("ratelimit"));
        assert_eq!(policies.len(), standings.len());
        let pairs = policies.into_iter().zip(standings);
        let told: Vec<Told<'s>> = pairs.map(|(policy, standing)| self.of_limit(policy, standing)).collect();
        for (number, one) in told.iter().enumerate() {
            assert!(
                told[..number].iter().all(|other| other.place != one.place),
                "charged twice by one limit"
            );
        }
        if let Some(most) = line("x-ratelimit-limit") {
            let number = |name| line(name).unwrap().parse::<u128>().unwrap();
            let (most, left) = (most.parse().unwrap(), number("x-ratelimit-remaining"));
            let seconds = number("x-ratelimit-reset");
            let same = |told: &Told<'_>| {
                (told.limit.shapes[told.shape].max_tokens, told.remaining, told.seconds)
                    == (most, left, seconds)
            };
            assert!(told.iter().any(same) && told.iter().all(|told| told.remaining >= left), "{lines:?}");
        }
        told
    }

    /// Reads `"name";q=10;w=60` and `"name";r=9;t=6`.
    fn of_limit(&self, policy: &str, standing: &str) -> Told<'s> {
        let parts = |text: &str, first: &str, second: &str| {
            let (name, rest) = text.strip_prefix('"')?.split_once("\";")?;
            let (one, other) = rest.split_once(';')?;
            let number = |text: &str, key: &str| text.strip_prefix(key)?.parse::<u128>().ok();
            Some((name.to_owned(), number(one, first)?, number(other, second)?))
        };
        let (name, most, window) = parts(policy, "q=", "w=").unwrap();
        let (same_name, remaining, seconds) = parts(standing, "r=", "t=").unwrap();
        assert_eq!(name, same_name);
        let (place, limit) =
            self.setup.limits.iter().enumerate().find(|(_, limit)| limit.name == name).unwrap();
        let is = |shape: &Shape| (shape.max_tokens, shape.seconds()) == (most, window);
        let shape = limit.shapes.iter().position(is).unwrap();
        // By a clock that was put back a little it takes that much longer.
        assert!(remaining <= most && seconds <= window + 1, "{policy} {standing}");
        Told { place, limit, shape, remaining, seconds }
    }

    fn assert_refused(&self, reply: &LocalReply, over: &str, request: &Request, told: &[Told<'_>]) {
        assert_eq!((reply.status, reply.grpc_status), (self.setup.status, self.setup.grpc_status));
        assert_eq!(
            (&*reply.body, &*reply.details),
            (&*self.setup.body, &*format!("local_rate_limited{{{over}}}"))
        );
        let wait = retry_after(reply).map(u128::from);
        let Some(told) = told.iter().find(|told| told.limit.name == over) else {
            assert_eq!((over, wait), ("contention", Some(1)));
            return;
        };
        let shape = &told.limit.shapes[told.shape];
        let cost = told.limit.cost(request, shape);
        assert!(told.remaining < cost, "refused with {} tokens where {cost} are enough", told.remaining);
        match wait {
            None => assert_eq!(shape.max_tokens, 0, "refused for ever"),
            Some(wait) => assert!((1..=shape.seconds() + 1).contains(&wait), "{wait} s for {shape:?}"),
        }
    }

    /// No request gets around a limit that is for it whatever it contains.
    fn assert_all_are_charged(&self, request: &Request, told: &[Told<'_>]) {
        for (place, limit) in self.setup.limits.iter().enumerate() {
            let is_charged = told.iter().any(|told| told.place == place);
            if place == 0 && self.setup.default_is_fallback {
                let others = told.len() - usize::from(is_charged);
                assert_eq!(is_charged, others == 0, "{request:?}");
            } else {
                let must = limit.for_all || (limit.for_known_peers && request.peer.is_some());
                assert!(is_charged || !must, "{} is not charged for {request:?}", limit.name);
            }
        }
    }

    /// Notes what was charged, and holds the bucket to its law.
    fn charge(&mut self, told: &Told<'_>, worker: usize, request: &Request, passed: bool) {
        let Told { limit, shape: which, remaining, .. } = *told;
        let shape = &limit.shapes[which];
        let of_connection = limit.scope == Scope::Connection;
        if self.forgotten && (!limit.is_one || of_connection) {
            return;
        }
        let bucket = Bucket {
            limit: told.place,
            shape: which,
            worker: (limit.scope != Scope::Process).then_some(worker),
            connection: request.connection.filter(|_| of_connection),
            request: (!limit.is_one).then(|| {
                let known = self.requests.iter().position(|known| known == request);
                known.unwrap_or_else(|| {
                    self.requests.push(request.clone());
                    self.requests.len() - 1
                })
            }),
        };
        let full = shape.max_tokens * shape.fill_nanos;
        let cost = if passed { limit.cost(request, shape) } else { 0 };
        let most = shape.max_tokens + shape.flow(self.forward);
        let new = || Account { spent: 0, level: full, at: self.forward };
        let account = self.accounts.entry(bucket).or_insert_with(new);
        account.spent += cost;
        assert!(account.spent <= most, "{} of {most} tokens of {}: {request:?}", account.spent, limit.name);
        // A bucket that all use is known to the last drop.
        if limit.is_one && !limit.leases && !self.put_back && !self.disturbed {
            account.level = full.min(account.level + (self.forward - account.at) * shape.tokens_per_fill);
            account.at = self.forward;
            account.level = account.level.checked_sub(cost * shape.fill_nanos).unwrap();
            assert_eq!(account.level / shape.fill_nanos, remaining, "{}", limit.name);
        }
    }
}

/// The seconds to wait of a refusal.
pub(crate) fn retry_after(reply: &LocalReply) -> Option<u64> {
    let mut lines = reply.headers.iter().filter(|(name, _)| name.as_str() == "retry-after");
    let (_, value) = lines.next()?;
    assert!(lines.next().is_none());
    Some(text(value).parse().unwrap())
}

fn text(value: &HeaderValue) -> String {
    assert!(!value.as_bytes().iter().any(|byte| byte.is_ascii_control()), "{value:?}");
    String::from_utf8(value.as_bytes().to_vec()).unwrap()
}

fn set(operation: &HeaderOp) -> (&str, String) {
    match operation {
        HeaderOp::Set(name, value) => (name.as_str(), text(value)),
        other => panic!("{other:?}"),
    }
}

/// What is written besides is of the configuration, and says the same as the counters.
fn assert_sound(effects: &Effects, over: Option<&str>) {
    for operation in &effects.headers {
        let (HeaderOp::Set(name, value) | HeaderOp::Add(name, value)) = operation else {
            panic!("{operation:?}");
        };
        text(value);
        assert!(!name.as_str().starts_with(':') && over.is_some(), "{operation:?}");
    }
    for property in &effects.properties {
        assert_eq!(Some(text(&property.value).as_str()), over);
    }
    for fact in &effects.facts.0 {
        assert!(matches!(fact, Fact::Refused { reason, .. } if Some(&**reason) == over), "{fact:?}");
    }
    assert_eq!(effects.facts.0.len(), usize::from(over.is_some()));
    for LogLine { text, .. } in &effects.log {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
