//! Reading configurations: any bytes, most of which are none.

use filter_api::HeadMap;
use header_rewrite::config::Config;
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::rewriting;

/// Reads an input as a configuration, and panics where a law is broken. Returns what became of it.
pub fn run(input: &[u8]) -> &'static str {
    let read = Config::read(input);
    assert_eq!(format!("{read:?}"), format!("{:?}", Config::read(input)), "the same bytes say the same");
    let problems = match &read {
        Ok((_, warnings)) => warnings,
        Err(errors) => &errors.0,
    };
    for problem in problems {
        let said = problem.to_string();
        assert!(
            !said.is_empty() && !said.chars().any(|char| char < ' '),
            "a line for each problem: {said:?}"
        );
        assert!(said.len() <= 1000 + 10 * input.len(), "{said}");
    }
    match read {
        Ok(_) => {
            let config: Value = serde_json::from_slice(input).unwrap();
            for exchange in exchanges() {
                let way = rewriting::check(&config, &exchange);
                assert_ne!(way, "refused");
            }
            let sentences = header_rewrite::explain::explain(input);
            assert!(!sentences.is_empty() && sentences.iter().all(|sentence| !sentence.is_empty()));
            if problems.is_empty() { "accepted" } else { "accepted with warnings" }
        }
        Err(errors) => {
            assert!(!errors.0.is_empty() && header_rewrite::explain::explain(input).is_empty());
            match errors.0[0].message.starts_with("not valid JSON") {
                true => "not JSON",
                false => "refused",
            }
        }
    }
}

/// A few exchanges that between them have what operations ask for.
fn exchanges() -> [Exchange; 3] {
    let full = Exchange {
        request: HeadMap::get("/v1/orders/7?debug=1&a=b%20c&a")
            .with("x-a", "1")
            .with("x-a", "2, 3")
            .with("x-internal-role", "admin")
            .with("x-canary", "blue")
            .with("x-legacy-user", "alice")
            .with("x-request-id", "4f1c")
            .with("cookie", "theme=dark; a=1")
            .with("content-length", "3"),
        response: HeadMap::default()
            .with(":status", "404")
            .with("content-type", "text/html")
            .with("x-powered-by", "PHP/5")
            .with("server", "a")
            .with("set-cookie", "session=1; Path=/; SameSite=None")
            .with("set-cookie", "theme=dark; Secure"),
        claims: Some(json!({ "sub": "alice", "realm": { "roles": ["dev", "ops"] }, "bad": "a\r\nb: c" })),
        properties: vec![("foregate.jwt.tenant".to_owned(), b"blue\r\nx: y".to_vec())],
        metadata: vec![("envoy.lb:version".to_owned(), b"7".to_vec())],
        route: "orders".to_owned(),
        ..Exchange::default()
    };
    let obscured = Exchange {
        request: HeadMap::get("/account/..;/v1/%2e%2e/x?a=/../").with_only(":authority", "api.example:80"),
        peer: String::new(),
        ..Exchange::default()
    };
    [full, obscured, Exchange::default()]
}
