//! The configuration that README.md tells users to paste works when pasted.

use foregate_cli::echo::Echo;
use real_envoy::client::{self, Request};
use real_envoy::{Config, Envoy, Options};

/// The ES256 token of RFC 7515 appendix A.3, which the key in the README signed. It has long expired,
/// and is for another issuer.
const A3: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

#[tokio::test(flavor = "multi_thread")]
async fn the_readmes_configuration_works_when_pasted() -> anyhow::Result<()> {
    let readme = std::fs::read_to_string(xtask::workspace_root().join("README.md"))?;
    let block = readme.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(block.contains("filename: dist/jwt_reject.wasm"), "the module as `cargo xtask build` writes it");
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let config = Config::parse(block)?
        .edit(|bootstrap| {
            // The harness asks the admin interface where Envoy listens; the README needs none.
            bootstrap["admin"] = serde_json::json!({
                "address": { "socket_address": { "address": "127.0.0.1", "port_value": 9901 } }
            });
            Ok(())
        })?
        .on_free_ports()?
        .upstream("upstream", echo.addr())?
        .modules(xtask::modules::ensure)?;
    let envoy = Envoy::start(&config, &Options::default()).await?;
    let addr = envoy.listener()?;
    assert_eq!(client::send(addr, &Request::get("/health")).await?.status, 200);
    let missing = client::send(addr, &Request::get("/")).await?;
    assert_eq!((missing.status, missing.text().as_str()), (401, "Jwt is missing"));
    let expired = Request::get("/").header("authorization", format!("Bearer {A3}"));
    assert_eq!(client::send(addr, &expired).await?.text(), "Jwt is expired");
    envoy.stop().await
}
