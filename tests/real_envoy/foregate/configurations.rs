//! Lists that Envoy must refuse to start with or to go over to, and what its log says of them.

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_list_is_refused_and_the_log_says_why() -> anyhow::Result<()> {
    crate::suite::check_refused_lists(include_str!("../../cases/foregate-configurations.yaml")).await
}
