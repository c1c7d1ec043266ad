//! What a check of one token finds, and how it is shown.
//!
//! The filter's own code ([`jwt_reject::verify`]) decides; an [`Observer`] learns how far it got. Shown
//! are the decoded header and claims, never the token, its signature or any key.
//!
//! As JSON, one object:
//! - `verdict`: `"accept"` or `"reject"`;
//! - `reason`, `status`, `body`: the label of [`Reason`], the HTTP status and the body that a client
//!   would get; `null` if accepted;
//! - `header`, `claims`: the decoded objects, or `null` where they could not be decoded;
//! - `checks`: for each of [`Check::ALL`], in order, `{"check", "result", "reason"}`; `result` is
//!   `"passed"`, `"failed"` or `"not_reached"`, `reason` a label if it failed, else `null`;
//! - `notes`: texts for people, such as which keys of the set are of no use.

use filter_api::{Moment, NoHost};
use jwt_reject::keys::KeySet;
use jwt_reject::reason::{Check, Reason};
use jwt_reject::token::{Padding, Parts, decode_object};
use jwt_reject::verify::{self, Observer, Policy, Unverified};
use serde::Serialize;
use serde_json::{Map, Value};

use super::time;

/// What is asked of a token.
#[derive(Debug, Clone)]
pub struct Question {
    /// What a provider asks.
    pub policy: Policy,
    /// The most bytes that it may have.
    pub max_token_bytes: usize,
    /// Whether header, key and signature are all that counts.
    pub signature_only: bool,
}

impl Default for Question {
    /// The filter's defaults.
    fn default() -> Self {
        Self { policy: Policy::default(), max_token_bytes: 8192, signature_only: false }
    }
}

/// Whether a token is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is.
    Accept,
    /// It is not.
    Reject,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// The token passed it.
    Passed,
    /// It is why the token is refused.
    Failed,
    /// It was not come to, or not asked for.
    NotReached,
}

/// A check and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    #[serde(serialize_with = "name_of")]
    check: Check,
    result: CheckResult,
    #[serde(serialize_with = "label_of")]
    reason: Option<Reason>,
}

/// What was found out about a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    refused: Option<Reason>,
    header: Option<Map<String, Value>>,
    claims: Option<Map<String, Value>>,
    steps: Vec<Step>,
    /// Texts for people.
    pub notes: Vec<String>,
}

/// Checks a token as the filter would.
pub fn examine(token: &[u8], question: &Question, keys: &KeySet, now: Moment) -> Report {
    let mut seen = Seen::default();
    let refused = decide(token, question, keys, now, &mut seen).err();
    // A payload that the checks did not come to is what one wants to see all the same.
    let parts = Parts::split(token).ok().filter(|_| token.len() <= question.max_token_bytes);
    let claims = seen.claims.or_else(|| decode(parts?.payload, question.policy.padding));
    let failed = refused.and_then(Reason::check);
    let steps = Check::ALL.into_iter().map(|check| {
        let (result, reason) = match (failed == Some(check), seen.passed.contains(&check)) {
            (true, _) => (CheckResult::Failed, refused),
            (false, true) => (CheckResult::Passed, None),
            (false, false) => (CheckResult::NotReached, None),
        };
        Step { check, result, reason }
    });
    Report { refused, header: seen.header, claims, steps: steps.collect(), notes: Vec::new() }
}

fn decide(
    token: &[u8],
    question: &Question,
    keys: &KeySet,
    now: Moment,
    seen: &mut Seen,
) -> Result<(), Reason> {
    if token.is_empty() {
        return Err(Reason::TokenMissing);
    }
    if token.len() > question.max_token_bytes {
        return Err(Reason::TokenTooLong);
    }
    seen.passed(Check::Presence);
    let (policy, host) = (&question.policy, NoHost(now));
    if question.signature_only {
        return verify::signature_only(token, policy, keys, &host, seen);
    }
    Unverified::read(token, policy.padding, seen)?.verify(policy, keys, &host, seen)
}

/// A payload for people to look at, however wrong the rest is.
fn decode(part: &str, padding: Padding) -> Option<Map<String, Value>> {
    decode_object(part, padding, Reason::PayloadNotBase64url, Reason::PayloadNotJson).ok()
}

#[derive(Debug, Default)]
struct Seen {
    header: Option<Map<String, Value>>,
    claims: Option<Map<String, Value>>,
    passed: Vec<Check>,
}

impl Observer for Seen {
    fn header(&mut self, header: &Map<String, Value>) {
        self.header = Some(header.clone());
    }

    fn claims(&mut self, claims: &Map<String, Value>) {
        self.claims = Some(claims.clone());
    }

    fn passed(&mut self, check: Check) {
        self.passed.push(check);
    }
}

impl Report {
    /// Why the token is refused; nothing if it is accepted.
    pub fn refused(&self) -> Option<Reason> {
        self.refused
    }

    /// Whether the token is accepted.
    pub fn verdict(&self) -> Verdict {
        if self.refused.is_none() { Verdict::Accept } else { Verdict::Reject }
    }

    /// Every check, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// For people: header, claims, their dates, the checks, notes, and the verdict as the last line.
    pub fn text(&self, now: Moment) -> String {
        let mut lines = Vec::new();
        let doubt = if self.refused.is_some() { " (not verified)" } else { "" };
        for (name, object) in [("header", &self.header), ("claims", &self.claims)] {
            match object {
                Some(object) => {
                    let text = serde_json::to_string_pretty(object).unwrap_or_default();
                    lines.push(format!("{name}{doubt}: {text}"));
                }
                None => lines.push(format!("{name}: cannot be shown")),
            }
        }
        let dates = self.dates(now);
        if !dates.is_empty() {
            lines.push("dates:".to_owned());
            lines.extend(dates);
        }
        lines.push("checks:".to_owned());
        lines.extend(self.steps.iter().map(|step| format!("  {:<10} {}", step.check.name(), step.outcome())));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.push(match self.refused {
            None => "accepted".to_owned(),
            Some(reason) => format!("refused: {}", explain(reason)),
        });
        lines.join("\n") + "\n"
    }

    fn dates(&self, now: Moment) -> Vec<String> {
        let date = |name| {
            let seconds = self.claims.as_ref()?.get(name)?.as_f64()?;
            Some(format!("  {name} {}", time::describe(seconds, now)?))
        };
        ["iat", "nbf", "exp"].into_iter().filter_map(date).collect()
    }

    /// For programs: see the module's documentation.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Shape<'a> {
            verdict: Verdict,
            reason: Option<&'static str>,
            status: Option<u16>,
            body: Option<&'static str>,
            header: &'a Option<Map<String, Value>>,
            claims: &'a Option<Map<String, Value>>,
            checks: &'a [Step],
            notes: &'a [String],
        }
        let shape = Shape {
            verdict: self.verdict(),
            reason: self.refused.map(Reason::label),
            status: self.refused.map(Reason::status),
            body: self.refused.map(Reason::body),
            header: &self.header,
            claims: &self.claims,
            checks: &self.steps,
            notes: &self.notes,
        };
        // Its keys are all strings, which is all that can go wrong.
        serde_json::to_string(&shape).unwrap_or_default() + "\n"
    }
}

impl Step {
    /// Which check.
    pub fn check(&self) -> Check {
        self.check
    }

    /// What became of it.
    pub fn result(&self) -> CheckResult {
        self.result
    }

    fn outcome(&self) -> String {
        match (self.result, self.reason) {
            (CheckResult::Failed, Some(reason)) => format!("failed: {}", explain(reason)),
            (CheckResult::Failed, None) => "failed".to_owned(),
            (CheckResult::Passed, _) => "passed".to_owned(),
            (CheckResult::NotReached, _) => "not reached".to_owned(),
        }
    }
}

/// `token_expired (401): Jwt is expired`
fn explain(reason: Reason) -> String {
    format!("{} ({}): {}", reason.label(), reason.status(), reason.body())
}

fn name_of<S: serde::Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(check.name())
}

fn label_of<S: serde::Serializer>(reason: &Option<Reason>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(Reason::label).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64ct::{Base64UrlUnpadded, Encoding as _};

    const KEYS: &str = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}]}"#;

    fn look(header: &str, payload: &str, question: &Question) -> Report {
        let part = |text: &str| Base64UrlUnpadded::encode_string(text.as_bytes());
        let (keys, _) = KeySet::parse(KEYS, false).unwrap();
        examine(format!("{}.{}.AA", part(header), part(payload)).as_bytes(), question, &keys, Moment::at(100))
    }

    /// The results as `ppfn...`, in the order of [`Check::ALL`].
    fn results(report: &Report) -> String {
        let letter = |step: &Step| match step.result() {
            CheckResult::Passed => 'p',
            CheckResult::Failed => 'f',
            CheckResult::NotReached => 'n',
        };
        report.steps().iter().map(letter).collect()
    }

    #[test]
    fn each_check_tells_how_far_the_token_got() {
        let own = Question::default();
        let audience = Policy { audiences: vec!["api".into()], ..Policy::default() };
        let audience = Question { policy: audience, ..Question::default() };
        let alone = Question { signature_only: true, ..Question::default() };
        let short = Question { max_token_bytes: 10, ..Question::default() };
        let rows = [
            (r#"{"alg":"HS256"}"#, "{}", &own, "ppppppppppp f", Some("signature_wrong")),
            (r#"{"alg":"HS256"}"#, r#"{"exp":1}"#, &own, "pppppp f nnnnn", Some("token_expired")),
            (r#"{"alg":"HS256"}"#, "{}", &audience, "pppppppp f nnn", Some("audience_not_allowed")),
            (r#"{"alg":"HS256"}"#, r#"{"exp":"1"}"#, &own, "ppp n f nnnnnnn", Some("exp_not_number")),
            (r#"{"alg":"none"}"#, "{}", &own, "ppp f nnnnnnnn", Some("alg_not_supported")),
            (r#"{"alg":"ES256"}"#, "{}", &own, "ppppp f nnnnnn", Some("key_not_found")),
            (r#"{"alg":"HS256","crit":[]}"#, "{}", &own, "pp f nnnnnnnnn", Some("crit_not_supported")),
            (r#"{"alg":"HS256"}"#, "x", &alone, "pppp n p nnnnn f", Some("signature_wrong")),
            (r#"{"alg":"HS256"}"#, "{}", &short, "f nnnnnnnnnnn", Some("token_too_long")),
        ];
        for (header, payload, question, expected, reason) in rows {
            let report = look(header, payload, question);
            assert_eq!(results(&report), expected.replace(' ', ""), "{header} {payload}");
            assert_eq!(report.refused().map(Reason::label), reason, "{header} {payload}");
            assert_eq!(report.header.is_some(), question.max_token_bytes > 10);
        }
    }

    #[test]
    fn what_was_refused_is_shown_all_the_same() {
        let report = look(r#"{"alg":"none"}"#, r#"{"exp":"soon","nbf":40}"#, &Question::default());
        let text = report.text(Moment::at(100));
        assert!(text.contains("\"none\"") && text.contains("\"soon\""), "{text}");
        assert!(text.contains("\n  nbf 1970-01-01T00:00:40Z (60 seconds ago)\n"), "{text}");
        assert!(!text.contains("  exp"), "{text}");
    }
}
