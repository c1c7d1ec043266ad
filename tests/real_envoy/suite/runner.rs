//! Runs the cases of a file, and tells of every one that fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use real_envoy::client::{self, Request, Response};
use real_envoy::{Config, Options, Update};
use serde_json::{Value, json};

use super::case::{Case, CaseFile, Cases, Http};
use super::expect::Expectations;
use super::gateway::{Gateway, as_string_value, hcm_mut};
use super::text::{fill, fill_deep};
use super::{Behaviour, Setup};

/// Makes what is declared under `values`.
type Make = fn(&Value) -> anyhow::Result<String>;

/// Checks every case of a file against one Envoy, one after the other, with the filter in its own module.
pub(crate) async fn check_file(behaviour: &Behaviour, name: &str) -> anyhow::Result<()> {
    let cases = Cases::of(behaviour);
    let file = cases.read(name)?;
    let gateway = Gateway::start(behaviour, |config| configured(config, behaviour, &file));
    let gateway = gateway.await.with_context(|| cases.shown(name))?;
    let mut run = Run::new(behaviour, gateway, &cases)?;
    let addr = run.gateway.addr()?;
    run.check_file(&file, &cases.shown(name), addr).await?;
    run.finish().await
}

/// Checks every case of these files with the filter in every other setup. One Envoy goes over from file to file: the modules
/// that a setup takes are large, and compiling them costs much more than the requests of a file. Cases take turns in which
/// protocol they come over, of those that they are for: a module is told nothing of it that its place could change.
pub(crate) async fn check_elsewhere(behaviour: &Behaviour, names: &[&str]) -> anyhow::Result<()> {
    let cases = Cases::of(behaviour);
    let mut shipped = None;
    let options = Gateway::options();
    let extra_args = [options.extra_args, &["--drain-time-s", "1"]].concat();
    let options = Options { extra_args: &extra_args, ..options };
    let gateway = Gateway::start_with(behaviour, &options, |config| {
        shipped = Some(config.clone());
        let config = config.edit(|bootstrap| {
            // Counters are asked for at every request, which takes Envoy longer than the request where there are many.
            let prefixes = ["wasmcustom.", "wasm.", "http.ingress.downstream_rq_5xx", "listener_manager."];
            let patterns = prefixes.map(|prefix| json!({ "prefix": prefix }));
            bootstrap["stats_config"]["stats_matcher"] =
                json!({ "inclusion_list": { "patterns": patterns } });
            Ok(())
        })?;
        Setup::apply_each_other(config, behaviour, "")?.with_file_lds()
    });
    let mut run = Run::new(behaviour, gateway.await?, &cases)?;
    let shipped = shipped.context("it was started")?;
    for name in names {
        let file = cases.read(name)?;
        let shown = cases.shown(name);
        let config = configured(shipped.clone(), behaviour, &file)?;
        let config = Setup::apply_each_other(config, behaviour, name)?;
        match run.gateway.envoy.update_listeners(&config).await? {
            Update::Accepted => {}
            Update::Rejected(why) => bail!("{shown}: {why}"),
        }
        for (place, setup) in Setup::OTHERS.into_iter().enumerate() {
            run.turn = Some(place);
            let addr = run.gateway.envoy.listener_named(&setup.listener(name))?;
            run.check_file(&file, &format!("{shown}, {}", setup.name()), addr).await?;
        }
    }
    run.finish().await
}

/// The shipped configuration as a file has it.
fn configured(config: Config, behaviour: &Behaviour, file: &CaseFile) -> anyhow::Result<Config> {
    let config = match &file.plugin {
        Some(plugin) => {
            let mut plugin = plugin.clone();
            (behaviour.complete)(&mut plugin)?;
            let config =
                if file.plugin_as_text { as_string_value(config, behaviour.plugin)? } else { config };
            config.plugin_configuration(behaviour.plugin, &plugin)?
        }
        None => config,
    };
    config.edit(|value| {
        let hcm = hcm_mut(value)?;
        hcm.extend(file.hcm.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(())
    })
}

fn make_values(make: Make, specs: &BTreeMap<String, Value>) -> anyhow::Result<BTreeMap<String, String>> {
    let made = specs.iter().map(|(name, spec)| {
        let text = make(spec).with_context(|| format!("value {name:?}"))?;
        Ok((name.clone(), text))
    });
    made.collect()
}

/// Cases under way.
struct Run {
    gateway: Gateway,
    make: Make,
    answers: BTreeMap<String, Expectations>,
    /// The file whose turn it is, and the setup.
    place: String,
    /// Where its requests go.
    addr: SocketAddr,
    /// Whose turn it is of the protocols, where a case comes over one alone.
    turn: Option<usize>,
    /// What is declared for all of the file.
    values: BTreeMap<String, String>,
    /// All values so far.
    secrets: Vec<String>,
    checked: u64,
    server_errors: u64,
    /// The counters after the request before, while nothing else was sent.
    counters: Option<BTreeMap<String, u64>>,
    /// Details that the access log must show, looked at last: it is written with a delay.
    details: Vec<(u64, String, String)>,
    failures: Vec<String>,
}

impl Run {
    fn new(behaviour: &Behaviour, gateway: Gateway, cases: &Cases) -> anyhow::Result<Self> {
        Ok(Self {
            addr: gateway.envoy.admin_addr(),
            gateway,
            make: behaviour.make,
            answers: cases.answers()?,
            place: String::new(),
            turn: None,
            values: BTreeMap::new(),
            secrets: Vec::new(),
            checked: 0,
            server_errors: 0,
            counters: None,
            details: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Checks the cases of a file, whose configuration serves at this address.
    async fn check_file(&mut self, file: &CaseFile, place: &str, addr: SocketAddr) -> anyhow::Result<()> {
        place.clone_into(&mut self.place);
        self.addr = addr;
        self.counters = None;
        self.values = make_values(self.make, &file.values)?;
        self.secrets.extend(self.values.values().cloned());
        ensure!(!file.cases.is_empty(), "{place}: no cases");
        for (number, case) in file.cases.iter().enumerate() {
            let checked_before = self.checked;
            let one = self.turn.and_then(|turn| (number + turn).checked_rem(case.http.len()));
            let protocols = one.map_or(case.http.as_slice(), |one| &case.http[one..=one]);
            for http in protocols {
                self.check(case, *http).await.with_context(|| format!("{place}: {}", case.name))?;
            }
            ensure!(self.checked > checked_before, "{place}: {}: sends no request", case.name);
        }
        Ok(())
    }

    /// Checks what shows at the end, and tells of all that was wrong.
    async fn finish(mut self) -> anyhow::Result<()> {
        self.check_details().await?;
        self.check_server_errors().await?;
        let health = self.gateway.check_health(self.secrets.iter().map(String::as_str)).await;
        self.failures.extend(health.err().map(|error| format!("{error:#}\n")));
        if !self.failures.is_empty() {
            let (failures, checked) = (self.failures.len(), self.checked);
            bail!("{failures} failures in {checked} requests\n\n{}", self.failures.join("\n"));
        }
        self.gateway.envoy.stop().await
    }

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
            let before = match self.counters.take() {
                Some(counters) => counters,
                None => self.gateway.counters().await?,
            };
            let reached_before = self.gateway.echo.requests();
            let response = match client::send(self.addr, &request).await {
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
            self.counters = Some(after);
            if expected.status.is_none_or(|status| status < 500) && response.status >= 500 {
                differences.push(format!("status: expected none of 5xx, got {}", response.status));
            }
            self.server_errors += u64::from(response.status >= 500);
            if let Some(details) = &expected.details {
                let shown = format!("{}: {} ({http:?} {})", self.place, case.name, shown_text(&request.path));
                self.details.push((number, details.clone(), shown));
            }
            if !differences.is_empty() {
                self.fail(case, http, &request, Some(&response), &differences);
            }
        }
        Ok(())
    }

    async fn check_details(&mut self) -> anyhow::Result<()> {
        // The log is in the order in which requests ended, which is that of the cases.
        if let Some((last, _, shown)) = self.details.last() {
            self.gateway.details(*last).await.with_context(|| shown.clone())?;
        }
        let written = self.gateway.all_details();
        for (number, expected, shown) in std::mem::take(&mut self.details) {
            let actual = match written.get(&number) {
                Some(details) => details.clone(),
                None => self.gateway.details(number).await.with_context(|| shown.clone())?,
            };
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
        let mut text = format!(
            "{}: {}\n  over {http:?}: {} {}\n",
            self.place,
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
