//! Response splitting: Envoy writes into a response whatever a filter gives it. This one gives it nothing that ends
//! a line.

use real_envoy::Config;
use real_envoy::client::{self, Http, Request};
use serde_json::{Value, json};

use super::HEADER_REWRITE;
use crate::suite::{Gateway, insert_filter};

const ATTACK: &str = "a\r\nx-injected: yes\r\nset-cookie: session=stolen";

/// A filter ahead that leaves the attack as metadata, and Envoy's own filter, which writes it into responses, if asked.
fn under_attack(config: Config, with_native: bool) -> anyhow::Result<Config> {
    let value = "%DYNAMIC_METADATA(attack:value)%";
    let plugin = json!({
        "request_mutations": [
            { "set": { "name": "x-a", "value": value } },
            { "append": { "name": "x-b", "value": format!("b{value}") } },
            { "cookie": { "set": { "name": "c", "value": value } } },
            { "query": { "set": { "name": "q", "value": value } } },
        ],
        "response_mutations": [
            { "set": { "name": "x-a", "value": value } },
            { "append": { "name": "x-b", "value": format!("b{value}") } },
            { "cookie": { "set": { "name": "c", "value": value } } },
            { "replace": { "name": "content-type", "regex": "^", "with": value } },
            // What is cut off before the line's end is no attack any more.
            { "set": { "name": "x-c", "value": "%DYNAMIC_METADATA(attack:value):1%" } },
        ],
    });
    let config = config.plugin_configuration(HEADER_REWRITE.plugin, &plugin)?;
    let metadata = json!({ "name": "envoy.filters.http.set_metadata", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
        "metadata": [{ "metadata_namespace": "attack", "value": { "value": ATTACK } }],
    } });
    let config = insert_filter(config, metadata, 0)?;
    if !with_native {
        return Ok(config);
    }
    let native: Value = json!({ "name": "envoy.filters.http.header_mutation", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        "mutations": { "response_mutations": [{ "append": { "header": { "key": "x-native", "value": value } } }] },
    } });
    insert_filter(config, native, 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_written_ends_its_line() -> anyhow::Result<()> {
    let gateway = Gateway::start(&HEADER_REWRITE, |config| under_attack(config, false)).await?;
    for http in [Http::H1, Http::H2] {
        let request = Request::get("/p?a=1").over(http).header("x-a", "own").header("x-b", "own");
        let answer = client::send(gateway.addr()?, &request).await?;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-injected"), [""; 0]);
        assert_eq!(answer.header("set-cookie"), [""; 0]);
        assert_eq!(answer.header("x-a"), [""; 0]);
        assert_eq!(answer.header("x-b"), [""; 0]);
        assert_eq!(answer.header("x-c"), ["a"]);
        assert_eq!(answer.header("content-type"), ["application/json"]);
        let seen = answer.json()?;
        assert_eq!(seen["path"], "/p?a=1&q=a%0D%0Ax-injected%3A%20yes%0D%0Aset-cookie%3A%20session%3Dstolen");
        let lines = seen["headers"].to_string();
        // The value came from another filter, so the client's own does not stand in for it.
        assert!(
            !lines.contains("injected") && !lines.contains("stolen") && !lines.contains("\"x-a\""),
            "{lines}"
        );
        assert!(lines.contains("[\"x-b\",\"own\"]"), "{lines}");
    }
    // Once a request and once a response.
    assert_eq!(gateway.counters().await?["skipped.reason.invalid_value"], 4);
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// Why the filter looks at what it writes.
#[tokio::test(flavor = "multi_thread")]
async fn envoys_own_filter_writes_the_attack() -> anyhow::Result<()> {
    let gateway = Gateway::start(&HEADER_REWRITE, |config| under_attack(config, true)).await?;
    let answer = client::send(gateway.addr()?, &Request::get("/")).await?;
    assert_eq!(answer.header("x-injected"), ["yes"]);
    assert_eq!(answer.header("set-cookie"), ["session=stolen"]);
    gateway.envoy.stop().await
}
