//! Several workers and one server, without any of them: cells and fetches are kept here, and time is a number.

use filter_api::{CellMap, Work};
use serde_json::{Value, json};

use super::*;

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const START: u64 = 1_796_000_000 * SECOND;
const TIMEOUT: u64 = 5 * SECOND;

/// What workers share, and the time.
pub(super) struct World {
    pub(super) now: Cell<u64>,
    dice: Cell<u64>,
    cells: CellMap,
    /// The fetches started and not answered: their numbers and whether they named an `ETag`.
    pub(super) open: RefCell<Vec<(u32, Option<String>)>>,
    started: Cell<u32>,
    knows_the_cluster: Cell<bool>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: Cell::new(START),
            dice: Cell::new(1),
            cells: CellMap::default(),
            open: RefCell::default(),
            started: Cell::new(0),
            knows_the_cluster: Cell::new(true),
        }
    }

    pub(super) fn wait(&self, nanos: u64) {
        self.now.set(self.now.get() + nanos);
    }
}

impl Cells for World {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.cells.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.cells.share(cell, content, over)
    }
}

impl Background for World {
    fn moment(&self) -> Moment {
        self.dice.set(self.dice.get() + 1);
        Moment { unix_nanos: self.now.get(), dice: self.dice.get() }
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, HostFailed> {
        if !self.knows_the_cluster.get() {
            return Err(HostFailed(2));
        }
        assert_eq!((fetch.cluster, fetch.timeout_millis), ("issuer", 5000));
        let line = |name: &str| {
            let (_, value) = fetch.headers.iter().find(|(own, _)| own.as_str() == name)?;
            Some(String::from_utf8(value.as_bytes().to_vec()).unwrap())
        };
        let asked = [":method", ":scheme", ":authority", ":path"].map(|name| line(name).unwrap());
        assert_eq!(asked, ["GET", "https", "issuer.example", "/jwks"]);
        self.started.set(self.started.get() + 1);
        self.open.borrow_mut().push((self.started.get(), line("if-none-match")));
        Ok(self.started.get())
    }
}

/// A response: headers and body.
pub(super) struct Answer(Vec<(&'static str, &'static str)>, Vec<u8>);

impl Answer {
    pub(super) fn with_keys(names: &[&str], headers: &[(&'static str, &'static str)]) -> Self {
        Self([&[(":status", "200")], headers].concat(), jwks(names).to_string().into_bytes())
    }

    pub(super) fn status(status: &'static str) -> Self {
        Self(vec![(":status", status)], Vec::new())
    }
}

impl Response for Answer {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_bytes().to_vec())
    }

    fn body_length(&self) -> usize {
        self.1.len()
    }

    fn body(&self) -> Option<Vec<u8>> {
        Some(self.1.clone())
    }
}

fn jwks(names: &[&str]) -> Value {
    let key =
        |name: &&str| json!({"kty": "oct", "kid": name, "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"});
    json!({"keys": names.iter().map(key).collect::<Vec<_>>()})
}

fn settings() -> Settings {
    Settings {
        place: "providers.main.remote_jwks".to_owned(),
        url: Url::parse("https://issuer.example/jwks").unwrap(),
        cluster: "issuer".to_owned(),
        timeout: TIMEOUT,
        cache_duration: 600 * SECOND,
        stale_if_error: 3600 * SECOND,
        min_refetch_interval: 30 * SECOND,
        wait_for_keys: 2 * SECOND,
        max_body_bytes: 2000,
        retries: 0,
        retry_base: SECOND,
        retry_most: 10 * SECOND,
        failed_refetch: 4 * SECOND,
        allow_weak: false,
        allow_mixture: false,
    }
}

/// Workers who have taken their first step.
fn workers(world: &World, settings: &Settings, count: usize) -> Vec<Remote> {
    let workers: Vec<Remote> = (0..count).map(|_| Remote::new(settings.clone())).collect();
    workers.iter().for_each(|worker| assert!(worker.start(world).soon));
    workers
}

fn tick(world: &World, workers: &[Remote]) -> Vec<Work> {
    workers.iter().map(|worker| worker.tick(world)).collect()
}

/// Answers the one fetch that is open, to whomever it belongs. Returns the `ETag` that it named.
fn answer(world: &World, workers: &[Remote], response: Option<&Answer>) -> (Work, Option<String>) {
    let open = std::mem::take(&mut *world.open.borrow_mut());
    let [(number, etag)] = open.as_slice() else { panic!("{open:?}") };
    let response = response.map(|response| response as &dyn Response);
    let mut worked =
        workers.iter().filter_map(|it| it.fetched(&Fetched { number: *number, response }, world));
    let work = worked.next().expect("it is somebody's");
    assert!(worked.next().is_none(), "it is one's");
    (work, etag.clone())
}

fn names(worker: &Remote) -> Vec<&'static str> {
    let Some(keys) = worker.keys() else { return Vec::new() };
    let has = |name: &&&str| keys.candidates(Some(name), crate::algorithm::Algorithm::HS256).next().is_some();
    ["a", "b", "c"].iter().filter(has).copied().collect()
}

fn counted(work: &Work, result: FetchResult) -> bool {
    work.counters.contains(result.counter())
}

#[test]
fn one_worker_fetches_for_all() {
    let world = World::new();
    let workers = workers(&world, &settings(), 4);
    for _ in 0..3 {
        tick(&world, &workers);
        world.wait(SECOND);
    }
    assert_eq!(world.started.get(), 1);
    assert!(workers.iter().all(|worker| worker.keys().is_none() && worker.ask(world.now.get())));
    let (work, _) = answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    assert!(work.resume && counted(&work, FetchResult::NewKeys) && work.log.is_empty());
    let others: Vec<Work> = tick(&world, &workers);
    assert_eq!(others.iter().filter(|work| work.resume).count(), 3, "whoever did not fetch takes it in");
    assert!(workers.iter().all(|worker| names(worker) == ["a"]));
    // Fresh for ten minutes, less up to one of them.
    world.wait(530 * SECOND);
    tick(&world, &workers);
    assert_eq!(world.started.get(), 1);
    world.wait(70 * SECOND);
    tick(&world, &workers);
    tick(&world, &workers);
    assert_eq!(world.started.get(), 2);
}

#[test]
fn a_worker_that_never_comes_back_is_replaced() {
    let world = World::new();
    let workers = workers(&world, &settings(), 2);
    tick(&world, &workers[..1]);
    world.wait(TIMEOUT + SECOND - 1);
    tick(&world, &workers[1..]);
    assert_eq!(world.started.get(), 1, "the lease holds");
    world.wait(1);
    tick(&world, &workers[1..]);
    assert_eq!(world.started.get(), 2);
    // Both come back after all: what the second brings counts, in either order.
    let open = std::mem::take(&mut *world.open.borrow_mut());
    let (late, right) = (Answer::with_keys(&["a"], &[]), Answer::with_keys(&["b"], &[]));
    workers[0].fetched(&Fetched { number: open[0].0, response: Some(&late) }, &world).unwrap();
    assert!(workers.iter().all(|worker| worker.keys().is_none()));
    workers[1].fetched(&Fetched { number: open[1].0, response: Some(&right) }, &world).unwrap();
    tick(&world, &workers);
    assert!(workers.iter().all(|worker| names(worker) == ["b"]));
}

#[test]
fn what_is_no_set_of_keys_changes_nothing() {
    let world = World::new();
    let workers = workers(&world, &settings(), 2);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    let ok = |body: &[u8]| Answer(vec![(":status", "200")], body.to_vec());
    let bad: Vec<(Option<Answer>, FetchResult, &str)> = vec![
        (None, FetchResult::NoResponse, "the response broke off"),
        (Some(Answer::status("500")), FetchResult::BadStatus, "the response has status 500"),
        (Some(Answer::status("302")), FetchResult::BadStatus, "the response has status 302"),
        (Some(Answer(vec![], vec![])), FetchResult::BadStatus, "the response has status "),
        (Some(ok(&[b' '; 2001])), FetchResult::TooLarge, "the response has 2001 bytes; the most is 2000"),
        (Some(ok(b"")), FetchResult::Unusable, "is empty"),
        (Some(ok(b"<html>")), FetchResult::Unusable, "neither PEM nor valid JSON"),
        (Some(ok(b"\xff\xfe")), FetchResult::Unusable, "the response is not text"),
        (Some(ok(b"{\"keys\":[]}")), FetchResult::Unusable, "holds no key"),
        (Some(ok(&jwks(&["a"; 101]).to_string().as_bytes()[..1000])), FetchResult::Unusable, "JSON"),
        (
            Some(ok(b"{\"keys\":[{\"kty\":\"oct\",\"k\":\"\"}]}")),
            FetchResult::Unusable,
            "the secret is empty",
        ),
    ];
    for (response, result, complaint) in bad {
        world.wait(601 * SECOND);
        tick(&world, &workers);
        let failures = workers[0].state.get().failures;
        let (work, _) = answer(&world, &workers, response.as_ref());
        assert!(counted(&work, result), "{complaint}");
        if (failures + 1).is_power_of_two() {
            let line = &work.log[0].text;
            assert!(line.starts_with("jwt_reject: providers.main.remote_jwks: fetching failed"), "{line}");
            assert!(line.contains(complaint), "{line}");
        }
        tick(&world, &workers);
        assert!(workers.iter().all(|worker| names(worker) == ["a"] && worker.version() == 1), "{complaint}");
        // It is tried again, but not at once.
        let started = world.started.get();
        world.wait(2 * SECOND);
        tick(&world, &workers);
        assert_eq!(world.started.get(), started, "{complaint}");
        world.wait(2 * SECOND);
        tick(&world, &workers);
        assert_eq!(world.started.get(), started + 1, "{complaint}");
        answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    }
}

#[test]
fn old_keys_serve_until_they_are_too_old() {
    let world = World::new();
    let workers = workers(&world, &settings(), 2);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    let mut lines = Vec::new();
    let mut seconds = 0;
    while seconds < 600 + 3600 {
        world.wait(10 * SECOND);
        seconds += 10;
        lines.extend(tick(&world, &workers).into_iter().flat_map(|work| work.log));
        if !world.open.borrow().is_empty() {
            lines.extend(answer(&world, &workers, None).0.log);
        }
        assert!(workers.iter().all(|worker| names(worker) == ["a"]), "{seconds}");
    }
    assert!((7..=10).contains(&lines.len()), "{lines:?}");
    world.wait(SECOND);
    let work = tick(&world, &workers);
    assert!(workers.iter().all(|worker| names(worker).is_empty() && worker.version() == 0));
    assert!(work.iter().all(|work| work.log.iter().any(|line| line.text.contains("too old"))));
    // The very same set comes back.
    world.wait(10 * SECOND);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    tick(&world, &workers);
    assert!(workers.iter().all(|worker| names(worker) == ["a"]));
}

#[test]
fn an_unknown_key_makes_one_fetch_an_interval() {
    let world = World::new();
    let workers = workers(&world, &settings(), 3);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    tick(&world, &workers);
    assert!(workers.iter().all(|worker| !worker.ask(world.now.get())), "it was fetched a moment ago");
    for round in 0..10 {
        world.wait(30 * SECOND);
        assert!(workers.iter().all(|worker| worker.ask(world.now.get())));
        tick(&world, &workers);
        assert!(workers.iter().all(|worker| worker.ask(world.now.get())), "while it is under way");
        assert_eq!(world.started.get(), 2 + round);
        let (work, _) = answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
        assert!(work.resume && counted(&work, FetchResult::NotModified));
        let work = tick(&world, &workers);
        assert_eq!(
            work.iter().filter(|work| work.resume).count(),
            2,
            "who waited elsewhere need not any more"
        );
        for _ in 0..29 {
            assert!(workers.iter().all(|worker| !worker.ask(world.now.get())));
            tick(&world, &workers);
        }
    }
    assert_eq!(world.started.get(), 11);
    assert!(workers.iter().all(|worker| worker.version() == 1), "the same keys: nothing was forgotten");
    world.wait(30 * SECOND);
    workers[2].ask(world.now.get());
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a", "b"], &[])));
    tick(&world, &workers);
    assert!(workers.iter().all(|worker| names(worker) == ["a", "b"] && worker.version() == 2));
}

#[test]
fn etag_and_max_age_are_honoured_within_bounds() {
    let world = World::new();
    let workers = workers(&world, &settings(), 2);
    tick(&world, &workers);
    let (_, etag) = answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[("etag", "\"1\"")])));
    assert_eq!(etag, None);
    let rows: [(&[(&'static str, &'static str)], u64); 6] = [
        (&[("cache-control", "public, max-age=100")], 100),
        (&[("cache-control", "max-age=100"), ("age", "40")], 60),
        (&[("cache-control", "max-age=1")], 30),
        (&[("cache-control", "no-store")], 30),
        (&[("cache-control", "max-age=86400")], 600),
        (&[("cache-control", "immutable")], 600),
    ];
    let mut wait = 600;
    for (headers, lifetime) in rows {
        world.wait(wait * SECOND);
        tick(&world, &workers);
        let not_modified = Answer([&[(":status", "304")], headers].concat(), Vec::new());
        let (work, etag) = answer(&world, &workers, Some(&not_modified));
        assert!(counted(&work, FetchResult::NotModified));
        assert_eq!(etag.as_deref(), Some("\"1\""));
        let (now, state) = (world.now.get(), workers[0].state.get());
        let fetching = workers.iter().map(|worker| worker.state.get()).max_by_key(|state| state.fresh_until);
        let state = fetching.unwrap_or(state);
        assert_eq!(state.fresh_until, now + lifetime * SECOND, "{headers:?}");
        let early = state.fresh_until - state.next;
        assert!(early <= lifetime * SECOND / 10, "{headers:?}");
        wait = lifetime;
    }
    assert!(workers.iter().all(|worker| names(worker) == ["a"] && worker.version() == 1));
}

#[test]
fn a_new_configuration_has_the_keys_from_the_start() {
    let world = World::new();
    let old = workers(&world, &settings(), 1);
    tick(&world, &old);
    answer(&world, &old, Some(&Answer::with_keys(&["a"], &[])));
    let longer = Settings { stale_if_error: 7200 * SECOND, ..settings() };
    assert_eq!(names(&workers(&world, &longer, 1)[0]), ["a"]);
    for other in [
        Settings { cluster: "other".to_owned(), ..settings() },
        Settings { url: Url::parse("https://issuer.example/other").unwrap(), ..settings() },
        Settings { allow_weak: true, ..settings() },
        Settings { max_body_bytes: 3000, ..settings() },
    ] {
        assert!(workers(&world, &other, 1)[0].keys().is_none(), "{other:?}");
    }
}

#[test]
fn retries_come_as_configured() {
    let retries = Settings { retries: 3, ..settings() };
    let delays: Vec<u64> = (1..=9).map(|failures| retries.retry_delay(failures) / SECOND).collect();
    assert_eq!(delays, [1, 2, 4, 4, 1, 2, 4, 4, 1]);
    let bounded = Settings { retries: 10, retry_most: 5 * SECOND, ..settings() };
    assert_eq!(
        (1..=11).map(|it| bounded.retry_delay(it) / SECOND).collect::<Vec<_>>(),
        [1, 2, 4, 5, 5, 5, 5, 5, 5, 5, 4]
    );
    assert_eq!(settings().retry_delay(u64::MAX), 4 * SECOND);
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let world = World::new();
    world.knows_the_cluster.set(false);
    let workers = workers(&world, &settings(), 1);
    let work = workers[0].tick(&world);
    assert!(counted(&work, FetchResult::NoResponse) && work.resume);
    assert!(work.log[0].text.contains("is there a cluster \"issuer\""), "{:?}", work.log);
    world.knows_the_cluster.set(true);
    world.wait(4 * SECOND);
    workers[0].tick(&world);
    assert_eq!(world.started.get(), 1);
}

#[test]
fn a_clock_that_is_put_back_does_not_stop_fetching() {
    let world = World::new();
    let workers = workers(&world, &settings(), 2);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    world.now.set(START - 86_400 * SECOND);
    tick(&world, &workers);
    assert_eq!(world.started.get(), 2);
}

/// A worker whose lease has run out may have written the set, and not the state: that set counts for nothing.
#[test]
fn a_set_without_its_state_is_not_taken_in() {
    let world = World::new();
    let workers = workers(&world, &settings(), 1);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["a"], &[])));
    let stray = Published { etag: None, body: jwks(&["b"]).to_string().into_bytes() };
    world.share(&workers[0].keys_cell, &stray.encode(2), Over::Anything).unwrap();
    assert!(!tick(&world, &workers)[0].resume);
    assert_eq!(names(&workers[0]), ["a"]);
    assert!(self::workers(&world, &settings(), 1)[0].keys().is_none());
    world.wait(600 * SECOND);
    tick(&world, &workers);
    answer(&world, &workers, Some(&Answer::with_keys(&["c"], &[])));
    assert_eq!((names(&workers[0]), workers[0].version()), (vec!["c"], 2));
    assert_eq!(names(&self::workers(&world, &settings(), 1)[0]), ["c"]);
}

#[test]
fn without_a_clock_nothing_is_fetched() {
    let world = World::new();
    world.now.set(u64::MAX);
    let workers = workers(&world, &settings(), 2);
    tick(&world, &workers);
    assert_eq!(world.started.get(), 0);
}

#[test]
fn secrets_among_public_keys_are_refused_unless_meant() {
    let mixed = json!({"keys": [
        {"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    ]});
    let body = mixed.to_string().into_bytes();
    assert!(settings().parse(&body).unwrap_err().contains("algorithms"));
    assert!(Settings { allow_mixture: true, ..settings() }.parse(&body).is_ok());
}
