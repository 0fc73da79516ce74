//! What a command writes, kept from its beginning up to a bound, and passed on where somebody wants to see it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::REVIEW_BOUND;
use crate::exec::Writer;

/// Keeps what goes through it: the beginning, and how much it was.
///
/// ```
/// use redrive::review::Captured;
/// use redrive::{CommandSpec, Surroundings, Wiring, run_command};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let captured = Captured::new();
/// let wiring = Wiring { stdout: Some(captured.writer(None)), ..Wiring::captured() };
/// run_command(&CommandSpec::new(["echo", "hello"]), &Surroundings::new("job_01", 1), wiring).await;
/// assert_eq!(captured.take(), (b"hello\n".to_vec(), 6));
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Captured {
    kept: Arc<Mutex<Kept>>,
    bound: usize,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    total: u64,
}

impl Captured {
    /// Keeps as much as is reviewed.
    pub fn new() -> Captured {
        Captured::with_bound(REVIEW_BOUND)
    }

    /// Keeps so many bytes.
    pub fn with_bound(bound: usize) -> Captured {
        Captured { kept: Arc::default(), bound }
    }

    /// Where a command writes to; what it writes goes on to `to` as well.
    pub fn writer(&self, to: Option<Writer>) -> Writer {
        Box::new(Keeper { captured: self.clone(), to })
    }

    /// What was written so far, and how much it was; the next take begins anew.
    pub fn take(&self) -> (Vec<u8>, u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = std::mem::take(&mut *kept);
        (kept.bytes, kept.total)
    }

    fn keep(&self, chunk: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.total += chunk.len() as u64;
        let room = self.bound.saturating_sub(kept.bytes.len()).min(chunk.len());
        kept.bytes.extend_from_slice(&chunk[..room]);
    }
}

impl Default for Captured {
    fn default() -> Captured {
        Captured::new()
    }
}

struct Keeper {
    captured: Captured,
    to: Option<Writer>,
}

impl AsyncWrite for Keeper {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunk: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.to {
            Some(to) => match Pin::new(to).poll_write(context, chunk) {
                Poll::Ready(Ok(written)) => written,
                other => return other,
            },
            None => chunk.len(),
        };
        self.captured.keep(&chunk[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.to {
            Some(to) => Pin::new(to).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.to {
            Some(to) => Pin::new(to).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}
