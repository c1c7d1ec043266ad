//! The stand of jwt_reject: tokens of every kind.

use real_envoy::client::Request;

use crate::stop::Answer::{self, Passed, Refused};
use crate::stop::{Expected, Stop};
use crate::tokens::Tokens;
use crate::tour::Stand;

/// The configuration shown, from the root of the repository.
const CONFIGURATION: &str = "envoy-configs/jwt-reject/wasm.yaml";

/// Where the keys of the provider `main` are in it.
const KEYS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0\
    /typed_config/config/configuration/value/providers/main/local_jwks/inline_string";

/// The shipped configuration with the key of these tokens, and what becomes of each of them.
pub(crate) fn stand(tokens: &Tokens) -> anyhow::Result<Stand> {
    Ok(Stand {
        filter: "jwt_reject",
        configuration: CONFIGURATION,
        config: tokens.trusted_by(CONFIGURATION, KEYS)?,
        introduction: "with a key made for this demo.\n\
             The filter lets requests with a valid JWT through to an upstream that answers with what it received, and\n\
             refuses the others. The tokens are good for 24 hours.",
        stops: stops(tokens),
    })
}

fn stops(tokens: &Tokens) -> Vec<Stop> {
    let bearer = |title, remark, token: &String, answer| {
        let request = Request::get("/orders").header("authorization", format!("Bearer {token}"));
        stop(title, remark, request, Some(token), answer)
    };
    vec![
        bearer(
            "a good token",
            "the upstream shows the request: the token was taken out",
            &tokens.good,
            Passed,
        ),
        stop(
            "a good token in the query",
            "taken out of the path too",
            Request::get(&format!("/orders?page=2&access_token={}", tokens.good)),
            Some(&tokens.good),
            Passed,
        ),
        stop("a path that is open", "its rule requires no token", Request::get("/health"), None, Passed),
        stop("no token", "", Request::get("/orders"), None, Refused(401, "Jwt is missing")),
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

/// A request that is sent once.
fn stop(
    title: &'static str,
    remark: &'static str,
    request: Request,
    token: Option<&String>,
    answer: Answer,
) -> Stop {
    let expected = Expected::InTurn(vec![answer]);
    Stop { title, remark, wait: None, request, token: token.cloned(), expected, logged: None }
}
