//! Runs lists of operations.

use filter_api::{Head, Host};
use smallvec::smallvec;

use crate::condition::Holds;
use crate::config::{Config, Step, What};
use crate::stage::{AtRequest, Kept, Stage};

/// Runs operations in list order.
pub(crate) fn all<'h>(steps: &[Step], stage: &mut impl Stage<'h>) {
    run(steps, Holds::Yes, stage);
}

fn run<'h>(steps: &[Step], outer: Holds, stage: &mut impl Stage<'h>) {
    for step in steps {
        let holds = outer.min(stage.holds(&step.when));
        match &step.what {
            _ if holds == Holds::No => {}
            What::Group(steps) => run(steps, holds, stage),
            // What may have to be removed is; what may have to be written is not.
            What::Operation(operation) if holds == Holds::Yes || operation.removes() => operation.run(stage),
            What::Operation(_) => {}
        }
    }
}

/// What the operations for the response need of the request. None where there is none that could run.
pub(crate) fn keep<H: Head, T: Host>(config: &Config, stage: &AtRequest<'_, H, T>) -> Option<Kept> {
    let mut kept = Kept::default();
    if config.conditions > 0 {
        kept.holds = smallvec![Holds::No; config.conditions];
    }
    if config.settled > 0 {
        kept.settled = vec![None; config.settled];
    }
    keep_steps(&config.response, stage, &mut kept).then_some(kept)
}

fn keep_steps<H: Head, T: Host>(steps: &[Step], stage: &AtRequest<'_, H, T>, kept: &mut Kept) -> bool {
    let mut any = false;
    for step in steps {
        if let Some(condition) = &step.when.request {
            let holds = stage.meets(&condition.matcher);
            if let Some(place) = kept.holds.get_mut(condition.place) {
                *place = holds;
            }
            if holds == Holds::No {
                continue;
            }
        }
        match &step.what {
            What::Group(steps) => any |= keep_steps(steps, stage, kept),
            What::Operation(operation) => {
                any = true;
                operation.each_value(&mut |value| {
                    if let Some(settled) = value.place.and_then(|place| kept.settled.get_mut(place)) {
                        *settled = stage.settled(&value.template);
                    }
                });
            }
        }
    }
    any
}
