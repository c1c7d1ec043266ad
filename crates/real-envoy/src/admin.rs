//! Asking the admin interface: readiness, listeners, statistics, and any path.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::client::{self, Request};
use crate::envoy::Envoy;
use crate::wait;

impl Envoy {
    /// The body of `GET path` on the admin interface. Any status but 200 is an error.
    pub async fn admin_get(&self, path: &str) -> anyhow::Result<String> {
        ask(self.admin_addr(), "GET", path).await
    }

    /// The body of `POST path` on the admin interface, as `/logging?wasm=debug` needs it. Any status but
    /// 200 is an error.
    pub async fn admin_post(&self, path: &str) -> anyhow::Result<String> {
        ask(self.admin_addr(), "POST", path).await
    }

    /// All counters and gauges.
    pub async fn stats(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        stats(self.admin_addr(), "").await
    }

    /// The counters and gauges whose name begins with `prefix`.
    pub async fn stats_matching(&self, prefix: &str) -> anyhow::Result<BTreeMap<String, u64>> {
        stats(self.admin_addr(), prefix).await
    }

    /// One counter or gauge. Envoy makes some when they are first counted, so one that is not there
    /// reads as 0 here; [`stats`](Self::stats) tells the difference.
    pub async fn stat(&self, name: &str) -> anyhow::Result<u64> {
        Ok(stats(self.admin_addr(), name).await?.get(name).copied().unwrap_or_default())
    }

    /// Waits until a counter or gauge is as `wanted` says, and returns it.
    pub async fn wait_for_stat(
        &self,
        name: &str,
        wanted: impl Fn(u64) -> bool + Sync,
        limit: Duration,
    ) -> anyhow::Result<u64> {
        let wanted = &wanted;
        let found = wait::until(limit, &format!("the right value of {name}"), || async move {
            let value = self.stat(name).await?;
            Ok(wanted(value).then_some(value))
        })
        .await;
        match found {
            Ok(value) => Ok(value),
            Err(error) => {
                let value = self.stat(name).await?;
                Err(error.context(format!("{name} is {value}")))
            }
        }
    }
}

/// Whether Envoy says LIVE and its workers accept connections. No answer counts as no.
pub(crate) async fn is_serving(admin: SocketAddr) -> bool {
    if ask(admin, "GET", "/ready").await.is_err() {
        return false;
    }
    const STARTED: &str = "listener_manager.workers_started";
    stats(admin, STARTED).await.is_ok_and(|stats| stats.get(STARTED) == Some(&1))
}

/// Where each listener can be reached.
pub(crate) async fn listeners(admin: SocketAddr) -> anyhow::Result<BTreeMap<String, SocketAddr>> {
    let text = ask(admin, "GET", "/listeners?format=json").await?;
    let answer: Value = serde_json::from_str(&text).context("listeners: not JSON")?;
    let statuses = answer.get("listener_statuses").and_then(Value::as_array);
    statuses.into_iter().flatten().map(name_and_address).collect()
}

fn name_and_address(status: &Value) -> anyhow::Result<(String, SocketAddr)> {
    let parts = || {
        let name = status.get("name")?.as_str()?;
        let address = status.pointer("/local_address/socket_address")?;
        let ip: IpAddr = address.get("address")?.as_str()?.parse().ok()?;
        let port = u16::try_from(address.get("port_value")?.as_u64()?).ok()?;
        // What listens everywhere is reached through loopback.
        let ip = if ip.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { ip };
        Some((name.to_owned(), SocketAddr::new(ip, port)))
    };
    parts().with_context(|| format!("listeners: no name and address in {status}"))
}

async fn stats(admin: SocketAddr, prefix: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let text = ask(admin, "GET", &format!("/stats?format=json&filter=%5E{}", literal(prefix))).await?;
    let answer: Value = serde_json::from_str(&text).context("stats: not JSON")?;
    let stats = answer.get("stats").and_then(Value::as_array);
    // Histograms and texts have no name or no number.
    Ok(stats
        .into_iter()
        .flatten()
        .filter_map(|stat| Some((stat.get("name")?.as_str()?, stat.get("value")?.as_u64()?)))
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
}

/// A regular expression that matches `text` itself, percent-encoded.
fn literal(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%5C%{byte:02X}")),
        }
    }
    out
}

async fn ask(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<String> {
    let response = client::send(admin, &Request::new(method, path)).await;
    let response = response.with_context(|| format!("admin interface: {method} {path}"))?;
    if response.status != 200 {
        bail!("admin interface: {method} {path}: status {}: {}", response.status, response.text());
    }
    Ok(response.text())
}
