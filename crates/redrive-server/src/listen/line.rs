//! A connection with a clock on it: every wait on the client has an end (reliability 57).
//!
//! Between requests it may be silent for a while; a head must arrive within its time; and what we send must be read at a certain pace,
//! counted only while the client keeps us waiting. So a long poll and a stream of events may last, and a client that does not read
//! is cut. How fast a body must come is watched where it is read ([`super::arriving`]).
//!
//! An answer that came before its request was over would be lost if we closed at once: the system throws away what a client has not
//! read when bytes arrive for nobody. So we say that we are done, and read on for a while what nobody wants.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::head::Head;

/// How long, and over how many bytes, a client may go on sending what was answered already.
const LINGER_FOR: Duration = Duration::from_secs(2);
const LINGER_OVER: usize = 32 * 1024 * 1024;

/// How long a client may take for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paces {
    /// Over the head of a request.
    pub(super) head_within: Duration,
    /// Between two requests.
    pub(super) idle_for: Duration,
    /// Over reading an answer, however short it is.
    pub(super) read_within: Duration,
    /// And so many bytes a second beyond that.
    pub(super) least_rate: u64,
    /// Without taking a single byte, however much it has read before.
    pub(super) still_for: Duration,
}

/// What the line and the requests on it know of each other.
#[derive(Debug)]
pub(super) struct Turn {
    began: Instant,
    /// Whether a request is being answered.
    busy: AtomicBool,
    /// How many were.
    count: AtomicU64,
    /// Whether a part of the next head has arrived, but not all of it.
    half: AtomicBool,
    /// Whether the last request was answered before all of it was read.
    unread: AtomicBool,
    /// When the last answer was over, in microseconds since the line began.
    over_at: AtomicU64,
    /// Of all lines: how many requests are being answered.
    answering: Arc<AtomicUsize>,
}

impl Turn {
    pub(super) fn new(answering: Arc<AtomicUsize>) -> Arc<Turn> {
        let [busy, half, unread] = [const { AtomicBool::new(false) }; 3];
        let [count, over_at] = [const { AtomicU64::new(0) }; 2];
        Arc::new(Turn { began: Instant::now(), busy, count, half, unread, over_at, answering })
    }

    /// A request is being answered, until what comes back is dropped.
    pub(super) fn begin(self: &Arc<Turn>) -> InTurn {
        self.busy.store(true, Ordering::Release);
        self.unread.store(false, Ordering::Release);
        self.count.fetch_add(1, Ordering::AcqRel);
        self.answering.fetch_add(1, Ordering::AcqRel);
        InTurn(Arc::clone(self))
    }

    /// Whether nothing is answered, and only a part of a request has arrived.
    pub(super) fn is_half(&self) -> bool {
        self.half.load(Ordering::Acquire) && !self.busy.load(Ordering::Acquire)
    }

    /// The request that is being answered will not be read to its end.
    pub(super) fn leaves_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    fn over_at(&self) -> Instant {
        self.began + Duration::from_micros(self.over_at.load(Ordering::Acquire))
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct InTurn(Arc<Turn>);

impl Drop for InTurn {
    fn drop(&mut self) {
        let Turn { began, busy, over_at, answering, .. } = &*self.0;
        let now = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        over_at.store(now, Ordering::Release);
        answering.fetch_sub(1, Ordering::AcqRel);
        busy.store(false, Ordering::Release);
    }
}

/// A connection with a clock on it.
pub(super) struct Line<IO> {
    io: IO,
    paces: Paces,
    turn: Arc<Turn>,
    head: Head,
    /// Until when something must arrive; nothing while a request is being answered.
    arrives_by: Option<Instant>,
    /// Whether a head has begun to arrive.
    begun: bool,
    reading: Pin<Box<Sleep>>,
    /// Since when the client does not read, for how long it has not in all, and what it has read since its request.
    blocked_since: Option<Instant>,
    blocked: Duration,
    sent: u64,
    counted: u64,
    writing: Pin<Box<Sleep>>,
    /// Once we have said that we are done: how much is still read for nobody.
    linger: Option<usize>,
}

impl<IO> Line<IO> {
    pub(super) fn new(io: IO, paces: Paces, turn: Arc<Turn>) -> Line<IO> {
        let now = Instant::now();
        let by = now + paces.head_within;
        Line {
            io,
            paces,
            turn,
            head: Head::default(),
            arrives_by: Some(by),
            begun: false,
            reading: Box::pin(sleep_until(by)),
            blocked_since: None,
            blocked: Duration::ZERO,
            sent: 0,
            counted: 0,
            writing: Box::pin(sleep_until(by)),
            linger: None,
        }
    }

    fn expect_by(&mut self, by: Instant) {
        self.arrives_by = Some(by);
        self.reading.as_mut().reset(by);
    }

    /// Nothing is written now: whether the client had its time to read.
    fn is_cut(&mut self, cx: &mut Context<'_>) -> bool {
        let counted = self.turn.count.load(Ordering::Acquire);
        if counted != self.counted {
            (self.counted, self.sent, self.blocked) = (counted, 0, Duration::ZERO);
        }
        if self.blocked_since.is_none() {
            let now = Instant::now();
            let earned = Duration::from_secs(self.sent / self.paces.least_rate.max(1));
            let left = (self.paces.read_within + earned).saturating_sub(self.blocked);
            let left = left.min(self.paces.still_for);
            self.blocked_since = Some(now);
            self.writing.as_mut().reset(now + left);
        }
        self.writing.as_mut().poll(cx).is_ready()
    }

    fn went_on(&mut self, bytes: usize) {
        if let Some(since) = self.blocked_since.take() {
            self.blocked += since.elapsed();
        }
        self.sent += bytes as u64;
    }

    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending if self.is_cut(cx) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(done) => {
                self.went_on(done.as_ref().map_or(0, bytes));
                Poll::Ready(done)
            }
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Line<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        let busy = line.turn.busy.load(Ordering::Acquire);
        if busy {
            line.arrives_by = None;
        } else if line.arrives_by.is_none() {
            // The answer before is over.
            line.begun = line.head.has_begun();
            line.expect_by(if line.begun {
                Instant::now() + line.paces.head_within
            } else {
                line.turn.over_at() + line.paces.idle_for
            });
        }
        let before = buf.filled().len();
        match Pin::new(&mut line.io).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => {
                let arrived = &mut buf.filled_mut()[before..];
                // Also while the request before is answered: a client need not wait with its next.
                let any = line.head.look(arrived);
                line.turn.half.store(line.head.has_begun(), Ordering::Release);
                if any && !busy && !line.begun {
                    line.begun = true;
                    line.expect_by(Instant::now() + line.paces.head_within);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if busy => {
                // Nobody may ask again when the answer is over: then this is what looks whether anything arrives.
                while line.reading.as_mut().poll(cx).is_ready() {
                    line.reading.as_mut().reset(Instant::now() + line.paces.idle_for);
                }
                Poll::Pending
            }
            Poll::Pending if line.reading.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing arrived in time")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<IO: AsyncRead + Unpin> Line<IO> {
    /// Reads what nobody wants, until the client has gone, or has had its time, or has sent too much.
    fn lingered(&mut self, cx: &mut Context<'_>, left: &mut usize) -> Poll<()> {
        if self.reading.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut space = [std::mem::MaybeUninit::uninit(); 16 * 1024];
        while *left > 0 {
            let mut buf = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    *left = left.saturating_sub(buf.filled().len());
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Line<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        let polled = Pin::new(&mut line.io).poll_write(cx, buf);
        line.written(cx, polled, |bytes| *bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        let polled = Pin::new(&mut line.io).poll_flush(cx);
        line.written(cx, polled, |()| 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        if line.linger.is_none() {
            let polled = Pin::new(&mut line.io).poll_shutdown(cx);
            std::task::ready!(line.written(cx, polled, |()| 0))?;
            if !line.turn.unread.load(Ordering::Acquire) {
                return Poll::Ready(Ok(()));
            }
            line.expect_by(Instant::now() + LINGER_FOR);
        }
        let mut left = line.linger.unwrap_or(LINGER_OVER);
        let polled = line.lingered(cx, &mut left);
        line.linger = Some(left);
        polled.map(Ok)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        let polled = Pin::new(&mut line.io).poll_write_vectored(cx, bufs);
        line.written(cx, polled, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
