//! `foregate check`: tells what is wrong with a configuration before Envoy sees it.
//!
//! - [`document`]: reads YAML and JSON as Envoy does;
//! - [`plugins`]: finds the Wasm plugins in it;
//! - [`filters`]: the filters, whose own code judges their configuration;
//! - [`surroundings`]: what stands around it;
//! - [`destinations`]: clusters and access loggers that it counts on;
//! - [`report`]: what was found, as text and as JSON.

pub mod destinations;
pub mod document;
pub mod filters;
pub mod plugins;
pub mod report;
pub mod surroundings;
pub mod tree;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use filter_api::config::Problem;

use self::document::Format;
use self::filters::{Known, Nature};
use self::plugins::Plugin;
use self::report::{FileReport, Finding, PluginReport, Report, Severity};
use self::tree::Node;
use crate::terminal;

/// The exit code where something could not be checked: wrong arguments, unreadable files, no plugin in them.
pub const EXIT_NOT_CHECKED: u8 = 2;

/// Larger than any configuration.
const MAX_BYTES: u64 = 64 << 20;

const MORE: &str = "\
FILE is a whole configuration of Envoy, or any part of one that holds Wasm plugins: a listener, a file of LDS, an
EnvoyFilter of Istio. What its name ends in says how it is written: .json is JSON, anything else YAML (or JSON).
Which filter a plugin is, is told by the file of its module (jwt_reject.wasm, in any folder or at any URL), else by its
`name` or `root_id`.

Beside what the filters themselves find wrong:
  error    `fail_open` beside `failure_policy`; a `failure_policy` that there is not; a configuration without
           \"@type\", or of a type that no filter reads
  warning  no `failure_policy`; a module that is not there, seen from the working folder (an absolute path is looked
           at only where its folder exists); one `vm_id` for several modules; the name of another filter; a filter
           that is loaded as something else; a document behind the first, which Envoy does not read; a cluster
           that is not in `static_resources.clusters`, where there are these and no `dynamic_resources`;
           `sink: access_log` in an access logger, or with no access logger that names the line

Exit code: 0 all is good, 1 a configuration is refused, 2 something could not be checked: wrong arguments, a file that
cannot be read, or that holds no plugin of Foregate. 2 goes before 1.

With --json, one object on the standard output:
  files    for each FILE: file; error, why it could not be checked, or null; plugins; passed_over, the names of Wasm
           plugins that are none of Foregate's
  plugins  path, line, name, filter, verdict (\"good\" or \"refused\"), problems, explanation (sentences)
  problems severity (\"error\" or \"warning\"), line, path, message
  good, refused, not_checked, errors, warnings    how many there are: plugins, plugins, files, problems, problems

Examples:
  foregate check envoy.yaml
  kubectl get envoyfilter gateway -o yaml | foregate check --warnings-as-errors -
  foregate check --filter local_rate_limit limits.yaml";

/// Tell what is wrong with a configuration, by the very code of the filters, without Envoy
#[derive(Debug, clap::Args)]
#[command(after_long_help = MORE)]
pub struct Args {
    /// What to check, YAML or JSON; - reads the standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// FILE is the filter's own configuration, without Envoy's around it
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    filter: Option<&'static Known>,
    #[arg(long, help = explain_help())]
    explain: bool,
    /// Exit with 1 where there are warnings
    #[arg(long)]
    warnings_as_errors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `foregate check`.
///
/// # Errors
/// What kept it from checking anything: [`EXIT_NOT_CHECKED`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let standard_input = args.files.iter().filter(|file| is_stdin(file)).count();
    ensure!(standard_input <= 1, "the standard input can be read once only");
    let report = Report::new(args.files.iter().map(|file| args.check(file)).collect());
    let failed = report.counts.refused > 0 || (args.warnings_as_errors && report.counts.warnings > 0);
    if args.json {
        terminal::print(&report.json()).context("cannot write the report")?;
    } else {
        for file in &report.files {
            if let Some(error) = &file.error {
                eprintln!("error: {}", terminal::harmless(&format!("{}: {error}", file.file)));
            }
        }
        if report.files.iter().any(|file| file.error.is_none()) {
            terminal::print(&report.text()).context("cannot write the report")?;
        }
    }
    Ok(match (report.counts.not_checked, failed) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::FAILURE,
        _ => ExitCode::from(EXIT_NOT_CHECKED),
    })
}

impl Args {
    fn check(&self, file: &Path) -> FileReport {
        let name = if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() };
        let format = if file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
            Format::Json
        } else {
            Format::Either
        };
        let checked = read(file).and_then(|text| match self.filter {
            Some(known) => own_configuration(&text, format, known).map(|plugin| (vec![plugin], Vec::new())),
            None => envoy_configuration(&text, format, Path::new("")),
        });
        match checked {
            Ok((mut plugins, passed_over)) => {
                if !self.explain {
                    plugins.iter_mut().for_each(|plugin| plugin.explanation.clear());
                }
                FileReport { file: name, error: None, plugins, passed_over }
            }
            Err(error) => {
                let error = Some(format!("{error:#}"));
                FileReport { file: name, error, plugins: Vec::new(), passed_over: Vec::new() }
            }
        }
    }
}

/// Checks the plugins of an Envoy configuration; `folder` is the one that Envoy is started from. Gives the names of
/// those that are none of Foregate's too.
///
/// # Errors
/// It cannot be read, or holds no plugin of Foregate.
pub fn envoy_configuration(
    text: &str,
    format: Format,
    folder: &Path,
) -> anyhow::Result<(Vec<PluginReport>, Vec<String>)> {
    let documents = document::read(text, format)?;
    ensure!(!documents.is_empty(), "is empty");
    let (mut reports, mut passed_over) = (Vec::new(), Vec::new());
    for (number, document) in documents.iter().enumerate() {
        let plugins = plugins::find(document);
        // Kubernetes reads every document of a file.
        let unread = number > 0 && document.get("apiVersion").is_none();
        for (place, plugin) in plugins.iter().enumerate() {
            let Some(known) = plugin.filter() else {
                passed_over.push(plugin.title().to_owned());
                continue;
            };
            let before = plugins.get(..place).unwrap_or_default();
            reports.push(check_plugin(document, plugin, known, before, unread, folder));
        }
    }
    if reports.is_empty() {
        let found: Vec<String> = match passed_over.as_slice() {
            [] => documents.iter().map(plugins::describe).collect(),
            _ => vec![format!("Wasm plugins of others: {}", passed_over.join(", "))],
        };
        bail!(
            "holds no plugin of Foregate, but this: {}; for a filter's own configuration, say which with --filter",
            found.join("; ")
        );
    }
    Ok((reports, passed_over))
}

fn check_plugin(
    document: &Node,
    plugin: &Plugin<'_>,
    known: &'static Known,
    before: &[Plugin<'_>],
    unread: bool,
    folder: &Path,
) -> PluginReport {
    let mut of_configuration = Vec::new();
    let configuration = surroundings::configuration(plugin, &mut of_configuration);
    let judged = configuration.map(|found| {
        destinations::look(document, plugin, known, &found, &mut of_configuration);
        judge(known, &found.json, found.node, &mut of_configuration)
    });
    let Judged { explanation, nature } = judged.unwrap_or_default();
    let nature = nature.unwrap_or(known.nature);
    let mut findings = surroundings::look(plugin, known, nature, before, folder);
    if unread {
        let message = "Envoy reads the first document of a file alone, and this is not in it";
        findings.push(Finding::warning(plugin.line, "", message));
    }
    findings.extend(of_configuration);
    let name = plugin.name.or_else(|| plugin.config.get("name").and_then(Node::text));
    let mut report =
        PluginReport::new(plugin.path.clone(), plugin.line, name.map(str::to_owned), known.name, findings);
    report.explanation = explanation;
    report
}

/// Checks a filter's own configuration.
///
/// # Errors
/// It cannot be read.
pub fn own_configuration(text: &str, format: Format, known: &'static Known) -> anyhow::Result<PluginReport> {
    let documents = document::read(text, format)?;
    let [document] = documents.as_slice() else {
        match documents.len() {
            0 => bail!("is empty"),
            several => bail!("holds {several} documents; a filter's own configuration is one"),
        }
    };
    ensure!(
        matches!(document.content, tree::Content::Map(_)),
        "is no mapping, which a filter's configuration is"
    );
    let mut findings = Vec::new();
    let judged = judge(known, &surroundings::of_struct(document), document, &mut findings);
    let mut report = PluginReport::new(plugins::Path::default(), document.line, None, known.name, findings);
    report.explanation = judged.explanation;
    Ok(report)
}

/// What a filter makes of its configuration.
#[derive(Debug, Default)]
struct Judged {
    /// What it does, in sentences.
    explanation: Vec<String>,
    /// What it is by it; none where it cannot be used.
    nature: Option<Nature>,
}

/// Has the filter judge its configuration.
fn judge(known: &Known, json: &[u8], node: &Node, findings: &mut Vec<Finding>) -> Judged {
    let verdict = known.configure(json);
    let finding = |severity, problem: Problem| {
        let line = node.line_of(&problem.path);
        Finding { severity, line, path: problem.path, message: problem.message }
    };
    findings.extend(verdict.errors.into_iter().map(|problem| finding(Severity::Error, problem)));
    findings.extend(verdict.warnings.into_iter().map(|problem| finding(Severity::Warning, problem)));
    Judged { explanation: known.explain(json), nature: verdict.nature }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let length = if is_stdin(file) {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    let length = length.context("cannot be read")?;
    ensure!(
        u64::try_from(length).is_ok_and(|length| length <= MAX_BYTES),
        "is larger than {MAX_BYTES} bytes"
    );
    String::from_utf8(bytes).ok().context("is no text in UTF-8")
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn filter(name: &str) -> Result<&'static Known, String> {
    Known::named(name).ok_or_else(|| {
        let known: Vec<&str> = filters::ALL.iter().map(|known| known.name).collect();
        format!("there are {}", known.join(", "))
    })
}

/// What `--explain` does, and for which filters.
fn explain_help() -> String {
    let (told, silent): (Vec<&Known>, Vec<&Known>) =
        filters::ALL.iter().partition(|known| known.is_explained());
    let names = |of: &[&Known]| of.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
    let rest = if silent.is_empty() { String::new() } else { format!("; not yet of {}", names(&silent)) };
    match told.as_slice() {
        [] => "Tell in sentences what a filter does; there is none yet of which it can be told".to_owned(),
        told => format!("Tell in sentences what a filter does: of {}{rest}", names(told)),
    }
}
