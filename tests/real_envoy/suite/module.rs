//! What every module has, and what only some have: exports, and capabilities of the host.

use std::collections::BTreeSet;

use real_envoy::Config;
use serde_json::{Map, Value, json};

use super::gateway::plugin_mut;

/// What every module exports.
const EXPORTS: &[&str] = &[
    // Envoy asks for these.
    "memory",
    "proxy_abi_version_0_2_1",
    "proxy_on_memory_allocate",
    // Ours need these.
    "_initialize",
    "proxy_on_configure",
    "proxy_on_context_create",
    "proxy_on_delete",
];

/// Checks what a module's file exports beside what every module does, and that it is smaller than this.
pub(crate) fn check_module(name: &str, exports: &[&str], most_bytes: u64) {
    let modules = xtask::modules::build().unwrap();
    let module = modules.iter().find(|module| module.name == name).unwrap();
    let found: BTreeSet<&str> = module.exports.iter().map(String::as_str).collect();
    assert_eq!(found, EXPORTS.iter().chain(exports).copied().collect());
    assert!(module.size < most_bytes, "{} bytes; the most is {most_bytes}", module.size);
}

/// What every module calls or exports, as capabilities.
const CAPABILITIES: &[&str] = &[
    "proxy_on_context_create",
    "proxy_on_configure",
    "proxy_on_request_headers",
    "proxy_on_tick",
    "proxy_on_delete",
    "proxy_log",
    "proxy_get_log_level",
    "proxy_get_current_time_nanoseconds",
    "proxy_set_tick_period_milliseconds",
    "proxy_get_buffer_bytes",
    "proxy_get_header_map_pairs",
    "proxy_add_header_map_value",
    "proxy_replace_header_map_value",
    "proxy_send_local_response",
    "proxy_define_metric",
    "proxy_increment_metric",
    "proxy_set_property",
    "proxy_get_shared_data",
    "proxy_set_shared_data",
    "proxy_set_effective_context",
    "environ_get",
    "environ_sizes_get",
    "fd_write",
    "proc_exit",
    "random_get",
];

/// What a module may ask of the host.
pub(crate) struct Capabilities {
    /// The name of the plugin.
    pub(crate) plugin: &'static str,
    /// What it calls or exports beside what every module does.
    pub(crate) own: &'static [&'static str],
}

impl Capabilities {
    /// Has the host refuse this capability; the empty one: none that the module uses.
    pub(crate) fn all_but(&self, config: Config, refused: &str) -> anyhow::Result<Config> {
        let all = || CAPABILITIES.iter().chain(self.own).copied();
        assert!(
            refused.is_empty() || all().any(|name| name == refused),
            "{refused} is no capability of the list"
        );
        let allowed = all().filter(|name| *name != refused).map(|name| (name.to_owned(), json!({})));
        let restriction = json!({ "allowed_capabilities": allowed.collect::<Map<String, Value>>() });
        config.edit(|bootstrap| {
            plugin_mut(bootstrap, self.plugin)?
                .insert("capability_restriction_config".to_owned(), restriction);
            Ok(())
        })
    }
}
