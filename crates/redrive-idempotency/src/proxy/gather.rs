//! An answer is gathered whole before it is kept, as far as its length and its time allow. What is longer, or has no end, reaches its
//! client as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::BoxError;

/// What there is of an answer before its client hears of it.
pub(super) enum Gathered {
    /// All of it, and what stood behind it.
    Whole(Bytes, Option<HeaderMap>),
    /// It is longer, or goes on for longer, than is waited for.
    GoesOn { front: Bytes, rest: Incoming },
}

/// How an answer broke off.
#[derive(Debug)]
pub(super) enum Broke {
    Off(BoxError),
    Silent,
}

/// Reads no more than `limit` bytes, and the piece that shows that there are more.
pub(super) async fn gather(mut body: Incoming, limit: usize, until: Instant) -> Result<Gathered, Broke> {
    let named = body.size_hint().exact();
    if named.is_some_and(|named| named > u64::try_from(limit).unwrap_or(u64::MAX)) {
        return Ok(Gathered::GoesOn { front: Bytes::new(), rest: body });
    }
    let mut front = BytesMut::new();
    loop {
        let frame = match timeout_at(until, body.frame()).await {
            Ok(None) => return Ok(Gathered::Whole(front.freeze(), None)),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Broke::Off(error.into())),
            // Who named a length meant to come to an end.
            Err(_) if named.is_some() => return Err(Broke::Silent),
            Err(_) => return Ok(Gathered::GoesOn { front: front.freeze(), rest: body }),
        };
        match frame.into_data() {
            Ok(data) => front.extend_from_slice(&data),
            Err(frame) => return Ok(Gathered::Whole(front.freeze(), frame.into_trailers().ok())),
        }
        if front.len() > limit {
            return Ok(Gathered::GoesOn { front: front.freeze(), rest: body });
        }
    }
}

/// What was gathered, and then what comes.
pub(super) struct Continued {
    front: Option<Bytes>,
    rest: Incoming,
}

impl Continued {
    pub(super) fn new(front: Bytes, rest: Incoming) -> Continued {
        Continued { front: Some(front).filter(|front| !front.is_empty()), rest }
    }
}

impl Body for Continued {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(front) = self.front.take() {
            return Poll::Ready(Some(Ok(Frame::data(front))));
        }
        Pin::new(&mut self.rest).poll_frame(cx).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.front.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let front = self.front.as_ref().map_or(0, |front| u64::try_from(front.len()).unwrap_or(u64::MAX));
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(front));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(front)) {
            hint.set_upper(upper);
        }
        hint
    }
}

/// A body from memory, and what stands behind it. It names no length, because a message with a length has nothing behind it.
pub(super) struct Followed {
    body: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Followed {
    pub(super) fn new(body: Bytes, trailers: HeaderMap) -> Followed {
        Followed { body: Some(body).filter(|body| !body.is_empty()), trailers: Some(trailers) }
    }
}

impl Body for Followed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = self.body.take().map(Frame::data);
        Poll::Ready(body.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none() && self.trailers.is_none()
    }
}
