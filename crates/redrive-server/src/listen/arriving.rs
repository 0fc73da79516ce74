//! Bodies with a clock on them: what arrives must arrive at a certain pace, and what leaves says when it is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::line::{InTurn, Turn};

/// How slow a body may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyPace {
    /// It may take so long, however short it is.
    pub(super) grace: Duration,
    /// And so many bytes a second beyond that.
    pub(super) least_rate: u64,
    /// And never longer than this.
    pub(super) within: Duration,
}

/// The body of a request did not arrive in time.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
pub(super) struct TooSlow;

/// The body of a request.
pub(super) struct Arriving {
    inner: Incoming,
    pace: BodyPace,
    /// Set when the body is first waited for: one that is there at once needs no clock.
    clock: Option<(Instant, Pin<Box<Sleep>>)>,
    bytes: u64,
    turn: Arc<Turn>,
}

impl Arriving {
    pub(super) fn new(inner: Incoming, pace: BodyPace, turn: Arc<Turn>) -> Arriving {
        Arriving { inner, pace, clock: None, bytes: 0, turn }
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.inner.is_end_stream() {
            self.turn.leaves_unread();
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = self.get_mut();
        match Pin::new(&mut body.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                body.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let pace = body.pace;
                let (began, sleep) = body.clock.get_or_insert_with(|| {
                    let now = Instant::now();
                    (now, Box::pin(sleep_until(now + pace.grace)))
                });
                let earned = Duration::from_secs(body.bytes / pace.least_rate.max(1));
                let by = *began + (pace.grace + earned).min(pace.within);
                if sleep.deadline() != by {
                    sleep.as_mut().reset(by);
                }
                match sleep.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(Box::new(TooSlow)))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer; when it is let go of, the turn is over.
pub(super) struct Leaving {
    inner: axum::body::Body,
    _turn: InTurn,
}

impl Leaving {
    pub(super) fn new(inner: axum::body::Body, turn: InTurn) -> Leaving {
        Leaving { inner, _turn: turn }
    }
}

impl Body for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
