//! Configurations that Envoy must refuse to start with, and what its log says of them.

use anyhow::{Context as _, bail, ensure};
use real_envoy::Envoy;
use serde::Deserialize;
use serde_json::Value;

use super::Behaviour;
use super::gateway::{Gateway, as_string_value};

/// A row of a table of such configurations.
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

/// Checks every row of a table (YAML). None of the secrets may be in any log.
pub(crate) async fn check_refusals(
    behaviour: &Behaviour,
    table: &str,
    secrets: &[String],
) -> anyhow::Result<()> {
    let table: Vec<Refused> = serde_saphyr::from_str(table)?;
    let mut failures = Vec::new();
    let begins = format!("{}: configuration refused: ", behaviour.plugin);
    for row in &table {
        let log = refusal(behaviour, row).await.with_context(|| row.name.clone())?;
        let said: Vec<&str> = log.lines().filter(|line| line.contains(&begins)).collect();
        for wanted in row.log.iter().filter(|wanted| !said.iter().any(|line| line.contains(wanted.as_str())))
        {
            failures.push(format!(
                "{}: no line of the log holds {wanted:?}; it holds:\n{}",
                row.name,
                said.join("\n")
            ));
        }
        for secret in row.secrets.iter().chain(secrets).filter(|secret| log.contains(secret.as_str())) {
            failures.push(format!("{}: the log holds {secret:?}", row.name));
        }
        if log.contains("panic") || log.contains("Uncaught") {
            failures.push(format!("{}: the module trapped:\n{log}", row.name));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

async fn refusal(behaviour: &Behaviour, row: &Refused) -> anyhow::Result<String> {
    let config = Gateway::config(behaviour, "127.0.0.1:9".parse()?)?;
    let (config, configuration) = match (&row.config, &row.text) {
        (Some(configuration), None) => {
            let mut configuration = configuration.clone();
            (behaviour.complete)(&mut configuration)?;
            (config, configuration)
        }
        (None, Some(text)) => (as_string_value(config, behaviour.plugin)?, text.clone().into()),
        _ => bail!("one of config and text is needed"),
    };
    let config = config.plugin_configuration(behaviour.plugin, &configuration)?;
    Envoy::expect_refusal(&config, &Gateway::options()).await
}
