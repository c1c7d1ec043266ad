//! Header maps as the host passes them, read in place.
//!
//! The format: the number of pairs; for each the lengths of its name and of its value; then for
//! each its name, a NUL, its value, a NUL. Numbers are 32 bits, little-endian.

use filter_api::{Head, HeaderName, HeaderValue};

/// The most pairs the host ever passes; more means that the bytes are something else.
const MOST_PAIRS: usize = 16_384;

/// A request head in the host's own bytes: nothing is copied, and no line costs an allocation.
#[derive(Debug, Clone, Copy)]
pub struct PairsHead<'a> {
    lengths: &'a [u8],
    text: &'a [u8],
}

/// A header map as the host handed it over, checked once.
#[derive(Debug)]
pub struct Pairs {
    bytes: Vec<u8>,
    /// Where the lengths end and the text begins.
    text: usize,
}

impl Pairs {
    /// Takes the host's bytes, having checked that every length stays within them.
    ///
    /// # Errors
    /// They are not a header map.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let text = bytes.len().saturating_sub(PairsHead::parse(&bytes)?.text.len());
        Ok(Self { bytes, text })
    }

    /// The head in it.
    pub fn head(&self) -> PairsHead<'_> {
        let (lengths, text) = self.bytes.split_at_checked(self.text).unwrap_or_default();
        PairsHead { lengths: lengths.get(4..).unwrap_or_default(), text }
    }
}

/// The bytes are not a header map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl<'a> PairsHead<'a> {
    /// Takes the host's bytes, having checked that every length stays within them.
    ///
    /// # Errors
    /// They are not a header map.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() {
            return Ok(Self { lengths: &[], text: &[] });
        }
        let (count, rest) = take_number(bytes).ok_or(Malformed)?;
        if count > MOST_PAIRS {
            return Err(Malformed);
        }
        let (lengths, text) = rest.split_at_checked(count.saturating_mul(8)).ok_or(Malformed)?;
        let mut total = 0_usize;
        let mut left = lengths;
        while let Some((length, tail)) = take_number(left) {
            total = total.checked_add(length).and_then(|sum| sum.checked_add(1)).ok_or(Malformed)?;
            left = tail;
        }
        if total > text.len() {
            return Err(Malformed);
        }
        Ok(Self { lengths, text })
    }
}

impl<'a> PairsHead<'a> {
    /// Every line, for as long as the host's bytes are there.
    pub fn into_lines(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut lengths = self.lengths;
        let mut text = self.text;
        std::iter::from_fn(move || {
            let name = take_part(&mut lengths, &mut text)?;
            let value = take_part(&mut lengths, &mut text)?;
            Some((name, value))
        })
    }
}

impl Head for PairsHead<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.into_lines()
    }
}

fn take_number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

fn take_part<'a>(lengths: &mut &'a [u8], text: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, more) = take_number(lengths)?;
    *lengths = more;
    let (part, rest) = text.split_at_checked(length)?;
    *text = rest.split_first().map_or(rest, |(_, rest)| rest);
    Some(part)
}

/// Writes a header map in the host's format.
pub fn serialize(headers: &[(HeaderName, HeaderValue)]) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::new();
    out.extend_from_slice(&number(headers.len()));
    for (name, value) in headers {
        out.extend_from_slice(&number(name.as_str().len()));
        out.extend_from_slice(&number(value.as_bytes().len()));
    }
    for (name, value) in headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.push(0);
        out.extend_from_slice(value.as_bytes());
        out.push(0);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let headers = [
            (HeaderName::from_static("a"), HeaderValue::new([0xff, b'x']).unwrap()),
            (HeaderName::from_static("a"), HeaderValue::from_static("")),
            (HeaderName::from_static(":path"), HeaderValue::from_static("/")),
        ];
        let bytes = serialize(&headers);
        let head = PairsHead::parse(&bytes).unwrap();
        let lines: Vec<(&[u8], &[u8])> = head.lines().collect();
        assert_eq!(lines, [(&b"a"[..], &[0xff, b'x'][..]), (b"a", b""), (b":path", b"/")]);
        assert_eq!(head.get_all("A").count(), 2);
        assert!(Pairs::new(bytes.clone()).unwrap().head().lines().eq(head.lines()));
        assert_eq!(Pairs::new(Vec::new()).unwrap().head().lines().count(), 0);
        assert_eq!(Pairs::new(serialize(&[])).unwrap().head().lines().count(), 0);
        assert_eq!(PairsHead::parse(&[]).unwrap().lines().count(), 0);
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = serialize(&[(HeaderName::from_static("name"), HeaderValue::from_static("value"))]);
        for length in 1..bytes.len() {
            assert_eq!(PairsHead::parse(&bytes[..length]).unwrap_err(), Malformed, "{length}");
        }
        assert!(PairsHead::parse(&[0xff; 64]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(head) = PairsHead::parse(&bytes) {
                let total: usize = head.lines().map(|(name, value)| name.len() + value.len()).sum();
                prop_assert!(total <= bytes.len());
            }
        }
    }
}
