//! `summary.md`: all tables, and `README.md`: what was run, where and how.

use std::fmt::Write as _;

use crate::report::json::Summary;
use crate::report::method;
use crate::report::tables::{self, Table, shown};

/// All tables.
pub(crate) fn summary(summary: &Summary) -> String {
    let mut out = "# What each filter costs\n\n".to_owned();
    if let Some(warning) = summary.noise.warning() {
        let _ = writeln!(out, "**{}**\n", text(&warning));
    }
    let _ = writeln!(out, "How it was measured, and what the figures mean: [README.md](README.md).");
    for workload in &summary.workloads {
        let _ = write!(out, "\n## {}: {}\n\n", text(&workload.name), text(&workload.what));
        out.push_str(&table(&tables::costs(workload)));
        if let Some(loads) = tables::loads(workload) {
            let rate = tables::rate(workload).unwrap_or_default();
            let _ = write!(out, "\nThroughput, and {}:\n\n{}", text(&rate), table(&loads));
        }
        let notes = tables::notes(workload);
        if !notes.is_empty() {
            out.push('\n');
        }
        for note in notes {
            let _ = writeln!(out, "- {}", text(&note));
        }
    }
    for experiment in &summary.experiments {
        let [a, b] = &experiment.pair;
        let _ = write!(out, "\n## {}: {}\n\n", text(&experiment.name), text(&experiment.what));
        let mut rows = vec![vec![String::new(), a.clone(), b.clone(), "change %".to_owned()]];
        rows.extend(experiment.figures.iter().map(|it| {
            let name = format!("{}, {}", it.what, it.unit);
            vec![name, shown(Some(it.a), 1), shown(Some(it.b), 1), shown(Some(it.change_percent), 1)]
        }));
        let _ = write!(out, "{}\nClaim: {}\n\n", table(&rows), text(&experiment.claim));
        for line in &experiment.beside {
            let _ = writeln!(out, "- {}", text(line));
        }
    }
    out
}

/// What was run, where and how.
pub(crate) fn readme(name: &str, summary: &Summary) -> String {
    let mut out = format!("# {}\n\n```\n{}\n\n", text(name), summary.command);
    for (what, told) in method::facts(summary) {
        let _ = writeln!(out, "{what:<10} {told}");
    }
    out.push_str("```\n\n");
    if let Some(warning) = summary.noise.warning() {
        let _ = writeln!(out, "**{}**\n", text(&warning));
    }
    for paragraph in method::PARAGRAPHS {
        let _ = writeln!(out, "{paragraph}\n");
    }
    out.push_str(
        "Tables: [summary.md](summary.md). The same with plots: [report.html](report.html). For programs: \
         [summary.json](summary.json), described in `benches/SUMMARY.md`. Every figure of every round: \
         [raw.csv](raw.csv).\n",
    );
    out
}

pub(crate) fn table(rows: &Table) -> String {
    let mut out = String::new();
    for (place, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| text(cell)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        if place == 0 {
            let _ = writeln!(out, "|---|{}", "---:|".repeat(row.len().saturating_sub(1)));
        }
    }
    out
}

/// Text that means nothing to Markdown: names come from file names and command lines.
pub(crate) fn text(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '|' | '<' | '*' | '`' | '\\' => out.extend(['\\', character]),
            '\n' | '\r' => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::summary as example;

    #[test]
    fn all_rows_of_a_table_are_as_long_as_its_heads() {
        let text = summary(&example());
        let mut columns = None;
        for line in text.lines() {
            let count = line.replace("\\|", "").matches('|').count();
            match (line.starts_with('|'), columns) {
                (true, Some(columns)) => assert_eq!(count, columns, "{line}\n{text}"),
                (true, None) => columns = Some(count),
                (false, _) => columns = None,
            }
        }
        assert!(text.contains("| jwt_reject | 45.0 [45.0, 46.0] |"), "{text}");
        assert!(text.contains("## forged-repeated: one forged \\<token> & \"more\"\n"), "{text}");
        assert!(text.contains("**Read the intervals with care: an interval of 95 % takes 6"), "{text}");
    }

    #[test]
    fn a_hostile_name_stays_in_its_cell() {
        let mut summary = example();
        summary.workloads[0].rivals[3].name = "a|b\n# <script>".to_owned();
        let text = super::summary(&summary);
        assert!(text.contains("| a\\|b # \\<script> |"), "{text}");
    }

    #[test]
    fn the_readme_tells_command_machine_and_modules() {
        let text = readme("2026-12-01-x", &example());
        for part in [
            "# 2026-12-01-x\n",
            "\ncargo xtask bench --only forged-repeated\n",
            "\nmachine    A processor, 2 cores",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("\nmodule     jwt_reject: sha256 abc\n"), "{text}");
    }
}
