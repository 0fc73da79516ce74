//! What callers hand to the writer: a plain write, a request for work, a wait for events.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::batch::Batch;
use super::parked::{Interest, Watch};
use super::writer::{Operation, Step, Writer};
use super::{lease, settle};
use crate::error::{StoreError, Trouble};
use crate::id::EventSeq;
use crate::lease::{LeaseRequest, LeasedJob};
use crate::settle::{Ending, Settlement};
use crate::time::Timestamp;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;
type Answered<T> = oneshot::Receiver<Result<T, StoreError>>;

struct Call<T, F> {
    adds_work: bool,
    wish: F,
    result: Option<T>,
    reply: Reply<T>,
}

/// A write and where its answer comes.
pub(super) fn call<T, F>(adds_work: bool, wish: F) -> (Box<dyn Operation>, Answered<T>)
where
    T: Send + 'static,
    F: FnMut(&mut Batch<'_, '_>) -> Result<T, StoreError> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Call { adds_work, wish, result: None, reply }), answer)
}

impl<T: Send, F> Operation for Call<T, F>
where
    F: FnMut(&mut Batch<'_, '_>) -> Result<T, StoreError> + Send,
{
    fn apply(&mut self, batch: &mut Batch<'_, '_>) -> Result<Step, StoreError> {
        self.result = Some((self.wish)(batch)?);
        Ok(Step::Done)
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) -> Option<Box<dyn Operation>> {
        let Call { result, reply, .. } = *self;
        let result = outcome.and_then(|()| result.ok_or_else(|| Trouble::Closed.into()));
        // Whoever does not wait for the answer does not need it: what was written stands.
        drop(reply.send(result));
        None
    }

    fn adds_work(&self) -> bool {
        self.adds_work
    }

    fn brings(&self) -> usize {
        // Who adds work often has more; who settles has asked for the next work already.
        usize::from(self.adds_work)
    }
}

/// A request for work, which may wait here.
pub(super) struct LeaseCall {
    now: Timestamp,
    arrived: Instant,
    until: Instant,
    request: LeaseRequest,
    places: Vec<i64>,
    lanes_seen: u64,
    /// Whether it has waited, or looked before.
    waited: bool,
    leased: Vec<LeasedJob>,
    reply: Reply<Vec<LeasedJob>>,
}

impl LeaseCall {
    pub(super) fn submitted(
        now: Timestamp,
        request: LeaseRequest,
    ) -> (Box<dyn Operation>, Answered<Vec<LeasedJob>>) {
        let (reply, answer) = oneshot::channel();
        let arrived = Instant::now();
        let until = arrived + request.wait.min(Duration::from_hours(1));
        (
            Box::new(LeaseCall {
                now,
                arrived,
                until,
                request,
                places: Vec::new(),
                lanes_seen: 0,
                waited: false,
                leased: Vec::new(),
                reply,
            }),
            answer,
        )
    }

    /// The clock is the caller's. For one that has waited, the whole milliseconds that passed are added: not a part of
    /// one, so that nothing is due too early.
    fn clock(&self) -> Timestamp {
        let waits = self.waited && !self.request.wait.is_zero();
        let waited = if waits { self.arrived.elapsed().as_millis() } else { 0 };
        Timestamp::from_millis(self.now.millis().saturating_add(i64::try_from(waited).unwrap_or(i64::MAX)))
    }
}

impl Operation for LeaseCall {
    fn apply(&mut self, batch: &mut Batch<'_, '_>) -> Result<Step, StoreError> {
        self.leased.clear();
        if self.reply.is_closed() {
            return Ok(Step::Park);
        }
        let now = self.clock();
        self.places = lease::places(batch, &self.request)?;
        self.lanes_seen = batch.memory.lanes_seen;
        self.waited = true;
        self.leased = lease::lease(batch, now, &self.request, &self.places)?;
        Ok(if self.leased.is_empty() { Step::Park } else { Step::Done })
    }

    fn undo(&mut self) {
        self.leased.clear();
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) -> Option<Box<dyn Operation>> {
        let now = self.clock();
        let LeaseCall { leased, reply, .. } = *self;
        let leased = match reply.send(outcome.map(|()| leased)) {
            Ok(()) | Err(Err(_)) => return None,
            Err(Ok(leased)) => leased,
        };
        if leased.is_empty() {
            return None;
        }
        // The worker went away between asking and getting.
        Some(give_back(now, &leased))
    }

    fn patience(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn brings(&self) -> usize {
        // What was handed out is settled, and the next asked for.
        if self.leased.is_empty() { 0 } else { 2 }
    }

    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn waits_for(&self) -> Option<Interest> {
        let LeaseRequest { worker, reserved_only, queues, kinds, .. } = &self.request;
        Some(Interest::Work {
            worker: *worker,
            reserved_only: *reserved_only,
            queues: queues.clone(),
            kinds: kinds.clone(),
        })
    }

    fn watch(&self) -> Watch {
        Watch::Places { places: self.places.clone(), lanes_seen: self.lanes_seen }
    }

    fn waits(&mut self) {
        self.waited = true;
    }
}

/// Gives everything back, uncounted.
fn give_back(now: Timestamp, leased: &[LeasedJob]) -> Box<dyn Operation> {
    let released = |leased: &LeasedJob| Settlement {
        token: leased.token,
        ending: Ending::Released { why: "the worker went away before it began".to_owned() },
    };
    let settlements: Vec<Settlement> = leased.iter().map(released).collect();
    call(false, move |batch| settle::settle(batch, now, &settlements)).0
}

/// Waits for leases. Whoever drops it in the moment between their being sent and being taken gives them back, too.
pub(super) struct LeaseAnswer<'a> {
    writer: &'a Writer,
    now: Timestamp,
    answer: Answered<Vec<LeasedJob>>,
}

impl<'a> LeaseAnswer<'a> {
    pub(super) fn new(
        writer: &'a Writer,
        now: Timestamp,
        answer: Answered<Vec<LeasedJob>>,
    ) -> LeaseAnswer<'a> {
        LeaseAnswer { writer, now, answer }
    }
}

impl Future for LeaseAnswer<'_> {
    type Output = Result<Vec<LeasedJob>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| Err(Trouble::Closed.into())))
    }
}

impl Drop for LeaseAnswer<'_> {
    fn drop(&mut self) {
        // From here on the writer cannot send any more; what it has sent is here.
        self.answer.close();
        if let Ok(Ok(leased)) = self.answer.try_recv()
            && !leased.is_empty()
        {
            self.writer.submit(give_back(self.now, &leased));
        }
    }
}

/// A wait for events behind a place in the stream.
pub(super) struct Follow {
    after: EventSeq,
    last: EventSeq,
    until: Instant,
    reply: Reply<EventSeq>,
}

impl Follow {
    pub(super) fn submitted(after: EventSeq, wait: Duration) -> (Box<dyn Operation>, Answered<EventSeq>) {
        let (reply, answer) = oneshot::channel();
        let until = Instant::now() + wait.min(Duration::from_hours(1));
        (Box::new(Follow { after, last: after, until, reply }), answer)
    }
}

impl Operation for Follow {
    fn apply(&mut self, batch: &mut Batch<'_, '_>) -> Result<Step, StoreError> {
        self.last = batch.last_event();
        Ok(if self.last > self.after { Step::Done } else { Step::Park })
    }

    fn undo(&mut self) {
        self.last = self.after;
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) -> Option<Box<dyn Operation>> {
        drop(self.reply.send(outcome.map(|()| self.last)));
        None
    }

    fn patience(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn waits_for(&self) -> Option<Interest> {
        Some(Interest::Events(self.after.0))
    }

    fn watch(&self) -> Watch {
        Watch::Events(self.after.0)
    }
}
