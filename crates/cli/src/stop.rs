//! The signals that end a command which otherwise serves for ever.

use anyhow::Context as _;

/// SIGINT (Ctrl-C) and SIGTERM. While it lives, neither ends the process by itself.
#[derive(Debug)]
pub struct StopSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    /// Listens from now on, on the current runtime.
    ///
    /// # Errors
    /// The system refuses.
    #[cfg(unix)]
    pub fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
        })
    }

    /// Listens for Ctrl-C, which is all that there is here.
    ///
    /// # Errors
    /// None.
    #[cfg(not(unix))]
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    /// Returns when one has arrived.
    ///
    /// # Errors
    /// The system cannot tell.
    pub async fn received(&mut self) -> anyhow::Result<()> {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.context("cannot listen for Ctrl-C")?;
        Ok(())
    }
}
