//! In which modules, and in what company, a filter does its work. It is the same filter in each of these setups, so what
//! a client, an upstream and an operator see of it must be the same.

use anyhow::{Context as _, bail, ensure};
use real_envoy::Config;
use serde_json::{Value, json};

use super::Behaviour;
use super::gateway::hcm_of;
use crate::foregate::FILTERS;

/// The module of all filters, and the name of its plugin.
const CHAIN: &str = "foregate";

/// Where a filter under test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// In the module of all filters, as the only one of the list.
    OnlyInList,
    /// In the module of all filters, with the others around it in the list.
    AmongOthers,
    /// In its own module, with those of the others around it.
    FourModules,
}

impl Setup {
    /// All but that in which a filter has its own module, alone, as its configuration ships.
    pub(crate) const OTHERS: [Self; 3] = [Self::OnlyInList, Self::AmongOthers, Self::FourModules];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OnlyInList => "only-in-list",
            Self::AmongOthers => "among-others",
            Self::FourModules => "four-modules",
        }
    }

    /// The name of its listener, where one serves this file in each.
    pub(crate) fn listener(self, file: &str) -> String {
        format!("{}.{file}", self.name())
    }

    /// Has the only listener serve so.
    pub(crate) fn apply(self, config: Config, behaviour: &Behaviour) -> anyhow::Result<Config> {
        config.edit(|bootstrap| self.apply_to(only_listener(bootstrap)?, behaviour, ""))
    }

    /// Makes a listener for each of [`Self::OTHERS`] of the only one. They share nothing with those for another file.
    pub(crate) fn apply_each_other(
        config: Config,
        behaviour: &Behaviour,
        file: &str,
    ) -> anyhow::Result<Config> {
        config.edit(|bootstrap| {
            let shipped = only_listener(bootstrap)?.clone();
            let listener = |setup: &Self| {
                let mut listener = shipped.clone();
                setup.apply_to(&mut listener, behaviour, file)?;
                listener["name"] = setup.listener(file).into();
                anyhow::Ok(listener)
            };
            let listeners: anyhow::Result<Vec<_>> = Self::OTHERS.iter().map(listener).collect();
            bootstrap["static_resources"]["listeners"] = listeners?.into();
            Ok(())
        })
    }

    fn apply_to(self, listener: &mut Value, behaviour: &Behaviour, file: &str) -> anyhow::Result<()> {
        let plugin = behaviour.plugin;
        let own = FILTERS.iter().position(|filter| filter.plugin == plugin);
        let (before, after) = FILTERS.split_at(own.context("the filter is none of the suite")?);
        let after = after.get(1..).unwrap_or_default();
        let entries = |filters: &[Behaviour]| -> anyhow::Result<Vec<Value>> {
            filters.iter().map(|filter| Ok(json!({ filter.plugin: idle(filter)? }))).collect()
        };
        // What is kept beyond a request is shared by plugins of the same VM id.
        let vm_id = |plugin: &str| format!("foregate.{}.{file}.{plugin}", self.name());
        match self {
            Self::OnlyInList => {
                make_chain(listener, plugin, &vm_id(CHAIN), |own| wrap(own, plugin, &[], &[]))
            }
            Self::AmongOthers => {
                let (before, after) = (entries(before)?, entries(after)?);
                make_chain(listener, plugin, &vm_id(CHAIN), |own| wrap(own, plugin, &before, &after))
            }
            Self::FourModules => {
                let filters = http_filters(listener)?;
                filter_named(filters, plugin)?["typed_config"]["config"]["vm_config"]["vm_id"] =
                    vm_id(plugin).into();
                let place = filters.iter().position(|filter| filter["name"] == plugin);
                let place = place.context("the filter under test")?;
                let separate = |filter: &Behaviour| separate(filter, &idle(filter)?, &vm_id(filter.plugin));
                let behind: anyhow::Result<Vec<_>> = after.iter().map(separate).collect();
                filters.splice(place + 1..place + 1, behind?);
                let ahead: anyhow::Result<Vec<_>> = before.iter().map(separate).collect();
                filters.splice(place..place, ahead?);
                Ok(())
            }
        }
    }
}

/// Has the only listener run this list of filters, in one module, in the place of this plugin.
pub(crate) fn chain(config: Config, plugin: &str, list: &Value) -> anyhow::Result<Config> {
    let mut list = list.clone();
    complete_list(&mut list)?;
    config.edit(|bootstrap| {
        make_chain(only_listener(bootstrap)?, plugin, "foregate", |own| {
            *own = json!({ "@type": STRUCT, "value": { "filters": list } });
            Ok(())
        })
    })
}

/// Has the only listener run the filters of this list in the place of this plugin, each in a module of its own.
pub(crate) fn modules(config: Config, plugin: &str, list: &Value) -> anyhow::Result<Config> {
    let mut list = list.clone();
    complete_list(&mut list)?;
    config.edit(|bootstrap| {
        let mut separated = Vec::new();
        for (number, entry) in list.as_array().context("a list of filters")?.iter().enumerate() {
            let filter = FILTERS.iter().find(|filter| entry.get(filter.plugin).is_some());
            let filter = filter.with_context(|| format!("no filter of the suite: {entry}"))?;
            let vm_id = format!("foregate.{number}");
            separated.push(separate(filter, &entry[filter.plugin], &vm_id)?);
        }
        let filters = http_filters(only_listener(bootstrap)?)?;
        let place = filters.iter().position(|filter| filter["name"] == plugin).context("the plugin")?;
        filters.splice(place..=place, separated);
        Ok(())
    })
}

fn complete_list(list: &mut Value) -> anyhow::Result<()> {
    for entry in list.as_array_mut().context("a list of filters")? {
        for filter in &FILTERS {
            if let Some(own) = entry.get_mut(filter.plugin) {
                (filter.complete)(own)?;
            }
        }
    }
    Ok(())
}

const STRUCT: &str = "type.googleapis.com/google.protobuf.Struct";

fn idle(filter: &Behaviour) -> anyhow::Result<Value> {
    let mut idle = serde_json::from_str(filter.idle).with_context(|| filter.plugin)?;
    (filter.complete)(&mut idle)?;
    Ok(idle)
}

/// The filter as it ships but for its configuration and the VM that it is in.
fn separate(filter: &Behaviour, configuration: &Value, vm_id: &str) -> anyhow::Result<Value> {
    let mut shipped = Config::load(filter.config)?.modules(xtask::modules::ensure)?.value().clone();
    let mut separate = filter_named(http_filters(only_listener(&mut shipped)?)?, filter.plugin)?.clone();
    let plugin = &mut separate["typed_config"]["config"];
    plugin["vm_config"]["vm_id"] = vm_id.into();
    plugin["configuration"] = json!({ "@type": STRUCT, "value": configuration });
    Ok(separate)
}

/// Puts the module of all filters in the place of this plugin's.
fn make_chain(
    listener: &mut Value,
    plugin: &str,
    vm_id: &str,
    configure: impl FnOnce(&mut Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let filter = filter_named(http_filters(listener)?, plugin)?;
    filter["name"] = CHAIN.into();
    let own = &mut filter["typed_config"]["config"];
    ensure!(own["name"] == plugin, "the plugin of {plugin:?} has another name: {}", own["name"]);
    own["name"] = CHAIN.into();
    own["vm_config"]["vm_id"] = vm_id.into();
    let module = xtask::modules::ensure(CHAIN)?;
    own["vm_config"]["code"]["local"]["filename"] = module.to_str().context("a path in UTF-8")?.into();
    configure(&mut own["configuration"])?;
    rename_in_routes(listener, plugin);
    Ok(())
}

/// Makes a plugin's configuration that of a list with it in it. It stays a Struct or a text.
fn wrap(any: &mut Value, plugin: &str, before: &[Value], after: &[Value]) -> anyhow::Result<()> {
    let own = any.get_mut("value").context("the plugin has no configuration")?;
    *own = match own.take() {
        Value::String(text) => {
            // Whatever the text is: it may be no JSON.
            let texts = |entries: &[Value]| entries.iter().map(Value::to_string).collect::<Vec<_>>();
            let mut entries = texts(before);
            entries.push(format!("{{\"{plugin}\":{text}}}"));
            entries.extend(texts(after));
            format!("{{\"filters\":[{}]}}", entries.join(",")).into()
        }
        own @ Value::Object(_) => {
            let own = json!({ plugin: own });
            let entries: Vec<&Value> = before.iter().chain([&own]).chain(after).collect();
            json!({ "filters": entries })
        }
        other => bail!("a configuration of no kind that is known: {other}"),
    };
    Ok(())
}

/// What a route says of the filter it says of the chain.
fn rename_in_routes(value: &mut Value, plugin: &str) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Object(of_filters)) = members.get_mut("typed_per_filter_config")
                && let Some(own) = of_filters.remove(plugin)
            {
                of_filters.insert(CHAIN.to_owned(), own);
            }
            members.values_mut().for_each(|member| rename_in_routes(member, plugin));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_in_routes(item, plugin)),
        _ => {}
    }
}

fn only_listener(bootstrap: &mut Value) -> anyhow::Result<&mut Value> {
    let listeners = bootstrap.pointer_mut("/static_resources/listeners").and_then(Value::as_array_mut);
    match listeners.map(Vec::as_mut_slice) {
        Some([only]) => Ok(only),
        other => bail!("{} listeners, not one", other.map_or(0, |listeners| listeners.len())),
    }
}

fn http_filters(listener: &mut Value) -> anyhow::Result<&mut Vec<Value>> {
    hcm_of(listener)?.get_mut("http_filters").and_then(Value::as_array_mut).context("http_filters")
}

fn filter_named<'f>(filters: &'f mut [Value], name: &str) -> anyhow::Result<&'f mut Value> {
    let filter = filters.iter_mut().find(|filter| filter["name"] == name);
    filter.with_context(|| format!("no filter {name:?}"))
}
