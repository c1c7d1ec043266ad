//! The real oha against a real server, and programs that stand for one that fails.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bench::cpu::Pinning;
use bench::latency::{Latency, Mode};
use bench::oha;
use http_body_util::{Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Answers 200, but `/refused` with 403, and does nothing at all for a while when asked for `/pause` the 100th time. Tells
/// of each request.
fn server(pause: Duration) -> (SocketAddr, Receiver<Request<()>>) {
    let (tell, told) = channel();
    let (seen, sees) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let paused = std::rc::Rc::new(std::cell::Cell::new(0_u32));
            let local = tokio::task::LocalSet::new();
            local
                .run_until(async {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        let (seen, paused) = (seen.clone(), paused.clone());
                        tokio::task::spawn_local(async move {
                            let answer = hyper::service::service_fn(|request: Request<Incoming>| {
                                let answered = answer(request, &seen, &paused, pause);
                                async { Ok::<_, Infallible>(answered) }
                            });
                            let http = hyper::server::conn::http1::Builder::new();
                            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
                        });
                    }
                })
                .await;
        });
    });
    (told.recv().unwrap(), sees)
}

fn answer(
    request: Request<Incoming>,
    seen: &Sender<Request<()>>,
    paused: &std::cell::Cell<u32>,
    pause: Duration,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let _ = seen.send(request.map(|_| ()));
    if path == "/pause" {
        paused.set(paused.get() + 1);
        if paused.get() == 100 {
            // All of the thread, as a process that the kernel does not run.
            std::thread::sleep(pause);
        }
    }
    let status = if path == "/refused" { 403 } else { 200 };
    Response::builder().status(status).body(Full::new(Bytes::from_static(b"ok"))).unwrap()
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    let request = Request::post(path).header("host", "gateway.example").header("accept", "a/b");
    request.header("user-agent", "x").header("x-id", "1: 2").body(Empty::new()).unwrap()
}

fn found() -> PathBuf {
    xtask::oha::provision().unwrap().path
}

#[tokio::test]
async fn the_request_is_sent_as_it_is_over_connections_that_stay_open() {
    let (address, seen) = server(Duration::ZERO);
    let length = Duration::from_millis(500);
    let closed = oha::run(&found(), address, &request("/a?b=%20c"), 200, Mode::Closed, length).await.unwrap();
    assert!(closed.requests_per_second > 100.0, "{closed:?}");
    let all: Vec<Request<()>> = seen.try_iter().collect();
    assert_eq!(closed.requests, all.len() as u64);
    for request in &all {
        assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), ("POST", "/a?b=%20c"));
        let mut headers: Vec<String> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        headers.sort();
        // The length of no body is hyper's, which the other load is sent with too.
        headers.retain(|header| header != "content-length: 0");
        assert_eq!(headers, ["accept: a/b", "host: gateway.example", "user-agent: x", "x-id: 1: 2"]);
    }
}

#[tokio::test]
async fn a_held_rate_counts_what_was_due_while_nothing_was_answered() {
    let pause = Duration::from_millis(400);
    let (address, _seen) = server(pause);
    let length = Duration::from_millis(1500);
    let held = oha::run(&found(), address, &request("/pause"), 200, Mode::Held(400.0), length).await.unwrap();
    assert!((300.0..=440.0).contains(&held.requests_per_second), "{held:?}");
    let Latency { p50, p90, p99, p99_9 } = held.latency;
    assert!(0.0 < p50 && p50 <= p90 && p90 <= p99 && p99 <= p99_9, "{held:?}");
    // A quarter of all were due in the pause; no more than one for each connection was under way.
    assert!(p90 > 100_000.0, "{held:?}");
}

#[tokio::test]
async fn another_status_voids_a_run() {
    let (address, _seen) = server(Duration::ZERO);
    let length = Duration::from_millis(200);
    let run = oha::run(&found(), address, &request("/refused"), 200, Mode::Closed, length).await;
    let error = run.unwrap_err().to_string();
    assert!(error.starts_with("the run is void: instead of 200 came 403 ("), "{error}");
    oha::run(&found(), address, &request("/refused"), 403, Mode::Closed, length).await.unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(oha::run(&found(), nobody, &request("/"), 200, Mode::Closed, length).await.is_err());
}

/// A program that stands for oha.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("oha");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_program_that_fails_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let address = "127.0.0.1:1".parse().unwrap();
    let rows = [
        ("echo no such option >&2; exit 2", "oha ended with exit status: 2: no such option"),
        ("echo '{}'", "oha prints something unknown"),
    ];
    for (script, expected) in rows {
        let oha = program(folder.path(), script);
        let run = oha::run(&oha, address, &request("/"), 200, Mode::Closed, Duration::ZERO).await;
        assert_eq!(run.unwrap_err().to_string(), expected);
    }
    let missing =
        oha::run(Path::new("/no/oha"), address, &request("/"), 200, Mode::Closed, Duration::ZERO).await;
    assert_eq!(missing.unwrap_err().to_string(), "cannot start /no/oha");
}

#[tokio::test]
async fn it_runs_on_the_core_of_the_load() {
    let Pinning::Pinned { load, .. } = Pinning::choose() else {
        println!("skipped: there are no two cores to choose from");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let cores = folder.path().join("cores");
    let script = format!("grep Cpus_allowed_list /proc/self/status > {}", cores.display());
    let oha = program(folder.path(), &script);
    let address = "127.0.0.1:1".parse().unwrap();
    let run = oha::run(&oha, address, &request("/"), 200, Mode::Closed, Duration::ZERO).await;
    assert!(run.is_err(), "it prints nothing");
    let cores = std::fs::read_to_string(cores).unwrap();
    assert_eq!(cores.split_whitespace().last(), Some(load.to_string().as_str()), "{cores}");
}
