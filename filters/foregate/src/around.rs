//! The host as a filter in the list sees it.

use filter_api::{
    Attribute, Cells, Host, HostFailed, HostVerdict, Level, Moment, Over, Property, SharedValue,
    SignatureCheck, Waiting,
};

/// The host, with what filters before this one have done that it has not been told yet.
#[derive(Debug)]
pub(crate) struct Around<'a, T> {
    pub(crate) host: &'a T,
    /// Properties that were set.
    pub(crate) properties: &'a [Property],
    /// Whether the request may wait, or has waited for this filter.
    pub(crate) waiting: Waiting,
    /// The filter's place in the list.
    pub(crate) place: usize,
}

impl<T: Host> Host for Around<'_, T> {
    fn moment(&self) -> Moment {
        let moment = self.host.moment();
        Moment { dice: dice_of(self.place, moment.dice), ..moment }
    }

    fn logs(&self, level: Level) -> bool {
        self.host.logs(level)
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        self.host.verify_signature(check)
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Option<Vec<u8>> {
        if let Attribute::Property(name) = attribute
            && let Some(set) = self.properties.iter().rev().find(|set| *set.name == *name)
        {
            return Some(set.value.as_bytes().to_vec());
        }
        self.host.attribute(attribute)
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }
}

impl<T: Host> Cells for Around<'_, T> {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        self.host.shared(cell)
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        self.host.share(cell, content, over)
    }
}

/// The dice of the filter at this place: each filter has its own, or two that sample would choose the same requests. The
/// first sees those of the host.
pub(crate) fn dice_of(place: usize, dice: u64) -> u64 {
    if place == 0 {
        return dice;
    }
    // The steps of splitmix64.
    let place = u64::try_from(place).unwrap_or(u64::MAX);
    let state = dice.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
