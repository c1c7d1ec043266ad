//! The configurations that lines are written by. Between them they use every operator, every way to redact and every
//! sink; all of them log every request. What they have of texts between values is `, ` alone, or too short to tell anything:
//! no two values may look like a secret together.

use filter_api::Filter;
use sampled_log::SampledLog;
use serde_json::{Value, json};

/// One configuration, and what it says.
pub(super) struct Setup {
    pub(super) json: String,
    pub(super) max_line_bytes: usize,
    pub(super) max_field_bytes: usize,
    pub(super) sink: Sink,
    /// Headers whose values are in no line, in lower case.
    pub(super) redacted: Vec<String>,
    /// Parameters of a query whose values may be in one.
    pub(super) shown: Vec<String>,
}

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    EnvoyLog,
    AccessLog,
    Otlp,
    Ndjson,
}

/// How many there are.
pub(super) const COUNT: usize = 7;

/// The one at this place; any number is one.
pub(super) fn at(place: usize) -> Setup {
    const CONFIGURATIONS: [fn() -> Value; COUNT] = [usual, mask, drop, hash, little_room, cut, ndjson];
    let mut config = CONFIGURATIONS[place % COUNT]();
    config["percent_sampled"] = json!(100);
    config["max_lines_per_second"] = json!("unlimited");
    Setup::new(&config)
}

impl Setup {
    /// What a configuration says that is known to be good.
    pub(super) fn new(config: &Value) -> Self {
        // Numbers may be written as texts, and with a fraction of nothing.
        let number = |name: &str, usual: usize| match &config[name] {
            Value::Number(number) => number.as_f64().unwrap() as usize,
            Value::String(text) => text.parse::<f64>().unwrap() as usize,
            _ => usual,
        };
        let names = |name: &str| -> Vec<String> {
            let alone = std::slice::from_ref(&config[name]);
            let names = config[name].as_array().map_or(alone, Vec::as_slice);
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let always = ["authorization", "cookie", "set-cookie", "proxy-authorization", "x-api-key"];
        let further = names("redacted_headers").into_iter().map(|name| name.to_ascii_lowercase());
        Self {
            json: config.to_string(),
            max_line_bytes: number("max_line_bytes", 8192),
            max_field_bytes: number("max_field_bytes", 1024),
            sink: match &config["sink"] {
                Value::String(name) if name == "access_log" => Sink::AccessLog,
                Value::Object(_) if config["sink"]["http"]["format"] == "NDJSON" => Sink::Ndjson,
                Value::Object(_) => Sink::Otlp,
                _ => Sink::EnvoyLog,
            },
            redacted: further.chain(always.map(str::to_owned)).collect(),
            shown: names("query_values"),
        }
    }

    /// A new filter, of a worker of its own.
    pub(super) fn filter(&self) -> SampledLog {
        let configured = SampledLog::configure(self.json.as_bytes());
        configured.unwrap_or_else(|errors| panic!("{errors}")).filter.on_its_own_worker()
    }
}

/// The fields that there are by default, and headers of both messages.
fn usual() -> Value {
    json!({
        "request_headers": ["user-agent", "referer", "X-A", "traceparent"],
        "response_headers": ["content-type", "location", "x-a"],
    })
}

/// All that may ask for a secret.
fn asking() -> Value {
    json!({
        "fields": {
            "a": "%REQ(authorization)%",
            "b": "<%REQ(x-none?Cookie)%>",
            "c": "%REQ(:path)%",
            "d": "%RESP(set-cookie)%, %REQ(proxy-authorization):9%",
            "e": "%REQ(x-secret?x-a):20%",
            "f": "%REQ(X-API-Key):2%",
            "g": "%PATH%",
            "h": "%PATH(WQ:ORIG):12%",
            "i": "%PATH(NQ)%",
            "j": "%REQ(x-a?:path)%",
            "k": "%REQ(x-envoy-original-path)%",
            "l": "%RESP(x-a?authorization)%",
            "m": "%METHOD%, %REQ(:authority)%",
        },
        "redacted_headers": ["X-Secret"],
        "query_values": ["page", "size"],
        "request_headers": ["authorization", "cookie", ":path", "x-envoy-original-path", "x-a", "x-secret"],
        "response_headers": ["set-cookie", "x-api-key", "x-a", "x-secret", "x-envoy-original-path"],
    })
}

fn mask() -> Value {
    asking()
}

fn drop() -> Value {
    let mut config = asking();
    config["redact"] = json!("drop");
    config["sink"] = json!({ "http": { "cluster": "collector", "flush_interval": "0.02s" } });
    config
}

fn hash() -> Value {
    let mut config = asking();
    config["redact"] = json!("hash");
    config["hash_key"] = json!("the-key-of-hashes");
    config
}

/// Lines and fields that are as short as they may be.
fn little_room() -> Value {
    json!({
        "max_line_bytes": 512,
        "max_field_bytes": 16,
        "always": [{ "status": "5xx" }],
        "additional_fields": { "a": "%REQ(x-a)%", "b": "%REQ(x-b)%", "c": "%REQ(x-c)%", "who": "%CLAIM(sub)%" },
        "request_headers": ["x-a", "x-b", "x-c"],
        "response_headers": ["x-a"],
    })
}

/// Values that are cut, and those of other filters; a field whose name is odd.
fn cut() -> Value {
    json!({
        "sink": "access_log",
        "max_line_bytes": 1024,
        "additional_fields": {
            "a": "%DURATION:3%",
            "b": "%RESPONSE_CODE:1%",
            "c": "%BYTES_SENT:2%%BYTES_RECEIVED:2%",
            "d": "%START_TIME(%s.%3f):11%",
            "e": "%DYNAMIC_METADATA(envoy.lb:version):7%",
            "f": "%CLAIM(realm.roles):5%",
            "g": "%UPSTREAM_HOST:1%%UPSTREAM_CLUSTER:1%",
            "h": "%GRPC_STATUS_NUMBER:1%",
            "i": "%TRACE_ID:6%%RESPONSE_FLAGS:1%",
            "j\r\n\u{202e}\"": "%RESPONSE_CODE_DETAILS:6%%%",
            "k": "%ROUTE_NAME:3%%PROTOCOL:1%",
            "l": "",
            "m": "constant",
        },
        "response_headers": ["x-a", "x-b"],
    })
}

fn ndjson() -> Value {
    json!({
        "sink": { "http": { "cluster": "collector", "format": "NDJSON", "flush_interval": "0.02s", "max_batch_bytes": 512 } },
        "request_headers": ["x-a", "user-agent"],
        "redact": "hash",
        "hash_key": "k",
    })
}
