//! The life of a VM, of a configuration and of a request: what the host calls.
//!
//! The entry points are our own rather than the SDK's: that one panics on a status that it does not expect,
//! and its bookkeeping of contexts costs each request most of a microsecond.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use filter_api::{
    Callback, Effects, Facts, Fetched, Filter, HeaderOp, HostFailed, Level, Outcome, Protocol, Waiting, Work,
};

use crate::ask::{Behind, CallResponse, MessageHead, Request};
use crate::calls::{self, Headers};
use crate::configuration;
use crate::metrics::Metrics;
use crate::perform::{self, Verdict};
use crate::vm::Vm;

/// How often the filter has its turn, and the log level is asked for. An operator who turns it up waits no
/// longer than this.
const TICK_MILLISECONDS: u32 = 1000;
/// How often while there is something to wait for.
const SOON_MILLISECONDS: u32 = 20;

/// The most requests held at a time, in one worker. Those beyond do not wait.
const MOST_WAITING: usize = 1000;

const CONTINUE: u32 = 0;
const PAUSE: u32 = 1;

/// What lives in one VM.
pub struct Module<F: Filter> {
    vm: Vm,
    /// The configurations that serve, or are no longer served from but have not ended, by the host's number.
    roots: RefCell<Vec<(u32, Rc<Root<F>>)>>,
    /// The stream made last, and the configuration that it is for. The host makes a stream and asks about
    /// its request in one go, so nothing need be kept of any other.
    newest: Cell<(u32, u32)>,
    /// The requests held.
    held: RefCell<Vec<Held<F>>>,
    /// What is to be done about responses that are to come, by the host's number of their stream.
    responses: RefCell<BTreeMap<u32, ToCome<F>>>,
    /// The streams that are asked about at their end.
    streams: RefCell<BTreeMap<u32, Stream>>,
}

/// What is to be done about a response that is to come.
struct ToCome<F: Filter> {
    /// Operations that are known by now.
    operations: Vec<HeaderOp>,
    /// What the filter keeps, where it is to be asked, and the configuration that decided about the request.
    kept: Option<(Rc<Root<F>>, F::Kept)>,
}

/// A stream that is asked about at its end.
struct Stream {
    /// Its configuration, by the host's number.
    root: u32,
    /// What was found out about it.
    facts: Facts,
}

/// One configuration of the plugin.
struct Root<F> {
    number: u32,
    filter: F,
    metrics: Metrics,
    /// How often its timer fires; 0 where the host gives it none.
    period: Cell<u32>,
    /// Whether requests can be held: this configuration may want to, and the host lets a stream be acted for that it is
    /// not calling for.
    holds: bool,
    /// Which callbacks it needs, of those that could be a waste.
    needs: Needs,
}

/// Whether a configuration needs certain callbacks.
#[derive(Clone, Copy)]
struct Needs {
    request_headers: bool,
    log: bool,
}

/// A request that waits.
struct Held<F: Filter> {
    stream: u32,
    root: Rc<Root<F>>,
    since: u64,
    until: u64,
    kept: Option<F::Kept>,
}

impl<F: Filter> Module<F> {
    /// A module that nothing has happened in.
    #[allow(clippy::new_without_default)] // it must be const
    pub const fn new() -> Self {
        Self {
            vm: Vm::new(),
            roots: RefCell::new(Vec::new()),
            newest: Cell::new((0, 0)),
            held: RefCell::new(Vec::new()),
            responses: RefCell::new(BTreeMap::new()),
            streams: RefCell::new(BTreeMap::new()),
        }
    }

    /// `_initialize`: once a VM, before anything else.
    pub fn start(&self) {
        std::panic::set_hook(Box::new(|panic| calls::log(Level::Error, &format!("panic: {panic}"))));
    }

    /// `proxy_on_context_create`: for a configuration, with no root, and for each stream.
    pub fn on_context_create(&self, context: u32, root: u32) {
        if root != 0 {
            self.newest.set((context, root));
            if F::CALLBACKS.contains(&Callback::Log) && self.root(root).is_some_and(|root| root.needs.log) {
                self.streams.borrow_mut().insert(context, Stream { root, facts: Facts::default() });
            }
        }
    }

    /// `proxy_on_delete`.
    pub fn on_delete(&self, context: u32) {
        if F::CALLBACKS.contains(&Callback::ResponseHeaders) {
            self.responses.borrow_mut().remove(&context);
        }
        if F::CALLBACKS.contains(&Callback::Log) {
            self.streams.borrow_mut().remove(&context);
        }
        let mut held = self.held.borrow_mut();
        if !held.is_empty() {
            held.retain(|held| held.stream != context);
        }
        if let Some(root) = self.root(context) {
            self.roots.borrow_mut().retain(|(number, _)| *number != context);
            let work = root.filter.on_end(&Behind(&self.vm));
            perform::observe(&root.metrics, work.counters, &work.counts, &work.log);
        }
    }

    /// `proxy_on_configure`. Returns whether the configuration can be used.
    pub fn on_configure(&self, context: u32) -> bool {
        self.vm.refresh_log_level();
        let configured = match calls::plugin_configuration() {
            Ok(bytes) => F::configure(&configuration::to_json(&bytes)),
            Err(HostFailed(status)) => {
                calls::log(Level::Error, &format!("{}: the host gave no configuration: {status}", F::NAME));
                return false;
            }
        };
        let configured = match configured {
            Ok(configured) => configured,
            Err(errors) => {
                for problem in &errors.0 {
                    calls::log(Level::Error, &format!("{}: configuration refused: {problem}", F::NAME));
                }
                return false;
            }
        };
        for warning in &configured.warnings {
            calls::log(Level::Warn, &format!("{}: configuration: {warning}", F::NAME));
        }
        let root = Rc::new(Root {
            number: context,
            metrics: Metrics::of(&configured.filter),
            period: Cell::new(0),
            holds: configured.filter.needs(Callback::RequestBody) && calls::act_for(context).is_ok(),
            needs: Needs {
                request_headers: configured.filter.needs(Callback::RequestHeaders),
                log: configured.filter.needs(Callback::Log),
            },
            filter: configured.filter,
        });
        let mut roots = self.roots.borrow_mut();
        roots.retain(|(number, _)| *number != context);
        roots.push((context, Rc::clone(&root)));
        drop(roots);
        let work = root.filter.on_start(&Behind(&self.vm));
        self.after(&root, work);
        true
    }

    /// `proxy_on_tick`.
    pub fn on_tick(&self, context: u32) {
        self.vm.refresh_log_level();
        if let Some(root) = self.root(context) {
            let work = root.filter.on_tick(&Behind(&self.vm));
            self.after(&root, work);
        }
    }

    /// `proxy_on_http_call_response`.
    pub fn on_http_call_response(&self, context: u32, number: u32, headers: u32, body_length: usize) {
        let Some(root) = self.root(context) else { return };
        // The host tells of a call that failed as of a response without headers.
        let response = if headers == 0 { None } else { CallResponse::read(body_length) };
        let response = response.as_ref().map(|response| response as &dyn filter_api::Response);
        let work = root.filter.on_fetched(Fetched { number, response }, &Behind(&self.vm));
        self.after(&root, work);
    }

    /// `proxy_on_request_headers`. Returns whether the request goes on or stops.
    pub fn on_request_headers(&self, stream: u32) -> u32 {
        let (newest, root) = self.newest.get();
        let root = if newest == stream { self.root(root) } else { None };
        let verdict = match root {
            Some(root) if !root.needs.request_headers => Some(Verdict::Continue),
            Some(root) => self.decide(&root, stream, None),
            // The host sends a request to a configuration that it was told is unusable.
            None => Some(perform::failed(F::NAME, F::ON_HOST_FAILURE, "no_configuration")),
        };
        if verdict == Some(Verdict::Continue) { CONTINUE } else { PAUSE }
    }

    /// `proxy_on_request_body` and `proxy_on_request_trailers`. Envoy brings neither while a request is held,
    /// unless `allow_on_headers_stop_iteration` has it do so; what went on then would take the request along.
    pub fn on_more_of_request(&self, stream: u32) -> u32 {
        let held = self.held.borrow().iter().any(|held| held.stream == stream);
        if held { PAUSE } else { CONTINUE }
    }

    /// `proxy_on_response_headers`: for an answer of our own too, for which nothing is to be done.
    pub fn on_response_headers(&self, stream: u32) -> u32 {
        let to_come = self.responses.borrow_mut().remove(&stream);
        let Some(ToCome { operations, kept }) = to_come else { return CONTINUE };
        // Who answers has answered: what cannot be written stops no response.
        let mut done = perform::edit(Headers::Response, &operations);
        if let Some((root, kept)) = kept {
            let head = MessageHead::of(Headers::Response);
            let effects = root.filter.on_response(&kept, &head, &Request::new(&self.vm, Waiting::Never));
            perform::observe(&root.metrics, effects.counters, &[], &effects.log);
            done &= !head.is_missing() && perform::edit(Headers::Response, &effects.headers);
        }
        if !done {
            let text =
                format!("{}: the host does not let it edit a response; allow the calls it needs", F::NAME);
            calls::log(Level::Error, &text);
        }
        CONTINUE
    }

    /// `proxy_on_log`: for a stream, or for a configuration that is loaded as an access logger.
    pub fn on_log(&self, context: u32) {
        // The host may tell of a stream more than once.
        let (root, facts) = match self.streams.borrow().get(&context) {
            Some(Stream { root, facts }) => (self.root(*root), facts.clone()),
            None => (self.root(context).filter(|root| root.needs.log), Facts::default()),
        };
        let Some(root) = root else { return };
        let (request, response) = (MessageHead::of(Headers::Request), MessageHead::of(Headers::Response));
        let host = Request::new(&self.vm, Waiting::Never);
        let work = root.filter.on_log(&request, &response, &host, &facts);
        if !perform::publish(&work.properties) {
            self.vm.complain_once(F::NAME);
        }
        perform::observe(&root.metrics, work.counters, &work.counts, &work.log);
        if work.soon {
            set_period(&root, SOON_MILLISECONDS);
        }
    }

    fn root(&self, number: u32) -> Option<Rc<Root<F>>> {
        self.roots.borrow().iter().find(|(own, _)| *own == number).map(|(_, root)| Rc::clone(root))
    }

    /// Decides about a request, and performs it. Returns nothing where the request is held (on).
    /// `held` is since when it was, and what was kept of it.
    fn decide(
        &self,
        root: &Rc<Root<F>>,
        stream: u32,
        held: Option<(u64, Option<F::Kept>)>,
    ) -> Option<Verdict> {
        let since = held.as_ref().map(|(since, _)| *since);
        let waiting = match since {
            Some(since) => Waiting::Since(since),
            None if root.period.get() != 0 && root.holds && self.held.borrow().len() < MOST_WAITING => {
                Waiting::NotYet
            }
            None => Waiting::Never,
        };
        let host = Request::new(&self.vm, waiting);
        let head = MessageHead::of(Headers::Request);
        let outcome = match held {
            None => root.filter.on_request(&head, &host, &Facts::default()),
            Some((_, kept)) => root.filter.on_resume(kept, &head, &host, &Facts::default()),
        };
        if head.is_missing() {
            return Some(root.failed("host_failure"));
        }
        match outcome {
            Outcome::Continue(mut effects) => {
                self.keep(root, stream, &mut effects);
                if perform::apply(&root.metrics, &effects) {
                    Some(Verdict::Continue)
                } else {
                    Some(root.failed("host_failure"))
                }
            }
            Outcome::Reply(reply, mut effects) => {
                // As the caller has come, before anything of it is edited: that is how the host will answer too.
                let protocol = Protocol::of(&head);
                self.keep(root, stream, &mut effects);
                // Who is refused is refused, whatever could not be edited before.
                perform::apply(&root.metrics, &effects);
                Some(perform::answer(&reply, protocol))
            }
            // A filter must not do this; holding the request for ever is what must not follow.
            Outcome::Wait(..) if waiting == Waiting::Never => Some(root.failed("cannot_wait")),
            Outcome::Wait(until, effects) => {
                perform::observe(&root.metrics, effects.counters, &effects.counts, &effects.log);
                let since = since.unwrap_or(filter_api::Host::moment(&host).unix_nanos);
                let held = Held { stream, root: Rc::clone(root), since, until, kept: effects.kept };
                self.held.borrow_mut().push(held);
                set_period(root, SOON_MILLISECONDS);
                None
            }
        }
    }

    /// Keeps what there is to be done about the response and at the end.
    fn keep(&self, root: &Rc<Root<F>>, stream: u32, effects: &mut Effects<F::Kept>) {
        let operations = std::mem::take(&mut effects.response);
        let kept = effects.kept.take().map(|kept| (Rc::clone(root), kept));
        if kept.is_some() || !operations.is_empty() {
            self.responses.borrow_mut().insert(stream, ToCome { operations, kept });
        }
        if F::CALLBACKS.contains(&Callback::Log)
            && !effects.facts.0.is_empty()
            && let Some(stream) = self.streams.borrow_mut().get_mut(&stream)
        {
            stream.facts = std::mem::take(&mut effects.facts);
        }
    }

    /// What follows a step behind the scenes: counts, lines, requests that need wait no longer, and the next
    /// step's time.
    fn after(&self, root: &Rc<Root<F>>, work: Work) {
        perform::observe(&root.metrics, work.counters, &work.counts, &work.log);
        if !self.held.borrow().is_empty() {
            self.ask_again(root, work.resume);
        }
        let waits = self.held.borrow().iter().any(|held| Rc::ptr_eq(&held.root, root));
        set_period(root, if waits || work.soon { SOON_MILLISECONDS } else { TICK_MILLISECONDS });
    }

    /// Asks again about the requests of this configuration, where it says so, and about all whose time is up.
    fn ask_again(&self, root: &Rc<Root<F>>, resume: bool) {
        let now = calls::unix_nanos().unwrap_or(u64::MAX);
        let mut held = self.held.borrow_mut();
        let (asked, rest) =
            held.drain(..).partition(|held| held.until <= now || (resume && Rc::ptr_eq(&held.root, root)));
        *held = rest;
        drop(held);
        let asked: Vec<Held<F>> = asked;
        for held in asked {
            // The stream may be gone: its client did not wait.
            if calls::act_for(held.stream).is_err() {
                continue;
            }
            let verdict = self.decide(&held.root, held.stream, Some((held.since, held.kept)));
            if verdict == Some(Verdict::Continue) && calls::continue_request().is_err() {
                // Nobody else will ever let it go on.
                held.root.failed("host_failure");
            }
        }
        let _ = calls::act_for(root.number);
    }
}

impl<F: Filter> Root<F> {
    /// What the filter's policy says where the host failed it.
    fn failed(&self, what: &'static str) -> Verdict {
        perform::failed(F::NAME, self.filter.on_host_failure(), what)
    }
}

/// Has the host call `proxy_on_tick` this often.
fn set_period<F>(root: &Root<F>, milliseconds: u32) {
    if root.period.get() != milliseconds && calls::tick_every(milliseconds).is_ok() {
        root.period.set(milliseconds);
    }
}
