//! What is sent, what must come back, and what it may cost.

use anyhow::Context as _;

use crate::tokens::{Algorithm, Keys, forged, without_signature};

/// How many different tokens stand for "never seen before". More than any cache here remembers (1000 good
/// and 4096 forged ones), and sent in a circle: when one comes again, it has long been forgotten.
const NEVER_SEEN: usize = 5000;
/// How many forged tokens there are where none is to be seen twice: more than a run of the usual length sends. A
/// store of forged tokens forgets by chance, so that some of fewer would be remembered.
const NEVER_FORGED: usize = 110_000;

/// A kind of request that is sent again and again, or in a circle.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) what: &'static str,
    pub(crate) path: &'static str,
    /// The token of each request, in turn; none is a request without one.
    pub(crate) tokens: Vec<Option<String>>,
    /// What whoever does the job answers.
    pub(crate) expected: Answer,
    /// What jwt_reject may cost.
    pub(crate) budgets: &'static [Budget],
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

/// One request of a job, and its answer: asked before anything is timed.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) what: &'static str,
    pub(crate) path: &'static str,
    pub(crate) token: Option<String>,
    pub(crate) expected: Answer,
}

/// The upstream's, which here is Envoy itself.
pub(crate) const PASSED: Answer = Answer { status: 200, body: "ok" };
const MISSING: Answer = Answer { status: 401, body: "Jwt is missing" };
const MALFORMED: Answer = Answer {
    status: 401,
    body: "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
};
const EXPIRED: Answer = Answer { status: 401, body: "Jwt is expired" };
const FORGED: Answer = Answer { status: 401, body: "Jwt verification fails" };

const API: &str = "/orders/17";
const OPEN: &str = "/health";

const fn budget(rival: &'static str, most: f64) -> Budget {
    Budget { rival, most }
}

/// Refused before any signature is looked at: Lua can do it too.
const REFUSED_EARLY: &[Budget] = &[budget("lua", 0.75), budget("native", 2.0)];
const SEEN_BEFORE: &[Budget] = &[budget("native", 0.3)];
const FIRST_SEEN: &[Budget] = &[budget("native", 1.3)];

/// The names of all workloads, in the order in which they run.
pub(crate) const NAMES: &[&str] = &[
    "no-requirement",
    "missing",
    "malformed",
    "expired",
    "forged-repeated",
    "forged-once",
    "good-repeated",
    "good-1000",
    "first-seen-rs256",
    "first-seen-es256",
];

impl Workload {
    /// Makes what one workload sends.
    pub(crate) fn make(name: &str, keys: &Keys) -> anyhow::Result<Self> {
        use Algorithm::{Es256, Rs256};
        let name = NAMES.iter().find(|known| **known == name).copied();
        let name = name.with_context(|| format!("no such workload; there are {}", NAMES.join(", ")))?;
        let one = |token: String| vec![Some(token)];
        let many = |tokens: Vec<String>| tokens.into_iter().map(Some).collect::<Vec<_>>();
        let good = || keys.good(Rs256, 0);
        let (what, tokens, expected, budgets) = match name {
            "no-requirement" => ("a path whose rule asks for nothing", vec![None], PASSED, [].as_slice()),
            "missing" => ("no token", vec![None], MISSING, REFUSED_EARLY),
            "malformed" => {
                ("a token without its signature", one(without_signature(&good()?)?), MALFORMED, REFUSED_EARLY)
            }
            "expired" => ("an expired token", one(keys.expired()?), EXPIRED, REFUSED_EARLY),
            "forged-repeated" => {
                ("one forged token again and again (RS256)", one(forged(&good()?, 0)?), FORGED, SEEN_BEFORE)
            }
            "forged-once" => {
                let good = good()?;
                let all = (0..NEVER_FORGED).map(|number| forged(&good, number));
                let all = all.collect::<anyhow::Result<_>>()?;
                ("forged tokens not seen before (RS256)", many(all), FORGED, [].as_slice())
            }
            "good-repeated" => ("one good token again and again (RS256)", one(good()?), PASSED, SEEN_BEFORE),
            "good-1000" => {
                ("1000 good tokens in turn (RS256)", many(keys.many(Rs256, 1000)?), PASSED, SEEN_BEFORE)
            }
            "first-seen-rs256" => (
                "good tokens not seen before (RS256)",
                many(keys.many(Rs256, NEVER_SEEN)?),
                PASSED,
                FIRST_SEEN,
            ),
            _ => (
                "good tokens not seen before (ES256)",
                many(keys.many(Es256, NEVER_SEEN)?),
                PASSED,
                FIRST_SEEN,
            ),
        };
        let path = if name == "no-requirement" { OPEN } else { API };
        Ok(Self { name, what, path, tokens, expected, budgets })
    }

    /// What an implementation must answer to be timed with this workload: the workload's own first request,
    /// and what shows that it does the job and does not merely answer like it. Signatures are asked about
    /// unless all that is sent is refused before anyone would look at them.
    pub(crate) fn probes(&self, keys: &Keys) -> anyhow::Result<Vec<Probe>> {
        let good = keys.good(Algorithm::Rs256, 0)?;
        let probe = |what, token: Option<String>, expected| Probe { what, path: API, token, expected };
        let mut probes = vec![
            Probe {
                what: "the first request",
                path: self.path,
                token: self.tokens.first().cloned().flatten(),
                expected: self.expected,
            },
            Probe { what: "an open path", path: OPEN, token: None, expected: PASSED },
            probe("a good token", Some(good.clone()), PASSED),
            probe("a good token of the other key", Some(keys.good(Algorithm::Es256, 0)?), PASSED),
            probe("no token", None, MISSING),
            probe("a malformed token", Some(without_signature(&good)?), MALFORMED),
            probe("an expired token", Some(keys.expired()?), EXPIRED),
        ];
        if ![MISSING, MALFORMED, EXPIRED].contains(&self.expected) {
            probes.push(probe("a forged token", Some(forged(&good, NEVER_SEEN)?), FORGED));
        }
        Ok(probes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_workload_is_answered_with_those_there_are() {
        let message = Workload::make("good", &Keys::make().unwrap()).unwrap_err().to_string();
        assert_eq!(message, format!("no such workload; there are {}", NAMES.join(", ")));
    }
}
