//! Stands, and the tour of them: every request, with the answers that it gets.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{bail, ensure};
use real_envoy::Config;
use real_envoy::client::{self, Client, Http, Response};

use crate::curl;
use crate::gateway::Gateway;
use crate::stop::{Expected, RETRY_AFTER, Stop};

/// What is shown of one filter.
pub(crate) struct Stand {
    /// Its name, and that of its module.
    pub(crate) filter: &'static str,
    /// The configuration's file, from the root of the repository.
    pub(crate) configuration: &'static str,
    /// What is in it.
    pub(crate) config: Config,
    /// What to know of it: how it was changed, and what the filter does. Goes on after a comma.
    pub(crate) introduction: &'static str,
    /// Every stop, in order.
    pub(crate) stops: Vec<Stop>,
}

/// What to read beside running gateways: the stops as lines to paste.
pub(crate) fn leaflet(shown: &[(&Stand, Gateway)]) -> anyhow::Result<String> {
    let mut text = "\nPaste these lines into another terminal.\n".to_owned();
    for (stand, gateway) in shown {
        let Stand { filter, configuration, introduction, .. } = stand;
        let (address, admin) = (gateway.address(), gateway.admin());
        writeln!(text, "\n=== {filter}\n\nEnvoy runs {configuration} at http://{address}, {introduction}\n")?;
        for stop in &stand.stops {
            let colon = if stop.remark.is_empty() { "" } else { "; " };
            writeln!(text, "# {}: {}{colon}{}", stop.title, stop.expected.shown(), stop.remark)?;
            writeln!(text, "{}\n", curl::line(address, stop))?;
        }
        if stand.stops.iter().any(|stop| stop.logged.is_some()) {
            writeln!(
                text,
                "# what the filter logs\ntail -f {} | grep '\"time\"'\n",
                gateway.log_file().display()
            )?;
        }
        writeln!(text, "# what the filter counted\ncurl -s 'http://{admin}/stats?filter=foregate'")?;
    }
    writeln!(text, "\nCtrl-C ends it all.")?;
    Ok(text)
}

/// Takes the tour: makes every stop, prints it with its answers, and fails if one is not as it should be.
pub(crate) async fn take(shown: &[(&Stand, Gateway)]) -> anyhow::Result<()> {
    let mut stops: usize = 0;
    let mut wrong = Vec::new();
    for (stand, gateway) in shown {
        println!(
            "=== {}\n\nEnvoy runs {} at http://{}\n",
            stand.filter,
            stand.configuration,
            gateway.address()
        );
        let mut last = None;
        for stop in &stand.stops {
            stops = stops.saturating_add(1);
            println!("# {}\n{}", stop.title, stop.without_token(&curl::line(gateway.address(), stop)));
            if let Some(most) = stop.wait {
                let seconds = last.as_ref().and_then(retry_after).unwrap_or(most).min(most);
                println!("waiting for {seconds} s");
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            let before = gateway.log().len();
            let answers = answers(gateway, stop).await;
            println!("{}", stop.lines(&answers).join("\n"));
            let mut problem = stop.problem(&answers);
            if let Some(logged) = &stop.logged {
                let lines = logged_since(gateway, before, *logged.lines.start()).await;
                println!("{}", told(&lines));
                problem = problem.or_else(|| logged.problem(&lines));
            }
            if let Some(problem) = problem {
                println!("NOT AS IT SHOULD BE: {problem}");
                wrong.push(format!("{}: {problem}", stop.title));
            }
            println!();
            last = answers.into_iter().flatten().last();
        }
        println!("# what the filter counted\n{}\n", gateway.metrics().await?.join("\n"));
        ensure!(gateway.is_alive(), "Envoy ended during the tour; its log:\n{}", gateway.log());
    }
    if !wrong.is_empty() {
        bail!("{} of {stops} stops are not as they should be:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    println!("{stops} of {stops} stops as they should be");
    Ok(())
}

/// The JSON lines that the filter has written since the log was so long, once there are so many, or after a moment.
async fn logged_since(gateway: &Gateway, before: usize, least: usize) -> Vec<String> {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut lines = Vec::new();
    for _ in 0..10 {
        tokio::time::sleep(MOMENT).await;
        let log = gateway.log();
        let new = log.get(before..).unwrap_or_default();
        lines = new
            .lines()
            .filter_map(|line| Some(format!("{{\"time\"{}", line.split_once("{\"time\"")?.1)))
            .collect();
        if lines.len() >= least.max(1) {
            break;
        }
    }
    lines
}

/// One of the lines, and how many there are.
fn told(lines: &[String]) -> String {
    match lines {
        [] => "logged: nothing".to_owned(),
        [one] => format!("logged: {one}"),
        [first, ..] => format!("logged: {} lines, of which this is the first: {first}", lines.len()),
    }
}

/// Sends the stop's request as often as it says.
async fn answers(gateway: &Gateway, stop: &Stop) -> Vec<anyhow::Result<Response>> {
    let mut answers = Vec::new();
    match &stop.expected {
        Expected::InTurn(expected) => {
            for _ in expected {
                answers.push(client::send(gateway.address(), &stop.request).await);
            }
        }
        Expected::Times(times, _) | Expected::Burst { times, .. } => {
            match Client::connect(gateway.address(), Http::H1).await {
                Ok(mut client) => {
                    for _ in 0..*times {
                        answers.push(client.send(&stop.request).await);
                    }
                }
                Err(error) => answers.push(Err(error)),
            }
        }
    }
    answers
}

fn retry_after(answer: &Response) -> Option<u64> {
    answer.header(RETRY_AFTER).concat().parse().ok()
}
