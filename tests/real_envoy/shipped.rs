//! Every file under `envoy-configs` is one that Envoy starts with, and does what it says.

use std::path::{Path, PathBuf};

use foregate_cli::echo::Echo;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};
use serde_json::json;

use crate::jwt;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

async fn start(path: &Path, echo: &Echo) -> anyhow::Result<Envoy> {
    let mut config = Config::load(path)?.on_free_ports()?.upstream("upstream", echo.addr())?;
    if std::fs::read_to_string(path)?.contains(".wasm") {
        config = config.modules(xtask::modules::ensure)?;
    }
    Envoy::start(&config, &Options::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_starts_with_every_configuration_and_passes_what_is_open() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let files = files(&xtask::workspace_root().join("envoy-configs"));
    assert!(files.len() >= 4, "{files:?}");
    for (number, path) in files.iter().enumerate() {
        assert!(path.extension().is_some_and(|ending| ending == "yaml"), "{path:?}");
        let envoy = start(path, &echo).await?;
        let answer = client::send(envoy.listener()?, &Request::get("/health?token=secret")).await?;
        assert_eq!(answer.status, 200, "{path:?}");
        assert_eq!(echo.requests(), number as u64 + 1, "{path:?}");
        // The access log, without the query.
        let line = envoy.wait_for_stdout("/health", std::time::Duration::from_secs(10)).await?;
        assert_eq!(line, "GET /health HTTP/1.1 200 via_upstream", "{path:?}");
        envoy.stop().await?;
    }
    Ok(())
}

/// Lua does what it says, and no more: it refuses in the words of the others, and checks no signature.
#[tokio::test(flavor = "multi_thread")]
async fn lua_refuses_what_needs_no_key() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let file = xtask::workspace_root().join("envoy-configs/jwt-reject/lua.yaml");
    let envoy = start(&file, &echo).await?;
    let token = |spec| jwt::token::make(&spec).unwrap();
    let good = token(json!({}));
    let (signed, _) = good.rsplit_once('.').unwrap();
    let malformed = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections";
    let rows = [
        (None, 401, "Jwt is missing"),
        (Some("Basic eDp5".to_owned()), 401, "Jwt is missing"),
        (Some(format!("Bearer {good}")), 200, ""),
        (Some(format!("bearer {good}")), 200, ""),
        (Some(format!("Bearer {}", token(json!({ "tamper": ["flip_signature"] })))), 200, ""),
        (Some(format!("Bearer {signed}")), 401, malformed),
        (Some("Bearer ".to_owned()), 401, "Jwt is missing"),
        (Some(format!("Bearer {good}.x")), 401, malformed),
        (Some("Bearer a.b+c.d".to_owned()), 401, "Jwt payload is an invalid Base64url encoded"),
        (Some(format!("Bearer {}", token(json!({ "claims": { "exp": "now-61" } })))), 401, "Jwt is expired"),
        (Some(format!("Bearer {}", token(json!({ "claims": { "exp": "now-50" } })))), 200, ""),
        (Some(format!("Bearer {}", token(json!({ "claims": { "exp": null } })))), 200, ""),
    ];
    for (authorization, status, body) in rows {
        let mut request = Request::get("/orders?page=2").authority("gateway.example");
        if let Some(value) = &authorization {
            request = request.header("authorization", value);
        }
        let answer = client::send(envoy.listener()?, &request).await?;
        assert_eq!(answer.status, status, "{authorization:?}: {}", answer.text());
        if status == 401 {
            assert_eq!(answer.text(), body, "{authorization:?}");
            let challenge = answer.header("www-authenticate").concat();
            assert!(challenge.starts_with("Bearer realm=\"http://gateway.example/orders\""), "{challenge}");
        }
    }
    assert_eq!(envoy.stat("http.ingress.lua.errors").await?, 0);
    envoy.stop().await
}
