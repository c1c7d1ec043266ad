//! Configurations that Envoy must refuse to start with, and what its log says of them.

use super::LOCAL_RATE_LIMIT;
use crate::suite::check_refusals;

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_is_refused_and_the_log_says_why() -> anyhow::Result<()> {
    let table = include_str!("../../cases/local-rate-limit-configurations.yaml");
    check_refusals(&LOCAL_RATE_LIMIT, table, &[]).await
}
