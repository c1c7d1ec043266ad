//! header_rewrite beside Envoy's own header_mutation and Lua: one table of requests, sent to all three, each in an
//! Envoy of its own. Where they differ, the row says why, and the filter's README tells of it; one that is said to
//! differ and does not fails too.

mod capitals;
mod implementation;
mod rows;

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use foregate_cli::echo::Echo;
use real_envoy::Envoy;
use real_envoy::client::{self, Http, Response};
use serde_json::Value;

use self::implementation::{ALL, Implementation, configuration};
use self::rows::Row;
use crate::suite::Gateway;

#[tokio::test(flavor = "multi_thread")]
async fn all_three_agree() -> anyhow::Result<()> {
    check(rows::agreement()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_upstream_sees_differs_where_the_readme_says() -> anyhow::Result<()> {
    check(rows::differences_upstream()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_client_sees_differs_where_the_readme_says() -> anyhow::Result<()> {
    check(rows::differences_at_the_client()).await
}

/// Asks all three, and tells of every row that is not as it says.
async fn check(rows: Vec<Row>) -> anyhow::Result<()> {
    let mut wrong = String::new();
    for implementation in ALL {
        let echo = Echo::start("127.0.0.1:0".parse()?).await?;
        let config = configuration(implementation, echo.addr())?;
        let envoy = Envoy::start(&config, &Gateway::options()).await?;
        for row in &rows {
            let differ = row.expected.iter().any(|it| *it != row.expected[0]);
            ensure!(differ != row.why.is_empty(), "{}: differences and reasons go together", row.what);
            let expected = row.expected[implementation as usize];
            for http in row.over {
                let found = ask(&envoy, row, *http).await;
                let found = found.with_context(|| format!("{}: {implementation:?}", row.what))?;
                if found != expected {
                    let _ = writeln!(wrong, "{} ({}): {implementation:?} over {http:?}", row.what, row.why);
                    let _ = writeln!(wrong, "  sees     {found}\n  expected {expected}");
                }
            }
        }
        if implementation == Implementation::Lua {
            ensure!(envoy.stat("http.ingress.lua.errors").await? == 0, "the script failed: {}", envoy.log());
        }
        envoy.stop().await?;
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// Sends a row's request, and tells what upstream and client see of what the row looks at.
async fn ask(envoy: &Envoy, row: &Row, http: Http) -> anyhow::Result<String> {
    let response = client::send(envoy.listener()?, &row.request.clone().over(http)).await?;
    let mut seen = upstream(&response, row.upstream).unwrap_or_else(|| "-".to_owned());
    let _ = write!(seen, " => {}", response.status);
    for name in row.client {
        for line in response.header(name) {
            let _ = write!(seen, " | {name}: {line}");
        }
    }
    Ok(seen)
}

/// The request that arrived, by the upstream's own words; none if none did, or none that it could read.
fn upstream(response: &Response, names: &[&str]) -> Option<String> {
    let arrived = response.json().ok()?;
    let mut seen = format!("{} {}", arrived["method"].as_str()?, arrived["path"].as_str()?);
    for name in names {
        for line in arrived["headers"].as_array()?.iter().filter(|line| line[0] == *name) {
            let _ = match &line[1] {
                Value::String(value) => write!(seen, " | {name}: {value}"),
                not_text => write!(seen, " | {name}: {not_text}"),
            };
        }
    }
    Some(seen)
}
