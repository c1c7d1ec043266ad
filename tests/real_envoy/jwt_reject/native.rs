//! Where jwt_reject and Envoy's own jwt_authn differ: the rows of the table in the filter's README,
//! each asked of both. A row that Envoy changes, or that was never so, fails here.

use foregate_cli::echo::Echo;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy};
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Gateway, hcm_mut};

/// One request, and the status that each answers with.
struct Row {
    /// What the README's table calls it.
    what: &'static str,
    request: Request,
    native: u16,
    ours: u16,
}

fn token(spec: Value) -> String {
    jwt::token::make(&spec).unwrap()
}

fn bearer(token: &str) -> Request {
    Request::get("/api/x").header("authorization", format!("Bearer {token}"))
}

fn rows() -> Vec<Row> {
    let row = |what, request, native, ours| Row { what, request, native, ours };
    let good = token(json!({}));
    let bad = token(json!({ "tamper": ["flip_signature"] }));
    let claims = |text: &str| bearer(&token(json!({ "payload_text": text })));
    let standard = r#""iss":"https://issuer.example","aud":"api""#;
    vec![
        row("a good token", bearer(&good), 200, 200),
        row("a forged token", bearer(&bad), 401, 401),
        row("no rule matches", Request::get("/elsewhere"), 200, 401),
        row("audience", bearer(&token(json!({ "claims": { "aud": "https://api/" } }))), 200, 403),
        row(
            "`Bearer` in another case",
            Request::get("/api/x").header("authorization", format!("bearer {good}")),
            401,
            200,
        ),
        row(
            "`Bearer` not at the start",
            Request::get("/api/x").header("authorization", format!("x Bearer {good}")),
            200,
            401,
        ),
        row(
            "a parameter given twice",
            Request::get(&format!("/api/x?access_token={good}&access_token={bad}")),
            200,
            401,
        ),
        row("`crit`", bearer(&token(json!({ "header": { "crit": ["x"], "x": 1 } }))), 200, 401),
        row("`b64`", bearer(&token(json!({ "header": { "b64": true } }))), 200, 401),
        row("a claim given twice", claims(&format!("{{{standard},\"sub\":\"a\",\"sub\":\"b\"}}")), 401, 401),
        row("`exp` as `9.9e9`", claims(&format!("{{{standard},\"exp\":9.9e9}}")), 200, 200),
        row("`exp: 0`", claims(&format!("{{{standard},\"exp\":0}}")), 200, 401),
        row("`exp` in milliseconds", claims(&format!("{{{standard},\"exp\":1796000000000}}")), 200, 401),
        row("an escaped slash", Request::get("/public/..%2fapi/x"), 200, 401),
        row("a path parameter", Request::get("/public/..;/api/x"), 200, 401),
    ]
}

fn jwks() -> String {
    jwt::jwks(&json!(["p256"])).unwrap().to_string()
}

/// The rules of both: everything below /api needs a token, /public does not.
fn ours(config: Config) -> anyhow::Result<Config> {
    let plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "inline_string": jwks() },
        } },
        "rules": [
            { "match": { "prefix": "/public" }, "requires": "none" },
            { "match": { "prefix": "/api" }, "requires": { "provider_name": "main" } },
        ],
    });
    let config = config.plugin_configuration(JWT_REJECT.plugin, &plugin)?;
    config.edit(without_normalisation)
}

fn native(upstream: std::net::SocketAddr) -> anyhow::Result<Config> {
    let config = Config::load("envoy-configs/jwt-reject/native.yaml")?;
    config.on_free_ports()?.upstream("upstream", upstream)?.edit(|bootstrap| {
        without_normalisation(bootstrap)?;
        let filters = hcm_mut(bootstrap)?.get_mut("http_filters").and_then(Value::as_array_mut).unwrap();
        let filter = &mut filters[0]["typed_config"];
        filter["providers"]["main"]["local_jwks"]["inline_string"] = jwks().into();
        filter["providers"]["weak"] = json!({
            "issuer": "https://issuer.example", "audiences": ["api"],
            "local_jwks": { "inline_string": jwt::jwks(&json!(["weak_secret"]))?.to_string() },
        });
        filter["rules"] = json!([
            { "match": { "prefix": "/weak" }, "requires": { "provider_name": "weak" } },
            { "match": { "prefix": "/public" } },
            { "match": { "prefix": "/api" }, "requires": { "provider_name": "main" } },
        ]);
        Ok(())
    })
}

/// What is compared is the filters, not what stands before both of them.
fn without_normalisation(bootstrap: &mut Value) -> anyhow::Result<()> {
    let hcm = hcm_mut(bootstrap)?;
    for field in ["normalize_path", "merge_slashes", "path_with_escaped_slashes_action"] {
        hcm.remove(field);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_differ_where_the_readme_says() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let native = Envoy::start(&native(echo.addr())?, &Gateway::options()).await?;
    let ours = Gateway::start(&JWT_REJECT, ours).await?;
    let mut wrong = Vec::new();
    for row in rows() {
        let by_native = client::send(native.listener()?, &row.request).await?;
        let by_ours = client::send(ours.addr()?, &row.request).await?;
        if (by_native.status, by_ours.status) != (row.native, row.ours) {
            wrong.push(format!(
                "{}: jwt_authn {} {} (expected {}), jwt_reject {} {} (expected {})",
                row.what,
                by_native.status,
                by_native.text(),
                row.native,
                by_ours.status,
                by_ours.text(),
                row.ours
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // A secret of ten bytes: jwt_authn takes it; that jwt_reject does not is among the configurations
    // that it refuses.
    let weak = token(json!({ "key": "weak_secret" }));
    let request = Request::get("/weak").header("authorization", format!("Bearer {weak}"));
    assert_eq!(client::send(native.listener()?, &request).await?.status, 200);
    ours.envoy.stop().await?;
    native.stop().await
}
