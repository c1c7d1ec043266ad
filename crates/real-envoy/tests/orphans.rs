//! No Envoy is left behind when the process that started it is killed and cannot clean up.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use real_envoy::{Config, Envoy, Options};

/// Set for the victim, so that nobody starts it by mistake.
const ROLE: &str = "REAL_ENVOY_TEST_VICTIM";

#[test]
fn envoy_dies_with_its_killed_parent() {
    // Elsewhere the guarantee is not given: say so instead of failing.
    let setpriv = Command::new("setpriv").args(["--pdeathsig", "KILL", "--", "true"]).status();
    if !setpriv.is_ok_and(|status| status.success()) {
        println!("not tested: there is no setpriv with --pdeathsig (util-linux) on this machine");
        return;
    }
    // The victim cannot remove its files, so they go to a folder of ours.
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_victim", "--ignored", "--nocapture"])
        .env(ROLE, "1")
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = lines.find_map(|line| line.rsplit_once("envoy: ").map(|(_, pid)| pid.to_owned())).unwrap();
    let process = format!("/proc/{pid}");
    assert!(Path::new(&process).exists());

    victim.kill().unwrap();
    victim.wait().unwrap();
    let gone = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        // Where nothing reaps orphans, a dead one stays as a zombie, without a command line.
        std::fs::read(format!("{process}/cmdline")).is_ok_and(|line| line.is_empty())
            || !Path::new(&process).exists()
    });
    assert!(gone, "Envoy {pid} outlived the process that started it");
}

/// Started by the test above as a process of its own, to be killed.
#[test]
#[ignore = "the victim of envoy_dies_with_its_killed_parent, nothing by itself"]
fn the_victim() {
    assert!(std::env::var_os(ROLE).is_some(), "this is to be started by envoy_dies_with_its_killed_parent");
    let config = Config::parse(include_str!("bootstrap.yaml")).unwrap().on_free_ports().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let envoy = runtime.block_on(Envoy::start(&config, &Options::default())).unwrap();
    println!("envoy: {}", envoy.pid());
    std::thread::sleep(Duration::from_secs(60));
}
