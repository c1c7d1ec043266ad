//! A limit for each user, by a claim that jwt_reject has verified: two modules in one chain.

use real_envoy::Config;
use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::LOCAL_RATE_LIMIT;
use crate::suite::Gateway;
use crate::{jwt, jwt_reject};

/// jwt_reject, as it ships, ahead of the limiter.
fn behind_jwt_reject(config: Config) -> anyhow::Result<Config> {
    let plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] },
            "claim_to_properties": ["sub"],
        } },
        "rules": [
            { "match": { "prefix": "/open" }, "requires": "allow_missing_or_failed" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    });
    jwt_reject::insert(config, &plugin, 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_told_apart_by_verified_claims_alone() -> anyhow::Result<()> {
    let plugin = json!({ "descriptors": [{
        "name": "per-user", "entries": [{ "jwt_claim": "sub" }],
        "token_bucket": { "max_tokens": 2, "tokens_per_fill": 1, "fill_interval": "86400s" },
    }] });
    let gateway = Gateway::start(&LOCAL_RATE_LIMIT, |config| {
        behind_jwt_reject(config.plugin_configuration(LOCAL_RATE_LIMIT.plugin, &plugin)?)
    })
    .await?;
    let token = |sub: &str, jti: u32, tamper: Value| {
        jwt::token::make(&json!({ "claims": { "sub": sub, "jti": jti.to_string() }, "tamper": tamper }))
    };
    let statuses = async |path: &str, tokens: &[Option<String>]| {
        let mut statuses = Vec::new();
        for token in tokens {
            // A property is none of a request's headers, however they are called.
            let mut request = Request::get(path).header("foregate.jwt.sub", "mallory");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            statuses.push(client::send(gateway.addr()?, &request).await?.status);
        }
        anyhow::Ok(statuses)
    };
    // Whatever token it is: it is the same user.
    let of = |sub: &str| {
        (0..4).map(|jti| token(sub, jti, json!([])).map(Some)).collect::<anyhow::Result<Vec<_>>>()
    };
    assert_eq!(statuses("/", &of("alice")?).await?, [200, 200, 429, 429]);
    assert_eq!(statuses("/", &of("bob")?).await?, [200, 200, 429, 429]);
    // Who proves nothing is nobody's other self, and nobody in particular.
    let forged = (0..4).map(|jti| token("carol", jti, json!(["flip_signature"])).map(Some));
    let forged = forged.collect::<anyhow::Result<Vec<_>>>()?;
    assert_eq!(statuses("/open", &forged).await?, [200; 4]);
    assert_eq!(statuses("/", &forged).await?, [401; 4]);
    assert_eq!(statuses("/open", &[None, None, None]).await?, [200; 3]);
    assert_eq!(statuses("/", &of("carol")?).await?, [200, 200, 429, 429]);
    let counters = gateway.counters().await?;
    assert_eq!(counters["allowed.reason.no_limit"], 7, "{counters:?}");
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}
