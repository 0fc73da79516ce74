//! Reading a body into memory, as far as is allowed, without losing what lies beyond.

use std::pin::Pin;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;

/// A body of which some has been read.
pub(crate) struct Buffered<B> {
    /// What has been read.
    pub(crate) front: Bytes,
    /// What is to come; nothing any more when all of it has been read.
    pub(crate) rest: Option<Pin<Box<B>>>,
    /// What stood behind the data.
    pub(crate) trailers: Option<HeaderMap>,
}

/// How far reading got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// To the end.
    Whole,
    /// There is more than was allowed.
    Larger,
    /// It broke off.
    Broken,
}

impl<B: Body> Buffered<B> {
    pub(crate) fn new(body: B) -> Buffered<B> {
        Buffered { front: Bytes::new(), rest: Some(Box::pin(body)), trailers: None }
    }

    /// Reads until there are more than `limit` bytes, or to the end.
    pub(crate) async fn fill(&mut self, limit: usize) -> Extent {
        let Some(body) = &mut self.rest else {
            return if self.front.len() > limit { Extent::Larger } else { Extent::Whole };
        };
        let mut more = BytesMut::new();
        let extent = loop {
            let length = self.front.len() + more.len();
            let announced =
                u64::try_from(length).unwrap_or(u64::MAX).saturating_add(body.size_hint().lower());
            if announced > u64::try_from(limit).unwrap_or(u64::MAX) {
                break Extent::Larger;
            }
            match body.frame().await {
                None => break Extent::Whole,
                Some(Err(_)) => break Extent::Broken,
                Some(Ok(frame)) => match frame.into_data() {
                    // Most bodies come in one piece, which is not copied.
                    Ok(mut data) if length == 0 => self.front = data.copy_to_bytes(data.remaining()),
                    Ok(data) => more.put(data),
                    Err(frame) => self.trailers = frame.into_trailers().ok().or(self.trailers.take()),
                },
            }
        };
        if !more.is_empty() {
            let mut whole = BytesMut::with_capacity(self.front.len() + more.len());
            whole.extend_from_slice(&self.front);
            whole.extend_from_slice(&more);
            self.front = whole.freeze();
        }
        if extent != Extent::Larger {
            self.rest = None;
        }
        extent
    }
}
