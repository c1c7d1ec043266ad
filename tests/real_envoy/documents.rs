//! The configuration that README.md tells users to paste works when pasted.

use foregate_cli::echo::Echo;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};
use serde_json::Value;

use crate::suite::{crowd, hcm_mut};

/// The ES256 token of RFC 7515 appendix A.3, which the key in the README signed. It has long expired,
/// and is for another issuer.
const A3: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

#[tokio::test(flavor = "multi_thread")]
async fn the_readmes_configuration_works_when_pasted() -> anyhow::Result<()> {
    let readme = std::fs::read_to_string(xtask::workspace_root().join("README.md"))?;
    let mut blocks = readme.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.next().unwrap();
    let mut further = Vec::<Value>::new();
    for block in blocks.take(2) {
        further.extend(serde_saphyr::from_str::<Vec<Value>>(block)?);
    }
    assert_eq!(
        further.iter().map(|filter| &filter["name"]).collect::<Vec<_>>(),
        ["local_rate_limit", "header_rewrite"]
    );
    assert!(block.contains("filename: dist/jwt_reject.wasm"), "the module as `cargo xtask build` writes it");
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let config = Config::parse(block)?
        .edit(|bootstrap| {
            // The harness asks the admin interface where Envoy listens; the README needs none.
            bootstrap["admin"] = serde_json::json!({
                "address": { "socket_address": { "address": "127.0.0.1", "port_value": 9901 } }
            });
            let filters = hcm_mut(bootstrap)?.get_mut("http_filters").and_then(Value::as_array_mut).unwrap();
            // Behind the first, in their order.
            filters.splice(1..1, further.iter().cloned());
            Ok(())
        })?
        .on_free_ports()?
        .upstream("upstream", echo.addr())?
        .modules(xtask::modules::ensure)?;
    let envoy = Envoy::start(&config, &Options::default()).await?;
    let addr = envoy.listener()?;
    assert_eq!(client::send(addr, &Request::get("/health")).await?.status, 200);
    let rewritten = Request::get("/health").header("x-internal-a", "1").header("x-user", "mallory");
    let rewritten = client::send(addr, &rewritten).await?;
    assert_eq!(rewritten.header("x-frame-options"), ["deny"]);
    assert!(!rewritten.text().contains("x-internal") && !rewritten.text().contains("mallory"));
    let missing = client::send(addr, &Request::get("/")).await?;
    assert_eq!(missing.header("x-frame-options"), [""; 0], "a refusal of a filter ahead");
    assert_eq!((missing.status, missing.text().as_str()), (401, "Jwt is missing"));
    let expired = Request::get("/").header("authorization", format!("Bearer {A3}"));
    assert_eq!(client::send(addr, &expired).await?.text(), "Jwt is expired");
    // What jwt_reject refuses costs no token; of what it lets through, 100 in 10 s are allowed.
    let burst = crowd(addr, 4, |_, number| (number < 50).then(|| Request::get("/health"))).await?;
    assert!((94..=110).contains(&burst[&200]) && burst[&200] + burst[&429] == 200, "{burst:?}");
    let refused = client::send(addr, &Request::get("/health")).await?;
    assert_eq!((refused.status, refused.header("retry-after")), (429, vec!["1".to_owned()]));
    envoy.stop().await
}
