//! What happens where the host refuses a call: `capability_restriction_config` makes it refuse all
//! that is not listed. A filter that guards must not be passed by then.

use real_envoy::Config;
use real_envoy::client::{self, Request};
use serde_json::json;

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Capabilities, Gateway, SOON};

/// What the module asks of the host.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    plugin: JWT_REJECT.plugin,
    own: &[
        "proxy_on_request_body",
        "proxy_on_request_trailers",
        "proxy_on_http_call_response",
        "proxy_remove_header_map_value",
        "proxy_call_foreign_function",
        "proxy_http_call",
        "proxy_continue_stream",
    ],
};

fn without(config: Config, refused: &str) -> anyhow::Result<Config> {
    let mut plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["p256"] },
        } },
        "rules": [
            { "match": { "path": "/open" }, "requires": "none" },
            { "match": { "prefix": "/" }, "requires": { "provider_name": "main" } },
        ],
    });
    (JWT_REJECT.complete)(&mut plugin)?;
    CAPABILITIES.all_but(config.plugin_configuration(JWT_REJECT.plugin, &plugin)?, refused)
}

/// The answers to a good token, a forged one, none, and on the open path; with the details of the
/// first.
async fn answers(refused: &str) -> anyhow::Result<([u16; 4], String, Gateway)> {
    let gateway = Gateway::start(&JWT_REJECT, |config| without(config, refused)).await?;
    let good = jwt::token::make(&json!({}))?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    let bearer = |token: &str| Request::get("/").header("authorization", format!("Bearer {token}"));
    let requests = [bearer(&good), bearer(&forged), Request::get("/"), Request::get("/open")];
    let mut statuses = [0; 4];
    for (place, request) in requests.into_iter().enumerate() {
        let request = request.header("x-case", (place + 1).to_string());
        statuses[place] = client::send(gateway.addr()?, &request).await?.status;
    }
    let details = gateway.details(1).await?;
    Ok((statuses, details, gateway))
}

#[tokio::test(flavor = "multi_thread")]
async fn with_every_capability_all_is_as_ever() -> anyhow::Result<()> {
    let (statuses, _, gateway) = answers("").await?;
    assert_eq!(statuses, [200, 401, 401, 200]);
    assert_eq!(gateway.counters().await?["signature_checks.by.host"], 2);
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_cannot_be_read_do_not_pass() -> anyhow::Result<()> {
    let (statuses, details, gateway) = answers("proxy_get_header_map_pairs").await?;
    assert_eq!(statuses, [503; 4]);
    assert_eq!(details, "jwt_reject{host_failure}");
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_cannot_be_taken_out_does_not_pass() -> anyhow::Result<()> {
    let (statuses, details, gateway) = answers("proxy_remove_header_map_value").await?;
    assert_eq!(statuses, [503, 401, 401, 200]);
    assert_eq!(details, "jwt_reject{host_failure}");
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_clock_every_token_with_times_has_expired() -> anyhow::Result<()> {
    let (statuses, details, gateway) = answers("proxy_get_current_time_nanoseconds").await?;
    assert_eq!(statuses, [401, 401, 401, 200]);
    assert_eq!(details, "jwt_reject{token_expired}");
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_hosts_cryptography_the_module_checks_by_itself() -> anyhow::Result<()> {
    let (statuses, _, gateway) = answers("proxy_call_foreign_function").await?;
    assert_eq!(statuses, [200, 401, 401, 200]);
    let counters = gateway.counters().await?;
    assert_eq!((counters["signature_checks.by.host"], counters["signature_checks.by.module"]), (0, 2));
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_cannot_be_sent_ends_the_request_all_the_same() -> anyhow::Result<()> {
    let (statuses, details, gateway) = answers("proxy_send_local_response").await?;
    // The good token passes; then the VM traps, and Envoy answers for it until there is a new one.
    // The open path may meet the other worker's VM, which has not trapped.
    assert_eq!(statuses[..3], [200, 503, 503], "{details}");
    assert!(matches!(statuses[3], 200 | 503), "{}", statuses[3]);
    gateway.envoy.wait_for_log("the host refused proxy_send_local_response", SOON).await?;
    gateway.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_metric_or_log_line_stops_no_request() -> anyhow::Result<()> {
    for refused in ["proxy_increment_metric", "proxy_define_metric", "proxy_log", "proxy_get_log_level"] {
        let (statuses, _, gateway) = answers(refused).await?;
        assert_eq!(statuses, [200, 401, 401, 200], "{refused}");
        gateway.envoy.stop().await?;
    }
    Ok(())
}
