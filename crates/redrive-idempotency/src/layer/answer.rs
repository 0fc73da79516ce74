//! The body of an answer: from memory, from the service as it comes, or what was read of it already and then the rest.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::body::Buffered;

pin_project_lite::pin_project! {
    /// The body of an answer that came through the layer.
    #[derive(Debug)]
    pub struct AnswerBody<RB> {
        front: Option<Bytes>,
        trailers: Option<HeaderMap>,
        #[pin]
        rest: Rest<RB>,
    }
}

pin_project_lite::pin_project! {
    /// What is still to come from the service.
    #[derive(Debug)]
    #[project = Coming]
    enum Rest<RB> {
        Nothing,
        All { #[pin] body: RB },
        Begun { body: Pin<Box<RB>> },
    }
}

impl<RB> AnswerBody<RB> {
    pub(super) fn whole(body: Bytes) -> AnswerBody<RB> {
        AnswerBody { front: Some(body).filter(|body| !body.is_empty()), trailers: None, rest: Rest::Nothing }
    }

    pub(super) fn passing(body: RB) -> AnswerBody<RB> {
        AnswerBody { front: None, trailers: None, rest: Rest::All { body } }
    }
}

impl<RB> From<Buffered<RB>> for AnswerBody<RB> {
    fn from(read: Buffered<RB>) -> AnswerBody<RB> {
        let rest = read.rest.map_or(Rest::Nothing, |body| Rest::Begun { body });
        AnswerBody { trailers: read.trailers, rest, ..AnswerBody::whole(read.front) }
    }
}

impl<RB: Body> Body for AnswerBody<RB> {
    type Data = Bytes;
    type Error = RB::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RB::Error>>> {
        let this = self.project();
        if let Some(front) = this.front.take() {
            return Poll::Ready(Some(Ok(Frame::data(front))));
        }
        let frame = match this.rest.project() {
            Coming::Nothing => {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            Coming::All { body } => ready!(body.poll_frame(cx)),
            Coming::Begun { body } => ready!(body.as_mut().poll_frame(cx)),
        };
        // Costs nothing where the data are `Bytes` already.
        let plain = |frame: Frame<RB::Data>| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        Poll::Ready(frame.map(|frame| frame.map(plain)))
    }

    fn is_end_stream(&self) -> bool {
        let rest_is_over = match &self.rest {
            Rest::Nothing => true,
            Rest::All { body } => body.is_end_stream(),
            Rest::Begun { body } => body.is_end_stream(),
        };
        self.front.is_none() && self.trailers.is_none() && rest_is_over
    }

    fn size_hint(&self) -> SizeHint {
        let front = self.front.as_ref().map_or(0, |front| u64::try_from(front.len()).unwrap_or(u64::MAX));
        let rest = match &self.rest {
            Rest::Nothing => return SizeHint::with_exact(front),
            Rest::All { body } => body.size_hint(),
            Rest::Begun { body } => body.size_hint(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(front));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(front)) {
            hint.set_upper(upper);
        }
        hint
    }
}
