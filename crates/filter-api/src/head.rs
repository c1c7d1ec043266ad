//! The head of a request as a filter sees it: lines of bytes, in order, several of one name allowed.

/// A request head. Names are compared without regard to case; values are bytes and may be
/// anything but CR, LF and NUL. Pseudo-headers (`:path`, `:method`, `:authority`, `:scheme`) are
/// lines like any other, as Envoy has them.
pub trait Head {
    /// Every line, in the order of arrival.
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// The values of every line of this name, in order. Lines are never joined: what arrived as
    /// two lines is two values.
    fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.lines()
            .filter(move |(line, _)| line.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// The value of the first line of this name. For security decisions use [`Head::get_all`]: a
    /// client may send several.
    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// `:method`, empty where absent.
    fn method(&self) -> &[u8] {
        self.first(":method").unwrap_or_default()
    }

    /// `:path` with its query, empty where absent (a CONNECT request has none).
    fn path(&self) -> &[u8] {
        self.first(":path").unwrap_or_default()
    }

    /// `:authority`, which Envoy fills from `host`; empty where absent.
    fn authority(&self) -> &[u8] {
        self.first(":authority").unwrap_or_default()
    }

    /// `:scheme`, empty where absent.
    fn scheme(&self) -> &[u8] {
        self.first(":scheme").unwrap_or_default()
    }
}

/// A head that owns its lines: for tests, and for tools that make up a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadMap {
    lines: Vec<(Vec<u8>, Vec<u8>)>,
}

impl HeadMap {
    /// A `GET` of this path at `gateway.example`.
    pub fn get(path: &str) -> Self {
        Self::default()
            .with(":method", "GET")
            .with(":scheme", "http")
            .with(":authority", "gateway.example")
            .with(":path", path)
    }

    /// This head with one more line at its end.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.lines.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }

    /// This head with every line of the name replaced by one.
    #[must_use]
    pub fn with_only(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).with(name, value)
    }

    /// This head with no line of the name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name.as_bytes()));
        self
    }
}

impl Head for HeadMap {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_of_a_name_stay_several_and_case_does_not_matter() {
        let head = HeadMap::get("/")
            .with("Authorization", "Basic x")
            .with("x", [0xff])
            .with("authorization", "Bearer y");
        let all: Vec<&[u8]> = head.get_all("AUTHORIZATION").collect();
        assert_eq!(all, [b"Basic x".as_slice(), b"Bearer y"]);
        assert_eq!(head.first("X"), Some([0xff].as_slice()));
        assert_eq!(head.first("absent"), None);
    }
}
