//! The stand of sampled_log: what is logged, and what is not.

use real_envoy::Config;
use real_envoy::client::Request;

use crate::stop::Answer::{Passed, Said};
use crate::stop::{Expected, Logged, Stop};
use crate::tour::Stand;

/// The configuration shown, from the root of the repository.
const CONFIGURATION: &str = "envoy-configs/sampled-log/wasm.yaml";

/// The shipped configuration, and what it logs.
pub(crate) fn stand() -> anyhow::Result<Stand> {
    Ok(Stand {
        filter: "sampled_log",
        configuration: CONFIGURATION,
        config: Config::load(CONFIGURATION)?,
        introduction: "as it is shipped.\n\
             The filter logs every failure, and a tenth of the rest but for /health. The upstream answers with the status\n\
             and after the time that a request asks for.",
        stops: stops(),
    })
}

fn stops() -> Vec<Stop> {
    vec![
        stop(
            "an error",
            "always logged",
            Request::get("/orders?status=503&card=4111111111111111"),
            Expected::InTurn(vec![Said(503)]),
            Logged { lines: 1..=1, each: &["\"status\":503", "\"why\":\"always\"", "\"path\":\"/orders\""] },
        ),
        stop(
            "a request that takes its time",
            "always logged",
            Request::get("/orders?delay=1100"),
            Expected::InTurn(vec![Passed]),
            Logged { lines: 1..=1, each: &["\"duration_ms\":1", "\"why\":\"always\""] },
        ),
        stop(
            "a hundred good requests",
            "about a tenth of them is logged, and each line says so",
            Request::get("/orders"),
            Expected::Times(100, Passed),
            Logged { lines: 1..=30, each: &["\"status\":200", "\"sample_rate\":0.1"] },
        ),
        stop(
            "a health check",
            "never logged",
            Request::get("/health"),
            Expected::Times(20, Passed),
            Logged { lines: 0..=0, each: &[] },
        ),
        stop(
            "an attempt to forge a line",
            "it stays within its string",
            Request::get("/%22%7d%0a%7b%22status%22:200?status=500")
                .header("user-agent", "\"}{\"status\":200}"),
            Expected::InTurn(vec![Said(500)]),
            Logged { lines: 1..=1, each: &["\"status\":500"] },
        ),
    ]
}

fn stop(
    title: &'static str,
    remark: &'static str,
    request: Request,
    expected: Expected,
    logged: Logged,
) -> Stop {
    Stop { title, remark, wait: None, request, token: None, expected, logged: Some(logged) }
}
