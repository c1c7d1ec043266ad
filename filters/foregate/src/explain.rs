//! A list in sentences, for people: those of its filters that can be told.

use serde_json::Value;

/// What the filters of a configuration that can be used do, one sentence for each operation, each led by the filter's
/// place and name: `filter 2, header_rewrite edits: request 1: remove ...`. Empty where it cannot be used, or none of
/// its filters can be told.
pub fn explain(json: &[u8]) -> Vec<String> {
    let Ok(root) = serde_json::from_slice::<Value>(json) else { return Vec::new() };
    if crate::config::read(json).is_err() {
        return Vec::new();
    }
    let filters = root.get("filters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    filters.iter().zip(1_usize..).flat_map(|(filter, number)| explain_filter(filter, number)).collect()
}

fn explain_filter(filter: &Value, number: usize) -> Vec<String> {
    const KIND: &str = "header_rewrite";
    // `null` is the same as absent.
    let Some(own) = filter.get(KIND).filter(|own| !own.is_null()) else { return Vec::new() };
    let name = filter.get("name").and_then(Value::as_str).map(|name| format!(" {name}")).unwrap_or_default();
    let sentences = header_rewrite::explain::explain(own.to_string().as_bytes());
    sentences.into_iter().map(|sentence| format!("filter {number}, {KIND}{name}: {sentence}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_sentence_is_led_by_its_place() {
        let edit = |message: &str| json!({ message: [{ "remove": "x-a" }] });
        let config = json!({ "filters": [
            { "local_rate_limit": { "rate": "1/s" } },
            { "header_rewrite": edit("request_mutations"), "sampled_log": null },
            { "name": "last", "header_rewrite": edit("response_mutations") },
            { "sampled_log": {}, "header_rewrite": null, "name": null },
        ] });
        assert_eq!(
            explain(config.to_string().as_bytes()),
            [
                "filter 2, header_rewrite: request 1: remove headers whose name is \"x-a\"",
                "filter 3, header_rewrite last: response 1: remove headers whose name is \"x-a\"",
            ]
        );
        for text in
            ["", "{}", r#"{"filters":[{"sampled_log":{}}]}"#, r#"{"filters":[{"header_rewrite":{}}]}"#]
        {
            assert!(explain(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
