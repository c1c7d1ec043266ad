//! The shipped configuration that fetches keys over TLS, from an issuer whose TLS is Envoy's too.

use std::net::SocketAddr;

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};
use serde_json::json;

use super::JWT_REJECT;
use crate::jwt;
use crate::jwt::issuer::{Answer, Issuer};
use crate::suite::{Behaviour, Gateway, SOON};

const REMOTE_KEYS: Behaviour =
    Behaviour { config: "envoy-configs/jwt-reject/remote-keys.yaml", ..JWT_REJECT };

/// An authority, and a certificate for a name by it.
fn certificate(name: &str) -> anyhow::Result<(String, String, String)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Else it has the very name that the certificate has, which then looks as if it had signed itself.
    params.distinguished_name.push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &authority)?;
    Ok((authority.pem(), certificate.pem(), key.serialize_pem()))
}

/// An Envoy that takes TLS off in front of the issuer.
async fn tls(issuer: SocketAddr, certificate: &str, key: &str) -> anyhow::Result<Envoy> {
    let config = json!({ "static_resources": {
        "listeners": [{
            "name": "tls",
            "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } },
            "filter_chains": [{
                "transport_socket": { "name": "envoy.transport_sockets.tls", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                    "common_tls_context": { "tls_certificates": [{
                        "certificate_chain": { "inline_string": certificate },
                        "private_key": { "inline_string": key },
                    }] },
                } },
                "filters": [{ "name": "envoy.filters.network.tcp_proxy", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                    "stat_prefix": "tls", "cluster": "issuer",
                } }],
            }],
        }],
        "clusters": [{
            "name": "issuer", "type": "STATIC", "load_assignment": { "cluster_name": "issuer", "endpoints": [{
                "lb_endpoints": [{ "endpoint": { "address": { "socket_address": {
                    "address": issuer.ip().to_string(), "port_value": issuer.port() } } } }] }] },
        }],
    } });
    Envoy::start(&Config::parse(&config.to_string())?.on_free_ports()?, &Options::default()).await
}

/// The gateway of the shipped file, its issuer at this address and vouched for by this authority.
async fn gateway(issuer: SocketAddr, authority: &str) -> anyhow::Result<Gateway> {
    Gateway::start(&REMOTE_KEYS, |config| {
        config.upstream("issuer", issuer)?.edit(|value| {
            let trusted = value.pointer_mut(
                "/static_resources/clusters/1/transport_socket/typed_config/common_tls_context/validation_context/trusted_ca",
            );
            *trusted.context("no trusted_ca")? = json!({ "inline_string": authority });
            Ok(())
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_taken_from_the_issuer_and_from_nobody_else() -> anyhow::Result<()> {
    let issuer = Issuer::start(Answer::Keys(&["p256"], &[])).await?;
    let token = jwt::token::make(&json!({}))?;
    let good = Request::get("/").header("authorization", format!("Bearer {token}"));
    let (authority, own, own_key) = certificate("issuer.example")?;
    let (_, foreign, foreign_key) = certificate("issuer.example")?;
    let (other_authority, other_name, other_key) = certificate("else.example")?;
    let rows: [(&str, &str, &str, u16); 3] = [
        (&authority, &own, &own_key, 200),
        // Of an authority that is not trusted; of one that is, for another name.
        (&authority, &foreign, &foreign_key, 503),
        (&other_authority, &other_name, &other_key, 503),
    ];
    for (authority, certificate, key, status) in rows {
        let front = tls(issuer.addr(), certificate, key).await?;
        let gateway = gateway(front.listener()?, authority).await?;
        let answer = client::send(gateway.addr()?, &good).await?;
        assert_eq!(answer.status, status, "{}\n{}", answer.text(), gateway.envoy.log());
        assert_eq!(client::send(gateway.addr()?, &Request::get("/health")).await?.status, 200);
        if status == 503 {
            gateway.envoy.wait_for_log("the response has status 503", SOON).await?;
            assert_eq!(gateway.counters().await?["jwks_fetches.result.new_keys"], 0);
        }
        gateway.check_health([token.as_str()].into_iter()).await?;
        gateway.envoy.stop().await?;
        front.stop().await?;
    }
    assert_eq!(issuer.asked()[0].line, "GET issuer.example/.well-known/jwks.json");
    assert_eq!(issuer.fetches(), 1, "those whose certificate is not right were not asked");
    Ok(())
}
