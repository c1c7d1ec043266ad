//! Which requests are logged: as many as the rate says, the same on every hop, and those that a rule names.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use real_envoy::client::{self, Client, Http, Request};
use serde_json::{Value, json};

use super::{SAMPLED_LOG, assert_likely, end, lines, lines_when, start, start_with};
use crate::suite::{Gateway, SOON, crowd, hcm_mut, statuses};

/// Those alone that the rate chooses.
fn sampled(percent: &Value) -> Value {
    json!({ "always": [], "percent_sampled": percent, "additional_fields": { "number": "%REQ(x-number)%" } })
}

/// An Envoy with these fields of its connection manager as they are here.
async fn hop(percent: &Value, hcm: &Value, upstream: Option<SocketAddr>) -> anyhow::Result<Gateway> {
    start_with(&sampled(percent), &Gateway::options(), |config| {
        let config = match upstream {
            Some(address) => config.upstream("upstream", address)?,
            None => config,
        };
        config.edit(|bootstrap| {
            hcm_mut(bootstrap)?.extend(hcm.as_object().cloned().unwrap_or_default());
            Ok(())
        })
    })
    .await
}

/// Two Envoys in a row, the first with these fields. The second is no edge, so it keeps the ids that it is given.
async fn two_hops(percent: &Value, first: &Value) -> anyhow::Result<(Gateway, Gateway)> {
    let inner = json!({ "use_remote_address": false, "generate_request_id": false });
    let second = hop(percent, &inner, None).await?;
    let first = hop(percent, first, Some(second.addr()?)).await?;
    Ok((first, second))
}

/// Waits until all that was logged of so many requests is there, and gives the field of each line.
async fn logged(gateway: &Gateway, requests: u64, name: &str) -> anyhow::Result<BTreeSet<String>> {
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_2xx", |count| count >= requests, SOON).await?;
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    let lines = lines(&gateway.envoy)?;
    let all: BTreeSet<_> = lines.iter().map(|line| line[name].as_str().unwrap().to_owned()).collect();
    assert_eq!(all.len(), lines.len(), "a request is logged twice");
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hop_logs_the_same_requests() -> anyhow::Result<()> {
    const REQUESTS: usize = 2000;
    let (first, second) = two_hops(&json!(20), &json!({})).await?;
    let counts =
        crowd(first.addr()?, 8, |_, number| (number < REQUESTS / 8).then(|| Request::get("/"))).await?;
    assert_eq!(counts, statuses(&[(200, REQUESTS)]));
    let ids = logged(&first, REQUESTS as u64, "request_id").await?;
    assert_eq!(ids, logged(&second, REQUESTS as u64, "request_id").await?);
    assert_likely(ids.len(), REQUESTS, 0.2);
    for line in lines(&first.envoy)?.iter().chain(&lines(&second.envoy)?) {
        assert_eq!((&line["sample_rate"], &line["why"]), (&json!(0.2), &json!("sampled")));
    }
    end(first).await?;
    end(second).await
}

/// An id that Envoy marks as one of a trace, at the place of the version, is the same one. An edge would take the mark
/// off before the filter sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_of_tracing_in_the_id_changes_nothing() -> anyhow::Result<()> {
    const IDS: usize = 200;
    let (first, second) = two_hops(&json!(50), &json!({ "use_remote_address": false })).await?;
    for number in 0..IDS {
        // The last digits differ as those of real ones do.
        let digits = format!("{:012x}", number.wrapping_mul(0x9e37_79b9_7f4a) & 0xffff_ffff_ffff);
        for version in ["4", "9", "a", "b"] {
            let id = format!("5f1d8a3c-{}-{version}1b2-8d3e-{digits}", &digits[..4]);
            let request = Request::get("/")
                .header("x-request-id", &id)
                .header("x-number", format!("{number}-{version}"));
            assert_eq!(client::send(first.addr()?, &request).await?.status, 200);
        }
    }
    let numbers = logged(&first, 4 * IDS as u64, "number").await?;
    assert_eq!(numbers, logged(&second, 4 * IDS as u64, "number").await?);
    for number in 0..IDS {
        let logged = ["4", "9", "a", "b"]
            .iter()
            .filter(|version| numbers.contains(&format!("{number}-{version}")))
            .count();
        assert!(logged == 0 || logged == 4, "{number}: {logged} of 4");
    }
    assert_likely(numbers.len() / 4, IDS, 0.5);
    end(first).await?;
    end(second).await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_id_the_trace_decides_and_else_chance() -> anyhow::Result<()> {
    const REQUESTS: usize = 1000;
    let (first, second) = two_hops(&json!(20), &json!({ "generate_request_id": false })).await?;
    let mut client = Client::connect(first.addr()?, Http::H2).await?;
    for number in 0..REQUESTS {
        let trace =
            format!("{:032x}", (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let request = Request::get("/")
            .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-0{}", number % 2))
            .header("x-number", format!("traced-{number}"));
        client.send(&request).await?;
        client.send(&Request::get("/").header("x-number", format!("by-chance-{number}"))).await?;
    }
    let all = [
        logged(&first, 2 * REQUESTS as u64, "number").await?,
        logged(&second, 2 * REQUESTS as u64, "number").await?,
    ];
    let of = |kind: &str| {
        all.each_ref()
            .map(|numbers| numbers.iter().filter(|number| number.starts_with(kind)).collect::<BTreeSet<_>>())
    };
    let [traced, by_chance] = [of("traced"), of("by-chance")];
    assert_eq!(traced[0], traced[1]);
    assert_ne!(by_chance[0], by_chance[1], "by chance, and yet the same");
    for numbers in traced.iter().chain(&by_chance) {
        assert_likely(numbers.len(), REQUESTS, 0.2);
    }
    end(first).await?;
    end(second).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_rate_is_kept() -> anyhow::Result<()> {
    const REQUESTS: usize = 20_000;
    let gateway = start(&sampled(&json!({ "numerator": 100, "denominator": "TEN_THOUSAND" }))).await?;
    let counts =
        crowd(gateway.addr()?, 8, |_, number| (number < REQUESTS / 8).then(|| Request::get("/"))).await?;
    assert_eq!(counts, statuses(&[(200, REQUESTS)]));
    let ids = logged(&gateway, REQUESTS as u64, "request_id").await?;
    assert_likely(ids.len(), REQUESTS, 0.01);
    let lines = lines(&gateway.envoy)?;
    assert!(lines.iter().all(|line| line["sample_rate"] == 0.01), "{:?}", lines.first());
    assert_eq!(gateway.counters().await?["lines.why.sampled"], lines.len() as u64);
    end(gateway).await
}

/// Rules and rates of 0 and 100 leave nothing to chance.
#[tokio::test(flavor = "multi_thread")]
async fn rules_decide_before_the_rate() -> anyhow::Result<()> {
    let plugin = json!({
        "always": [
            { "status": [418, "5xx"] },
            { "duration": "0.1s" },
            { "response_flags": ["NR"] },
            { "grpc_status": "any_error" },
            { "match": { "prefix": "/audit" }, "status": "2xx" },
        ],
        "percent_sampled": 0,
        "rules": [
            { "match": { "path": "/all/none" }, "percent_sampled": 0 },
            { "match": { "prefix": "/all" }, "percent_sampled": { "default_value": { "numerator": 100, "denominator": "HUNDRED" } } },
            { "match": { "prefix": "/posts", "method": "POST" }, "percent_sampled": 100 },
            { "status": 404, "percent_sampled": 100 },
        ],
        "additional_fields": { "number": "%REQ(x-number)%" },
    });
    let gateway = start(&plugin).await?;
    let grpc = |status: &str| {
        Request::post("/", "")
            .header("content-type", "application/grpc")
            .header("x-echo-header", "content-type: application/grpc")
            .header("x-echo-header", format!("grpc-status: {status}"))
    };
    let get = Request::get;
    let rows = [
        (get("/"), None),
        (get("/all/none"), None),
        (get("/all/some"), Some("sampled")),
        (get("/all/none?status=500"), Some("always")),
        (get("/posts"), None),
        (Request::post("/posts", "a"), Some("sampled")),
        (get("/?status=404"), Some("sampled")),
        (get("/?status=403"), None),
        (get("/?status=418"), Some("always")),
        (get("/?status=599"), Some("always")),
        (get("/?delay=110"), Some("always")),
        (get("/audit/a"), Some("always")),
        (get("/audit/a?status=403"), None),
        (grpc("0"), None),
        (grpc("13"), Some("always")),
        (get("/").header("x-echo-header", "grpc-status: 13"), None),
    ];
    for (number, (request, _)) in rows.iter().enumerate() {
        client::send(gateway.addr()?, &request.clone().header("x-number", number.to_string())).await?;
    }
    let expected = rows.iter().filter(|(_, why)| why.is_some()).count();
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    let all = lines_when(&gateway.envoy, |lines| lines.len() >= expected).await?;
    for (number, (request, why)) in rows.iter().enumerate() {
        let line = all.iter().find(|line| line["number"] == json!(number.to_string()));
        assert_eq!(line.and_then(|line| line["why"].as_str()), *why, "{} {}", request.method, request.path);
        assert!(line.is_none_or(|line| line["sample_rate"] == 1), "{line:?}");
    }
    assert_eq!(all.len(), expected);
    end(gateway).await
}

/// A reason to log that is given by what a filter of ours has noted.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_filter_refuses_is_logged_where_that_is_asked_for() -> anyhow::Result<()> {
    use crate::local_rate_limit::LOCAL_RATE_LIMIT;
    let plugin = json!({ "always": [{ "refused": "any" }], "percent_sampled": 0 });
    for (mode, status) in [("enforce", 429), ("shadow", 200)] {
        let limit = json!({ "mode": mode, "rate": "1/h" });
        let gateway = start_with(&plugin, &Gateway::options(), |config| {
            super::insert(config, &LOCAL_RATE_LIMIT, &limit, 1)
        })
        .await?;
        for expected in [200, status] {
            assert_eq!(client::send(gateway.addr()?, &Request::get("/")).await?.status, expected);
        }
        let all = lines_when(&gateway.envoy, |lines| !lines.is_empty()).await?;
        assert_eq!(all.len(), 1);
        assert_eq!((&all[0]["status"], &all[0]["why"]), (&json!(status), &json!("always")), "{mode}");
        // In shadow mode nobody has refused it.
        let told = match mode {
            "shadow" => [Value::Null, Value::Null],
            _ => [json!("local_rate_limit"), json!("default")],
        };
        assert_eq!([&all[0]["refused_by"], &all[0]["reason"]], told.each_ref(), "{mode}");
        end(gateway).await?;
    }
    Ok(())
}

/// What ships.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_configuration_logs_errors_and_some_of_the_rest() -> anyhow::Result<()> {
    let gateway = Gateway::start(&SAMPLED_LOG, Ok).await?;
    let counts = crowd(gateway.addr()?, 4, |_, number| match number {
        0..500 => Some(Request::get("/orders")),
        500..510 => Some(Request::get("/orders?status=500")),
        510..600 => Some(Request::get("/health")),
        _ => None,
    })
    .await?;
    assert_eq!(counts, statuses(&[(200, 2360), (500, 40)]));
    gateway.envoy.wait_for_stat("http.ingress.downstream_rq_active", |count| count == 0, SOON).await?;
    let all = lines(&gateway.envoy)?;
    let errors = all.iter().filter(|line| line["status"] == 500 && line["sample_rate"] == 1).count();
    assert_eq!(errors, 40);
    assert!(all.iter().all(|line| line["path"] == "/orders"));
    assert_likely(all.len() - errors, 2000, 0.1);
    let page = gateway.envoy.admin_get("/stats/prometheus").await?;
    let told = "foregate_sampled_log_lines{foregate_why=\"always\"} 40";
    assert!(page.lines().any(|line| line == told), "{told}\nin\n{page}");
    end(gateway).await
}
