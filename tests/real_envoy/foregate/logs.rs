//! sampled_log in a list: where lines go, and requests that no filter before it was asked about.

use anyhow::Context as _;
use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::{guard, start_with, told, told_by_envoy};
use crate::sampled_log::lines;
use crate::suite::hcm_mut;

/// Lines for Envoy's own access logs, each entry's under a name of its own; and of requests that never came to the chain
/// too, since Envoy tells of every one that ends.
#[tokio::test(flavor = "multi_thread")]
async fn envoys_access_logs_get_the_lines_of_each() -> anyhow::Result<()> {
    let sink = |of: &str| json!({ "sink": "access_log", "percent_sampled": 100, "fields": { "of": of, "subject": "%CLAIM(sub)%" } });
    let list = json!([
        { "sampled_log": sink("first") },
        { "name": "named", "sampled_log": sink("named") },
        { "jwt_reject": guard() },
        { "sampled_log": sink("third") },
    ]);
    let line = |instance: &str| format!("%FILTER_STATE(wasm.foregate.sampled_log.line{instance}:PLAIN)%");
    let fields = json!({ "first": line(""), "named": line(".named"), "third": line(".2") });
    let gateway = start_with(&list, |config| {
        told_by_envoy(config, &fields)?.edit(|bootstrap| {
            let hosts =
                hcm_mut(bootstrap)?.get_mut("route_config").and_then(|it| it.get_mut("virtual_hosts"));
            let hosts = hosts.and_then(Value::as_array_mut).context("virtual_hosts")?;
            hosts[0]["domains"] = json!(["gateway.example"]);
            Ok(())
        })
    })
    .await?;
    let good = format!("Bearer {}", crate::jwt::token::make(&json!({}))?);
    let rows = [
        (Request::get("/").authority("gateway.example").header("authorization", &good), 200, json!("alice")),
        (Request::get("/").authority("gateway.example"), 401, Value::Null),
        // Nobody's host, and a path that Envoy refuses before any filter has its turn.
        (Request::get("/").authority("else.example").header("authorization", &good), 404, json!("alice")),
        (
            Request::get("/a%2fb").authority("gateway.example").header("authorization", &good),
            400,
            Value::Null,
        ),
    ];
    for (place, (request, status, subject)) in rows.iter().enumerate() {
        let number = place as u64 + 1;
        let answer =
            client::send(gateway.addr()?, &request.clone().header("x-case", number.to_string())).await?;
        assert_eq!(answer.status, *status, "{number}");
        let told = told(&gateway, number).await?;
        for of in ["first", "named", "third"] {
            let text = told[of].as_str().with_context(|| format!("{number}: no line of {of}: {told}"))?;
            let line: Value = serde_json::from_str(text)?;
            assert_eq!((&line["of"], &line["subject"]), (&json!(of), subject), "{number}: {line}");
            let refused = if *status == 401 { json!("jwt_reject") } else { Value::Null };
            assert_eq!(line["refused_by"], refused, "{number}: {line}");
        }
    }
    assert!(lines(&gateway.envoy)?.is_empty());
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}
