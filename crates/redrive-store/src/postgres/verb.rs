//! What callers hand over: verbs that write in a transaction of their own, and questions that only read.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::oneshot;

use super::fault::Fault;
use super::line::Line;
use super::memory::{Memory, Need};
use super::tx::{Isolation, Tx};
use crate::error::{StoreError, Trouble};
use crate::seal::Seals;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;
pub(super) type Answered<T> = oneshot::Receiver<Result<T, StoreError>>;
type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A write in a transaction of its own, which reads one moment of the store unless it says otherwise.
pub(super) trait Verb: Send + 'static {
    type Answer: Send + 'static;

    /// What must have a number before the transaction begins.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// How sure its reads are.
    fn isolation(&self) -> Isolation {
        Isolation::Moment
    }

    /// Does it. Called again from the beginning when the transaction has to be repeated.
    async fn run(&self, tx: &mut Tx<'_>) -> Result<Self::Answer, Fault>;
}

/// A look at one moment of the store.
pub(super) trait Question: Send + 'static {
    type Answer: Send + 'static;

    /// How long each of its statements may take: filters may have to look at much.
    fn may_take(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn ask(&self, line: &Line, memory: &RefCell<Memory>, seals: &Seals) -> Result<Self::Answer, Fault>;
}

/// A verb without its types.
pub(super) trait AnyVerb: Send {
    fn needs(&self) -> Vec<Need>;
    fn isolation(&self) -> Isolation;
    fn run<'a>(&'a mut self, tx: &'a mut Tx<'_>) -> Local<'a, Result<(), Fault>>;
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A question without its types.
pub(super) trait AnyQuestion: Send {
    fn ask<'a>(
        &'a mut self,
        line: &'a Line,
        memory: &'a RefCell<Memory>,
        seals: &'a Seals,
    ) -> Local<'a, Result<(), Fault>>;
    fn may_take(&self) -> Duration;
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
    fn abandoned(&self) -> bool;
}

struct Asked<V, T> {
    what: V,
    result: Option<T>,
    reply: Reply<T>,
}

impl<V, T> Asked<V, T> {
    fn tell(self, outcome: Result<(), StoreError>) {
        let result = outcome.and_then(|()| self.result.ok_or_else(|| Trouble::Closed.into()));
        // Whoever does not wait for the answer does not need it: what was written stands.
        drop(self.reply.send(result));
    }
}

impl<V: Verb> AnyVerb for Asked<V, V::Answer> {
    fn needs(&self) -> Vec<Need> {
        self.what.needs()
    }

    fn isolation(&self) -> Isolation {
        self.what.isolation()
    }

    fn run<'a>(&'a mut self, tx: &'a mut Tx<'_>) -> Local<'a, Result<(), Fault>> {
        Box::pin(async {
            self.result = Some(self.what.run(tx).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        self.tell(outcome);
    }
}

impl<Q: Question> AnyQuestion for Asked<Q, Q::Answer> {
    fn ask<'a>(
        &'a mut self,
        line: &'a Line,
        memory: &'a RefCell<Memory>,
        seals: &'a Seals,
    ) -> Local<'a, Result<(), Fault>> {
        Box::pin(async {
            self.result = Some(self.what.ask(line, memory, seals).await?);
            Ok(())
        })
    }

    fn may_take(&self) -> Duration {
        self.what.may_take()
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        self.tell(outcome);
    }

    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// A verb and where its answer comes.
pub(super) fn verb<V: Verb>(what: V) -> (Box<dyn AnyVerb>, Answered<V::Answer>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Asked { what, result: None, reply }), answer)
}

/// A question and where its answer comes.
pub(super) fn question<Q: Question>(what: Q) -> (Box<dyn AnyQuestion>, Answered<Q::Answer>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Asked { what, result: None, reply }), answer)
}
