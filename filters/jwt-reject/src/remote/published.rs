//! A fetched set of keys as all workers share it: version, `ETag`, and the text as it came.

/// A set as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Published {
    /// The response's `ETag`.
    pub(crate) etag: Option<Vec<u8>>,
    /// The response's body.
    pub(crate) body: Vec<u8>,
}

impl Published {
    /// As bytes: the version (64 bits), the length of the `ETag` (16 bits), both little-endian; the `ETag`, the body.
    pub(crate) fn encode(&self, version: u64) -> Vec<u8> {
        let etag = self.etag.as_deref().unwrap_or_default();
        let length = u16::try_from(etag.len()).unwrap_or_default();
        let etag = etag.get(..usize::from(length)).unwrap_or_default();
        [&version.to_le_bytes(), length.to_le_bytes().as_slice(), etag, &self.body].concat()
    }

    /// From bytes: the version and the set.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (etag, body) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let etag = (!etag.is_empty()).then(|| etag.to_vec());
        Some((u64::from_le_bytes(*version), Self { etag, body: body.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for (etag, body) in [(None, ""), (Some("\"x\""), "{}"), (None, "{\"keys\":[]}")] {
            let set = Published { etag: etag.map(|etag| etag.as_bytes().to_vec()), body: body.into() };
            let bytes = set.encode(7);
            assert_eq!(Published::decode(&bytes), Some((7, set)));
            for length in 0..10 {
                assert_eq!(Published::decode(&bytes[..length]), None, "{length}");
            }
        }
    }
}
