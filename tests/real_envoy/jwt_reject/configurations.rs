//! Configurations that Envoy must refuse to start with, and what its log says of them.

use anyhow::Context as _;
use real_envoy::Envoy;
use serde::Deserialize;
use serde_json::Value;

use super::JWT_REJECT;
use crate::jwt::keys::{Key, encode, named};
use crate::suite::{Gateway, as_string_value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    name: String,
    /// As a Struct.
    config: Option<Value>,
    /// As a StringValue.
    text: Option<String>,
    /// What the log must hold, each on a line of the filter's own.
    log: Vec<String>,
    /// What the log must not hold.
    #[serde(default)]
    secrets: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_is_refused_and_the_log_says_why() -> anyhow::Result<()> {
    let table: Vec<Refused> =
        serde_saphyr::from_str(include_str!("../../cases/jwt-reject-configurations.yaml"))?;
    let Key::Secret(secret) = named("secret")? else { panic!("a secret") };
    let mut failures = Vec::new();
    for row in &table {
        let log = refusal(row).await.with_context(|| row.name.clone())?;
        let said: Vec<&str> =
            log.lines().filter(|line| line.contains("jwt_reject: configuration refused: ")).collect();
        for wanted in row.log.iter().filter(|wanted| !said.iter().any(|line| line.contains(wanted.as_str())))
        {
            failures.push(format!(
                "{}: no line of the log holds {wanted:?}; it holds:\n{}",
                row.name,
                said.join("\n")
            ));
        }
        for secret in
            row.secrets.iter().chain([&encode(secret)]).filter(|secret| log.contains(secret.as_str()))
        {
            failures.push(format!("{}: the log holds {secret:?}", row.name));
        }
        if log.contains("panic") || log.contains("Uncaught") {
            failures.push(format!("{}: the module trapped:\n{log}", row.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

async fn refusal(row: &Refused) -> anyhow::Result<String> {
    let config = Gateway::config(&JWT_REJECT, "127.0.0.1:9".parse()?)?;
    let (config, configuration) = match (&row.config, &row.text) {
        (Some(configuration), None) => {
            let mut configuration = configuration.clone();
            (JWT_REJECT.complete)(&mut configuration)?;
            (config, configuration)
        }
        (None, Some(text)) => (as_string_value(config, JWT_REJECT.plugin)?, text.clone().into()),
        _ => anyhow::bail!("one of config and text is needed"),
    };
    let config = config.plugin_configuration(JWT_REJECT.plugin, &configuration)?;
    Envoy::expect_refusal(&config, &Gateway::options()).await
}
