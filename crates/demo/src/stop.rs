//! A stop of a tour: a request, and what must come of it.

use std::collections::BTreeMap;

use real_envoy::client::{Request, Response};

use crate::sight::Sight;

/// How many characters of an answer's body the tour shows.
const SHOWN: usize = 400;

/// How many more requests would pass: the header of a limiter's answers.
pub(crate) const REMAINING: &str = "x-ratelimit-remaining";
/// For how long to wait: the header of a limiter's refusals.
pub(crate) const RETRY_AFTER: &str = "retry-after";
/// The body of a limiter's refusals.
const LIMITED: &str = "local_rate_limited";

/// One stop of a tour.
pub(crate) struct Stop {
    /// What is special about it.
    pub(crate) title: &'static str,
    /// What is to be seen in the answer.
    pub(crate) remark: &'static str,
    /// Before it, the `retry-after` of the answer before is waited for: at most so many seconds.
    pub(crate) wait: Option<u64>,
    pub(crate) request: Request,
    /// The token that it carries, to be shortened where it is not for pasting.
    pub(crate) token: Option<String>,
    pub(crate) expected: Expected,
    /// What the filter must log of it, where it logs.
    pub(crate) logged: Option<Logged>,
}

/// Lines that a filter writes.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    /// How many, at least and at most.
    pub(crate) lines: std::ops::RangeInclusive<usize>,
    /// What is in each of them.
    pub(crate) each: &'static [&'static str],
}

impl Logged {
    /// What is wrong with these lines, if anything.
    pub(crate) fn problem(&self, lines: &[String]) -> Option<String> {
        let Self { lines: wanted, each } = self;
        if !wanted.contains(&lines.len()) {
            return Some(format!(
                "expected {} to {} lines, got {}",
                wanted.start(),
                wanted.end(),
                lines.len()
            ));
        }
        let lacking =
            lines.iter().find_map(|line| Some((line, each.iter().find(|part| !line.contains(**part))?)));
        lacking.map(|(line, part)| format!("expected {part} in each line, got {line}"))
    }
}

/// How often a request is sent, and what comes of it.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    /// Once for each of these answers, which come in this order.
    InTurn(Vec<Answer>),
    /// So many times, and each time this answer.
    Times(usize, Answer),
    /// Many times, one right after the other: so many pass at least, and not all; others get this answer.
    Burst { times: usize, least: usize, refusal: Answer },
}

/// What an answer must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// 200 from the upstream, which was shown no token.
    Passed,
    /// The same, and so many more would pass: `x-ratelimit-remaining`.
    Left(u64),
    /// From the upstream, with this status.
    Said(u16),
    /// From the filter, with this status and body.
    Refused(u16, &'static str),
    /// 200 from the upstream, with all of this to be seen.
    Shows(&'static [Sight]),
    /// From the limiter, with a time to wait: `retry-after`, at most so many seconds.
    Limited(u64),
}

impl Stop {
    /// What is wrong with the answers, if anything. There is one for each time that the request was sent.
    pub(crate) fn problem(&self, answers: &[anyhow::Result<Response>]) -> Option<String> {
        let is = |expected: Answer, got: &anyhow::Result<Response>| {
            got.as_ref().is_ok_and(|answer| expected.is(answer, self.token.as_deref()))
        };
        let (expected, got) = match &self.expected {
            Expected::InTurn(all) => {
                let (expected, got) = all.iter().zip(answers).find(|(expected, got)| !is(**expected, got))?;
                (expected.describe(), self.shown(*expected, got))
            }
            Expected::Times(_, expected) => {
                let got = answers.iter().find(|got| !is(*expected, got))?;
                (expected.describe(), self.shown(*expected, got))
            }
            Expected::Burst { least, refusal, .. } => {
                let (passed, others): (Vec<_>, Vec<_>) =
                    answers.iter().partition(|got| is(Answer::Passed, got));
                let got = match others.iter().find(|got| !is(*refusal, got)) {
                    Some(other) => self.shown(*refusal, other),
                    None if passed.len() < *least || others.is_empty() => counted(answers),
                    None => return None,
                };
                let (passed, refused) = (Answer::Passed.describe(), refusal.describe());
                (format!("at least {least} times, but not always, {passed}, and else {refused}"), got)
            }
        };
        Some(format!("expected {expected}, got {got}"))
    }

    /// The answers as the tour shows them: a line for each, or how many there were of each kind.
    pub(crate) fn lines(&self, answers: &[anyhow::Result<Response>]) -> Vec<String> {
        match &self.expected {
            Expected::InTurn(all) => {
                all.iter().zip(answers).map(|(expected, got)| self.shown(*expected, got)).collect()
            }
            Expected::Times(..) | Expected::Burst { .. } => vec![counted(answers)],
        }
    }

    /// An answer, and what of it is of interest where another was expected, or this.
    fn shown(&self, expected: Answer, got: &anyhow::Result<Response>) -> String {
        let answer = match got {
            Ok(answer) => answer,
            Err(error) => return self.without_token(&format!("no answer: {error:#}")),
        };
        let mut parts = vec![answer.status.to_string()];
        if let (Answer::Shows(sights), 200) = (expected, answer.status) {
            parts.extend(sights.iter().map(|sight| sight.found(answer)));
            return parts.join("\n  ");
        }
        for name in [REMAINING, RETRY_AFTER] {
            parts.extend(answer.header(name).into_iter().map(|value| format!("{name}: {value}")));
        }
        // Where a header tells that it passed, what the upstream says is no news.
        if answer.status != 200 || parts.len() == 1 {
            let body = self.without_token(answer.text().lines().next().unwrap_or_default());
            parts.push(shortened(&body));
        }
        parts.join(" ")
    }

    /// The text with the token in it shortened.
    pub(crate) fn without_token(&self, text: &str) -> String {
        match &self.token {
            Some(token) => {
                let beginning: String = token.chars().take(12).collect();
                text.replace(token.as_str(), &format!("{beginning}..."))
            }
            None => text.to_owned(),
        }
    }
}

impl Expected {
    /// As one sees it with `curl`.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::InTurn(answers) => match answers.as_slice() {
                [first, .., last] => format!("{}, on to {}", first.shown(), last.shown()),
                answers => answers.iter().map(|answer| answer.shown()).collect(),
            },
            Self::Times(times, answer) => format!("{times} times {}", answer.shown()),
            Self::Burst { least, refusal, .. } => {
                format!("{} at least {least} times, then {}", Answer::Passed.shown(), refusal.shown())
            }
        }
    }
}

impl Answer {
    fn is(self, answer: &Response, token: Option<&str>) -> bool {
        let told = |name| answer.header(name).concat().parse::<u64>().ok();
        match self {
            Self::Passed => {
                let received = answer.json().ok();
                let seen = received.as_ref().is_some_and(|received| received.get("headers").is_some());
                let clean = token.is_none_or(|token| !answer.text().contains(token));
                answer.status == 200 && seen && clean
            }
            Self::Left(left) => Self::Passed.is(answer, token) && told(REMAINING) == Some(left),
            Self::Said(status) => answer.status == status && answer.json().is_ok(),
            Self::Refused(status, body) => answer.status == status && answer.text() == body,
            Self::Shows(sights) => {
                Self::Passed.is(answer, token) && sights.iter().all(|sight| sight.is_in(answer))
            }
            Self::Limited(most) => {
                let waits = told(RETRY_AFTER).is_some_and(|seconds| (1..=most).contains(&seconds));
                Self::Refused(429, LIMITED).is(answer, token) && waits
            }
        }
    }

    /// As one sees it with `curl`.
    fn shown(self) -> String {
        match self {
            Self::Passed | Self::Shows(_) => "200".to_owned(),
            Self::Left(left) => format!("200 with {left} left"),
            Self::Said(status) => status.to_string(),
            Self::Refused(status, body) => format!("{status} {body}"),
            Self::Limited(_) => format!("429 {LIMITED}"),
        }
    }

    /// All of it.
    fn describe(self) -> String {
        match self {
            Self::Passed => "200 from the upstream, which got no JWT".to_owned(),
            Self::Left(left) => format!("200 from the upstream, with {REMAINING}: {left}"),
            Self::Shows(sights) => format!("200 from the upstream, with {sights:?}"),
            Self::Said(status) => format!("{status} from the upstream"),
            Self::Refused(..) => self.shown(),
            Self::Limited(most) => format!("{} with {RETRY_AFTER} from 1 to {most}", self.shown()),
        }
    }
}

/// How many answers there are of each status.
fn counted(answers: &[anyhow::Result<Response>]) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for answer in answers {
        let status = answer.as_ref().map_or("no answer".to_owned(), |answer| answer.status.to_string());
        *counts.entry(status).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} times {status}")).collect();
    counts.join(", ")
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    const PASSED: &str = r#"{"headers":[]}"#;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> anyhow::Result<Response> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        Ok(Response { status, headers: headers.collect(), body: body.into(), trailers: Vec::new() })
    }

    fn stop(expected: Expected) -> Stop {
        let token = Some("a.long.token".to_owned());
        Stop { title: "", remark: "", wait: None, request: Request::get("/"), token, expected, logged: None }
    }

    fn limited(wait: &str) -> anyhow::Result<Response> {
        answer(429, &[(RETRY_AFTER, wait)], LIMITED)
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        use Answer::{Left, Limited, Passed, Refused, Shows};
        use Sight::Path;
        let missing = Refused(401, "Jwt is missing");
        let left = |left| answer(200, &[(REMAINING, left)], PASSED);
        let rows = [
            (Passed, answer(200, &[], PASSED), None),
            (Passed, answer(200, &[], "something else"), Some("200 something else")),
            (
                Passed,
                answer(200, &[], r#"{"headers":["a.long.token"]}"#),
                Some("200 {\"headers\":[\"a.long.token...\"]}"),
            ),
            (missing, answer(401, &[], "Jwt is missing"), None),
            (missing, answer(401, &[], "Jwt is expired"), Some("401 Jwt is expired")),
            (missing, Err(anyhow!("a.long.token")), Some("no answer: a.long.token...")),
            (Left(4), left("4"), None),
            (Left(4), left("3"), Some("200 x-ratelimit-remaining: 3")),
            (Left(4), answer(200, &[], PASSED), Some("200 {\"headers\":[]}")),
            (Limited(12), limited("1"), None),
            (Limited(12), limited("12"), None),
            (Limited(12), limited("13"), Some("429 retry-after: 13 local_rate_limited")),
            (Limited(12), limited("0"), Some("429 retry-after: 0 local_rate_limited")),
            (Limited(12), answer(429, &[], LIMITED), Some("429 local_rate_limited")),
            (Shows(&[Path("/")]), answer(200, &[], r#"{"path":"/","headers":[]}"#), None),
            (
                Shows(&[Path("/")]),
                answer(200, &[], r#"{"path":"/a","headers":[]}"#),
                Some("200\n  arrived as /a"),
            ),
            (Shows(&[Path("/")]), answer(503, &[], "x"), Some("503 x")),
        ];
        for (expected, got, problem) in rows {
            let stop = stop(Expected::InTurn(vec![expected]));
            let problem = problem.map(|got| format!("expected {}, got {got}", expected.describe()));
            assert_eq!(stop.problem(&[got]), problem);
        }
        let stop = stop(Expected::InTurn(vec![Left(1), Left(0)]));
        assert_eq!(stop.problem(&[left("1"), left("0")]), None);
        assert!(stop.problem(&[left("1"), left("1")]).unwrap().ends_with("got 200 x-ratelimit-remaining: 1"));
    }

    #[test]
    fn of_a_burst_enough_must_pass_and_not_all() {
        let stop = stop(Expected::Burst { times: 4, least: 2, refusal: Answer::Limited(1) });
        let burst = |passed: usize, other: fn() -> anyhow::Result<Response>| {
            let passing = || answer(200, &[(REMAINING, "9")], PASSED);
            let answers: Vec<_> = (0..4).map(|n| if n < passed { passing() } else { other() }).collect();
            (stop.problem(&answers), stop.lines(&answers))
        };
        let soon = || limited("1");
        assert_eq!(burst(2, soon), (None, vec!["2 times 200, 2 times 429".to_owned()]));
        assert_eq!(burst(3, soon).0, None);
        assert!(burst(1, soon).0.unwrap().ends_with("got 1 times 200, 3 times 429"));
        assert!(burst(4, soon).0.unwrap().ends_with("got 4 times 200"));
        assert!(burst(2, || limited("2")).0.unwrap().ends_with("got 429 retry-after: 2 local_rate_limited"));
        assert!(burst(2, || Err(anyhow!("x"))).0.unwrap().ends_with("got no answer: x"));
    }

    #[test]
    fn lines_are_counted_and_looked_at() {
        let logged = Logged { lines: 1..=2, each: &["\"status\":200"] };
        let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(logged.problem(&lines(&["{\"status\":200}"])), None);
        assert!(logged.problem(&[]).unwrap().ends_with("got 0"));
        assert!(logged.problem(&lines(&["{\"status\":200}", "{\"status\":500}"])).unwrap().contains("500"));
    }

    #[test]
    fn long_answers_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"\u{e9}".repeat(SHOWN + 1)), "\u{e9}".repeat(SHOWN) + "...");
    }
}
