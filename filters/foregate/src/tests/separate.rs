//! The filters of a list one after the other, each a module of its own, as Envoy runs them; but for what a chain is to
//! do beyond that: what one has found out is told to those behind it.

use filter_api::{
    Attribute, Cells, Effects, Facts, Filter, HeadMap, HeaderOp, Host, HostFailed, HostMap, HostVerdict,
    Level, Moment, Outcome, Over, ResponseEffects, SharedValue, SignatureCheck, Waiting, Work,
};
use header_rewrite::HeaderRewrite;
use jwt_reject::JwtReject;
use local_rate_limit::LocalRateLimit;
use sampled_log::SampledLog;
use serde_json::Value;

use super::envoy::{Exchange, Seen, answer, begin, host, lines, performed, publish};
use crate::around::dice_of;

/// What header_rewrite keeps of a request; the others keep nothing.
type Kept = Option<<HeaderRewrite as Filter>::Kept>;

enum Own {
    JwtReject(JwtReject),
    LocalRateLimit(LocalRateLimit),
    HeaderRewrite(HeaderRewrite),
    SampledLog(SampledLog),
}

/// A filter with a VM and a `vm_id` of its own.
struct Module {
    own: Own,
    counters: Vec<String>,
    behind: HostMap,
}

fn configured<F: Filter>(instance: &str, config: &Value) -> F {
    F::configure_as(instance, config.to_string().as_bytes()).unwrap().filter
}

fn counters<F: Filter>(filter: &F, name: Option<&str>) -> Vec<String> {
    let fixed = F::COUNTERS.iter().map(|&counter| counter.to_owned());
    let middle = name.map_or(String::new(), |name| format!("{name}."));
    fixed.chain(filter.own_counters()).map(|counter| format!("{}.{middle}{counter}", F::NAME)).collect()
}

impl Module {
    /// `instance` is what its property is called by, and what hashes are made of: the order of limits in headers is that of
    /// their hashes. It shares nothing with others that could be mixed up.
    fn new(item: &Value, instance: &str) -> Self {
        let name = item.get("name").and_then(Value::as_str);
        let kind = item.as_object().unwrap().keys().find(|key| *key != "name").unwrap();
        let config = &item[kind];
        let (own, counters) = match kind.as_str() {
            "jwt_reject" => {
                let filter: JwtReject = configured("", config);
                let counters = counters(&filter, name);
                (Own::JwtReject(filter), counters)
            }
            "local_rate_limit" => {
                let filter: LocalRateLimit = configured(instance, config);
                let counters = counters(&filter, name);
                (Own::LocalRateLimit(filter.on_its_own_worker()), counters)
            }
            "header_rewrite" => {
                let filter: HeaderRewrite = configured("", config);
                let counters = counters(&filter, name);
                (Own::HeaderRewrite(filter), counters)
            }
            _ => {
                let filter: SampledLog = configured(instance, config);
                let counters = counters(&filter, name);
                (Own::SampledLog(filter.on_its_own_worker()), counters)
            }
        };
        Self { own, counters, behind: HostMap::at(0) }
    }

    fn on_request(&self, head: &HeadMap, host: &Asked<'_>, facts: &Facts) -> Outcome<Kept> {
        match &self.own {
            Own::JwtReject(filter) => filter.on_request(head, host, facts).map_kept(|()| None),
            Own::LocalRateLimit(filter) => filter.on_request(head, host, facts).map_kept(|()| None),
            Own::HeaderRewrite(filter) => filter.on_request(head, host, facts).map_kept(Some),
            Own::SampledLog(filter) => filter.on_request(head, host, facts).map_kept(|()| None),
        }
    }

    fn on_response(&self, kept: &Kept, head: &HeadMap, host: &Asked<'_>) -> ResponseEffects {
        match (&self.own, kept) {
            (Own::HeaderRewrite(filter), Some(kept)) => filter.on_response(kept, head, host),
            _ => ResponseEffects::default(),
        }
    }

    fn on_log(&self, request: &HeadMap, response: &HeadMap, host: &Asked<'_>, facts: &Facts) -> Work {
        match &self.own {
            Own::SampledLog(filter) => filter.on_log(request, response, host, facts),
            _ => Work::default(),
        }
    }

    fn behind_the_scenes(&self, starts: bool) -> Work {
        match &self.own {
            Own::JwtReject(filter) if starts => filter.on_start(&self.behind),
            Own::LocalRateLimit(filter) if starts => filter.on_start(&self.behind),
            Own::HeaderRewrite(filter) if starts => filter.on_start(&self.behind),
            Own::SampledLog(filter) if starts => filter.on_start(&self.behind),
            Own::JwtReject(filter) => filter.on_tick(&self.behind),
            Own::LocalRateLimit(filter) => filter.on_tick(&self.behind),
            Own::HeaderRewrite(filter) => filter.on_tick(&self.behind),
            Own::SampledLog(filter) => filter.on_tick(&self.behind),
        }
    }
}

/// The host as one of them sees it: the request is the same for all, the cells are its own.
struct Asked<'h> {
    common: &'h HostMap,
    module: &'h Module,
    place: usize,
}

impl Host for Asked<'_> {
    fn moment(&self) -> Moment {
        Moment { unix_nanos: self.common.now.get(), dice: dice_of(self.place, self.common.dice.get()) }
    }

    fn logs(&self, level: Level) -> bool {
        self.common.logs(level)
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        self.common.verify_signature(check)
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        self.common.attribute(attribute)
    }

    fn waiting(&self) -> Waiting {
        Waiting::Never
    }
}

impl Cells for Asked<'_> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.module.behind.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.module.behind.share(cell, content, over)
    }
}

/// What becomes of exchanges by the filters of a list, each by itself.
pub(super) fn by_each(config: &Value, exchanges: &[Exchange], logs: bool) -> Vec<Seen> {
    let items = config["filters"].as_array().unwrap();
    let modules: Vec<Module> = (0..items.len())
        .map(|place| {
            let item = &items[place];
            let keys = |item: &Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            // Without a name it has but one key.
            let same = items[..place].iter().filter(|other| keys(other) == keys(item));
            let instance = match (item.get("name").and_then(Value::as_str), same.count()) {
                (Some(name), _) => name.to_owned(),
                (None, 0) => String::new(),
                (None, before) => (before + 1).to_string(),
            };
            Module::new(item, &instance)
        })
        .collect();
    let host = host(logs);
    for module in &modules {
        module.behind.now.set(host.now.get());
        module.behind_the_scenes(true);
    }
    exchanges.iter().map(|exchange| one_by_each(&modules, &host, exchange)).collect()
}

fn one_by_each(modules: &[Module], host: &HostMap, exchange: &Exchange) -> Seen {
    let mut seen = Seen::default();
    begin(host, exchange);
    for module in modules {
        module.behind.now.set(host.now.get());
        seen.take(&module.counters, module.behind_the_scenes(false), host);
    }
    let asked = |place: usize| Asked { common: host, module: &modules[place], place };
    let mut head = exchange.request.clone();
    let mut facts = Facts::default();
    let mut passed: Vec<(usize, Vec<HeaderOp>, Option<Kept>)> = Vec::new();
    let mut reply = None;
    for (place, module) in modules.iter().enumerate() {
        let effects = match module.on_request(&head, &asked(place), &facts) {
            Outcome::Continue(effects) => effects,
            Outcome::Reply(answer, effects) => {
                reply = Some(answer);
                effects
            }
            Outcome::Wait(..) => panic!("nothing to wait for"),
        };
        let Effects { headers, response, kept, counters, counts, facts: found, properties, log } = effects;
        head = performed(&head, &headers);
        seen.count(&module.counters, counters, &counts);
        seen.log.extend(log);
        publish(host, &properties);
        facts.0.extend(found.0);
        passed.push((place, response, kept));
        if reply.is_some() {
            break;
        }
    }
    let mut response = answer(host, exchange, reply.as_ref());
    for (place, operations, kept) in passed.iter().rev() {
        response = performed(&response, operations);
        if let Some(kept) = kept {
            let module = &modules[*place];
            let done = module.on_response(kept, &response, &asked(*place));
            seen.count(&module.counters, done.counters, &[]);
            seen.log.extend(done.log);
            response = performed(&response, &done.headers);
        }
    }
    for (place, module) in modules.iter().enumerate() {
        seen.take(&module.counters, module.on_log(&head, &response, &asked(place), &facts), host);
    }
    seen.request = lines(&head);
    seen.response = lines(&response);
    seen.reply = reply;
    seen.properties = host.properties.take();
    seen
}
