//! As much of Envoy as both sides of a comparison need: it performs operations, makes local replies, and tells of a
//! request that is over. And the chain, run by it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use filter_api::{
    Counter, CounterSet, Facts, Filter, Head, HeadMap, HeaderOp, HostMap, LocalReply, LogLine, Outcome,
    Property, Work,
};
use serde_json::Value;

use super::START;
use crate::Foregate;

/// A request, and what the upstream would say to it.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) request: HeadMap,
    pub(super) response: HeadMap,
    /// Nanoseconds since the one before.
    pub(super) wait: u64,
    pub(super) dice: u64,
    pub(super) source: &'static str,
    pub(super) connection: u64,
    pub(super) flags: u64,
    pub(super) duration: u64,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, response, wait, dice, source, connection, flags, duration } = self;
        write!(f, "{:?} -> {:?}; ", lines(request), lines(response))?;
        write!(f, "wait {wait}, dice {dice}, {source}, {connection}, flags {flags}, duration {duration}")
    }
}

/// What anybody could see of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) request: Vec<String>,
    /// Where a filter has answered.
    pub(super) reply: Option<LocalReply>,
    pub(super) response: Vec<String>,
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) log: Vec<LogLine>,
    pub(super) properties: BTreeMap<String, Vec<u8>>,
}

impl Seen {
    pub(super) fn count(&mut self, names: &[String], counters: CounterSet, counts: &[(Counter, u32)]) {
        let ones = counters.iter().map(|counter| (counter, 1));
        for (counter, by) in ones.chain(counts.iter().copied()) {
            *self.counts.entry(names[usize::from(counter.0)].clone()).or_default() += u64::from(by);
        }
    }

    pub(super) fn take(&mut self, names: &[String], work: Work, host: &HostMap) {
        self.count(names, work.counters, &work.counts);
        self.log.extend(work.log);
        publish(host, &work.properties);
    }
}

/// Performs operations.
pub(super) fn performed(head: &HeadMap, operations: &[HeaderOp]) -> HeadMap {
    operations.iter().fold(head.clone(), |head, operation| match operation {
        HeaderOp::Set(name, value) => head.with_only(name.as_str(), value.as_bytes()),
        HeaderOp::Add(name, value) => head.with(name.as_str(), value.as_bytes()),
        HeaderOp::Remove(name) => head.without(name.as_str()),
    })
}

/// The lines of a head: those of a name in their order, the names in any.
pub(super) fn lines(head: &HeadMap) -> Vec<String> {
    let mut lines: Vec<(&[u8], &[u8])> = head.lines().collect();
    lines.sort_by_key(|(name, _)| *name);
    lines.iter().map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii())).collect()
}

pub(super) fn publish(host: &HostMap, properties: &[Property]) {
    let mut all = host.properties.borrow_mut();
    all.extend(properties.iter().map(|it| (it.name.to_string(), it.value.as_bytes().to_vec())));
}

/// A new host for a list of exchanges.
pub(super) fn host(logs: bool) -> HostMap {
    let host = HostMap { logs, ..HostMap::at(START) };
    host.metadata.borrow_mut().insert("ns:a".to_owned(), b"of metadata".to_vec());
    *host.route_name.borrow_mut() = "orders".to_owned();
    host
}

/// A request comes.
pub(super) fn begin(host: &HostMap, exchange: &Exchange) {
    host.wait(exchange.wait);
    host.started.set(host.now.get());
    host.dice.set(exchange.dice);
    exchange.source.clone_into(&mut host.source_address.borrow_mut());
    host.connection.set(exchange.connection);
    host.properties.borrow_mut().clear();
    host.ended.borrow_mut().clear();
}

/// It is answered, by whomever.
pub(super) fn answer(host: &HostMap, exchange: &Exchange, reply: Option<&LocalReply>) -> HeadMap {
    let (status, details, response) = match reply {
        None => {
            let status = String::from_utf8_lossy(exchange.response.first(":status").unwrap()).into_owned();
            (status.parse().unwrap(), "via_upstream".to_owned(), exchange.response.clone())
        }
        Some(reply) => {
            let head = HeadMap::default().with(":status", reply.status.to_string());
            let lines = reply.headers.iter();
            let head = lines.fold(head, |head, (name, value)| head.with(name.as_str(), value.as_bytes()));
            (u64::from(reply.status), reply.details.to_string(), head)
        }
    };
    let number = |number: u64| number.to_le_bytes().to_vec();
    host.ended.borrow_mut().extend([
        ("response.code", number(status)),
        ("response.code_details", details.into_bytes()),
        ("response.flags", number(exchange.flags)),
        ("request.duration", number(exchange.duration)),
        ("upstream.address", b"192.0.2.9:8080".to_vec()),
    ]);
    response
}

/// A head that notes whether it was looked at.
struct Watched<'h> {
    head: &'h HeadMap,
    was_read: Cell<bool>,
}

impl<'h> Watched<'h> {
    fn new(head: &'h HeadMap) -> Self {
        Self { head, was_read: Cell::new(false) }
    }

    /// The law of operations: none is written over by a later one, and where the head was looked at none is for what
    /// is there already.
    fn check(&self, operations: &[HeaderOp]) {
        let name_of = |operation: &HeaderOp| match operation {
            HeaderOp::Set(name, _) | HeaderOp::Add(name, _) | HeaderOp::Remove(name) => name.clone(),
        };
        let after = performed(self.head, operations);
        for (place, operation) in operations.iter().enumerate() {
            let name = name_of(operation);
            let replaces = !matches!(operation, HeaderOp::Add(..));
            let is_first = operations[..place].iter().all(|other| name_of(other) != name);
            assert!(is_first || !replaces, "written over: {operations:?}");
            if self.was_read.get() {
                let own: Vec<&[u8]> = self.head.get_all(name.as_str()).collect();
                let new: Vec<&[u8]> = after.get_all(name.as_str()).collect();
                assert_ne!(own, new, "for nothing: {operations:?}");
                let only_adds = !own.is_empty() && new.starts_with(&own);
                assert!(!(only_adds && replaces), "more than adds lines: {operations:?}");
            }
        }
    }
}

impl Head for Watched<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.was_read.set(true);
        self.head.lines()
    }
}

/// What becomes of exchanges by a chain.
pub(super) fn by_chain(config: &Value, exchanges: &[Exchange], logs: bool) -> Vec<Seen> {
    let host = host(logs);
    let configured = Foregate::configure(config.to_string().as_bytes());
    let chain = configured.unwrap_or_else(|errors| panic!("{config:#}\n{errors}")).filter;
    let names = chain.counter_names();
    chain.on_start(&host);
    exchanges.iter().map(|exchange| one_by_chain(&chain, &names, &host, exchange)).collect()
}

fn one_by_chain(chain: &Foregate, names: &[String], host: &HostMap, exchange: &Exchange) -> Seen {
    use filter_api::Callback::{Log, RequestHeaders, ResponseHeaders};
    let mut seen = Seen::default();
    begin(host, exchange);
    seen.take(names, chain.on_tick(host), host);
    host.dice.set(exchange.dice);
    let watched = Watched::new(&exchange.request);
    let (reply, effects) = match chain.on_request(&watched, host, &Facts::default()) {
        Outcome::Continue(effects) => (None, effects),
        Outcome::Reply(reply, effects) => (Some(reply), effects),
        Outcome::Wait(..) => panic!("nothing to wait for"),
    };
    if !chain.needs(RequestHeaders) {
        assert!(reply.is_none() && effects.counters == CounterSet::default());
        assert!(effects.headers.is_empty() && effects.counts.is_empty() && effects.log.is_empty());
    }
    assert!(chain.needs(ResponseHeaders) || (effects.response.is_empty() && effects.kept.is_none()));
    watched.check(&effects.headers);
    let request = performed(&exchange.request, &effects.headers);
    publish(host, &effects.properties);
    seen.count(names, effects.counters, &effects.counts);
    seen.log.extend(effects.log);
    let response = answer(host, exchange, reply.as_ref());
    Watched::new(&response).check(&effects.response);
    let mut response = performed(&response, &effects.response);
    if let Some(kept) = effects.kept {
        assert!(effects.response.is_empty());
        let watched = Watched::new(&response);
        let done = chain.on_response(&kept, &watched, host);
        watched.check(&done.headers);
        seen.count(names, done.counters, &[]);
        seen.log.extend(done.log);
        response = performed(&response, &done.headers);
    }
    let work = chain.on_log(&request, &response, host, &effects.facts);
    assert!(chain.needs(Log) || work == Work::default());
    seen.take(names, work, host);
    seen.request = lines(&request);
    seen.response = lines(&response);
    seen.reply = reply;
    seen.properties = host.properties.take();
    seen
}
