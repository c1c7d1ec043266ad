//! The server over real connections: raw bytes over HTTP/1.1, hyper's client over HTTP/2.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Echo;

const LIMIT: Duration = Duration::from_secs(10);

async fn start() -> Echo {
    Echo::start("127.0.0.1:0".parse().unwrap()).await.unwrap()
}

/// Sends the bytes and reads until the server closes.
async fn http1(echo: &Echo, request: &[u8]) -> Vec<u8> {
    let exchange = async {
        let mut stream = TcpStream::connect(echo.addr()).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    tokio::time::timeout(LIMIT, exchange).await.expect("the server did not close")
}

/// The head in lower case and the body.
async fn get(echo: &Echo, method: &str, target: &str, headers: &str) -> (String, String) {
    let request = format!("{method} {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
    let answer = String::from_utf8(http1(echo, request.as_bytes()).await).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

async fn http2(echo: &Echo) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(echo.addr()).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn http2_request(target: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://example.com{target}")).header("x", "1").body(Empty::new()).unwrap()
}

#[tokio::test]
async fn answers_with_what_it_received() {
    let echo = start().await;
    let request = b"PUT /a/%2e?b=c&d HTTP/1.1\r\nHost: example.com\r\nX-Two: 1\r\nx-one: \xff\xfe\r\n\
        x-two: 2\r\nx-utf8: h\xc3\xa9 \"q\"\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    let answer = http1(&echo, request).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("content-type: application/json"));
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({
            "method": "PUT", "path": "/a/%2e?b=c&d", "authority": "example.com", "version": "HTTP/1.1",
            "headers": [
                ["host", "example.com"], ["x-two", "1"], ["x-two", "2"], ["x-one", {"base64": "//4="}],
                ["x-utf8", "h\u{e9} \"q\""], ["connection", "close"], ["transfer-encoding", "chunked"],
            ],
            "body_bytes": 7,
        })
    );

    let response = http2(&echo).await.send_request(http2_request("/?q")).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(
        serde_json::from_slice::<Value>(&body).unwrap(),
        json!({
            "method": "GET", "path": "/?q", "authority": "example.com", "version": "HTTP/2",
            "headers": [["x", "1"]], "body_bytes": 0,
        })
    );
    assert_eq!(echo.requests(), 2);
}

#[tokio::test]
async fn answers_as_asked() {
    let echo = start().await;
    let (head, body) = get(&echo, "GET", "/?status=503&delay=1", "x-echo-header: x-a: b\r\n").await;
    assert!(head.starts_with("http/1.1 503 ") && head.contains("x-a: b") && body.contains("\"/?status=503"));
    let (head, body) = get(&echo, "GET", "/", "x-echo-size: 200000\r\n").await;
    assert!(head.contains("content-length: 200000") && body.len() == 200_000);
    let (head, body) = get(&echo, "HEAD", "/?size=1073741824", "").await;
    assert!(head.contains("content-length: 1073741824") && body.is_empty());
    let (head, body) = get(&echo, "GET", "/", "x-echo-header: content-type: text/x\r\n").await;
    assert!(head.contains("content-type: text/x") && !head.contains("application/json") && body.len() > 10);
    for status in [204, 304] {
        let (head, body) = get(&echo, "GET", &format!("/?status={status}"), "").await;
        assert!(!head.contains("content-") && body.is_empty(), "{head}");
    }
    let (head, body) = get(&echo, "GET", "/?status=abc", "").await;
    assert!(head.starts_with("http/1.1 400 "), "{head}");
    assert_eq!(body, "status: \"abc\" is not a number from 200 to 599\n");
}

#[tokio::test]
async fn breaks_off_as_asked() {
    let echo = start().await;
    assert!(http1(&echo, b"GET /?close=before HTTP/1.1\r\nhost: a\r\n\r\n").await.is_empty());
    // Without "connection: close" from the client.
    let answer = http1(&echo, b"GET /?close=after HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("connection: close") && answer.ends_with("\"body_bytes\":0}\n"), "{answer}");
    let (head, body) = get(&echo, "GET", "/?close=during&size=300001", "").await;
    assert!(head.contains("content-length: 300001"));
    assert_eq!(body.len(), 150_000);

    let mut sender = http2(&echo).await;
    assert!(sender.send_request(http2_request("/?close=before")).await.is_err());
    assert!(sender.is_closed() || sender.ready().await.is_err());
    let mut sender = http2(&echo).await;
    let cut = sender.send_request(http2_request("/?close=during&size=11")).await.unwrap();
    assert!(cut.into_body().collect().await.is_err());
    let last = sender.send_request(http2_request("/?close=after")).await.unwrap();
    assert_eq!(last.status(), StatusCode::OK);
    assert!(last.into_body().collect().await.is_ok());
    let closed = tokio::time::timeout(LIMIT, async {
        while sender.ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    closed.await.expect("the connection was not closed");
}

#[tokio::test]
async fn dropping_it_closes_everything() {
    let echo = start().await;
    let addr = echo.addr();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut some = [0; 16];
    stream.read_exact(&mut some).await.unwrap();
    drop(echo);
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await;
    closed.expect("the connection stays open").unwrap();
    assert!(TcpStream::connect(addr).await.is_err());
}
