//! `report.html`: one file with everything in it, for a browser, a phone and paper. It needs no script and fetches nothing.
//!
//! It is well-formed XML too, so that a test can read it; all text goes through [`escaped`].

mod plot;

use std::fmt::Write as _;

use crate::report::json::{ExperimentSummary, RivalSummary, Summary, Verdict, WorkloadSummary};
use crate::report::method;
use crate::report::tables::{self, Table, shown};

const STYLE: &str = include_str!("style.css");

/// All of it.
pub(crate) fn page(summary: &Summary) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>What each filter costs: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>What each filter costs</h1>\n",
        escaped(&summary.began)
    );
    if let Some(warning) = summary.noise.warning() {
        let _ = writeln!(out, "<p class=\"warning\" role=\"note\">{}</p>", escaped(&warning));
    }
    out.push_str(&contents(summary));
    out.push_str(&budgets(summary));
    for workload in &summary.workloads {
        out.push_str(&section(workload));
    }
    for experiment in &summary.experiments {
        out.push_str(&section_of_experiment(experiment));
    }
    out.push_str("<h2 id=\"method\">What was run, where and how</h2>\n");
    let _ = writeln!(out, "<p><code>{}</code></p>\n<dl>", escaped(&summary.command));
    for (what, told) in method::facts(summary) {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(what), escaped(&told));
    }
    out.push_str("</dl>\n");
    for paragraph in method::PARAGRAPHS {
        let _ = writeln!(out, "<p>{}</p>", escaped(paragraph).replace('`', ""));
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn contents(summary: &Summary) -> String {
    let mut out = "<nav aria-label=\"Workloads\"><ul>\n".to_owned();
    let names = summary.workloads.iter().map(|it| &it.name);
    for name in names.chain(summary.experiments.iter().map(|it| &it.name)) {
        let _ = writeln!(out, "<li><a href=\"#{}\">{}</a></li>", anchor(name), escaped(name));
    }
    out.push_str("<li><a href=\"#method\">What was run, where and how</a></li>\n</ul></nav>\n");
    out
}

/// All budgets, the missed ones as plainly as the others.
fn budgets(summary: &Summary) -> String {
    let mut rows = String::new();
    let mut counts = [0_usize; 3];
    for workload in &summary.workloads {
        for budget in &workload.budgets {
            let (class, count) = match (budget.verdict, &mut counts) {
                (Verdict::Met, [count, ..]) => ("met", count),
                (Verdict::NotMet, [_, count, _]) => ("missed", count),
                (Verdict::NotCertain, [.., count]) => ("open", count),
            };
            *count = count.saturating_add(1);
            let _ = writeln!(
                rows,
                "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td><td>{} x {}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
                anchor(&workload.name),
                escaped(&workload.name),
                escaped(&budget.name),
                budget.most,
                escaped(&budget.rival),
                shown(budget.ratio, 2),
                budget.verdict.words()
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let [met, missed, open] = counts;
    format!(
        "<h2 id=\"budgets\">Budgets</h2>\n<p>{met} met, {missed} not met, {open} not certain.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Budgets\"><table>\n<thead><tr>\
         <th scope=\"col\">workload</th><th scope=\"col\">module</th>\
         <th scope=\"col\">may cost</th><th scope=\"col\">costs</th><th scope=\"col\">verdict</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn section(workload: &WorkloadSummary) -> String {
    let mut out = format!(
        "<h2 id=\"{}\">{}</h2>\n<p class=\"quiet\">{}: {}</p>\n",
        anchor(&workload.name),
        escaped(&workload.name),
        escaped(&workload.behaviour),
        escaped(&workload.what)
    );
    out.push_str(LEGEND);
    out.push_str("<div class=\"plots\">\n");
    out.push_str(&plot::costs(workload));
    out.push_str(&plot::latencies(workload).unwrap_or_default());
    out.push_str(&plot::throughput(workload).unwrap_or_default());
    out.push_str("</div>\n");
    out.push_str(&table("Cost of a request", &tables::costs(workload)));
    if let Some(loads) = tables::loads(workload) {
        let rate = tables::rate(workload).unwrap_or_default();
        out.push_str(&table(&format!("Throughput, and {rate}"), &loads));
    }
    out.push_str(&notes(&tables::notes(workload)));
    out
}

const LEGEND: &str = "<p class=\"legend quiet\"><span><i class=\"key ours\"></i>ours</span>\
                      <span><i class=\"key native\"></i>native</span><span><i class=\"key lua\"></i>Lua</span>\
                      <span><i class=\"key plain\"></i>baseline and others</span></p>\n";

fn section_of_experiment(experiment: &ExperimentSummary) -> String {
    let ExperimentSummary { name, what, claim, pair: [a, b], figures, beside } = experiment;
    let mut rows = vec![vec![String::new(), a.clone(), b.clone(), "change %".to_owned()]];
    rows.extend(figures.iter().map(|it| {
        let name = format!("{}, {}", it.what, it.unit);
        vec![name, shown(Some(it.a), 1), shown(Some(it.b), 1), shown(Some(it.change_percent), 1)]
    }));
    format!(
        "<h2 id=\"{}\">{}</h2>\n<p class=\"quiet\">experiment: {}</p>\n{}<p>Claim: {}</p>\n{}",
        anchor(name),
        escaped(name),
        escaped(what),
        table("What we found", &rows),
        escaped(claim),
        notes(beside)
    )
}

fn table(caption: &str, rows: &Table) -> String {
    let caption = escaped(caption);
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\n<caption>{caption}</caption>\n"
    );
    for (place, row) in rows.iter().enumerate() {
        out.push_str(match place {
            0 => "<thead><tr>",
            1 => "<tbody>\n<tr>",
            _ => "<tr>",
        });
        for (column, cell) in row.iter().enumerate() {
            let cell = escaped(cell);
            let _ = match (place, column) {
                (0, _) => write!(out, "<th scope=\"col\">{cell}</th>"),
                (_, 0) => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str(if place == 0 { "</tr></thead>\n" } else { "</tr>\n" });
    }
    out.push_str(if rows.len() > 1 { "</tbody>\n</table></div>\n" } else { "</table></div>\n" });
    out
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect();
    format!("<ul class=\"notes\">\n{items}</ul>\n")
}

/// What a rival is drawn as.
fn class(rival: &RivalSummary) -> &'static str {
    match rival.name.as_str() {
        _ if rival.ours => "ours",
        name if name.starts_with("native") => "native",
        name if name.starts_with("lua") => "lua",
        _ => "plain",
    }
}

/// A name as part of a link.
fn anchor(name: &str) -> String {
    let kept = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '-' };
    format!("w-{}", name.bytes().map(kept).collect::<String>())
}

/// Text that means nothing to HTML, within an attribute too. What XML cannot hold at all becomes a question mark.
fn escaped(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::summary;

    fn parsed(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(page, options)
            .unwrap_or_else(|error| panic!("{error}\n{page}"))
    }

    #[test]
    fn the_page_is_well_formed_and_fetches_nothing() {
        let page = page(&summary());
        let document = parsed(&page);
        let all = || document.descendants().filter(roxmltree::Node::is_element);
        assert!(all().all(|node| !["script", "link", "img", "iframe"].contains(&node.tag_name().name())));
        for node in all() {
            for attribute in node.attributes().filter(|it| ["href", "src"].contains(&it.name())) {
                assert!(attribute.value().starts_with('#'), "{}", attribute.value());
            }
        }
        assert!(!page.contains("url(") && !page.contains("@import"));
        let plots: Vec<_> = all().filter(|node| node.tag_name().name() == "svg").collect();
        assert_eq!(plots.len(), 3, "cost, latency and throughput");
        for plot in plots {
            let has = |name| plot.children().any(|child| child.tag_name().name() == name);
            assert!(has("title") && has("desc"));
            let named = plot.attribute("aria-labelledby").unwrap();
            assert!(named.split(' ').all(|id| all().any(|node| node.attribute("id") == Some(id))), "{named}");
        }
        let ids: Vec<_> = all().filter_map(|node| node.attribute("id")).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        for link in all().filter_map(|node| node.attribute("href")) {
            assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
        }
    }

    #[test]
    fn all_figures_of_the_tables_are_there_and_the_warning_too() {
        let page = page(&summary());
        let document = parsed(&page);
        let text: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        let has = |part: &str| text.iter().any(|text| text.contains(part));
        for part in ["15.0 [15.0, 15.0]", "18000 [17000, 19000]", "500 [500, 500]", "50.0 [49.0, 51.0]"] {
            assert!(has(part), "{part}");
        }
        assert!(has("Read the intervals with care") && has("0 met, 0 not met, 1 not certain."));
        assert!(has("one forged <token> & \"more\""), "text comes out as it was");
    }

    #[test]
    fn hostile_names_are_text_and_nothing_else() {
        const HOSTILE: &str = "</title><script>alert('1')</script>\" onload=\"x\u{1}&";
        let mut summary = summary();
        summary.command = HOSTILE.to_owned();
        summary.machine.processor = HOSTILE.to_owned();
        let workload = &mut summary.workloads[0];
        workload.name = HOSTILE.to_owned();
        workload.rivals[3].name = HOSTILE.to_owned();
        workload.budgets[0].name = HOSTILE.to_owned();
        workload.left_out.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
        summary.experiments[0].pair = [HOSTILE.to_owned(), HOSTILE.to_owned()];
        let page = page(&summary);
        let document = parsed(&page);
        for node in document.descendants() {
            assert!(node.tag_name().name() != "script" && node.attribute("onload").is_none());
        }
        let clean = HOSTILE.replace('\u{1}', "?");
        assert!(document.descendants().any(|node| node.text().is_some_and(|text| text == clean)));
    }

    #[test]
    fn a_run_without_latencies_has_one_plot_and_one_without_workloads_has_none() {
        let mut summary = summary();
        for rival in &mut summary.workloads[0].rivals {
            (rival.requests_per_second, rival.latency_us) = (None, None);
        }
        let plots = |summary: &Summary| {
            parsed(&page(summary)).descendants().filter(|it| it.has_tag_name("svg")).count()
        };
        assert_eq!(plots(&summary), 1);
        summary.workloads.clear();
        assert_eq!(plots(&summary), 0);
    }
}
