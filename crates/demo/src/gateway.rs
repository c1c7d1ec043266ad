//! What the demo runs: Envoy with the shipped configuration, and an upstream that shows what arrives.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use foregate_cli::echo::Echo;
use real_envoy::{Config, Envoy, Options};
use serde_json::Value;

use crate::tokens::Tokens;

/// The configuration shown, from the root of the repository.
pub(crate) const CONFIGURATION: &str = "envoy-configs/jwt-reject/wasm.yaml";

/// Where the keys of the provider `main` are in it.
const KEYS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0\
    /typed_config/config/configuration/value/providers/main/local_jwks/inline_string";

/// The ports of 127.0.0.1 that are asked for; 0 takes a free one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) listener: u16,
    pub(crate) admin: u16,
}

impl Ports {
    /// Fails where one cannot be had, and says what to do.
    pub(crate) fn are_free(self) -> anyhow::Result<()> {
        let different = self.listener == 0 || self.listener != self.admin;
        ensure!(different, "--port and --admin-port are both {}; they must differ", self.listener);
        // Both are held until both are known to be free.
        let _held = [(self.listener, "--port"), (self.admin, "--admin-port")]
            .into_iter()
            .map(|(port, option)| {
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                    let why = match error.kind() {
                        ErrorKind::AddrInUse => "is in use".to_owned(),
                        _ => format!("cannot be listened on ({error})"),
                    };
                    anyhow!(
                        "port {port} of 127.0.0.1 {why}; choose another one with {option} PORT, or a free one \
                         with {option} 0"
                    )
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(())
    }
}

/// A running gateway. Dropping it ends all of it.
#[derive(Debug)]
pub(crate) struct Gateway {
    envoy: Envoy,
    address: SocketAddr,
    // Lives as long as Envoy sends requests to it.
    _upstream: Echo,
}

impl Gateway {
    /// Starts the upstream, then Envoy with the shipped configuration. Changed in that are only the keys,
    /// and where things are: ports, the upstream, the module.
    pub(crate) async fn start(ports: Ports, module: &Path, tokens: &Tokens) -> anyhow::Result<Self> {
        let upstream = Echo::start((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let config = Config::load(CONFIGURATION)?
            .listener_port(ports.listener)?
            .admin_port(ports.admin)?
            .upstream("upstream", upstream.addr())?
            .modules(|_| Ok(module.to_owned()))?
            .edit(|value| {
                let keys = value.pointer_mut(KEYS);
                *keys.with_context(|| format!("{CONFIGURATION} has no keys at {KEYS}"))? =
                    Value::String(tokens.jwks());
                Ok(())
            })?;
        let envoy = Envoy::start(&config, &Options::default()).await?;
        let address = envoy.listener()?;
        Ok(Self { envoy, address, _upstream: upstream })
    }

    /// Where requests go.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where Envoy's admin interface is.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.envoy.admin_addr()
    }

    /// The filters' metrics that have counted something, as the admin interface gives them.
    pub(crate) async fn metrics(&self) -> anyhow::Result<Vec<String>> {
        let all = self.envoy.admin_get("/stats?filter=foregate&usedonly").await?;
        Ok(all.lines().filter(|line| !line.ends_with(": 0")).map(str::to_owned).collect())
    }

    /// Whether Envoy still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.envoy.is_alive()
    }

    /// Envoy's log.
    pub(crate) fn log(&self) -> String {
        self.envoy.log()
    }

    /// Ends it, and fails if Envoy does not end well.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.envoy.stop().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_its_option() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let message = |ports: Ports| ports.are_free().unwrap_err().to_string();
        assert_eq!(
            message(Ports { listener: port, admin: 0 }),
            format!(
                "port {port} of 127.0.0.1 is in use; choose another one with --port PORT, or a free one with --port 0"
            )
        );
        assert!(message(Ports { listener: 0, admin: port }).contains("--admin-port PORT"));
        assert!(message(Ports { listener: 7, admin: 7 }).contains("must differ"));
        Ports { listener: 0, admin: 0 }.are_free().unwrap();
    }
}
