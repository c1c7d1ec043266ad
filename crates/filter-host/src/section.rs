//! The custom section `foregate.callbacks`: which exports a module needs, as the names of the
//! callbacks, each after a comma. The build reads it, removes all other exports, and drops it.
//! A section of no bytes would not be written at all, so one without callbacks is a comma.

pub use filter_api::{Callback, Filter};

/// How many bytes the section takes.
pub const fn length(callbacks: &[Callback]) -> usize {
    let mut total: usize = 1;
    let mut rest = callbacks;
    while let Some((first, tail)) = rest.split_first() {
        total = total.saturating_add(first.export().len()).saturating_add(1);
        rest = tail;
    }
    total
}

/// The section's bytes; `N` is their [`length`].
#[allow(clippy::indexing_slicing)] // evaluated by the compiler: a wrong index does not compile
pub const fn bytes<const N: usize>(callbacks: &[Callback]) -> [u8; N] {
    let mut out = [b','; N];
    let mut place: usize = 1;
    let mut rest = callbacks;
    while let Some((first, tail)) = rest.split_first() {
        let mut name = first.export().as_bytes();
        while let Some((byte, more)) = name.split_first() {
            out[place] = *byte;
            place = place.saturating_add(1);
            name = more;
        }
        place = place.saturating_add(1);
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_commas() {
        const LISTED: &[Callback] = &[Callback::RequestHeaders, Callback::Tick];
        static SECTION: [u8; length(LISTED)] = bytes(LISTED);
        assert_eq!(SECTION.as_slice(), b",proxy_on_request_headers,proxy_on_tick,");
        assert_eq!(bytes::<{ length(&[]) }>(&[]), *b",");
    }
}
