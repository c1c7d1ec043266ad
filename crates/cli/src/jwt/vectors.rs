//! Test vectors: tokens with the verdict that each must get.
//!
//! A file is a JSON array of [`Vector`]s. Each is held against up to three expectations:
//! 1. `expect`: the verdict of all checks, with the vector's issuer, audiences, skew and time. Where
//!    `weak_key` is there, weak keys are allowed;
//! 2. where `weak_key` is there: a reject, now with the default, which allows no weak keys;
//! 3. `signature_only`, where it is there: the verdict on header, key and signature alone, with the default.
//!
//! Every algorithm is allowed. A set of keys that cannot be read is a reject. A vector of the policy
//! `exp_boundary` is about the very second of `exp`, which a skew would cover: without a skew of its own
//! it is held against none. Fields that are not known are for people and passed over.

use anyhow::{Context as _, ensure};
use filter_api::Moment;
use jwt_reject::keys::KeySet;
use jwt_reject::reason::Reason;
use jwt_reject::verify::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::{self, Question, Verdict};

/// A token and its verdict.
#[derive(Debug, Clone, Deserialize)]
pub struct Vector {
    id: String,
    token: String,
    /// A JWK set; a string stands for its text.
    jwks: Value,
    expect: Expect,
    /// UNIX seconds; without, the clock.
    #[serde(default)]
    now: Option<u64>,
    #[serde(default)]
    issuer: Option<String>,
    #[serde(default)]
    audiences: Option<Vec<String>>,
    /// Seconds; without, 60.
    #[serde(default)]
    clock_skew: Option<u64>,
    /// What is weak about the key; `true` will do.
    #[serde(default)]
    weak_key: Option<Value>,
    #[serde(default)]
    signature_only: Option<Expect>,
    /// The choice that the verdict rests on.
    #[serde(default)]
    policy: Option<String>,
}

/// The verdict that a vector must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// It must be accepted.
    Accept,
    /// It must be refused.
    Reject,
    /// Both will do.
    Either,
}

/// What of a vector was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All checks.
    Whole,
    /// All checks, with weak keys not allowed.
    WithoutWeakKeys,
    /// Header, key and signature alone, with weak keys not allowed.
    Signature,
}

/// A verdict that is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The vector's.
    pub id: String,
    /// What was looked at.
    pub part: Part,
    /// What it should be.
    pub expected: Expect,
    /// What it is.
    pub got: Verdict,
    /// Why: a label, or what is wrong with the keys; nothing if accepted.
    pub reason: Option<String>,
}

/// What a run found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many vectors there are.
    pub total: usize,
    /// How many of them are as expected in every part.
    pub as_expected: usize,
    /// The others, each with every part that differs.
    pub differences: Vec<Difference>,
}

/// Reads a file's text.
///
/// # Errors
/// It is not of the form, which is said with line and column; or there are no vectors in it, which would
/// prove nothing.
pub fn parse(text: &str) -> anyhow::Result<Vec<Vector>> {
    let vectors: Vec<Vector> = serde_json::from_str(text)
        .context("is no JSON array of test vectors (`foregate jwt check --help` tells the form)")?;
    ensure!(!vectors.is_empty(), "0 of 0 as expected: there are no vectors, which proves nothing");
    Ok(vectors)
}

/// Runs the vectors; those without a time at `clock`.
pub fn run(vectors: &[Vector], clock: Moment) -> Summary {
    let differences: Vec<Vec<Difference>> = vectors
        .iter()
        .map(|vector| vector.differences(clock))
        .filter(|differences| !differences.is_empty())
        .collect();
    Summary {
        total: vectors.len(),
        as_expected: vectors.len().saturating_sub(differences.len()),
        differences: differences.into_iter().flatten().collect(),
    }
}

impl Vector {
    fn differences(&self, clock: Moment) -> Vec<Difference> {
        let weak = self.weak_key.as_ref().is_some_and(|weak| *weak != Value::Bool(false));
        let mut expectations = vec![(Part::Whole, weak, self.expect)];
        if weak {
            expectations.push((Part::WithoutWeakKeys, false, Expect::Reject));
        }
        if let Some(expect) = self.signature_only {
            expectations.push((Part::Signature, false, expect));
        }
        let differs = |(part, allow_weak, expected)| {
            let refused = self.verify(part == Part::Signature, allow_weak, clock).err();
            let got = if refused.is_none() { Verdict::Accept } else { Verdict::Reject };
            let difference = Difference { id: self.id.clone(), part, expected, got, reason: refused };
            (!expected.allows(got)).then_some(difference)
        };
        expectations.into_iter().filter_map(differs).collect()
    }

    /// Why it is refused, if it is.
    fn verify(&self, signature_only: bool, allow_weak: bool, clock: Moment) -> Result<(), String> {
        let text = match &self.jwks {
            Value::String(text) => text.clone(),
            set => set.to_string(),
        };
        let (keys, _) = KeySet::parse(&text, allow_weak).map_err(|errors| {
            let messages: Vec<String> =
                errors.into_iter().map(|error| format!("{} {}", error.place, error.message)).collect();
            format!("jwks: {}", messages.join("; "))
        })?;
        let default = Policy::default();
        let policy = Policy {
            issuer: self.issuer.clone(),
            audiences: self.audiences.clone().unwrap_or_default(),
            clock_skew: match (self.clock_skew, self.policy.as_deref()) {
                (Some(seconds), _) => seconds.saturating_mul(1_000_000_000),
                (None, Some("exp_boundary")) => 0,
                (None, _) => default.clock_skew,
            },
            ..default
        };
        // How long a token may be is for a configuration to say.
        let question = Question { policy, max_token_bytes: usize::MAX, signature_only };
        let now = self.now.map_or(clock, Moment::at);
        let report = report::examine(self.token.as_bytes(), &question, &keys, now);
        report.refused().map_or(Ok(()), |reason: Reason| Err(reason.label().to_owned()))
    }
}

impl Expect {
    fn allows(self, verdict: Verdict) -> bool {
        match self {
            Self::Accept => verdict == Verdict::Accept,
            Self::Reject => verdict == Verdict::Reject,
            Self::Either => true,
        }
    }
}

impl Summary {
    /// For people: what differs, and the count as the last line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for difference in &self.differences {
            let part = match difference.part {
                Part::Whole => "",
                Part::Signature => " (signature alone)",
                Part::WithoutWeakKeys => " (weak keys not allowed)",
            };
            let expected = match difference.expected {
                Expect::Accept => "accept",
                Expect::Reject => "reject",
                Expect::Either => "either",
            };
            let got = match difference.got {
                Verdict::Accept => "accept",
                Verdict::Reject => "reject",
            };
            let reason = difference.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            text += &format!("{}{part}: expected {expected}, got {got}{reason}\n", difference.id);
        }
        text + &format!("{} of {} as expected\n", self.as_expected, self.total)
    }

    /// For programs: the fields as they are named here.
    pub fn json(&self) -> String {
        // Nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}
