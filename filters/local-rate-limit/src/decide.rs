//! The decision about one request.

use filter_api::{
    CounterSet, Effects, Fact, Facts, Filter, Head, Host, Level, LogLine, Moment, Outcome, Text,
};

use crate::LocalRateLimit;
use crate::answer;
use crate::cell::{Key, Place, Room};
use crate::charge::{self, Charge, Few, Settled, Undecided};
use crate::config::{CONTENTION, Config, Cost, Kind, Limit, Scope, details};
use crate::counters::{self, Allowed};
use crate::keys::{Asked, KeyHash};

/// How long whoever lost too many races is told to wait, in nanoseconds.
const AFTER_CONTENTION: u64 = 1;

/// Decides about a request.
pub(crate) fn outcome(filter: &LocalRateLimit, head: &impl Head, host: &impl Host, facts: &Facts) -> Outcome {
    let config = &filter.config;
    let asked = Asked::new(head, host, facts);
    if !config.enabled.is_all() && !config.enabled.has(low(host.moment())) {
        return pass(Allowed::NotEnabled);
    }
    if is_exempt(config, &asked) {
        return pass(Allowed::Exempt);
    }
    let charges = match charges(filter, &asked) {
        Ok(charges) if charges.is_empty() => return pass(Allowed::NoLimit),
        Ok(charges) => charges,
        Err(undecided) => return unsettled(config, host, undecided),
    };
    let now = host.moment().unix_nanos;
    if now == u64::MAX {
        // The clock cannot be read.
        return unsettled(config, host, Undecided::HostFailed);
    }
    let settled = match charge::take(&charges, now, host, &filter.worker) {
        Ok(settled) => settled,
        Err(undecided) => return unsettled(config, host, undecided),
    };
    let mut effects = Effects::default();
    observe(&settled, &mut effects);
    if !settled.refused {
        effects.counters.add(Allowed::WithinLimits.counter());
        if config.announce.is_anything() {
            let told = answer::standings(config, &charges, &settled.standings(&charges, now));
            effects.response = answer::on_response(told);
        }
        return Outcome::Continue(effects);
    }
    let standings = settled.standings(&charges, now);
    // Of several that refuse, the one that will be the last to pass it: who has waited for that passes.
    let refusing = charges.iter().zip(&standings).filter(|(_, standing)| standing.refuses);
    let refusing = refusing.max_by_key(|(_, standing)| standing.wait.unwrap_or(u64::MAX));
    let told = answer::standings(config, &charges, &standings);
    match refusing.and_then(|(charge, standing)| Some((config.limits.get(charge.limit)?, charge, standing))) {
        // Whoever refused is one of them.
        None => unsettled(config, host, Undecided::HostFailed),
        Some((limit, charge, standing)) => {
            note_refusal(&limit.name, &mut effects);
            let allowed = match () {
                () if config.shadow => Some(Allowed::Shadow),
                () if !config.enforced.is_all() && !config.enforced.has(high(host.moment())) => {
                    Some(Allowed::NotEnforced)
                }
                () => None,
            };
            let (level, what) = match allowed {
                None => (Level::Debug, "refused"),
                Some(_) => (Level::Info, "would refuse"),
            };
            if host.logs(level) {
                let text = format!("{}: {what}: {}", LocalRateLimit::NAME, limit.name);
                effects.log.push(LogLine { level, text });
            }
            let Some(allowed) = allowed else {
                effects.counters.add(counters::refused(charge.limit));
                return Outcome::Reply(
                    answer::refusal(config, limit.details.clone(), standing.wait, told),
                    effects,
                );
            };
            effects.counters.add(counters::shadow_refused(charge.limit));
            effects.counters.add(allowed.counter());
            effects.response = answer::on_response(told);
            effects.headers = answer::on_request(head, &config.when_not_enforced);
            effects.properties.extend(limit.property.clone());
            Outcome::Continue(effects)
        }
    }
}

fn pass(allowed: Allowed) -> Outcome {
    let mut counters = CounterSet::default();
    counters.add(allowed.counter());
    Outcome::Continue(Effects { counters, ..Effects::default() })
}

/// Dice for two throws.
fn low(moment: Moment) -> u32 {
    u32::try_from(moment.dice & u64::from(u32::MAX)).unwrap_or(0)
}

fn high(moment: Moment) -> u32 {
    u32::try_from(moment.dice >> 32).unwrap_or(0)
}

fn is_exempt<H: Head, T: Host>(config: &Config, asked: &Asked<'_, H, T>) -> bool {
    let exempt = &config.exempt;
    // A path that hides something is no ground for letting anybody off.
    let by_match = !exempt.matchers.is_empty()
        && exempt.matchers.iter().any(|matcher| {
            matcher.matches(asked.head, asked.path())
                && !(matcher.depends_on_path() && asked.path().is_obscured())
        });
    by_match
        || (!exempt.networks.is_empty()
            && asked.client(&exempt.origin).is_some_and(|client| client.is_in(&exempt.networks)))
}

/// What the request is charged to, in the order of the cells.
fn charges<H: Head, T: Host>(
    filter: &LocalRateLimit,
    asked: &Asked<'_, H, T>,
) -> Result<Few<Charge>, Undecided> {
    let config = &filter.config;
    let mut charges = Few::new();
    let (first, others) = match config.limits.split_first() {
        Some((first, others)) if config.first_is_fallback => (Some(first), others),
        _ => (None, config.limits.as_slice()),
    };
    let offset = usize::from(first.is_some());
    for (place, limit) in others.iter().enumerate() {
        charges.extend(charge_of(filter, asked, limit, place.saturating_add(offset))?);
    }
    if let Some(first) = first.filter(|_| charges.is_empty()) {
        charges.extend(charge_of(filter, asked, first, 0)?);
    }
    if charges.len() > 1 {
        charges.sort_by_key(|charge| (charge.own, charge.place));
    }
    Ok(charges)
}

/// What the request is charged to by this limit; nothing where that is not for it.
fn charge_of<H: Head, T: Host>(
    filter: &LocalRateLimit,
    asked: &Asked<'_, H, T>,
    limit: &Limit,
    place: usize,
) -> Result<Option<Charge>, Undecided> {
    if let Some(matcher) = &limit.matcher
        && !matcher.may_match(asked.head, asked.path())
    {
        return Ok(None);
    }
    let mut bucket = (limit.bucket, limit.id, None);
    let (cell, hash, room) = match limit.kind {
        Kind::Single => {
            let all_there = limit.entries.iter().all(|entry| asked.with_value(entry, |_| ()).is_some());
            if !all_there {
                return Ok(None);
            }
            (Place::FIRST, limit.id, Room::ForAll)
        }
        Kind::Fixed | Kind::Keyed(_) => {
            let mut hash = KeyHash::new(filter.seed(asked.host)?);
            for entry in &limit.entries {
                let there = asked.with_value(entry, |value| {
                    hash.add(value);
                    if let Some((number, special)) = limit.special_for(entry, value) {
                        bucket = (special.bucket, special.id, Some(number));
                    }
                });
                if there.is_none() {
                    return Ok(None);
                }
            }
            if limit.scope == Scope::Connection {
                hash.add(&asked.connection().ok_or(Undecided::HostFailed)?);
            }
            let hash = hash.of_limit(bucket.1);
            match limit.kind {
                Kind::Keyed(table) if bucket.2.is_none() || !limit.specials_are_fixed => {
                    (table.place(hash), hash, table.room())
                }
                _ => (Place::of_several(hash), hash, Room::ForAll),
            }
        }
    };
    let (bucket, _, special) = bucket;
    Ok(Some(Charge {
        limit: place,
        special,
        own: limit.scope != Scope::Process,
        place: cell,
        key: Key::new(limit.id, hash),
        room,
        bucket,
        cost: limit.cost.of(asked.head).min(bucket.max_tokens().max(1)),
        lease: limit.lease.min(bucket.max_tokens()),
    }))
}

impl Cost {
    /// Tokens that the request takes.
    fn of(&self, head: &impl Head) -> u32 {
        match self {
            Self::Fixed(cost) => *cost,
            Self::Header { name, default, least, most } => {
                let mut lines = head.get_all(name.as_str());
                let first = lines.next().filter(|_| lines.next().is_none());
                let digits = first
                    .map(<[u8]>::trim_ascii)
                    .filter(|text| !text.is_empty() && text.iter().all(u8::is_ascii_digit));
                let Some(digits) = digits else { return *default };
                let cost = digits.iter().fold(0_u32, |sum, digit| {
                    sum.saturating_mul(10).saturating_add(u32::from(digit.saturating_sub(b'0')))
                });
                cost.clamp(*least, *most)
            }
        }
    }
}

/// Counts what happened on the way.
fn observe(settled: &Settled, effects: &mut Effects) {
    let counts = [
        (counters::SWAPS_LOST, settled.lost),
        (counters::KEYS_FORGOTTEN, settled.forgotten),
        (counters::TOKENS_LOST, settled.tokens_lost),
    ];
    effects.counts.extend(counts.into_iter().filter(|(_, count)| *count > 0));
}

fn note_refusal(name: &Text, effects: &mut Effects) {
    effects.facts.0.push(Fact::Refused { filter: LocalRateLimit::NAME, reason: name.clone() });
}

/// What becomes of a request of which nothing can be said.
fn unsettled(config: &Config, host: &impl Host, undecided: Undecided) -> Outcome {
    let mut effects = Effects::default();
    let lost = match undecided {
        Undecided::HostFailed => {
            // As the filter declares: it must not stand in the way of what it cannot count.
            effects.log.extend(host.logs(Level::Error).then(|| {
                let text = format!(
                    "{}: the host does not let it count requests, so all pass; allow proxy_get_shared_data, \
                     proxy_set_shared_data, proxy_get_property and proxy_get_current_time_nanoseconds",
                    LocalRateLimit::NAME
                );
                LogLine { level: Level::Error, text }
            }));
            effects.counters.add(Allowed::HostFailure.counter());
            return Outcome::Continue(effects);
        }
        Undecided::Contention(lost) => lost,
    };
    effects.counts.push((counters::SWAPS_LOST, lost));
    if config.allow_on_contention || config.shadow {
        effects.counters.add(Allowed::Contention.counter());
        return Outcome::Continue(effects);
    }
    effects.counters.add(counters::REFUSED_BY_CONTENTION);
    note_refusal(&Text::from(CONTENTION), &mut effects);
    let reply = answer::refusal(config, details(CONTENTION), Some(AFTER_CONTENTION), Vec::new());
    Outcome::Reply(reply, effects)
}
