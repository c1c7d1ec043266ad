//! local_rate_limit beside Envoy's own local_ratelimit and Lua: one table of requests, sent to all three, each in an
//! Envoy of its own. Where they differ, the row says why, and the filter's README tells of it; one that is said to
//! differ and does not fails too.

mod implementation;
mod rows;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use foregate_cli::echo::Echo;
use real_envoy::client::{self, Request, Response};
use real_envoy::{Envoy, Options, Update};
use serde_json::json;

use self::implementation::{ALL, FREE, Implementation, Policy, configuration};
use self::rows::{A, B, Row, Seen, Step};
use crate::suite::{Gateway, SOON, crowd, hcm_mut};

#[tokio::test(flavor = "multi_thread")]
async fn all_three_agree() -> anyhow::Result<()> {
    check(rows::agreement()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_differs_where_the_readme_says() -> anyhow::Result<()> {
    check(rows::differences_in_what_passes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_differs_where_the_readme_says() -> anyhow::Result<()> {
    check(rows::differences_in_what_is_told()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_count_for_lua_alone() -> anyhow::Result<()> {
    check(rows::workers()).await
}

/// Asks all three, and tells of every row that is not as it says.
async fn check(rows: Vec<Row>) -> anyhow::Result<()> {
    let mut wrong = String::new();
    for row in &rows {
        let expected = [row.native, row.lua, row.ours];
        let differ = expected.iter().any(|it| *it != row.ours);
        ensure!(differ != row.why.is_empty(), "{}: differences and reasons go together", row.what);
        let [native, lua, ours] = ALL.map(|implementation| ask(implementation, row));
        let (native, lua, ours) = tokio::join!(native, lua, ours);
        for ((found, expected), implementation) in [native, lua, ours].into_iter().zip(expected).zip(ALL) {
            let found = found.with_context(|| format!("{}: {implementation:?}", row.what))?;
            if found != expected {
                let _ = writeln!(wrong, "{} ({}): {implementation:?}", row.what, row.why);
                let _ = writeln!(wrong, "  answers  {found}\n  expected {expected}");
            }
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// Takes the steps of a row, and tells what is seen.
async fn ask(implementation: Implementation, row: &Row) -> anyhow::Result<String> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let config = configuration(implementation, row.policy, echo.addr())?;
    let options = Options { concurrency: row.workers, ..Gateway::options() };
    let envoy = Envoy::start(&config, &options).await?;
    let addr = envoy.listener()?;
    let mut seen = Vec::new();
    for (number, step) in row.steps.iter().enumerate() {
        match step {
            Step::Send(request) => {
                let request = request.clone().header("x-case", number.to_string());
                let response = client::send(addr, &request).await?;
                seen.push(look(row.seen, number, &response, &envoy).await?);
            }
            Step::Wait(time) => tokio::time::sleep(*time).await,
            Step::Others(count) => {
                for other in 0..*count {
                    let request = Request::get("/").header("x-forwarded-for", format!("203.0.113.{other}"));
                    let status = client::send(addr, &request).await?.status;
                    ensure!(status == 200, "another client got {status}");
                }
            }
            Step::Crowd(size) => seen.push(ask_crowd(addr, *size).await?),
        }
    }
    if implementation == Implementation::Lua {
        ensure!(envoy.stat("http.ingress.lua.errors").await? == 0, "the script failed: {}", envoy.log());
    }
    envoy.stop().await?;
    Ok(seen.join(" "))
}

async fn look(seen: Seen, number: usize, response: &Response, envoy: &Envoy) -> anyhow::Result<String> {
    Ok(match seen {
        Seen::Status => response.status.to_string(),
        Seen::Refusal if response.status == 200 => "200".to_owned(),
        Seen::Refusal => {
            format!("{}/{}/{}", response.status, response.header("content-type").concat(), response.text())
        }
        Seen::Headers(names) => {
            let shown = |name: &&str| match response.header(name).concat() {
                value if value.is_empty() => "-".to_owned(),
                value => value,
            };
            names.iter().map(shown).collect::<Vec<_>>().join("/")
        }
        Seen::Log => {
            let start = format!("case {number}: ");
            let line = envoy.wait_for_stdout(&start, SOON).await?;
            line.strip_prefix(&start).unwrap_or(&line).replace(' ', "/")
        }
    })
}

async fn ask_crowd(addr: SocketAddr, size: usize) -> anyhow::Result<String> {
    let one = |_, number| (number < 1).then(|| Request::get("/orders").header("x-forwarded-for", A));
    let statuses = crowd(addr, size, one).await?;
    let shown = statuses.iter().map(|(status, count)| format!("{count} x {status}"));
    Ok(shown.collect::<Vec<_>>().join(", "))
}

/// An update that changes something else than the limits.
#[tokio::test(flavor = "multi_thread")]
async fn only_ours_remembers_over_an_update() -> anyhow::Result<()> {
    for (implementation, expected) in ALL.into_iter().zip([[200, 429, 200], [200, 429, 200], [200, 429, 429]])
    {
        let echo = Echo::start("127.0.0.1:0".parse()?).await?;
        let policy = Policy { client: (1, 1, 86_400.0), ..FREE };
        let first = configuration(implementation, policy, echo.addr())?.with_file_lds()?;
        let options = Options { concurrency: 1, ..Gateway::options() };
        let mut envoy = Envoy::start(&first, &options).await?;
        let ask = async |envoy: &Envoy, client: &str| {
            let request = Request::get("/").header("x-forwarded-for", client);
            client::send(envoy.listener()?, &request).await
        };
        let before = [ask(&envoy, A).await?.status, ask(&envoy, A).await?.status];
        let second = first.clone().edit(|bootstrap| {
            let routes = hcm_mut(bootstrap)?.get_mut("route_config").and_then(|it| it.as_object_mut());
            let added = json!([{ "header": { "key": "x-updated", "value": "yes" } }]);
            routes.context("no routes")?.insert("response_headers_to_add".to_owned(), added);
            Ok(())
        })?;
        assert_eq!(envoy.update_listeners(&second).await?, Update::Accepted);
        let begun = Instant::now();
        while ask(&envoy, B).await?.header("x-updated") != ["yes"] {
            ensure!(begun.elapsed() < SOON, "the update never takes effect");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let after = ask(&envoy, A).await?.status;
        assert_eq!([before[0], before[1], after], expected, "{implementation:?}");
        envoy.stop().await?;
    }
    Ok(())
}

/// Both refuse what is refilled more often than 20 times a second.
#[tokio::test(flavor = "multi_thread")]
async fn intervals_below_50_milliseconds_are_refused() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let too_often = (10, 1, 0.049);
    for policy in [Policy { together: too_often, ..FREE }, Policy { client: too_often, ..FREE }] {
        for (implementation, words) in [
            (Implementation::Native, "fill timer must be >= 50ms"),
            (Implementation::Ours, "must be at least 50ms"),
        ] {
            let config = configuration(implementation, policy, echo.addr())?;
            let log = Envoy::expect_refusal(&config, &Gateway::options()).await?;
            assert!(log.contains(words), "{implementation:?}: {log}");
        }
    }
    Ok(())
}
