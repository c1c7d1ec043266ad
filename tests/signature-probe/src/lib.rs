//! A module for the suite alone: it checks tokens by the host's cryptography and by the module's
//! own, side by side in one VM, with the very code of `jwt_reject`, and answers with both verdicts.
//!
//! Configuration: `{"vectors": [{"jwks": {...}, "token": "..."}]}`. A request with `x-vector: 7` is
//! answered with `{"host": {"verdict", "by"}, "module": {"verdict", "by"}}` for that entry, where a
//! verdict is `accept` or a reason's label, and `by` lists who was asked about each key tried.
//!
//! With `x-repeat: 500` it checks that token 500 times in the module alone, and answers with
//! `{"module": ..., "repeated": 500}`: a load of nothing else, for whoever measures Envoy's CPU time.

use std::hint::black_box;

use filter_api::config::{ConfigErrors, Problem};
use filter_api::{
    Callback, Configured, Effects, Facts, Filter, GrpcStatus, Head, Host, LocalReply, NoHost, OnHostFailure,
    Outcome,
};
use jwt_reject::keys::KeySet;
use jwt_reject::reason::CheckedBy;
use jwt_reject::verify::{Observer, Policy, signature_only};
use serde_json::{Value, json};

/// The probe.
#[derive(Debug)]
pub struct SignatureProbe {
    vectors: Vec<(Option<KeySet>, String)>,
}

impl Filter for SignatureProbe {
    const NAME: &'static str = "signature_probe";
    const CALLBACKS: &'static [Callback] = &[Callback::RequestHeaders];
    const ON_HOST_FAILURE: OnHostFailure = OnHostFailure::Refuse;
    type Kept = ();
    const COUNTERS: &'static [&'static str] = &[];

    fn configure(json: &[u8]) -> Result<Configured<Self>, ConfigErrors> {
        let wrong = |message: String| ConfigErrors(vec![Problem { path: String::new(), message }]);
        let config: Value = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        let listed = config.get("vectors").and_then(Value::as_array);
        let listed = listed.ok_or_else(|| wrong("`vectors` is missing".into()))?;
        let read = |vector: &Value| {
            let jwks = vector.get("jwks").map(Value::to_string).unwrap_or_default();
            let token = vector.get("token").and_then(Value::as_str).unwrap_or_default();
            (KeySet::parse(&jwks, true).ok().map(|(keys, _)| keys), token.to_owned())
        };
        let filter = Self { vectors: listed.iter().map(read).collect() };
        Ok(Configured { filter, warnings: Vec::new() })
    }

    fn on_request(&self, head: &impl Head, host: &impl Host, _: &Facts) -> Outcome {
        let number = |name| std::str::from_utf8(head.first(name)?).ok()?.parse::<usize>().ok();
        let vector = number("x-vector").and_then(|number| self.vectors.get(number));
        let body = match (vector, number("x-repeat")) {
            (Some((Some(keys), token)), Some(times)) => {
                let again = |_, _| verdict(keys, black_box(token), &NoHost::default());
                let last = (0..times).fold(Value::Null, again);
                json!({"module": last, "repeated": times})
            }
            (Some((Some(keys), token)), None) => {
                json!({"host": verdict(keys, token, host), "module": verdict(keys, token, &NoHost::default())})
            }
            (Some((None, _)), _) => json!({"keys": "unusable"}),
            (None, _) => json!({"error": "no such vector"}),
        };
        let reply = LocalReply {
            status: 200,
            grpc_status: GrpcStatus::Unavailable,
            details: "signature_probe".into(),
            headers: Vec::new(),
            body: body.to_string().into(),
        };
        Outcome::Reply(reply, Effects::default())
    }
}

#[derive(Default)]
struct Asked(Vec<&'static str>);

impl Observer for Asked {
    fn checked_signature(&mut self, by: CheckedBy) {
        self.0.push(match by {
            CheckedBy::Host => "host",
            CheckedBy::Module => "module",
        });
    }
}

fn verdict(keys: &KeySet, token: &str, host: &impl Host) -> Value {
    let mut asked = Asked::default();
    let result = signature_only(token.as_bytes(), &Policy::default(), keys, host, &mut asked);
    json!({"verdict": result.map_or_else(|reason| reason.label(), |()| "accept"), "by": asked.0})
}

#[cfg(all(feature = "module", target_arch = "wasm32"))]
filter_host::module!(crate::SignatureProbe);
