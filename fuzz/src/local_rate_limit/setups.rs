//! The configurations that requests are decided by. Between them they use every field and every source; all of
//! them tell how their limits stand, by which the laws know what was charged.

use filter_api::{Filter, GrpcStatus};
use local_rate_limit::LocalRateLimit;
use serde_json::{Value, json};

use super::limits::Limit;

/// One configuration, and what it says.
pub(crate) struct Setup {
    json: String,
    pub(crate) limits: Vec<Limit>,
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) grpc_status: GrpcStatus,
    /// Whether the default bucket is for requests alone that no other limit is for.
    pub(crate) default_is_fallback: bool,
    /// Whether some requests are exempt, or not counted.
    pub(crate) leaves_out: bool,
    /// For each counter of the filter, its name.
    pub(crate) counters: Vec<&'static str>,
}

impl Setup {
    fn new(config: &Value) -> Self {
        let json = config.to_string();
        let filter = configured(&json);
        // As many as there are limits, once for each thread.
        let own = filter.own_counters().into_iter().map(|name| -> &'static str { name.leak() });
        assert!(config["status"].is_null() || config["status"]["code"] == "ServiceUnavailable");
        let unavailable = config["rate_limited_as_resource_exhausted"] == false;
        Self {
            limits: Limit::all(config),
            status: if config["status"].is_null() { 429 } else { 503 },
            body: config["body"].as_str().unwrap_or("local_rate_limited").to_owned(),
            grpc_status: if unavailable { GrpcStatus::Unavailable } else { GrpcStatus::ResourceExhausted },
            default_is_fallback: config["always_consume_default_token_bucket"] == false,
            leaves_out: !config["exempt"].is_null() || !config["filter_enabled"].is_null(),
            counters: LocalRateLimit::COUNTERS.iter().copied().chain(own).collect(),
            json,
        }
    }

    /// A new filter.
    pub(crate) fn filter(&self) -> LocalRateLimit {
        configured(&self.json)
    }
}

fn configured(json: &str) -> LocalRateLimit {
    LocalRateLimit::configure(json.as_bytes()).unwrap_or_else(|errors| panic!("{errors}")).filter
}

/// How many there are.
pub(super) const COUNT: usize = 8;

/// The one at this place; any number is one.
pub(crate) fn at(place: usize) -> Setup {
    const CONFIGURATIONS: [fn() -> Value; COUNT] =
        [sources, values, costs, leases, scopes, little_room, shadow, samples];
    let mut config = CONFIGURATIONS[place % COUNT]();
    config["enable_ratelimit_headers"] = json!(true);
    Setup::new(&config)
}

/// Every source, each with a bucket for each of its values.
fn sources() -> Value {
    let of = |name: &str, entry: Value, rate: &str| json!({"name": name, "entries": [entry], "rate": rate});
    json!({
        "rate": "60/m",
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "descriptors": [
            of("header", json!({"header": "x-key"}), "3/m"),
            of("path", json!("path"), "9/m"),
            of("method", json!({"method": {}}), "12/m"),
            of("host", json!("host"), "15/m"),
            of("client", json!("client_address"), "18/m"),
            of("claim", json!({"jwt_claim": "sub"}), "4/m"),
            of("cookie", json!({"cookie": "sid"}), "5/m"),
            of("query", json!({"query": "key"}), "6/m"),
            of("all", json!({"constant": "all"}), "21/m"),
            {
                "name": "several",
                "entries": [{"header": "x-key", "default_value": "none"}, "client_address", {"query": "key", "default_value": ""}],
                "rate": "7/m",
            },
            {"name": "login", "match": {"prefix": "/login", "method": "POST"}, "rate": "2/m"},
        ],
    })
}

/// Values that have buckets of their own, and of another shape; who is exempt; the default for the rest.
fn values() -> Value {
    json!({
        "token_bucket": {"max_tokens": 6, "tokens_per_fill": 4, "fill_interval": "3s"},
        "always_consume_default_token_bucket": false,
        "max_dynamic_descriptors": 8,
        "client_address": {"trusted_proxies": ["10.0.0.0/8", {"address_prefix": "2001:db8::", "prefix_len": 32}]},
        "exempt": {"match": [{"path": "/health"}, {"headers": [{"name": "x-internal", "string_match": {"exact": "1"}}]}],
            "cidrs": ["192.0.2.64/26", "::1"]},
        "descriptors": [
            {"name": "plan", "rate": "2/s", "entries": [{"header": "x-plan",
                "overrides": [{"value": "gold", "rate": "7/s"}, {"value": ["tin", "lead"], "rate": "1/m"}]}]},
            {"name": "client-plan", "rate": "5/h", "entries": [{"header": "x-plan",
                "overrides": [{"value": "gold", "rate": "9/h"}]}, "client_address"]},
            {"name": "verb", "entries": [{"method": {}, "value": ["GET", "POST"]}, {"header": "x-zone", "value": ["a", "b", ""]}],
                "rate": "11/m"},
            {"name": "one", "entries": [{"query": "only", "value": "this"}], "rate": "3/h", "burst": 4},
            {"name": "never", "match": {"path": "/never"}, "token_bucket": {"max_tokens": 0, "fill_interval": "1s"}},
        ],
    })
}

/// Requests that cost several tokens, or none; an answer of its own.
fn costs() -> Value {
    json!({
        "token_bucket": {"max_tokens": 40, "tokens_per_fill": 3, "fill_interval": "1s"},
        "stat_prefix": "http_local_rate_limiter",
        "status": {"code": "ServiceUnavailable"},
        "body": "later",
        "rate_limited_as_resource_exhausted": false,
        "cost": {"header": "x-cost", "default": 2, "min": 0, "max": 50},
        "response_headers_to_add": [
            {"header": {"key": "x-test", "value": "100%%"}, "append_action": "APPEND_IF_EXISTS_OR_ADD"},
            {"key": "x-test", "value": "no", "append_action": "ADD_IF_ABSENT"},
            {"key": "x-other", "value": "yes", "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
        ],
        "descriptors": [
            {"name": "three", "entries": [{"header": "x-key"}], "cost": 3, "rate": "10/m"},
            {"name": "free", "match": {"prefix": "/free"}, "cost": 0, "rate": "1/d"},
            {"name": "huge", "match": {"prefix": "/huge"}, "cost": {"header": "x-cost", "max": 4_294_967_295_u32},
                "token_bucket": {"max_tokens": 4_294_967_295_u32, "tokens_per_fill": 4_294_967_295_u32, "fill_interval": "60s"}},
        ],
    })
}

/// Tokens borrowed in advance.
fn leases() -> Value {
    json!({
        "rate": "100/m",
        "lease": 8,
        "on_contention": "allow",
        "descriptors": [
            {"name": "key", "entries": [{"header": "x-key"}], "rate": "10/m", "lease": 4, "cost": {"header": "x-cost", "max": 6}},
            {"name": "exact", "entries": [{"constant": "all"}], "lease": 0, "rate": "70/m"},
        ],
    })
}

/// Buckets of connections, of workers, and of all.
fn scopes() -> Value {
    json!({
        "rate": "4/m",
        "local_rate_limit_per_downstream_connection": true,
        "lease": 2,
        "descriptors": [
            {"name": "worker", "scope": "worker", "entries": [{"constant": "all"}], "rate": "9/m"},
            {"name": "worker-key", "scope": "worker", "entries": [{"header": "x-key"}], "rate": "2/m"},
            {"name": "connection-path", "entries": ["path"], "rate": "3/m", "max_dynamic_descriptors": 40},
            {"name": "all", "scope": "process", "match": {}, "rate": "25/m"},
        ],
    })
}

/// More keys than there is room for; clients by what proxies say of them, as networks.
fn little_room() -> Value {
    let client = |hops: u64, v4: u8, v6: u8| json!([{"client_address": {"trusted_hops": hops, "mask": {"v4": v4, "v6": v6}}}]);
    json!({
        "rate": "200/m",
        "max_dynamic_descriptors": 2,
        "client_address": {"trusted_hops": 1},
        "on_contention": "deny",
        "descriptors": [
            {"name": "key", "entries": [{"header": "x-key"}], "rate": "2/m"},
            {"name": "network", "entries": client(0, 24, 0), "rate": "6/m", "max_dynamic_descriptors": 3},
            {"name": "client", "entries": ["client_address"], "rate": "5/m", "max_dynamic_descriptors": 4},
            {"name": "cookie", "entries": [{"cookie": "sid"}, {"path": {}}], "rate": "100/m", "max_dynamic_descriptors": 1},
        ],
    })
}

/// Nothing is refused.
fn shadow() -> Value {
    json!({
        "rate": "5/m",
        "mode": "shadow",
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "request_headers_to_add_when_not_enforced": [
            {"header": {"key": "x-local-ratelimited", "value": "true"}},
            {"key": "x-key", "value": "over", "append_action": "ADD_IF_ABSENT"},
            {"key": "cookie", "value": "over=1", "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
        ],
        "descriptors": [{"name": "key", "entries": [{"header": "x-key"}], "rate": "2/m"}],
    })
}

/// Some are not counted, and some not refused; most have no limit.
fn samples() -> Value {
    json!({
        "filter_enabled": {"default_value": {"numerator": 750_000, "denominator": "MILLION"}, "runtime_key": "local_rate_limit"},
        "filter_enforced": 50.5,
        "descriptors": [{"name": "key", "entries": [{"header": "x-key"}], "rate": "2/m"}],
    })
}
