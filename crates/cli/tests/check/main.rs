//! `foregate check` through the built command: shipped and documented configurations, each kind of problem, what it
//! prints, exit codes, and files that are no configuration.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test, its helpers too"
)]

mod chain;
#[path = "../command/mod.rs"]
mod command;
mod destinations;
mod problems;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use command::{Files, foregate, foregate_in};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Every configuration that is shipped.
fn shipped() -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join("envoy-configs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// The YAML blocks of a document.
fn blocks(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// A folder with the modules in `dist`.
fn with_modules() -> Files {
    let files = Files::new();
    for module in ["jwt_reject", "local_rate_limit", "header_rewrite", "sampled_log", "foregate"] {
        files.write(&format!("dist/{module}.wasm"), "\0asm");
    }
    files
}

/// A plugin's HTTP filter as an item of a list: what is in its `config` beside the name and the code.
fn plugin(name: &str, file: &str, config: &str) -> String {
    format!(
        r#"- name: {name}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
    config:
      name: {name}
      vm_config: {{ vm_id: {name}, code: {{ local: {{ filename: {file} }} }} }}
{config}
"#
    )
}

/// What is in the `config` of a plugin that is as it should be, but for this configuration (YAML's flow form).
fn configured(value: &str) -> String {
    format!(
        r#"      failure_policy: FAIL_RELOAD
      configuration: {{ "@type": type.googleapis.com/google.protobuf.Struct, value: {value} }}"#
    )
}

fn limiter(config: &str) -> String {
    plugin("local_rate_limit", "dist/local_rate_limit.wasm", config)
}

#[test]
fn every_shipped_configuration_is_good() {
    let modules = with_modules();
    let mut plugins = 0;
    for file in shipped() {
        let text = fs::read_to_string(&file).unwrap();
        let (code, out, err) = foregate_in(
            modules.folder(),
            &["check", "--warnings-as-errors", "--explain", file.to_str().unwrap()],
            "",
        );
        if text.contains(".wasm.v3.Wasm") {
            assert_eq!((code, err.as_str()), (0, ""), "{out}");
            assert!(out.ends_with("0 refused; 0 errors, 0 warnings\n"), "{out}");
            plugins += 1;
        } else {
            assert_eq!((code, out.as_str()), (2, ""));
            assert!(err.contains("holds no plugin of Foregate, but this: with the HTTP filters "), "{err}");
        }
    }
    assert!(plugins >= 3);
}

#[test]
fn what_the_readme_tells_to_paste_is_good() {
    let modules = with_modules();
    let blocks = blocks("README.md");
    assert!(blocks.len() >= 2);
    for block in blocks {
        let arguments = ["check", "--warnings-as-errors", "-"];
        let (code, out, err) = foregate_in(modules.folder(), &arguments, &block);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
    }
    for (filter, readme) in [
        ("local_rate_limit", "filters/local-rate-limit/README.md"),
        ("header_rewrite", "filters/header-rewrite/README.md"),
        ("foregate", "filters/foregate/README.md"),
    ] {
        for block in self::blocks(readme) {
            let own = ["check", "--warnings-as-errors", "--filter", filter, "-"];
            let arguments = if block.starts_with("# Envoy\n") { &own[..2] } else { &own[..4] };
            let arguments = [arguments, &["-"]].concat();
            let (code, out, err) = foregate_in(modules.folder(), &arguments, &block);
            assert_eq!((code, err.as_str()), (0, ""), "{block}\n{out}");
        }
    }
}

#[test]
fn the_readme_shows_what_is_printed() {
    let files = with_modules();
    let blocks = blocks("README.md");
    let second: String = blocks[1].lines().map(|line| format!("          {line}\n")).collect();
    let router = "          - name: envoy.filters.http.router";
    let mistakes = [
        (router.to_owned(), format!("{second}{router}")),
        ("issuer: https".into(), "issuerr: https".into()),
        ("path: /health".into(), "path: health".into()),
        ("rate: 100/10s".into(), "rate: 100 per second".into()),
        ("                failure_policy: FAIL_RELOAD\n".into(), String::new()),
    ];
    let text = mistakes.iter().fold(blocks[0].clone(), |text, (from, to)| text.replacen(from, to, 1));
    files.write("envoy.yaml", text);
    let (code, out, _) = foregate_in(files.folder(), &["check", "envoy.yaml"], "");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(code == 1 && readme.contains(&format!("\n```\n{out}```\n")), "{out}");
}

#[test]
fn json_has_the_documented_shape() {
    let files = with_modules();
    let text = limiter(&configured("{ rate: 10/s, status: 200 }").replace("FAIL_RELOAD", "UNSPECIFIED"))
        + &plugin("mine", "dist/mine.wasm", "      x: 1");
    files.write("a.yaml", &text);
    let (code, out, err) = foregate_in(files.folder(), &["check", "--json", "a.yaml", "none.yaml"], "");
    assert_eq!((code, err.as_str(), out.lines().count()), (2, "", 1));
    let report: Value = serde_json::from_str(&out).unwrap();
    let problem = |severity: &str, line: usize, path: &str, message: &str| json!({"severity": severity, "line": line, "path": path, "message": message});
    assert_eq!(
        report,
        json!({
            "files": [
                {
                    "file": "a.yaml",
                    "error": null,
                    "plugins": [{
                        "path": "[0]",
                        "line": 1,
                        "name": "local_rate_limit",
                        "filter": "local_rate_limit",
                        "verdict": "refused",
                        "problems": [
                            problem("error", 8, "status", "200 is not a whole number from 400 to 599"),
                            problem(
                                "warning",
                                7,
                                "config.failure_policy",
                                "is not set, which means FAIL_CLOSED: after a trap a worker answers every request with \
                                 503 until Envoy is started again; write FAIL_RELOAD",
                            ),
                        ],
                        "explanation": [],
                    }],
                    "passed_over": ["mine"],
                },
                {
                    "file": "none.yaml",
                    "error": "cannot be read: No such file or directory (os error 2)",
                    "plugins": [],
                    "passed_over": [],
                },
            ],
            "good": 0, "refused": 1, "not_checked": 1, "errors": 1, "warnings": 1,
        })
    );
}

#[test]
fn a_filters_own_configuration_is_checked_alone() {
    let check = |name: &str, text: &str| foregate(&["check", "--filter", name, "-"], text);
    let good = "standard input: local_rate_limit: good\n1 plugin: 1 good, 0 refused; 0 errors, 0 warnings\n";
    for text in [
        "rate: 10/s\n",
        "{\"rate\": \"10/s\"}",
        "rate: 10/s\nstatus: 0x1AD",
        "{\"rate\": \"10/s\", \"status\": 4.29e2}",
    ] {
        assert_eq!(check("local_rate_limit", text), (0, good.to_owned(), String::new()), "{text}");
    }
    let (code, out, err) = check("local_rate_limit", "rate: 10/s\n\nstatus: 200\nbody: on\n");
    let expected = "\
standard input: local_rate_limit: refused
  line 3: status: 200 is not a whole number from 400 to 599
  line 4: body: must be a string, not true or false
1 plugin: 0 good, 1 refused; 2 errors, 0 warnings
";
    assert_eq!((code, out.as_str(), err.as_str()), (1, expected, ""));
    // A secret that is no key is not shown.
    let secret = "providers: { main: { issuer: a, local_jwks: { inline_string: s3cr3t-key } } }\nrules: []\n";
    let (code, out, _) = check("jwt_reject", secret);
    assert!(
        code == 1
            && out.contains("line 1: providers.main.local_jwks.inline_string: ")
            && !out.contains("s3cr3t"),
        "{out}"
    );

    let rows = [
        ("", "is empty"),
        ("# nothing", "is empty"),
        ("[]", "is no mapping"),
        ("text", "is no mapping"),
        ("a: 1\n---\nb: 1", "holds 2 documents"),
        ("a: 1\na: 2", "line 2: member \"a\" is given twice, first on line 1"),
    ];
    for (text, wanted) in rows {
        let (code, out, err) = check("local_rate_limit", text);
        assert_eq!((code, out.as_str()), (2, ""), "{text}");
        assert!(err.starts_with("error: standard input: ") && err.contains(wanted), "{err}");
    }
}

#[test]
fn what_a_filter_does_is_told_in_sentences() {
    let text = "\
request_mutations:
- remove: { prefix: x-internal- }
- path: { prefix: /v1/, with: / }
response_mutations:
- set: { name: x-robots-tag, value: noindex }
  status: [\"4xx\", 503]
most_specific_header_mutations_wins: true
";
    let check =
        |more: &[&str]| foregate(&[&["check", "--filter", "header_rewrite", "-"], more].concat(), text);
    let (code, out, err) = check(&["--explain"]);
    let expected = "\
standard input: header_rewrite: good
  line 7: warning: most_specific_header_mutations_wins: has no effect here: there are no mutations of routes; use `match` instead
  request 1: remove headers whose name begins with \"x-internal-\"
  request 2: begin the path with \"/\" if it begins with \"/v1/\", and choose the route anew
  response 1: if the status is 4xx or 503: make x-robots-tag one line, \"noindex\"
1 plugin: 1 good, 0 refused; 0 errors, 1 warning
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
    let report: Value = serde_json::from_str(&check(&["--explain", "--json"]).1).unwrap();
    let sentences = report["files"][0]["plugins"][0]["explanation"].as_array().unwrap().clone();
    assert_eq!(sentences.len(), 3);
    let report: Value = serde_json::from_str(&check(&["--json"]).1).unwrap();
    assert_eq!(report["files"][0]["plugins"][0]["explanation"], json!([]));
    // Of a configuration that is refused nothing is told; of other filters nothing yet, as the help says.
    let refused = foregate(
        &["check", "--filter", "header_rewrite", "--explain", "-"],
        "request_mutations: [{ remove: te }]",
    );
    assert!(refused.0 == 1 && !refused.1.contains("request 1"), "{}", refused.1);
    let (_, out, _) = foregate(&["check", "--filter", "local_rate_limit", "--explain", "-"], "rate: 10/s");
    assert_eq!(out.lines().count(), 2);
    let (_, help, _) = foregate(&["check", "--help"], "");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains(
            "what a filter does: of header_rewrite, foregate; not yet of jwt_reject, local_rate_limit"
        ),
        "{help}"
    );
}

#[test]
fn what_is_no_configuration_is_refused_in_time() {
    let files = Files::new();
    let json = files.write("a.json", "{\"a\": 1, \"a\": 2}");
    let text = files.write("b.json", "a: 1");
    let bomb: String =
        (1..30).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "))).collect();
    let other = plugin("mine", "dist/mine.wasm", "      x: 1");
    let rows: [(&str, Vec<u8>, &str); 16] = [
        ("-", Vec::new(), "standard input: is empty"),
        ("-", b"# nothing\n---\n".into(), "is empty"),
        ("-", b"\x7fELF\x02\x01\xff\xfe".into(), "is no text in UTF-8"),
        ("-", b"\0\0\0\0".into(), "line 1"),
        ("-", b"a: [".into(), "line "),
        ("-", "[".repeat(1_000_000).into(), "line 1"),
        ("-", "{\"a\":".repeat(1_000_000).into(), "line 1"),
        ("-", format!("a0: &a0 [x]\n{bomb}").into(), "too large when its anchors are followed"),
        ("-", b"a: 1\na: 2".into(), "line 2: member \"a\" is given twice"),
        (
            "-",
            b"foo: 1\nbar: 2\n---\n- 1\n---\nkind: Secret".into(),
            "but this: with the members foo, bar; a list of 1; of kind Secret;",
        ),
        (
            "-",
            b"text".into(),
            "but this: no mapping; for a filter's own configuration, say which with --filter",
        ),
        ("-", other.into(), "but this: Wasm plugins of others: mine;"),
        (&json, Vec::new(), "not valid JSON: member \"a\" is given twice"),
        (&text, Vec::new(), "not valid JSON"),
        ("/no/such/file", Vec::new(), "/no/such/file: cannot be read: No such file"),
        ("/", Vec::new(), "/: cannot be read: "),
    ];
    for (file, input, wanted) in rows {
        let (code, out, err) = foregate(&["check", file], &input);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.starts_with("error: ") && err.contains(wanted), "{wanted}: {err}");
    }
}

#[test]
fn all_files_are_checked_whatever_became_of_one() {
    let files = with_modules();
    files.write("good.yaml", limiter(&configured("{ rate: 10/s }")));
    files.write("bad.yaml", limiter(&configured("{ rate: 10 }")));
    files.write("none.yaml", "a: 1");
    let check = |names: &[&str]| foregate_in(files.folder(), &[&["check"], names].concat(), "");
    assert_eq!(check(&["good.yaml", "good.yaml"]).0, 0);
    let (code, out, err) = check(&["good.yaml", "bad.yaml"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.ends_with("\n2 plugins: 1 good, 1 refused; 1 error, 0 warnings\n"), "{out}");
    let (code, out, err) = check(&["none.yaml", "bad.yaml", "good.yaml"]);
    assert_eq!((code, err.lines().count()), (2, 1));
    assert!(
        out.ends_with("\n2 plugins: 1 good, 1 refused; 1 error, 0 warnings; 1 file not checked\n"),
        "{out}"
    );
    assert!(err.starts_with("error: none.yaml: "), "{err}");

    let usage: [&[&str]; 4] = [&[], &["--filter", "jwt", "good.yaml"], &["-", "-"], &["--no"]];
    for arguments in usage {
        let (code, out, err) = check(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
    }
    assert!(
        check(&["--filter", "jwt", "good.yaml"])
            .2
            .contains("there are jwt_reject, local_rate_limit, header_rewrite")
    );
    let (code, out, _) = check(&["--help"]);
    assert!(code == 0 && out.contains("--explain") && out.contains("passed_over"), "{out}");
}
