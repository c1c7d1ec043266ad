//! What was run, where and how, in words.

use crate::report::json::{AnsweredBy, LoadTool, Settings, Summary};

/// Facts of a run, each with its name.
pub(crate) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let Summary { machine, versions, settings, noise, load_tool, .. } = summary;
    let mut facts = vec![
        ("began", summary.began.clone()),
        ("machine", format!("{}, {} cores, Linux {}", machine.processor, machine.cores, machine.kernel)),
        ("governor", machine.governor.clone()),
        ("busy", busy(noise)),
        ("cores", settings.pinning.to_string()),
        ("Envoy", format!("{}, one worker unless a workload says otherwise", versions.envoy)),
        ("commit", versions.commit.clone()),
    ];
    facts.extend(summary.modules.iter().map(|(name, hash)| ("module", format!("{name}: sha256 {hash}"))));
    facts.extend([
        ("compiler", format!("{} (of the load)", versions.rustc)),
        (
            "load",
            format!(
                "{} connections of HTTP/1.1 kept open; CPU time: {}",
                settings.connections, load_tool.cpu
            ),
        ),
        ("load tool", load_tool_of(settings, load_tool)),
        ("answers", answers(summary).to_owned()),
        (
            "amount",
            format!(
                "{} rounds of {} requests each, after {} to warm up",
                settings.rounds, settings.requests, settings.warm_up
            ),
        ),
    ]);
    if settings.latency_rounds > 0 {
        facts.push((
            "",
            format!(
                "{} rounds of {} s without pause and {} s at the held rate",
                settings.latency_rounds, settings.closed_seconds, settings.open_seconds
            ),
        ));
    }
    facts
}

fn load_tool_of(settings: &Settings, load_tool: &LoadTool) -> String {
    let LoadTool { one_request, many_requests, .. } = load_tool;
    match settings.latency_rounds {
        0 => "throughput and latency were not measured".to_owned(),
        _ if one_request == many_requests => format!("throughput and latency: {one_request}"),
        _ => {
            format!(
                "throughput and latency: {one_request} where all requests are the same, otherwise {many_requests}"
            )
        }
    }
}

fn answers(summary: &Summary) -> &'static str {
    match summary.settings.answered_by {
        AnsweredBy::Upstream => "by another Envoy behind it, away from Envoy's core",
        AnsweredBy::Direct => "by Envoy itself, without an upstream",
    }
}

fn busy(noise: &crate::noise::Noise) -> String {
    let shown = |value: Option<f64>| value.map_or("unknown".to_owned(), |it| format!("{it:.2}"));
    let [before, after] = noise.load_average.map(shown);
    if noise.baseline_spread_percent.is_none() && noise.floor_us.is_none() {
        return format!("load average {before} before");
    }
    let percent = |value: Option<f64>| value.map_or("unknown".to_owned(), |it| format!("{it:.1} %"));
    format!(
        "load average {before} before and {after} after; taken away by the host {}; baseline spread {}; noise floor {} us",
        percent(noise.stolen_percent),
        percent(noise.baseline_spread_percent),
        shown(noise.floor_us)
    )
}

/// What the figures mean.
pub(crate) const PARAGRAPHS: &[&str] = &[
    "CPU figures are microseconds of Envoy's own CPU time (the sum over its threads, from the kernel) a request: the \
     median over the rounds, and the 95 % interval of it (percentile bootstrap over rounds). What counts is the cost \
     over the baseline, an Envoy without the filter, in the same round. Every implementation has its turn in every \
     round, in an order that chance picks. Ratios of implementations hold from machine to machine; times do not.",
    "Before anything is timed, each implementation answers the probes of its workload; one that gets them wrong is left \
     out, and what it got wrong is told. In every round the status of every answer is looked at, and its body where our own load \
     makes it: an unexpected one voids the run. Nothing is tried again.",
    "\"baseline again\" is a second, equal Envoy without the filter: what it differs by is noise. Two implementations are \
     within the noise of each other where the interval of their difference, taken in the same rounds, holds zero, or where they \
     differ by no more than the two baselines do.",
    "Requests a second are those of a closed loop. Latencies are those at a held rate, half of what the baseline answers \
     in a closed loop, the same for all of a workload, and are counted from the moment at which a request was due \
     (corrected for coordinated omission). Whoever does not keep up with that rate is named.",
    "RSS is Envoy's resident memory after the last turn. Host calls are those that one request takes, counted in Envoy's \
     trace of its Wasm host outside of timed turns: calls of proxy-wasm and WASI, but for `proxy_log` and \
     `proxy_get_log_level`, whose number the trace itself changes.",
];
