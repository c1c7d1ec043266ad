//! The stand of header_rewrite: what arrives of a request, and what leaves of its answer.

use real_envoy::Config;
use real_envoy::client::Request;

use crate::sight::Sight::{self, Answered, Arrived, Path};
use crate::stop::Answer::Shows;
use crate::stop::{Expected, Stop};
use crate::tour::Stand;

/// The configuration shown, from the root of the repository.
const CONFIGURATION: &str = "envoy-configs/header-rewrite/wasm.yaml";

/// The shipped configuration, and what it does to requests and answers.
pub(crate) fn stand() -> anyhow::Result<Stand> {
    Ok(Stand {
        filter: "header_rewrite",
        configuration: CONFIGURATION,
        config: Config::load(CONFIGURATION)?,
        introduction: "as it is shipped.\n\
             The filter edits requests before their route is chosen, and answers before they leave. The upstream answers\n\
             with what arrived, and with the headers that x-echo-header asks for.",
        stops: stops(),
    })
}

fn stops() -> Vec<Stop> {
    vec![
        stop(
            "headers that only the gateway may say",
            "the client's own copies of them do not arrive",
            Request::get("/orders")
                .header("x-internal-role", "admin")
                .header("x-gateway", "mine")
                .header("x-client-ip", "192.0.2.1")
                .header("x-legacy-user", "alice"),
            &[
                Arrived("x-internal-role", &[]),
                Arrived("x-gateway", &["foregate"]),
                Arrived("x-client-ip", &["127.0.0.1"]),
                Arrived("x-tenant", &["public"]),
                Arrived("x-user", &["alice"]),
            ],
        ),
        stop(
            "a path with a version",
            "the route is chosen by the new path; x-envoy-original-path has the old one",
            Request::get("/v1/orders?page=2"),
            &[Path("/orders?page=2"), Arrived("x-envoy-original-path", &["/v1/orders?page=2"])],
        ),
        stop(
            "a parameter that is not for the upstream",
            "the others stay as they are",
            Request::get("/orders?page=2&debug=1&q=a%20b&debug="),
            &[Path("/orders?page=2&q=a%20b")],
        ),
        stop(
            "a header that becomes a cookie",
            "beside the cookies that are there",
            Request::get("/orders").header("x-canary", "blue").header("cookie", "theme=dark"),
            &[Arrived("cookie", &["theme=dark; canary=blue"])],
        ),
        stop(
            "security headers",
            "what the upstream says itself stays; x-powered-by does not",
            Request::get("/orders")
                .header("x-echo-header", "x-powered-by: PHP/5")
                .header("x-echo-header", "x-frame-options: sameorigin"),
            &[
                Answered("x-frame-options", &["sameorigin"]),
                Answered("x-content-type-options", &["nosniff"]),
                Answered("strict-transport-security", &["max-age=63072000; includeSubDomains"]),
                Answered("referrer-policy", &["no-referrer"]),
                Answered("x-powered-by", &[]),
            ],
        ),
        stop(
            "cookies of the upstream",
            "two lines stay two, each with the attributes that it lacked",
            Request::get("/orders")
                .header("x-echo-header", "set-cookie: session=1; Path=/; SameSite=None")
                .header("x-echo-header", "set-cookie: theme=dark; Secure"),
            &[Answered(
                "set-cookie",
                &[
                    "session=1; Path=/; Secure; HttpOnly; SameSite=Lax",
                    "theme=dark; Secure; HttpOnly; SameSite=Lax",
                ],
            )],
        ),
        stop(
            "an attempt to split the answer, and one to smuggle a cookie",
            "line ends stay escaped, and a value that would begin another cookie is left out and counted",
            Request::get("/v1/orders%0d%0aset-cookie:%20role=admin").header("x-canary", "blue; role=admin"),
            &[
                Path("/orders%0d%0aset-cookie:%20role=admin"),
                Arrived("cookie", &[]),
                Answered("set-cookie", &[]),
            ],
        ),
    ]
}

/// A request that is sent once.
fn stop(title: &'static str, remark: &'static str, request: Request, sights: &'static [Sight]) -> Stop {
    let expected = Expected::InTurn(vec![Shows(sights)]);
    Stop { title, remark, wait: None, request, token: None, expected, logged: None }
}
