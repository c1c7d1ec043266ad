//! Faults that were reported of other gateways and libraries: what a case file cannot say, since it
//! takes a connection that stays open, or bytes that no client library sends; and proof that the case
//! files, the README and the list of reports name the same ones. The names of cases begin with the
//! report, as in `envoy#28201: AcceptsAnIssueTimeWithAnExponent`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use real_envoy::client::{self, Client, Http, Request};
use serde::Deserialize;
use serde_json::json;

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Cases, Gateway};

/// Connections that are opened until every worker has one.
const MOST_CONNECTIONS: usize = 64;

/// A gateway with a provider for each kind of key, and some that take the same keys for other tokens.
async fn gateway() -> anyhow::Result<Gateway> {
    let provider = |keys: &[&str], audience: &str| {
        json!({
            "issuer": "https://issuer.example",
            "audiences": [audience],
            "local_jwks": { "test_keys": keys },
            "claim_to_headers": [
                { "header_name": "x-user-id", "claim_name": "sub" },
                { "header_name": "x-absent", "claim_name": "absent" },
            ],
        })
    };
    let public_keys = ["rsa", "p256", "ed25519"];
    let mut plugin = json!({
        "providers": {
            "keys": provider(&public_keys, "api"),
            "secrets": provider(&["secret"], "api"),
            "other_audience": provider(&public_keys, "other"),
            "other_keys": provider(&["other_rsa", "other_p256"], "api"),
            "exact": provider(&public_keys, "api"),
            "cookies": provider(&public_keys, "api"),
        },
        "rules": [
            { "match": { "prefix": "/keys" }, "requires": { "provider_name": "keys" } },
            { "match": { "prefix": "/secrets" }, "requires": { "provider_name": "secrets" } },
            { "match": { "prefix": "/other-audience" }, "requires": { "provider_name": "other_audience" } },
            { "match": { "prefix": "/other-keys" }, "requires": { "provider_name": "other_keys" } },
            { "match": { "prefix": "/exact" }, "requires": { "provider_name": "exact" } },
            { "match": { "prefix": "/cookies" }, "requires": { "provider_name": "cookies" } },
        ],
    });
    plugin["providers"]["exact"]["clock_skew_seconds"] = json!(0);
    plugin["providers"]["cookies"]["from_cookies"] = json!(["session"]);
    (JWT_REJECT.complete)(&mut plugin)?;
    Gateway::start(&JWT_REJECT, |config| config.plugin_configuration(JWT_REJECT.plugin, &plugin)).await
}

/// Open connections, at least one to each worker.
async fn connections(gateway: &Gateway, http: Http) -> anyhow::Result<Vec<Client>> {
    let addr = gateway.addr()?;
    let mut open = Vec::new();
    while open.len() < MOST_CONNECTIONS {
        let mut client = Client::connect(addr, http).await?;
        // An answer shows that a worker has the connection.
        ensure!(client.send(&Request::get("/keys")).await?.status == 401, "a request without a token");
        open.push(client);
        let stats = gateway.envoy.stats_matching("listener.").await?;
        let busy = stats.iter().filter(|(name, value)| {
            name.contains(".worker_") && name.ends_with(".downstream_cx_active") && **value > 0
        });
        if busy.count() == usize::try_from(Gateway::options().concurrency)? {
            return Ok(open);
        }
    }
    anyhow::bail!("{MOST_CONNECTIONS} connections, and a worker has none")
}

/// Copies of a token that are none, by what was done to it. `key` signed it.
fn altered_copies(good: &str, key: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut copies = Vec::new();
    for tail in ["abc", "A", "AAAA", "=", "==", ".", ".x", ".e30", " x", " .jjjjjjjj", ",", "%20", "\u{e9}"] {
        copies.push((format!("with {tail:?} behind it"), format!("{good}{tail}")));
    }
    for head in ["x", ".", "=", "e30."] {
        copies.push((format!("with {head:?} before it"), format!("{head}{good}")));
    }
    for cut in [1, 2, 4, 10] {
        copies.push((format!("without its last {cut}"), good[..good.len() - cut].to_owned()));
        copies.push((format!("without its first {cut}"), good[cut..].to_owned()));
    }
    for (what, tamper) in [
        ("with the last byte of the signature changed", json!("flip_signature")),
        ("with the first byte of the signature changed", json!("flip_signature_start")),
        ("with a shorter signature", json!("shorten_signature")),
        ("with a signature of zeros", json!("zero_signature")),
        ("without a signature", json!("strip_signature")),
        ("of two parts", json!("drop_signature")),
        ("with another subject", json!({ "replace_claims": { "sub": "mallory" } })),
        ("with one claim more", json!({ "replace_claims": { "admin": true } })),
        ("with one claim less", json!({ "replace_claims": { "jti": null } })),
        ("with a later expiry", json!({ "replace_claims": { "exp": "now+301" } })),
        ("with another header", json!({ "replace_header": { "typ": "at+jwt" } })),
        ("without a key id", json!({ "replace_header": { "kid": null } })),
        ("with no algorithm", json!({ "replace_header": { "alg": "none" } })),
    ] {
        let copy = jwt::token::make(&json!({ "text": good, "tamper": [tamper] }))?;
        copies.push((what.to_owned(), copy));
    }
    // The same with bits set that belong to no byte; RSA's signature has some to spare as well.
    let bits = jwt::token::make(&json!({ "text": good, "tamper": ["trailing_bits"] }))?;
    copies.push(("with bits that belong to no byte".to_owned(), bits));
    let another = jwt::token::make(&json!({ "key": key, "claims": { "jti": "another" } }))?;
    let [own, other] = [good, another.as_str()].map(|token| token.split('.').collect::<Vec<_>>());
    copies.push(("with the claims of another".to_owned(), [own[0], other[1], own[2]].join(".")));
    copies.push(("with the signature of another".to_owned(), [own[0], own[1], other[2]].join(".")));
    copies.push(("in the other case".to_owned(), swapped_case(good)));
    copies.push(("twice".to_owned(), format!("{good}{good}")));
    ensure!(copies.iter().all(|(_, copy)| copy != good), "a copy is the token itself");
    Ok(copies)
}

fn swapped_case(text: &str) -> String {
    let swapped = |letter: char| match letter.is_ascii_uppercase() {
        true => letter.to_ascii_lowercase(),
        false => letter.to_ascii_uppercase(),
    };
    text.chars().map(swapped).collect()
}

/// Sends a token on each of these connections.
async fn expect(open: &mut [Client], path: &str, token: &str, status: u16, what: &str) -> anyhow::Result<()> {
    let request = Request::get(path).header("authorization", format!("Bearer {token}"));
    for (place, client) in open.iter_mut().enumerate() {
        let answer = client.send(&request).await.with_context(|| what.to_owned())?;
        ensure!(answer.status == status, "connection {place}: {what}: {} {}", answer.status, answer.text());
    }
    Ok(())
}

/// product-microgateway#1835: a good token first, then the altered ones; and the other way round. Each
/// is sent on connections that stay open, to every worker.
#[tokio::test(flavor = "multi_thread")]
async fn altered_copies_are_refused_whatever_came_before_them_on_every_worker() -> anyhow::Result<()> {
    let gateway = gateway().await?;
    let mut refused = 0;
    for http in [Http::H1, Http::H2] {
        let mut open = connections(&gateway, http).await?;
        for (key, path) in [("p256", "/keys"), ("rsa", "/keys"), ("ed25519", "/keys"), ("secret", "/secrets")]
        {
            for good_first in [true, false] {
                // A token of its own, which nothing was remembered of.
                let id = format!("{http:?} {good_first}");
                let good = jwt::token::make(&json!({ "key": key, "claims": { "jti": id } }))?;
                let shown = |what: &str| format!("{http:?}: {key}, good first {good_first}: {what}");
                if good_first {
                    expect(&mut open, path, &good, 200, &shown("the good token")).await?;
                }
                for (what, copy) in altered_copies(&good, key)? {
                    expect(&mut open, path, &copy, 401, &shown(&what)).await?;
                    refused += open.len();
                }
                expect(&mut open, path, &good, 200, &shown("the good token after its copies")).await?;
                for (what, copy) in altered_copies(&good, key)? {
                    expect(&mut open, path, &copy, 401, &shown(&format!("once more: {what}"))).await?;
                    refused += open.len();
                }
                expect(&mut open, path, &good, 200, &shown("the good token at last")).await?;
            }
        }
        assert!(open.iter().all(Client::is_open), "every connection stayed open");
    }
    println!("{refused} altered copies were refused");
    let counters = gateway.counters().await?;
    assert!(counters["cache.result.hit"] > 0 && counters["cache.result.forged"] > 0, "{counters:?}");
    gateway.check_health([].into_iter()).await?;
    gateway.envoy.stop().await
}

/// product-microgateway#1835, of its kind: that a token was good is no answer to another question.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_not_used_for_another_provider_nor_after_its_time() -> anyhow::Result<()> {
    let gateway = gateway().await?;
    let mut open = connections(&gateway, Http::H1).await?;
    let good = jwt::token::make(&json!({}))?;
    for round in 0..3 {
        let shown = |what: &str| format!("round {round}: {what}");
        expect(&mut open, "/keys", &good, 200, &shown("its own provider")).await?;
        expect(&mut open, "/other-audience", &good, 403, &shown("another audience")).await?;
        expect(&mut open, "/other-keys", &good, 401, &shown("other keys")).await?;
    }
    let brief = jwt::token::make(&json!({ "claims": { "exp": "now+4" } }))?;
    expect(&mut open, "/exact", &brief, 200, "before its expiry").await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    expect(&mut open, "/exact", &brief, 401, "after its expiry").await?;
    expect(&mut open, "/keys", &brief, 200, "within the clock skew of another provider").await?;
    gateway.check_health([good.as_str(), brief.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

/// envoy#25239: every byte there is, behind a token in a header, in the query and in a cookie.
#[tokio::test(flavor = "multi_thread")]
async fn no_byte_behind_a_token_is_overlooked() -> anyhow::Result<()> {
    let gateway = gateway().await?;
    let good = jwt::token::make(&json!({}))?;
    let addr = gateway.addr()?;
    let reached = gateway.echo.requests();
    let mut raw = 0;
    for http in [Http::H1, Http::H2] {
        let mut client = Client::connect(addr, http).await?;
        for byte in 0..=u8::MAX {
            let tail = [good.as_bytes(), &[byte]].concat();
            let sendable = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            let mut requests = vec![Request::get(&format!("/keys?access_token={good}%{byte:02x}"))];
            // White space at the end of a line is no part of its value.
            if sendable && !matches!(byte, b' ' | b'\t') {
                requests.push(Request::get("/keys").header("authorization", [b"Bearer ", &*tail].concat()));
                // And a `;` ends a cookie.
                if byte != b';' {
                    requests.push(Request::get("/cookies").header("cookie", [b"session=", &*tail].concat()));
                }
            }
            for request in requests {
                if !client.is_open() {
                    client = Client::connect(addr, http).await?;
                }
                let answer = client.send(&request).await.with_context(|| format!("{http:?}: {byte:#04x}"))?;
                ensure!(answer.status == 401, "{http:?}: {byte:#04x}: {} {}", answer.status, answer.text());
            }
            if http == Http::H1 && !sendable {
                for after in ["", "x"] {
                    let line = [b"authorization: Bearer ", &*tail, after.as_bytes(), b"\r\n"].concat();
                    let answer = raw_status(&gateway, &line).await?;
                    // A line break alone ends the line, and what follows is then no line of its own.
                    let a_break = matches!(byte, b'\r' | b'\n') && after.is_empty();
                    ensure!(a_break || matches!(answer, 400 | 401), "raw {byte:#04x}{after:?}: {answer}");
                    raw += u64::from(answer == 200);
                }
            }
        }
    }
    assert_eq!(gateway.echo.requests() - reached, raw, "nothing but whole lines reached the upstream");
    gateway.check_health([good.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

/// The status of a request with this line, which is sent as it is.
async fn raw_status(gateway: &Gateway, line: &[u8]) -> anyhow::Result<u16> {
    let answer = raw(gateway, line).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.with_context(|| format!("no status: {answer:?}"))
}

async fn raw(gateway: &Gateway, lines: &[u8]) -> anyhow::Result<String> {
    let head = b"GET /keys HTTP/1.1\r\nhost: gateway.example\r\nconnection: close\r\n".as_slice();
    let answer = client::send_raw(gateway.addr()?, &[head, lines, b"\r\n"].concat()).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// istio#53212: clients write names as they like.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_header_in_any_case_is_removed() -> anyhow::Result<()> {
    let gateway = gateway().await?;
    let good = jwt::token::make(&json!({}))?;
    for name in [
        "X-Absent",
        "X-ABSENT",
        "x-aBSENT",
        "X_Absent",
        "X_ABSENT",
        "X-User-Id",
        "X-USER-ID",
        "X_USER-id",
        "x-USER_ID",
        "X_User_Id",
    ] {
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let lines = [
                format!("Authorization: Bearer {good}\r\n"),
                format!("{name}: mallory\r\n"),
                format!("{name}:mallory \r\n"),
            ];
            let answer = raw(&gateway, order.map(|place| lines[place].as_str()).concat().as_bytes()).await?;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("alice"), "{name}: {answer}");
            assert!(!answer.to_lowercase().contains("mallory"), "{name}: {answer}");
        }
    }
    gateway.check_health([good.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

/// The reports that cases name, and how many cases name each.
fn named_by_cases() -> anyhow::Result<BTreeMap<String, usize>> {
    let cases = Cases::of(&JWT_REJECT);
    let mut named = BTreeMap::new();
    for file in cases.names()?.iter().filter(|name| name.starts_with("public-reports-")) {
        for case in cases.read(file)?.cases {
            let (report, _) =
                case.name.split_once(": ").with_context(|| format!("no report: {:?}", case.name))?;
            *named.entry(report.to_owned()).or_default() += 1;
        }
    }
    Ok(named)
}

/// A report of the outside list.
#[derive(Deserialize)]
struct Report {
    report: String,
    area: String,
    title: String,
}

/// Reports that are not about tokens and concern this filter all the same.
const OF_OTHER_AREAS: &[&str] = &["istio/istio#53212"];

#[test]
fn every_report_about_tokens_has_cases() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors/public_reports.json");
    if !path.is_file() {
        println!("skipped: the list of public reports, since {} is not there", path.display());
        return Ok(());
    }
    let reports: Vec<Report> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let ours: Vec<&Report> = reports
        .iter()
        .filter(|report| report.area == "jwt" || OF_OTHER_AREAS.contains(&report.report.as_str()))
        .collect();
    assert!(ours.len() > OF_OTHER_AREAS.len(), "{} lists none about tokens", path.display());
    let named = named_by_cases()?;
    let short = |report: &str| report.rsplit('/').next().unwrap_or_default().to_lowercase();
    let missing: Vec<&&Report> =
        ours.iter().filter(|report| !named.contains_key(&short(&report.report))).collect();
    let shown = missing.iter().map(|report| format!("{}: {}", report.report, report.title));
    assert!(missing.is_empty(), "no case names\n{}", shown.collect::<Vec<_>>().join("\n"));
    println!("{} reports have cases: {named:?}", ours.len());
    Ok(())
}

#[test]
fn the_readme_lists_the_reports_that_cases_name() -> anyhow::Result<()> {
    let readme = include_str!("../../../filters/jwt-reject/README.md");
    let section = readme.split("\n## Faults reported elsewhere\n").nth(1).context("no such section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    let mut listed = BTreeSet::new();
    for (report, rest) in rows {
        let number = report.split_once('#').context("no number")?.1;
        assert!(
            rest.starts_with("(https://github.com/") && rest.contains(&format!("/{number})")),
            "{report}"
        );
        assert!(listed.insert(report.to_owned()), "{report} is listed twice");
    }
    assert_eq!(listed, named_by_cases()?.into_keys().collect::<BTreeSet<_>>());
    Ok(())
}
