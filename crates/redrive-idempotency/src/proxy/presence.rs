//! Whether a client is still there while its answer is under way.
//!
//! Nobody writes to a client whose stream is quiet, so nobody would hear that it is gone, and its place would be lost. So it is looked at.
//! A client that ends its own half with its request, such as `printf … | nc`, still listens: only one that ends it when its answer has
//! begun, or that takes nothing more, is gone. Who vanishes without a word is found out by the system (TCP keepalive).

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Sleep, sleep};

use super::{Answer, BoxError};

/// How often a client is looked at while its answer is quiet.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A peer that says nothing for a minute is asked for a sign of life, and again every ten seconds, three times.
const SILENT_FOR: Duration = Duration::from_mins(1);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 3;

/// Sends small pieces at once, and lets the system find out when the other side has vanished.
pub(super) fn prepared(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(SILENT_FOR).with_interval(ASK_EVERY).with_retries(ASK_TIMES);
    SockRef::from(stream).set_tcp_keepalive(&alive)
}

/// A connection to a client, and a way to look at it from elsewhere.
pub(super) fn line(stream: TcpStream) -> (Line, Client) {
    let (reads, writes) = stream.into_split();
    let reads = Arc::new(reads);
    (Line { reads: Arc::clone(&reads), writes }, Client(reads))
}

/// A connection to a client.
pub(super) struct Line {
    reads: Arc<OwnedReadHalf>,
    writes: OwnedWriteHalf,
}

impl AsyncRead for Line {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream: &TcpStream = (*self.reads).as_ref();
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read_buf(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writes).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writes).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.writes.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writes).poll_shutdown(cx)
    }
}

/// Who is on a connection, to be looked at.
#[derive(Clone)]
pub(super) struct Client(Arc<OwnedReadHalf>);

impl Client {
    /// What the system has told so far; nothing when it has told nothing.
    fn told(&self) -> Option<io::Result<Ready>> {
        let telling = pin!(self.0.ready(Interest::READABLE | Interest::WRITABLE));
        match telling.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(told) => Some(told),
            Poll::Pending => None,
        }
    }

    /// Whether it says nothing more.
    fn has_ended(&self) -> bool {
        self.told().is_some_and(|told| told.is_ok_and(Ready::is_read_closed))
    }

    /// Whether it takes nothing more.
    fn is_gone(&self) -> bool {
        self.told().is_some_and(|told| told.is_err() || told.is_ok_and(Ready::is_write_closed))
    }

    /// An answer that ends when its client is gone.
    pub(super) fn hears(&self, body: Answer) -> Heard {
        Heard { body, client: self.clone(), had_ended: self.has_ended(), look: None }
    }
}

/// The body of an answer, for as long as somebody is there to hear it.
pub(super) struct Heard {
    body: Answer,
    client: Client,
    /// Whether the client had nothing more to say when its answer began.
    had_ended: bool,
    look: Option<Pin<Box<Sleep>>>,
}

impl Body for Heard {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.look = None;
            return Poll::Ready(frame);
        }
        loop {
            let look = self.look.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            ready!(look.as_mut().poll(cx));
            self.look = None;
            if self.client.is_gone() || (!self.had_ended && self.client.has_ended()) {
                return Poll::Ready(Some(Err("the client went away".into())));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
