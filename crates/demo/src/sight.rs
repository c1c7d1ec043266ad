//! What is to be seen of a request where it arrived, or of its answer.

use real_envoy::client::Response;
use serde_json::Value;

/// Something that a stop shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sight {
    /// The path that arrived, with its query.
    Path(&'static str),
    /// The values that arrived under this name; none where that did not arrive.
    Arrived(&'static str, &'static [&'static str]),
    /// The values that the answer has under this name; none where that is not in it.
    Answered(&'static str, &'static [&'static str]),
}

impl Sight {
    /// Whether it is to be seen.
    pub(crate) fn is_in(self, answer: &Response) -> bool {
        match self {
            Self::Path(path) => arrived_path(answer).as_deref() == Some(path),
            Self::Arrived(name, values) => arrived(answer, name) == values,
            Self::Answered(name, values) => answer.header(name) == values,
        }
    }

    /// What is to be seen in its place, as a line.
    pub(crate) fn found(self, answer: &Response) -> String {
        match self {
            Self::Path(_) => format!("arrived as {}", arrived_path(answer).unwrap_or_default()),
            Self::Arrived(name, _) => told("arrived with", name, &arrived(answer, name)),
            Self::Answered(name, _) => told("answered with", name, &answer.header(name)),
        }
    }
}

fn told(how: &str, name: &str, values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{name}: {value}")).collect();
    if values.is_empty() { format!("{how} no {name}") } else { format!("{how} {}", values.join(" | ")) }
}

/// The path that the upstream says it received.
fn arrived_path(answer: &Response) -> Option<String> {
    Some(answer.json().ok()?.get("path")?.as_str()?.to_owned())
}

/// The values of a header that the upstream says it received.
fn arrived(answer: &Response, name: &str) -> Vec<String> {
    let received = answer.json().unwrap_or_default();
    let headers = received.get("headers").and_then(Value::as_array);
    let value = |line: &Value| {
        let is_it = line.get(0).and_then(Value::as_str) == Some(name);
        is_it.then(|| line.get(1).map(|value| value.as_str().unwrap_or("(no text)").to_owned())).flatten()
    };
    headers.into_iter().flatten().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sights_are_seen_and_told() {
        let body = r#"{"path": "/a?b", "headers": [["x", "1"], ["y", "2"], ["x", "3"]]}"#;
        let headers =
            vec![("set-cookie".to_owned(), b"a".to_vec()), ("set-cookie".to_owned(), b"b".to_vec())];
        let answer = Response { status: 200, headers, body: body.into(), trailers: Vec::new() };
        let rows = [
            (Sight::Path("/a?b"), true, "arrived as /a?b"),
            (Sight::Path("/a"), false, "arrived as /a?b"),
            (Sight::Arrived("x", &["1", "3"]), true, "arrived with x: 1 | x: 3"),
            (Sight::Arrived("x", &["1"]), false, "arrived with x: 1 | x: 3"),
            (Sight::Arrived("z", &[]), true, "arrived with no z"),
            (Sight::Arrived("y", &[]), false, "arrived with y: 2"),
            (Sight::Answered("set-cookie", &["a", "b"]), true, "answered with set-cookie: a | set-cookie: b"),
            (Sight::Answered("set-cookie", &["a, b"]), false, "answered with set-cookie: a | set-cookie: b"),
            (Sight::Answered("x", &[]), true, "answered with no x"),
        ];
        for (sight, seen, found) in rows {
            assert_eq!((sight.is_in(&answer), sight.found(&answer).as_str()), (seen, found), "{sight:?}");
        }
    }
}
