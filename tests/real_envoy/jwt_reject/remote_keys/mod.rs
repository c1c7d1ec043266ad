//! Keys that are fetched, from a server that serves them well or badly: nobody hangs, nobody is refused who
//! should not be, nobody passes who should not, and the server is asked no more often than it must be.

mod fetching;
mod tls;
mod waiting;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use real_envoy::Config;
use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::jwt;
use crate::jwt::issuer::Issuer;
use crate::suite::{Gateway, SOON};

/// The configuration with keys from this server; `settings` are members of `remote_jwks`.
fn with_remote_keys(config: Config, issuer: SocketAddr, settings: &Value) -> anyhow::Result<Config> {
    let mut remote = json!({
        "http_uri": { "uri": "http://issuer.example/keys?v=1", "cluster": "issuer", "timeout": "2s" },
        "min_refetch_interval": "1s",
    });
    for (name, value) in settings.as_object().context("settings")? {
        remote[name] = value.clone();
    }
    let plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "remote_jwks": remote,
        } },
        "rules": [
            { "match": { "prefix": "/open" }, "requires": "none" },
            { "match": { "prefix": "/lenient" }, "requires": "allow_missing_or_failed" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    });
    let (host, port) = (issuer.ip().to_string(), issuer.port());
    let config = config.plugin_configuration(JWT_REJECT.plugin, &plugin)?;
    config.edit(|value| {
        let clusters = value.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut);
        clusters.context("no clusters")?.push(json!({
            "name": "issuer",
            "type": "STATIC",
            "connect_timeout": "1s",
            "load_assignment": { "cluster_name": "issuer", "endpoints": [{ "lb_endpoints": [{ "endpoint": {
                "address": { "socket_address": { "address": host, "port_value": port } },
            } }] }] },
        }));
        Ok(())
    })
}

async fn gateway(issuer: &Issuer, settings: Value) -> anyhow::Result<Gateway> {
    Gateway::start(&JWT_REJECT, |config| with_remote_keys(config, issuer.addr(), &settings)).await
}

fn token(key: &str) -> anyhow::Result<String> {
    jwt::token::make(&json!({ "key": key }))
}

fn bearer(token: &str) -> Request {
    Request::get("/api").header("authorization", format!("Bearer {token}"))
}

/// Sends the request until it gets this status, which must be soon.
async fn becomes(addr: SocketAddr, request: &Request, status: u16) -> anyhow::Result<()> {
    let mut last = 0;
    let waiting = async {
        // Over a connection of its own each time, so that every worker has its turn.
        let mut in_a_row = 0;
        while in_a_row < 8 {
            last = client::send(addr, request).await?.status;
            in_a_row = if last == status { in_a_row + 1 } else { 0 };
            if in_a_row == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SOON, waiting).await.with_context(|| format!("still {last}, not {status}"))?
}
