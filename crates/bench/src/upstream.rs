//! What stands behind the rivals, where they do not answer by themselves: one Envoy, which answers as they would have.

use std::net::SocketAddr;

use crate::cpu::Pinning;
use crate::rival::{Rival, Running};
use crate::workload::Answer;

/// A running one.
#[derive(Debug)]
pub(crate) struct Upstream(Running);

impl Upstream {
    /// Starts one that answers this, away from Envoy's core.
    pub(crate) async fn start(answer: Answer, pinning: &Pinning) -> anyhow::Result<Self> {
        let running = Rival::baseline()?.answering(answer)?.again("upstream").start(pinning).await?;
        pinning.apply_to_upstream(running.envoy.pid())?;
        Ok(Self(running))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.0.envoy.stop().await
    }
}
