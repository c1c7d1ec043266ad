//! Configurations that Envoy must refuse to start with, and what its log says of them.

use super::JWT_REJECT;
use crate::jwt::keys::{Key, encode, named};
use crate::suite::check_refusals;

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_is_refused_and_the_log_says_why() -> anyhow::Result<()> {
    let Key::Secret(secret) = named("secret")? else { panic!("a secret") };
    let table = include_str!("../../cases/jwt-reject-configurations.yaml");
    check_refusals(&JWT_REJECT, table, &[encode(secret)]).await
}
