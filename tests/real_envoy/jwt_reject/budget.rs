//! A flood of forged tokens, no two alike, whose signatures only the module can check: good traffic flows on.

use std::time::{Duration, Instant};

use real_envoy::client::{Client, Http, Request};
use serde_json::{Value, json};

use super::JWT_REJECT;
use crate::jwt;
use crate::suite::{Gateway, Load, Next};

const FLOOD: usize = 6;
const TIME: Duration = Duration::from_secs(4);

/// What became of good requests under a flood.
struct Measured {
    median: Duration,
    worst: Duration,
    good: usize,
    flood: u64,
    checks: u64,
}

async fn measure(budget: Option<u64>, flood: usize) -> anyhow::Result<Measured> {
    let mut plugin = json!({
        "providers": { "main": {
            "issuer": "https://issuer.example", "audiences": ["api"], "local_jwks": { "test_keys": ["rsa", "p256"] },
        } },
        "rules": [{ "match": {}, "requires": { "provider_name": "main" } }],
    });
    plugin["max_vm_verifications_per_second"] = budget.map_or(Value::Null, Value::from);
    (JWT_REJECT.complete)(&mut plugin)?;
    let gateway =
        Gateway::start(&JWT_REJECT, |config| config.plugin_configuration(JWT_REJECT.plugin, &plugin)).await?;
    let addr = gateway.addr()?;
    let signed = jwt::token::make(&json!({ "key": "rsa", "alg": "PS256" }))?;
    let signature = signed.rsplit('.').next().unwrap().to_owned();
    let connection = |number: usize| {
        let (signature, mut sent) = (signature.clone(), 0_u64);
        Box::new(move || -> (Request, Vec<u16>) {
            sent += 1;
            // The signature of another payload: right in length and range, and never checked before.
            let payload = json!({
                "iss": "https://issuer.example", "aud": "api", "jti": format!("{number}-{sent}"), "exp": 4e9,
            });
            let header = json!({ "alg": "PS256", "kid": "rsa" });
            let [header, payload] = [header, payload].map(|part| jwt::keys::encode(part.to_string()));
            let request = Request::get("/flood");
            (
                request.header("authorization", format!("Bearer {header}.{payload}.{signature}")),
                vec![401, 503],
            )
        }) as Next
    };
    // A token of the same kind, seen before the flood begins, and one that the host checks.
    let good: Vec<Request> = [json!({ "key": "rsa", "alg": "PS256" }), json!({ "key": "p256" })]
        .iter()
        .map(|spec| {
            Ok(Request::get("/good").header("authorization", format!("Bearer {}", jwt::token::make(spec)?)))
        })
        .collect::<anyhow::Result<_>>()?;
    // Connections enough that both workers have some.
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = Client::connect(addr, Http::H1).await?;
        for request in &good {
            assert_eq!(client.send(request).await?.status, 200);
        }
        clients.push(client);
    }
    let before = gateway.counters().await?["signature_checks.by.module"];
    let load = Load::start(addr, (0..flood).map(connection).collect());
    let started = Instant::now();
    let mut took = Vec::new();
    while started.elapsed() < TIME {
        for client in &mut clients {
            for request in &good {
                let sent = Instant::now();
                let response = client.send(request).await?;
                took.push(sent.elapsed());
                assert_eq!(response.status, 200, "{}", response.text());
            }
        }
    }
    let elapsed = started.elapsed();
    let (flood, failed) = load.stop().await?;
    assert_eq!(failed, Vec::<String>::new(), "of {flood} forged tokens");
    let counters = gateway.counters().await?;
    let checks = counters["signature_checks.by.module"] - before;
    if let Some(budget) = budget.filter(|budget| *budget < 1_000_000) {
        let workers = u64::from(Gateway::options().concurrency);
        let most = workers * budget * (elapsed.as_secs() + 3);
        assert!(checks <= most, "{checks} checks in {elapsed:?}; the most is {most}");
        assert!(counters["refused.reason.overloaded"] > 0, "the flood was none");
    }
    gateway.check_health([signed.as_str()].into_iter()).await?;
    gateway.envoy.stop().await?;
    took.sort();
    Ok(Measured {
        median: took[took.len() / 2],
        worst: took[took.len() * 99 / 100],
        good: took.len(),
        flood,
        checks,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_forged_tokens_does_not_stop_good_ones() -> anyhow::Result<()> {
    let mut table = Vec::new();
    for (name, budget, flood) in
        [("no flood", None, 0), ("unbounded", Some(1_000_000), FLOOD), ("50 a second", Some(50), FLOOD)]
    {
        let measured = measure(budget, flood).await?;
        table.push(format!(
            "{name}: {} good requests, median {:?}, 99 % within {:?}; {} forged ones, {} checked",
            measured.good, measured.median, measured.worst, measured.flood, measured.checks
        ));
    }
    println!("{}", table.join("\n"));
    Ok(())
}
