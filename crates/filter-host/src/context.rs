//! The life of a VM, of a configuration and of a request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use filter_api::{
    Effects, Facts, Filter, GrpcStatus, Head, HeaderOp, Host, HostVerdict, Level, LocalReply, Moment,
    OnHostFailure, Outcome, Protocol, SignatureCheck,
};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

use crate::calls::{self, Failed};
use crate::metrics::Metrics;
use crate::pairs::PairsHead;
use crate::{configuration, signature};

/// How often the log level is asked for. An operator who turns it up waits no longer than this.
const TICK_MILLISECONDS: u32 = 1000;

thread_local! {
    static VM: Vm = const { Vm::new() };
}

/// What all configurations and requests in this VM share.
struct Vm {
    /// Cached: a line that is not written would otherwise cost a crossing to learn so.
    log_level: Cell<Level>,
    /// Whether the host has `verify_signature`, once it is known that it has not.
    lacks_verify_signature: Cell<bool>,
    /// Room for a message to the host, kept between calls.
    message: RefCell<Vec<u8>>,
    /// The state of the random numbers; 0 before the first.
    random: Cell<u64>,
}

impl Vm {
    const fn new() -> Self {
        Self {
            log_level: Cell::new(Level::Info),
            lacks_verify_signature: Cell::new(false),
            message: RefCell::new(Vec::new()),
            random: Cell::new(0),
        }
    }

    fn refresh_log_level(&self) {
        if let Ok(level) = calls::log_level() {
            self.log_level.set(level);
        }
    }

    /// A number that no client can foresee (splitmix64, seeded by the host).
    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        let state = match self.random.get() {
            0 => RandomState::new().hash_one(0_u8),
            state => state,
        };
        let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Starts a module: called once a VM, before anything else.
pub fn start<F: Filter + 'static>() {
    std::panic::set_hook(Box::new(|panic| calls::log(Level::Error, &format!("panic: {panic}"))));
    proxy_wasm::set_root_context(|_| Box::new(Root::<F> { filter: None }));
}

/// One configuration of the plugin.
struct Root<F> {
    filter: Option<Rc<Running<F>>>,
}

struct Running<F> {
    filter: F,
    metrics: Rc<Metrics>,
}

impl<F: Filter + 'static> Context for Root<F> {}

impl<F: Filter + 'static> RootContext for Root<F> {
    fn on_configure(&mut self, _: usize) -> bool {
        VM.with(Vm::refresh_log_level);
        let configured = match calls::plugin_configuration() {
            Ok(bytes) => F::configure(&configuration::to_json(&bytes)),
            Err(Failed(status)) => {
                calls::log(Level::Error, &format!("{}: the host gave no configuration: {status}", F::NAME));
                return false;
            }
        };
        match configured {
            Ok(configured) => {
                for warning in &configured.warnings {
                    calls::log(Level::Warn, &format!("{}: configuration: {warning}", F::NAME));
                }
                let _ = calls::tick_every(TICK_MILLISECONDS);
                self.filter =
                    Some(Rc::new(Running { filter: configured.filter, metrics: Metrics::of::<F>() }));
                true
            }
            Err(errors) => {
                for problem in &errors.0 {
                    calls::log(Level::Error, &format!("{}: configuration refused: {problem}", F::NAME));
                }
                false
            }
        }
    }

    fn on_tick(&mut self) {
        VM.with(Vm::refresh_log_level);
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream { running: self.filter.clone() }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

/// One request.
struct Stream<F> {
    /// Absent only where the host sends requests to a configuration that it was told is unusable.
    running: Option<Rc<Running<F>>>,
}

impl<F: Filter> Context for Stream<F> {}

impl<F: Filter> HttpContext for Stream<F> {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(running) = &self.running else { return failed::<F>("no_configuration") };
        let Ok(bytes) = calls::request_headers() else { return failed::<F>("host_failure") };
        let Ok(head) = PairsHead::parse(&bytes) else { return failed::<F>("host_failure") };
        let outcome = running.filter.on_request(&head, &Request::default(), &Facts::default());
        perform::<F>(&head, &running.metrics, outcome)
    }
}

/// Performs a filter's decision: the one place where effects reach the host.
fn perform<F: Filter>(head: &impl Head, metrics: &Metrics, outcome: Outcome) -> Action {
    let (reply, effects) = match outcome {
        Outcome::Continue(effects) => (None, effects),
        Outcome::Reply(reply, effects) => (Some(reply), effects),
    };
    let Effects { headers, counters, facts: _, log } = effects;
    metrics.count(counters);
    if let Some(line) = log {
        calls::log(line.level, &line.text);
    }
    if let Some(reply) = reply {
        return send(&reply, Protocol::of(head));
    }
    for operation in &headers {
        let done = match operation {
            HeaderOp::Set(name, value) => calls::set_request_header(name, value),
            HeaderOp::Add(name, value) => calls::add_request_header(name, value),
            HeaderOp::Remove(name) => calls::remove_request_header(name),
        };
        if done.is_err() {
            return failed::<F>("host_failure");
        }
    }
    Action::Continue
}

fn send(reply: &LocalReply, protocol: Protocol) -> Action {
    let grpc_status = match protocol {
        // Envoy would make any other status into a plain 200 for a caller who expects HTTP.
        Protocol::Http => -1,
        Protocol::Grpc => reply.grpc_status as i32,
    };
    let sent =
        calls::send_local_response(reply.status, &reply.details, &reply.body, &reply.headers, grpc_status);
    if let Err(Failed(status)) = sent {
        // Only a restriction of capabilities does this. Going on would let the request pass, and
        // waiting would let it hang: a trap ends it with 503, as `failure_policy` says.
        calls::log(Level::Error, &format!("the host refused proxy_send_local_response: {status}; allow it"));
        std::process::abort();
    }
    Action::Pause
}

/// What the filter's policy says where the host failed it.
fn failed<F: Filter>(what: &'static str) -> Action {
    calls::log(Level::Error, &format!("{}: {what}", F::NAME));
    match F::ON_HOST_FAILURE {
        OnHostFailure::Pass => Action::Continue,
        OnHostFailure::Refuse => {
            let reply = LocalReply {
                status: 503,
                grpc_status: GrpcStatus::Unavailable,
                details: format!("{}{{{what}}}", F::NAME).into(),
                headers: Vec::new(),
                body: "".into(),
            };
            send(&reply, Protocol::Http)
        }
    }
}

/// What a filter asks while it decides about one request.
#[derive(Default)]
struct Request {
    moment: Cell<Option<Moment>>,
}

impl Host for Request {
    fn moment(&self) -> Moment {
        if let Some(moment) = self.moment.get() {
            return moment;
        }
        // A clock that cannot be read shows the end of time: every token has expired then.
        let unix_nanos = calls::unix_nanos().unwrap_or(u64::MAX);
        let moment = Moment { unix_nanos, dice: VM.with(Vm::random) };
        self.moment.set(Some(moment));
        moment
    }

    fn logs(&self, level: Level) -> bool {
        VM.with(|vm| level <= vm.log_level.get())
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        VM.with(|vm| {
            if vm.lacks_verify_signature.get() {
                return HostVerdict::Unavailable;
            }
            let mut message = vm.message.borrow_mut();
            signature::write_request(check, &mut message);
            match calls::foreign_function(signature::FUNCTION, &message) {
                Ok(answer) => signature::read_answer(&answer),
                Err(Failed(status)) => {
                    if status == calls::NOT_FOUND {
                        vm.lacks_verify_signature.set(true);
                        calls::log(
                            Level::Info,
                            "the host has no verify_signature: signatures are checked in the VM",
                        );
                    }
                    HostVerdict::Unavailable
                }
            }
        })
    }
}
