//! What arrives.

use real_envoy::client::{self, Request};

use super::collector::{Answer, Batch};
use super::*;
use crate::sampled_log::lines;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// That a value has the members that are allowed, as OpenTelemetry's schema for protobuf JSON has them, no others, and
/// of their types: `string`, `decimal` (a 64-bit number as text), `number`, or what else is done by the caller.
fn check_members(value: &Value, allowed: &[(&str, &str)]) {
    for (name, member) in value.as_object().unwrap() {
        let kind =
            allowed.iter().find(|(own, _)| own == name).unwrap_or_else(|| panic!("{name} in {value}")).1;
        let is_right = match kind {
            "string" => member.is_string(),
            "decimal" => member.as_str().is_some_and(|text| text.parse::<i64>().is_ok()),
            "number" => member.is_number(),
            "bool" => member.is_boolean(),
            "array" => member.is_array(),
            _ => member.is_object(),
        };
        assert!(is_right, "{name} in {value}");
    }
}

fn check_attributes(attributes: &Value) {
    let kinds = [
        ("stringValue", "string"),
        ("intValue", "decimal"),
        ("doubleValue", "number"),
        ("boolValue", "bool"),
    ];
    for attribute in attributes.as_array().unwrap() {
        check_members(attribute, &[("key", "string"), ("value", "object")]);
        check_members(&attribute["value"], &kinds);
        assert_eq!(attribute["value"].as_object().unwrap().len(), 1, "{attribute}");
    }
}

/// That a body is an ExportLogsServiceRequest.
fn check_otlp(batch: &Batch) -> anyhow::Result<()> {
    let body: Value = serde_json::from_str(&batch.body)?;
    check_members(&body, &[("resourceLogs", "array")]);
    for logs in body["resourceLogs"].as_array().unwrap() {
        check_members(logs, &[("resource", "object"), ("scopeLogs", "array")]);
        check_members(&logs["resource"], &[("attributes", "array")]);
        check_attributes(&logs["resource"]["attributes"]);
        for logs in logs["scopeLogs"].as_array().unwrap() {
            check_members(logs, &[("scope", "object"), ("logRecords", "array")]);
            check_members(&logs["scope"], &[("name", "string")]);
            for record in logs["logRecords"].as_array().unwrap() {
                check_members(
                    record,
                    &[
                        ("timeUnixNano", "decimal"),
                        ("observedTimeUnixNano", "decimal"),
                        ("severityNumber", "number"),
                        ("severityText", "string"),
                        ("body", "object"),
                        ("attributes", "array"),
                        ("traceId", "string"),
                    ],
                );
                check_members(&record["body"], &[("stringValue", "string")]);
                check_attributes(&record["attributes"]);
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_arrives_once_as_a_record_of_opentelemetry() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let settings = json!({ "host": "logs.example", "headers": [{ "name": "authorization", "value": "Bearer for-the-collector" }] });
    let gateway = start(collector.addr, &settings).await?;
    send(&gateway, 0, 250).await?;
    wait_for(&gateway, "sent", 2000).await?;
    assert_eq!(counted(&gateway).await?, [2000, 2000, 0, 0, 0]);
    assert_eq!(collector.numbers()?, all(2000));
    let batches = collector.taken();
    println!("{} batches", batches.len());
    assert!(batches.len() < 200, "{} batches", batches.len());
    for batch in &batches {
        assert_eq!(batch.line, "POST logs.example/v1/logs");
        assert_eq!(batch.headers["content-type"], "application/json");
        assert_eq!(batch.headers["authorization"], "Bearer for-the-collector");
        assert!(batch.records()?.len() <= 200);
        check_otlp(batch)?;
    }

    // One of each kind, and its record in full.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    for (number, status, name, severity) in
        [(3000, 200, "INFO", 9), (3001, 404, "WARN", 13), (3002, 503, "ERROR", 17)]
    {
        let request = Request::get(&format!("/orders?status={status}"))
            .header("x-number", number.to_string())
            .header("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01"));
        assert_eq!(client::send(gateway.addr()?, &request).await?.status, status);
        let own = Value::from(number.to_string());
        let is_own = |line: &Value| line["number"] == own;
        let waiting = async {
            loop {
                let last = collector.taken().pop().unwrap();
                if last.lines()?.iter().any(is_own) {
                    return anyhow::Ok(last);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let batch = tokio::time::timeout(SOON, waiting).await??;
        check_otlp(&batch)?;
        let record = &batch.records()?[0];
        let line = &batch.lines()?[0];
        assert_eq!((&record["severityText"], &record["severityNumber"]), (&name.into(), &severity.into()));
        assert_eq!((&record["traceId"], &line["status"]), (&TRACE.into(), &status.into()));
        let attribute = |key: &str| {
            let attributes = record["attributes"].as_array().unwrap();
            attributes.iter().find(|attribute| attribute["key"] == key).map(|attribute| &attribute["value"])
        };
        assert_eq!(attribute("status"), Some(&json!({ "intValue": status.to_string() })));
        assert_eq!(attribute("method"), Some(&json!({ "stringValue": "GET" })));
        assert_eq!(attribute("duration_ms").unwrap()["doubleValue"], line["duration_ms"]);
        assert_eq!(attribute("refused_by"), None);
        let nanos = |name: &str| record[name].as_str().unwrap().parse::<u128>();
        let (time, observed) = (nanos("timeUnixNano")?, nanos("observedTimeUnixNano")?);
        assert!(now < time && time <= observed && observed < now + 5_000_000_000, "{now} {record}");
    }
    // Nothing of it is in Envoy's log.
    assert!(lines(&gateway.envoy)?.is_empty() && complaints(&gateway).is_empty());
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_with_line_feeds_whatever_the_log_level_is() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let options = Options { component_log_levels: "wasm:error", ..Gateway::options() };
    let settings = json!({ "format": "NDJSON", "path": "/in?source=envoy", "max_batch_lines": 50 });
    let gateway = start_on(collector.addr, &settings, &options).await?;
    send(&gateway, 0, 100).await?;
    wait_for(&gateway, "sent", 800).await?;
    assert_eq!(collector.numbers()?, all(800));
    for batch in collector.taken() {
        assert_eq!(batch.line, "POST collector/in?source=envoy");
        assert_eq!(batch.headers["content-type"], "application/x-ndjson");
        assert!(batch.body.ends_with("}\n") && batch.lines()?.len() <= 50);
    }
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_alone_waits_for_its_interval_and_not_for_the_next_second() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let gateway = start(collector.addr, &json!({})).await?;
    let begun = Instant::now();
    for number in 0..8 {
        let request = Request::get("/").header("x-number", number.to_string());
        assert_eq!(client::send(gateway.addr()?, &request).await?.status, 200);
        wait_for(&gateway, "sent", number + 1).await?;
    }
    // A tenth of a second each; with ticks that come once a second it would be eight.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(collector.taken().len(), 8);
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_megabytes_arrives() -> anyhow::Result<()> {
    let collector = Collector::start(Answer::Take).await?;
    let mut plugin = plugin(&json!({
        "flush_interval": "3s", "max_batch_lines": 10_000, "max_batch_bytes": 4_194_304, "max_queued_bytes": 8_388_608,
    }));
    plugin["request_headers"] = json!(["x-long"]);
    plugin["max_field_bytes"] = 8000.into();
    plugin["max_line_bytes"] = 10_000.into();
    let gateway =
        start_with(&plugin, &Gateway::options(), |config| with_collector(config, collector.addr)).await?;
    let counts = crowd(gateway.addr()?, 2, |connection, number| {
        let request = Request::get("/").header("x-number", (connection * 400 + number).to_string());
        (number < 400).then(|| request.header("x-long", "\"".repeat(3000)))
    })
    .await?;
    assert_eq!(counts, statuses(&[(200, 800)]));
    wait_for(&gateway, "sent", 800).await?;
    assert_eq!(collector.numbers()?, all(800));
    let longest = collector.taken().iter().map(|batch| batch.body.len()).max().unwrap();
    assert!(longest > 2_000_000, "{longest} bytes");
    end(gateway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_logger_sends_too() -> anyhow::Result<()> {
    const ACCESS_LOGGER: Behaviour =
        Behaviour { config: "envoy-configs/sampled-log/access-logger.yaml", ..SAMPLED_LOG };
    let collector = Collector::start(Answer::Take).await?;
    let gateway = Gateway::start(&ACCESS_LOGGER, |config| {
        let config = config.plugin_configuration(SAMPLED_LOG.plugin, &plugin(&json!({})))?;
        with_collector(config, collector.addr)
    })
    .await?;
    // Envoy's own filter lets all errors through.
    let counts = crowd(gateway.addr()?, CONNECTIONS, |connection, number| {
        let request =
            Request::get("/orders?status=502").header("x-number", (connection * 20 + number).to_string());
        (number < 20).then_some(request)
    })
    .await?;
    assert_eq!(counts, statuses(&[(502, 160)]));
    wait_for(&gateway, "sent", 160).await?;
    assert_eq!(collector.numbers()?, all(160));
    end(gateway).await
}
