//! The module as an access logger, behind Envoy's own filter of what is logged.

use real_envoy::client::{self, Request};
use serde_json::Value;

use super::{SAMPLED_LOG, assert_likely, end, lines, lines_when};
use crate::suite::{Behaviour, Gateway, SOON, crowd, statuses};

const ACCESS_LOGGER: Behaviour =
    Behaviour { config: "envoy-configs/sampled-log/access-logger.yaml", ..SAMPLED_LOG };

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_logged_and_some_of_the_rest_and_rates_are_true() -> anyhow::Result<()> {
    let gateway = Gateway::start(&ACCESS_LOGGER, Ok).await?;
    let counts = crowd(gateway.addr()?, 8, |_, number| match number {
        0..500 => Some(Request::get("/orders")),
        500..510 => Some(Request::get("/orders?status=502")),
        510..600 => Some(Request::get("/health")),
        _ => None,
    })
    .await?;
    assert_eq!(counts, statuses(&[(200, 4720), (502, 80)]));
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    let all = lines(&gateway.envoy)?;
    let (always, sampled): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|line| line["why"] == "always");
    assert_eq!(always.len(), 80);
    assert!(always.iter().all(|line| line["status"] == 502 && line["sample_rate"] == 1));
    assert_likely(sampled.len(), 4000, 0.1);
    assert!(sampled.iter().all(|line| line["sample_rate"] == 0.1 && line["path"] == "/orders"));

    // Slow ones, and what has a flag.
    for request in [Request::get("/slow?delay=1050"), Request::get("/broken?close=before")] {
        client::send(gateway.addr()?, &request).await?;
    }
    let all = lines_when(&gateway.envoy, |lines| lines.len() >= all.len() + 2).await?;
    for (path, status) in [("/slow", 200), ("/broken", 503)] {
        let line = all.iter().find(|line| line["path"] == path).unwrap();
        assert_eq!(
            (&line["why"], &line["sample_rate"], &line["status"]),
            (&"always".into(), &1.into(), &status.into())
        );
    }
    // The fields are there without a context of the request's own.
    let line = all.iter().find(|line| line["path"] == "/broken").unwrap();
    assert_eq!(
        (&line["flags"], &line["route"], &line["method"]),
        (&"UC".into(), &"rest".into(), &"GET".into())
    );
    end(gateway).await
}
