//! How a remote set is fetched and for how long it is used, as the configuration has it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use filter_api::{HeaderName, HeaderValue};

use crate::keys::{KeySet, Skipped};

/// The settings of a remote set. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is in the configuration: `providers.main.remote_jwks`.
    pub place: String,
    /// What is asked for.
    pub url: Url,
    /// The cluster of Envoy's that it is asked for from.
    pub cluster: String,
    /// How long a fetch may take.
    pub timeout: u64,
    /// How long a set is fresh, unless the response says that it is for less.
    pub cache_duration: u64,
    /// How long it is used beyond that if no newer one can be had.
    pub stale_if_error: u64,
    /// The least time between two fetches for the sake of an unknown key.
    pub min_refetch_interval: u64,
    /// How long a request waits for keys; 0: it does not.
    pub wait_for_keys: u64,
    /// The most bytes of a set.
    pub max_body_bytes: usize,
    /// How often a failed fetch is tried again soon.
    pub retries: u64,
    /// After how long, the first time; each time twice as long.
    pub retry_base: u64,
    /// And at most.
    pub retry_most: u64,
    /// When all that was in vain: after how long it begins anew.
    pub failed_refetch: u64,
    /// Whether weak keys are accepted.
    pub allow_weak: bool,
    /// Whether secrets may stand beside public keys.
    pub allow_mixture: bool,
}

/// A URL, as far as a request needs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Host and port.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

impl Url {
    /// Reads an absolute URL without user information; a fragment is dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let sound = !authority.is_empty()
            && !authority.contains('@')
            && rest.bytes().all(|byte| byte.is_ascii_graphic());
        sound.then(|| Self { scheme, authority: authority.to_owned(), path: format!("{slash}{path}") })
    }
}

impl Settings {
    /// What two sets have in common that may share what was fetched: all that decides what is asked for and
    /// whether it is taken.
    pub(super) fn identity(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.cluster, &self.url, self.max_body_bytes, self.allow_weak, self.allow_mixture)
            .hash(&mut hasher);
        format!("{}.{:016x}", self.cluster, hasher.finish())
    }

    /// The lines of a request for it.
    pub(super) fn headers(&self, etag: Option<&[u8]>) -> Vec<(HeaderName, HeaderValue)> {
        let Url { scheme, authority, path } = &self.url;
        let mut headers = vec![
            (HeaderName::from_static(":method"), HeaderValue::from_static("GET")),
            (HeaderName::from_static(":scheme"), HeaderValue::from_static(scheme)),
        ];
        for (name, text) in [(":authority", authority), (":path", path)] {
            if let Ok(value) = HeaderValue::new(text.as_str()) {
                headers.push((HeaderName::from_static(name), value));
            }
        }
        let accepted = HeaderValue::from_static("application/jwk-set+json, application/json");
        headers.push((HeaderName::from_static("accept"), accepted));
        headers.push((HeaderName::from_static("user-agent"), HeaderValue::from_static("foregate")));
        if let Some(etag) = etag.and_then(|etag| HeaderValue::new(etag).ok()) {
            headers.push((HeaderName::from_static("if-none-match"), etag));
        }
        headers
    }

    /// Reads a set, or says what is wrong with it.
    pub(super) fn parse(&self, body: &[u8]) -> Result<(KeySet, Vec<Skipped>), String> {
        let text = std::str::from_utf8(body).map_err(|_| "the response is not text".to_owned())?;
        let (keys, skipped) = KeySet::parse(text, self.allow_weak).map_err(|errors| {
            let errors: Vec<String> = errors.iter().take(3).map(ToString::to_string).collect();
            format!("the response is no usable set of keys: {}", errors.join("; "))
        })?;
        if keys.mixes_secrets_and_public_keys() && !self.allow_mixture {
            return Err("the set has secrets and public keys; list the provider's algorithms".to_owned());
        }
        Ok((keys, skipped))
    }

    /// How long to wait after that many failures in a row.
    pub(super) fn retry_delay(&self, failures: u64) -> u64 {
        let round = self.retries.saturating_add(1);
        match failures.checked_rem(round).unwrap_or(0).checked_sub(1) {
            None => self.failed_refetch,
            Some(retry) => {
                let factor = u32::try_from(retry).ok().and_then(|retry| 1_u64.checked_shl(retry));
                self.retry_base.saturating_mul(factor.unwrap_or(u64::MAX)).min(self.retry_most)
            }
        }
    }

    /// No fetch is ever planned further ahead.
    pub(super) fn horizon(&self) -> u64 {
        self.cache_duration.max(self.failed_refetch).max(self.retry_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let rows = [
            ("https://a.example/jwks", Some(("https", "a.example", "/jwks"))),
            ("HTTP://a.example:8080/a/b?c=d#e", Some(("http", "a.example:8080", "/a/b?c=d"))),
            ("https://a.example", Some(("https", "a.example", "/"))),
            ("https://a.example?x", Some(("https", "a.example", "/?x"))),
            ("https://[::1]:8080/x", Some(("https", "[::1]:8080", "/x"))),
            ("a.example/jwks", None),
            ("ftp://a.example/jwks", None),
            ("https:///jwks", None),
            ("https://user:secret@a.example/", None),
            ("https://a.example/a b", None),
            ("https://a.example/\r\nx: y", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let url = Url::parse(text);
            let parts = url.as_ref().map(|url| (url.scheme, url.authority.as_str(), url.path.as_str()));
            assert_eq!(parts, expected, "{text:?}");
        }
    }
}
