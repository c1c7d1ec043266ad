//! The tour: a table of requests, each with the answer that it must get.

use std::fmt::Write as _;

use anyhow::{bail, ensure};
use real_envoy::client::{self, Request, Response};

use crate::curl;
use crate::gateway::{CONFIGURATION, Gateway};
use crate::tokens::Tokens;

/// How many characters of an answer's body the tour shows.
const SHOWN: usize = 400;

/// One request of the tour.
struct Stop {
    /// What is special about it.
    title: &'static str,
    /// What is to be seen in the answer.
    remark: &'static str,
    request: Request,
    /// The token that it carries, to be shortened where it is not for pasting.
    token: Option<String>,
    expected: Expected,
}

/// What an answer must be.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// 200 from the upstream, which was shown no token.
    Passed,
    /// From the filter, with this status and body.
    Refused(u16, &'static str),
}

/// Every stop, in order.
fn stops(tokens: &Tokens) -> Vec<Stop> {
    use Expected::{Passed, Refused};
    let bearer = |title, remark, token: &String, expected| Stop {
        title,
        remark,
        request: Request::get("/orders").header("authorization", format!("Bearer {token}")),
        token: Some(token.clone()),
        expected,
    };
    vec![
        bearer(
            "a good token",
            "the upstream shows the request: the token was taken out",
            &tokens.good,
            Passed,
        ),
        Stop {
            title: "a good token in the query",
            remark: "taken out of the path too",
            request: Request::get(&format!("/orders?page=2&access_token={}", tokens.good)),
            token: Some(tokens.good.clone()),
            expected: Passed,
        },
        Stop {
            title: "a path that is open",
            remark: "its rule requires no token",
            request: Request::get("/health"),
            token: None,
            expected: Passed,
        },
        Stop {
            title: "no token",
            remark: "",
            request: Request::get("/orders"),
            token: None,
            expected: Refused(401, "Jwt is missing"),
        },
        bearer("an expired token", "", &tokens.expired, Refused(401, "Jwt is expired")),
        bearer(
            "a forged token",
            "one character of the signature was changed",
            &tokens.forged,
            Refused(401, "Jwt verification fails"),
        ),
        bearer(
            "a token without signature",
            "`alg` is none",
            &tokens.unsigned,
            Refused(401, "Jwt header [alg] is not supported"),
        ),
        bearer(
            "a token for another audience",
            "good, but not for here",
            &tokens.other_audience,
            Refused(403, "Audiences in Jwt are not allowed"),
        ),
    ]
}

/// What to read beside a running gateway: the stops as lines to paste.
pub(crate) fn leaflet(gateway: &Gateway, tokens: &Tokens) -> anyhow::Result<String> {
    let (address, admin) = (gateway.address(), gateway.admin());
    let mut text = format!(
        "\n\
         Envoy runs {CONFIGURATION} at http://{address}, with a key made for this demo. The filter\n\
         jwt_reject lets requests with a valid JWT through to an upstream that answers with what it received,\n\
         and refuses the others. Paste these into another terminal; the tokens are good for 24 hours.\n\n"
    );
    for stop in stops(tokens) {
        let colon = if stop.remark.is_empty() { "" } else { "; " };
        writeln!(text, "# {}: {}{colon}{}", stop.title, stop.expected.answer(), stop.remark)?;
        writeln!(text, "{}\n", curl::line(address, &stop.request))?;
    }
    writeln!(text, "# what the filter counted")?;
    writeln!(text, "curl -s 'http://{admin}/stats?filter=foregate'\n")?;
    writeln!(text, "Ctrl-C ends it all.")?;
    Ok(text)
}

/// Takes the tour: sends every request, prints it with its answer, and fails if one is not as it should be.
pub(crate) async fn take(gateway: &Gateway, tokens: &Tokens) -> anyhow::Result<()> {
    println!("Envoy runs {CONFIGURATION} at http://{}\n", gateway.address());
    let stops = stops(tokens);
    let mut wrong = Vec::new();
    for stop in &stops {
        let line = curl::line(gateway.address(), &stop.request);
        println!("# {}\n{}", stop.title, stop.without_token(&line));
        let answer = client::send(gateway.address(), &stop.request).await;
        match &answer {
            Ok(answer) => {
                println!("{} {}", answer.status, shortened(&stop.without_token(&first_line(answer))))
            }
            Err(error) => println!("no answer: {}", stop.without_token(&format!("{error:#}"))),
        }
        if let Some(problem) = stop.problem(answer.as_ref().ok()) {
            println!("NOT AS IT SHOULD BE: {problem}");
            wrong.push(format!("{}: {problem}", stop.title));
        }
        println!();
    }
    println!("# what the filter counted\n{}\n", gateway.metrics().await?.join("\n"));
    ensure!(gateway.is_alive(), "Envoy ended during the tour; its log:\n{}", gateway.log());
    if !wrong.is_empty() {
        bail!(
            "{} of {} answers are not as they should be:\n  {}",
            wrong.len(),
            stops.len(),
            wrong.join("\n  ")
        );
    }
    println!("{0} of {0} answers as they should be", stops.len());
    Ok(())
}

impl Stop {
    /// What is wrong with the answer, if anything.
    fn problem(&self, answer: Option<&Response>) -> Option<String> {
        let got = match answer {
            None => "none".to_owned(),
            Some(answer) if self.expected.is(answer, self.token.as_deref()) => return None,
            Some(answer) => {
                format!("{} {}", answer.status, shortened(&self.without_token(&first_line(answer))))
            }
        };
        Some(format!("expected {}, got {got}", self.expected.describe()))
    }

    fn without_token(&self, text: &str) -> String {
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
    fn is(self, answer: &Response, token: Option<&str>) -> bool {
        match self {
            Self::Passed => {
                let received = answer.json().ok();
                let seen = received.as_ref().is_some_and(|received| received.get("headers").is_some());
                let clean = token.is_none_or(|token| !answer.text().contains(token));
                answer.status == 200 && seen && clean
            }
            Self::Refused(status, body) => answer.status == status && answer.text() == body,
        }
    }

    /// As one sees it with `curl`.
    fn answer(self) -> String {
        match self {
            Self::Passed => "200".to_owned(),
            Self::Refused(status, body) => format!("{status} {body}"),
        }
    }

    /// All of it.
    fn describe(self) -> String {
        match self {
            Self::Passed => "200 from the upstream, which got no token".to_owned(),
            Self::Refused(..) => self.answer(),
        }
    }
}

fn first_line(answer: &Response) -> String {
    answer.text().lines().next().unwrap_or_default().to_owned()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Response {
        Response { status, headers: Vec::new(), body: body.into(), trailers: Vec::new() }
    }

    #[test]
    fn a_wrong_answer_is_noticed_and_no_token_is_shown() {
        let tokens = Tokens::mint().unwrap();
        let stops = stops(&tokens);
        let problem = |place: usize, answer: Option<Response>| stops[place].problem(answer.as_ref());
        assert_eq!(problem(0, Some(answer(200, r#"{"headers":[]}"#))), None);
        assert_eq!(problem(3, Some(answer(401, "Jwt is missing"))), None);
        assert_eq!(
            problem(3, Some(answer(401, "Jwt is expired"))).unwrap(),
            "expected 401 Jwt is missing, got 401 Jwt is expired"
        );
        assert_eq!(problem(3, None).unwrap(), "expected 401 Jwt is missing, got none");
        assert!(problem(0, Some(answer(200, "something else"))).is_some());
        let leaked =
            problem(0, Some(answer(200, &format!("{{\"headers\":[\"{}\"]}}", tokens.good)))).unwrap();
        assert!(leaked.contains("...") && !leaked.contains(&tokens.good), "{leaked}");
    }

    #[test]
    fn tokens_are_what_they_are_called() {
        let tokens = Tokens::mint().unwrap();
        let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (good, forged, unsigned) = (parts(&tokens.good), parts(&tokens.forged), parts(&tokens.unsigned));
        assert_eq!(good[..2], forged[..2]);
        assert!(good[2] != forged[2] && good[2].len() == forged[2].len());
        assert!(unsigned[1] == good[1] && unsigned[2].is_empty());
        assert!(tokens.jwks().contains("\"P-256\"") && !tokens.jwks().contains("\"d\""));
    }

    #[test]
    fn long_answers_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"\u{e9}".repeat(SHOWN + 1)), "\u{e9}".repeat(SHOWN) + "...");
    }
}
