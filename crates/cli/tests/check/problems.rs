//! Where plugins are found, and each kind of problem in and around them.

use std::fs;

use super::command::foregate_in;
use super::{configured, limiter, plugin, root, with_modules};

#[test]
fn problems_are_listed_by_plugin_with_their_lines() {
    let files = with_modules();
    let text = fs::read_to_string(root().join("envoy-configs/jwt-reject/wasm.yaml")).unwrap();
    let text =
        text.replace("issuer: ", "issuerr: ").replace("failure_policy: FAIL_RELOAD", "fail_open: true");
    let second = limiter(&configured("{ rate: 10, status: 200 }"));
    let indented: String = second.lines().map(|line| format!("          {line}\n")).collect();
    let router = "          - name: envoy.filters.http.router";
    let text = text.replace(router, &format!("{indented}{router}"));
    let line = |part: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
    files.write("envoy.yaml", &text);
    let (code, out, err) = foregate_in(files.folder(), &["check", "envoy.yaml"], "");
    let expected = format!(
        "\
envoy.yaml:{}: static_resources.listeners[0]...http_filters[0] jwt_reject: refused
  line {}: providers.main: unknown field `issuerr`; did you mean `issuer`?
  line {}: warning: config.fail_open: is what `failure_policy: FAIL_OPEN` is written as now: requests pass unchecked once the filter has failed; FAIL_RELOAD makes the VM anew
envoy.yaml:{}: static_resources.listeners[0]...http_filters[1] local_rate_limit: refused
  line {limit}: status: 200 is not a whole number from 400 to 599
  line {limit}: rate: must be a string, not a number
2 plugins: 0 good, 2 refused; 3 errors, 1 warning
",
        line("- name: jwt_reject"),
        line("main:"),
        line("fail_open"),
        line("- name: local_rate_limit"),
        limit = line("status: 200"),
    );
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!((code, sorted(&out), err.as_str()), (1, sorted(&expected), ""));
    assert!(out.lines().next().unwrap().ends_with("jwt_reject: refused"), "{out}");
    assert!(out.lines().nth(2).unwrap().contains("warning: "), "errors come first: {out}");
}

#[test]
fn each_kind_of_problem_around_a_plugin_is_found() {
    let good = configured("{ rate: 10/s }");
    let file = "dist/local_rate_limit.wasm";
    let bare = "      failure_policy: FAIL_RELOAD\n      configuration: { rate: 10 }";
    let any = |kind: &str, value: &str| {
        let name = format!("type.googleapis.com/google.protobuf.{kind}");
        format!(
            "      failure_policy: FAIL_RELOAD\n      configuration: {{ \"@type\": {name}, value: {value} }}"
        )
    };
    let two = |first: &str, second: &str| {
        let shared = |text: String| text.replace("vm_id: local_rate_limit", "vm_id: \"\\e[2J\"");
        shared(plugin("local_rate_limit", first, &good)) + &shared(plugin("local_rate_limit", second, &good))
    };
    let rows: Vec<(String, i32, &[&str])> = vec![
        (limiter(&good), 0, &[]),
        (limiter(&good.replace("FAIL_RELOAD", "FAIL_OPEN")), 0, &[]),
        (limiter(&good.replace("FAIL_RELOAD", "1")), 0, &[]),
        (limiter(&good).replace("vm_config", "vmConfig").replace("failure_policy", "failurePolicy"), 0, &[]),
        (
            limiter(&good.replace("      failure_policy: FAIL_RELOAD\n", "")),
            0,
            &["line 5: warning: config.failure_policy: is not set, which means FAIL_CLOSED"],
        ),
        (
            limiter(&good.replace("FAIL_RELOAD", "UNSPECIFIED")),
            0,
            &["line 7: warning: config.failure_policy: is not set"],
        ),
        (
            limiter(&good.replace("FAIL_RELOAD", "FAIL_RELAOD")),
            1,
            &["line 7: config.failure_policy: \"FAIL_RELAOD\" must be FAIL_RELOAD, FAIL_CLOSED or FAIL_OPEN"],
        ),
        (
            limiter(&good.replace("FAIL_RELOAD", "FAIL_RELOAD\n      fail_open: true")),
            1,
            &["line 8: config.fail_open: is given beside `failure_policy`"],
        ),
        (limiter(&good.replace("FAIL_RELOAD", "FAIL_RELOAD\n      fail_open: false")), 0, &[]),
        (
            limiter(&good.replace("failure_policy: FAIL_RELOAD", "fail_open: true")),
            0,
            &["line 7: warning: config.fail_open: is what `failure_policy: FAIL_OPEN` is written as now; "],
        ),
        (
            plugin("local_rate_limit", "dsit/local_rate_limit.wasm", &good),
            0,
            &[
                "line 6: warning: config.vm_config.code.local.filename: there is no file \"dsit/local_rate_limit.wasm\"",
            ],
        ),
        (plugin("local_rate_limit", "/no/such/folder/local_rate_limit.wasm", &good), 0, &[]),
        (
            plugin("local_rate_limit", "/local_rate_limit.wasm", &good),
            0,
            &["warning: config.vm_config.code.local.filename: there is no file \"/local_rate_limit.wasm\""],
        ),
        (two(file, file), 0, &[]),
        (
            two(file, "dist/../dist/local_rate_limit.wasm"),
            0,
            &[
                "line 14: warning: config.vm_config.vm_id: \"\\u{1b}[2J\" is also that of local_rate_limit (line 1), whose",
            ],
        ),
        (
            plugin("jwt_reject", file, &good),
            0,
            &["line 5: warning: config.name: is \"jwt_reject\", but the module is that of local_rate_limit"],
        ),
        (
            limiter(&good).replace("filters.http.wasm", "filters.network.wasm"),
            0,
            &["line 1: warning: local_rate_limit does nothing here, as no HTTP filter"],
        ),
        (
            limiter(&good).replace("filters.http.wasm.v3.Wasm", "access_loggers.wasm.v3.WasmAccessLog"),
            0,
            &["line 1: warning: local_rate_limit does nothing here, as an access logger; it belongs into"],
        ),
        (
            format!("a: 1\n---\n{}", limiter(&good)),
            0,
            &["line 3: warning: Envoy reads the first document of a file alone"],
        ),
        (format!("apiVersion: v1\n---\napiVersion: v1\nlist:\n{}", limiter(&good)), 0, &[]),
        (
            limiter(bare),
            1,
            &[
                "line 8: config.configuration: has no `@type`, without which Envoy refuses it",
                "line 8: rate: must be",
            ],
        ),
        (limiter("      failure_policy: FAIL_RELOAD"), 1, &["line 5: the configuration is empty"]),
        (limiter(&configured("{}")), 1, &["line 8: the configuration is empty"]),
        (limiter(&configured("")), 1, &["line 8: the configuration is empty"]),
        (
            limiter(&configured("[]")),
            1,
            &["line 8: config.configuration: the `value` of a Struct must be a mapping"],
        ),
        (limiter(&any("StringValue", "'{\"rate\": \"10/s\"}'")), 0, &[]),
        (limiter(&any("StringValue", "'{\"rate\": 10}'")), 1, &["line 8: rate: must be a string"]),
        (
            limiter(&any("StringValue", "{ rate: 10/s }")),
            1,
            &["line 8: config.configuration: its `value` must be text"],
        ),
        (limiter(&any("BytesValue", "eyJyYXRlIjoiMTAvcyJ9")), 0, &[]),
        (limiter(&any("BytesValue", "'?'")), 1, &["the `value` of a BytesValue must be base64"]),
        (
            limiter(&any("Int32Value", "1")),
            1,
            &["google.protobuf.Int32Value\" is nothing that a Foregate filter can"],
        ),
        (
            limiter(&configured("{ rate: 10/s, status: 200 }")),
            1,
            &["line 8: status: 200 is not a whole number from"],
        ),
        (limiter(&configured("{ rate: 10/s, shadow: yes }")), 1, &["line 8: unknown field `shadow`"]),
    ];
    let files = with_modules();
    for (text, expected, wanted) in rows {
        let (code, out, err) = foregate_in(files.folder(), &["check", "-"], &text);
        assert_eq!((code, err.as_str()), (expected, ""), "{text}\n{out}");
        let problems: Vec<&str> = out.lines().filter(|line| line.starts_with("  line ")).collect();
        assert_eq!(problems.len(), wanted.len(), "{text}\n{out}");
        for (problem, wanted) in problems.iter().zip(wanted) {
            assert!(problem.contains(wanted), "{wanted}\n{out}");
        }
        let warns = problems.iter().any(|problem| problem.contains("warning: "));
        let strict = foregate_in(files.folder(), &["check", "--warnings-as-errors", "-"], &text);
        assert_eq!((strict.0, strict.1), (i32::from(warns || code == 1), out), "{text}");
    }
}

#[test]
fn plugins_are_found_wherever_they_are_and_known_by_their_module_first() {
    let good = configured("{ rate: 10/s }");
    let inline = "code: { local: { inline_string: x } }";
    let of_code = |code: &str, name: &str| {
        limiter(&good)
            .replace("code: { local: { filename: dist/local_rate_limit.wasm } }", code)
            .replace("      name: local_rate_limit", &format!("      {name}"))
    };
    let remote = |uri: &str| format!("code: {{ remote: {{ http_uri: {{ uri: \"{uri}\" }}, sha256: x }} }}");
    let istio = format!(
        "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nspec:\n  configPatches:\n  - applyTo: HTTP_FILTER\n    \
         patch:\n      operation: INSERT_BEFORE\n      value:\n{}",
        limiter(&good)
            .replace("- name", "  name")
            .lines()
            .map(|line| format!("      {line}\n"))
            .collect::<String>()
    );
    let typed_struct = limiter(&good)
        .replace(
            "    \"@type\": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm\n",
            "    \"@type\": type.googleapis.com/udpa.type.v1.TypedStruct\n    type_url: \
             type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm\n    value:\n",
        )
        .replace("\n    config", "\n     config");
    let chains = |filters: &str| {
        let of_chain = |number: usize| {
            format!(
                "  - filters:\n    - typed_config:\n        http_filters:\n{}",
                filters
                    .replace("rate: 10/s", &format!("rate: {number}0/s"))
                    .lines()
                    .map(|l| format!("        {l}\n"))
                    .collect::<String>()
            )
        };
        format!("resources:\n- filter_chains:\n{}{}", of_chain(1), of_chain(2))
            .replace("\n  - filters", "\n  - filters")
    };
    let rows: Vec<(String, &[&str])> = vec![
        (limiter(&good), &["1: [0] local_rate_limit: good"]),
        (
            limiter(&good).replace("- name: local_rate_limit\n  typed", "- typed"),
            &["1: [0] local_rate_limit: good"],
        ),
        (
            limiter(&good).replace("- name: local_rate_limit", "- name: edge"),
            &["1: [0] edge (local_rate_limit): good"],
        ),
        (of_code(inline, "root_id: local_rate_limit"), &["1: [0] local_rate_limit: good"]),
        (of_code(inline, "rootId: local_rate_limit"), &["1: [0] local_rate_limit: good"]),
        (
            of_code(&remote("https://a.example/v1/local_rate_limit.wasm"), "name: x"),
            &["local_rate_limit: good"],
        ),
        (
            of_code(&remote("https://a.example/local_rate_limit.wasm?v=1/2#x"), "name: x"),
            &["local_rate_limit: good"],
        ),
        (
            of_code("code: { local: { filename: /x/y/local_rate_limit.wasm } }", "name: x"),
            &["local_rate_limit: good"],
        ),
        (istio, &["9: spec.configPatches[0].patch.value local_rate_limit: good"]),
        (typed_struct, &["1: [0] local_rate_limit: good"]),
        (
            chains(&limiter(&good)),
            &[
                "6: resources[0].filter_chains[0]...http_filters[0] local_rate_limit: good",
                "filter_chains[1]...http_filters[0] local_rate_limit: good",
            ],
        ),
        (
            limiter(&good) + &plugin("mine", "dist/mine.wasm", "      x: 1"),
            &["1: [0] local_rate_limit: good", "mine: no Foregate filter, passed over"],
        ),
    ];
    let files = with_modules();
    for (text, wanted) in rows {
        let (code, out, err) = foregate_in(files.folder(), &["check", "-"], &text);
        assert_eq!((code, err.as_str()), (0, ""), "{text}\n{out}");
        let found: Vec<&str> = out.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(found.len(), wanted.len() + 1, "{text}\n{out}");
        for (line, wanted) in found.iter().zip(wanted) {
            assert!(line.ends_with(wanted), "{wanted}\n{out}");
        }
    }
}
