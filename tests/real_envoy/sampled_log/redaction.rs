//! Secrets do not come into a log.

use hmac::{Hmac, KeyInit as _, Mac as _};
use real_envoy::client::{self, Request};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{end, line_of, start_in};
use crate::suite::{Gateway, Setup};

in_lists! {
    secrets_are_masked_unless_otherwise_told: among_others AmongOthers;
    secrets_are_dropped_where_that_is_asked_for: among_others AmongOthers;
    secrets_are_hashed_with_a_key: among_others AmongOthers;
}

/// Headers whose values are redacted unless that is asked for, and one that a configuration adds.
const HEADERS: &[&str] = &["authorization", "cookie", "proxy-authorization", "x-api-key", "x-secret"];

/// Long enough to be looked for in every log.
const SECRET: &str = "secret-0123456789abcdef";

/// Everything that could hold a header is asked for, in letters of both cases.
fn plugin(further: &Value) -> Value {
    let mut headers: Vec<String> = HEADERS.iter().map(|name| (*name).to_owned()).collect();
    headers.push("X-Plain".to_owned());
    let mut plugin = json!({
        "percent_sampled": 100,
        "additional_fields": {
            "number": "%REQ(x-number)%", "upper": "%REQ(AUTHORIZATION)%", "mixed": "a %REQ(Cookie)% b",
            "alternative": "%REQ(x-none?X-Api-Key)%", "answer": "%RESP(Set-Cookie)%", "target": "%REQ(:path)%",
        },
        "request_headers": headers,
        "response_headers": ["Set-Cookie"],
        "redacted_headers": ["X-Secret"],
        "query_values": ["page"],
    });
    plugin.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    plugin
}

/// Sends a request with a secret in every place, and gives its line.
async fn ask(gateway: &Gateway, number: &str, secret: &str) -> anyhow::Result<Value> {
    let request = Request::get(&format!("/a?page=2&token={secret}&flag&a=%20{secret}&page=3"));
    let request = HEADERS.iter().fold(request, |request, name| request.header(&name.to_uppercase(), secret));
    let request = request
        .header("x-number", number)
        .header("x-plain", "shown")
        .header("x-echo-header", format!("set-cookie: a={secret}"));
    assert_eq!(client::send(gateway.addr()?, &request).await?.status, 200);
    line_of(&gateway.envoy, "number", &json!(number)).await
}

/// What stands for the secret in each place that holds nothing else.
fn told(line: &Value) -> Vec<&Value> {
    let headers = HEADERS.iter().map(|name| &line["request_headers"][*name]);
    headers.chain([&line["upper"], &line["alternative"]]).collect()
}

async fn secrets_are_masked_unless_otherwise_told(setup: Option<Setup>) -> anyhow::Result<()> {
    for further in [json!({}), json!({ "redact": "mask" })] {
        let gateway = start_in(setup, &plugin(&further)).await?;
        let line = ask(&gateway, "1", SECRET).await?;
        assert!(told(&line).iter().all(|value| **value == "***"), "{line}");
        assert_eq!(
            (&line["answer"], &line["response_headers"]["set-cookie"]),
            (&json!("***"), &json!("***"))
        );
        assert_eq!(line["mixed"], "a *** b");
        assert_eq!(line["path"], "/a");
        let shown = line["request_headers"].as_object().unwrap();
        assert_eq!(shown.get("x-plain").or(shown.get("X-Plain")).unwrap(), "shown");
        let target = line["target"].as_str().unwrap();
        assert!(target.starts_with("/a?page=2&token=***"), "{target}");
        gateway.check_health([SECRET].into_iter()).await?;
        end(gateway).await?;
    }
    Ok(())
}

async fn secrets_are_dropped_where_that_is_asked_for(setup: Option<Setup>) -> anyhow::Result<()> {
    let gateway = start_in(setup, &plugin(&json!({ "redact": "drop" }))).await?;
    let line = ask(&gateway, "1", SECRET).await?;
    assert!(told(&line).iter().all(|value| value.is_null()), "{line}");
    gateway.check_health([SECRET].into_iter()).await?;
    end(gateway).await
}

/// The same secret has the same hash with the same key, so that lines can be told to be of one client.
async fn secrets_are_hashed_with_a_key(setup: Option<Setup>) -> anyhow::Result<()> {
    for key in ["one key of two", "the other of two"] {
        let gateway = start_in(setup, &plugin(&json!({ "redact": "hash", "hash_key": key }))).await?;
        for (number, secret) in [("1", SECRET), ("2", SECRET), ("3", "another-secret-0123456789")] {
            let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())?;
            mac.update(secret.as_bytes());
            let digest = mac.finalize().into_bytes();
            let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let line = ask(&gateway, number, secret).await?;
            assert!(told(&line).iter().all(|value| **value == format!("h:{hash}")), "{line}");
        }
        gateway.check_health([SECRET, key].into_iter()).await?;
        end(gateway).await?;
    }
    Ok(())
}
