//! The three that can do the job, as they ship, and what the rows need beside them.

use std::net::SocketAddr;

use anyhow::Context as _;
use real_envoy::Config;
use serde_json::json;

use crate::header_rewrite::HEADER_REWRITE;
use crate::suite::hcm_mut;

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Implementation {
    /// Envoy's own header_mutation.
    Native,
    Lua,
    /// header_rewrite.
    Ours,
}

pub(super) const ALL: [Implementation; 3] =
    [Implementation::Native, Implementation::Lua, Implementation::Ours];

/// The only host that there is a route for.
pub(super) const HOST: &str = "gateway.example";

/// The shipped configuration, and in it:
/// - the upstream sees by which route a request came, in `x-route`;
/// - `/direct` is answered by its route, with 418;
/// - the last address of `x-forwarded-for` is the client, so that a test can be any;
/// - there are routes for [`HOST`] alone.
pub(super) fn configuration(implementation: Implementation, upstream: SocketAddr) -> anyhow::Result<Config> {
    let file = match implementation {
        Implementation::Native => "envoy-configs/header-rewrite/native.yaml",
        Implementation::Lua => "envoy-configs/header-rewrite/lua.yaml",
        Implementation::Ours => HEADER_REWRITE.config,
    };
    let config = Config::load(file)?.on_free_ports()?.upstream("upstream", upstream)?;
    let config = config.edit(|bootstrap| {
        let hcm = hcm_mut(bootstrap)?;
        hcm.insert("xff_num_trusted_hops".to_owned(), 1.into());
        let hosts = hcm.get_mut("route_config").and_then(|routes| routes.pointer_mut("/virtual_hosts/0"));
        let hosts = hosts.and_then(|hosts| hosts.as_object_mut()).context("no virtual host")?;
        hosts.insert("domains".to_owned(), json!([HOST]));
        let by_route = json!([{ "header": { "key": "x-route", "value": "%ROUTE_NAME%" } }]);
        hosts.insert("request_headers_to_add".to_owned(), by_route);
        let routes = hosts.get_mut("routes").and_then(|routes| routes.as_array_mut());
        routes.context("no routes")?.insert(
            0,
            json!({
                "name": "direct",
                "match": { "path": "/direct" },
                "direct_response": { "status": 418, "body": { "inline_string": "direct" } },
            }),
        );
        Ok(())
    })?;
    match implementation {
        Implementation::Ours => config.modules(xtask::modules::ensure),
        _ => Ok(config),
    }
}
