//! An Envoy bootstrap configuration, and the rewrites that make a shipped one fit for a test.
//!
//! A rewrite changes the structure, not the text, and is an error where it finds nothing to rewrite:
//! one that silently did nothing would leave a test testing something else.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value, json};

/// A bootstrap configuration. Each rewrite takes it and returns it, so that they chain with `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    value: Value,
    pub(crate) listeners_from_file: bool,
}

impl Config {
    /// Reads a bootstrap file in YAML. A relative path is taken from the root of the workspace.
    pub fn load(path: impl AsRef<Path>) -> anyhow::Result<Self> {
        let path = xtask::workspace_root().join(path);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads a bootstrap configuration in YAML (or JSON, which is YAML too).
    ///
    /// What would not mean the same to Envoy's own parser is an error: merge keys (`<<`), which Envoy
    /// takes for a field of that name, and repeated keys.
    pub fn parse(yaml: &str) -> anyhow::Result<Self> {
        let options = serde_saphyr::options! { merge_keys: serde_saphyr::MergeKeyPolicy::Error };
        Self::of(serde_saphyr::from_str_with_options(yaml, options).context("not valid YAML")?)
    }

    /// A bootstrap configuration that has been read already.
    pub fn of(value: Value) -> anyhow::Result<Self> {
        ensure!(value.is_object(), "not a mapping at the top");
        Ok(Self { value, listeners_from_file: false })
    }

    /// The configuration as it stands.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Any other change. The closure should fail where it finds nothing to change.
    pub fn edit(mut self, change: impl FnOnce(&mut Value) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        change(&mut self.value)?;
        Ok(self)
    }

    /// Puts every static listener and the admin interface (made if there is none) on free ports of
    /// 127.0.0.1, which Envoy chooses.
    pub fn on_free_ports(mut self) -> anyhow::Result<Self> {
        for listener in self.listeners_mut()? {
            let address = listener.pointer_mut("/address").context("a listener has no address")?;
            *address = socket_address("127.0.0.1", 0);
            for additional in array_mut(listener, "/additional_addresses") {
                let address =
                    additional.pointer_mut("/address").context("an additional address has no address")?;
                *address = socket_address("127.0.0.1", 0);
            }
        }
        self.set_admin(socket_address("127.0.0.1", 0))
    }

    /// Puts the only static listener on this port; its host stays.
    pub fn listener_port(mut self, port: u16) -> anyhow::Result<Self> {
        let [listener] = self.listeners_mut()? else { bail!("there are several static listeners") };
        let port_value = listener.pointer_mut("/address/socket_address/port_value");
        *port_value.context("the listener has no port")? = port.into();
        Ok(self)
    }

    /// Puts the admin interface on this port of 127.0.0.1, and makes it if there is none.
    pub fn admin_port(self, port: u16) -> anyhow::Result<Self> {
        self.set_admin(socket_address("127.0.0.1", port))
    }

    /// Points every endpoint of a static cluster at `address`.
    pub fn upstream(mut self, cluster: &str, address: SocketAddr) -> anyhow::Result<Self> {
        let found = array_mut(&mut self.value, "/static_resources/clusters")
            .iter_mut()
            .find(|candidate| candidate.get("name").and_then(Value::as_str) == Some(cluster));
        let found = found.with_context(|| format!("there is no static cluster {cluster:?}"))?;
        let mut rewritten = 0;
        for locality in array_mut(found, "/load_assignment/endpoints") {
            for endpoint in array_mut(locality, "/lb_endpoints") {
                let current =
                    endpoint.pointer_mut("/endpoint/address").context("an endpoint has no address")?;
                *current = socket_address(&address.ip().to_string(), address.port());
                rewritten += 1;
            }
        }
        ensure!(rewritten > 0, "cluster {cluster:?} has no endpoints");
        Ok(self)
    }

    /// Replaces every `local: {filename: .../NAME.wasm}` by the path that `resolve(NAME)` gives.
    pub fn modules(
        mut self,
        mut resolve: impl FnMut(&str) -> anyhow::Result<PathBuf>,
    ) -> anyhow::Result<Self> {
        let mut resolved: BTreeMap<String, PathBuf> = BTreeMap::new();
        visit(&mut self.value, &mut |object| {
            let Some(Value::String(filename)) =
                object.get_mut("local").and_then(|local| local.get_mut("filename"))
            else {
                return Ok(());
            };
            let path = Path::new(filename.as_str());
            if path.extension().is_none_or(|extension| extension != "wasm") {
                return Ok(());
            }
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            let module = match resolved.get(&name) {
                Some(module) => module,
                None => {
                    let module = resolve(&name).with_context(|| format!("no module for {filename:?}"))?;
                    let module = std::path::absolute(&module)
                        .with_context(|| format!("no absolute path for {}", module.display()))?;
                    resolved.entry(name).or_insert(module)
                }
            };
            module
                .to_str()
                .with_context(|| format!("{} is not UTF-8", module.display()))?
                .clone_into(filename);
            Ok(())
        })?;
        ensure!(!resolved.is_empty(), "there is no local.filename that ends in .wasm");
        Ok(self)
    }

    /// Replaces the configuration of the Wasm plugin of that name: the name of its filter or access log,
    /// or the `config.name` of the plugin. All plugins of that name are given the new configuration.
    ///
    /// It stays a `Struct` or a `StringValue` where it was one; a new one is a `Struct` if `configuration`
    /// is an object. In a `StringValue` a JSON string stands for its own text (which allows text that is
    /// not JSON), and anything else for its JSON text.
    pub fn plugin_configuration(mut self, name: &str, configuration: &Value) -> anyhow::Result<Self> {
        let mut replaced = false;
        visit(&mut self.value, &mut |object| {
            let outer = object.get("name").and_then(Value::as_str) == Some(name);
            let Some(typed) = object.get_mut("typed_config").filter(|typed| is_wasm_plugin(typed)) else {
                return Ok(());
            };
            let plugin = typed.get_mut("config").and_then(Value::as_object_mut);
            let plugin = plugin.with_context(|| format!("the Wasm plugin of {name:?} has no config"))?;
            if outer || plugin.get("name").and_then(Value::as_str) == Some(name) {
                let before = plugin.get("configuration").and_then(|before| before.get("@type"));
                let new = any_configuration(before.and_then(Value::as_str), configuration);
                plugin.insert("configuration".to_owned(), new);
                replaced = true;
            }
            Ok(())
        })?;
        ensure!(replaced, "there is no Wasm plugin {name:?}");
        Ok(self)
    }

    /// Lets Envoy take the static listeners from a file that it watches, so that
    /// [`Envoy::update_listeners`](crate::Envoy::update_listeners) can replace them while it runs.
    ///
    /// Listeners on port 0 are given free ports by the harness, which they keep over updates: Envoy
    /// would choose a new one whenever the listener is replaced.
    pub fn with_file_lds(mut self) -> anyhow::Result<Self> {
        self.listeners_mut()?;
        self.listeners_from_file = true;
        Ok(self)
    }

    /// The static listeners, of which there must be some.
    pub(crate) fn listeners_mut(&mut self) -> anyhow::Result<&mut [Value]> {
        let listeners = array_mut(&mut self.value, "/static_resources/listeners");
        ensure!(!listeners.is_empty(), "there are no static listeners");
        Ok(listeners)
    }

    /// Fails where a static listener has a port that is taken. Envoy itself would not notice if it is
    /// taken by another Envoy: the two would share the traffic (`SO_REUSEPORT`, its default).
    pub(crate) fn ports_are_free(&self) -> anyhow::Result<()> {
        let listeners = self.value.pointer("/static_resources/listeners").and_then(Value::as_array);
        for listener in listeners.into_iter().flatten() {
            let address = listener.pointer("/address/socket_address");
            let ip = address.and_then(|address| address.get("address")?.as_str()?.parse::<IpAddr>().ok());
            let port = address.and_then(|address| u16::try_from(address.get("port_value")?.as_u64()?).ok());
            if let (Some(ip), Some(port)) = (ip, port) {
                TcpListener::bind((ip, port)).with_context(|| format!("cannot listen on {ip}:{port}"))?;
            }
        }
        Ok(())
    }

    fn set_admin(self, address: Value) -> anyhow::Result<Self> {
        self.edit(|value| {
            let top = value.as_object_mut().context("not a mapping at the top")?;
            let admin = top.entry("admin").or_insert_with(|| json!({}));
            admin.as_object_mut().context("admin is not a mapping")?.insert("address".to_owned(), address);
            Ok(())
        })
    }
}

fn socket_address(address: &str, port: u16) -> Value {
    json!({ "socket_address": { "address": address, "port_value": port } })
}

/// The array at `pointer`, or an empty one.
fn array_mut<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Calls `act` with every object in `value`, outer ones first.
fn visit(
    value: &mut Value,
    act: &mut impl FnMut(&mut Map<String, Value>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match value {
        Value::Object(object) => {
            act(object)?;
            object.values_mut().try_for_each(|inner| visit(inner, act))
        }
        Value::Array(array) => array.iter_mut().try_for_each(|inner| visit(inner, act)),
        _ => Ok(()),
    }
}

/// Whether this is the configuration of a Wasm filter, access log or service.
fn is_wasm_plugin(typed_config: &Value) -> bool {
    let name = typed_config.get("@type").and_then(Value::as_str).unwrap_or_default();
    name.contains(".wasm.v3.Wasm")
}

fn any_configuration(type_before: Option<&str>, configuration: &Value) -> Value {
    const STRUCT: &str = "type.googleapis.com/google.protobuf.Struct";
    const STRING: &str = "type.googleapis.com/google.protobuf.StringValue";
    let is_struct = type_before.map_or(configuration.is_object(), |before| before == STRUCT);
    match configuration {
        _ if is_struct => json!({ "@type": STRUCT, "value": configuration }),
        Value::String(text) => json!({ "@type": STRING, "value": text }),
        other => json!({ "@type": STRING, "value": other.to_string() }),
    }
}

#[cfg(test)]
mod tests;
