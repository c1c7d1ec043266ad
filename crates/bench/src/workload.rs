//! What is sent, what must come back, and what it may cost.

use real_envoy::client::Request;

/// A workload as it is told of before anything runs: what `--list` shows, and what the workload itself is made from.
#[derive(Debug)]
pub struct Kind {
    /// What it is called; no other has that name.
    pub name: &'static str,
    /// What is sent and what becomes of it, in words.
    pub what: &'static str,
    /// What whoever does the job answers. The first stands for all requests that do not say otherwise.
    pub answers: &'static [Answer],
    /// Who is compared, the baseline first; of these the probes leave out who does not do the job.
    pub rivals: &'static [&'static str],
    /// What our modules may cost.
    pub budgets: &'static [Budget],
    /// Which comparisons say less than they seem to.
    pub unfair: &'static [Unfair],
}

/// A comparison of unlike things, which is made all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Unfair {
    /// Who does less than the others, or more.
    pub rival: &'static str,
    /// What it does less, or more.
    pub why: &'static str,
}

/// Requests that are sent one after the other, again and again.
#[derive(Debug)]
pub struct Workload {
    /// What it is called; no other has that name.
    pub name: &'static str,
    /// In words.
    pub what: &'static str,
    /// What is sent, in turn.
    pub requests: Vec<Sent>,
    /// What whoever does the job answers to each of them.
    pub expected: Answer,
    /// What shows that an implementation does the job and does not merely answer like it: asked in this order,
    /// once, before anything is timed.
    pub probes: Vec<Probe>,
    /// What the module may cost.
    pub budgets: &'static [Budget],
    /// Which comparisons say less than they seem to.
    pub unfair: &'static [Unfair],
    /// So many requests at least come before the first round: as many as there are, where all of them are to be
    /// known by then.
    pub warm_up: usize,
}

/// A GET.
#[derive(Debug, Clone)]
pub struct Sent {
    /// With its query, if it has one.
    pub path: &'static str,
    /// Beside those that every request has; one of the same name stands instead of that.
    pub headers: Vec<(&'static str, String)>,
    /// What must come back, where that is not what the workload expects of all.
    pub expected: Option<Answer>,
}

/// An answer's status and body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Its status code.
    pub status: u16,
    /// All of its body.
    pub body: &'static str,
}

/// At most this many times what a rival costs, both over the baseline.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Budget {
    /// Whose cost is the measure.
    pub rival: &'static str,
    /// How many times that.
    pub most: f64,
}

/// One request of a job, and its answer.
#[derive(Debug)]
pub struct Probe {
    /// In words.
    pub what: &'static str,
    /// What is sent.
    pub request: Sent,
    /// What must come back.
    pub expected: Answer,
    /// Headers that the answer must have, and their values.
    pub headers: Vec<(String, String)>,
    /// Whether Envoy's log must have a line with its path, or must not.
    pub logged: Option<bool>,
}

/// The upstream's, which here is Envoy itself.
pub const PASSED: Answer = Answer { status: 200, body: "ok" };

impl Workload {
    /// That kind, with these requests. It has no probes, and needs no more warming up than any other.
    pub fn of(kind: &Kind, requests: Vec<Sent>) -> Self {
        let Kind { name, what, answers, budgets, unfair, .. } = *kind;
        let expected = answers.first().copied().unwrap_or(PASSED);
        Self { name, what, requests, expected, probes: Vec::new(), budgets, unfair, warm_up: 0 }
    }

    /// The same, asked about by these.
    #[must_use]
    pub fn probed(self, probes: Vec<Probe>) -> Self {
        Self { probes, ..self }
    }

    /// The same, each of whose requests was sent before the first round.
    #[must_use]
    pub fn all_seen_before(self) -> Self {
        Self { warm_up: self.requests.len(), ..self }
    }

    /// Why a comparison with this one says less than it seems to.
    pub fn unfair(&self, rival: &str) -> Option<&'static str> {
        self.unfair.iter().find(|it| it.rival == rival).map(|it| it.why)
    }

    /// The first request, as something to ask about before anything is timed.
    pub fn first(&self) -> Option<Probe> {
        let first = self.requests.first()?;
        Some(Probe::new("the first request", first.clone(), first.expected.unwrap_or(self.expected)))
    }
}

impl Sent {
    /// A request without headers of its own.
    pub fn plain(path: &'static str) -> Self {
        Self { path, headers: Vec::new(), expected: None }
    }

    /// The request.
    pub fn request(&self) -> Request {
        let request = Request::get(self.path);
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// The same with one more.
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same, for a workload not all of whose requests get one answer.
    #[must_use]
    pub fn answered(self, expected: Answer) -> Self {
        Self { expected: Some(expected), ..self }
    }
}

impl Probe {
    /// One that asks about status and body alone.
    pub fn new(what: &'static str, request: Sent, expected: Answer) -> Self {
        Self { what, request, expected, headers: Vec::new(), logged: None }
    }
}

/// At most so many times what that rival costs.
pub const fn budget(rival: &'static str, most: f64) -> Budget {
    Budget { rival, most }
}

/// Against that one, for this reason.
pub const fn unfair(rival: &'static str, why: &'static str) -> Unfair {
    Unfair { rival, why }
}
