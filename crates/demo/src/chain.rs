//! The stand of the chain: what a request meets on its way through all four filters in one module.

use real_envoy::client::Request;

use crate::sight::Sight::{Answered, Arrived};
use crate::stop::Answer::{Limited, Refused, Said, Shows};
use crate::stop::{Expected, Logged, Stop};
use crate::tokens::{SUBJECT, Tokens};
use crate::tour::Stand;

/// The configuration shown, from the root of the repository.
const CONFIGURATION: &str = "envoy-configs/chain/fused.yaml";

/// Where the keys of the provider `main` are in it.
const KEYS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0\
    /typed_config/config/configuration/value/filters/1/jwt_reject/providers/main/local_jwks/inline_string";

/// How many requests it grants a client at once.
const PER_CLIENT: usize = 100;

/// The shipped configuration with the key of these tokens, and what becomes of requests.
pub(crate) fn stand(tokens: &Tokens) -> anyhow::Result<Stand> {
    Ok(Stand {
        filter: "foregate",
        configuration: CONFIGURATION,
        config: tokens.trusted_by(CONFIGURATION, KEYS)?,
        introduction: "with a key made for this demo.\n\
             One module grants each client 100 requests in 10 seconds, lets those with a valid JWT through, edits headers, and\n\
             logs every failure and a tenth of the rest. Take these in this order.",
        stops: stops(tokens),
    })
}

fn stops(tokens: &Tokens) -> Vec<Stop> {
    let bearer = |token: &String| Request::get("/orders").header("authorization", format!("Bearer {token}"));
    let stop = |title, remark, request, token: Option<&String>, expected| Stop {
        title,
        remark,
        wait: None,
        request,
        token: token.cloned(),
        expected,
        logged: None,
    };
    let once = |answer| Expected::InTurn(vec![answer]);
    vec![
        stop(
            "a good token, and headers that only the gateway may send",
            "the upstream learns who it is from the token, and nothing from the client",
            bearer(&tokens.good).header("x-internal-role", "admin").header("x-user", "root"),
            Some(&tokens.good),
            once(Shows(&[
                Arrived("x-user", &[SUBJECT]),
                Arrived("x-gateway", &["foregate"]),
                Arrived("x-internal-role", &[]),
                Arrived("authorization", &[]),
                Answered("x-content-type-options", &["nosniff"]),
            ])),
        ),
        stop("no token", "", Request::get("/orders"), None, once(Refused(401, "Jwt is missing"))),
        stop(
            "a forged token",
            "one character of the signature was changed",
            bearer(&tokens.forged),
            Some(&tokens.forged),
            once(Refused(401, "Jwt verification fails")),
        ),
        Stop {
            logged: Some(Logged {
                lines: 1..=1,
                each: &["\"status\":503", "\"why\":\"always\"", "\"subject\":\""],
            }),
            ..stop(
                "an error of the upstream",
                "logged, with who it happened to",
                bearer(&tokens.good).header("x-echo-status", "503"),
                Some(&tokens.good),
                once(Said(503)),
            )
        },
        stop(
            "a burst",
            "each request above was one of this client's 100; 10 more are granted every second",
            bearer(&tokens.good),
            Some(&tokens.good),
            Expected::Burst { times: 2 * PER_CLIENT, least: PER_CLIENT - 5, refusal: Limited(1) },
        ),
    ]
}
