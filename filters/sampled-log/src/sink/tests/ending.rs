//! What becomes of lines when their configuration ends.

use std::rc::Rc;

use filter_api::{Facts, HeadMap, HostMap};

use super::*;

/// Lines that would wait for a minute.
fn waiting(world: &World, members: Value, lines: usize) -> Rc<Outbox> {
    let mut settings = json!({ "flush_interval": "60s" });
    settings.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let outbox = Rc::new(lines_outbox(settings));
    (1..=lines).for_each(|line| world.push(&outbox, &format!("{{{line}}}")));
    world.soon.set(false);
    outbox
}

fn tick(world: &World, heir: &Heir) {
    heir.take_over();
    world.take(heir.for_inherited(|outbox| outbox.tick(world)));
}

/// Answers the only batch under way, and returns its body.
fn answer(world: &World, heir: &Heir, answer: &Answer) -> String {
    let [(number, body)] = world.open.take().try_into().unwrap();
    let fetched = Fetched { number, response: Some(answer) };
    world.take(heir.for_inherited(|outbox| outbox.fetched(&fetched, world)));
    String::from_utf8(body).unwrap()
}

/// Ends a configuration as the host does.
fn end(world: &World, heir: Heir, own: Option<&Rc<Outbox>>) -> Vec<String> {
    world.takes_several.set(true);
    world.take(heir.end(own, world));
    world.takes_several.set(false);
    world.break_off()
}

#[test]
fn what_waits_is_sent_by_the_next_configuration_batch_after_batch_at_once() {
    let (world, heir) = (World::new(), Heir::default());
    let outbox = waiting(&world, json!({ "max_batch_lines": 6 }), 5);
    let next = heir.beside();
    assert!(end(&world, heir, Some(&outbox)).is_empty());
    (6..=8).for_each(|line| world.push(&outbox, &format!("{{{line}}}")));
    tick(&world, &next);
    assert_eq!(answer(&world, &next, &Answer::status(200)), "{1}\n{2}\n{3}\n{4}\n{5}\n{6}\n");
    assert_eq!(answer(&world, &next, &Answer::status(200)), "{7}\n{8}\n");
    assert_eq!((world.count("sent"), world.lost(), world.now.get()), (8, 0, START));
    assert_eq!(Rc::strong_count(&outbox), 1, "it is forgotten then");
}

#[test]
fn what_is_under_way_is_broken_off_and_sent_again() {
    let (world, heir) = (World::new(), Heir::default());
    let outbox = waiting(&world, json!({ "max_batch_lines": 2 }), 3);
    world.tick(&outbox);
    let next = heir.beside();
    assert_eq!(end(&world, heir, Some(&outbox)), ["{1}\n{2}\n"]);
    tick(&world, &next);
    assert_eq!(answer(&world, &next, &Answer::status(200)), "{1}\n{2}\n");
    assert_eq!(answer(&world, &next, &Answer::status(200)), "{3}\n");
    assert_eq!((world.count("sent"), world.lost(), outbox.size()), (3, 0, (0, 0)));
}

#[test]
fn one_heir_after_another_takes_over_what_the_one_before_has_not_sent() {
    let (world, heir) = (World::new(), Heir::default());
    let outbox = waiting(&world, json!({}), 1);
    let (second, third) = (heir.beside(), heir.beside());
    end(&world, heir, Some(&outbox));
    tick(&world, &second);
    world.wait(SECOND);
    let own = waiting(&world, json!({}), 2);
    assert_eq!(end(&world, second, Some(&own)), ["{1}\n"]);
    world.takes_several.set(true);
    tick(&world, &third);
    let mut bodies: Vec<_> = world.open.take().into_iter().map(|(_, body)| body).collect();
    bodies.sort();
    assert_eq!(bodies, [b"{1}\n".to_vec(), b"{1}\n{2}\n".to_vec()]);
}

#[test]
fn a_collector_that_cannot_is_asked_for_ten_seconds_and_its_last_answer_waited_for() {
    let (world, heir) = (World::new(), Heir::default());
    let outbox = waiting(&world, json!({ "retries": 100, "max_batch_lines": 3 }), 5);
    let next = heir.beside();
    end(&world, heir, Some(&outbox));
    let mut tries = 0;
    while world.lost() == 0 {
        let is_settled = || !world.open.borrow().is_empty() || world.lost() > 0;
        world.until(is_settled, || tick(&world, &next));
        if world.lost() == 0 {
            tries += 1;
            answer(&world, &next, &Answer::status(503));
        }
    }
    assert!((5..=6).contains(&tries), "{tries}");
    let took = (world.now.get() - START) / 1_000_000;
    assert!((10_000..=11_000).contains(&took), "{took}");
    assert_eq!((world.count("lost.reason.ended"), outbox.size()), (5, (0, 0)));
    assert!(world.log.borrow()[0].contains("lines lost: 5; the last because the collector did not take"));
    assert_eq!(Rc::strong_count(&outbox), 1);

    // One that takes its time is waited for, as long as the host does.
    let (world, heir) = (World::new(), Heir::default());
    let outbox = waiting(&world, json!({ "max_batch_lines": 3 }), 5);
    let next = heir.beside();
    end(&world, heir, Some(&outbox));
    tick(&world, &next);
    world.wait(60 * SECOND);
    tick(&world, &next);
    assert_eq!((world.lost(), outbox.size().0), (0, 5));
    answer(&world, &next, &Answer::status(200));
    assert_eq!((world.count("sent"), world.count("lost.reason.ended")), (3, 2));
}

#[test]
fn a_clock_that_is_put_back_keeps_nothing_of_what_has_ended() {
    let (world, heir) = (World::new(), Heir::default());
    let outbox = waiting(&world, json!({}), 1);
    let next = heir.beside();
    end(&world, heir, Some(&outbox));
    world.now.set(START - 3600 * SECOND);
    tick(&world, &next);
    assert_eq!((world.count("lost.reason.ended"), outbox.size()), (1, (0, 0)));
}

#[test]
fn the_last_configuration_sends_a_batch_and_counts_all() {
    // Nothing under way, a batch under way, a batch that is to be sent again.
    for (ticks, answered, expected) in
        [(0, None, "{1}\n{2}\n"), (1, None, "{3}\n{4}\n"), (1, Some(503), "{1}\n{2}\n")]
    {
        let (world, heir) = (World::new(), Heir::default());
        let outbox = waiting(&world, json!({ "max_batch_lines": 2 }), 5);
        (0..ticks).for_each(|_| world.tick(&outbox));
        if let Some(status) = answered {
            world.answer(&outbox, Some(&Answer::status(status)));
        }
        let open = world.open.borrow().len();
        let bodies = end(&world, heir, Some(&outbox));
        assert_eq!(bodies[open..], [expected]);
        assert_eq!((world.count("lost.reason.ended"), world.count("sent"), outbox.size()), (5, 0, (0, 0)));
    }
    // What another has left too, which nobody has taken over.
    let (world, heir) = (World::new(), Heir::default());
    let last = heir.beside();
    let outbox = waiting(&world, json!({}), 1);
    end(&world, heir, Some(&outbox));
    world.knows_the_cluster.set(false);
    assert!(end(&world, last, Some(&waiting(&world, json!({}), 2))).is_empty());
    assert_eq!((world.count("lost.reason.ended"), world.lost()), (3, 3));
}

#[test]
fn where_nothing_waits_nothing_is_left_or_sent() {
    let (world, heir) = (World::new(), Heir::default());
    let last = heir.beside();
    let outbox = waiting(&world, json!({}), 0);
    assert!(end(&world, heir, Some(&outbox)).is_empty());
    assert_eq!(Rc::strong_count(&outbox), 1);
    assert!(end(&world, last, None).is_empty());
    assert_eq!((world.started.get(), world.lost()), (0, 0));
}

#[test]
fn a_filter_sends_what_the_one_before_has_left_whatever_its_own_sink() {
    let filter = |sink: Value| {
        let config = json!({ "percent_sampled": 100, "sink": sink }).to_string();
        SampledLog::configure(config.as_bytes()).unwrap().filter.on_its_own_worker()
    };
    let http = json!({ "http": { "cluster": "collector", "flush_interval": "60s" } });
    for sink in [json!("envoy_log"), json!("access_log"), http.clone()] {
        let world = World::new();
        let old = filter(http.clone());
        let new = SampledLog { heir: old.heir.beside(), ..filter(sink) };
        let host = HostMap::at(START);
        let head = HeadMap::get("/orders");
        world.take(old.on_log(&head, &HeadMap::default(), &host, &Facts::default()));
        world.take(old.on_end(&world));
        drop(old);
        world.take(new.on_tick(&world));
        let [(number, body)] = world.open.take().try_into().unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().map(Vec::len), Some(1));
        world.take(new.on_fetched(Fetched { number, response: Some(&Answer::status(200)) }, &world));
        assert_eq!((world.count("sent"), world.lost()), (1, 0));
        world.take(new.on_end(&world));
        assert_eq!((world.started.get(), world.lost()), (1, 0));
    }
}

/// As in a chain, whose filters end one after the other and are only then gone.
#[test]
fn who_has_ended_is_nobodys_heir() {
    let (world, heir) = (World::new(), Heir::default());
    let beside = heir.beside();
    let (one, other) = (waiting(&world, json!({}), 1), waiting(&world, json!({}), 2));
    world.takes_several.set(true);
    world.take(heir.end(Some(&one), &world));
    assert_eq!(world.lost(), 0, "the other may send them yet");
    world.take(beside.end(Some(&other), &world));
    assert_eq!((world.count("lost.reason.ended"), world.lost()), (3, 3));
}
