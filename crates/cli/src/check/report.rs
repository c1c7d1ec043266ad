//! What a check of configurations finds, and how it is shown.
//!
//! As JSON, one object:
//! - `files`: for each file `{"file", "error", "plugins", "passed_over"}`; `error` is why it could not be checked, or
//!   `null`; `passed_over` are the names of Wasm plugins that are none of Foregate's;
//! - a plugin is `{"path", "line", "name", "filter", "verdict", "problems", "explanation"}`: where it is in the file,
//!   what it is called (`null` where it has no name), which of Foregate's filters it is, `"good"` or `"refused"`, what
//!   was found, and what the filter does, in sentences;
//! - a problem is `{"severity", "line", "path", "message"}`: `"error"` or `"warning"`; the path is one in the filter's
//!   own configuration, or begins with `config.` where it is one in Envoy's;
//! - `good`, `refused`, `not_checked` (plugins, plugins, files), `errors`, `warnings`: how many there are.

use serde::Serialize;

use super::plugins::Path;

/// What was found in all files.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Each file, in the order given.
    pub files: Vec<FileReport>,
    /// What counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// How many there are of each.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Plugins whose configuration can be used.
    pub good: usize,
    /// Plugins whose configuration is refused.
    pub refused: usize,
    /// Files in which nothing could be checked.
    pub not_checked: usize,
    /// Problems that make a configuration be refused.
    pub errors: usize,
    /// What looks wrong but need not be.
    pub warnings: usize,
}

/// What was found in a file.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// Its name, as given.
    pub file: String,
    /// Why it could not be checked.
    pub error: Option<String>,
    /// Foregate's plugins in it.
    pub plugins: Vec<PluginReport>,
    /// Other Wasm plugins in it.
    pub passed_over: Vec<String>,
}

/// What was found of a plugin.
#[derive(Debug, Serialize)]
pub struct PluginReport {
    /// Where it is; empty where the file is the filter's own configuration.
    #[serde(serialize_with = "full_path")]
    pub path: Path,
    /// The line where it begins.
    pub line: usize,
    /// What it is called.
    pub name: Option<String>,
    /// Which filter it is.
    pub filter: &'static str,
    /// Whether it can be used.
    pub verdict: Verdict,
    /// All that was found, errors first.
    pub problems: Vec<Finding>,
    /// What the filter does, in sentences.
    pub explanation: Vec<String>,
}

/// Whether a configuration can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It can.
    Good,
    /// It cannot.
    Refused,
}

/// Something that is wrong, or looks so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which of both.
    pub severity: Severity,
    /// The line, from 1.
    pub line: usize,
    /// Where in the filter's configuration, or, from `config.` on, in Envoy's.
    pub path: String,
    /// What, and what to do about it.
    pub message: String,
}

/// How bad something is. What is worse comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can.
    Warning,
}

impl Finding {
    /// Something that is wrong.
    pub fn error(line: usize, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, line, path: path.into(), message: message.into() }
    }

    /// Something that looks wrong.
    pub fn warning(line: usize, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, line, path: path.into(), message: message.into() }
    }
}

impl PluginReport {
    /// The verdict that follows from what was found.
    pub fn new(
        path: Path,
        line: usize,
        name: Option<String>,
        filter: &'static str,
        problems: Vec<Finding>,
    ) -> Self {
        let mut problems = problems;
        problems.sort_by_key(|problem| problem.severity);
        let refused = problems.first().is_some_and(|problem| problem.severity == Severity::Error);
        let verdict = if refused { Verdict::Refused } else { Verdict::Good };
        Self { path, line, name, filter, verdict, problems, explanation: Vec::new() }
    }
}

impl Report {
    /// Counts what was found.
    pub fn new(files: Vec<FileReport>) -> Self {
        let mut counts = Counts::default();
        for file in &files {
            counts.not_checked += usize::from(file.error.is_some());
            for plugin in &file.plugins {
                match plugin.verdict {
                    Verdict::Good => counts.good += 1,
                    Verdict::Refused => counts.refused += 1,
                }
                for problem in &plugin.problems {
                    match problem.severity {
                        Severity::Error => counts.errors += 1,
                        Severity::Warning => counts.warnings += 1,
                    }
                }
            }
        }
        Self { files, counts }
    }

    /// For people: each plugin, its problems under it; the counts as the last line. Nothing of files that could not be
    /// checked but their number.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for file in &self.files {
            for plugin in &file.plugins {
                let verdict = match plugin.verdict {
                    Verdict::Good => "good",
                    Verdict::Refused => "refused",
                };
                lines.push(format!("{}{}: {verdict}", file.file, plugin.title()));
                lines.extend(plugin.problems.iter().map(|problem| format!("  {}", problem.text())));
                lines.extend(plugin.explanation.iter().map(|sentence| format!("  {sentence}")));
            }
            let other = |name: &String| format!("{}: {name}: no Foregate filter, passed over", file.file);
            lines.extend(file.passed_over.iter().map(other));
        }
        lines.push(self.counts.text());
        lines.join("\n") + "\n"
    }

    /// For programs: see the module's documentation.
    pub fn json(&self) -> String {
        // Its keys are all strings, which is all that can go wrong.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl PluginReport {
    /// `:28: static_resources.listeners[0]...http_filters[0] jwt_reject`
    fn title(&self) -> String {
        let path = self.path.short();
        let place = if path.is_empty() { String::new() } else { format!(":{}: {path}", self.line) };
        let separator = if path.is_empty() { ":" } else { "" };
        match &self.name {
            Some(name) if name != self.filter => format!("{place}{separator} {name} ({})", self.filter),
            _ => format!("{place}{separator} {}", self.filter),
        }
    }
}

impl Finding {
    /// `line 42: providers.main: unknown field`
    fn text(&self) -> String {
        let mark = if self.severity == Severity::Warning { "warning: " } else { "" };
        let path = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        format!("line {}: {mark}{path}{}", self.line, self.message)
    }
}

impl Counts {
    fn text(&self) -> String {
        let of = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let mut text = of(self.good + self.refused, "plugin");
        text.push_str(&format!(": {} good, {} refused", self.good, self.refused));
        text.push_str(&format!("; {}, {}", of(self.errors, "error"), of(self.warnings, "warning")));
        if self.not_checked > 0 {
            text.push_str(&format!("; {} not checked", of(self.not_checked, "file")));
        }
        text
    }
}

fn full_path<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.full())
}
