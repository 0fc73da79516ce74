//! How much of what clients send is held at a time, over all of them. A body that goes on counts as it comes in, and until its request is
//! answered: many large ones at once are asked to come again, and memory stays within bounds. Small ones are never counted.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The first bytes of a body, which are not counted.
const FREE: usize = 64 * 1024;
/// What is counted together.
const UNIT: usize = 1024;

/// How much may be held at a time.
#[derive(Debug, Clone)]
pub(crate) struct Scale(Arc<Semaphore>);

/// What one request has on the scale; nothing once it is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Weight {
    scale: Scale,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

/// There is too much on the scale.
#[derive(Debug, thiserror::Error)]
#[error("too much is being sent at once")]
pub(crate) struct TooMuch;

impl Scale {
    /// For so many bytes.
    pub(crate) fn new(most: usize) -> Scale {
        Scale(Arc::new(Semaphore::new((most / UNIT).max(1))))
    }

    pub(crate) fn weigh(&self) -> Weight {
        Weight { scale: self.clone(), held: Arc::default() }
    }
}

impl Weight {
    /// The body, which counts here as it comes in.
    pub(crate) fn of(&self, body: Body) -> Body {
        Body::new(Weighed { body, weight: self.clone(), came: 0, counted: 0 })
    }

    fn add(&self, units: usize) -> Result<(), TooMuch> {
        let units = u32::try_from(units).map_err(|_| TooMuch)?;
        let more = Arc::clone(&self.scale.0).try_acquire_many_owned(units).map_err(|_| TooMuch)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

struct Weighed {
    body: Body,
    weight: Weight,
    came: usize,
    /// In units.
    counted: usize,
}

impl HttpBody for Weighed {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let came = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => 0,
        };
        self.came = self.came.saturating_add(came);
        let units = self.came.saturating_sub(FREE).div_ceil(UNIT);
        if units > self.counted {
            if let Err(too_much) = self.weight.add(units - self.counted) {
                return Poll::Ready(Some(Err(too_much.into())));
            }
            self.counted = units;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    /// Reliability 62: what is held at a time is bounded; what was answered counts no more, and what is small never does.
    #[tokio::test]
    async fn many_large_bodies_at_once_are_refused() {
        let scale = Scale::new(1 << 20);
        let body = |size: usize| Body::from(vec![b'x'; size]);
        let one = scale.weigh();
        let read = one.of(body(900 * 1024)).collect().await.unwrap().to_bytes();
        assert_eq!(read.len(), 900 * 1024);
        let other = scale.weigh();
        let refused = other.of(body(600 * 1024)).collect().await.unwrap_err();
        assert!(refused.to_string().contains("too much"), "{refused}");
        assert_eq!(scale.weigh().of(body(FREE)).collect().await.unwrap().to_bytes().len(), FREE);
        drop((one, read));
        assert!(other.of(body(600 * 1024)).collect().await.is_ok());
    }
}
