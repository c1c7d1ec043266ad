//! Faults that were reported of other filters, and the outside vectors: here is asked about each, and everything of its
//! kind. The README lists the same ones.

use std::path::Path;

use anyhow::Context as _;
use real_envoy::client::{self, Http, Request};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::HEADER_REWRITE;
use crate::suite::Gateway;

/// The lines of a header that the upstream sees.
async fn lines(gateway: &Gateway, request: &Request, name: &str) -> anyhow::Result<Vec<String>> {
    let answer = client::send(gateway.addr()?, request).await?;
    anyhow::ensure!(answer.status == 200, "{}", answer.status);
    let seen = answer.json()?;
    let pairs = seen["headers"].as_array().context("headers")?;
    let of = pairs.iter().filter(|pair| pair[0] == name);
    Ok(of.map(|pair| pair[1].as_str().unwrap_or_default().to_owned()).collect())
}

async fn start(plugin: &Value) -> anyhow::Result<Gateway> {
    Gateway::start(&HEADER_REWRITE, |config| config.plugin_configuration(HEADER_REWRITE.plugin, plugin)).await
}

/// wasm-shim#231: a header that the gateway adds stood beside the client's own, which the upstream read.
#[tokio::test(flavor = "multi_thread")]
async fn wasm_shim_231_a_clients_own_does_not_survive() -> anyhow::Result<()> {
    let name = "x-user";
    // Whatever writes it, but for the one that says that it adds.
    for operation in [
        json!({ "set": { "name": name, "value": "alice" } }),
        json!({ "set": { "name": "X-USER", "value": "%REQ(x-real)%" } }),
        json!({ "overwrite_if_exists": { "name": name, "value": "alice" } }),
        json!({ "append": { "header": { "key": name, "value": "alice" }, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" } }),
        json!({ "rename": { "from": "x-real", "to": name } }),
        json!({ "copy": { "from": "x-real", "to": name } }),
        json!({ "mutations": [{ "remove": name }, { "append": { "name": name, "value": "alice" } }] }),
    ] {
        let gateway = start(&json!({ "request_mutations": [operation] })).await?;
        for http in [Http::H1, Http::H2] {
            for own in [&["mallory"][..], &["mallory", "alice"], &["", "eve"], &["alice,mallory"]] {
                let request = Request::get("/").over(http).header("x-real", "alice");
                let request = own.iter().fold(request, |request, value| request.header("X-User", value));
                assert_eq!(lines(&gateway, &request, name).await?, ["alice"], "{operation} {own:?} {http:?}");
            }
        }
        gateway.envoy.stop().await?;
    }
    Ok(())
}

/// envoy#5858: what one rule added was removed by another that stood before it.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_5858_operations_run_in_list_order() -> anyhow::Result<()> {
    let name = "x-custom";
    let (remove, set) = (json!({ "remove": name }), json!({ "set": { "name": name, "value": "plip" } }));
    let pattern = json!({ "remove": { "prefix": "x-cust" } });
    let append = json!({ "append": { "name": name, "value": "plip" } });
    let group = |operation: &Value| json!({ "match": { "prefix": "/" }, "mutations": [operation] });
    let rows = [
        (vec![remove.clone(), set.clone()], vec!["plip"]),
        (vec![pattern.clone(), append.clone()], vec!["plip"]),
        (vec![group(&remove), append.clone()], vec!["plip"]),
        (vec![remove.clone(), group(&append)], vec!["plip"]),
        (vec![set.clone(), remove.clone()], vec![]),
        (vec![group(&set), pattern], vec![]),
        (vec![append.clone(), remove, append], vec!["plip"]),
    ];
    for (operations, expected) in rows {
        let gateway = start(&json!({ "request_mutations": operations })).await?;
        for request in [Request::get("/"), Request::get("/").header(name, "own")] {
            assert_eq!(lines(&gateway, &request, name).await?, expected, "{operations:?}");
        }
        gateway.envoy.stop().await?;
    }
    Ok(())
}

/// istio#53212: whether the client's own stays where a token has no such claim. It does not.
#[tokio::test(flavor = "multi_thread")]
async fn istio_53212_a_clients_own_does_not_stand_in_for_a_claim() -> anyhow::Result<()> {
    for value in
        ["%CLAIM(email)%", "mailto:%CLAIM(email)%", "%CLAIM(email):20%", "%REQ(x-real)%%CLAIM(email)%"]
    {
        let plugin = json!({ "request_mutations": [{ "set": { "name": "x-email", "value": value } }] });
        let gateway = start(&plugin).await?;
        let request = Request::get("/").header("x-real", "1").header("x-email", "mallory@example");
        assert_eq!(lines(&gateway, &request, "x-email").await?, [""; 0], "{value}");
        gateway.envoy.stop().await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    initial: Map<String, Value>,
    operation: OneOrMore,
    expect: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(Operation),
    More(Vec<Operation>),
}

#[derive(Deserialize)]
struct Operation {
    op: String,
    name: String,
    value: String,
}

impl Operation {
    /// The same in a configuration.
    fn mutations(&self) -> anyhow::Result<Vec<Value>> {
        let words = self.op.split(", then ");
        let mut mutations = Vec::new();
        for word in words {
            let header = json!({ "key": self.name, "value": self.value });
            mutations.push(match word {
                "remove" => json!({ "remove": self.name }),
                "add" => json!({ "append": { "header": header } }),
                "replace" => json!({ "set": header }),
                action => json!({ "append": { "header": header, "append_action": action } }),
            });
        }
        Ok(mutations)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn header_mutation_vectors() -> anyhow::Result<()> {
    let path = xtask::workspace_root().join("../shared/vectors/header_mutation.json");
    let Some(text) = read(&path)? else { return Ok(()) };
    let vectors: Vec<Vector> = serde_json::from_str(&text)?;
    for vector in &vectors {
        let operations = match &vector.operation {
            OneOrMore::One(operation) => std::slice::from_ref(operation),
            OneOrMore::More(operations) => operations,
        };
        let mut mutations = Vec::new();
        for operation in operations {
            mutations.extend(operation.mutations()?);
        }
        let gateway = start(&json!({ "request_mutations": mutations })).await?;
        let request = vector.initial.iter().fold(Request::get("/"), |request, (name, value)| {
            request.header(name, value.as_str().unwrap_or_default())
        });
        for (name, expected) in &vector.expect {
            // Whether two lines or one with a comma makes no difference (RFC 9110 section 5.3).
            let found = lines(&gateway, &request, name).await?;
            let expected: Vec<&str> =
                expected.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert_eq!(found.join(", "), expected.join(", "), "{}", vector.id);
        }
        gateway.envoy.stop().await?;
    }
    println!("{} vectors of header operations", vectors.len());
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    if path.exists() {
        return std::fs::read_to_string(path).map(Some).with_context(|| path.display().to_string());
    }
    println!("skipped: there is no {}", path.display());
    Ok(None)
}

/// The reports that are asked about.
const REPORTS: [&str; 3] = ["wasm-shim#231", "envoy#5858", "istio#53212"];

#[test]
fn the_readme_lists_the_reports() -> anyhow::Result<()> {
    let readme = include_str!("../../../filters/header-rewrite/README.md");
    let section = readme.split("\n## Faults reported elsewhere\n").nth(1).context("no such section")?;
    let rows = section.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    assert_eq!(rows.map(|(report, _)| report).collect::<Vec<_>>(), REPORTS);
    Ok(())
}

/// A report of the outside list.
#[derive(Deserialize)]
struct Report {
    report: String,
    area: String,
}

#[test]
fn every_report_about_headers_is_asked_about() -> anyhow::Result<()> {
    let path = xtask::workspace_root().join("../shared/vectors/public_reports.json");
    let Some(text) = read(&path)? else { return Ok(()) };
    let reports: Vec<Report> = serde_json::from_str(&text)?;
    let ours: Vec<&Report> = reports.iter().filter(|report| report.area == "header").collect();
    assert!(!ours.is_empty(), "{} lists none about headers", path.display());
    for Report { report, .. } in ours {
        let short = report.rsplit('/').next().unwrap_or_default().to_lowercase();
        assert!(REPORTS.contains(&short.as_str()), "{report} is not asked about");
    }
    Ok(())
}
