//! The demo through its command: the tour, and serving until it is told to end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of this file is a test, its helpers too"
)]

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

fn demo(arguments: &[&str]) -> Command {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.args(arguments).stdin(Stdio::null());
    demo
}

#[test]
fn the_tour_is_as_it_should_be() {
    let output = demo(&["--once"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().last(), Some("30 of 30 stops as they should be"));
    for counted in [
        "refused.reason.token_expired: 1\n",
        "refused.limit.login: 1\n",
        "refused.limit.per-client: ",
        "skipped.reason.invalid_value: 1\n",
        "lines.why.always: ",
    ] {
        assert!(text.contains(counted), "{counted} in {text}");
    }
    assert!(text.contains("\nwaiting for "), "{text}");
    // A token has two dots between long parts; what is shown of one has three at its end.
    let whole = text
        .split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c))
        .find(|word| word.split('.').filter(|part| part.len() > 30).count() > 1);
    assert_eq!(whole, None);
}

const PORTS: [&str; 10] = [
    "--port",
    "--admin-port",
    "--jwt-reject-port",
    "--jwt-reject-admin-port",
    "--local-rate-limit-port",
    "--local-rate-limit-admin-port",
    "--header-rewrite-port",
    "--header-rewrite-admin-port",
    "--sampled-log-port",
    "--sampled-log-admin-port",
];

/// Starts it on free ports, returns what it printed and the gateways' addresses, once it serves, and ends it
/// by this signal.
fn serve_until(signal: &str) -> (String, Vec<SocketAddr>) {
    let mut child = demo(&PORTS.map(|option| [option, "0"]).concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        text += &format!("{line}\n");
        if line.starts_with("Ctrl-C") {
            break;
        }
    }
    let addresses = text.split("at http://").skip(1).filter_map(|rest| rest.split(',').next());
    let addresses: Vec<SocketAddr> = addresses.map(|address| address.parse().unwrap()).collect();
    assert_eq!(addresses.len(), 5, "{text}");
    for address in &addresses {
        assert!(TcpStream::connect(address).is_ok(), "{address}");
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert!(child.wait().unwrap().success());
    (text, addresses)
}

#[test]
fn serves_until_it_is_told_to_end_and_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM"] {
        let (text, addresses) = serve_until(signal);
        for address in addresses {
            assert!(TcpStream::connect(address).is_err(), "{signal}: Envoy still runs at {address}");
        }
        assert_eq!(text.matches("\ncurl -s").count(), 33, "{text}");
        assert_eq!(text.matches("\nfor n in ").count(), 1, "{text}");
        assert_eq!(text.matches("\nsleep 12; curl -s").count(), 1, "{text}");
        assert_eq!(text.matches("Bearer eyJ").count(), 9, "{text}");
    }
}

#[test]
fn a_port_in_use_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for option in PORTS {
        let output = demo(&["--once", option, &port]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        let expected =
            format!("error: port {port} of 127.0.0.1 is in use; choose another one with {option} PORT");
        assert!(error.starts_with(&expected), "{error}");
    }
}
