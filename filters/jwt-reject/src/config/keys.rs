//! Where a provider's keys come from: `local_jwks` or `remote_jwks`.

use std::rc::Rc;

use filter_api::config::{Node, Object};

use crate::keys::KeySet;
use crate::remote::{Remote, Settings, Url};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;

/// The keys of a provider.
#[derive(Debug)]
pub enum Keys {
    /// Written in the configuration.
    Local(Rc<KeySet>),
    /// Fetched.
    Remote(Box<Remote>),
}

impl Keys {
    /// The keys as they are now; none where they have not come yet, or are too old.
    pub fn current(&self) -> Option<Rc<KeySet>> {
        match self {
            Self::Local(keys) => Some(Rc::clone(keys)),
            Self::Remote(remote) => remote.keys(),
        }
    }

    /// The remote set, where they are one.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }
}

/// Reads the one field or the other.
pub(super) fn read(object: &Object<'_>, allow_weak: bool, lists_algorithms: bool) -> Option<Keys> {
    let (kind, node) = object.one_of(&["local_jwks", "remote_jwks"])?;
    match kind {
        "local_jwks" => read_local(&node, allow_weak).map(|keys| Keys::Local(Rc::new(keys))),
        _ => {
            let settings = read_remote(&node, allow_weak, lists_algorithms)?;
            Some(Keys::Remote(Box::new(Remote::new(settings))))
        }
    }
}

fn read_local(node: &Node<'_>, allow_weak: bool) -> Option<KeySet> {
    let object = node.object()?;
    if let Some(filename) = object.get("filename") {
        filename.error("a module cannot read files; paste the file's text as inline_string");
    }
    let inline = object.required("inline_string");
    object.finish();
    let inline = inline?;
    match KeySet::parse(inline.string()?, allow_weak) {
        Ok((keys, skipped)) => {
            for key in &skipped {
                inline.warning(format!("{key}; the key is passed over"));
            }
            Some(keys)
        }
        Err(errors) => {
            for error in &errors {
                inline.error(error.to_string());
            }
            None
        }
    }
}

fn read_remote(node: &Node<'_>, allow_weak: bool, allow_mixture: bool) -> Option<Settings> {
    let object = node.object()?;
    let uri = object.required("http_uri").and_then(|node| read_http_uri(&node));
    let duration = |name, default, least, most| duration(&object, name, default, least, most);
    let cache_duration = duration("cache_duration", 600 * SECOND, SECOND, 8760 * HOUR);
    let stale_if_error = duration("stale_if_error", HOUR, 0, 8760 * HOUR);
    let min_refetch_interval = duration("min_refetch_interval", 30 * SECOND, SECOND, HOUR);
    let wait_for_keys = duration("wait_for_keys", 2 * SECOND, 0, 60 * SECOND);
    let max_body_bytes = match object.get("max_body_bytes") {
        Some(node) => node.integer(1024, 1 << 20),
        None => Some(1 << 18),
    };
    let failed_refetch = match object.get("async_fetch") {
        Some(node) => read_async_fetch(&node),
        None => Some(SECOND),
    };
    let retries = match object.get("retry_policy") {
        Some(node) => read_retry_policy(&node),
        None => Some((0, SECOND, 10 * SECOND)),
    };
    object.finish();
    let ((url, cluster, timeout), (retries, retry_base, retry_most)) = (uri?, retries?);
    Some(Settings {
        place: node.path().to_owned(),
        url,
        cluster,
        timeout,
        cache_duration: cache_duration?,
        stale_if_error: stale_if_error?,
        min_refetch_interval: min_refetch_interval?,
        wait_for_keys: wait_for_keys?,
        max_body_bytes: usize::try_from(max_body_bytes?).ok()?,
        retries,
        retry_base,
        retry_most,
        failed_refetch: failed_refetch?,
        allow_weak,
        allow_mixture,
    })
}

/// Envoy's `HttpUri`.
fn read_http_uri(node: &Node<'_>) -> Option<(Url, String, u64)> {
    let object = node.object()?;
    let uri = object.required("uri");
    let cluster = object.required("cluster").and_then(|node| node.filled_string());
    let timeout = object.required("timeout").is_some();
    let timeout = timeout.then(|| duration(&object, "timeout", 0, 1_000_000, 60 * SECOND));
    object.finish();
    let uri = uri?;
    let url = Url::parse(uri.filled_string()?);
    if url.is_none() {
        // Not quoted: it may hold a secret.
        uri.error(
            "must be an http:// or https:// URL without a user, such as https://issuer.example/.well-known/jwks.json",
        );
    }
    Some((url?, cluster?.to_owned(), timeout??))
}

/// Envoy's `JwksAsyncFetch`. Here keys are always fetched in the background.
fn read_async_fetch(node: &Node<'_>) -> Option<u64> {
    let object = node.object()?;
    let _ = object.get("fast_listener").and_then(|node| node.bool());
    let failed_refetch = duration(&object, "failed_refetch_duration", SECOND, 100_000_000, HOUR);
    object.finish();
    failed_refetch
}

/// Envoy's `RetryPolicy`, what of it is meant for fetching keys: how often, and after how long at least and at most.
fn read_retry_policy(node: &Node<'_>) -> Option<(u64, u64, u64)> {
    let object = node.object()?;
    let retries = match object.get("num_retries") {
        Some(node) => node.integer(0, 10),
        None => Some(1),
    };
    let (mut base, mut most) = (Some(SECOND), None);
    if let Some(node) = object.get("retry_back_off")
        && let Some(back_off) = node.object()
    {
        back_off.required("base_interval");
        base = duration(&back_off, "base_interval", SECOND, 1_000_000, HOUR);
        most = back_off.get("max_interval").map(|_| duration(&back_off, "max_interval", 0, 1_000_000, HOUR));
        back_off.finish();
    }
    object.finish();
    let base = base?;
    let most = match most {
        Some(most) => most?,
        None => base.saturating_mul(10),
    };
    if most < base {
        node.error("max_interval must not be less than base_interval");
        return None;
    }
    Some((retries?, base, most))
}

fn duration(object: &Object<'_>, name: &'static str, default: u64, least: u64, most: u64) -> Option<u64> {
    let Some(node) = object.get(name) else { return Some(default) };
    let nanos = node.duration()?;
    if (least..=most).contains(&nanos) {
        return Some(nanos);
    }
    node.error(format!("must be from {} to {}", shown(least), shown(most)));
    None
}

/// Nanoseconds as protobuf JSON writes them.
fn shown(nanos: u64) -> String {
    let (seconds, rest) = (nanos / SECOND, nanos % SECOND);
    match rest {
        0 => format!("\"{seconds}s\""),
        _ => format!("\"{seconds}.{:0>3}s\"", rest / 1_000_000),
    }
}
