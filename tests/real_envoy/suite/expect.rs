//! What must come of a request, and how what came of it differs.

use std::collections::BTreeMap;
use std::fmt::Debug;

use real_envoy::client::Response;
use serde::Deserialize;
use serde_json::Value;

use super::text::fill_deep;

/// What must come of a request. What is not said is not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expectations {
    /// The entry of `answers.yaml` that these refine.
    pub(crate) answer: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) body: Option<String>,
    pub(crate) body_contains: Option<String>,
    /// How headers of the answer must look; see [`Look`].
    pub(crate) headers: BTreeMap<String, Value>,
    /// `%RESPONSE_CODE_DETAILS%` in the access log.
    pub(crate) details: Option<String>,
    /// `grpc-status`, in the headers or the trailers.
    pub(crate) grpc_status: Option<u16>,
    /// Whether the upstream received the request.
    pub(crate) reached: Option<bool>,
    /// What the upstream received, by its own account.
    pub(crate) upstream: Option<Upstream>,
    /// By how much counters must have risen. All counters of the families named (what stands before
    /// the first dot) are compared: those not named must not have risen. `family.*` names a family alone.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// A request as the upstream received it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Upstream {
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) authority: Option<String>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) headers: BTreeMap<String, Value>,
}

impl Expectations {
    /// These, and what `base` says where they say nothing.
    pub(crate) fn over(&self, base: &Self) -> Self {
        let merged = |own: &BTreeMap<String, Value>, base: &BTreeMap<String, Value>| {
            base.iter().chain(own).map(|(name, look)| (name.clone(), look.clone())).collect()
        };
        Self {
            answer: self.answer.clone(),
            status: self.status.or(base.status),
            body: self.body.clone().or_else(|| base.body.clone()),
            body_contains: self.body_contains.clone().or_else(|| base.body_contains.clone()),
            headers: merged(&self.headers, &base.headers),
            details: self.details.clone().or_else(|| base.details.clone()),
            grpc_status: self.grpc_status.or(base.grpc_status),
            reached: self.reached.or(base.reached),
            upstream: self.upstream.clone().or_else(|| base.upstream.clone()),
            counters: base
                .counters
                .iter()
                .chain(&self.counters)
                .map(|(name, by)| (name.clone(), *by))
                .collect(),
        }
    }

    /// These with the texts of headers and paths filled in.
    pub(crate) fn filled(mut self, fill: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<Self> {
        self.headers.values_mut().try_for_each(|look| fill_deep(look, &fill))?;
        if let Some(upstream) = &mut self.upstream {
            upstream.headers.values_mut().try_for_each(|look| fill_deep(look, &fill))?;
            upstream.path = upstream.path.as_deref().map(&fill).transpose()?;
        }
        Ok(self)
    }

    /// How an answer differs from these; `reached` says whether the upstream was.
    pub(crate) fn differences(&self, response: &Response, reached: bool) -> Vec<String> {
        let mut out = Differences::default();
        out.compare("status", self.status, response.status);
        out.compare("body", self.body.clone(), response.text());
        if let Some(part) = &self.body_contains
            && !response.text().contains(part)
        {
            out.0.push(format!("body: expected {part:?} in it, got {:?}", response.text()));
        }
        for (name, look) in &self.headers {
            let values: Vec<Value> = response.header(name).into_iter().map(Value::from).collect();
            out.look(&format!("header {name}"), look, &values);
        }
        if let Some(status) = self.grpc_status {
            let trailers = response.trailers.iter().filter(|(name, _)| name == "grpc-status");
            let trailers = trailers.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
            let given: Vec<String> = response.header("grpc-status").into_iter().chain(trailers).collect();
            out.compare("grpc-status", Some(vec![status.to_string()]), given);
        }
        let must_be_reached = self.reached.or(self.upstream.as_ref().map(|_| true));
        out.compare("reached the upstream", must_be_reached, reached);
        if let (Some(upstream), true) = (&self.upstream, reached) {
            match response.json() {
                Ok(seen) => upstream.differences(&seen, &mut out),
                Err(error) => out.0.push(format!("the upstream's account: {error:#}")),
            }
        }
        out.0
    }

    /// How the counters rose other than expected. `before` and `after` are all of the filter's.
    pub(crate) fn counter_differences(
        &self,
        before: &BTreeMap<String, u64>,
        after: &BTreeMap<String, u64>,
    ) -> Vec<String> {
        fn family(name: &str) -> &str {
            name.split('.').next().unwrap_or_default()
        }
        let families: Vec<&str> = self.counters.keys().map(|name| family(name)).collect();
        let mut out = Differences::default();
        let names = self.counters.keys().filter(|name| !name.ends_with(".*"));
        for name in names.filter(|name| !after.contains_key(*name)) {
            out.0.push(format!("counter {name}: there is none"));
        }
        for (name, value) in after.iter().filter(|(name, _)| families.contains(&family(name))) {
            let rise = value - before.get(name).copied().unwrap_or_default();
            out.compare(
                &format!("counter {name}: rise"),
                Some(self.counters.get(name).copied().unwrap_or(0)),
                rise,
            );
        }
        out.0
    }
}

impl Upstream {
    fn differences(&self, seen: &Value, out: &mut Differences) {
        let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
        out.compare("upstream: method", self.method.clone(), text("method"));
        out.compare("upstream: path", self.path.clone(), text("path"));
        out.compare("upstream: authority", self.authority.clone(), text("authority"));
        out.compare("upstream: body_bytes", self.body_bytes, seen["body_bytes"].as_u64().unwrap_or(u64::MAX));
        let pairs = seen["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (name, look) in &self.headers {
            let values: Vec<Value> =
                pairs.iter().filter(|pair| pair[0] == name.as_str()).map(|pair| pair[1].clone()).collect();
            out.look(&format!("upstream: header {name}"), look, &values);
        }
    }
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + Debug>(&mut self, what: &str, expected: Option<T>, actual: T) {
        if let Some(expected) = expected
            && expected != actual
        {
            self.0.push(format!("{what}: expected {expected:?}, got {actual:?}"));
        }
    }

    /// Compares the values of a header with how they must look: `null`, absent; a text, that one
    /// alone; a list, these in order; or an object: one value, which `starts_with`, `ends_with`,
    /// `contains` and `lacks` what is said.
    fn look(&mut self, what: &str, look: &Value, values: &[Value]) {
        let fits = match look {
            Value::Null => values.is_empty(),
            Value::Array(list) => list == values,
            Value::Object(ways) => match values {
                [Value::String(value)] => ways.iter().all(|(way, part)| {
                    let part = part.as_str().unwrap_or_default();
                    match way.as_str() {
                        "starts_with" => value.starts_with(part),
                        "ends_with" => value.ends_with(part),
                        "contains" => value.contains(part),
                        "lacks" => !value.contains(part),
                        _ => false,
                    }
                }),
                _ => false,
            },
            one => values == std::slice::from_ref(one),
        };
        if !fits {
            self.0.push(format!("{what}: expected {look}, got {}", Value::from(values.to_vec())));
        }
    }
}
