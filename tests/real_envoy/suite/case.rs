//! What a case file holds. Unknown keys are errors.
//!
//! ```yaml
//! plugin:                       # the plugin's configuration; without it, the shipped one
//!   ...
//! hcm: { merge_slashes: false } # fields of the connection manager to replace
//! values:                       # texts that requests refer to as ${name}; how they are made
//!   good: { key: p256 }         # is the filter's own business (for JWTs, see jwt/token.rs)
//! cases:
//! - name: AcceptsAGoodToken
//!   request: { path: /orders, headers: ["authorization: Bearer ${good}"] }
//!   expect: { answer: verified, upstream: { headers: { authorization: null } } }
//! ```
//! Each case runs over HTTP/1.1 and over HTTP/2, unless it says `http: [h1]`, and it runs in every
//! [`Setup`](super::Setup), with the same expectations. `path` may be a list:
//! the case then runs for each. `answers.yaml` beside the case files names common expectations,
//! which `answer` refers to and the other members of `expect` refine.
//!
//! A case may be a whole kind: with `each: { claim: [exp, nbf], number: [-1, '"x"'] }` it runs for
//! every combination, and `${claim}` and `${number}` stand for these texts everywhere in it, also in
//! `values` of its own and in `answer`. `${once}` is another text each time that a case runs, so that what the
//! gateway remembers of one run is no part of the next. With `then`, a list of further `expect`, the request is
//! sent again for each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use base64ct::{Base64, Encoding as _};
use real_envoy::client;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Behaviour;
use super::expect::Expectations;

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseFile {
    /// The plugin's configuration.
    pub(crate) plugin: Option<Value>,
    /// Whether the plugin's configuration is given as JSON text in a StringValue instead of a Struct.
    #[serde(default)]
    pub(crate) plugin_as_text: bool,
    /// Fields of the HTTP connection manager to replace.
    #[serde(default)]
    pub(crate) hcm: Map<String, Value>,
    /// Texts that are made for this file.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, Value>,
    /// The cases.
    pub(crate) cases: Vec<Case>,
}

/// A case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What the gateway does, as a sentence.
    pub(crate) name: String,
    /// Over which protocols.
    #[serde(default = "both")]
    pub(crate) http: Vec<Http>,
    /// Texts that it runs with, every combination.
    #[serde(default)]
    pub(crate) each: BTreeMap<String, Vec<Value>>,
    /// Texts that are made for this case, for each combination anew.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, Value>,
    /// What is sent.
    #[serde(default)]
    pub(crate) request: RequestSpec,
    /// What must come of it.
    pub(crate) expect: Expectations,
    /// What must come of it when it is sent again, as often as this list is long.
    #[serde(default)]
    pub(crate) then: Vec<Expectations>,
}

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Http {
    H1,
    H2,
}

fn both() -> Vec<Http> {
    vec![Http::H1, Http::H2]
}

impl Case {
    /// What `each` stands for, one after the other; without it, nothing, once.
    pub(crate) fn combinations(&self) -> Vec<BTreeMap<String, String>> {
        let mut combinations = vec![BTreeMap::new()];
        for (name, texts) in &self.each {
            let with = |text: &Value| {
                let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
                combinations.iter().cloned().map(move |mut combination| {
                    combination.insert(name.clone(), text.clone());
                    combination
                })
            };
            combinations = texts.iter().flat_map(with).collect();
        }
        combinations
    }
}

/// A request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RequestSpec {
    method: String,
    /// One, or several to be sent one after the other.
    path: OneOrMore,
    authority: String,
    headers: Vec<Header>,
    body: String,
}

impl Default for RequestSpec {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            path: OneOrMore::One("/".to_owned()),
            authority: "gateway.example".to_owned(),
            headers: Vec::new(),
            body: String::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// `name: value`, or bytes that YAML cannot hold.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Header {
    Line(String),
    Bytes { name: String, base64: String },
}

/// What tells one request from another in the access log.
pub(crate) const CASE_HEADER: &str = "x-case";

impl RequestSpec {
    /// The requests, with `${name}` filled in by `fill`; `number` tells the first from others.
    pub(crate) fn requests(
        &self,
        http: Http,
        mut number: impl FnMut() -> u64,
        fill: impl Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<Vec<(u64, client::Request)>> {
        let paths = match &self.path {
            OneOrMore::One(path) => std::slice::from_ref(path),
            OneOrMore::More(paths) => paths,
        };
        let mut requests = Vec::new();
        for path in paths {
            let number = number();
            let mut request = client::Request::new(&self.method, &fill(path)?)
                .over(match http {
                    Http::H1 => client::Http::H1,
                    Http::H2 => client::Http::H2,
                })
                .authority(&self.authority)
                .header(CASE_HEADER, number.to_string());
            for header in &self.headers {
                request = match header {
                    Header::Line(line) => {
                        let line = fill(line)?;
                        let (name, value) =
                            line.split_once(':').with_context(|| format!("no header: {line:?}"))?;
                        request.header(name, value.strip_prefix(' ').unwrap_or(value))
                    }
                    Header::Bytes { name, base64 } => {
                        let bytes = Base64::decode_vec(base64);
                        request.header(name, bytes.map_err(|_| anyhow::anyhow!("not base64: {base64:?}"))?)
                    }
                };
            }
            request.body = fill(&self.body)?.into_bytes();
            requests.push((number, request));
        }
        Ok(requests)
    }
}

/// The files of a behaviour.
pub(crate) struct Cases {
    folder: PathBuf,
}

const ANSWERS: &str = "answers";

impl Cases {
    pub(crate) fn of(behaviour: &Behaviour) -> Self {
        Self { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(behaviour.folder) }
    }

    /// The names of the case files, without `.yaml`.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.folder.read_dir().with_context(|| format!("no folder {}", self.folder.display()))? {
            let path = entry?.path();
            ensure!(path.extension().is_some_and(|it| it == "yaml"), "{} is no case file", path.display());
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
        names.retain(|name| name != ANSWERS);
        names.sort();
        Ok(names)
    }

    /// One of the files.
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<CaseFile> {
        self.parse(name)
    }

    /// The expectations that `answer` refers to, by name.
    pub(crate) fn answers(&self) -> anyhow::Result<BTreeMap<String, Expectations>> {
        self.parse(ANSWERS)
    }

    /// The file of that name, as a person would look for it.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("tests/cases/{}/{name}.yaml", self.folder.file_name().unwrap_or_default().to_string_lossy())
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let path = self.folder.join(format!("{name}.yaml"));
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
    }
}

#[test]
fn unknown_keys_are_errors() {
    let read = |text: &str| serde_saphyr::from_str::<CaseFile>(text).map(|_| ());
    assert!(read("cases: [{name: A, request: {path: /}, expect: {status: 200}}]").is_ok());
    for text in [
        "cases: []\nvalue: {}",
        "cases: [{name: A, expect: {}, requests: {}}]",
        "cases: [{name: A, expect: {}, request: {paths: /}}]",
        "cases: [{name: A, expect: {}, request: {headers: [{name: a, base64: AA==, bytes: 1}]}}]",
        "cases: [{name: A, expect: {state: 200}}]",
        "cases: [{name: A, expect: {upstream: {header: {}}}}]",
        "cases: [{name: A, expect: {}, http: [h3]}]",
        "cases: [{name: A}]",
        "cases: [{name: A, expect: {}, each: [a]}]",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_case_is_every_combination_of_what_it_names() {
    let of = |each: &str| {
        let text = format!("cases: [{{name: A, expect: {{}}, each: {each}}}]");
        let file: CaseFile = serde_saphyr::from_str(&text).unwrap();
        let shown = |combination: BTreeMap<String, String>| {
            combination.into_iter().map(|(name, text)| name + "=" + &text).collect::<Vec<_>>().join(" ")
        };
        file.cases[0].combinations().into_iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(of("{}"), [""]);
    assert_eq!(of("{a: [x, 1], b: [null, '\"']}"), ["a=x b=null", "a=1 b=null", "a=x b=\"", "a=1 b=\""]);
    assert!(of("{a: []}").is_empty());
}
