//! The jobs: each said for header_rewrite, for header_mutation and as a script.

use anyhow::{Context as _, bail, ensure};
use real_envoy::Config;
use serde_json::{Value, json};

use super::{LUA, NATIVE};
use crate::workload::{PASSED, Probe, Sent};

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) requests: Vec<Sent>,
    /// header_rewrite's configuration.
    pub(super) ours: Value,
    /// None where header_mutation cannot do it.
    pub(super) native: Option<Native>,
    pub(super) lua: String,
    /// Headers of the answers that the probes get, before any filter sees them: what became of the request.
    pub(super) told: Vec<(&'static str, String)>,
    pub(super) probes: Vec<Probe>,
}

/// What header_mutation does everywhere, and which routes do more.
#[derive(Debug)]
pub(super) struct Native {
    pub(super) mutations: Value,
    /// Without what they answer.
    pub(super) routes: Vec<Value>,
}

/// What a telling host tells in.
const SEEN: &str = "x-seen";
const PATH: &str = "/orders/17";

/// The job of this workload.
pub(super) fn named(name: &str) -> anyhow::Result<Job> {
    match name {
        "one-set" => Ok(one_set()),
        "ten-operations" => Ok(ten_operations()),
        "regex" => Ok(regex()),
        "response-headers" => response_headers(),
        _ => bail!("no job is called {name:?}"),
    }
}

/// A request whose answer tells this of it.
fn tells(what: &'static str, request: Sent, seen: &str) -> Probe {
    Probe { headers: vec![(SEEN.to_owned(), seen.to_owned())], ..Probe::new(what, request, PASSED) }
}

fn one_set() -> Job {
    Job {
        requests: vec![Sent::plain(PATH)],
        ours: json!({ "request_mutations": [{ "set": { "name": "x-gateway", "value": "foregate" } }] }),
        native: Some(Native {
            mutations: json!({ "request_mutations": [written("x-gateway", "foregate")] }),
            routes: vec![json!({ "match": { "prefix": "/" } })],
        }),
        lua: include_str!("one_set.lua").to_owned(),
        told: vec![(SEEN, "<%REQ(x-gateway)%>".to_owned())],
        probes: vec![
            tells("a plain request", Sent::plain(PATH), "<foregate>"),
            tells("a forged name", Sent::plain(PATH).with("x-gateway", "forged".to_owned()), "<foregate>"),
        ],
    }
}

/// Both conditions hold for a fourth of the requests, each alone for a fourth, and none for a fourth.
fn ten_operations() -> Job {
    let requests: Vec<Sent> = [PATH, "/items/17"]
        .into_iter()
        .flat_map(|path| {
            let request = Sent::plain(path).with("x-legacy-user", "u-4711".to_owned());
            [request.clone().with("x-api-key", "k-0815".to_owned()), request]
        })
        .collect();
    let told = [
        "x-internal-debug",
        "x-debug",
        "x-gateway",
        "x-client-ip",
        "x-tenant",
        "via",
        "x-legacy-user",
        "x-user",
        "x-correlation-id",
        "x-area",
        "x-plan",
    ];
    let told = told.map(|name| format!("<%REQ({name})%>")).concat();
    let always = "<><><foregate><203.0.113.7><public><1.1 foregate><><u-4711><r-1>";
    let sent = |request: &Sent| {
        let request = request.clone().with("x-forwarded-for", "203.0.113.7".to_owned());
        request.with("x-request-id", "r-1".to_owned())
    };
    let conditions = ["<orders><paid>", "<orders><>", "<><paid>", "<><>"];
    let mut probes: Vec<Probe> = requests
        .iter()
        .zip(conditions)
        .map(|(request, conditional)| {
            tells("a request of the load", sent(request), &(always.to_owned() + conditional))
        })
        .collect();
    if let Some(plain) = requests.last() {
        let forged = [("x-internal-debug", "1"), ("x-debug", "1"), ("x-gateway", "f"), ("x-client-ip", "f")]
            .into_iter()
            .chain([("x-tenant", "t"), ("x-user", "forged"), ("x-correlation-id", "forged")])
            .fold(sent(plain), |request, (name, value)| request.with(name, value.to_owned()));
        probes.push(tells("a request with all of these names", forged, &{
            always.replace("<public>", "<t>") + "<><>"
        }));
        probes.push(tells(
            "a request by way of another",
            sent(plain).with("via", "1.1 other".to_owned()),
            &{
                // Envoy has one line of this name.
                always.replace("<1.1 foregate>", "<1.1 other,1.1 foregate>") + "<><>"
            },
        ));
    }
    Job {
        requests,
        ours: json!({ "request_mutations": [
            { "remove": { "prefix": "x-internal-" } },
            { "remove": "x-debug" },
            { "set": { "name": "x-gateway", "value": "foregate" } },
            { "set": { "name": "x-client-ip", "value": ADDRESS } },
            { "add_if_absent": { "name": "x-tenant", "value": "public" } },
            { "append": { "name": "via", "value": "1.1 foregate" } },
            { "rename": { "from": "x-legacy-user", "to": "x-user" } },
            { "copy": { "from": "x-request-id", "to": "x-correlation-id" } },
            { "set": { "name": "x-area", "value": "orders" }, "match": { "prefix": "/orders" } },
            { "set": { "name": "x-plan", "value": "paid" }, "match": { "headers": [{ "name": "x-api-key" }] } },
        ] }),
        native: Some(Native {
            mutations: json!({ "request_mutations": [
                { "remove_on_match": { "key_matcher": { "prefix": "x-internal-" } } },
                { "remove": "x-debug" },
                written("x-gateway", "foregate"),
                written("x-client-ip", ADDRESS),
                appended("x-tenant", "public", "ADD_IF_ABSENT"),
                appended("via", "1.1 foregate", "APPEND_IF_EXISTS_OR_ADD"),
                written("x-user", "%REQ(x-legacy-user)%"),
                { "remove": "x-legacy-user" },
                written("x-correlation-id", "%REQ(x-request-id)%"),
            ] }),
            routes: routes_of_conditions(),
        }),
        lua: include_str!("ten_operations.lua").to_owned(),
        told: vec![(SEEN, told)],
        probes,
    }
}

const ADDRESS: &str = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%";

/// header_mutation's conditions are routes: one for each combination.
fn routes_of_conditions() -> Vec<Value> {
    let area = || written("x-area", "orders");
    let plan = || written("x-plan", "paid");
    let key = json!([{ "name": "x-api-key", "present_match": true }]);
    let route = |matched: Value, mutations: &[Value]| {
        json!({
            "match": matched,
            "typed_per_filter_config": { "envoy.filters.http.header_mutation": {
                "@type":
                    "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute",
                "mutations": { "request_mutations": mutations },
            } },
        })
    };
    vec![
        route(json!({ "prefix": "/orders", "headers": key }), &[area(), plan()]),
        route(json!({ "prefix": "/orders" }), &[area()]),
        route(json!({ "prefix": "/", "headers": key }), &[plan()]),
        json!({ "match": { "prefix": "/" } }),
    ]
}

fn regex() -> Job {
    let from =
        |referer: &str| Sent::plain(PATH).with("referer", format!("https://shop.example/cart?{referer}"));
    let tells = |what, sent: &str, seen: &str| {
        tells(what, from(sent), &format!("<https://shop.example/cart?{seen}>"))
    };
    Job {
        requests: vec![from("item=17&token=4f9a8c1d22e7b0&lang=en")],
        ours: json!({ "request_mutations": [
            { "replace": { "name": "referer", "regex": "token=([^&]{4})[^&]*", "with": r"token=\1..." } },
        ] }),
        native: None,
        lua: include_str!("regex.lua").to_owned(),
        told: vec![(SEEN, "<%REQ(referer)%>".to_owned())],
        probes: vec![
            tells("a token", "item=17&token=4f9a8c1d22e7b0&lang=en", "item=17&token=4f9a...&lang=en"),
            tells("two tokens", "token=4f9a8c1d&token=8c1d22e7b0", "token=4f9a...&token=8c1d..."),
            tells("no token", "item=17", "item=17"),
        ],
    }
}

/// What ships of the security headers, and nothing else of the policy.
fn response_headers() -> anyhow::Result<Job> {
    let mutations = shipped_security_headers()?;
    let mut expected = named_values(&mutations);
    for (_, value) in expected.iter_mut().filter(|(name, _)| name == FRAMES) {
        "sameorigin".clone_into(value);
    }
    Ok(Job {
        requests: vec![Sent::plain(PATH)],
        ours: json!({ "response_mutations": [{ "preset": "security_headers" }] }),
        native: Some(Native {
            mutations: json!({ "response_mutations": mutations }),
            routes: vec![json!({ "match": { "prefix": "/" } })],
        }),
        lua: shipped_table()? + include_str!("response_headers.lua"),
        told: vec![(FRAMES, "sameorigin".to_owned())],
        probes: vec![Probe {
            headers: expected,
            ..Probe::new("an answer that has one of them", Sent::plain(PATH), PASSED)
        }],
    })
}

const FRAMES: &str = "x-frame-options";

/// The mutations of the shipped native configuration that write them.
fn shipped_security_headers() -> anyhow::Result<Vec<Value>> {
    let place = format!("{FILTER}/mutations/response_mutations");
    let config = Config::load(NATIVE)?;
    let all = config.value().pointer(&place).and_then(Value::as_array).context("no response_mutations")?;
    let absent = |it: &&Value| it.pointer("/append/append_action").is_some_and(|it| it == "ADD_IF_ABSENT");
    let mutations: Vec<Value> = all.iter().filter(absent).cloned().collect();
    ensure!(mutations.len() == 11, "there are {} security headers", mutations.len());
    Ok(mutations)
}

/// Names and values of such mutations.
fn named_values(mutations: &[Value]) -> Vec<(String, String)> {
    let text = |it: &Value, place: &str| Some(it.pointer(place)?.as_str()?.to_owned());
    let header = |it: &Value| Some((text(it, "/append/header/key")?, text(it, "/append/header/value")?));
    mutations.iter().filter_map(header).collect()
}

const FILTER: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0/typed_config";

/// The table of them in the shipped script.
fn shipped_table() -> anyhow::Result<String> {
    let config = Config::load(LUA)?;
    let code = config.value().pointer(&format!("{FILTER}/default_source_code/inline_string"));
    let code = code.and_then(Value::as_str).context("no script")?;
    let table = code.find("local SECURITY_HEADERS = {").and_then(|start| code.get(start..));
    let table = table.and_then(|rest| rest.get(..rest.find("\n}\n")? + "\n}\n".len()));
    Ok(table.context("the script has no table of security headers")?.to_owned())
}

/// A mutation that writes one line, whatever was there.
fn written(name: &str, value: &str) -> Value {
    appended(name, value, "OVERWRITE_IF_EXISTS_OR_ADD")
}

fn appended(name: &str, value: &str, action: &str) -> Value {
    json!({ "append": { "header": { "key": name, "value": value }, "append_action": action } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_and_the_native_configuration_have_the_same_security_headers() {
        let headers = named_values(&shipped_security_headers().unwrap());
        assert_eq!(headers.len(), 11);
        // Long values are in pieces.
        let table = shipped_table().unwrap();
        let lines: Vec<&str> = table.lines().map(str::trim).collect();
        let joined = lines.join("").replace("\" ..\"", "");
        for (name, value) in headers {
            assert!(joined.contains(&format!("\"{name}\",\"{value}\",")), "{name}: {joined}");
        }
    }

    #[test]
    fn a_job_that_there_is_not_is_an_error() {
        assert_eq!(named("two-sets").unwrap_err().to_string(), "no job is called \"two-sets\"");
    }
}
