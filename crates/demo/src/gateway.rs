//! What the demo runs for each filter: Envoy, and an upstream that shows what arrives.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use foregate_cli::echo::Echo;
use real_envoy::{Config, Envoy, Options};

/// A port of 127.0.0.1 that is asked for, with the option that chooses it; 0 takes a free one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port {
    pub(crate) option: &'static str,
    pub(crate) number: u16,
}

/// The ports of one gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) listener: Port,
    pub(crate) admin: Port,
}

/// Fails where one of the ports cannot be had, and says what to do.
pub(crate) fn are_free(ports: impl IntoIterator<Item = Port>) -> anyhow::Result<()> {
    let mut known: Vec<Port> = Vec::new();
    // All are held until all are known to be free.
    let mut held = Vec::new();
    for Port { option, number } in ports {
        if let Some(same) = known.iter().find(|other| number != 0 && other.number == number) {
            bail!("{} and {option} are both {number}; they must differ", same.option);
        }
        known.push(Port { option, number });
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::AddrInUse => "is in use".to_owned(),
                _ => format!("cannot be listened on ({error})"),
            };
            anyhow!(
                "port {number} of 127.0.0.1 {why}; choose another one with {option} PORT, or a free one with \
                 {option} 0"
            )
        })?);
    }
    Ok(())
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
    /// Starts the upstream, then Envoy with this configuration. Changed in that is only where things are:
    /// ports, the upstream, the module.
    pub(crate) async fn start(config: &Config, ports: Ports) -> anyhow::Result<Self> {
        let upstream = Echo::start((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let config = config
            .clone()
            .listener_port(ports.listener.number)?
            .admin_port(ports.admin.number)?
            .upstream("upstream", upstream.addr())?
            .modules(xtask::modules::ensure)?;
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

    /// The filter's metrics that have counted something, as the admin interface gives them.
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

    /// The file that it is in, for as long as this runs.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.envoy.log_file()
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
        let asked = |numbers: [u16; 3]| {
            let options = ["--port", "--admin-port", "--other-port"];
            are_free(options.into_iter().zip(numbers).map(|(option, number)| Port { option, number }))
        };
        let message = |numbers| asked(numbers).unwrap_err().to_string();
        assert_eq!(
            message([port, 0, 0]),
            format!(
                "port {port} of 127.0.0.1 is in use; choose another one with --port PORT, or a free one with --port 0"
            )
        );
        assert!(message([0, port, 0]).contains("--admin-port PORT"));
        drop(taken);
        assert_eq!(
            message([0, port, port]),
            format!("--admin-port and --other-port are both {port}; they must differ")
        );
        asked([0, 0, 0]).unwrap();
    }
}
