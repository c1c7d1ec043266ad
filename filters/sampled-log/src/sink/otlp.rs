//! Lines as OpenTelemetry has them: an ExportLogsServiceRequest in protobuf JSON, as OTLP/HTTP sends it
//! (opentelemetry-proto, `collector/logs/v1`; names in lowerCamelCase, 64-bit numbers as text, ids in hexadecimal).

use serde_json::{Map, Value};

use super::Waiting;

/// The body for these lines.
pub(super) fn body<'l>(lines: impl Iterator<Item = &'l Waiting>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(
        br#"{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"envoy"}}]},"#,
    );
    out.extend_from_slice(br#""scopeLogs":[{"scope":{"name":"foregate.sampled_log"},"logRecords":["#);
    for (place, line) in lines.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        record(&mut out, line);
    }
    out.extend_from_slice(b"]}]}]}");
    out
}

/// How many records the collector has not taken, by its answer to a request that it has else: `partialSuccess`.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let count = answer.pointer("/partialSuccess/rejectedLogRecords");
    count.and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok())).unwrap_or(0)
}

fn record(out: &mut Vec<u8>, line: &Waiting) {
    let (number, name) = match line.status {
        1..=399 => (9, "INFO"),
        400..=499 => (13, "WARN"),
        _ => (17, "ERROR"),
    };
    let head = format!(
        r#"{{"timeUnixNano":"{}","observedTimeUnixNano":"{}","severityNumber":{number},"severityText":"{name}","body":{{"stringValue":"#,
        line.time, line.since
    );
    out.extend_from_slice(head.as_bytes());
    string(out, &line.text);
    out.extend_from_slice(br#"},"attributes":["#);
    // It is one of our own: anything else has no attributes.
    let members: Map<String, Value> = serde_json::from_str(&line.text).unwrap_or_default();
    let mut is_first = true;
    for (key, value) in &members {
        let Some((kind, text)) = scalar(value) else { continue };
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"key":"#);
        string(out, key);
        out.extend_from_slice(format!(r#","value":{{"{kind}":"#).as_bytes());
        match text {
            Text::Quoted(text) => string(out, &text),
            Text::Bare(text) => out.extend_from_slice(text.as_bytes()),
        }
        out.extend_from_slice(b"}}");
    }
    out.push(b']');
    if let Some(id) = members.get("trace_id").and_then(Value::as_str).filter(|id| is_trace_id(id)) {
        out.extend_from_slice(br#","traceId":"#);
        string(out, id);
    }
    out.push(b'}');
}

enum Text<'v> {
    Quoted(std::borrow::Cow<'v, str>),
    Bare(String),
}

/// The kind of an AnyValue, and its value.
fn scalar(value: &Value) -> Option<(&'static str, Text<'_>)> {
    match value {
        Value::String(text) => Some(("stringValue", Text::Quoted(text.into()))),
        Value::Bool(flag) => Some(("boolValue", Text::Bare(flag.to_string()))),
        Value::Number(number) => Some(match number.as_i64() {
            Some(whole) => ("intValue", Text::Quoted(whole.to_string().into())),
            None => ("doubleValue", Text::Bare(number.to_string())),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// 16 bytes in hexadecimal, not all of them 0.
fn is_trace_id(text: &str) -> bool {
    text.len() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text.bytes().any(|byte| byte != b'0')
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Writing a text to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}
