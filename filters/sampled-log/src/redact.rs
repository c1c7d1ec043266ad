//! Values that are nobody's business.

use filter_api::HeaderName;
use filter_api::parts::name_and_value;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Headers whose values are never written as they are.
const REDACTED: [&str; 5] = ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"];

/// What is written in the place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Redaction {
    /// Nothing.
    Drop,
    /// That there is one.
    Mask,
    /// A hash of it, which tells whether two are alike to who has both, and what it was to nobody without the key.
    Hash(HashKey),
}

/// A key, which is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HashKey(pub(crate) Vec<u8>);

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey")
    }
}

/// Which values, and what is written in their place.
#[derive(Debug)]
pub(crate) struct Redact {
    pub(crate) how: Redaction,
    /// Headers beside those that are always redacted.
    pub(crate) headers: Vec<HeaderName>,
    /// Parameters of a query whose values are shown.
    pub(crate) shown: Vec<String>,
}

impl Redact {
    /// Whether values of this header are.
    pub(crate) fn is_redacted(&self, name: &str) -> bool {
        REDACTED.contains(&name) || self.headers.iter().any(|own| own.as_str() == name)
    }

    /// Writes what stands in the place of a value, and says whether there is anything.
    pub(crate) fn write(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        match &self.how {
            Redaction::Drop => return false,
            Redaction::Mask => out.extend_from_slice(b"***"),
            Redaction::Hash(HashKey(key)) => {
                out.extend_from_slice(b"h:");
                // A key of any length will do.
                let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return true };
                mac.update(value);
                for byte in mac.finalize().into_bytes().iter().take(8) {
                    const DIGITS: [u8; 16] = *b"0123456789abcdef";
                    for digit in [byte >> 4, byte & 15] {
                        out.extend(DIGITS.get(usize::from(digit)));
                    }
                }
            }
        }
        true
    }

    /// Writes a path with its query, values that are not to be shown redacted.
    pub(crate) fn write_path(&self, path: &[u8], out: &mut Vec<u8>) {
        let mut halves = path.splitn(2, |byte| *byte == b'?');
        out.extend_from_slice(halves.next().unwrap_or_default());
        let Some(query) = halves.next() else { return };
        out.push(b'?');
        for (place, parameter) in query.split(|byte| *byte == b'&').enumerate() {
            if place > 0 {
                out.push(b'&');
            }
            let (name, value) = name_and_value(parameter);
            // Some take `;` for what parts parameters too.
            let is_shown = self.shown.iter().any(|shown| shown.as_bytes() == name) && !value.contains(&b';');
            let is_bare = name.len() == parameter.len();
            if is_shown || (value.is_empty() && !is_bare) || parameter.is_empty() {
                out.extend_from_slice(parameter);
            } else if is_bare {
                // A token may be all that there is.
                self.write(parameter, out);
            } else {
                out.extend_from_slice(name);
                out.push(b'=');
                self.write(value, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(how: Redaction) -> Redact {
        Redact { how, headers: vec![HeaderName::from_static("x-secret")], shown: vec!["page".to_owned()] }
    }

    fn written(redact: &Redact, value: &[u8]) -> String {
        let mut out = Vec::new();
        redact.write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_hash_is_stable_and_of_its_key() {
        let of = |key: &str| redact(Redaction::Hash(HashKey(key.into())));
        // The first 8 bytes of HMAC-SHA-256, as OpenSSL has them.
        assert_eq!(written(&of("key"), b"The quick brown fox jumps over the lazy dog"), "h:f7bc83f430538424");
        assert_ne!(written(&of("other"), b"a"), written(&of("key"), b"a"));
        assert!(!format!("{:?}", of("a-secret-key")).contains("secret-key"));
    }

    #[test]
    fn values_of_a_query_are_shown_if_they_are_on_the_list() {
        let rows = [
            (
                Redaction::Mask,
                "/a?page=2&token=x&flag&empty=&token=y",
                "/a?page=2&token=***&***&empty=&token=***",
            ),
            (Redaction::Drop, "/a?token=x&page=2", "/a?token=&page=2"),
            (Redaction::Mask, "/a", "/a"),
            (Redaction::Mask, "/a?", "/a?"),
            (Redaction::Mask, "/a?x=1?page=2", "/a?x=***"),
            (Redaction::Mask, "/unsubscribe?s3cret", "/unsubscribe?***"),
            (Redaction::Mask, "/a?page", "/a?page"),
            (Redaction::Mask, "/a?page=2;token=x", "/a?page=***"),
        ];
        for (how, path, expected) in rows {
            let mut out = Vec::new();
            redact(how).write_path(path.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        assert!(redact(Redaction::Mask).is_redacted("x-secret"));
        assert!(redact(Redaction::Mask).is_redacted("set-cookie"));
        assert!(!redact(Redaction::Mask).is_redacted("accept"));
    }
}
