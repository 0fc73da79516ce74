//! The hot verbs as callers hand them over, many of which share a transaction.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::desk::Handle;
use super::key_take::{Met, TakeCall, Wish, Word, WordCall};
use super::verb::{Answered, Reply};
use crate::error::{StoreError, Trouble};
use crate::id::WorkerId;
use crate::idempotency::Claimed;
use crate::job::{Enqueued, NewJob};
use crate::lease::{LeaseRequest, LeaseToken, LeasedJob, MOST_LEASED_BYTES, Renewal};
use crate::settle::{Ending, Settled, Settlement};
use crate::time::Timestamp;

/// One caller's wish, and what has come of it so far.
#[derive(Debug)]
pub(super) struct Call<A, T> {
    pub(super) now: Timestamp,
    pub(super) ask: A,
    pub(super) result: Option<T>,
    reply: Reply<T>,
}

impl<A, T> Call<A, T> {
    pub(super) fn new(now: Timestamp, ask: A) -> (Call<A, T>, Answered<T>) {
        let (reply, answer) = oneshot::channel();
        (Call { now, ask, result: None, reply }, answer)
    }

    pub(super) fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    pub(super) fn answer(self, outcome: Result<(), StoreError>) {
        // Whoever does not wait for the answer does not need it: what was written stands.
        drop(self.deliver(outcome));
    }

    /// The same; answers what nobody waited for.
    fn deliver(self, outcome: Result<(), StoreError>) -> Option<T> {
        let result = outcome.and_then(|()| self.result.ok_or_else(|| Trouble::Closed.into()));
        self.reply.send(result).err().and_then(Result::ok)
    }
}

/// A heartbeat.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pub(super) worker: WorkerId,
    pub(super) presence_for: Duration,
    pub(super) tokens: Vec<LeaseToken>,
}

pub(super) type EnqueueCall = Call<Vec<NewJob>, Vec<Enqueued>>;
pub(super) type BeginCall = Call<Vec<LeaseToken>, Vec<bool>>;
pub(super) type RenewCall = Call<Heartbeat, Vec<Renewal>>;
pub(super) type SettleCall = Call<Vec<Settlement>, Vec<Settled>>;

/// A request for work, which may wait.
#[derive(Debug)]
pub(super) struct LeaseCall {
    now: Timestamp,
    arrived: Instant,
    pub(super) until: Instant,
    pub(super) request: LeaseRequest,
    pub(super) leased: Vec<LeasedJob>,
    /// How much payload those are.
    pub(super) bytes: usize,
    /// Whether the store was looked into for it.
    pub(super) looked: bool,
    /// Whether it has waited.
    pub(super) waited: bool,
    /// Its place among those who wait, once it has one.
    pub(super) number: Option<u64>,
    reply: Reply<Vec<LeasedJob>>,
}

impl LeaseCall {
    pub(super) fn new(now: Timestamp, request: LeaseRequest) -> (LeaseCall, Answered<Vec<LeasedJob>>) {
        let (reply, answer) = oneshot::channel();
        let arrived = Instant::now();
        let until = arrived + request.wait.min(Duration::from_hours(1));
        (
            LeaseCall {
                now,
                arrived,
                until,
                request,
                leased: Vec::new(),
                bytes: 0,
                looked: false,
                waited: false,
                number: None,
                reply,
            },
            answer,
        )
    }

    /// From here on it waits.
    pub(super) fn waits(self) -> LeaseCall {
        LeaseCall { waited: true, ..self }
    }

    /// The caller's own clock. For one that has waited, the whole milliseconds that passed are added: not a part of one, so
    /// that nothing is due too early.
    pub(super) fn callers_now(&self) -> Timestamp {
        let waited = if self.waited { self.arrived.elapsed().as_millis() } else { 0 };
        Timestamp::from_millis(self.now.millis().saturating_add(i64::try_from(waited).unwrap_or(i64::MAX)))
    }

    pub(super) fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// How many more it takes.
    pub(super) fn room(&self) -> usize {
        if self.bytes >= MOST_LEASED_BYTES { 0 } else { self.request.max.saturating_sub(self.leased.len()) }
    }

    /// Tells the worker. When it went away between asking and getting, there is something to give back.
    pub(super) fn answer(self, outcome: Result<(), StoreError>) -> Option<Op> {
        let now = self.callers_now();
        match self.reply.send(outcome.map(|()| self.leased)) {
            Err(Ok(leased)) if !leased.is_empty() => Some(give_back(now, &leased)),
            _ => None,
        }
    }
}

/// A verb that shares its transaction with others.
#[derive(Debug)]
pub(super) enum Op {
    Enqueue(EnqueueCall),
    Lease(LeaseCall),
    Begin(BeginCall),
    Renew(RenewCall),
    Settle(SettleCall),
    Take(TakeCall),
    Word(WordCall),
}

impl Op {
    pub(super) fn answer(self, outcome: Result<(), StoreError>) -> Option<Op> {
        match self {
            Op::Enqueue(call) => call.answer(outcome),
            Op::Lease(call) => return call.answer(outcome),
            Op::Begin(call) => call.answer(outcome),
            Op::Renew(call) => call.answer(outcome),
            Op::Settle(call) => call.answer(outcome),
            Op::Take(call) => {
                let now = call.now;
                return call.deliver(outcome).and_then(|met| untake(now, &met));
            }
            Op::Word(call) => call.answer(outcome),
        }
        None
    }
}

/// Gives everything back, uncounted.
fn give_back(now: Timestamp, leased: &[LeasedJob]) -> Op {
    let released = |leased: &LeasedJob| Settlement {
        token: leased.token,
        ending: Ending::Released { why: "the worker went away before it began".to_owned() },
    };
    let (call, _) = Call::new(now, leased.iter().map(released).collect());
    Op::Settle(call)
}

/// Frees a key that was taken for somebody who has gone: its request was not run. One of which nobody knew the outcome before stays as it
/// is, and is found to be silent.
fn untake(now: Timestamp, met: &Met) -> Option<Op> {
    let Met::Claimed(Claimed::Taken { hold, again: false }) = met else { return None };
    let (call, _) = Call::new(now, Arc::new(Word { hold: *hold, wish: Wish::Release { why: None } }));
    Some(Op::Word(call))
}

/// Waits for a key. Whoever drops it in the moment between its being taken and being told of it frees it, too.
pub(super) struct TakeAnswer<'a> {
    desk: &'a Handle,
    now: Timestamp,
    answer: Answered<Met>,
}

impl<'a> TakeAnswer<'a> {
    pub(super) fn new(desk: &'a Handle, now: Timestamp, answer: Answered<Met>) -> TakeAnswer<'a> {
        TakeAnswer { desk, now, answer }
    }
}

impl Future for TakeAnswer<'_> {
    type Output = Result<Met, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| Err(Trouble::Closed.into())))
    }
}

impl Drop for TakeAnswer<'_> {
    fn drop(&mut self) {
        // From here on nothing more is sent; what was sent is here.
        self.answer.close();
        if let Ok(Ok(met)) = self.answer.try_recv()
            && let Some(untake) = untake(self.now, &met)
        {
            self.desk.submit(untake);
        }
    }
}

/// Waits for leases. Whoever drops it in the moment between their being sent and being taken gives them back, too.
pub(super) struct LeaseAnswer<'a> {
    desk: &'a Handle,
    now: Timestamp,
    answer: Answered<Vec<LeasedJob>>,
}

impl<'a> LeaseAnswer<'a> {
    pub(super) fn new(desk: &'a Handle, now: Timestamp, answer: Answered<Vec<LeasedJob>>) -> LeaseAnswer<'a> {
        LeaseAnswer { desk, now, answer }
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
        // From here on nothing more is sent; what was sent is here.
        self.answer.close();
        if let Ok(Ok(leased)) = self.answer.try_recv()
            && !leased.is_empty()
        {
            self.desk.submit(give_back(self.now, &leased));
        }
    }
}
