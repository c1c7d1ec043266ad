//! A host whose answers are set: for tests, and for tools that make up a request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::{
    Attribute, Background, CellMap, Cells, Fetch, Host, HostFailed, HostVerdict, Level, Moment, Over,
    SharedValue, SignatureCheck, Waiting,
};

/// A host that answers what it is told to, for requests and between them. Several filters that are asked by way of
/// one are as workers of one process.
#[derive(Debug, Default)]
pub struct HostMap {
    /// The time, in nanoseconds since 1970.
    pub now: Cell<u64>,
    /// The dice that requests see. Between requests they are thrown anew each time.
    pub dice: Cell<u64>,
    /// What the workers share.
    pub cells: CellMap,
    /// Whether they may not.
    pub forbids_sharing: Cell<bool>,
    /// Envoy's `source.address`; none where it is empty.
    pub source_address: RefCell<String>,
    /// Envoy's `connection.id`.
    pub connection: Cell<u64>,
    /// What other filters have found out.
    pub properties: RefCell<BTreeMap<String, Vec<u8>>>,
    /// Envoy's `request.protocol`.
    pub protocol: RefCell<String>,
    /// Envoy's `xds.route_name`.
    pub route_name: RefCell<String>,
    /// When the request began, in nanoseconds since 1970.
    pub started: Cell<u64>,
    /// Dynamic metadata, by namespace and names joined by colons, as text.
    pub metadata: RefCell<BTreeMap<String, Vec<u8>>>,
    /// What is known of a request that is over, by Envoy's names: `response.code`, `request.duration` and so on.
    pub ended: RefCell<BTreeMap<&'static str, Vec<u8>>>,
    /// Whether lines of every level are written; else none are.
    pub logs: bool,
}

impl HostMap {
    /// A host at this moment, in nanoseconds since 1970, that is asked about a client of 192.0.2.1.
    pub fn at(now: u64) -> Self {
        Self {
            now: Cell::new(now),
            dice: Cell::new(1),
            source_address: RefCell::new("192.0.2.1:4711".to_owned()),
            connection: Cell::new(1),
            protocol: RefCell::new("HTTP/1.1".to_owned()),
            started: Cell::new(now),
            ..Self::default()
        }
    }

    fn of_end(&self, name: &str) -> Option<Vec<u8>> {
        self.ended.borrow().get(name).cloned()
    }

    /// Lets time pass.
    pub fn wait(&self, nanos: u64) {
        self.now.set(self.now.get().saturating_add(nanos));
    }

    /// Throws the dice.
    pub fn throw(&self) -> u64 {
        let dice = self.dice.get().wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        self.dice.set(dice);
        dice
    }
}

impl Cells for HostMap {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        if self.forbids_sharing.get() { Err(HostFailed(12)) } else { self.cells.shared(cell) }
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        if self.forbids_sharing.get() { Err(HostFailed(12)) } else { self.cells.share(cell, content, over) }
    }
}

impl Host for HostMap {
    fn moment(&self) -> Moment {
        Moment { unix_nanos: self.now.get(), dice: self.dice.get() }
    }

    fn logs(&self, _: Level) -> bool {
        self.logs
    }

    fn verify_signature(&self, _: &SignatureCheck<'_>) -> HostVerdict {
        HostVerdict::Unavailable
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        match attribute {
            Attribute::SourceAddress => {
                let address = self.source_address.borrow();
                (!address.is_empty()).then(|| address.clone().into_bytes())
            }
            Attribute::ConnectionId => Some(self.connection.get().to_le_bytes().to_vec()),
            Attribute::Property(name) => self.properties.borrow().get(name).cloned(),
            Attribute::Protocol => Some(self.protocol.borrow().clone().into_bytes()),
            Attribute::RouteName => Some(self.route_name.borrow().clone().into_bytes()),
            Attribute::StartTime => Some(self.started.get().to_le_bytes().to_vec()),
            Attribute::DynamicMetadata(path) => self.metadata.borrow().get(&path.join(":")).cloned(),
            Attribute::ResponseCode => self.of_end("response.code"),
            Attribute::ResponseDetails => self.of_end("response.code_details"),
            Attribute::ResponseFlags => self.of_end("response.flags"),
            Attribute::Duration => self.of_end("request.duration"),
            Attribute::UpstreamAddress => self.of_end("upstream.address"),
            Attribute::ClusterName => self.of_end("xds.cluster_name"),
            Attribute::BytesReceived => self.of_end("request.size"),
            Attribute::BytesSent => self.of_end("response.size"),
            Attribute::GrpcStatus => self.of_end("response.grpc_status"),
        }
    }

    fn waiting(&self) -> Waiting {
        Waiting::Never
    }
}

/// It fetches nothing.
impl Background for HostMap {
    fn moment(&self) -> Moment {
        Moment { unix_nanos: self.now.get(), dice: self.throw() }
    }

    fn fetch(&self, _: &Fetch<'_>) -> Result<u32, HostFailed> {
        Err(HostFailed(1))
    }
}
