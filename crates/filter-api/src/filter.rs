//! What a filter implements, and what it may ask of its host.

use crate::background::{Background, Fetched, Work};
use crate::config::{ConfigErrors, Problem};
use crate::{Cells, Facts, Head, HostFailed, Level, Outcome, Over, ResponseEffects, SharedValue};

/// Time and chance, as inputs: a filter reads neither by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub unix_nanos: u64,
    /// A number drawn at random for this request.
    pub dice: u64,
}

impl Moment {
    /// A moment at a whole second, its dice showing 0.
    pub fn at(unix_seconds: u64) -> Self {
        Self { unix_nanos: unix_seconds.saturating_mul(1_000_000_000), dice: 0 }
    }
}

/// A filter: configured once, then asked about each request. It decides and returns; it has no
/// way to do anything itself.
pub trait Filter: Sized {
    /// Its name, in metrics, logs and response-code details: `jwt_reject`.
    const NAME: &'static str;

    /// The host's callbacks that it needs. The build removes every other export from its module,
    /// so that Envoy does not enter the VM for them.
    const CALLBACKS: &'static [Callback];

    /// What a failed host call means for a request.
    const ON_HOST_FAILURE: OnHostFailure;

    /// What it keeps of a request until the response comes; `()` where it looks at no response.
    type Kept: 'static;

    /// Names of its counters, as they follow `foregate.<name>.` in Envoy's statistics.
    const COUNTERS: &'static [&'static str];

    /// Reads a configuration (JSON). Every problem in it is reported, not the first alone.
    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors>;

    /// The same, for one of several of this filter in a chain. What they keep beyond a request, or share with their
    /// other workers, is told apart by this name; it is empty for the first that was given none.
    fn configure_as(_instance: &str, json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        Self::configure(json)
    }

    /// Whether this configuration needs the callback, one of [`Filter::CALLBACKS`]. One that it does not need is answered
    /// without asking it anything.
    fn needs(&self, callback: Callback) -> bool {
        Self::CALLBACKS.contains(&callback)
    }

    /// What a failed host call means for a request by this configuration.
    fn on_host_failure(&self) -> OnHostFailure {
        Self::ON_HOST_FAILURE
    }

    /// Names of further counters, which the configuration gives; their places follow those of
    /// [`Filter::COUNTERS`]. Of both together there are at most [`crate::CounterSet::MOST_OF_ONE`]. Envoy never forgets
    /// a counter, so these names must not come from requests.
    fn own_counters(&self) -> Vec<String> {
        Vec::new()
    }

    /// The names of all counters, by their places, as they follow `foregate.` in Envoy's statistics.
    fn counter_names(&self) -> Vec<String> {
        let own = self.own_counters();
        let names = Self::COUNTERS.iter().copied().chain(own.iter().map(String::as_str));
        names.map(|counter| format!("{}.{counter}", Self::NAME)).collect()
    }

    /// Decides about a request. `facts` are what the filters before this one found out.
    fn on_request(&self, head: &impl Head, host: &impl Host, facts: &Facts) -> Outcome<Self::Kept>;

    /// Decides about a request that has waited, by what was kept of it then.
    fn on_resume(
        &self,
        _kept: Option<Self::Kept>,
        head: &impl Head,
        host: &impl Host,
        facts: &Facts,
    ) -> Outcome<Self::Kept> {
        self.on_request(head, host, facts)
    }

    /// Decides about the headers of a response, by what it has kept of the request. A host does not show the
    /// request's headers any more by then. Needs [`Callback::ResponseHeaders`].
    fn on_response(&self, _: &Self::Kept, _: &impl Head, _: &impl Host) -> ResponseEffects {
        ResponseEffects::default()
    }

    /// Takes note of a request that is over, whoever has answered it: `request` and `response` as they were at the end,
    /// the latter empty where none was sent. `facts` are what was found out about the request, by this filter too. Called for
    /// requests too that never came to this filter. It cannot fetch anything itself; [`Work::soon`] has the next tick come at once. Needs [`Callback::Log`].
    fn on_log(&self, _request: &impl Head, _response: &impl Head, _: &impl Host, _: &Facts) -> Work {
        Work::default()
    }

    /// Takes its first steps behind the scenes: once, when this configuration begins to serve a worker. It
    /// runs for the main thread too, and in a VM that is there to try the configuration out.
    fn on_start(&self, _: &impl Background) -> Work {
        Work::default()
    }

    /// Does what is due. Called about once a second, and more often while requests wait. Needs
    /// [`Callback::Tick`].
    fn on_tick(&self, _: &impl Background) -> Work {
        Work::default()
    }

    /// Takes what became of a [`Background::fetch`]. Needs [`Callback::HttpCallResponse`].
    fn on_fetched(&self, _: Fetched<'_>, _: &impl Background) -> Work {
        Work::default()
    }

    /// Says what is still to be counted: this configuration has ended for a worker, and nothing of it is called any
    /// more. What was fetched and has not come never will. A fetch that is started here is broken off at once: Envoy
    /// sends what an open connection takes, and nobody is told what becomes of it.
    fn on_end(&self, _: &impl Background) -> Work {
        Work::default()
    }
}

/// A filter that is ready, and what its configuration's author should know.
#[derive(Debug)]
pub struct Configured<F> {
    /// The filter.
    pub filter: F,
    /// What looks wrong but need not be.
    pub warnings: Vec<Problem>,
}

/// A callback of the host that a filter needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callback {
    /// The request's headers have arrived.
    RequestHeaders,
    /// The timer fired. Keeps the cached log level fresh, if nothing else.
    Tick,
    /// An HTTP call of the filter's has ended.
    HttpCallResponse,
    /// More of the request has arrived. A filter that lets requests wait needs both of these: while one
    /// waits its body must not go on, whatever Envoy is told to do about that.
    RequestBody,
    /// The request's trailers have arrived.
    RequestTrailers,
    /// The response's headers have arrived. For filters with [`crate::Effects::response`] or
    /// [`crate::Effects::kept`].
    ResponseHeaders,
    /// A request is over. For filters, and for what Envoy loads as an access logger.
    Log,
}

impl Callback {
    /// The export of the module that the host calls.
    pub const fn export(self) -> &'static str {
        match self {
            Self::RequestHeaders => "proxy_on_request_headers",
            Self::Tick => "proxy_on_tick",
            Self::HttpCallResponse => "proxy_on_http_call_response",
            Self::RequestBody => "proxy_on_request_body",
            Self::RequestTrailers => "proxy_on_request_trailers",
            Self::ResponseHeaders => "proxy_on_response_headers",
            Self::Log => "proxy_on_log",
        }
    }
}

/// What a failed host call means for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHostFailure {
    /// The request is refused with 503 and details `<filter>{host_failure}`: a filter that guards
    /// must not be passed by.
    Refuse,
    /// The request goes on: a filter that only adds or observes must not stand in the way.
    Pass,
}

/// What a filter may ask of its host while it decides. Each question may cost a crossing out of
/// the VM, so a filter asks only what it needs.
pub trait Host: Cells {
    /// The moment of this request: the same one however often it is asked for.
    fn moment(&self) -> Moment;

    /// Whether a line of this level would be written. Ask before making one.
    fn logs(&self, level: Level) -> bool;

    /// Checks a signature with the host's own cryptography.
    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict;

    /// What the host knows of the request beside its headers; none where it knows nothing of the kind.
    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>>;

    /// Whether this request may wait, or has.
    fn waiting(&self) -> Waiting;
}

/// Something that the host knows of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute<'a> {
    /// Who sent it, as text, `192.0.2.1:40000` or `[2001:db8::1]:40000`: Envoy's `source.address`, which is the peer's,
    /// or what Envoy was told to take from `x-forwarded-for` instead.
    SourceAddress,
    /// The number of the connection that it came over, 8 bytes: Envoy's `connection.id`.
    ConnectionId,
    /// A [`crate::Property`] that another filter has set, by its name.
    Property(&'a str),
    /// The protocol that the client speaks, as text, `HTTP/1.1`: Envoy's `request.protocol`.
    Protocol,
    /// The name of the route that was chosen: Envoy's `xds.route_name`. Empty for a route without one.
    RouteName,
    /// When the request began, nanoseconds since 1970, 8 bytes, little-endian: Envoy's `request.time`.
    StartTime,
    /// An entry of Envoy's dynamic metadata: a namespace, then names of members. It comes as text: a string as it is,
    /// anything else as JSON.
    DynamicMetadata(&'a [Box<str>]),
    /// The response's status, a number of 8 bytes, little-endian; 0 or none where there was no response.
    ResponseCode,
    /// Why the response is as it is, in words: Envoy's `response.code_details`.
    ResponseDetails,
    /// [`crate::ResponseFlags`], a number of 8 bytes, little-endian.
    ResponseFlags,
    /// How long the request took from its first byte to its last of the response, in nanoseconds, 8 bytes,
    /// little-endian. Known at the end alone.
    Duration,
    /// Where the request was sent, as text, `192.0.2.1:8080`.
    UpstreamAddress,
    /// The name of the cluster that it was sent to.
    ClusterName,
    /// Bytes of the request's body, a number of 8 bytes, little-endian.
    BytesReceived,
    /// Bytes of the response's body, likewise.
    BytesSent,
    /// The status of gRPC, likewise. Means nothing for what is not gRPC.
    GrpcStatus,
}

/// Whether a request may be answered with [`Outcome::Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It may not: this host cannot hold requests, or holds as many as it may.
    Never,
    /// It may, and has not yet.
    NotYet,
    /// It may, and has since this moment, in nanoseconds since 1970.
    Since(u64),
}

/// A signature to check: RSASSA-PKCS1-v1_5 or ECDSA, whichever the key is for.
#[derive(Debug, Clone, Copy)]
pub struct SignatureCheck<'a> {
    /// The hash that was signed.
    pub hash: Hash,
    /// The key: SubjectPublicKeyInfo, DER.
    pub public_key: &'a [u8],
    /// The signature; for ECDSA as DER.
    pub signature: &'a [u8],
    /// What was signed.
    pub text: &'a [u8],
}

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// What the host says of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostVerdict {
    /// It is good.
    Valid,
    /// It is not.
    Invalid,
    /// This host has no such function: the filter checks by itself.
    Unavailable,
}

/// A host with a moment and nothing else: for tools and tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost(pub Moment);

impl Host for NoHost {
    fn moment(&self) -> Moment {
        self.0
    }

    fn logs(&self, _: Level) -> bool {
        false
    }

    fn verify_signature(&self, _: &SignatureCheck<'_>) -> HostVerdict {
        HostVerdict::Unavailable
    }

    fn attribute(&self, _: Attribute<'_>) -> Option<Vec<u8>> {
        None
    }

    fn waiting(&self) -> Waiting {
        Waiting::Never
    }
}

impl Cells for NoHost {
    fn shared(&self, _: &str) -> Result<Option<SharedValue>, HostFailed> {
        Ok(None)
    }

    fn share(&self, _: &str, _: &[u8], _: Over) -> Result<bool, HostFailed> {
        Ok(false)
    }
}
