//! Runs the cases of a file, and tells of every one that fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use real_envoy::client::{self, Request, Response};
use serde_json::Value;

use super::case::{Case, Cases, Http};
use super::expect::Expectations;
use super::gateway::{Gateway, as_string_value, hcm_mut};
use super::text::{fill, fill_deep};
use super::{Behaviour, Setup};

/// Makes what is declared under `values`.
type Make = fn(&Value) -> anyhow::Result<String>;

/// Checks every case of a file in every setup against one Envoy, one after the other.
pub(crate) async fn check_file(behaviour: &Behaviour, name: &str) -> anyhow::Result<()> {
    let cases = Cases::of(behaviour);
    let file = cases.read(name)?;
    let answers = cases.answers()?;
    let gateway = Gateway::start(behaviour, |config| {
        let config = match &file.plugin {
            Some(plugin) => configured(config, behaviour, plugin, file.plugin_as_text)?,
            None => config,
        };
        let config = config.edit(|value| {
            let hcm = hcm_mut(value)?;
            hcm.extend(file.hcm.iter().map(|(name, value)| (name.clone(), value.clone())));
            Ok(())
        })?;
        Setup::apply_each(config, behaviour)
    });
    let mut run = Run {
        gateway: gateway.await.with_context(|| cases.shown(name))?,
        setup: Setup::Alone,
        make: behaviour.make,
        values: make_values(behaviour.make, &file.values)?,
        secrets: Vec::new(),
        answers,
        checked: 0,
        server_errors: 0,
        details: Vec::new(),
        failures: Vec::new(),
    };
    ensure!(!file.cases.is_empty(), "{}: no cases", cases.shown(name));
    for setup in Setup::ALL {
        run.setup = setup;
        for case in &file.cases {
            let checked_before = run.checked;
            for http in &case.http {
                let shown = || format!("{} ({})", case.name, setup.name());
                run.check(case, *http).await.with_context(shown)?;
            }
            ensure!(run.checked > checked_before, "{}: sends no request", case.name);
        }
    }
    run.check_details().await?;
    run.check_server_errors().await?;
    let secrets = run.values.values().chain(&run.secrets).map(String::as_str);
    let health = run.gateway.check_health(secrets).await;
    run.failures.extend(health.err().map(|error| format!("{error:#}\n")));
    if !run.failures.is_empty() {
        let (failures, checked) = (run.failures.len(), run.checked);
        bail!(
            "{}: {failures} failures in {checked} requests\n\n{}",
            cases.shown(name),
            run.failures.join("\n")
        );
    }
    run.gateway.envoy.stop().await
}

fn configured(
    config: real_envoy::Config,
    behaviour: &Behaviour,
    plugin: &Value,
    as_text: bool,
) -> anyhow::Result<real_envoy::Config> {
    let mut plugin = plugin.clone();
    (behaviour.complete)(&mut plugin)?;
    let config = if as_text { as_string_value(config, behaviour.plugin)? } else { config };
    config.plugin_configuration(behaviour.plugin, &plugin)
}

fn make_values(make: Make, specs: &BTreeMap<String, Value>) -> anyhow::Result<BTreeMap<String, String>> {
    let made = specs.iter().map(|(name, spec)| {
        let text = make(spec).with_context(|| format!("value {name:?}"))?;
        Ok((name.clone(), text))
    });
    made.collect()
}

/// The cases of a file under way.
struct Run {
    gateway: Gateway,
    /// The one whose turn it is.
    setup: Setup,
    make: Make,
    values: BTreeMap<String, String>,
    /// Values of single cases.
    secrets: Vec<String>,
    answers: BTreeMap<String, Expectations>,
    checked: u64,
    server_errors: u64,
    /// Details that the access log must show, looked at last: it is written with a delay.
    details: Vec<(u64, String, String)>,
    failures: Vec<String>,
}

impl Run {
    async fn check(&mut self, case: &Case, http: Http) -> anyhow::Result<()> {
        for mut combination in case.combinations() {
            for text in combination.values_mut() {
                *text = fill(text, &self.values)?;
            }
            self.check_combination(case, http, combination).await?;
        }
        Ok(())
    }

    async fn check_combination(
        &mut self,
        case: &Case,
        http: Http,
        own: BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let mut specs = case.values.clone();
        specs.values_mut().try_for_each(|spec| fill_deep(spec, &|text| fill(text, &own)))?;
        let made = make_values(self.make, &specs)?;
        self.secrets.extend(made.values().cloned());
        let mut values = self.values.clone();
        values.insert("once".to_owned(), format!("run-{}", self.checked));
        values.extend(own);
        values.extend(made);
        for expected in std::iter::once(&case.expect).chain(&case.then) {
            let base = match &expected.answer {
                Some(name) => {
                    let name = fill(name, &values)?;
                    Some(self.answers.get(&name).with_context(|| format!("no answer is named {name:?}"))?)
                }
                None => None,
            };
            let expected = base.map_or_else(|| expected.clone(), |base| expected.over(base));
            self.check_requests(case, http, &expected, &values).await?;
        }
        Ok(())
    }

    /// Sends the requests of a case, and compares what comes of each.
    async fn check_requests(
        &mut self,
        case: &Case,
        http: Http,
        expected: &Expectations,
        values: &BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let expected = expected.clone().filled(|text| fill(text, values))?;
        let checked = &mut self.checked;
        let number = || {
            *checked += 1;
            *checked
        };
        let requests = case.request.requests(http, number, |text| fill(text, values))?;
        for (number, request) in requests {
            let before = self.gateway.counters().await?;
            let reached_before = self.gateway.echo.requests();
            let response = match client::send(self.gateway.addr_in(self.setup)?, &request).await {
                Ok(response) => response,
                Err(error) => {
                    self.fail(case, http, &request, None, &[format!("no answer: {error:#}")]);
                    continue;
                }
            };
            let after = self.gateway.counters().await?;
            let reached = self.gateway.echo.requests() > reached_before;
            let mut differences = expected.differences(&response, reached);
            differences.extend(expected.counter_differences(&before, &after));
            if expected.status.is_none_or(|status| status < 500) && response.status >= 500 {
                differences.push(format!("status: expected none of 5xx, got {}", response.status));
            }
            self.server_errors += u64::from(response.status >= 500);
            if let Some(details) = &expected.details {
                let setup = self.setup.name();
                let shown = format!("{} ({setup}, {http:?} {})", case.name, shown_text(&request.path));
                self.details.push((number, details.clone(), shown));
            }
            if !differences.is_empty() {
                self.fail(case, http, &request, Some(&response), &differences);
            }
        }
        Ok(())
    }

    async fn check_details(&mut self) -> anyhow::Result<()> {
        for (number, expected, shown) in std::mem::take(&mut self.details) {
            let actual = self.gateway.details(number).await.with_context(|| shown.clone())?;
            if actual != expected {
                self.failures.push(format!("{shown}\n  details: expected {expected:?}, got {actual:?}\n"));
            }
        }
        Ok(())
    }

    /// Envoy's own count of 5xx must be that of the answers seen.
    async fn check_server_errors(&mut self) -> anyhow::Result<()> {
        let counted = self.gateway.envoy.stat("http.ingress.downstream_rq_5xx").await?;
        if counted != self.server_errors {
            self.failures
                .push(format!("Envoy counts {counted} answers of 5xx, {} were seen\n", self.server_errors));
        }
        Ok(())
    }

    fn fail(
        &mut self,
        case: &Case,
        http: Http,
        request: &Request,
        response: Option<&Response>,
        differences: &[String],
    ) {
        let setup = self.setup.name();
        let mut text = format!(
            "{}\n  {setup}, over {http:?}: {} {}\n",
            case.name,
            request.method,
            shown_text(&request.path)
        );
        for (name, value) in &request.headers {
            let _ = writeln!(text, "  > {name}: {}", shown_text(&String::from_utf8_lossy(value)));
        }
        if let Some(response) = response {
            let _ = writeln!(text, "  < {}", response.status);
            for (name, value) in &response.headers {
                let _ = writeln!(text, "  < {name}: {}", shown_text(&String::from_utf8_lossy(value)));
            }
        }
        for difference in differences {
            let _ = writeln!(text, "  {}", shown_text(difference));
        }
        self.failures.push(text);
    }
}

/// A text that may be very long.
fn shown_text(text: &str) -> String {
    const MOST: usize = 1500;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
