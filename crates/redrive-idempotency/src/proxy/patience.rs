//! Patience has an end: with a peer that takes nothing more, with a body that does not go on, and with one that nobody may send yet.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};

use super::BoxError;

/// A connection whose other side may not stop taking bytes for longer than this.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Since a write had to wait.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waiting: None }
    }

    /// Passes on what a write says, and ends it when it has waited for too long.
    fn wrote<T>(&mut self, wrote: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waiting = None;
            return wrote;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other side takes nothing more")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.wrote(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(shut, cx)
    }
}

/// The body of a request that passes: a client that falls silent in its middle is not waited for, and one that asked whether it may
/// send is not asked for it before the service wants it.
pub(super) struct Passing {
    body: Incoming,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    gate: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Closed when the whole of it was handed on.
    whole: Arc<Semaphore>,
}

impl Passing {
    /// With a semaphore that is closed at its end, or when nobody wants it any more.
    pub(super) fn new(body: Incoming, patience: Duration) -> (Passing, Arc<Semaphore>) {
        let whole = Arc::new(Semaphore::new(0));
        (Passing { body, patience, waiting: None, gate: None, whole: Arc::clone(&whole) }, whole)
    }

    /// Nothing is asked of the client before this is over.
    pub(super) fn after(mut self, gate: impl Future<Output = ()> + Send + 'static) -> Passing {
        self.gate = Some(Box::pin(gate));
        self
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(gate) = &mut self.gate {
            ready!(gate.as_mut().poll(cx));
            self.gate = None;
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.waiting = None;
            if frame.is_none() || self.body.is_end_stream() {
                self.whole.close();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(Some(Err("the client fell silent in the middle of its request".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.whole.close();
    }
}
