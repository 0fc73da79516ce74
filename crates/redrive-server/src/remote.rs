//! The door at which workers elsewhere ask for work: opened by the first of them, in the name of this server.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use redrive::engine::{EngineError, HeldLease, Remote};
use tokio::sync::OnceCell;

use crate::Server;

/// How long a server that nobody keeps present counts as there.
const PRESENCE: Duration = Duration::from_mins(1);

/// Where workers elsewhere come to.
#[derive(Default)]
pub(crate) struct Door(OnceCell<Remote>);

impl Server {
    /// The place to which workers elsewhere come.
    pub(crate) async fn remote(&self) -> Result<&Remote, EngineError> {
        let open = async || {
            let engine = self.engine();
            let worker = if let Some(worker) = self.presence() {
                worker
            } else {
                let label = format!("server, process {}", std::process::id());
                let worker = engine.store().register(engine.now(), label, PRESENCE).await?;
                engine.store().takes(worker, redrive_store::Takes::no_work()).await?;
                worker
            };
            engine.remote(worker).await
        };
        self.0.remote.0.get_or_try_init(open).await
    }
}

/// An answer that hands out leases. One that is dropped before it was sent has reached nobody: what it holds is given back.
pub(crate) struct HandingOut {
    answer: Option<Bytes>,
    remote: Remote,
    held: Vec<HeldLease>,
}

impl HandingOut {
    pub(crate) fn new(answer: Bytes, remote: &Remote, held: Vec<HeldLease>) -> HandingOut {
        HandingOut { answer: Some(answer), remote: remote.clone(), held }
    }
}

impl Body for HandingOut {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.held.clear();
        Poll::Ready(self.answer.take().map(|answer| Ok(Frame::data(answer))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.answer.as_ref().map_or(0, |answer| answer.len() as u64))
    }
}

impl Drop for HandingOut {
    fn drop(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (remote, held) = (self.remote.clone(), std::mem::take(&mut self.held));
        tokio::spawn(async move {
            if let Err(error) = remote.give_back(held).await {
                tracing::warn!(%error, "jobs that nobody got are not given back; their leases lapse");
            }
        });
    }
}
