//! `raw.csv`: every figure of every round.

use anyhow::Context as _;

use crate::measure::Measured;

/// One row for each rival, workload, round and figure. What is looked at once, after the last round, has no round.
pub(crate) fn write<'m>(measured: impl Iterator<Item = (&'m str, &'m Measured)>) -> anyhow::Result<String> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(["behaviour", "workload", "rival", "round", "figure", "value", "unit"])?;
    for (behaviour, measured) in measured {
        for turns in &measured.rivals {
            let mut row = |round: Option<usize>, figure: &str, value: String, unit: &str| {
                let round = round.map(|it| it.saturating_add(1).to_string()).unwrap_or_default();
                out.write_record([behaviour, measured.name, &turns.name, &round, figure, &value, unit])
            };
            for (round, total) in turns.cpu_nanoseconds.iter().enumerate() {
                row(Some(round), "cpu", total.to_string(), "ns")?;
            }
            for (round, total) in turns.wall_nanoseconds.iter().enumerate() {
                row(Some(round), "wall", total.to_string(), "ns")?;
            }
            for (round, rate) in turns.requests_per_second.iter().enumerate() {
                row(Some(round), "closed_loop", format!("{rate:.1}"), "requests/s")?;
            }
            for (round, rate) in turns.answered_per_second.iter().enumerate() {
                row(Some(round), "answered_at_held_rate", format!("{rate:.1}"), "requests/s")?;
            }
            for (round, it) in turns.latencies.iter().enumerate() {
                for (name, value) in [("p50", it.p50), ("p90", it.p90), ("p99", it.p99), ("p99.9", it.p99_9)]
                {
                    row(Some(round), name, format!("{value:.1}"), "us")?;
                }
            }
            row(None, "requests_in_a_turn", turns.requests.to_string(), "requests")?;
            if let Some(kilobytes) = turns.resident_kilobytes {
                row(None, "resident", kilobytes.to_string(), "kB")?;
            }
            if let Some(calls) = turns.host_calls {
                row(None, "host_calls", calls.to_string(), "calls/request")?;
            }
            for (counter, count) in &turns.counted {
                row(None, counter, count.to_string(), "count")?;
            }
        }
    }
    let bytes = out.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).context("raw.csv is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_every_round_has_a_row_and_hostile_names_stay_in_theirs() {
        let mut measured = crate::report::tests::measured();
        measured.rivals[3].name = "ours, \"quoted\"\nor not".to_owned();
        let text = write([("jwt-reject", &measured)].into_iter()).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
        let found = |rival: &str, figure: &str| -> Vec<(String, String)> {
            let rows = rows.iter().filter(|row| &row[2] == rival && &row[4] == figure);
            rows.map(|row| (row[3].to_owned(), row[5].to_owned())).collect()
        };
        let pair = |round: &str, value: &str| (round.to_owned(), value.to_owned());
        assert_eq!(found("native", "cpu"), [pair("1", "900000"), pair("2", "910000"), pair("3", "900000")]);
        assert_eq!(found("native", "p99.9"), [pair("1", "900.0"), pair("2", "900.0"), pair("3", "900.0")]);
        assert_eq!(found("ours, \"quoted\"\nor not", "host_calls"), [pair("", "5")]);
        assert!(rows.iter().all(|row| row.len() == 7 && &row[0] == "jwt-reject"));
    }
}
