//! Every configuration of the experiments is one that Envoy takes, and an experiment finds what no busy machine hides.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bench::report::json::Summary;
use real_envoy::Config;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn envoy_takes_every_configuration() {
    let envoy = xtask::envoy::locate().unwrap();
    let files = files(&xtask::workspace_root().join("benches/experiments"));
    assert!(files.len() >= 16, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut config = Config::load(&file).unwrap();
        if text.contains(".wasm }") {
            config = config.modules(xtask::modules::ensure).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("envoy.json");
        std::fs::write(&path, config.value().to_string()).unwrap();
        let output = Command::new(&envoy).args(["--mode", "validate", "--config-path"]).arg(&path).output();
        let output = output.unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}:\n{log}", file.display());
        // Its own header says how to run it.
        let shown = file.strip_prefix(xtask::workspace_root()).unwrap().to_str().unwrap();
        assert!(text.contains(&format!("#   envoy --config-path {shown}\n")), "{shown}");
    }
}

#[test]
fn connections_are_fewer_over_http2_and_figures_stand_beside_the_claim() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--smoke", "--experiment", "upstream-http2", "--rounds", "1", "--requests", "400", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let summary = Summary::read(&folder.path().join("summary.json")).unwrap();
    assert!(summary.workloads.is_empty(), "none were asked for");
    let [experiment] = summary.experiments.as_slice() else { panic!("{:?}", summary.experiments) };
    assert_eq!(experiment.pair, ["http1", "http2"]);
    let figure = |what: &str| experiment.figures.iter().find(|it| it.what.starts_with(what)).unwrap();
    let connections = figure("connections opened");
    assert!(connections.a.median >= 20.0, "a connection for each request under way: {connections:?}");
    assert!(connections.b.median <= 4.0, "one worker, one upstream: {connections:?}");
    assert!(connections.change_percent.high < -50.0, "{connections:?}");
    assert!(figure("CPU a request, gateway").a.median > 1.0, "{experiment:?}");
    for line in &experiment.beside {
        assert!(text.contains(line.as_str()), "{line}\n{text}");
    }
    assert!(experiment.beside[0].starts_with("Connections: claimed -95 %, here -"), "{experiment:?}");
}
