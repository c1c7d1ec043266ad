//! Answers that no upstream gave: whose headers are edited, and whose Envoy does not show the filter.

use anyhow::Context as _;
use real_envoy::Config;
use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::HEADER_REWRITE;
use crate::jwt_reject;
use crate::suite::{Gateway, hcm_mut};

/// Marks every response, and those to requests for `/marked` twice.
fn marking() -> Value {
    json!({ "response_mutations": [
        { "set": { "name": "x-edited", "value": "%RESPONSE_CODE% of %REQ(:path)%" } },
        { "match": { "path": "/marked" }, "status": "4xx", "set": { "name": "x-marked", "value": "yes" } },
    ] })
}

/// The shipped chain, with jwt_reject at this place of it: 0 is ahead of header_rewrite, 1 behind it.
fn chain(config: Config, place: usize) -> anyhow::Result<Config> {
    let guard = json!({
        "providers": { "main": { "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] } } },
        "rules": [
            { "match": { "prefix": "/guarded" }, "requires": { "provider_name": "main" } },
            { "match": { "path": "/marked" }, "requires": { "provider_name": "main" } },
            { "match": { "prefix": "/" }, "requires": "none" },
        ],
    });
    let config = config.plugin_configuration(HEADER_REWRITE.plugin, &marking())?;
    jwt_reject::insert(config, &guard, place)?.edit(|bootstrap| {
        let hcm = hcm_mut(bootstrap)?;
        let config = hcm.get_mut("route_config").context("route_config")?;
        // One cluster does not exist.
        config["validate_clusters"] = false.into();
        *config.pointer_mut("/virtual_hosts/0/routes").context("routes")? = json!([
            { "match": { "prefix": "/direct" }, "direct_response": { "status": 418, "body": { "inline_string": "tea" } } },
            { "match": { "prefix": "/redirect" }, "redirect": { "path_redirect": "/elsewhere" } },
            { "match": { "prefix": "/nowhere" }, "route": { "cluster": "none" } },
            { "match": { "prefix": "/guarded" }, "route": { "cluster": "upstream" } },
            { "match": { "path": "/marked" }, "route": { "cluster": "upstream" } },
            { "match": { "prefix": "/late" }, "route": { "cluster": "upstream", "timeout": "0.05s" } },
            { "match": { "prefix": "/up" }, "route": { "cluster": "upstream" } },
        ]);
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_what_stands_behind_the_filter_is_edited() -> anyhow::Result<()> {
    let gateway = Gateway::start(&HEADER_REWRITE, |config| chain(config, 1)).await?;
    let rows = [
        ("/up", 200),
        ("/direct", 418),
        ("/redirect", 301),
        ("/no-route", 404),
        ("/nowhere", 503),
        ("/late?delay=500", 504),
        // Of a filter behind it.
        ("/guarded", 401),
    ];
    for (path, status) in rows {
        let answer = client::send(gateway.addr()?, &Request::get(path)).await?;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("x-edited"), [format!("{status} of {path}")], "{path}");
        assert_eq!(answer.header("x-marked"), [""; 0], "{path}");
    }
    let answer = client::send(gateway.addr()?, &Request::get("/marked")).await?;
    assert_eq!((answer.status, answer.header("x-marked")), (401, vec!["yes".to_owned()]));
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// What Envoy does not show the filter: answers of filters ahead of it, whose requests never came to it, and answers
/// that Envoy gives to requests that it does not take.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_envoy_does_not_show_the_filter_are_as_they_were() -> anyhow::Result<()> {
    let gateway = Gateway::start(&HEADER_REWRITE, |config| chain(config, 0)).await?;
    // An escaped slash is refused before any filter has its turn.
    for (path, status) in [("/guarded", 401), ("/marked", 401), ("/up%2fx", 400)] {
        let answer = client::send(gateway.addr()?, &Request::get(path)).await?;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!((answer.header("x-edited"), answer.header("x-marked")), (vec![], vec![]), "{path}");
    }
    let answer = client::send(gateway.addr()?, &Request::get("/up")).await?;
    assert_eq!(answer.header("x-edited"), ["200 of /up"]);
    gateway.envoy.stop().await
}
