//! `foregate bench` on real Envoys: what it says, not what it measures.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

mod command;

use std::net::SocketAddr;

use command::{Files, foregate_in};
use foregate_cli::echo::Echo;
use real_envoy::Config;
use serde_json::Value;

/// As little as tells something.
const FEW: [&str; 6] = ["--rounds", "2", "--requests", "50", "--warm-up", "50"];

/// An upstream, which is there until the process ends.
fn upstream() -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let echo = Echo::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
            tell.send(echo.addr()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    told.recv().unwrap()
}

/// A configuration that answers by itself: `ok`, out of a file in the working folder.
fn answering(files: &Files, name: &str, status: u16) -> String {
    files.write("answer.txt", "ok");
    files.write(
        name,
        format!(
            r#"
static_resources:
  listeners:
  - name: ingress
    address: {{ socket_address: {{ address: 0.0.0.0, port_value: 80 }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: all
              domains: [gateway.example]
              routes:
              - match: {{ path: /only, headers: [{{ name: x, string_match: {{ exact: "1" }} }}] }}
                direct_response: {{ status: {status}, body: {{ filename: answer.txt }} }}
"#
        ),
    )
}

#[test]
fn two_shipped_configurations_are_compared() {
    let files = Files::new();
    let upstream = upstream();
    let shipped = |file: &str| {
        let config = Config::load(file).unwrap().upstream("upstream", upstream).unwrap();
        files.write(&file.replace('/', "-"), config.value().to_string())
    };
    let baseline = shipped("envoy-configs/baseline.yaml");
    let config = shipped("envoy-configs/header-rewrite/native.yaml");
    let arguments =
        ["bench", "--config", &config, "--baseline", &baseline, "--latency-rounds", "1", "--json"];
    let (code, out, errors) = foregate_in(files.folder(), &[&arguments[..], &FEW].concat(), "");
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
    for side in ["config", "baseline"] {
        let cpu = number(&format!("/{side}/cpu_us/median"));
        assert!((1.0..100_000.0).contains(&cpu), "{side}: {cpu}\n{out}");
        assert!(number(&format!("/{side}/requests_per_second/median")) > 1.0, "{out}");
        let latencies =
            ["p50", "p90", "p99", "p99.9"].map(|name| number(&format!("/{side}/latency_us/{name}/median")));
        assert!(latencies[0] > 0.0 && latencies.is_sorted(), "{latencies:?}\n{out}");
        assert!(number(&format!("/{side}/resident_kb")) > 1000.0, "{out}");
    }
    assert_eq!(report["config"]["name"], config.as_str());
    let ratio = number("/config/cpu_us/median") / number("/baseline/cpu_us/median");
    assert!((number("/ratio/median") - ratio).abs() < 1e-6, "{out}");
    assert!(number("/difference_us/low") <= number("/difference_us/high"), "{out}");
    assert!(out.contains("2 rounds are too few for an interval of 95 %"), "{out}");
}

#[test]
fn headers_paths_and_relative_files_are_as_asked_for() {
    let files = Files::new();
    let (good, bad) = (answering(&files, "good.yaml", 200), answering(&files, "refusing.yaml", 403));
    let arguments = [
        "bench",
        "--config",
        "refusing.yaml",
        "--baseline",
        "good.yaml",
        "--path",
        "/only",
        "--header",
        "x: 1",
        "--header",
        "host: gateway.example",
        "--expect",
        "403",
        "--baseline-expect",
        "200",
        "--latency-rounds",
        "0",
    ];
    let (code, out, errors) = foregate_in(files.folder(), &[&arguments[..], &FEW].concat(), "");
    assert_eq!((code, errors.as_str()), (0, ""), "{good} {bad} {out}");
    assert!(out.contains("\n  good.yaml ") && out.contains("\n  refusing.yaml "), "{out}");
    assert!(out.contains("refusing.yaml takes ") || out.contains("is within the noise"), "{out}");
    assert!(!out.contains("p50"), "{out}");
}

#[test]
fn another_status_ends_it_with_what_came_back() {
    let files = Files::new();
    answering(&files, "good.yaml", 200);
    let bench = |more: &[&str]| {
        let arguments = ["bench", "--config", "good.yaml", "--baseline", "good.yaml"];
        foregate_in(files.folder(), &[&arguments[..], &FEW, more].concat(), "")
    };
    let (code, out, errors) = bench(&[]);
    assert_eq!((code, out.as_str()), (1, ""), "{errors}");
    assert_eq!(errors, "error: good.yaml: GET / is answered with 404 and not with 200: \"\"\n");
    let only =
        ["--path", "/only", "--header", "x: 1", "--header", "host: gateway.example", "--expect", "401"];
    let (code, _, errors) = bench(&only);
    assert_eq!(code, 1);
    assert_eq!(errors, "error: good.yaml: GET /only is answered with 200 and not with 401: \"ok\"\n");
}

#[test]
fn what_envoy_or_a_file_lacks_is_said() {
    let files = Files::new();
    let good = answering(&files, "good.yaml", 200);
    let text = std::fs::read_to_string(good).unwrap();
    files.write("unknown.yaml", text.replace("stat_prefix:", "stat_prefixx:"));
    files.write("no-listener.yaml", "static_resources: {}");
    let bench = |config: &str, more: &[&str]| {
        let arguments = ["bench", "--config", config, "--baseline", "good.yaml"];
        let (code, out, errors) = foregate_in(files.folder(), &[&arguments[..], more].concat(), "");
        assert_eq!((code, out.as_str()), (1, ""), "{errors}");
        errors
    };
    let unknown = bench("unknown.yaml", &[]);
    assert!(unknown.starts_with("error: unknown.yaml: Envoy ended with "), "{unknown}");
    assert!(unknown.contains("'stat_prefixx'") && !unknown.contains("[info]"), "{unknown}");
    let none = bench("no-listener.yaml", &[]);
    assert_eq!(none, "error: no-listener.yaml: there is no listener in static_resources.listeners\n");
    let other = bench("good.yaml", &["--listener", "egress"]);
    assert_eq!(other, "error: good.yaml: there is no listener \"egress\", only [\"ingress\"]\n");
    let missing = bench("missing.yaml", &[]);
    assert!(missing.starts_with("error: missing.yaml: cannot be read: "), "{missing}");
}
