//! Whatever a request or an answer holds: a line stays one line, of JSON, and says no more than it should.

use std::collections::BTreeMap;

use real_envoy::client::{self, Http, Request};
use serde_json::{Value, json};

use super::{end, lines, lines_when, start};

/// What the fields that clients can fill are asked for.
fn plugin() -> Value {
    json!({
        "percent_sampled": 100,
        "additional_fields": { "number": "%REQ(x-number)%", "a": "%REQ(x-a)%", "target": "%REQ(:path)%", "mixed": "<%REQ(x-a)%>" },
        "request_headers": ["x-a", "user-agent"],
        "response_headers": ["x-b"],
        "query_values": ["q"],
    })
}

/// Values that would end a text, a line or a terminal's mood.
fn values(long: usize) -> Vec<Vec<u8>> {
    let forged = r#"","status":200,"why":"always"}"#;
    let mut values: Vec<Vec<u8>> = [
        forged,
        r#"\","x":"\"#,
        r"\r\n[2026-01-01 00:00:00.000][1][info][wasm] wasm log sampled_log: {}",
        "%0d%0a{\"time\":\"x\"}",
        "tab\there",
        "%{PATH}% %REQ(:path)% ${jndi:ldap://a} {{7*7}} <script>",
        "\u{2028}\u{2029}\u{85}\u{feff}\u{202e}\u{e9}\u{1f600}",
        "*** ...",
        "null",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    values.extend([
        vec![0xff, 0xfe, b'"', 0x80],
        vec![0xed, 0xa0, 0x80],
        vec![b'a', 0xc3],
        (0x80..=0xff).collect(),
    ]);
    values.push(vec![b'"'; long]);
    values.push(b"\xff".repeat(long));
    values.push("\u{1f600}".repeat(long / 4).into_bytes());
    values
}

/// Every line of the log is Envoy's own, begins as its lines begin, and none of ours is twice there.
fn assert_nothing_forged(log: &str, lines: &[Value], sent: usize) {
    for line in log.lines() {
        assert!(line.starts_with("[20") && line.is_char_boundary(0), "not a line of Envoy's: {line:?}");
        assert!(
            !line.contains([
                '\u{85}', '\u{2028}', '\u{202e}', '\u{feff}', '\u{1b}', '\r', '\0', '\u{7f}', '\u{fffd}'
            ]),
            "{line:?}"
        );
    }
    let mut numbers = BTreeMap::<String, usize>::new();
    for line in lines {
        *numbers.entry(line["number"].to_string()).or_default() += 1;
    }
    assert!(numbers.values().all(|count| *count == 1), "{numbers:?}");
    assert_eq!((lines.len(), numbers.len()), (sent, sent), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_header_ends_the_line() -> anyhow::Result<()> {
    let gateway = start(&plugin()).await?;
    let mut sent = Vec::new();
    for http in [Http::H1, Http::H2] {
        // Over HTTP/2 a byte may take four in transit, and Envoy takes 60 KB of headers.
        let long = if http == Http::H1 { 50_000 } else { 12_000 };
        for value in values(long) {
            let number = sent.len().to_string();
            let back = [b"x-b: ", value.as_slice()].concat();
            let mut request = Request::get("/a").over(http).header("x-number", &number).header("x-a", &value);
            // Not both ways, for the same reason.
            if value.len() < 10_000 {
                request = request.header("x-echo-header", back).header("user-agent", &value);
            }
            assert_eq!(client::send(gateway.addr()?, &request).await?.status, 200, "{number}");
            sent.push(value);
        }
    }
    let all = lines_when(&gateway.envoy, |lines| lines.len() >= sent.len()).await?;
    assert_nothing_forged(&gateway.envoy.log(), &all, sent.len());
    for (number, value) in sent.iter().enumerate() {
        let line = all.iter().find(|line| line["number"] == json!(number.to_string())).unwrap();
        assert_eq!((&line["status"], &line["why"]), (&json!(200), &json!("sampled")));
        let told = line["a"].as_str().unwrap();
        match std::str::from_utf8(value) {
            Ok(text) if text.len() <= 1024 => {
                assert_eq!(told, text);
                assert_eq!(line["mixed"], format!("<{text}>"));
                for (headers, name) in [
                    ("request_headers", "x-a"),
                    ("request_headers", "user-agent"),
                    ("response_headers", "x-b"),
                ] {
                    assert_eq!(line[headers][name], text, "{name} in {line}");
                }
                assert_eq!(line["truncated"], Value::Null);
            }
            Ok(text) => {
                let kept = told.strip_suffix("...").unwrap();
                assert!(text.starts_with(kept) && (1000..=1024).contains(&kept.len()), "{told}");
                assert_eq!(line["truncated"], true);
            }
            Err(_) => assert!(!told.is_empty() && told.len() <= 4 * 1024 + 3, "{told}"),
        }
        assert!(line.to_string().len() <= 8192);
    }
    end(gateway).await
}

/// What only hand-made requests hold: control bytes, and targets that are none.
#[tokio::test(flavor = "multi_thread")]
async fn no_bytes_of_a_request_end_the_line() -> anyhow::Result<()> {
    let gateway = start(&plugin()).await?;
    let targets: [&[u8]; 9] = [
        b"/%0d%0a%7b%22time%22%7d?x=%0d%0a\\r\\n",
        b"/\x1b[31mred\x1b[0m",
        b"/a\"b\\c?\"=\\",
        b"/\xff\xfe?\xff=\xfe",
        b"/a\x00b",
        b"/a\x0bb?\x7f",
        b"http://other.example/a\"?b",
        b"*",
        b"/a?token=secret-of-the-query#fragment",
    ];
    let values: [&[u8]; 5] = [
        b"\x1b]0;title\x07",
        b"a\x01b\x02c\x7f",
        b"a\x0b\x0cb",
        b"a\x00b",
        b"folded\r\n {\"time\":\"forged\"}",
    ];
    let head = |target: &[u8], value: &[u8], number: usize| {
        let number = format!(" HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-number: {number}\r\nx-a: ");
        [b"GET ", target, number.as_bytes(), value, b"\r\n\r\n"].concat()
    };
    let mut requests: Vec<_> = targets.iter().map(|target| (*target, &b"1"[..])).collect();
    requests.extend(values.iter().map(|value| (&b"/"[..], *value)));
    let mut passed = Vec::new();
    for (number, (target, value)) in requests.iter().enumerate() {
        let answer = client::send_raw(gateway.addr()?, &head(target, value, number)).await?;
        if answer.starts_with(b"HTTP/1.1 200") {
            passed.push(number);
        }
    }
    assert!(passed.len() >= 3, "{passed:?}");
    let number_of = |line: &Value| line["number"].as_str().and_then(|number| number.parse::<usize>().ok());
    let all = lines_when(&gateway.envoy, |lines| {
        passed.iter().all(|number| lines.iter().any(|line| number_of(line) == Some(*number)))
    })
    .await?;
    // What Envoy itself refuses it may tell of without the headers.
    let numbered: Vec<_> = all.iter().filter(|line| number_of(line).is_some()).cloned().collect();
    assert_nothing_forged(&gateway.envoy.log(), &numbered, numbered.len());
    assert!(all.len() <= requests.len(), "{all:?}");
    assert!(!gateway.envoy.log().contains("secret-of-the-query"));
    end(gateway).await
}

/// Many long values: the line is cut as a whole, and is JSON still.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_never_longer_than_it_may_be() -> anyhow::Result<()> {
    let names: Vec<_> = (0..40).map(|number| format!("x-{number}")).collect();
    let plugin = json!({ "percent_sampled": 100, "request_headers": names, "max_line_bytes": 4096 });
    let gateway = start(&plugin).await?;
    for value in ["\"".repeat(1000), "\u{1f600}".repeat(300), "a".repeat(900)] {
        let request = Request::get("/a");
        let request = names.iter().fold(request, |request, name| request.header(name, &value));
        assert_eq!(client::send(gateway.addr()?, &request).await?.status, 200);
    }
    let all = lines_when(&gateway.envoy, |lines| lines.len() >= 3).await?;
    let log = gateway.envoy.log();
    for text in log.lines().filter_map(|line| Some(line.split_once("] wasm log ")?.1.split_once(": {")?.1)) {
        assert!(text.len() < 4096, "{} bytes", text.len() + 1);
    }
    for line in &all {
        assert_eq!(
            (&line["truncated"], &line["status"], &line["sample_rate"]),
            (&json!(true), &json!(200), &json!(1))
        );
    }
    assert_eq!(lines(&gateway.envoy)?.len(), 3);
    end(gateway).await
}
