//! The only way to wait in this crate: by asking again and again, for a bounded time.

use std::time::Duration;

use anyhow::bail;

/// How long to rest between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// Asks `probe` until it has something, at most for `limit`. `what` completes "waited 3s for ...".
// Not an `AsyncFnMut`: of those the compiler cannot tell yet that their futures are `Send`.
pub(crate) async fn until<T, F>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let found = tokio::time::timeout(limit, async {
        loop {
            if let Some(found) = probe().await? {
                return anyhow::Ok(found);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
    match found.await {
        Ok(found) => found,
        Err(_) => bail!("waited {limit:?} in vain for {what}"),
    }
}
