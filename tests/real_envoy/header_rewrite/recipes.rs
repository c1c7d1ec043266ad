//! The recipes of the README, cooked.

use real_envoy::client::{self, Request, Response};
use serde_json::Value;

use super::HEADER_REWRITE;
use crate::suite::{Gateway, hcm_mut};

const README: &str = include_str!("../../../filters/header-rewrite/README.md");

/// The configuration that stands below this heading.
fn configuration(heading: &str) -> anyhow::Result<Value> {
    let section = README.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let block = section.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    Ok(serde_saphyr::from_str(block.unwrap_or_else(|| panic!("no block below {heading}")))?)
}

/// A gateway with it.
async fn cook(heading: &str) -> anyhow::Result<Gateway> {
    let plugin = configuration(heading)?;
    Gateway::start(&HEADER_REWRITE, |config| config.plugin_configuration(HEADER_REWRITE.plugin, &plugin))
        .await
}

async fn ask(gateway: &Gateway, request: Request) -> anyhow::Result<Response> {
    client::send(gateway.addr()?, &request).await
}

/// What the upstream saw of a header.
fn seen(answer: &Response, name: &str) -> Vec<String> {
    let seen = answer.json().unwrap();
    let pairs = seen["headers"].as_array().unwrap().iter().filter(|pair| pair[0] == name);
    pairs.map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn strip_what_only_the_gateway_may_say() -> anyhow::Result<()> {
    let gateway = cook("### Strip what only the gateway may say").await?;
    let request = Request::get("/").header("X-Authenticated-User", "root").header("x-internal-a", "1");
    let answer = ask(&gateway, request.header("x-client-ip", "8.8.8.8")).await?;
    assert_eq!(seen(&answer, "x-authenticated-user"), [""; 0]);
    assert_eq!(seen(&answer, "x-internal-a"), [""; 0]);
    assert_eq!(seen(&answer, "x-client-ip"), ["127.0.0.1"]);
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn canary_header_to_cookie() -> anyhow::Result<()> {
    let gateway = cook("### Canary header to cookie").await?;
    let answer = ask(&gateway, Request::get("/").header("x-canary", "v2").header("cookie", "a=1")).await?;
    assert_eq!(seen(&answer, "cookie"), ["a=1; canary=v2"]);
    assert_eq!(answer.header("set-cookie"), ["canary=v2; Path=/; Max-Age=86400; SameSite=Lax; Secure"]);
    let answer = ask(&gateway, Request::get("/").header("x-canary", "v3")).await?;
    assert_eq!((seen(&answer, "cookie"), answer.header("set-cookie")), (vec![], vec![]));
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_in_the_path() -> anyhow::Result<()> {
    let gateway = cook("### A version in the path").await?;
    let answer = ask(&gateway, Request::get("/v12/orders?a=1").header("x-api-version", "v1")).await?;
    assert_eq!(answer.json()?["path"], "/orders?a=1");
    assert_eq!(seen(&answer, "x-api-version"), ["v12"]);
    assert_eq!(seen(&answer, "x-envoy-original-path"), ["/v12/orders?a=1"]);
    let answer = ask(&gateway, Request::get("/vx/orders")).await?;
    assert_eq!(
        (answer.json()?["path"].clone(), seen(&answer, "x-api-version")),
        ("/vx/orders".into(), vec![])
    );
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn hsts_where_the_client_came_over_tls() -> anyhow::Result<()> {
    const HSTS: &str = "strict-transport-security";
    const RECIPE: &str = "### HSTS, where the client came over TLS";
    let gateway = cook(RECIPE).await?;
    let answer = ask(&gateway, Request::get("/")).await?;
    assert_eq!((answer.header(HSTS), answer.header("x-frame-options")), (vec![], vec!["deny".to_owned()]));
    gateway.envoy.stop().await?;
    let plugin = configuration(RECIPE)?;
    let gateway = Gateway::start(&HEADER_REWRITE, |config| {
        config.plugin_configuration(HEADER_REWRITE.plugin, &plugin)?.edit(|bootstrap| {
            hcm_mut(bootstrap)?.insert("use_remote_address".to_owned(), false.into());
            Ok(())
        })
    })
    .await?;
    // Behind a proxy that says so: of others, Envoy writes it over.
    let answer = ask(&gateway, Request::get("/").header("x-forwarded-proto", "https")).await?;
    assert_eq!(answer.header(HSTS), ["max-age=63072000; includeSubDomains; preload"]);
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_that_an_upstream_writes_for_itself() -> anyhow::Result<()> {
    let gateway = cook("### Redirects that an upstream writes for itself").await?;
    for (location, expected) in [
        ("http://orders.internal/a?b", "https://gateway.example/a?b"),
        ("http://orders.internal:8080/a", "https://gateway.example/a"),
        ("http://other.example/orders.internal/", "http://other.example/orders.internal/"),
        ("/a", "/a"),
    ] {
        let request = Request::get("/").authority("gateway.example").header("x-echo-status", "302");
        let answer = ask(&gateway, request.header("x-echo-header", format!("location: {location}"))).await?;
        assert_eq!(answer.header("location"), [expected]);
    }
    gateway.envoy.stop().await
}

/// The example at the head of the README.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_example() -> anyhow::Result<()> {
    let gateway = cook("## Configuration").await?;
    let request = Request::new("POST", "/api/x?debug&a=1&utm_source=y").header("x-user", "mallory");
    let answer = ask(&gateway, request.header("x-echo-header", "set-cookie: a=1")).await?;
    assert_eq!(answer.json()?["path"], "/api/x?a=1");
    assert_eq!(seen(&answer, "idempotency-key"), seen(&answer, "x-request-id"));
    assert_eq!(seen(&answer, "x-user"), [""; 0]);
    assert_eq!(answer.header("set-cookie"), ["a=1; Secure; HttpOnly; SameSite=Lax"]);
    assert_eq!(answer.header("cache-control"), [""; 0]);
    let answer = ask(&gateway, Request::get("/v1/x?debug").header("x-echo-status", "500")).await?;
    assert_eq!(
        (answer.json()?["path"].clone(), answer.header("cache-control")),
        ("/x?debug".into(), vec!["no-store".to_owned()])
    );
    gateway.envoy.stop().await
}
