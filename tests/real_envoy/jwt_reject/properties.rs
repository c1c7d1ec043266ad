//! Claims as properties of the request: what Envoy's own access logs, routes and filters make of them.

use anyhow::Context as _;
use real_envoy::Config;
use real_envoy::client::{self, Request};
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Gateway, SOON, hcm_mut};

/// Claims as properties; an access log line, a header for the upstream and a role by each of them.
fn configured(config: Config, mode: &str) -> anyhow::Result<Config> {
    let mut plugin = json!({
        "mode": mode,
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] },
            "claim_to_properties": [
                "sub",
                { "claim_name": "realm.roles", "property_name": "roles" },
                { "claim_name": "realm", "property_name": "realm" },
                { "claim_name": "line" },
                "absent",
            ],
        } },
        "rules": [
            { "match": { "prefix": "/open" }, "requires": "none" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    });
    (JWT_REJECT.complete)(&mut plugin)?;
    let config = config.plugin_configuration(JWT_REJECT.plugin, &plugin)?;
    config.edit(|value| {
        let hcm = hcm_mut(value)?;
        let of = |name: &str| format!("%FILTER_STATE(wasm.foregate.jwt.{name}:PLAIN)%");
        let log = json!({
            "name": "envoy.access_loggers.stdout",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                "log_format": { "json_format": {
                    "line": "%REQ(x-line)%",
                    "sub": of("sub"), "roles": of("roles"), "realm": of("realm"),
                    "control": of("line"), "absent": of("absent"),
                } },
            },
        });
        hcm.get_mut("access_log").and_then(Value::as_array_mut).context("access_log")?.push(log);
        // An upstream that trusts no header can be told by the route as well.
        let host = hcm.get_mut("route_config").and_then(|routes| routes.pointer_mut("/virtual_hosts/0"));
        host.context("virtual_hosts")?["request_headers_to_add"] =
            json!([{ "header": { "key": "x-by-route", "value": of("sub") } }]);
        // And Envoy's own RBAC decides by a claim: /admin is alice's.
        let filters = hcm.get_mut("http_filters").and_then(Value::as_array_mut).context("http_filters")?;
        let principal = json!({ "filter_state": { "key": "wasm.foregate.jwt.sub", "string_match": { "exact": "alice" } } });
        let policy = |permission: Value, principal: Value| json!({ "permissions": [permission], "principals": [principal] });
        let admin = json!({ "url_path": { "path": { "prefix": "/admin" } } });
        filters.insert(1, json!({
            "name": "envoy.filters.http.rbac",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
                "rules": { "policies": {
                    "admin": policy(admin.clone(), principal),
                    "rest": policy(json!({ "not_rule": admin }), json!({ "any": true })),
                } },
            },
        }));
        Ok(())
    })
}

async fn logged(gateway: &Gateway, number: &str) -> anyhow::Result<Value> {
    let line = gateway.envoy.wait_for_stdout(&format!("\"line\":\"{number}\""), SOON).await?;
    serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_are_seen_by_logs_routes_and_filters() -> anyhow::Result<()> {
    let gateway = Gateway::start(&JWT_REJECT, |config| configured(config, "enforce")).await?;
    let addr = gateway.addr()?;
    let claims = json!({ "realm": { "roles": ["dev", "ops"] }, "line": "a\r\nb: c" });
    let alice = jwt::token::make(&json!({ "claims": claims }))?;
    let bob = jwt::token::make(&json!({ "claims": { "sub": "bob" } }))?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    let with = |path: &str, token: &str, number: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        request.header("x-line", number).header("x-by-route", "mallory")
    };

    // Twice, so that it is once of a token remembered.
    for number in ["1", "2"] {
        let response = client::send(addr, &with("/admin", &alice, number)).await?;
        assert_eq!(response.status, 200);
        assert!(response.text().contains("[\"x-by-route\",\"alice\"]"), "{}", response.text());
        let line = logged(&gateway, number).await?;
        assert_eq!((&line["sub"], &line["roles"]), (&json!("alice"), &json!("dev,ops")));
        assert_eq!(line["realm"], json!("{\"roles\":[\"dev\",\"ops\"]}"));
        assert_eq!((&line["control"], &line["absent"]), (&Value::Null, &Value::Null), "nothing ends a line");
    }
    for (path, token, status, number) in [
        ("/admin", &bob, 403, "3"),
        ("/else", &bob, 200, "4"),
        ("/admin", &forged, 401, "5"),
        ("/open", &alice, 200, "6"),
    ] {
        assert_eq!(client::send(addr, &with(path, token, number)).await?.status, status, "{path}");
        let expected = if token == &bob { json!("bob") } else { Value::Null };
        assert_eq!(logged(&gateway, number).await?["sub"], expected, "{path}: only what was verified");
    }
    assert!(gateway.counters().await?["claims_not_forwarded"] >= 1);
    gateway.check_health([alice.as_str()].into_iter()).await?;
    gateway.envoy.stop().await?;

    let shadow = Gateway::start(&JWT_REJECT, |config| configured(config, "shadow")).await?;
    assert_eq!(client::send(shadow.addr()?, &with("/else", &alice, "1")).await?.status, 200);
    assert_eq!(logged(&shadow, "1").await?["sub"], Value::Null, "shadow mode changes nothing");
    shadow.envoy.stop().await
}
