//! What a filter may ask for, answered by the host's calls.

use std::cell::{Cell, OnceCell};

use filter_api::{
    Attribute, Background, Cells, Fetch, Head, Host, HostFailed, HostVerdict, Level, Moment, Over, Response,
    SharedValue, SignatureCheck, Waiting,
};

use crate::calls::{self, Headers};
use crate::metadata;
use crate::pairs::{Pairs, PairsHead};
use crate::vm::Vm;

/// The headers of a request or of its response, read when they are first looked at, and once. A filter that decides
/// without them does not pay for them.
#[derive(Debug)]
pub(crate) struct MessageHead {
    headers: Headers,
    pairs: OnceCell<Option<Pairs>>,
}

impl MessageHead {
    /// These headers, not read yet.
    pub(crate) fn of(headers: Headers) -> Self {
        Self { headers, pairs: OnceCell::new() }
    }

    /// Whether they were asked for in vain: what was decided then was decided about nothing.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.pairs.get(), Some(None))
    }
}

impl Head for MessageHead {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let pairs = self.pairs.get_or_init(|| Pairs::new(calls::headers(self.headers).ok()?).ok());
        pairs.iter().flat_map(|pairs| pairs.head().into_lines())
    }
}

/// What a filter asks while it decides about one request.
pub(crate) struct Request<'vm> {
    vm: &'vm Vm,
    waiting: Waiting,
    moment: Cell<Option<Moment>>,
}

impl<'vm> Request<'vm> {
    pub(crate) fn new(vm: &'vm Vm, waiting: Waiting) -> Self {
        Self { vm, waiting, moment: Cell::new(None) }
    }
}

impl Host for Request<'_> {
    fn moment(&self) -> Moment {
        if let Some(moment) = self.moment.get() {
            return moment;
        }
        let moment = now(self.vm);
        self.moment.set(Some(moment));
        moment
    }

    fn logs(&self, level: Level) -> bool {
        self.vm.logs(level)
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        self.vm.verify_signature(check)
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        let path = match attribute {
            Attribute::SourceAddress => "source\0address",
            Attribute::ConnectionId => "connection\0id",
            Attribute::Property(name) => name,
            Attribute::Protocol => "request\0protocol",
            Attribute::RouteName => "xds\0route_name",
            Attribute::StartTime => "request\0time",
            Attribute::ResponseCode => "response\0code",
            Attribute::ResponseDetails => "response\0code_details",
            Attribute::ResponseFlags => "response\0flags",
            Attribute::Duration => "request\0duration",
            Attribute::UpstreamAddress => "upstream\0address",
            Attribute::ClusterName => "xds\0cluster_name",
            Attribute::BytesReceived => "request\0size",
            Attribute::BytesSent => "response\0size",
            Attribute::GrpcStatus => "response\0grpc_status",
            Attribute::DynamicMetadata(path) => {
                return metadata::find(&calls::property("metadata").ok()?, path);
            }
        };
        calls::property(path).ok()
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }
}

/// A version that no cell has, but for one moment in four billion writes.
const NO_VERSION: u32 = u32::MAX;

fn share(cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
    let version = match over {
        Over::Anything => 0,
        // The host writes an absent cell whatever version it is given, and any other only if that is the right one.
        Over::Nothing => NO_VERSION,
        // It takes 0 for "whatever it has".
        Over::Version(0) => return Ok(false),
        Over::Version(version) => version,
    };
    calls::share(cell, content, version)
}

fn shared(cell: &str) -> Result<Option<SharedValue>, HostFailed> {
    match calls::shared(cell) {
        Ok(value) => Ok(Some(value)),
        Err(HostFailed(calls::NOT_FOUND)) => Ok(None),
        Err(failed) => Err(failed),
    }
}

impl Cells for Request<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        share(cell, content, over)
    }
}

impl Cells for Behind<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        share(cell, content, over)
    }
}

/// What a filter may do between requests.
pub(crate) struct Behind<'vm>(pub(crate) &'vm Vm);

impl Background for Behind<'_> {
    fn moment(&self) -> Moment {
        now(self.0)
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, HostFailed> {
        calls::http_call(fetch)
    }
}

fn now(vm: &Vm) -> Moment {
    // A clock that cannot be read shows the end of time: every token has expired then.
    Moment { unix_nanos: calls::unix_nanos().unwrap_or(u64::MAX), dice: vm.random() }
}

/// The response to a fetch, while the host tells of it.
pub(crate) struct CallResponse {
    headers: Vec<u8>,
    body_length: usize,
}

impl CallResponse {
    /// The response; none where its headers cannot be read, which is as good as none.
    pub(crate) fn read(body_length: usize) -> Option<Self> {
        let headers = calls::call_response_headers().ok()?;
        PairsHead::parse(&headers).ok()?;
        Some(Self { headers, body_length })
    }
}

impl Response for CallResponse {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        let head = PairsHead::parse(&self.headers).ok()?;
        let values: Vec<&[u8]> = head.get_all(name).collect();
        (!values.is_empty()).then(|| values.join(&b','))
    }

    fn body_length(&self) -> usize {
        self.body_length
    }

    fn body(&self) -> Option<Vec<u8>> {
        calls::call_response_body().ok()
    }
}
