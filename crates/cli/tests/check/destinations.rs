//! Clusters and access loggers that a filter's configuration counts on.

use std::fs;

use super::command::foregate_in;
use super::{root, with_modules};

/// What is found in a shipped configuration with these changes, which must all be possible.
fn found(file: &str, changes: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut text = fs::read_to_string(root().join("envoy-configs").join(file)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in {file}");
        text = text.replace(from, to);
    }
    let files = with_modules();
    let (code, out, err) = foregate_in(files.folder(), &["check", "-"], &text);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let problems = out.lines().filter(|line| line.starts_with("  line ")).map(str::to_owned).collect();
    (text, problems)
}

/// Holds the only problem of a changed configuration to be this, on the line with this part.
fn assert_found(file: &str, changes: &[(&str, &str)], part: &str, problem: &str) {
    let (text, problems) = found(file, changes);
    let line = text.lines().position(|line| line.contains(part)).unwrap() + 1;
    assert_eq!(problems, [format!("  line {line}: warning: {problem}")], "{changes:?}");
}

#[test]
fn a_sink_that_no_access_logger_takes_lines_from_is_found() {
    let unread = "sink: no `access_log` of its connection manager names wasm.foregate.sampled_log.line, so no line is \
                  written; add one as in envoy-configs/sampled-log/file.yaml, or write another sink";
    let sink = "sink: access_log";
    assert_found("sampled-log/file.yaml", &[("wasm.foregate.sampled_log.line", "wasm.other")], sink, unread);
    assert_found("sampled-log/file.yaml", &[("access_log:", "access_logs:")], sink, unread);
    let rates = "# Logged whatever the rates are.";
    assert_found("sampled-log/wasm.yaml", &[(rates, sink)], sink, unread);
    assert_found(
        "sampled-log/access-logger.yaml",
        &[("# As in Envoy's filter above.", sink)],
        sink,
        "sink: access_log does nothing in an access logger, which has no request to leave a line with: no line is \
         written; load the module as an HTTP filter, as in envoy-configs/sampled-log/file.yaml, or write another sink",
    );
    // Any logger that names it will do, in whatever way, and by either name of its field.
    for changes in [
        &[("access_log:", "accessLog:")][..],
        &[("expression: \"'wasm.foregate.sampled_log.line' in filter_state\"", "expression: \"true\"")],
        &[(
            "inline_string: \"%FILTER_STATE(wasm.foregate.sampled_log.line:PLAIN)%\\n\"",
            "inline_string: \"\"",
        )],
        &[("sink: access_log", "sink: envoy_log"), ("wasm.foregate.sampled_log.line", "wasm.other")],
    ] {
        assert_eq!(found("sampled-log/file.yaml", changes).1, [""; 0], "{changes:?}");
    }
}

#[test]
fn filters_of_a_chain_are_looked_at_one_by_one() {
    let sink = "sink: access_log";
    assert_found(
        "chain/fused.yaml",
        &[("# Logged whatever the rates are.", sink)],
        sink,
        "filters[3].sampled_log.sink: no `access_log` of its connection manager names wasm.foregate.sampled_log.line, so \
         no line is written; add one as in envoy-configs/sampled-log/file.yaml, or write another sink",
    );
    let http = "sink: { http: { cluster: collector, path: / } }";
    let missing = "filters[3].sampled_log.sink.http.cluster: there is no cluster \"collector\" in \
                   `static_resources.clusters`, and without it all lines are lost; add it, or name one that is there";
    assert_found("chain/fused.yaml", &[("# Logged whatever the rates are.", http)], http, missing);
}

#[test]
fn in_a_part_of_a_configuration_access_loggers_may_be_elsewhere() {
    let files = with_modules();
    let filter =
        super::plugin("sampled_log", "dist/sampled_log.wasm", &super::configured("{ sink: access_log }"));
    let (code, out, _) = foregate_in(files.folder(), &["check", "--warnings-as-errors", "-"], &filter);
    assert_eq!(code, 0, "{out}");
    // The one of another connection manager is no help.
    let logger = "access_log: [{ name: a, typed_config: { text: wasm.foregate.sampled_log.line } }]";
    let indented: String = filter.lines().map(|line| format!("  {line}\n")).collect();
    for (text, expected) in [
        (format!("one:\n  {logger}\n  http_filters:\n{indented}"), 0),
        (format!("one:\n  http_filters:\n{indented}other:\n  {logger}\n  http_filters: []\n"), 1),
    ] {
        let (code, out, _) = foregate_in(files.folder(), &["check", "--warnings-as-errors", "-"], &text);
        assert_eq!(code, expected, "{text}\n{out}");
    }
}

#[test]
fn a_cluster_that_is_not_there_is_found() {
    let http = ("sink: access_log", "sink: { http: { cluster: collector } }");
    let problem = |path: &str, name: &str, consequence: &str| {
        format!(
            "{path}: there is no cluster {name:?} in `static_resources.clusters`, and without it {consequence}; add it, \
             or name one that is there"
        )
    };
    let lost = problem("sink.http.cluster", "collector", "all lines are lost");
    assert_found("sampled-log/file.yaml", &[http], "cluster: collector", &lost);
    let names = fs::read_to_string(root().join("envoy-configs/jwt-reject/remote-keys.yaml")).unwrap();
    let cluster = names.lines().find_map(|line| line.trim().strip_prefix("cluster: ")).unwrap();
    let (from, to) = (format!("cluster: {cluster}\n"), "cluster: nowhere\n");
    let (_, problems) = found("jwt-reject/remote-keys.yaml", &[(&from, to)]);
    let [fetched] = &problems[..] else { panic!("{problems:?}") };
    assert!(
        fetched.ends_with(&problem(
            "providers.main.remote_jwks.http_uri.cluster",
            "nowhere",
            "no keys are fetched"
        )),
        "{fetched}"
    );

    // One that is there; clusters that come from elsewhere too; a document that has none.
    for changes in [
        &[("sink: access_log", "sink: { http: { cluster: upstream } }")][..],
        &[
            http,
            (
                "static_resources:\n",
                "dynamic_resources: { cds_config: { path: cds.yaml } }\nstatic_resources:\n",
            ),
        ],
        &[http, ("static_resources:\n", "resources:\n")],
    ] {
        assert_eq!(found("sampled-log/file.yaml", changes).1, [""; 0], "{changes:?}");
    }
}
