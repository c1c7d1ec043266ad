//! Names in capitals, which HTTP libraries do not send.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use real_envoy::{Envoy, client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::implementation::{ALL, HOST, configuration};
use crate::suite::Gateway;

const REQUEST: &str =
    "X-INTERNAL-A: 1\r\nX-Gateway: a\r\nX-TENANT: a\r\nX-Legacy-User: u\r\nX-USER: forged\r\n";
const ANSWER: &str = "X-POWERED-BY: a\r\nX-Frame-Options: sameorigin\r\n";

/// All three take a name for what it is, however it is written.
#[tokio::test(flavor = "multi_thread")]
async fn names_in_capitals_are_the_same_names() -> anyhow::Result<()> {
    for implementation in ALL {
        let (address, arrived) = upstream().await?;
        let envoy = Envoy::start(&configuration(implementation, address)?, &Gateway::options()).await?;
        let request = format!("GET /x HTTP/1.1\r\nHost: {HOST}\r\n{REQUEST}Connection: close\r\n\r\n");
        let answer = String::from_utf8(client::send_raw(envoy.listener()?, request.as_bytes()).await?)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{implementation:?}: {answer}");
        let names = ["x-internal-a", "x-gateway", "x-tenant", "x-legacy-user", "x-user"];
        let seen = lines(&arrived.await??, &names);
        ensure!(seen == "x-gateway: foregate, x-tenant: a, x-user: u", "{implementation:?}: {seen}");
        let seen = lines(&answer, &["x-powered-by", "x-frame-options"]);
        ensure!(seen == "x-frame-options: sameorigin", "{implementation:?}: {seen}");
        envoy.stop().await?;
    }
    Ok(())
}

/// An upstream that answers one request, and then tells what it was.
async fn upstream() -> anyhow::Result<(SocketAddr, JoinHandle<anyhow::Result<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            ensure!(stream.read_buf(&mut head).await? > 0, "the request broke off");
        }
        let answer = format!("HTTP/1.1 200 OK\r\n{ANSWER}Content-Length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await?;
        String::from_utf8(head).context("the request is not text")
    });
    Ok((address, answering))
}

/// The lines of a head with these names, by name.
fn lines(head: &str, names: &[&str]) -> String {
    let with = |name: &&str| {
        let of_name =
            move |line: &&str| line.split(':').next().is_some_and(|it| it.eq_ignore_ascii_case(name));
        head.lines().filter(of_name).map(str::to_ascii_lowercase).collect::<Vec<_>>()
    };
    names.iter().flat_map(with).collect::<Vec<_>>().join(", ")
}
