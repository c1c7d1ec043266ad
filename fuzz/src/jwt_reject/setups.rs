//! The configurations that requests are decided by. They differ in where tokens are, in what must hold of
//! them, and in what a rule asks for.

use jwt_reject::JwtReject;
use jwt_reject::budget::Budget;
use jwt_reject::config::{Config, Provider, Requirement};
use serde_json::{Value, json};

use super::mint::{public_set, secret_set};

/// Issuer of every provider but `other`.
pub(crate) const ISSUER: &str = "https://issuer.example";
/// Issuer of the provider `other`.
pub(crate) const OTHER_ISSUER: &str = "https://other.example";

/// One configuration: the filter with its memory of tokens and without, and what it was made of.
pub(crate) struct Setup {
    pub(crate) remembering: JwtReject,
    pub(crate) forgetful: JwtReject,
    pub(crate) config: Config,
}

impl Setup {
    fn new(config: &Value) -> Self {
        let mut forgetful = config.clone();
        for provider in forgetful["providers"].as_object_mut().unwrap().values_mut() {
            provider["jwt_cache_config"] = json!({"jwt_cache_size": 0});
        }
        let read = |config: &Value| Config::read(config.to_string().as_bytes()).unwrap().0;
        // Time stands still here, so a budget by the second would be spent once and for all.
        let filter = |config| JwtReject::from(Config { budget: Budget::unlimited(), ..read(config) });
        Self { remembering: filter(config), forgetful: filter(&forgetful), config: read(config) }
    }

    /// Every provider that a rule names.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.config
            .rules
            .iter()
            .flat_map(|rule| match &rule.requirement {
                Requirement::Nothing => [].iter(),
                Requirement::Tokens(tokens) => tokens.providers.iter(),
            })
            .map(AsRef::as_ref)
    }
}

/// How many there are.
pub(crate) const COUNT: usize = 6;

/// The one at this place; any number is one.
pub(crate) fn at(place: usize) -> Setup {
    const CONFIGURATIONS: [fn() -> Value; COUNT] = [plain, places, public_keys, several, shadow, paths];
    Setup::new(&CONFIGURATIONS[place % COUNT]())
}

fn provider(keys: &Value) -> Value {
    json!({"issuer": ISSUER, "audiences": ["api"], "local_jwks": {"inline_string": keys.to_string()}})
}

fn with(mut provider: Value, settings: &Value) -> Value {
    provider.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    provider
}

fn config(providers: Value, requires: Value) -> Value {
    json!({"providers": providers, "rules": [{"match": {"prefix": "/"}, "requires": requires}]})
}

fn plain() -> Value {
    config(json!({"main": provider(&secret_set())}), json!({"provider_name": "main"}))
}

fn written() -> Value {
    json!({
        "forward_payload_header": "x-jwt-payload",
        "pad_forward_payload_header": true,
        "claim_to_headers": [
            {"header_name": "x-user-id", "claim_name": "sub"},
            {"header_name": "x-roles", "claim_name": "realm.roles"},
            {"header_name": "x-roles-json", "claim_name": "realm.roles", "array": "json"},
            {"header_name": "x-all", "claim_name": "a"},
        ],
    })
}

fn places() -> Value {
    let settings = json!({
        "from_headers": [{"name": "authorization", "value_prefix": "Bearer "}, {"name": "x-token"}],
        "from_params": ["access_token", "t"],
        "from_cookies": ["token"],
        "allow_padding": true,
        "subjects": ["alice", {"safe_regex": {"regex": "[a-z]+@issuer\\.example"}}, {"prefix": "spiffe://"}],
        "typ": ["JWT", "at+jwt"],
        "required_claims": [{"claim": "scope", "all_of": ["read"]}, {"claim": "realm.roles", "any_of": ["dev", {"prefix": "op"}]}],
        "deny": {"jti": ["revoked"], "sub": ["mallory"], "issued_before": [{"sub": "bob@issuer.example", "time": 1000}]},
        "max_lifetime": "3600s",
    });
    let provider = with(with(provider(&secret_set()), &settings), &written());
    let mut config = config(json!({"main": provider}), json!({"provider_name": "main"}));
    config["max_tokens"] = json!(3);
    config["max_token_bytes"] = json!(600);
    config
}

fn public_keys() -> Value {
    config(json!({"main": provider(&public_set())}), json!({"provider_name": "main"}))
}

/// Two providers, of which one may fail; they remember two tokens each.
fn several() -> Value {
    let little = json!({"jwt_cache_config": {"jwt_cache_size": 2}});
    let main = with(provider(&secret_set()), &little);
    let other = json!({
        "issuer": OTHER_ISSUER,
        "from_headers": [{"name": "x-other"}, {"name": "authorization", "value_prefix": "Bearer "}],
        "forward": true,
    });
    let other = with(with(main.clone(), &other), &written());
    let any = json!([{"provider_name": "other"}, "allow_missing_or_failed"]);
    config(
        json!({"main": main, "other": other}),
        json!({"requires_all": [{"provider_name": "main"}, {"requires_any": any}]}),
    )
}

fn shadow() -> Value {
    let provider = with(provider(&secret_set()), &written());
    let mut config = config(json!({"main": provider}), json!({"provider_name": "main"}));
    config["mode"] = json!("shadow");
    config
}

fn paths() -> Value {
    let mut config = config(json!({"main": provider(&secret_set())}), json!("none"));
    config["rules"] = json!([
        {"match": {"path": "/health", "method": "GET"}, "requires": "none"},
        {"match": {"prefix": "/public/"}, "requires": "allow_missing_or_failed"},
        {"match": {"safe_regex": {"regex": "/[a-z]+/[0-9]+"}, "host": "*.example"}, "requires": "allow_missing"},
        {"match": {"prefix": "/api/"}, "requires": {"provider_name": "main"}},
    ]);
    config["status"] = json!(404);
    config["body"] = json!("no");
    config["bypass_cors_preflight"] = json!(true);
    config["resource_metadata"] = json!("https://issuer.example/.well-known/oauth-protected-resource");
    config
}
