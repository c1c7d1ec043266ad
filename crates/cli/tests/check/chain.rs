//! A chain: its filters' problems with their places, and what it is by its configuration.

use super::command::{foregate, foregate_in};
use super::{configured, plugin, with_modules};

fn chain(config: &str) -> String {
    plugin("foregate", "dist/foregate.wasm", config)
}

const LIMITS: &str = "filters: [{ local_rate_limit: { rate: 10/s } }]";
const LOGS: &str = "filters: [{ sampled_log: {} }, { local_rate_limit: { rate: 10/s } }]";
const GUARDS: &str = "filters: [{ header_rewrite: { request_mutations: [{ remove: x-a }] } }]";

#[test]
fn problems_of_its_filters_are_found_with_their_lines() {
    let text = "\
filters:
- local_rate_limit:
    rate: 10/s
    descriptors:
    - { entries: [method], rate: often }
- name: first try
  header_rewrite:
    request_mutations:
    - remove: te
- name: ok
  sampled_log:
    percent_sampled: 1
    hash_key: unused
- jwt_reject: { rules: [] }
  sampled_logs: {}
";
    let (code, out, err) = foregate(&["check", "--filter", "foregate", "-"], text);
    let expected = [
        "line 5: filters[0].local_rate_limit.descriptors[0].rate: \"often\" is not a rate; ",
        "line 6: filters[1].name: \"first try\" must be a letter and up to 63 letters, digits, - and _",
        "line 9: filters[1].header_rewrite.request_mutations[0].remove: \"te\" is Envoy's own",
        "line 14: filters[3].jwt_reject: `providers` is missing",
        "line 14: filters[3].jwt_reject.rules: must not be empty",
        "filters[3]: unknown field `sampled_logs`; did you mean `sampled_log`?",
        "1 plugin: 0 good, 1 refused; 6 errors, 0 warnings",
    ];
    assert_eq!((code, err.as_str()), (1, ""));
    for part in expected {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert_eq!(out.lines().count(), expected.len() + 1, "{out}");
    let unused = "filters: [{ sampled_log: { percent_sampled: 1, hash_key: unused } }]";
    let (code, out, _) = foregate(&["check", "--filter", "foregate", "-"], unused);
    assert!(code == 0 && out.contains("warning: filters[0].sampled_log.hash_key: has no effect"), "{out}");
}

#[test]
fn it_guards_if_one_of_its_filters_does() {
    let files = with_modules();
    let warning = "is what `failure_policy: FAIL_OPEN` is written as now";
    for (config, unchecked) in [(LIMITS, false), (LOGS, false), (GUARDS, true), ("filters: []", true)] {
        let open =
            configured(&format!("{{ {config} }}")).replace("failure_policy: FAIL_RELOAD", "fail_open: true");
        let (_, out, err) = foregate_in(files.folder(), &["check", "-"], chain(&open));
        assert_eq!(err, "");
        assert!(out.contains(warning), "{out}");
        assert_eq!(out.contains("requests pass unchecked"), unchecked, "{out}");
    }
}

#[test]
fn it_is_an_access_logger_if_one_of_its_filters_logs() {
    let files = with_modules();
    for (config, does_nothing) in [(LIMITS, true), (GUARDS, true), (LOGS, false)] {
        let text = chain(&configured(&format!("{{ {config} }}")))
            .replace("filters.http.wasm.v3.Wasm", "access_loggers.wasm.v3.WasmAccessLog");
        let (code, out, err) = foregate_in(files.folder(), &["check", "-"], &text);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(out.contains("foregate does nothing here, as an access logger"), does_nothing, "{out}");
    }
}

#[test]
fn those_of_its_filters_that_can_be_told_are() {
    let text = "\
filters:
- local_rate_limit: { rate: 10/s }
- header_rewrite: { request_mutations: [{ remove: x-a }] }
- name: behind
  header_rewrite: { response_mutations: [{ remove: x-b }] }
";
    let (code, out, err) = foregate(&["check", "--filter", "foregate", "--explain", "-"], text);
    let expected = "\
standard input: foregate: good
  filter 2, header_rewrite: request 1: remove headers whose name is \"x-a\"
  filter 3, header_rewrite behind: response 1: remove headers whose name is \"x-b\"
1 plugin: 1 good, 0 refused; 0 errors, 0 warnings
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
}
