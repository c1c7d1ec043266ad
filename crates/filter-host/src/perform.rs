//! Performs what a filter decided: the one place where effects reach the host.

use filter_api::{
    Counter, CounterSet, Effects, GrpcStatus, HeaderOp, HostFailed, Level, LocalReply, LogLine,
    OnHostFailure, Property, Protocol,
};

use crate::calls::{self, Headers};
use crate::metrics::Metrics;

/// What the host is to do with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    Continue,
    /// It was answered.
    Answered,
}

/// Applies the effects on a request, and says whether all edits could be made.
pub(crate) fn apply<K>(metrics: &Metrics, effects: &Effects<K>) -> bool {
    let Effects { headers, response: _, kept: _, counters, counts, facts: _, properties, log } = effects;
    observe(metrics, *counters, counts, log);
    let edited = edit(Headers::Request, headers);
    // Who reads one that could not be set finds it missing; nobody's request fails for that.
    let _ = publish(properties);
    edited
}

/// Sets properties, and says whether all could be.
pub(crate) fn publish(properties: &[Property]) -> bool {
    let set = |property: &Property| calls::set_property(&property.name, &property.value).is_ok();
    properties.iter().fold(true, |all, property| set(property) && all)
}

/// Performs operations on headers, and says whether all could be.
pub(crate) fn edit(headers: Headers, operations: &[HeaderOp]) -> bool {
    operations.iter().all(|operation| calls::edit(headers, operation).is_ok())
}

/// Counts and logs.
pub(crate) fn observe<'l>(
    metrics: &Metrics,
    counters: CounterSet,
    counts: &[(Counter, u32)],
    log: impl IntoIterator<Item = &'l LogLine>,
) {
    metrics.count(counters);
    counts.iter().for_each(|(counter, by)| metrics.add(*counter, *by));
    for line in log {
        calls::log(line.level, &line.text);
    }
}

/// Answers the request, in this protocol.
pub(crate) fn answer(reply: &LocalReply, protocol: Protocol) -> Verdict {
    let grpc_status = match protocol {
        // Envoy would make any other status into a plain 200 for a caller who expects HTTP.
        Protocol::Http => -1,
        Protocol::Grpc => reply.grpc_status as i32,
    };
    let sent =
        calls::send_local_response(reply.status, &reply.details, &reply.body, &reply.headers, grpc_status);
    if let Err(HostFailed(status)) = sent {
        // Only a restriction of capabilities does this. Going on would let the request pass, and
        // waiting would let it hang: a trap ends it with 503, as `failure_policy` says.
        calls::log(Level::Error, &format!("the host refused proxy_send_local_response: {status}; allow it"));
        std::process::abort();
    }
    Verdict::Answered
}

/// What the filter's policy says where the host failed it.
pub(crate) fn failed(filter: &str, policy: OnHostFailure, what: &'static str) -> Verdict {
    calls::log(Level::Error, &format!("{filter}: {what}"));
    match policy {
        OnHostFailure::Pass => Verdict::Continue,
        OnHostFailure::Refuse => {
            let reply = LocalReply {
                status: 503,
                grpc_status: GrpcStatus::Unavailable,
                details: format!("{filter}{{{what}}}").into(),
                headers: Vec::new(),
                body: "".into(),
            };
            answer(&reply, Protocol::Http)
        }
    }
}
