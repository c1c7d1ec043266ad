//! Steps of buckets that others wrote. Read from `../shared/vectors` beside the repository, where it is present.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

use filter_api::Filter;
use local_rate_limit::LocalRateLimit;
use local_rate_limit::bucket::{Bucket, FullAt, SECOND};
use serde_json::{Value, json};

fn vectors() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/local_ratelimit.json");
    if !path.is_file() {
        println!("skipped: no outside test data in ../shared/vectors");
        return Vec::new();
    }
    let vectors: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(!vectors.is_empty());
    vectors
}

/// The answers that a row of steps says takers get. What stands for a reader who is too late says nothing of them:
/// that two get one token is asked where there are two.
#[test]
fn takers_get_what_they_should() {
    let mut told = 0;
    for vector in vectors() {
        let number = |name: &str| vector["bucket"][name].as_u64();
        let Some(max_tokens) = number("max_tokens").filter(|_| vector.get("expect").is_none()) else {
            continue;
        };
        let fill = number("fill_ms").unwrap() * 1_000_000;
        let per_fill = number("tokens_per_fill").unwrap();
        let bucket = Bucket::new(u32::try_from(max_tokens).unwrap(), u32::try_from(per_fill).unwrap(), fill);
        let (mut full_at, mut now) = (FullAt::default(), 1_796_000_000 * SECOND);
        for step in vector["steps"].as_array().unwrap() {
            let expected = match step {
                Value::Bool(expected) => Some(*expected),
                Value::String(text) if text == "fill" || text.starts_with("filler CAS fails, retries: 1") => {
                    now += fill;
                    None
                }
                Value::String(text) if text.ends_with("true") => Some(true),
                Value::String(text) if text.ends_with("false") => Some(false),
                _ => None,
            };
            let Some(expected) = expected else { continue };
            let level = bucket.level(full_at, now);
            let passes = bucket.holds(level, 1);
            assert_eq!(passes, expected, "{}: {step}", vector["id"]);
            if passes {
                full_at = bucket.after_taking(level, 1, now);
            }
            told += 1;
        }
    }
    println!("{told} steps");
}

#[test]
fn what_they_refuse_to_configure_is_refused() {
    for vector in vectors().iter().filter(|vector| vector.get("config_error").is_some()) {
        let bucket = &vector["bucket"];
        let config = json!({ "token_bucket": {
            "max_tokens": bucket["max_tokens"],
            "tokens_per_fill": bucket["tokens_per_fill"],
            "fill_interval": format!("{}s", bucket["fill_ms"].as_f64().unwrap() / 1000.0),
        } });
        let errors = LocalRateLimit::configure(config.to_string().as_bytes()).unwrap_err();
        assert!(errors.to_string().contains("must be at least 50ms"), "{}: {errors}", vector["id"]);
    }
    for vector in vectors().iter().filter(|vector| vector["expect"].get("configured_status_400").is_some()) {
        let config = |status: u16| json!({ "rate": "1/s", "status": { "code": status } }).to_string();
        assert!(LocalRateLimit::configure(config(400).as_bytes()).is_ok(), "{}", vector["id"]);
        // Theirs takes 429 for it without a word.
        assert!(LocalRateLimit::configure(config(399).as_bytes()).is_err());
    }
}
