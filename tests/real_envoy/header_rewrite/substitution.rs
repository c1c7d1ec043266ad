//! What templates become, beside Envoy's own: in one Envoy, header_mutation writes `x-native-N` and header_rewrite
//! `x-ours-N` of the same template, on requests and on responses. Both must be equal; where they rightly differ, a row
//! says how and why, and one that is said to differ and does not fails too.

mod differences;
mod templates;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use foregate_cli::echo::Echo;
use real_envoy::client::{self, Http, Request, Response};
use real_envoy::{Config, Envoy};
use serde_json::{Value, json};

use self::differences::{Difference, ONLY_OURS, REFUSED, differences};
use self::templates::{HOST, Section, metadata, sections};
use super::HEADER_REWRITE;
use crate::suite::{Gateway, hcm_mut};

/// Of each template there are two lines in each message, and no message may have more than 100.
const TEMPLATES_OF_AN_ENVOY: usize = 36;

/// Which message a value is written into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Request,
    Response,
}

const PHASES: [Phase; 2] = [Phase::Request, Phase::Response];

#[tokio::test(flavor = "multi_thread")]
async fn operators_give_what_they_give_in_envoy() -> anyhow::Result<()> {
    compare(false).await
}

/// Then also where something is missing, in whose place there is nothing.
#[tokio::test(flavor = "multi_thread")]
async fn with_keep_empty_value_too() -> anyhow::Result<()> {
    compare(true).await
}

async fn compare(keep_empty: bool) -> anyhow::Result<()> {
    let mut wrong = String::new();
    for section in sections() {
        let mixed = if keep_empty { section.mixed } else { &[] };
        let templates: Vec<&str> = section.templates.iter().chain(mixed).copied().collect();
        for templates in templates.chunks(TEMPLATES_OF_AN_ENVOY) {
            wrong += &compare_some(&section, templates, keep_empty).await?;
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// What is not equal, line by line.
async fn compare_some(section: &Section, templates: &[&str], keep_empty: bool) -> anyhow::Result<String> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let pairs: Vec<_> = templates.iter().map(|template| (*template, *template)).collect();
    let envoy = start(&echo, &pairs, section.phases, keep_empty).await?;
    let mut wrong = String::new();
    let mut written = BTreeSet::new();
    for (what, request) in &section.requests {
        for http in [Http::H1, Http::H2] {
            let response = client::send(envoy.listener()?, &request.clone().over(http)).await?;
            for (phase, number, template) in section
                .phases
                .iter()
                .flat_map(|phase| templates.iter().enumerate().map(move |(number, it)| (*phase, number, *it)))
            {
                let [native, ours] = seen(&response, phase, number);
                if native.is_some() {
                    written.insert(number);
                }
                if native != ours {
                    let _ = writeln!(wrong, "{template} of {what}, {http:?}, {phase:?}, {keep_empty}");
                    let _ = writeln!(wrong, "  native {native:?}\n  ours   {ours:?}");
                }
            }
        }
    }
    for (number, template) in templates.iter().enumerate() {
        if !written.contains(&number) && !section.never.contains(template) {
            let _ = writeln!(wrong, "{template} was never written, so that nothing was compared");
        }
    }
    envoy.stop().await?;
    Ok(wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn they_differ_where_it_is_said() -> anyhow::Result<()> {
    let mut wrong = String::new();
    for row in differences() {
        let Difference { native, ours, phase, request, keep_empty, expected, why } = row;
        ensure!(
            expected[0] != expected[1] && !why.is_empty(),
            "{native}: differences and reasons go together"
        );
        let echo = Echo::start("127.0.0.1:0".parse()?).await?;
        let envoy = start(&echo, &[(native, ours)], &[phase], keep_empty).await?;
        for http in [Http::H1, Http::H2] {
            let response = client::send(envoy.listener()?, &request.clone().over(http)).await?;
            let found = seen(&response, phase, 0);
            let expected = expected.map(|it| it.map(Value::from));
            if found != expected {
                let _ = writeln!(wrong, "{native} and {ours} ({why}), {http:?}, {phase:?}");
                let _ = writeln!(wrong, "  gives    {found:?}\n  expected {expected:?}");
            }
        }
        envoy.stop().await?;
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_of_ours_alone_give_what_others_of_envoy_do() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let envoy = start(&echo, &ONLY_OURS, &PHASES, false).await?;
    for http in [Http::H1, Http::H2] {
        let response = client::send(envoy.listener()?, &get("/").over(http)).await?;
        for phase in PHASES {
            for (number, (_, operator)) in ONLY_OURS.iter().enumerate() {
                let [native, ours] = seen(&response, phase, number);
                ensure!(native.is_some() && native == ours, "{operator}: {native:?} and {ours:?}");
            }
        }
    }
    envoy.stop().await
}

/// Text that would end the header's line: Envoy writes it into a response as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_end_in_metadata_splits_no_answer() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let template = "%DYNAMIC_METADATA(hostile:line)%";
    let pairs = [(template, template), ("plain", "%DYNAMIC_METADATA(hostile:delete)%")];
    let envoy = start(&echo, &pairs, &[Phase::Response], true).await?;
    let response = client::send(envoy.listener()?, &get("/")).await?;
    assert_eq!(seen(&response, Phase::Response, 0), [Some("a".into()), None]);
    assert_eq!(response.header("x-split"), ["yes"], "that is native's");
    assert_eq!(seen(&response, Phase::Response, 1), [Some("plain".into()), None]);
    // Once a message, however many operations.
    assert_eq!(envoy.stat(SKIPPED).await?, 1);
    envoy.stop().await?;

    let envoy = start(&echo, &[("plain", template)], &PHASES, true).await?;
    for http in [Http::H1, Http::H2] {
        let response = client::send(envoy.listener()?, &get("/").over(http)).await?;
        assert_eq!(response.status, 200);
        for phase in PHASES {
            assert_eq!(seen(&response, phase, 0), [Some("plain".into()), None]);
        }
        assert!(response.header("x-split").is_empty() && of_request(&response, "x-split").is_empty());
    }
    assert_eq!(envoy.stat(SKIPPED).await?, 4);
    envoy.stop().await
}

const SKIPPED: &str = "wasmcustom.foregate.header_rewrite.skipped.reason.invalid_value";

#[tokio::test(flavor = "multi_thread")]
async fn what_can_give_nothing_is_refused() -> anyhow::Result<()> {
    let echo = Echo::start("127.0.0.1:0".parse()?).await?;
    let taken = REFUSED.map(|(template, _)| (template, "plain"));
    start(&echo, &taken, &[Phase::Request], false).await?.stop().await?;
    let refused = REFUSED.map(|(template, _)| ("plain", template));
    let config = configuration(&echo, &refused, &[Phase::Request], false)?;
    let log = Envoy::expect_refusal(&config, &Gateway::options()).await?;
    let mut wrong = String::new();
    for (number, (template, words)) in REFUSED.iter().enumerate() {
        let place = format!("request_mutations[{number}].set.value: ");
        let line = log.lines().find_map(|line| Some(line.split_once(&place)?.1));
        if !line.is_some_and(|line| line.contains(words)) {
            let _ = writeln!(wrong, "{template}: {line:?}, not {words:?}");
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// An Envoy in which both write these templates, native's and ours, into these messages.
async fn start(
    echo: &Echo,
    pairs: &[(&str, &str)],
    phases: &[Phase],
    keep_empty: bool,
) -> anyhow::Result<Envoy> {
    Envoy::start(&configuration(echo, pairs, phases, keep_empty)?, &Gateway::options()).await
}

fn configuration(
    echo: &Echo,
    pairs: &[(&str, &str)],
    phases: &[Phase],
    keep_empty: bool,
) -> anyhow::Result<Config> {
    let native = |phase: Phase| {
        let written = |(number, (native, _)): (usize, &(&str, &str))| {
            json!({ "append": {
                "header": { "key": format!("x-native-{number}"), "value": native },
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                "keep_empty_value": keep_empty,
            } })
        };
        if phases.contains(&phase) { pairs.iter().enumerate().map(written).collect() } else { Vec::new() }
    };
    let ours = |phase: Phase| {
        let written = |(number, (_, ours)): (usize, &(&str, &str))| {
            let name = format!("x-ours-{number}");
            json!({ "set": { "name": name, "value": ours, "keep_empty_value": keep_empty } })
        };
        if phases.contains(&phase) { pairs.iter().enumerate().map(written).collect() } else { Vec::new() }
    };
    let filters = json!([
        {
            "name": "envoy.filters.http.set_metadata",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
                "metadata": metadata(),
            },
        },
        {
            "name": "envoy.filters.http.header_mutation",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
                "mutations": {
                    "request_mutations": native(Phase::Request),
                    "response_mutations": native(Phase::Response),
                },
            },
        },
    ]);
    let ours: Vec<Vec<Value>> = PHASES.into_iter().map(ours).collect();
    Config::load(HEADER_REWRITE.config)?
        .on_free_ports()?
        .upstream("upstream", echo.addr())?
        .modules(xtask::modules::ensure)?
        .plugin_configuration(
            HEADER_REWRITE.plugin,
            &json!({ "request_mutations": ours[0], "response_mutations": ours[1] }),
        )?
        .edit(|bootstrap| {
            let hcm = hcm_mut(bootstrap)?;
            // So that x-forwarded-for and x-envoy-original-path can be anything.
            hcm.insert("use_remote_address".to_owned(), false.into());
            hcm.insert("route_config".to_owned(), routes());
            let before = filters.as_array().cloned().unwrap_or_default();
            let all = hcm.get_mut("http_filters").and_then(Value::as_array_mut).context("no filters")?;
            all.splice(0..0, before);
            Ok(())
        })
}

fn routes() -> Value {
    let upstream = json!({ "cluster": "upstream" });
    json!({ "virtual_hosts": [{
        "name": "all",
        "domains": [HOST],
        "routes": [
            { "match": { "path": "/without-name" }, "route": upstream },
            {
                "name": "direct",
                "match": { "path": "/direct" },
                "direct_response": { "status": 418, "body": { "inline_string": "direct" } },
            },
            {
                "name": "by the route",
                "match": { "prefix": "/rewritten/" },
                "route": { "cluster": "upstream", "prefix_rewrite": "/" },
            },
            { "name": "all else", "match": { "prefix": "/" }, "route": upstream },
        ],
    }] })
}

/// What native and ours wrote.
fn seen(response: &Response, phase: Phase, number: usize) -> [Option<Value>; 2] {
    ["native", "ours"].map(|whose| {
        let name = format!("x-{whose}-{number}");
        let mut lines = match phase {
            Phase::Request => of_request(response, &name),
            Phase::Response => of_response(response, &name),
        };
        match lines.len() {
            0 | 1 => lines.pop(),
            _ => Some(Value::Array(lines)),
        }
    })
}

/// As the upstream tells.
fn of_request(response: &Response, name: &str) -> Vec<Value> {
    let arrived = response.json().unwrap_or_default();
    let lines = arrived["headers"].as_array().cloned().unwrap_or_default();
    lines.into_iter().filter(|line| line[0] == name).map(|mut line| line[1].take()).collect()
}

fn of_response(response: &Response, name: &str) -> Vec<Value> {
    let lines = response.headers.iter().filter(|(candidate, _)| candidate == name);
    lines
        .map(|(_, value)| match std::str::from_utf8(value) {
            Ok(text) => text.into(),
            Err(_) => json!({ "bytes": value }),
        })
        .collect()
}

/// A GET of the host that there are routes for.
fn get(path: &str) -> Request {
    Request::get(path).authority(HOST)
}
