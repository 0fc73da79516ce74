//! A claim on its way to the writer. Whoever goes away before hearing that the key is theirs runs nothing, so the key is free again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::batch::Batch;
use super::idempotency::{release, take};
use super::operation::call;
use super::writer::{Operation, Step, Writer};
use crate::error::{StoreError, Trouble};
use crate::idempotency::{Claimed, KeyClaim};
use crate::time::Timestamp;

type Answered = oneshot::Receiver<Result<Claimed, StoreError>>;

struct ClaimCall {
    now: Timestamp,
    claim: Arc<KeyClaim>,
    claimed: Option<Claimed>,
    reply: oneshot::Sender<Result<Claimed, StoreError>>,
}

impl Operation for ClaimCall {
    fn apply(&mut self, batch: &mut Batch<'_, '_>) -> Result<Step, StoreError> {
        self.claimed = None;
        if !self.reply.is_closed() {
            self.claimed = Some(take(batch, self.now, &self.claim)?);
        }
        Ok(Step::Done)
    }

    fn undo(&mut self) {
        self.claimed = None;
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) -> Option<Box<dyn Operation>> {
        let ClaimCall { now, claimed, reply, .. } = *self;
        let claimed = outcome.and_then(|()| claimed.ok_or_else(|| Trouble::Closed.into()));
        match reply.send(claimed) {
            Err(Ok(unheard)) => free(now, &unheard),
            Ok(()) | Err(Err(_)) => None,
        }
    }

    fn adds_work(&self) -> bool {
        true
    }

    fn brings(&self) -> usize {
        // The answer.
        1
    }
}

/// Makes a key free that nobody knows to be theirs. One whose earlier try ended nobody knows how stays as it is, until its time
/// is over: that nothing was run now says nothing of then.
fn free(now: Timestamp, unheard: &Claimed) -> Option<Box<dyn Operation>> {
    let Claimed::Taken { hold, again: false } = *unheard else { return None };
    Some(call(false, move |batch| release(batch, now, hold, None)).0)
}

/// Waits for the answer. Whoever drops it in the moment between its being sent and being taken frees the key, too.
pub(super) struct ClaimAnswer<'a> {
    writer: &'a Writer,
    now: Timestamp,
    answer: Answered,
}

impl<'a> ClaimAnswer<'a> {
    pub(super) fn submitted(writer: &'a Writer, now: Timestamp, claim: Arc<KeyClaim>) -> ClaimAnswer<'a> {
        let (reply, answer) = oneshot::channel();
        writer.submit(Box::new(ClaimCall { now, claim, claimed: None, reply }));
        ClaimAnswer { writer, now, answer }
    }
}

impl Future for ClaimAnswer<'_> {
    type Output = Result<Claimed, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| Err(Trouble::Closed.into())))
    }
}

impl Drop for ClaimAnswer<'_> {
    fn drop(&mut self) {
        // From here on the writer cannot send any more; what it has sent is here.
        self.answer.close();
        if let Ok(Ok(unheard)) = self.answer.try_recv()
            && let Some(free) = free(self.now, &unheard)
        {
            self.writer.submit(free);
        }
    }
}
