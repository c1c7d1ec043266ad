//! Configurations that Envoy must refuse to start with, and what its log says of them.

use super::SAMPLED_LOG;
use crate::suite::check_refusals;

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_is_refused_and_the_log_says_why() -> anyhow::Result<()> {
    let table = include_str!("../../cases/sampled-log-configurations.yaml");
    check_refusals(&SAMPLED_LOG, table, &[]).await
}
