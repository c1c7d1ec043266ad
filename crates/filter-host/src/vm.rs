//! What all configurations and requests in a VM share.

use std::cell::{Cell, RefCell};

use filter_api::{HostFailed, HostVerdict, Level, SignatureCheck};

use crate::calls;
use crate::signature;

/// The state of a VM that belongs to no configuration.
pub(crate) struct Vm {
    /// Cached: a line that is not written would otherwise cost a crossing to learn so.
    log_level: Cell<Level>,
    /// Whether the host has `verify_signature`, once it is known that it has not.
    lacks_verify_signature: Cell<bool>,
    /// Whether it was said that properties cannot be set.
    has_complained: Cell<bool>,
    /// Room for a message to the host, kept between calls.
    message: RefCell<Vec<u8>>,
    /// The state of the random numbers; 0 before the first.
    random: Cell<u64>,
}

impl Vm {
    pub(crate) const fn new() -> Self {
        Self {
            log_level: Cell::new(Level::Info),
            lacks_verify_signature: Cell::new(false),
            has_complained: Cell::new(false),
            message: RefCell::new(Vec::new()),
            random: Cell::new(0),
        }
    }

    pub(crate) fn refresh_log_level(&self) {
        if let Ok(level) = calls::log_level() {
            self.log_level.set(level);
        }
    }

    pub(crate) fn logs(&self, level: Level) -> bool {
        level <= self.log_level.get()
    }

    /// Says once that the properties of requests that have ended cannot be set.
    pub(crate) fn complain_once(&self, filter: &str) {
        if !self.has_complained.replace(true) {
            let text = format!(
                "{filter}: the host sets no property of a request that has ended; allow proxy_set_property, and load \
                 the module as a filter: an access logger has no request to set one of"
            );
            calls::log(Level::Error, &text);
        }
    }

    /// A number that no client can foresee (splitmix64, seeded by the host).
    pub(crate) fn random(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        let state = match self.random.get() {
            0 => RandomState::new().hash_one(0_u8),
            state => state,
        };
        let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        if self.lacks_verify_signature.get() {
            return HostVerdict::Unavailable;
        }
        let mut message = self.message.borrow_mut();
        signature::write_request(check, &mut message);
        match calls::foreign_function(signature::FUNCTION, &message) {
            Ok(answer) => signature::read_answer(&answer),
            Err(HostFailed(status)) => {
                if status == calls::NOT_FOUND {
                    self.lacks_verify_signature.set(true);
                    calls::log(
                        Level::Info,
                        "the host has no verify_signature: signatures are checked in the VM",
                    );
                }
                HostVerdict::Unavailable
            }
        }
    }
}
