//! What nobody would send in earnest, ten thousand values and thousands of headers: no answer of 5xx,
//! no trap, in bounded time.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use real_envoy::Config;
use real_envoy::client::{self, Client, Http, Request};
use serde_json::json;

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Gateway, hcm_mut};

const REQUESTS: u64 = 10_000;
const CONNECTIONS: u64 = 4;
const LIMIT: Duration = Duration::from_secs(120);

/// Numbers that are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Bytes that HTTP allows in a header's value: no controls but the tab.
    fn value(&mut self) -> Vec<u8> {
        let length = self.below(300);
        let bytes = (0..length).map(|_| match self.next() as u8 {
            control if control < 0x20 || control == 0x7f => b'\t',
            byte => byte,
        });
        bytes.collect()
    }

    fn base64url(&mut self, most: usize) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let length = self.below(most);
        (0..length).map(|_| char::from(ALPHABET[self.below(ALPHABET.len())])).collect()
    }

    /// Three parts that may decode, or a good token with a byte changed, left out or put in.
    fn token(&mut self, good: &str) -> Vec<u8> {
        match self.below(4) {
            0 => {
                format!("{}.{}.{}", self.base64url(80), self.base64url(200), self.base64url(90)).into_bytes()
            }
            1 => {
                let header = [
                    "{\"alg\":\"ES256\"}",
                    "{\"alg\":\"HS256\"}",
                    "{\"alg\":\"RS256\",\"kid\":\"rsa\"}",
                    "{}",
                ];
                let payload = [
                    "{}",
                    "{\"exp\":1e400}",
                    "{\"exp\":-0}",
                    "{\"aud\":[[]]}",
                    "{\"iss\":\"\\ud800\"}",
                    "[1]",
                ];
                let (header, payload) =
                    (header[self.below(header.len())], payload[self.below(payload.len())]);
                format!(
                    "{}.{}.{}",
                    jwt::keys::encode(header),
                    jwt::keys::encode(payload),
                    self.base64url(200)
                )
                .into_bytes()
            }
            _ => {
                let mut bytes = good.as_bytes().to_vec();
                let place = self.below(bytes.len());
                let byte = b'!' + self.below(94) as u8;
                match self.below(3) {
                    // One that is there already would change nothing.
                    0 if bytes[place] != byte => bytes[place] = byte,
                    1 => {
                        bytes.remove(place);
                    }
                    _ => bytes.insert(place, byte),
                }
                bytes
            }
        }
    }
}

/// More headers than the format has room for in which modules write them (1024), where an operator
/// allows them. Reading them must not fail, nor end in an answer of 5xx.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_headers_are_read() -> anyhow::Result<()> {
    let gateway = Gateway::start(&JWT_REJECT, |config| {
        configured(config)?.edit(|value| {
            let hcm = hcm_mut(value)?;
            hcm.insert("max_request_headers_kb".to_owned(), 96.into());
            hcm.insert("common_http_protocol_options".to_owned(), json!({ "max_headers_count": 5000 }));
            Ok(())
        })
    })
    .await?;
    let addr = gateway.addr()?;
    let good = jwt::token::make(&json!({}))?;
    let forged = jwt::token::make(&json!({ "tamper": ["flip_signature"] }))?;
    for http in [Http::H1, Http::H2] {
        let mut many = Request::get("/").over(http);
        for number in 0..3000 {
            many = many.header(&format!("x-{number}"), "1");
        }
        let with = |token: &str| many.clone().header("authorization", format!("Bearer {token}"));
        assert_eq!(client::send(addr, &many).await?.status, 401, "{http:?}");
        assert_eq!(client::send(addr, &with(&forged)).await?.status, 401, "{http:?}");
        // The upstream takes no more than a hundred.
        assert_eq!(client::send(addr, &with(&good)).await?.status, 431, "{http:?}");
    }
    let counters = gateway.counters().await?;
    let counted =
        ["refused.reason.token_missing", "refused.reason.signature_wrong", "allowed.reason.verified"];
    assert_eq!(counted.map(|name| counters[name]), [2, 2, 2]);
    gateway.check_health([good.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}

fn configured(config: Config) -> anyhow::Result<Config> {
    let mut plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example",
            "audiences": ["api"],
            "local_jwks": { "test_keys": ["p256", "rsa", "ed25519"] },
        } },
        "rules": [{ "match": { "prefix": "/" }, "requires": { "provider_name": "main" } }],
    });
    (JWT_REJECT.complete)(&mut plugin)?;
    config.plugin_configuration(JWT_REJECT.plugin, &plugin)
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_random_values_are_refused_one_by_one() -> anyhow::Result<()> {
    let gateway = Gateway::start(&JWT_REJECT, configured).await?;
    let addr = gateway.addr()?;
    let good = jwt::token::make(&json!({}))?;

    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        let good = good.clone();
        connections.push(tokio::spawn(async move {
            let mut numbers = Numbers(number);
            let http = if number % 2 == 0 { Http::H1 } else { Http::H2 };
            let mut client = Client::connect(addr, http).await?;
            for _ in 0..REQUESTS / CONNECTIONS {
                let value = match numbers.below(3) {
                    0 => numbers.value(),
                    1 => [b"Bearer ".as_slice(), &numbers.value()].concat(),
                    _ => [b"Bearer ".as_slice(), &numbers.token(&good)].concat(),
                };
                if !client.is_open() {
                    client = Client::connect(addr, http).await?;
                }
                let answer = client.send(&Request::get("/").header("authorization", &value)).await;
                let answer = answer.with_context(|| format!("{http:?}: {value:?}"))?;
                ensure!(matches!(answer.status, 400 | 401 | 403), "{http:?}: {}: {value:?}", answer.status);
            }
            anyhow::Ok(())
        }));
    }
    let all = async {
        for connection in connections {
            connection.await??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, all).await.context("the flood takes too long")??;

    let served = Request::get("/").header("authorization", format!("Bearer {good}"));
    assert_eq!(client::send(addr, &served).await?.status, 200);
    assert_eq!(gateway.echo.requests(), 1, "none of the random values got through");
    assert_eq!(gateway.envoy.stat("http.ingress.downstream_rq_5xx").await?, 0);
    let refused: u64 = gateway
        .counters()
        .await?
        .iter()
        .filter(|(name, _)| name.starts_with("refused."))
        .map(|(_, by)| by)
        .sum();
    assert!(refused > REQUESTS * 9 / 10, "the filter itself refused {refused} of {REQUESTS}");
    gateway.check_health([good.as_str()].into_iter()).await?;
    gateway.envoy.stop().await
}
