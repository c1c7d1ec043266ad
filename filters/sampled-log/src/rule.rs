//! Conditions on requests that are over.

use std::cell::OnceCell;

use filter_api::config::{Node, Object, StatusRange};
use filter_api::matcher::{PathView, RequestMatcher};
use filter_api::{Attribute, Facts, Head, Host, Protocol, ResponseFlags};
use serde_json::Value;

use crate::number;

/// A request that is over, as far as anybody has asked.
pub(crate) struct Ended<'a, Q, R, T> {
    pub(crate) request: &'a Q,
    pub(crate) response: &'a R,
    pub(crate) host: &'a T,
    pub(crate) facts: &'a Facts,
    status: OnceCell<u64>,
    flags: OnceCell<ResponseFlags>,
    duration: OnceCell<u64>,
    details: OnceCell<Vec<u8>>,
    path: OnceCell<PathView<'a>>,
}

impl<'a, Q: Head, R: Head, T: Host> Ended<'a, Q, R, T> {
    pub(crate) fn new(request: &'a Q, response: &'a R, host: &'a T, facts: &'a Facts) -> Self {
        Self {
            request,
            response,
            host,
            facts,
            status: OnceCell::new(),
            flags: OnceCell::new(),
            duration: OnceCell::new(),
            details: OnceCell::new(),
            path: OnceCell::new(),
        }
    }

    /// 0 where no response was sent.
    pub(crate) fn status(&self) -> u64 {
        *self.status.get_or_init(|| number(self.host, Attribute::ResponseCode).unwrap_or(0))
    }

    fn flags(&self) -> ResponseFlags {
        *self.flags.get_or_init(|| ResponseFlags(number(self.host, Attribute::ResponseFlags).unwrap_or(0)))
    }

    /// In nanoseconds.
    fn duration(&self) -> u64 {
        *self.duration.get_or_init(|| number(self.host, Attribute::Duration).unwrap_or(0))
    }

    fn details(&self) -> &[u8] {
        self.details.get_or_init(|| self.host.attribute(Attribute::ResponseDetails).unwrap_or_default())
    }

    fn path(&self) -> &PathView<'a> {
        self.path.get_or_init(|| PathView::new(self.request.path()))
    }

    /// Which of our filters refused it, and why: by the response-code details, `jwt_reject{token_expired}`.
    pub(crate) fn refusal(&self) -> Option<(&'static str, &[u8])> {
        let (name, reason) = self
            .details()
            .strip_suffix(b"}")?
            .split_at_checked(self.details().iter().position(|byte| *byte == b'{')?)?;
        let (_, filter) = REFUSING.iter().find(|(own, _)| own.as_bytes() == name)?;
        Some((*filter, reason.strip_prefix(b"{")?))
    }

    /// Whether a limit that is only tried out would have refused it.
    fn would_be_limited(&self) -> bool {
        self.host.attribute(Attribute::Property(WOULD_REFUSE)).is_some()
    }
}

/// Which limit of local_rate_limit would have refused a request, where limits are only tried out.
const WOULD_REFUSE: &str = "foregate.local_rate_limit.refused";

/// What the details of a refusal begin with, and the filter that it is of.
const REFUSING: [(&str, &str); 3] = [
    ("jwt_reject", "jwt_reject"),
    ("local_rate_limited", "local_rate_limit"),
    ("header_rewrite", "header_rewrite"),
];

/// Conditions; all of those given must hold.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    matcher: Option<RequestMatcher>,
    /// Any of these.
    status: Vec<StatusRange>,
    /// At least so many nanoseconds.
    duration: Option<u64>,
    /// Any of these.
    flags: Option<ResponseFlags>,
    grpc: Option<Grpc>,
    /// By any of these.
    refused: Vec<&'static str>,
}

/// Which statuses of gRPC.
#[derive(Debug)]
enum Grpc {
    /// All but OK.
    AnyError,
    /// These.
    Listed(Vec<u64>),
}

/// The members that a rule may have.
pub(crate) const NAMES: &str = "match, status, duration, response_flags, grpc_status and refused";

impl Rule {
    /// `status: 5xx`.
    pub(crate) fn of_errors() -> Option<Self> {
        let status = filter_api::config::read(br#"{"status":"5xx"}"#, |root| {
            StatusRange::read(&root.required("status")?)
        });
        Some(Self { status: vec![status.ok()?.0], ..Self::default() })
    }

    /// `duration: 1s`.
    pub(crate) fn of_slow() -> Self {
        Self { duration: Some(1_000_000_000), ..Self::default() }
    }

    /// `response_flags: any`.
    pub(crate) fn of_flagged() -> Self {
        Self { flags: Some(ResponseFlags(u64::MAX)), ..Self::default() }
    }

    /// Reads the conditions in an object.
    pub(crate) fn read(object: &Object<'_>) -> Option<Self> {
        let matcher = object.get("match").map(|node| RequestMatcher::read(&node));
        let status = list(object, "status", StatusRange::read_or_none);
        let duration = object.get("duration").map(|node| node.duration());
        let flags = object.get("response_flags").map(|node| read_flags(&node));
        let grpc = object.get("grpc_status").map(|node| read_grpc(&node));
        let refused = match object.get("refused") {
            Some(node) => read_refused(&node),
            None => Some(Vec::new()),
        };
        let rule = Self {
            matcher: given(matcher)?,
            status: status?,
            duration: given(duration)?,
            flags: given(flags)?,
            grpc: given(grpc)?,
            refused: refused?,
        };
        if rule.is_empty() {
            object.node().error(format!("has no condition; there are {NAMES}"));
            return None;
        }
        Some(rule)
    }

    fn is_empty(&self) -> bool {
        self.matcher.is_none()
            && self.status.is_empty()
            && self.duration.is_none()
            && self.flags.is_none()
            && self.grpc.is_none()
            && self.refused.is_empty()
    }

    /// Whether all hold.
    pub(crate) fn holds<Q: Head, R: Head, T: Host>(&self, ended: &Ended<'_, Q, R, T>) -> bool {
        let status = || self.status.iter().any(|range| range.has(ended.status()));
        (self.status.is_empty() || status())
            && self.flags.is_none_or(|flags| ended.flags().has_any_of(flags))
            && self.duration.is_none_or(|least| ended.duration() >= least)
            && (self.refused.is_empty()
                || ended.refusal().is_some_and(|(filter, _)| self.refused.contains(&filter))
                || (self.refused.contains(&"local_rate_limit") && ended.would_be_limited()))
            && self.matcher.as_ref().is_none_or(|matcher| matcher.matches(ended.request, ended.path()))
            && self.grpc.as_ref().is_none_or(|grpc| grpc.holds(ended))
    }
}

impl Grpc {
    fn holds<Q: Head, R: Head, T: Host>(&self, ended: &Ended<'_, Q, R, T>) -> bool {
        if Protocol::of(ended.request) != Protocol::Grpc {
            return false;
        }
        let status = number(ended.host, Attribute::GrpcStatus).unwrap_or(0);
        match self {
            Self::AnyError => status != 0,
            Self::Listed(statuses) => statuses.contains(&status),
        }
    }
}

/// What was given and read; the outer none where it was given and is wrong.
fn given<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(Some(read)) => Some(Some(read)),
        Some(None) => None,
    }
}

/// A list, or one item that stands in for a list of one.
fn list<T>(object: &Object<'_>, name: &'static str, read: impl Fn(&Node<'_>) -> Option<T>) -> Option<Vec<T>> {
    let Some(node) = object.get(name) else { return Some(Vec::new()) };
    let read: Vec<Option<T>> = items(&node)?.iter().map(read).collect();
    read.into_iter().collect()
}

/// The items of a list, of which there must be one, or the one that stands in for it.
fn items<'n>(node: &Node<'n>) -> Option<Vec<Node<'n>>> {
    let items = node.one_or_more();
    if items.is_empty() {
        node.error("must not be an empty list, which nothing could match; leave it out instead");
        return None;
    }
    Some(items)
}

fn read_flags(node: &Node<'_>) -> Option<ResponseFlags> {
    let read = |item: &Node<'_>| {
        let name = item.string()?;
        if name == "any" {
            return Some(u64::MAX);
        }
        let flag = ResponseFlags::named(name);
        if flag.is_none() {
            let known: Vec<&str> = ResponseFlags::all_names().collect();
            item.error(format!("{name:?} is no response flag; there are any, {}", known.join(", ")));
        }
        flag.map(|flag| flag.0)
    };
    // All are read before the first that is wrong counts, so that every mistake is named.
    let flags: Vec<Option<u64>> = items(node)?.iter().map(read).collect();
    flags.into_iter().try_fold(0, |all, flag| Some(all | flag?)).map(ResponseFlags)
}

fn read_grpc(node: &Node<'_>) -> Option<Grpc> {
    if let Value::String(word) = node.value() {
        if word == "any_error" {
            return Some(Grpc::AnyError);
        }
        node.error(format!("{word:?} must be any_error, a number from 0 to 16, or a list of them"));
        return None;
    }
    let read: Vec<Option<u64>> = items(node)?.iter().map(|item| item.integer(0, 16)).collect();
    read.into_iter().collect::<Option<Vec<_>>>().map(Grpc::Listed)
}

fn read_refused(node: &Node<'_>) -> Option<Vec<&'static str>> {
    let read = |item: &Node<'_>| {
        let name = item.string()?;
        let filters: Vec<&str> = REFUSING
            .iter()
            .map(|(_, filter)| *filter)
            .filter(|filter| name == "any" || name == *filter)
            .collect();
        if filters.is_empty() {
            item.error(format!("{name:?} must be any, jwt_reject, local_rate_limit or header_rewrite"));
            return None;
        }
        Some(filters)
    };
    let filters: Vec<Option<Vec<&str>>> = items(node)?.iter().map(read).collect();
    let filters: Option<Vec<Vec<&str>>> = filters.into_iter().collect();
    filters.map(|filters| filters.concat())
}
