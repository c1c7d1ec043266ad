//! What jwt_reject finds out is known to those behind it, with no property configured: to limits, templates and lines.

use real_envoy::client::{self, Http, Request};
use serde_json::{Value, json};

use super::{arrived, guard, start_with, told, told_by_envoy};
use crate::jwt;
use crate::sampled_log::line_of;

#[tokio::test(flavor = "multi_thread")]
async fn claims_come_to_limits_templates_and_lines() -> anyhow::Result<()> {
    let list = json!([
        { "header_rewrite": { "request_mutations": [{ "set": { "name": "x-too-early", "value": "<%CLAIM(sub)%>" } }] } },
        { "jwt_reject": guard() },
        { "local_rate_limit": { "descriptors": [{ "name": "user", "entries": [{ "jwt_claim": "sub" }], "rate": "4/h" }] } },
        { "header_rewrite": {
            "request_mutations": [
                { "set": { "name": "x-user", "value": "%CLAIM(sub)%" } },
                { "set": { "name": "x-roles", "value": "<%CLAIM(realm.roles)%>" } },
            ],
            "response_mutations": [{ "set": { "name": "x-served", "value": "%CLAIM(sub)% %RESPONSE_CODE%" } }],
        } },
        { "sampled_log": {
            "percent_sampled": 100,
            "additional_fields": { "case": "%REQ(x-case)%", "roles": "%CLAIM(realm.roles)%" },
        } },
    ]);
    let fields = json!({ "property": "%FILTER_STATE(wasm.foregate.jwt.sub:PLAIN)%" });
    let gateway = start_with(&list, |config| told_by_envoy(config, &fields)).await?;
    let token = |sub: &str, tamper: Value| {
        jwt::token::make(
            &json!({ "claims": { "sub": sub, "realm": { "roles": ["a", "b"] } }, "tamper": tamper }),
        )
    };
    let (alice, forged) = (token("alice", json!([]))?, token("mallory", json!(["flip_signature"]))?);
    let mut number = 0;
    for http in [Http::H1, Http::H2] {
        // Once before the token is remembered, and once after.
        for (path, token, subject) in [
            ("/", Some(&alice), Some("alice")),
            ("/open", Some(&alice), Some("alice")),
            ("/open", Some(&forged), None),
            ("/open", None, None),
        ] {
            number += 1;
            let mut request = Request::get(path).over(http).header("x-case", number.to_string());
            // A client's own.
            request = ["x-user", "x-roles", "foregate.jwt.sub"]
                .iter()
                .fold(request, |request, name| request.header(name, "mallory"));
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let answer = client::send(gateway.addr()?, &request).await?;
            assert_eq!(answer.status, 200, "{number}: {}", answer.text());
            let seen = answer.json()?;
            let (user, roles) = (arrived(&seen, "x-user"), arrived(&seen, "x-roles"));
            match subject {
                Some(subject) => assert_eq!(
                    (user, roles),
                    (vec![subject.to_owned()], vec!["<a,b>".to_owned()]),
                    "{number}"
                ),
                None => assert_eq!((user, roles), (vec![], vec![]), "{number}"),
            }
            assert_eq!(arrived(&seen, "x-too-early"), [""; 0], "{number}: nobody knows yet");
            assert_eq!(
                answer.header("x-served"),
                subject.map(|subject| format!("{subject} 200")).as_slice(),
                "{number}"
            );
            let line = line_of(&gateway.envoy, "case", &json!(number.to_string())).await?;
            assert_eq!(
                (&line["subject"], &line["roles"]),
                (&json!(subject), &json!(subject.map(|_| "a,b"))),
                "{line}"
            );
            // What one filter tells another is nobody else's.
            assert_eq!(told(&gateway, number).await?["property"], Value::Null, "{number}");
        }
    }
    let answer =
        client::send(gateway.addr()?, &Request::get("/").header("authorization", format!("Bearer {alice}")))
            .await?;
    assert_eq!(answer.status, 429, "the fifth of this user");
    let counters = gateway.counters().await?;
    assert_eq!(counters["local_rate_limit.allowed.reason.within_limits"], 4, "{counters:?}");
    assert_eq!(counters["local_rate_limit.allowed.reason.no_limit"], 4, "{counters:?}");
    gateway.check_health([alice.as_str(), forged.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
