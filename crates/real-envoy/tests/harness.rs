//! The harness against the real Envoy: it starts, answers, is asked, refuses, is updated, and is gone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

use std::path::Path;
use std::time::Duration;

use foregate_cli::echo::Echo;
use real_envoy::client::{self, Client, Http, Request};
use real_envoy::{Config, Envoy, Options, Update};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(10);
const LUA: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0/typed_config/default_source_code/inline_string";

fn bootstrap() -> Config {
    Config::parse(include_str!("bootstrap.yaml")).unwrap().on_free_ports().unwrap()
}

fn with_lua(config: Config, from: &str, to: &str) -> Config {
    config
        .edit(|value| {
            let script = value.pointer_mut(LUA).unwrap();
            let changed = script.as_str().unwrap().replace(from, to);
            assert_ne!(script, &Value::from(changed.as_str()));
            *script = changed.into();
            Ok(())
        })
        .unwrap()
}

async fn echo() -> Echo {
    Echo::start("127.0.0.1:0".parse().unwrap()).await.unwrap()
}

/// Callers may await it in a spawned task.
fn is_send<T: Send>(future: T) -> T {
    future
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_serves_reports_and_is_gone() {
    let echo = echo().await;
    let config = bootstrap().upstream("echo", echo.addr()).unwrap();
    let options = Options { component_log_levels: "lua:info", ..Options::default() };
    let envoy = Envoy::start(&config, &options).await.unwrap();
    let addr = envoy.listener().unwrap();
    assert_eq!(envoy.listener_named("ingress").unwrap(), addr);
    assert!(envoy.listener_named("other").unwrap_err().to_string().contains("ingress"));
    assert!(addr.ip().is_loopback() && addr.port() != 0 && addr.port() != 10000);

    for http in [Http::H1, Http::H2] {
        let direct = client::send(addr, &Request::get("/direct").over(http)).await.unwrap();
        assert_eq!((direct.status, direct.text().as_str()), (418, "one\ntwo\n"), "{http:?}");

        let request = Request::post("/a/%2e?b=c&d", "12345")
            .over(http)
            .authority("example.com")
            .header("x-two", "first")
            .header("x-one", "alone")
            .header("x-two", "second")
            .header("x-raw", b"\xff\x80")
            .header("x-utf8", "h\u{e9}")
            .header("x-echo-header", "x-back: 1")
            .header("x-echo-header", "x-back: 2");
        let response = client::send(addr, &request).await.unwrap();
        assert_eq!(response.status, 200, "{http:?}: {}", response.text());
        assert_eq!(response.header("x-back"), ["1", "2"]);
        let seen = response.json().unwrap();
        assert_eq!(seen["path"], "/a/%2e?b=c&d");
        assert_eq!(seen["authority"], "example.com");
        assert_eq!(seen["body_bytes"], 5);
        assert_eq!(seen["version"], "HTTP/1.1");
        let headers = seen["headers"].as_array().unwrap();
        let values = |name: &str| -> Vec<Value> {
            headers.iter().filter(|pair| pair[0] == name).map(|pair| pair[1].clone()).collect()
        };
        assert_eq!(values("x-two"), ["first", "second"], "{http:?}");
        assert_eq!(values("x-raw"), [json!({"base64": "/4A="})], "{http:?}");
        assert_eq!(values("x-utf8"), ["h\u{e9}"], "{http:?}");
    }

    // Both protocols, direct and through the upstream.
    assert_eq!(envoy.wait_for_stat("http.ingress.downstream_rq_total", |n| n == 4, SOON).await.unwrap(), 4);
    assert_eq!(envoy.stat("http.ingress.downstream_rq_4xx").await.unwrap(), 2);
    assert_eq!(envoy.stat("no.such.stat").await.unwrap(), 0);
    assert_eq!(echo.requests(), 2);
    let some = envoy.stats_matching("http.ingress.downstream_rq_").await.unwrap();
    assert!(some.len() > 3 && some.keys().all(|name| name.starts_with("http.ingress.downstream_rq_")));
    assert!(envoy.stats().await.unwrap().len() > some.len());
    let error = envoy.wait_for_stat("server.live", |n| n == 7, Duration::from_millis(50)).await.unwrap_err();
    assert!(format!("{error:#}").starts_with("server.live is 1: waited 50ms in vain"), "{error:#}");

    assert!(envoy.wait_for_log("seen by Lua", SOON).await.unwrap().contains("[info]"));
    assert!(envoy.wait_for_log("never said", Duration::from_millis(50)).await.is_err());
    assert_eq!(envoy.wait_for_stdout("/direct", SOON).await.unwrap(), "/direct 418");
    assert!(envoy.admin_post("/logging?wasm=debug").await.unwrap().contains("wasm: debug"));
    assert!(envoy.admin_get("/server_info").await.unwrap().contains("LIVE"));
    assert!(format!("{:#}", envoy.admin_get("/nothing").await.unwrap_err()).contains("status 404"));

    let pid = envoy.pid();
    assert!(exists(pid) && envoy.is_alive());
    envoy.stop().await.unwrap();
    assert!(!exists(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_what_good_clients_would_not() {
    let echo = echo().await;
    let config = bootstrap().upstream("echo", echo.addr()).unwrap();
    let envoy = Envoy::start(&config, &Options::default()).await.unwrap();
    let addr = envoy.listener().unwrap();

    // hyper would cut the one and refuse the other.
    let fragment = client::send(addr, &Request::get("/direct#part")).await.unwrap();
    assert_eq!(fragment.status, 400, "Envoy refuses a fragment, so it was sent");
    assert!(client::send(addr, &Request::get("/direct#part").over(Http::H2)).await.is_err());
    assert!(client::send(addr, &Request::get("/direct\r\nb: c")).await.is_err());

    // A connection that is kept, with plain and odd targets in turn.
    let mut client = Client::connect(addr, Http::H1).await.unwrap();
    for path in ["/direct?1", "/direct?<2>", "/direct?3", "/direct?`4\""] {
        let response = client.send(&Request::get(path)).await.unwrap();
        assert_eq!(response.status, 418, "{path}");
        envoy.wait_for_stdout(&format!("{path} 418"), SOON).await.unwrap();
    }
    let long = client.send(&Request::post("/?size=300000", vec![b'y'; 300_000])).await.unwrap();
    assert_eq!(long.body.len(), 300_000);
    // The upstream cuts the fragment off; the body behind it is whole.
    let odd = client::send(echo.addr(), &Request::post("/o#dd", vec![b'y'; 3_000_000])).await.unwrap();
    assert_eq!(odd.json().unwrap()["body_bytes"], 3_000_000);
    assert!(client.is_open());

    let raw = client::send_raw(addr, b"GET /direct HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n").await.unwrap();
    assert!(raw.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&raw));
    let raw = client::send_raw(addr, b"GET /direct HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(raw.ends_with(b"one\ntwo\n"), "a connection left open ends with the silence");

    let slow = Request::get("/?delay=5000").limit(Duration::from_millis(100));
    let error = client::send(addr, &slow).await.unwrap_err();
    assert!(format!("{error:#}").contains("no answer within 100ms"), "{error:#}");
    let cut = client::send(addr, &Request::get("/?close=during&size=100000")).await.unwrap_err();
    assert!(format!("{cut:#}").contains("broke off"), "{cut:#}");
    let nothing = client::send(addr, &Request::get("/?close=before")).await.unwrap();
    assert_eq!(nothing.status, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_configuration_shows_its_log() {
    let bad = with_lua(bootstrap(), "function", "fun ction");
    let log = Envoy::expect_refusal(&bad, &Options::default()).await.unwrap();
    assert!(log.contains("script load error"), "{log}");

    let error = format!("{:#}", Envoy::start(&bad, &Options::default()).await.unwrap_err());
    assert!(error.contains("script load error") && error.contains("before it was ready"), "{error}");

    let error = format!("{:#}", Envoy::expect_refusal(&bootstrap(), &Options::default()).await.unwrap_err());
    assert!(error.contains("accepted a configuration"), "{error}");

    let validating = Options { extra_args: &["--mode", "validate"], ..Options::default() };
    let error = format!("{:#}", Envoy::expect_refusal(&bootstrap(), &validating).await.unwrap_err());
    assert!(error.starts_with("Envoy ended with exit status: 0 where it was to refuse"), "{error}");

    let late = Options { ready_limit: Duration::from_millis(1), ..Options::default() };
    let error = format!("{:#}", Envoy::start(&bootstrap(), &late).await.unwrap_err());
    assert!(error.contains("waited 1ms in vain for Envoy to be ready"), "{error}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error =
        Envoy::start(&bootstrap().listener_port(port).unwrap(), &Options::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on 127.0.0.1:{port}"));

    let unknown = Options { extra_args: &["--no-such-option"], ..Options::default() };
    assert!(Envoy::start(&bootstrap(), &unknown).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_are_replaced_while_requests_run() {
    let first = bootstrap().with_file_lds().unwrap();
    let mut envoy = Envoy::start(&first, &Options::default()).await.unwrap();
    let addr = envoy.listener().unwrap();
    let generation = async || {
        let response = client::send(addr, &Request::get("/direct")).await.unwrap();
        response.header("x-generation").concat()
    };
    assert_eq!(generation().await, "first");

    let load = tokio::spawn(async move {
        let (mut sent, mut failed) = (0, Vec::new());
        let mut client = Client::connect(addr, Http::H1).await.unwrap();
        while sent < 1000 {
            if !client.is_open() {
                client = Client::connect(addr, Http::H1).await.unwrap();
            }
            sent += 1;
            match client.send(&Request::get("/direct")).await {
                Ok(response) if response.status == 418 => {}
                other => failed.push(format!("{other:?}")),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        failed
    });

    let broken = with_lua(first.clone(), "function", "fun ction");
    let Update::Rejected(reason) = is_send(envoy.update_listeners(&broken)).await.unwrap() else {
        panic!("accepted")
    };
    assert!(reason.contains("script load error"), "{reason}");
    assert_eq!(generation().await, "first");

    let second = with_lua(first.clone(), "first", "second");
    assert_eq!(envoy.update_listeners(&second).await.unwrap(), Update::Accepted);
    assert_eq!(envoy.listener().unwrap(), addr);
    let mut switched = false;
    for _ in 0..100 {
        switched = switched || generation().await == "second";
    }
    assert!(switched);
    assert_eq!(envoy.update_listeners(&second).await.unwrap(), Update::Accepted, "the same again");

    assert_eq!(load.await.unwrap(), Vec::<String>::new());
    assert_eq!(envoy.stat("listener_manager.lds.update_rejected").await.unwrap(), 1);

    let broken = broken.with_file_lds().unwrap();
    let error = format!("{:#}", Envoy::start(&broken, &Options::default()).await.unwrap_err());
    assert!(error.contains("rejected the listeners") && error.contains("script load error"), "{error}");

    let mut fixed = Envoy::start(&bootstrap(), &Options::default()).await.unwrap();
    assert!(fixed.update_listeners(&second).await.is_err(), "its listeners are static");

    let pid = envoy.pid();
    drop(envoy);
    assert!(!exists(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_ends_by_itself_is_noticed() {
    // In a task of its own, which takes futures that are Send.
    let starting = tokio::spawn(async {
        let envoy = Envoy::start(&bootstrap(), &Options::default()).await.unwrap();
        envoy.wait_for_stat("server.live", |live| live == 1, SOON).await.unwrap();
        envoy.wait_for_log("starting main dispatch loop", SOON).await.unwrap();
        envoy
    });
    let envoy = starting.await.unwrap();
    envoy.admin_post("/quitquitquit").await.unwrap();
    for _ in 0..1000 {
        if !envoy.is_alive() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!envoy.is_alive());
    assert!(envoy.stop().await.unwrap_err().to_string().contains("log"));
}
