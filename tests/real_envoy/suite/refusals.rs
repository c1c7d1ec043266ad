//! Configurations that Envoy must not take, and what its log says of them: it refuses to start with one, and serves on
//! with the one before it if it is given one later.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use real_envoy::{Config, Envoy, Update};
use serde::Deserialize;
use serde_json::{Value, json};

use super::gateway::{Gateway, as_string_value};
use super::{Behaviour, Setup, chain};
use crate::foregate::FOREGATE;

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
    /// What it must hold instead where the filter is one of a list. Only for what is said of a text as a whole, since that
    /// is the list's then. Anything else is said of the same things in the same words, and where in the list they are.
    in_list: Option<Vec<String>>,
    /// What the log must not hold.
    #[serde(default)]
    secrets: Vec<String>,
}

/// Checks every row of a table (YAML) of a filter: Envoy must refuse to start with it, and to go over to it in a list of
/// filters. None of the secrets may be in any log.
pub(crate) async fn check_refusals(
    behaviour: &Behaviour,
    table: &str,
    secrets: &[String],
) -> anyhow::Result<()> {
    let table: Vec<Refused> = serde_saphyr::from_str(table)?;
    let mut failures = Vec::new();
    let config = Gateway::config(behaviour, "127.0.0.1:9".parse()?)?;
    let mut lists = Lists::start(config.clone(), behaviour).await?;
    for row in &table {
        let wrong = row.configured(config.clone(), behaviour).with_context(|| row.name.clone())?;
        let log =
            Envoy::expect_refusal(&wrong, &Gateway::options()).await.with_context(|| row.name.clone())?;
        let said = row.check(&log, behaviour.plugin, &row.log, secrets, &mut failures);

        let in_list = Setup::OnlyInList.apply(wrong, behaviour)?;
        let log = lists.refusal(&in_list).await.with_context(|| format!("{} in a list", row.name))?;
        let wanted = row.in_list.as_deref().unwrap_or_default();
        let said_in_list = row.check(&log, FOREGATE.plugin, wanted, secrets, &mut failures);
        let place = format!("filters[0].{}", behaviour.plugin);
        let told: BTreeSet<&str> = said_in_list.iter().filter_map(|text| below(text, &place)).collect();
        if row.in_list.is_none() && (told != said || said_in_list.len() != said.len()) {
            failures.push(format!(
                "{}: alone the log holds\n{said:#?}\nand in a list\n{said_in_list:#?}",
                row.name
            ));
        }
    }
    lists.envoy.stop().await?;
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

/// Checks every row of a table (YAML) of lists.
pub(crate) async fn check_refused_lists(table: &str) -> anyhow::Result<()> {
    let table: Vec<Refused> = serde_saphyr::from_str(table)?;
    let mut failures = Vec::new();
    let base = crate::sampled_log::SAMPLED_LOG;
    let config = Gateway::config(&FOREGATE, "127.0.0.1:9".parse()?)?;
    let mut lists = Lists::start(config.clone(), &base).await?;
    let config = chain(config, base.plugin, &json!([]))?;
    for (number, row) in table.iter().enumerate() {
        let wrong = row.configured(config.clone(), &FOREGATE).with_context(|| row.name.clone())?;
        // A refusal to start takes longer, and is no other than that of an update.
        let log = if number == 0 {
            Envoy::expect_refusal(&wrong, &Gateway::options()).await
        } else {
            lists.refusal(&wrong).await
        };
        let log = log.with_context(|| row.name.clone())?;
        let said = row.check(&log, FOREGATE.plugin, &row.log, &[], &mut failures);
        if said.len() != row.log.len() {
            failures.push(format!("{}: the log holds more than is expected:\n{said:#?}", row.name));
        }
    }
    lists.envoy.stop().await?;
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

impl Refused {
    fn configured(&self, config: Config, behaviour: &Behaviour) -> anyhow::Result<Config> {
        let (config, configuration) = match (&self.config, &self.text) {
            (Some(configuration), None) => {
                let mut configuration = configuration.clone();
                (behaviour.complete)(&mut configuration)?;
                (config, configuration)
            }
            (None, Some(text)) => (as_string_value(config, behaviour.plugin)?, text.clone().into()),
            _ => bail!("one of config and text is needed"),
        };
        config.plugin_configuration(behaviour.plugin, &configuration)
    }

    /// What the plugin of this name says in the log is wrong.
    fn check<'l>(
        &self,
        log: &'l str,
        plugin: &str,
        wanted: &[String],
        secrets: &[String],
        failures: &mut Vec<String>,
    ) -> BTreeSet<&'l str> {
        let begins = format!("{plugin}: configuration refused: ");
        let said: BTreeSet<&str> = log.lines().filter_map(|line| Some(line.split_once(&begins)?.1)).collect();
        let name = &self.name;
        if said.is_empty() {
            failures.push(format!("{name}: the log says nothing that begins with {begins:?}:\n{log}"));
        }
        for wanted in wanted.iter().filter(|wanted| !said.iter().any(|text| text.contains(wanted.as_str()))) {
            failures.push(format!("{name}: no line of {plugin} holds {wanted:?}; there are\n{said:#?}"));
        }
        for secret in self.secrets.iter().chain(secrets).filter(|secret| log.contains(secret.as_str())) {
            failures.push(format!("{name}: the log holds {secret:?}"));
        }
        if log.contains("panic") || log.contains("Uncaught") {
            failures.push(format!("{name}: the module trapped:\n{log}"));
        }
        said
    }
}

/// What is said below this place of a configuration.
fn below<'t>(text: &'t str, place: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(place)?;
    rest.strip_prefix(": ")
        .or_else(|| rest.strip_prefix('.'))
        .or_else(|| rest.starts_with('[').then_some(rest))
}

/// An Envoy that runs a list, and is to refuse others.
struct Lists {
    envoy: Envoy,
}

impl Lists {
    /// With a list in which the filter does nothing.
    async fn start(config: Config, behaviour: &Behaviour) -> anyhow::Result<Self> {
        let mut idle: Value = serde_json::from_str(behaviour.idle)?;
        (behaviour.complete)(&mut idle)?;
        let config = config.plugin_configuration(behaviour.plugin, &idle)?;
        let config = Setup::OnlyInList.apply(config, behaviour)?.with_file_lds()?;
        Ok(Self { envoy: Envoy::start(&config, &Gateway::options()).await? })
    }

    /// What Envoy logs when it refuses this one.
    async fn refusal(&mut self, config: &Config) -> anyhow::Result<String> {
        let before = self.envoy.log().len();
        match self.envoy.update_listeners(config).await? {
            Update::Accepted => bail!("Envoy accepted a configuration that it was to refuse"),
            Update::Rejected(_) => Ok(self.envoy.log().get(before..).unwrap_or_default().to_owned()),
        }
    }
}
