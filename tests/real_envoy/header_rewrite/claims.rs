//! Headers that tell the upstream who a verified token is of: two modules in one chain.

use real_envoy::client::{self, Request, Response};
use serde_json::{Value, json};

use super::HEADER_REWRITE;
use crate::suite::Gateway;
use crate::{jwt, jwt_reject};

#[tokio::test(flavor = "multi_thread")]
async fn only_a_verified_token_says_who_one_is() -> anyhow::Result<()> {
    let guard = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] },
            "claim_to_properties": ["sub", "realm.roles"],
        } },
        "rules": [
            { "match": { "prefix": "/open" }, "requires": "allow_missing_or_failed" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    });
    let plugin = json!({
        "request_mutations": [
            { "set": { "name": "x-user", "value": "%CLAIM(sub)%" } },
            { "set": { "name": "x-roles", "value": "<%CLAIM(realm.roles)%>" } },
        ],
        "response_mutations": [{ "set": { "name": "x-served", "value": "%CLAIM(sub)%" } }],
    });
    let gateway = Gateway::start(&HEADER_REWRITE, |config| {
        jwt_reject::insert(config.plugin_configuration(HEADER_REWRITE.plugin, &plugin)?, &guard, 0)
    })
    .await?;
    let ask = async |path: &str, token: Option<&str>| {
        // A client's own, as often as it likes.
        let forged = ["x-user", "x-user", "x-roles", "foregate.jwt.sub"];
        let mut request =
            forged.iter().fold(Request::get(path), |request, name| request.header(name, "mallory"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        client::send(gateway.addr()?, &request).await
    };
    let told = |answer: &Response| {
        let seen = answer.json()?;
        let headers = seen["headers"].as_array().cloned().unwrap_or_default();
        let of = |name: &str| {
            headers.iter().filter(|pair| pair[0] == name).map(|pair| pair[1].clone()).collect::<Vec<_>>()
        };
        anyhow::Ok((of("x-user"), of("x-roles"), answer.header("x-served")))
    };
    let good = jwt::token::make(&json!({ "claims": { "sub": "alice", "realm": { "roles": ["a", "b"] } } }))?;
    let nothing: (Vec<Value>, Vec<Value>, Vec<String>) = (Vec::new(), Vec::new(), Vec::new());
    for path in ["/", "/open"] {
        let answer = ask(path, Some(&good)).await?;
        assert_eq!(
            told(&answer)?,
            (vec![json!("alice")], vec![json!("<a,b>")], vec!["alice".to_owned()]),
            "{path}"
        );
    }
    let forged = jwt::token::make(&json!({ "claims": { "sub": "carol" }, "tamper": ["flip_signature"] }))?;
    for token in [None, Some(forged.as_str())] {
        assert_eq!(told(&ask("/open", token).await?)?, nothing);
    }
    gateway.check_health([good.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
