//! Request targets that `hyper` refuses or would change (a fragment, say) are put in place on the way
//! out: the request is made with a placeholder, which is replaced in the bytes that are written.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use anyhow::ensure;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What stands for the real target until it is written.
pub(super) const PLACEHOLDER: &str = "/placeholder-of-the-request-target";

/// The target that the next request is to have, shared by the one who sends and the one who writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot(Arc<Mutex<Option<String>>>);

impl Slot {
    /// Sets the target, or leaves the request as it is.
    pub(super) fn set(&self, target: Option<&str>) -> anyhow::Result<()> {
        let broken = target.is_some_and(|target| target.contains(['\r', '\n']));
        ensure!(!broken, "a target with line breaks can only be sent with send_raw: {target:?}");
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = target.map(str::to_owned);
        Ok(())
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A stream that replaces the placeholder in the head of a request.
#[derive(Debug)]
pub(super) struct TargetWriter {
    stream: TcpStream,
    slot: Slot,
    /// What was taken from hyper but not yet by the stream.
    unwritten: Vec<u8>,
}

impl TargetWriter {
    pub(super) fn new(stream: TcpStream, slot: Slot) -> Self {
        Self { stream, slot, unwritten: Vec::new() }
    }

    fn poll_unwritten(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unwritten.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TargetWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_unwritten(cx))?;
        // hyper hands over the head of a request as one piece, since this is not a vectored writer.
        let Some(target) = this.slot.take() else { return Pin::new(&mut this.stream).poll_write(cx, bytes) };
        let split = bytes.windows(PLACEHOLDER.len()).position(|window| window == PLACEHOLDER.as_bytes());
        let parts = split.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + PLACEHOLDER.len()..)?)));
        let (before, after) = parts.ok_or_else(|| io::Error::other("the placeholder is not in one piece"))?;
        this.unwritten = [before, target.as_bytes(), after].concat();
        // All was taken; what the stream does not take now goes first next time.
        match this.poll_unwritten(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_unwritten(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_unwritten(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for TargetWriter {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}
