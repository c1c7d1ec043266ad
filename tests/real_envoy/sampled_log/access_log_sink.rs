//! Lines that Envoy's own access logs write.

use std::collections::BTreeSet;

use real_envoy::client::{self, Request};
use real_envoy::{Envoy, Options};
use serde_json::{Value, json};

use super::{SAMPLED_LOG, assert_likely, end, lines};
use crate::suite::{Behaviour, Gateway, SOON, crowd, statuses};

const FILE: Behaviour = Behaviour { config: "envoy-configs/sampled-log/file.yaml", ..SAMPLED_LOG };

/// What Envoy's formatter, JSON or a terminal might take for something else.
const HOSTILE: &[u8] = b"%RESP(x)% \xff\"\\ \xc3\xa9\t}";

/// What the file logger wrote, which is among the lines of Envoy's own log: what is not JSON is an error.
fn written(envoy: &Envoy) -> anyhow::Result<Vec<Value>> {
    let log = envoy.log();
    log.lines().filter(|line| line.starts_with('{')).map(|line| Ok(serde_json::from_str(line)?)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_has_the_lines_that_the_filter_chose_and_no_other() -> anyhow::Result<()> {
    // Nothing of it depends on the level of Envoy's log.
    let options = Options { component_log_levels: "wasm:error", ..Gateway::options() };
    let gateway = Gateway::start_with(&FILE, &options, |config| {
        let health = json!({ "match": { "path": "/health" }, "percent_sampled": 0 });
        let plugin = json!({ "sink": "access_log", "rules": [health], "request_headers": ["user-agent"] });
        config.plugin_configuration(SAMPLED_LOG.plugin, &plugin)
    })
    .await?;
    let counts = crowd(gateway.addr()?, 8, |_, number| match number {
        0..250 => Some(Request::get("/orders?token=of-a-customer")),
        250..260 => Some(Request::get("/orders?status=502").header("user-agent", HOSTILE)),
        260..300 => Some(Request::get("/health")),
        _ => None,
    })
    .await?;
    assert_eq!(counts, statuses(&[(200, 2320), (502, 80)]));
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    let stat = |why: &str| format!("wasmcustom.foregate.sampled_log.lines.why.{why}");
    let always = gateway.envoy.stat(&stat("always")).await?;
    let sampled = gateway.envoy.stat(&stat("sampled")).await?;
    assert_eq!(always, 80);

    // Envoy's file logger writes behind the requests' backs.
    let expected = usize::try_from(always + sampled)?;
    let waiting = async {
        while written(&gateway.envoy).map_or(0, |lines| lines.len()) < expected {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(SOON, waiting).await;
    let all = written(&gateway.envoy)?;
    assert_eq!(all.len(), expected);
    assert!(!gateway.envoy.log().contains("of-a-customer"));
    let (always, sampled): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|line| line["why"] == "always");
    let agent = "%RESP(x)% \\xff\"\\ é\t}";
    assert!(
        always.iter().all(|line| line["status"] == 502 && line["request_headers"]["user-agent"] == agent),
        "{:?}",
        always.first()
    );
    assert!(sampled.iter().all(|line| line["sample_rate"] == 0.1 && line["path"] != "/health"));
    assert_likely(sampled.len(), 2000, 0.1);
    let ids: BTreeSet<&str> = all.iter().filter_map(|line| line["request_id"].as_str()).collect();
    assert_eq!(ids.len(), all.len(), "a request was written twice");
    assert!(lines(&gateway.envoy)?.is_empty(), "a line went to Envoy's log too");
    end(gateway).await
}

/// An access logger of our own has no request to leave a line with: that is said, once, and harms nobody.
#[tokio::test(flavor = "multi_thread")]
async fn where_no_line_can_be_left_it_is_said_once() -> anyhow::Result<()> {
    let logger = Behaviour { config: "envoy-configs/sampled-log/access-logger.yaml", ..SAMPLED_LOG };
    let options = Options { concurrency: 1, ..Gateway::options() };
    let gateway = Gateway::start_with(&logger, &options, |config| {
        config.plugin_configuration(SAMPLED_LOG.plugin, &json!({ "sink": "access_log" }))
    })
    .await?;
    for _ in 0..3 {
        let response = client::send(gateway.addr()?, &Request::get("/orders?status=502")).await?;
        assert_eq!(response.status, 502);
    }
    let said = "sampled_log: the host sets no property of a request that has ended";
    gateway.envoy.wait_for_log(said, SOON).await?;
    client::send(gateway.addr()?, &Request::get("/orders?status=502")).await?;
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    assert_eq!(gateway.envoy.log().matches(said).count(), 1);
    gateway.envoy.stop().await
}
