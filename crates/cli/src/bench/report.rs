//! What a comparison of two configurations found, as text and as JSON.

use std::fmt::Write as _;

use ::bench::load::CONNECTIONS;
use ::bench::machine::Machine;
use ::bench::pair::{Comparison, Figures, HeldLatency};
use ::bench::statistics::Estimate;

/// A baseline whose turns spread wider than this, in percent, was disturbed.
const STEADY_PERCENT: f64 = 10.0;

/// One object.
pub fn json(comparison: &Comparison) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(comparison)?))
}

/// Where and how it was measured, a table, and what follows from it.
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    let amount = comparison.amount;
    let Machine { processor, cores, kernel, load_average, .. } = &comparison.machine;
    let facts = [
        ("machine", format!("{processor}, {cores} cores, Linux {kernel}; load average {load_average}")),
        ("cores", comparison.pinning.to_string()),
        ("Envoy", format!("{}, one worker", comparison.envoy)),
        ("request", format!("{}, HTTP/1.1, {CONNECTIONS} connections kept open", comparison.request)),
        (
            "amount",
            format!(
                "{} rounds of {} requests each, after {} to warm up",
                amount.rounds, amount.requests, amount.warm_up
            ),
        ),
    ];
    for (name, value) in facts {
        let _ = writeln!(out, "{name:8}  {value}");
    }
    if amount.latency_rounds > 0 {
        let _ = writeln!(
            out,
            "load      for requests a second and latency: {}, {} rounds",
            comparison.load_tool, amount.latency_rounds
        );
    }
    out.push('\n');
    table(&mut out, [&comparison.baseline, &comparison.config]);
    out.push('\n');
    let _ = writeln!(out, "{}", verdict(comparison));
    for remark in &comparison.remarks {
        let _ = writeln!(out, "{remark}");
    }
    if let Some(spread) = comparison.baseline_spread_percent.filter(|spread| *spread > STEADY_PERCENT) {
        let _ = writeln!(
            out,
            "the machine was not quiet: the middle half of the baseline's turns lie {spread:.0} % apart; read the intervals with care, or \
             run it again"
        );
    }
    out
}

fn verdict(comparison: &Comparison) -> String {
    let (config, baseline) = (&comparison.config.name, &comparison.baseline.name);
    let Estimate { median, low, high } = comparison.difference_us;
    if comparison.within_noise {
        return format!(
            "{config} cannot be told from {baseline}: the difference of {median:+.1} us CPU time a request [{low:+.1}, \
             {high:+.1}] is within the noise"
        );
    }
    let (amount, direction) = if median < 0.0 {
        (Estimate { median: -median, low: -high, high: -low }, "less")
    } else {
        (comparison.difference_us, "more")
    };
    format!(
        "{config} takes {} us {direction} CPU time a request than {baseline}: {} times as much",
        shown(amount, 1),
        shown(comparison.ratio, 2)
    )
}

fn table(out: &mut String, rows: [&Figures; 2]) {
    let rate = rows.iter().find_map(|figures| Some(figures.latency_us.as_ref()?.at_requests_per_second));
    let mut heads = vec!["".to_owned(), "CPU us a request".to_owned(), "memory MB".to_owned()];
    if let Some(rate) = rate {
        heads.push("requests a second".to_owned());
        heads.push(format!("us at {rate:.0} a second: p50"));
        heads.extend(["p90", "p99", "p99.9"].map(str::to_owned));
    }
    let row = |figures: &&Figures| {
        let mut row = vec![
            figures.name.clone(),
            shown(figures.cpu_us, 1),
            format!("{:.1}", figures.resident_kb as f64 / 1024.0),
        ];
        if let (Some(requests), Some(latency)) = (figures.requests_per_second, &figures.latency_us) {
            let HeldLatency { p50, p90, p99, p99_9, .. } = latency;
            row.push(shown(requests, 0));
            row.extend([p50, p90, p99, p99_9].map(|percentile| shown(*percentile, 0)));
        }
        row
    };
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(row)).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let _ =
                if column == 0 { write!(line, "  {cell:width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn shown(estimate: Estimate, decimals: usize) -> String {
    let Estimate { median, low, high } = estimate;
    format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}

#[cfg(test)]
mod tests {
    use ::bench::cpu::Pinning;
    use ::bench::pair::Amount;

    use super::*;

    fn around(median: f64) -> Estimate {
        Estimate { median, low: median - 0.5, high: median + 0.5 }
    }

    fn figures(name: &str, cpu: f64) -> Figures {
        Figures {
            name: name.to_owned(),
            status: 200,
            cpu_us: around(cpu),
            requests_per_second: Some(around(9000.0)),
            latency_us: Some(HeldLatency {
                at_requests_per_second: 4500.0,
                p50: around(100.0),
                p90: around(200.0),
                p99: around(300.0),
                p99_9: around(400.0),
            }),
            resident_kb: 51_200,
        }
    }

    fn comparison(difference: f64) -> Comparison {
        Comparison {
            machine: Machine::look(),
            envoy: "1.40.0".to_owned(),
            pinning: Pinning::NotPinned("one core".to_owned()),
            request: "GET /".to_owned(),
            amount: Amount {
                rounds: 10,
                requests: 100,
                warm_up: 0,
                latency_rounds: 2,
                requests_per_second: None,
            },
            load_tool: "oha 1.16.0".to_owned(),
            config: figures("my.yaml", 30.0 + difference),
            baseline: figures("other.yaml", 30.0),
            difference_us: around(difference),
            ratio: Estimate { median: 1.0 + difference / 30.0, low: 0.9, high: 1.4 },
            within_noise: difference.abs() < 0.5,
            baseline_spread_percent: Some(3.0),
            remarks: vec!["a remark".to_owned()],
        }
    }

    #[test]
    fn more_less_and_no_difference_are_told_apart() {
        let rows = [
            (
                6.0,
                "my.yaml takes 6.0 [5.5, 6.5] us more CPU time a request than other.yaml: 1.20 [0.90, 1.40] times",
            ),
            (
                -6.0,
                "my.yaml takes 6.0 [5.5, 6.5] us less CPU time a request than other.yaml: 0.80 [0.90, 1.40] times",
            ),
            (
                0.2,
                "my.yaml cannot be told from other.yaml: the difference of +0.2 us CPU time a request [-0.3, +0.7]",
            ),
        ];
        for (difference, expected) in rows {
            let text = text(&comparison(difference));
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("\na remark\n") && !text.contains("not quiet"), "{text}");
        }
    }

    #[test]
    fn the_table_has_what_was_measured_and_no_more() {
        let mut measured = comparison(6.0);
        let full = text(&measured);
        assert!(full.contains("us at 4500 a second: p50"), "{full}");
        let row = full.lines().find(|line| line.starts_with("  my.yaml ")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().filter(|cell| !cell.contains(['[', ']'])).collect();
        assert_eq!(cells, ["my.yaml", "36.0", "50.0", "9000", "100", "200", "300", "400"]);

        measured.amount.latency_rounds = 0;
        for figures in [&mut measured.config, &mut measured.baseline] {
            (figures.requests_per_second, figures.latency_us) = (None, None);
        }
        let short = text(&measured);
        assert!(!short.contains("p50") && !short.contains("oha"), "{short}");
    }

    #[test]
    fn a_machine_that_was_not_quiet_is_said_to_be_so() {
        let mut measured = comparison(6.0);
        measured.baseline_spread_percent = Some(25.0);
        assert!(text(&measured).contains("lie 25 % apart"));
    }

    #[test]
    fn json_holds_figures_with_their_intervals() {
        let value: serde_json::Value = serde_json::from_str(&json(&comparison(6.0)).unwrap()).unwrap();
        assert_eq!(value["config"]["latency_us"]["p99.9"]["median"], 400.0);
        assert_eq!(value["difference_us"]["low"], 5.5);
        assert_eq!(value["within_noise"], false);
    }
}
