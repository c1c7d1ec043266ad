//! What libFuzzer prints, read.

use std::collections::VecDeque;

/// The most lines that are kept of what was printed, for the case that a law is broken.
const KEPT: usize = 40;

/// What became of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Whether it ended as it should.
    pub(super) passed: bool,
    /// The inputs that broke a law, as paths from the workspace's root, where the fuzzer runs.
    artifacts: Vec<String>,
    /// The last line that says how far it is.
    progress: String,
    runs: Option<u64>,
    seconds: Option<u64>,
    last: VecDeque<String>,
    /// Whether the fuzzer has ended, and what follows is cargo-fuzz on how to call it.
    ended: bool,
}

impl Report {
    /// Reads a line. Returns whether it is for a person to see.
    pub(super) fn take(&mut self, line: &str) -> bool {
        self.ended |= line.starts_with("────");
        if self.last.len() == KEPT && !self.ended {
            self.last.pop_front();
        }
        if !self.ended {
            self.last.push_back(line.to_owned());
        }
        // `#65536	pulse  cov: 3038 ft: 12014 corp: 1433/298Kb lim: 4096 exec/s: 26214 rss: 518Mb`
        let progress = line.starts_with('#') && line.contains(" cov: ");
        if progress {
            line.clone_into(&mut self.progress);
        }
        // `Done 3000000 runs in 61 second(s)`
        let mut words = line.split_whitespace();
        if let (Some("Done"), Some(runs), Some("runs"), Some("in"), Some(seconds)) =
            (words.next(), words.next(), words.next(), words.next(), words.next())
        {
            (self.runs, self.seconds) = (runs.parse().ok(), seconds.parse().ok());
        }
        // `artifact_prefix='...'; Test unit written to fuzz/libfuzzer/artifacts/...`
        if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.artifacts.push(file.trim().to_owned());
        }
        progress && ["INITED", "pulse", "DONE"].iter().any(|word| line.contains(word))
    }

    /// How much was tried and reached, in a line.
    pub(super) fn summary(&self) -> String {
        let part = |name: &str| {
            let (_, after) = self.progress.split_once(&format!(" {name}: "))?;
            after.split_whitespace().next()
        };
        let (Some(runs), Some(seconds)) = (self.runs, self.seconds) else {
            return format!("ended early, at {:?}", self.progress.trim());
        };
        let per_second = runs.checked_div(seconds.max(1)).unwrap_or_default();
        let reached = |name| part(name).unwrap_or("?");
        format!(
            "{runs} runs in {seconds} s ({per_second}/s), {} edges and {} features covered, corpus {}",
            reached("cov"),
            reached("ft"),
            reached("corp")
        )
    }

    /// What went wrong, and how to see it again.
    pub(super) fn failure(&self, target: &str) -> String {
        let mut text = format!("{target} failed; the end of what it printed:");
        for line in &self.last {
            text.push_str("\n    ");
            text.push_str(line);
        }
        for file in &self.artifacts {
            let file = crate::workspace_root().join(file);
            let file = file.display();
            text.push_str(&format!(
                "\nan input that breaks a law: {file}\nto run it again: cargo run --package fuzz-targets -- {target} {file}"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> (Report, usize) {
        let mut report = Report::default();
        let shown = lines.iter().filter(|line| report.take(line)).count();
        (report, shown)
    }

    #[test]
    fn figures_are_read() {
        let (report, shown) = report(&[
            "INFO: Seed: 1",
            "#79\tINITED cov: 1000 ft: 2000 corp: 60/9Kb exec/s: 0 rss: 40Mb",
            "#90\tNEW    cov: 1001 ft: 2003 corp: 61/9Kb lim: 4096 exec/s: 0 rss: 40Mb L: 1/2 MS: 1 -",
            "#3000\tDONE   cov: 1500 ft: 3000 corp: 70/10Kb lim: 4096 exec/s: 1500 rss: 41Mb",
            "Done 3000 runs in 2 second(s)",
        ]);
        assert_eq!(shown, 2);
        assert_eq!(
            report.summary(),
            "3000 runs in 2 s (1500/s), 1500 edges and 3000 features covered, corpus 70/10Kb"
        );
    }

    #[test]
    fn a_broken_law_comes_with_its_input_and_how_to_run_it() {
        let (report, _) = report(&[
            "#7\tNEW    cov: 1 ft: 2 corp: 1/1b",
            "thread panicked",
            "artifact_prefix='fuzz/a/'; Test unit written to /x/crash-1",
            "────",
            "cargo fuzz tmin",
        ]);
        let text = report.failure("jwt_reject_keys");
        assert!(text.contains("    thread panicked\n") && !text.contains("tmin"), "{text}");
        assert!(
            text.ends_with("to run it again: cargo run --package fuzz-targets -- jwt_reject_keys /x/crash-1"),
            "{text}"
        );
        assert!(report.summary().starts_with("ended early, at \"#7"), "{}", report.summary());
    }
}
