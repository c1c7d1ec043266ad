//! What is sent, what must come back, and what it may cost.

use real_envoy::client::Request;

/// Requests that are sent one after the other, again and again.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) what: &'static str,
    /// What is sent, in turn.
    pub(crate) requests: Vec<Sent>,
    /// What whoever does the job answers to each of them.
    pub(crate) expected: Answer,
    /// What shows that an implementation does the job and does not merely answer like it: asked in this order,
    /// once, before anything is timed.
    pub(crate) probes: Vec<Probe>,
    /// What the module may cost.
    pub(crate) budgets: &'static [Budget],
}

/// A GET.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) path: &'static str,
    /// Beside those that every request has; one of the same name stands instead of that.
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// An answer's status and body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: &'static str,
}

/// At most this many times what a rival costs, both over the baseline.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct Budget {
    pub(crate) rival: &'static str,
    pub(crate) most: f64,
}

/// One request of a job, and its answer.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) what: &'static str,
    pub(crate) request: Sent,
    pub(crate) expected: Answer,
    /// Headers that the answer must have, and their values.
    pub(crate) headers: Vec<(String, String)>,
    /// Whether Envoy's log must have a line with its path, or must not.
    pub(crate) logged: Option<bool>,
}

/// The upstream's, which here is Envoy itself.
pub(crate) const PASSED: Answer = Answer { status: 200, body: "ok" };

impl Sent {
    /// A request without headers of its own.
    pub(crate) fn plain(path: &'static str) -> Self {
        Self { path, headers: Vec::new() }
    }

    /// The request.
    pub(crate) fn request(&self) -> Request {
        let request = Request::get(self.path);
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// The same with one more.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl Probe {
    pub(crate) fn new(what: &'static str, request: Sent, expected: Answer) -> Self {
        Self { what, request, expected, headers: Vec::new(), logged: None }
    }
}

/// At most so many times what that rival costs.
pub(crate) const fn budget(rival: &'static str, most: f64) -> Budget {
    Budget { rival, most }
}
