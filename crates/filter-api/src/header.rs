//! Header names and values that are safe to write. Envoy does not check what a filter writes into
//! a response, so a value with a line end in it would split the response: these types cannot hold
//! one.

use std::fmt;

use crate::text::Text;

/// A header name: a lower-case token of RFC 9110 section 5.6.2, or a pseudo-header. Cloning one allocates
/// nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeaderName(Text);

/// A header value: bytes without CR, LF, NUL or any other control character but tab. Cloning one allocates
/// nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderValue(Text<[u8]>);

/// Why a name or value cannot be a header's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidHeader {
    /// The name is empty or has a byte that no header name may have.
    Name(String),
    /// The value has a control character.
    Value,
}

impl HeaderName {
    /// A name known when the program is compiled; it must be valid and lower-case.
    pub const fn from_static(name: &'static str) -> Self {
        assert!(is_name(name.as_bytes()), "not a lower-case header name");
        Self(Text::Static(name))
    }

    /// Checks a name and makes it lower-case.
    pub fn new(name: &str) -> Result<Self, InvalidHeader> {
        if let Some(known) = known(name) {
            return Ok(Self(known));
        }
        let lower = name.to_ascii_lowercase();
        if is_name(lower.as_bytes()) {
            Ok(Self(Text::Shared(lower.into())))
        } else {
            Err(InvalidHeader::Name(name.escape_debug().to_string()))
        }
    }

    /// The name, lower-case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl HeaderValue {
    /// A value known when the program is compiled.
    pub const fn from_static(value: &'static str) -> Self {
        assert!(is_value(value.as_bytes()), "a control character in a header value");
        Self(Text::Static(value.as_bytes()))
    }

    /// Checks a value.
    pub fn new(value: impl AsRef<[u8]>) -> Result<Self, InvalidHeader> {
        let value = value.as_ref();
        if is_value(value) { Ok(Self(Text::Shared(value.into()))) } else { Err(InvalidHeader::Value) }
    }

    /// The value's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Names that are made from requests again and again.
fn known(name: &str) -> Option<Text> {
    ["authorization", "cookie"].into_iter().find(|known| *known == name).map(Text::Static)
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for InvalidHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "\"{name}\" is not a header name"),
            Self::Value => f.write_str("a header value cannot hold control characters"),
        }
    }
}

impl std::error::Error for InvalidHeader {}

/// Whether a token may hold this byte (RFC 9110 section 5.6.2): header names and authentication
/// schemes are tokens.
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[allow(clippy::indexing_slicing)] // const context: `get` is not const for slices
const fn is_name(name: &[u8]) -> bool {
    let mut i: usize = 0;
    if !name.is_empty() && name[0] == b':' {
        i = 1;
    }
    if i == name.len() {
        return false;
    }
    while i < name.len() {
        let ok = is_token_byte(name[i]) && !name[i].is_ascii_uppercase();
        if !ok {
            return false;
        }
        i = i.saturating_add(1);
    }
    true
}

#[allow(clippy::indexing_slicing)] // const context: `get` is not const for slices
const fn is_value(value: &[u8]) -> bool {
    let mut i: usize = 0;
    while i < value.len() {
        if (value[i] < 0x20 && value[i] != b'\t') || value[i] == 0x7f {
            return false;
        }
        i = i.saturating_add(1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["x", "X-User", ":path", "a_b"] {
            assert!(HeaderName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ":", "a b", "a:b", "a\r\nb", "é", "a\0"] {
            assert!(HeaderName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(HeaderName::new("X-User").unwrap().as_str(), "x-user");
    }

    #[test]
    fn no_value_can_end_its_line() {
        for byte in 0..=255_u8 {
            let refused = HeaderValue::new(vec![b'a', byte]).is_err();
            assert_eq!(refused, (byte < 0x20 && byte != b'\t') || byte == 0x7f, "{byte:#x}");
        }
    }
}
