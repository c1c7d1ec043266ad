//! Requests that wait for keys, in the middle of a list.

use std::cell::{Cell, RefCell};

use filter_api::{
    Attribute, Background, Cells, Effects, Fetch, Host, HostFailed, HostVerdict, Level, Moment, Over,
    Response, SharedValue, SignatureCheck, Waiting,
};

use super::*;

/// A host that lets requests wait, and starts fetches that nobody answers of itself.
struct World {
    host: HostMap,
    waiting: Cell<Waiting>,
    /// Fetches under way: their numbers and clusters.
    open: RefCell<Vec<(u32, String)>>,
    started: Cell<u32>,
}

impl World {
    fn new() -> Self {
        Self {
            host: HostMap::at(START),
            waiting: Cell::new(Waiting::NotYet),
            open: RefCell::default(),
            started: Cell::new(0),
        }
    }

    /// Milliseconds since the beginning.
    fn is_at(&self, milliseconds: u64) {
        self.host.now.set(START + milliseconds * 1_000_000);
    }

    /// A tick, and the answer of this cluster's server to whatever it was asked.
    fn answer(&self, chain: &Foregate, cluster: &str) -> Work {
        chain.on_tick(self);
        let place = self.open.borrow().iter().position(|(_, own)| own == cluster).unwrap();
        let (number, _) = self.open.borrow_mut().remove(place);
        chain.on_fetched(Fetched { number, response: Some(&Keys) }, self)
    }
}

/// A response with the keys of `main`.
#[derive(Debug)]
struct Keys;

impl Response for Keys {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        (name == ":status").then(|| b"200".to_vec())
    }

    fn body_length(&self) -> usize {
        tokens::main_keys().to_string().len()
    }

    fn body(&self) -> Option<Vec<u8>> {
        Some(tokens::main_keys().to_string().into_bytes())
    }
}

impl Host for World {
    fn moment(&self) -> Moment {
        Host::moment(&self.host)
    }

    fn logs(&self, level: Level) -> bool {
        self.host.logs(level)
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        self.host.verify_signature(check)
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        self.host.attribute(attribute)
    }

    fn waiting(&self) -> Waiting {
        self.waiting.get()
    }
}

impl Cells for World {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.host.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.host.share(cell, content, over)
    }
}

impl Background for World {
    fn moment(&self) -> Moment {
        Background::moment(&self.host)
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, HostFailed> {
        self.started.set(self.started.get() + 1);
        self.open.borrow_mut().push((self.started.get(), fetch.cluster.to_owned()));
        Ok(self.started.get())
    }
}

/// A filter that fetches its keys by way of this cluster, and looks for tokens in this header.
fn remote(cluster: &str, header: &str) -> Value {
    json!({ "name": cluster, "jwt_reject": {
        "providers": { "main": {
            "issuer": "https://main.example",
            "remote_jwks": { "http_uri": { "uri": format!("https://{cluster}.example/jwks"), "cluster": cluster, "timeout": "5s" } },
            "from_headers": [{ "name": header }],
            "claim_to_properties": [{ "claim_name": "sub", "property_name": cluster }],
        } },
        "rules": [{ "match": {}, "requires": { "provider_name": "main" } }],
    } })
}

fn held(outcome: Outcome<Kept>) -> (u64, Effects<Kept>) {
    match outcome {
        Outcome::Wait(until, effects) => ((until - START) / 1_000_000, effects),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_done_before_the_wait_is_done_once_and_stands_after_it() {
    let world = World::new();
    let chain = chain(&json!([
        { "local_rate_limit": { "rate": "2/h", "enable_x_ratelimit_headers": "DRAFT_VERSION_03" } },
        {
            "header_rewrite": {
                "request_mutations": [{ "set": { "name": "x-a", "value": "before" } }],
                "response_mutations": [{ "set": { "name": "x-b", "value": "%REQ(x-a)%" } }],
            },
        },
        remote("issuer", "x-jwt"),
        set(&[("x-user", "%CLAIM(sub)%"), ("x-property", "%CLAIM(issuer)%"), ("x-c", "%REQ(x-a)%")]),
    ]));
    chain.on_start(&world);
    let head = HeadMap::get("/").with("x-jwt", tokens::main(&json!({})));
    let (until, effects) = held(chain.on_request(&head, &world, &Facts::default()));
    assert_eq!(until, 2000);
    assert_eq!(
        counted(&chain, &effects),
        ["local_rate_limit.allowed.reason.within_limits", "jwt_reject.issuer.requests_waited"]
    );
    assert!(effects.headers.is_empty() && effects.response.is_empty(), "nothing is done to it yet");

    // Asked again too early, it waits on, and nothing is counted twice.
    world.is_at(500);
    world.waiting.set(Waiting::Since(START));
    let (until, effects) = held(chain.on_resume(effects.kept, &head, &world, &Facts::default()));
    assert_eq!((until, counted(&chain, &effects)), (2000, Vec::new()));

    assert!(world.answer(&chain, "issuer").resume);
    let Outcome::Continue(effects) = chain.on_resume(effects.kept, &head, &world, &Facts::default()) else {
        panic!("its keys have come")
    };
    assert_eq!(
        shown(&effects.headers),
        ["x-a: before", "-x-jwt", "x-user: alice", "x-property: alice", "x-c: before"]
    );
    assert!(
        counted(&chain, &effects).iter().all(|name| name.starts_with("jwt_reject.issuer.")),
        "{effects:?}"
    );
    assert_eq!(effects.facts.claims().count(), 1);
    let response = HeadMap::default().with(":status", "200");
    let done = chain.on_response(&effects.kept.unwrap(), &response, &world);
    assert_eq!(
        shown(&done.headers),
        ["x-b: before", "x-ratelimit-limit: 2", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1800"]
    );

    // Of two tokens it took one.
    let ask = || chain.on_request(&head, &world, &Facts::default());
    assert!(matches!(ask(), Outcome::Continue(_)));
    assert!(matches!(ask(), Outcome::Reply(reply, _) if &*reply.details == "local_rate_limited{default}"));
}

#[test]
fn who_waits_a_second_time_has_its_own_patience() {
    let world = World::new();
    let chain = chain(&json!([
        remote("one", "x-one"),
        set(&[("x-a", "%CLAIM(sub)%")]),
        remote("two", "x-two"),
        set(&[("x-tenant", "%CLAIM(tenant)%")])
    ]));
    chain.on_start(&world);
    let head = HeadMap::get("/")
        .with("x-one", tokens::main(&json!({ "sub": "alice", "tenant": "blue" })))
        .with("x-two", tokens::main(&json!({ "sub": "bob" })));
    let (until, effects) = held(chain.on_request(&head, &world, &Facts::default()));
    assert_eq!((until, counted(&chain, &effects)), (2000, vec!["jwt_reject.one.requests_waited".to_owned()]));

    // The host says since when it has waited in all; the second filter has held it for no time yet.
    world.is_at(1500);
    world.waiting.set(Waiting::Since(START));
    world.answer(&chain, "one");
    let (until, effects) = held(chain.on_resume(effects.kept, &head, &world, &Facts::default()));
    let counts = counted(&chain, &effects);
    assert_eq!(until, 3500);
    assert!(counts.contains(&"jwt_reject.one.allowed.reason.verified".to_owned()), "{counts:?}");
    assert!(counts.contains(&"jwt_reject.two.requests_waited".to_owned()), "{counts:?}");

    world.is_at(3400);
    let (until, effects) = held(chain.on_resume(effects.kept, &head, &world, &Facts::default()));
    assert_eq!((until, counted(&chain, &effects)), (3500, Vec::new()));
    world.is_at(3500);
    let Outcome::Reply(reply, effects) = chain.on_resume(effects.kept, &head, &world, &Facts::default())
    else {
        panic!("its time is up")
    };
    assert_eq!(&*reply.details, "jwt_reject{jwks_unavailable}");
    assert_eq!(shown(&effects.headers), ["-x-one", "x-a: alice"]);
    assert_eq!(effects.properties.len(), 1);

    // And where they come in time.
    world.waiting.set(Waiting::NotYet);
    let (_, effects) = held(chain.on_request(&head, &world, &Facts::default()));
    world.answer(&chain, "two");
    world.waiting.set(Waiting::Since(START + 3500 * 1_000_000));
    let Outcome::Continue(effects) = chain.on_resume(effects.kept, &head, &world, &Facts::default()) else {
        panic!("its keys have come")
    };
    assert_eq!(shown(&effects.headers), ["-x-one", "x-a: alice", "-x-two", "x-tenant: blue"]);
}

#[test]
fn where_nobody_may_wait_it_is_refused_at_once() {
    let world = World::new();
    let chain = chain(&json!([remote("issuer", "x-jwt")]));
    chain.on_start(&world);
    world.waiting.set(Waiting::Never);
    let head = HeadMap::get("/").with("x-jwt", tokens::main(&json!({})));
    let outcome = chain.on_request(&head, &world, &Facts::default());
    assert!(matches!(outcome, Outcome::Reply(reply, _) if reply.status == 503));
}

/// A refusal that needs no keys is not put off by a filter behind it that would wait.
#[test]
fn who_is_refused_waits_for_nothing() {
    let world = World::new();
    let chain = chain(&json!([
        { "local_rate_limit": { "token_bucket": { "max_tokens": 0, "fill_interval": "1s" } } },
        remote("issuer", "x-jwt"),
    ]));
    chain.on_start(&world);
    let head = HeadMap::get("/").with("x-jwt", tokens::main(&json!({})));
    let outcome = chain.on_request(&head, &world, &Facts::default());
    assert!(matches!(outcome, Outcome::Reply(reply, _) if reply.status == 429));
}
