//! What becomes of lines that wait when their configuration ends.
//!
//! The host lets go of a configuration's calls with it, but a worker's VM outlasts it where another plugin is in the same
//! one: first of all the configuration that has replaced it. That takes the lines over, and sends them where they were to
//! go. Where there is none the VM goes too, and a last batch is sent that no answer is waited for.
//!
//! An old configuration that says it is not done (`proxy_on_done`) could do the same, in the same cases: Envoy keeps
//! it no longer than the VM. But Envoy would then enter the VM at the end of every request too.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use filter_api::{Background, Work};

use super::Outbox;

/// A configuration of a worker's, which takes over what others leave.
#[derive(Debug)]
pub(crate) struct Heir {
    worker: Rc<Estate>,
    inherited: RefCell<Vec<Rc<Outbox>>>,
    /// Whether its configuration serves no more. Who has ended takes over nothing: of several filters of one chain, each
    /// would leave its lines to another that ends with it.
    ended: Cell<bool>,
}

/// What the configurations of a worker have in common.
#[derive(Debug, Default)]
struct Estate {
    /// How many there are.
    heirs: Cell<usize>,
    /// Of those that have ended, what nobody has taken over yet.
    left: RefCell<Vec<Rc<Outbox>>>,
}

thread_local! {
    static HERE: Rc<Estate> = Rc::default();
}

impl Heir {
    /// Of the worker of this VM.
    pub(crate) fn here() -> Self {
        Self::of(HERE.with(Rc::clone))
    }

    /// Of the same worker.
    #[cfg(test)]
    pub(super) fn beside(&self) -> Self {
        Self::of(Rc::clone(&self.worker))
    }

    fn of(worker: Rc<Estate>) -> Self {
        worker.heirs.set(worker.heirs.get().saturating_add(1));
        Self { worker, inherited: RefCell::default(), ended: Cell::new(false) }
    }

    /// Takes over what there is.
    pub(crate) fn take_over(&self) {
        self.inherited.borrow_mut().append(&mut self.worker.left.borrow_mut());
    }

    /// Does a step for each outbox that it has taken over, and forgets those that are empty then.
    pub(crate) fn for_inherited(&self, step: impl Fn(&Outbox) -> Work) -> Work {
        let mut work = Work::default();
        self.inherited.borrow_mut().retain(|outbox| {
            work.add(step(outbox));
            !outbox.is_empty()
        });
        work
    }

    /// Leaves what waits to another; where it is the last one, sends what can be sent, and counts the rest.
    pub(crate) fn end(&self, own: Option<&Rc<Outbox>>, background: &impl Background) -> Work {
        let mut outboxes = self.inherited.take();
        outboxes.extend(own.cloned());
        outboxes.retain(|outbox| !outbox.is_empty());
        self.retire();
        if self.worker.heirs.get() > 0 {
            outboxes.iter().for_each(|outbox| outbox.hand_over(background));
            self.worker.left.borrow_mut().append(&mut outboxes);
            return Work::default();
        }
        outboxes.append(&mut self.worker.left.borrow_mut());
        let mut work = Work::default();
        for outbox in outboxes {
            work.add(outbox.end(background));
        }
        work
    }

    fn retire(&self) {
        if !self.ended.replace(true) {
            self.worker.heirs.set(self.worker.heirs.get().saturating_sub(1));
        }
    }
}

/// Of a worker of its own.
impl Default for Heir {
    fn default() -> Self {
        Self::of(Rc::default())
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        self.retire();
    }
}
