//! Reading configurations: any bytes, most of which are none.

use filter_api::config::Problem;
use filter_api::{Filter, HeadMap};
use sampled_log::SampledLog;
use serde_json::{Value, json};

use super::ended::Ended;
use super::line::{hold, written_by};
use super::setups::Setup;

/// Reads an input as a configuration, and panics where a law is broken. Returns what became of it.
pub fn run(input: &[u8]) -> &'static str {
    let (read, again) = (SampledLog::configure(input), SampledLog::configure(input));
    let problems = match &read {
        Ok(configured) => &configured.warnings,
        Err(errors) => &errors.0,
    };
    let config: Value = serde_json::from_slice(input).unwrap_or_default();
    problems.iter().for_each(|problem| assert_told(problem, &config, input));
    match (&read, again) {
        (Ok(one), Ok(other)) => {
            assert_eq!(
                (&one.warnings, format!("{:?}", one.filter)),
                (&other.warnings, format!("{:?}", other.filter)),
                "the same bytes say the same"
            );
            assert_kept_secret(&format!("{one:?}"), &config, input);
            writes(&Setup::new(&config));
            if problems.is_empty() { "accepted" } else { "accepted with warnings" }
        }
        (Err(one), Err(other)) => {
            assert!(!one.0.is_empty() && *one == other);
            match one.0[0].message.starts_with("not valid JSON") {
                true => "not JSON",
                false => "refused",
            }
        }
        _ => panic!("the same bytes are accepted and refused"),
    }
}

/// A problem is one line, that says where it is and tells no secret.
fn assert_told(problem: &Problem, config: &Value, input: &[u8]) {
    let said = problem.to_string();
    assert!(!said.is_empty() && !said.chars().any(|char| char < ' '), "a line for each problem: {said:?}");
    assert!(said.len() <= 1000 + 10 * input.len(), "{said}");
    assert_ne!(problem.message, "the configuration cannot be used", "what is wrong is said");
    assert_kept_secret(&said, config, input);
    let Value::Object(members) = config else { return };
    // It begins with a member that is there; what is not there is told of the whole.
    let is_of = |name: &String| match problem.path.strip_prefix(name.as_str()) {
        Some(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
        None => problem.path.starts_with(&format!("[{name:?}]")),
    };
    assert!(problem.path.is_empty() || members.keys().any(is_of), "{said}");
}

/// The key of hashes and what may be a password for the collector are not in a text, unless the configuration has the
/// same elsewhere.
fn assert_kept_secret(text: &str, config: &Value, input: &[u8]) {
    const TELLING: usize = 8;
    let headers = config["sink"]["http"]["headers"].as_array().into_iter().flatten();
    let secrets =
        headers.map(|header| &header["value"]).chain([&config["hash_key"]]).filter_map(Value::as_str);
    let input = String::from_utf8_lossy(input);
    for secret in secrets.filter(|secret| secret.len() >= TELLING && input.matches(*secret).count() == 1) {
        assert!(!text.contains(secret), "{secret:?} is told: {text}");
    }
}

/// Lines of whatever was accepted are held to the laws.
fn writes(setup: &Setup) {
    for ended in requests() {
        if let Some((line, counted)) = written_by(setup, &ended) {
            hold(setup, &ended, &line, &counted);
        }
    }
}

/// A few requests that between them have what fields and rules ask for.
fn requests() -> [Ended; 4] {
    let mut failed = Ended {
        request: HeadMap::get("/v1/orders/7?token=of-the-query-1&page=2&of-the-query-2")
            .with("x-request-id", "9d5e6f7a-0000-4000-8000-000000000000")
            .with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .with("authorization", "Bearer of-authorization")
            .with("cookie", "session=of-the-cookie")
            .with("cookie", "other=of-the-other-cookie")
            .with("x-api-key", "of-the-api-key")
            .with("x-envoy-original-path", "/orders?key=of-the-original-path")
            .with("x-a", "\u{202e}\r\n\0\u{e9}")
            .with("x-a", [0xff, b'"'])
            .with("user-agent", "curl/8"),
        route: "orders".to_owned(),
        claims: Some(json!({ "sub": "alice", "realm": { "roles": ["dev", "ops"] }, "bad": "a\r\nb" })),
        properties: vec![("foregate.jwt.tenant".to_owned(), b"blue\r\nx".to_vec())],
        metadata: vec![("envoy.lb:version".to_owned(), b"7".to_vec())],
        ..Ended::default()
    };
    failed.response =
        failed.response.with("set-cookie", "session=of-a-response").with("content-type", "text/html");
    failed.answer("503");
    failed.know("response.flags", 0x20);
    failed.know("request.duration", 1_234_567_890);
    failed.know("request.size", 3);
    failed.know("response.size", 95);
    failed.known.insert("upstream.address", b"192.0.2.9:80".to_vec());
    failed.known.insert("xds.cluster_name", b"upstream".to_vec());
    let mut refused =
        Ended { request: HeadMap::get("/health").with("x-request-id", "7"), ..Ended::default() };
    refused.answer("401");
    refused.known.insert("response.code_details", b"jwt_reject{token_expired}".to_vec());
    let mut call = Ended {
        request: HeadMap::get("/package.Service/Method")
            .with_only(":method", "POST")
            .with("content-type", "application/grpc"),
        ..Ended::default()
    };
    call.know("response.grpc_status", 14);
    let long = Ended {
        request: HeadMap::get(&format!("/{}", "\u{e9}\u{1}".repeat(3000)))
            .with("x-a", vec![0x80; 3000])
            .with("user-agent", "\"\\".repeat(3000)),
        peer: String::new(),
        ..Ended::default()
    };
    [failed, refused, call, long]
}
