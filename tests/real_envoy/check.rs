//! `foregate check` says what Envoy says, of the same file: whether it can be used, and each problem that the filter
//! finds in it, word by word. Envoy judges with `--mode validate`, which runs the modules.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use foregate_cli::check::document::Format;
use foregate_cli::check::envoy_configuration;
use foregate_cli::check::report::{Severity, Verdict};
use serde_json::{Value, json};

/// What Envoy or the command says of a configuration.
#[derive(Debug, PartialEq)]
struct Judgement {
    taken: bool,
    /// The problems that the filter names, in order of their text.
    problems: Vec<String>,
}

/// A configuration of Envoy with this as the members of the plugin's `config`, beside its name and its module. Each line
/// must be indented by 16 at least.
fn around(module: &str, members: &str) -> anyhow::Result<String> {
    let file = xtask::modules::ensure(module)?;
    let file = file.display();
    Ok(format!(
        r#"
static_resources:
  listeners:
  - name: ingress
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          route_config: {{}}
          http_filters:
          - name: {module}
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: {module}
                vm_config: {{ runtime: envoy.wasm.runtime.v8, code: {{ local: {{ filename: {file} }} }} }}
{members}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"#
    ))
}

/// A Struct as the plugin's configuration, written in YAML's flow form or in lines that are indented by 20.
fn of_struct(value: &str) -> String {
    format!(
        "                failure_policy: FAIL_RELOAD\n                configuration:\n                  \"@type\": \
         type.googleapis.com/google.protobuf.Struct\n                  value: {value}"
    )
}

async fn envoy_says(text: &str, ending: &str) -> anyhow::Result<Judgement> {
    const LIMIT: Duration = Duration::from_secs(30);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(format!("envoy.{ending}"));
    std::fs::write(&file, text)?;
    let log = folder.path().join("log");
    let mut child = Command::new(xtask::envoy::locate()?)
        .args(["--mode", "validate", "--config-path"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .spawn()?;
    let ended = tokio::time::timeout(LIMIT, async {
        loop {
            if let Some(status) = child.try_wait()? {
                return std::io::Result::Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let Ok(status) = ended.await else {
        child.kill()?;
        child.wait()?;
        anyhow::bail!("Envoy took longer than {LIMIT:?}");
    };
    let log = std::fs::read_to_string(&log)?;
    let status = status?;
    ensure!(status.code().is_some(), "Envoy crashed:\n{log}");
    let said = |line: &str| Some(line.split_once(": configuration refused: ")?.1.to_owned());
    let mut problems: Vec<String> = log.lines().filter_map(said).collect();
    problems.sort();
    Ok(Judgement { taken: status.success(), problems })
}

fn check_says(text: &str, format: Format) -> anyhow::Result<Judgement> {
    let (plugins, _) = envoy_configuration(text, format, Path::new("/"))?;
    let plugin = plugins.first().context("no plugin")?;
    let found = plugin.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let own = found.filter(|problem| !problem.path.starts_with("config."));
    let text = |path: &str, message: &str| {
        if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") }
    };
    let mut problems: Vec<String> = own.map(|problem| text(&problem.path, &problem.message)).collect();
    problems.sort();
    Ok(Judgement { taken: plugin.verdict == Verdict::Good, problems })
}

const GOOD: &str = "{ rate: 10/s, status: 429 }";

#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_envoy_agree() -> anyhow::Result<()> {
    let limit = "local_rate_limit";
    let lines = "\n                    rate: 10/s\n                    status: 200";
    // Scalars as YAML in Envoy has them: see crates/cli/src/check/document.rs. No number is one that the field takes.
    let scalars = [
        "yes",
        "On",
        "N",
        "FALSE",
        "yEs",
        "\"yes\"",
        "! 5",
        "!!str 5",
        "5",
        "-5",
        "+5",
        "010",
        "08",
        "0x1F",
        "-0x1F",
        "0x",
        "0o17",
        "1_000",
        "2147483647",
        "2147483648",
        "0x80000000",
        "99999999999999999999",
        "1.50",
        "1e1",
        ".inf",
        "~",
        "null",
        "Null",
        "",
        "nULL",
        "'null'",
        "|\n  5\n",
        "2024-01-01",
        "1:30",
        "+",
        "--5",
        "\"\\u00e9\"",
        "[1]",
        "{}",
    ];
    let provider = |(number, scalar): (usize, &&str)| {
        let scalar = scalar.replace('\n', &format!("\n{}", " ".repeat(28)));
        format!(
            "\n                      p{number}:\n                        remote_jwks:\n                          \
             max_body_bytes: {scalar}"
        )
    };
    let providers: String = scalars.iter().enumerate().map(provider).collect();
    let providers = format!("\n                    rules: []\n                    providers:{providers}");
    let text = |kind: &str, value: &str| {
        format!(
            "                failure_policy: FAIL_RELOAD\n                configuration: {{ \"@type\": \
             type.googleapis.com/google.protobuf.{kind}{value} }}"
        )
    };
    let policy = |members: &str| format!("{}\n                {members}", of_struct(GOOD));
    let rows = [
        (limit, of_struct(GOOD)),
        (limit, of_struct("{ rate: 10, status: 200, frobnicate: [yes, 1.5] }")),
        (limit, of_struct(lines)),
        (limit, of_struct("{}")),
        (limit, of_struct("")),
        (limit, of_struct("{ rate: 10/s, <<: { status: 429 } }")),
        (limit, of_struct("{ rate: &r 10/s, body: *r, !ignore status: 200 }")),
        (limit, of_struct("[]")),
        (limit, of_struct("text")),
        (limit, of_struct("{ rate: 10/s, body: null, x: { y: 1 }, \"a b\": { } }")),
        (limit, of_struct("{ descriptors: [{ entries: [client_address], rate: 1/s, status: 3 }, 7, ~] }")),
        ("jwt_reject", of_struct(&providers)),
        (limit, "                failure_policy: FAIL_RELOAD".to_owned()),
        (limit, text("StringValue", ", value: '{\"rate\": \"10/s\", \"status\": 200, \"status\": 3}'")),
        (limit, text("StringValue", ", value: '{\"rate\": \"10/s\", \"status\": 399.5}'")),
        (limit, text("StringValue", ", value: '{\"rate\": \"10/s\"}'")),
        (limit, text("StringValue", ", value: 5")),
        (limit, text("StringValue", ", value: {rate: 10/s}")),
        (limit, text("StringValue", "")),
        (limit, text("BytesValue", ", value: eyJyYXRlIjoiMTAvcyJ9")),
        (limit, text("BytesValue", ", value: eyJyYXRlIjoiMTAifQ==")),
        (limit, text("BytesValue", ", value: '?'")),
        (limit, "                configuration: { rate: 10/s }".to_owned()),
        (
            "header_rewrite",
            of_struct(
                "{ request_mutations: [{ set: { name: x-a, value: on } }, { set: { name: x-b, value: 1.5 } }, { path: { prefix: v1, with: 1 } }, { status: 2e2, remove: ':path' }] }",
            ),
        ),
        (
            "header_rewrite",
            of_struct("{ response_mutations: [{ set: { name: x-a, value: 1.5 }, status: 0x1F4 }] }"),
        ),
        (limit, policy("fail_open: true")),
        (limit, policy("fail_open: false")),
        (limit, of_struct(GOOD).replace("FAIL_RELOAD", "FAIL_RELAOD")),
        (limit, of_struct(GOOD).replace("FAIL_RELOAD", "fail_open")),
        (limit, of_struct(GOOD).replace("FAIL_RELOAD", "1")),
        (limit, of_struct(GOOD).replace("failure_policy: FAIL_RELOAD", "fail_open: true")),
        (limit, of_struct(GOOD).replace("                failure_policy: FAIL_RELOAD\n", "")),
    ];
    let mut judged = (0, 0);
    for (module, members) in rows {
        let text = around(module, &members)?;
        let envoy = envoy_says(&text, "yaml").await?;
        assert_eq!(check_says(&text, Format::Either)?, envoy, "{members}");
        if envoy.taken {
            judged.0 += 1
        } else {
            judged.1 += 1
        }
        if module == "jwt_reject" {
            // Whatever is no number in the file is called what it is.
            assert!(envoy.problems.len() > scalars.len(), "{envoy:?}");
        }
    }
    // Of a type that the filter cannot read it sees the bytes, and takes them for JSON.
    let other = around(limit, &text("Int32Value", ", value: 5"))?;
    assert!(!envoy_says(&other, "yaml").await?.taken && !check_says(&other, Format::Either)?.taken);
    // Of several documents Envoy reads one.
    let bad = around(limit, &of_struct("{ rate: 10 }"))?;
    let both = format!("{}\n---{bad}", around(limit, &of_struct(GOOD))?);
    assert!(!envoy_says(&bad, "yaml").await?.taken && envoy_says(&both, "yaml").await?.taken);
    let (plugins, _) = envoy_configuration(&both, Format::Either, Path::new("/"))?;
    assert!(plugins[1].problems.iter().any(|problem| problem.message.starts_with("Envoy reads the first")));
    assert!(judged.0 >= 8 && judged.1 >= 15, "{judged:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn they_agree_about_json_too() -> anyhow::Result<()> {
    let yaml = around("local_rate_limit", &of_struct(GOOD))?;
    let mut configuration: Value = serde_saphyr::from_str(&yaml)?;
    let plugin = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0/typed_config/config";
    for (value, taken) in [
        (json!({"rate": "10/s", "status": 429.0}), true),
        (json!({"rate": "10/s", "status": 429.5, "body": 3_000_000_000_u64}), false),
        (json!({"rate": "yes", "status": "0x1F", "exempt": 1.5}), false),
    ] {
        let own = configuration.pointer_mut(&format!("{plugin}/configuration/value")).unwrap();
        *own = value;
        let text = serde_json::to_string_pretty(&configuration)?;
        let envoy = envoy_says(&text, "json").await?;
        assert_eq!(envoy.taken, taken, "{text}");
        assert_eq!(check_says(&text, Format::Json)?, envoy, "{text}");
    }
    Ok(())
}
