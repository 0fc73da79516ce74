//! The stream of events over HTTP (server-sent events): it goes on where a client was cut off, skips nothing that commits late, and
//! holds no more for a slow reader than a few pieces.

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http_body::Frame;
use redrive_store::filter::{EventField, Filter};
use redrive_store::{Event, EventFilter, EventSeq, Order};
use tokio::sync::mpsc;

use super::reach::Reach;
use super::{Told, seen_by};
use crate::Server;
use crate::caller::Caller;
use crate::front::is_still_in;
use crate::problem::{Code, Problem};

/// How many events are read at once, how many bytes make a piece, and how many pieces wait for a reader.
const PAGE: u32 = 200;
const PIECE: usize = 64 << 10;
const WAITING: usize = 4;
/// How soon a client comes back when the stream ends.
const BACK_AFTER: &str = "retry: 1000\n\n";

/// Answers with the stream behind this place, or from now on.
pub(super) async fn follow(
    server: &Server,
    caller: Caller,
    reach: Reach,
    filter: EventFilter,
    also: Option<Filter<EventField>>,
    last: Option<EventSeq>,
) -> Result<Response, Problem> {
    if server.shutdown().is_draining() {
        return Err(Problem::of(Code::Draining));
    }
    let store = server.engine().store();
    let seen = match last {
        Some(last) => last,
        None => store.wait_for_events(EventSeq::default(), Duration::ZERO).await?,
    };
    let (pieces, waiting) = mpsc::channel(WAITING);
    let follower = Follower { server: server.clone(), caller, reach, filter, also, seen, pieces };
    tokio::spawn(follower.run());
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        // A proxy that collects answers would hold back the stream.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::new(Pieces(waiting))).into_response())
}

struct Follower {
    server: Server,
    caller: Caller,
    reach: Reach,
    filter: EventFilter,
    also: Option<Filter<EventField>>,
    seen: EventSeq,
    pieces: mpsc::Sender<Bytes>,
}

/// The stream is over: the client went away, is too slow or may hear no more, or the server ends.
struct Over;

impl Follower {
    async fn run(mut self) {
        let shutdown = self.server.shutdown().clone();
        let reader = self.pieces.clone();
        tokio::select! {
            Err(Over) = self.tell() => {}
            () = shutdown.draining() => {}
            () = reader.closed() => {}
        }
    }

    async fn tell(&mut self) -> Result<(), Over> {
        self.send(BACK_AFTER.to_owned()).await?;
        let engine = self.server.engine().clone();
        loop {
            let heartbeat = self.server.settings().heartbeat;
            let last = engine.store().wait_for_events(self.seen, heartbeat).await.map_err(|error| {
                tracing::warn!(%error, "a stream of events ends: the store cannot be asked");
                Over
            })?;
            self.is_still_in().await?;
            if last <= self.seen {
                self.send(":\n\n".to_owned()).await?;
                continue;
            }
            self.catch_up(last).await?;
        }
    }

    /// Tells everything up to this place. No further: behind it something may still appear.
    async fn catch_up(&mut self, last: EventSeq) -> Result<(), Over> {
        let ended = |problem: Problem| {
            tracing::warn!(code = problem.code.name(), "a stream of events ends");
            Over
        };
        let engine = self.server.engine().clone();
        while self.seen < last {
            self.is_still_in().await?;
            let next = EventFilter {
                order: Order::OldestFirst,
                after: Some(self.seen),
                before: Some(EventSeq(last.0.saturating_add(1))),
                ..self.filter.clone()
            };
            let events = engine.search_events(next, self.also.clone()).next(PAGE).await;
            let events = events.map_err(|error| ended(error.into()))?;
            let mut piece = String::new();
            let full = u32::try_from(events.len()).is_ok_and(|len| len >= PAGE);
            let seen = events.last().filter(|_| full).map_or(last, |event| event.seq);
            for event in events {
                if self.reach.sees(&event).await.map_err(ended)? {
                    write_event(&mut piece, &seen_by(&self.caller, event));
                }
                if piece.len() >= PIECE {
                    self.send(std::mem::take(&mut piece)).await?;
                }
            }
            if !piece.is_empty() {
                self.send(piece).await?;
            }
            self.seen = seen;
        }
        Ok(())
    }

    /// A stream may last longer than the token that it was asked for with: it ends with it.
    async fn is_still_in(&self) -> Result<(), Over> {
        match is_still_in(&self.server, &self.caller).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Over),
            Err(problem) => {
                tracing::warn!(
                    code = problem.code.name(),
                    "a stream of events ends: nobody knows who reads it"
                );
                Err(Over)
            }
        }
    }

    /// A reader that takes too long over a piece is cut off. It may come back where it was.
    async fn send(&self, piece: String) -> Result<(), Over> {
        let patience = self.server.settings().read_within * 3 / 2;
        match self.pieces.send_timeout(Bytes::from(piece), patience).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Over),
        }
    }
}

fn write_event(piece: &mut String, event: &Event) {
    // JSON has no line breaks in it, so one line of data is enough.
    let Ok(json) = serde_json::to_string(&Told::new(event)) else { return };
    // Writing into a text cannot fail.
    let _ = write!(piece, "id: {}\ndata: {json}\n\n", event.seq.0);
}

/// The pieces as the body of an answer.
struct Pieces(mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
