//! What becomes of lines.

use proptest::prelude::*;

use super::*;

#[test]
fn lines_wait_for_each_other_and_leave_together() {
    let (world, outbox) = (World::new(), lines_outbox(json!({ "max_batch_lines": 3 })));
    world.push(&outbox, "{1}");
    world.wait(SECOND / 2);
    world.push(&outbox, "{2}");
    assert!(world.soon.get(), "the first is due in half a second, before the next tick");
    assert!((500..=540).contains(&world.until_sent(&outbox)));
    world.push(&outbox, "{3}");
    world.wait(SECOND / 4);
    world.tick(&outbox);
    assert!(!world.soon.get(), "one batch at a time");
    assert_eq!(world.answer(&outbox, Some(&Answer::status(200))), "{1}\n{2}\n");
    // A full one need not wait.
    world.push(&outbox, "{4}");
    world.tick(&outbox);
    assert!(world.open.borrow().is_empty());
    world.push(&outbox, "{5}");
    assert!(world.soon.get());
    world.push(&outbox, "{6}");
    world.tick(&outbox);
    assert_eq!(world.answer(&outbox, Some(&Answer::status(204))), "{3}\n{4}\n{5}\n");
    assert!((900..=2000).contains(&world.until_sent(&outbox)));
    assert_eq!(world.answer(&outbox, Some(&Answer::status(200))), "{6}\n");
    assert_eq!((world.count("sent"), world.count("batches.result.ok"), world.lost()), (6, 3, 0));
    assert_eq!(outbox.size(), (0, 0));
    assert!(!world.soon.get() && world.log.borrow().is_empty());
}

#[test]
fn a_batch_is_bounded_by_bytes_and_a_long_line_goes_alone() {
    let (world, outbox) = (World::new(), lines_outbox(json!({ "max_batch_bytes": 512 })));
    for length in [300, 212, 1, 600, 1] {
        world.push(&outbox, &"x".repeat(length));
    }
    world.tick(&outbox);
    let mut lengths = Vec::new();
    for _ in 0..4 {
        if world.open.borrow().is_empty() {
            world.until_sent(&outbox);
        }
        lengths.push(world.answer(&outbox, Some(&Answer::status(200))).len());
    }
    assert_eq!(lengths, [514, 2, 601, 2]);
}

#[test]
fn a_collector_that_cannot_now_is_asked_again_later_and_later() {
    for failure in [Some(503), Some(429), Some(502), Some(504), None] {
        let (world, outbox) = (World::new(), lines_outbox(json!({ "retries": 7 })));
        let failure = failure.map(Answer::status);
        world.push(&outbox, "{1}");
        world.until_sent(&outbox);
        for expected in [250, 500, 1000, 2000, 4000, 8000, 10_000] {
            assert_eq!(world.answer(&outbox, failure.as_ref()), "{1}\n");
            world.push(&outbox, "{later}");
            let took = world.until_sent(&outbox);
            assert!((expected..expected + 40).contains(&took), "{took} instead of {expected}");
        }
        assert_eq!(world.lost(), 0);
        world.answer(&outbox, failure.as_ref());
        assert_eq!((world.count("lost.reason.gave_up"), world.count("batches.result.retried")), (1, 7));
        assert_eq!((world.count("batches.result.failed"), world.count("sent")), (1, 0));
        assert_eq!(world.log.borrow().len(), 1);
        assert!(world.log.borrow()[0].contains("lines lost: 1; the last because 8 tries in vain"));
        // It is back, and the others arrive.
        assert_eq!(world.answer(&outbox, Some(&Answer::status(200))).lines().count(), 7);
        assert_eq!((world.count("sent"), outbox.size()), (7, (0, 0)));
    }
}

#[test]
fn the_dice_take_up_to_a_quarter_off_and_the_collector_may_ask_for_more() {
    let rows = [
        (0, None, 250),
        (999, None, 188),
        (0, Some("0"), 250),
        (0, Some("3"), 3000),
        (0, Some(" 30 "), 30_000),
        (0, Some("86400"), 30_000),
        (0, Some("Tue, 01 Dec 2026 10:00:00 GMT"), 250),
        (0, Some("-1"), 250),
    ];
    for (dice, asked, expected) in rows {
        let (world, outbox) = (World::new(), lines_outbox(json!({})));
        world.dice.set(dice);
        world.push(&outbox, "{1}");
        world.until_sent(&outbox);
        let answer = Answer::status(503);
        let answer = match asked {
            Some(asked) => answer.with("retry-after", asked),
            None => answer,
        };
        world.answer(&outbox, Some(&answer));
        let took = world.until_sent(&outbox);
        assert!((expected..expected + 40).contains(&took), "{asked:?}: {took} instead of {expected}");
    }
}

#[test]
fn a_collector_that_says_no_is_not_asked_again() {
    for status in [400, 401, 404, 413, 500, 301] {
        let (world, outbox) = (World::new(), outbox(json!({})));
        world.push(&outbox, "{}");
        world.push(&outbox, "{}");
        world.until_sent(&outbox);
        world.answer(&outbox, Some(&Answer::status(status)));
        assert_eq!((world.count("lost.reason.refused"), world.count("batches.result.failed")), (2, 1));
        assert_eq!(outbox.size(), (0, 0));
        assert!(
            world.log.borrow()[0]
                .ends_with(&format!("lines lost: 2; the last because the collector's answer is {status}"))
        );
    }
}

#[test]
fn what_it_takes_a_part_of_is_counted_as_such() {
    let partial = |body: Value| Answer(Answer::status(200).0, body.to_string().into_bytes());
    let rows = [
        (partial(json!({ "partialSuccess": { "rejectedLogRecords": "2", "errorMessage": "no" } })), 1, 2),
        (partial(json!({ "partialSuccess": { "rejectedLogRecords": 9 } })), 0, 3),
        (partial(json!({ "partialSuccess": {} })), 3, 0),
        (partial(json!({})), 3, 0),
        (Answer(Answer::status(200).0, vec![b'['; 60_000]), 3, 0),
    ];
    for (answer, sent, refused) in rows {
        let (world, outbox) = (World::new(), outbox(json!({})));
        (0..3).for_each(|_| world.push(&outbox, "{}"));
        world.until_sent(&outbox);
        world.answer(&outbox, Some(&answer));
        assert_eq!((world.count("sent"), world.count("lost.reason.refused")), (sent, refused));
    }
}

#[test]
fn a_cluster_that_is_not_known_is_told_of_once_a_minute() {
    let (world, outbox) = (World::new(), lines_outbox(json!({})));
    world.knows_the_cluster.set(false);
    for _ in 0..50 {
        world.push(&outbox, "{1}");
        world.wait(SECOND);
        world.tick(&outbox);
    }
    assert_eq!((world.count("lost.reason.refused"), outbox.size()), (50, (0, 0)));
    assert_eq!(world.log.borrow().len(), 1);
    assert!(world.log.borrow()[0].contains("is there a cluster \"collector\""));
    world.wait(11 * SECOND);
    world.push(&outbox, "{1}");
    world.wait(SECOND);
    world.tick(&outbox);
    assert!(world.log.borrow()[1].contains("lines lost: 50;"));
}

#[test]
fn what_does_not_fit_the_queue_is_lost_and_what_is_in_it_is_not() {
    let (world, outbox) = (World::new(), lines_outbox(json!({ "max_queued_bytes": 512 })));
    for _ in 0..10 {
        world.push(&outbox, &"x".repeat(100));
    }
    assert_eq!((outbox.size(), world.count("lost.reason.queue_full")), ((5, 500), 5));
    world.push(&outbox, "123456789012");
    world.push(&outbox, "1");
    assert_eq!((outbox.size(), world.count("lost.reason.queue_full")), ((6, 512), 6));
    world.until_sent(&outbox);
    // What is under way takes its room until it has arrived.
    world.push(&outbox, "1");
    assert_eq!(world.count("lost.reason.queue_full"), 7);
    world.answer(&outbox, Some(&Answer::status(200)));
    world.push(&outbox, "1");
    assert_eq!((world.count("sent"), outbox.size()), (6, (1, 1)));
    assert_eq!(world.log.borrow().len(), 1);
}

#[test]
fn a_clock_that_is_put_back_keeps_no_line() {
    let (world, outbox) = (World::new(), lines_outbox(json!({})));
    world.push(&outbox, "{1}");
    world.now.set(START - 3600 * SECOND);
    world.tick(&outbox);
    world.answer(&outbox, Some(&Answer::status(503)));
    world.now.set(START - 7200 * SECOND);
    world.tick(&outbox);
    assert_eq!(world.answer(&outbox, Some(&Answer::status(200))), "{1}\n");
}

#[test]
fn an_answer_to_another_call_changes_nothing() {
    let (world, outbox) = (World::new(), lines_outbox(json!({})));
    world.push(&outbox, "{1}");
    world.take(outbox.fetched(&Fetched { number: 1, response: Some(&Answer::status(200)) }, &world));
    world.until_sent(&outbox);
    world.take(outbox.fetched(&Fetched { number: 77, response: Some(&Answer::status(200)) }, &world));
    assert_eq!((world.count("sent"), outbox.size().0), (0, 1));
}

/// A step of a course of events.
#[derive(Debug, Clone)]
enum Step {
    Push(usize),
    Wait(u64),
    Answer(Option<u16>),
    KnowsTheCluster(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![Just(Some(200)), Just(Some(503)), Just(Some(400)), Just(None)];
    prop_oneof![
        6 => (1..400_usize).prop_map(Step::Push),
        3 => (0..3_000_u64).prop_map(Step::Wait),
        3 => status.prop_map(Step::Answer),
        1 => any::<bool>().prop_map(Step::KnowsTheCluster),
    ]
}

proptest! {
    #[test]
    fn every_line_is_sent_once_or_lost_or_waits(
        steps in proptest::collection::vec(step(), 1..200),
        lines in 1..8_u64,
        batch in 512..1500_u64,
        queued in 512..3000_u64,
        retries in 0..3_u64,
        ends in any::<bool>(),
    ) {
        let world = World::new();
        let outbox = lines_outbox(json!({
            "max_batch_lines": lines, "max_batch_bytes": batch, "max_queued_bytes": queued, "retries": retries,
        }));
        let mut pushed = 0_u64;
        let mut arrived = Vec::new();
        let mut answer = |world: &World, status: Option<u16>| {
            let answer = status.map(Answer::status);
            let body = world.answer(&outbox, answer.as_ref());
            if status == Some(200) {
                arrived.extend(body.lines().map(|line| line.trim_end_matches('x').parse::<u64>().unwrap()));
            }
        };
        for step in steps {
            match step {
                Step::Push(length) => {
                    world.push(&outbox, &format!("{pushed}{}", "x".repeat(length)));
                    pushed += 1;
                }
                Step::Wait(millis) => world.wait(millis * 1_000_000),
                Step::Answer(status) if !world.open.borrow().is_empty() => answer(&world, status),
                Step::Answer(_) => {}
                Step::KnowsTheCluster(knows) => world.knows_the_cluster.set(knows),
            }
            world.tick(&outbox);
            let (waiting, bytes) = outbox.size();
            prop_assert!(bytes as u64 <= queued);
            prop_assert_eq!(pushed, world.count("sent") + world.lost() + waiting as u64);
        }
        // The collector is back: all that waits arrives.
        world.knows_the_cluster.set(true);
        if ends {
            // Or its configuration ends: the same, at once.
            world.break_off();
            outbox.hand_over(&world);
        }
        while outbox.size().0 > 0 {
            if world.open.borrow().is_empty() {
                world.until_sent(&outbox);
            }
            answer(&world, Some(200));
        }
        prop_assert_eq!(arrived.len() as u64, world.count("sent"));
        prop_assert_eq!(pushed, world.count("sent") + world.lost());
        prop_assert!(arrived.is_sorted_by(|one, next| one < next), "in order, and none twice: {:?}", arrived);
    }
}
