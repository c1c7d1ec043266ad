//! The stand of local_rate_limit: a client that runs into one limit, then into the other.

use real_envoy::Config;
use real_envoy::client::Request;

use crate::stop::Answer::{Left, Limited, Passed};
use crate::stop::{Expected, Stop};
use crate::tour::Stand;

/// The configuration shown, from the root of the repository.
const CONFIGURATION: &str = "envoy-configs/local-rate-limit/wasm.yaml";

/// Seconds in which it grants one more login: 5 in 60.
const LOGIN_EVERY: u64 = 12;
/// How many requests it grants a client at once.
const PER_CLIENT: usize = 100;

/// The shipped configuration, and what becomes of logins and of a burst.
pub(crate) fn stand() -> anyhow::Result<Stand> {
    Ok(Stand {
        filter: "local_rate_limit",
        configuration: CONFIGURATION,
        config: Config::load(CONFIGURATION)?,
        introduction: "as it is shipped.\n\
             The filter grants each client 100 requests in 10 seconds, 5 logins in 60 seconds, and GET /health without a\n\
             limit. Take these in this order.",
        stops: stops(),
    })
}

fn stops() -> Vec<Stop> {
    let stop = |title, remark, request, expected| Stop {
        title,
        remark,
        wait: None,
        request,
        token: None,
        expected,
        logged: None,
    };
    let once = |answer| Expected::InTurn(vec![answer]);
    let login = || Request::new("POST", "/login");
    vec![
        stop(
            "five logins",
            "x-ratelimit-remaining says how many are left",
            login(),
            Expected::InTurn(vec![Left(4), Left(3), Left(2), Left(1), Left(0)]),
        ),
        stop("a sixth", "retry-after says for how many seconds", login(), once(Limited(LOGIN_EVERY))),
        Stop {
            wait: Some(LOGIN_EVERY),
            ..stop("the same, when that time is up", "every 12 s one more is granted", login(), once(Left(0)))
        },
        stop(
            "a burst",
            "the login before was one of this client's 100; 10 more are granted every second",
            Request::get("/orders"),
            Expected::Burst { times: 2 * PER_CLIENT, least: PER_CLIENT - 1, refusal: Limited(1) },
        ),
        stop("a path that is exempt", "even so", Request::get("/health"), once(Passed)),
    ]
}
