//! Many callers' verbs in one transaction: first everything that must be read or taken, in one breath; then everything that
//! follows from it, with the commit, in another.

use futures_util::future::{join, join5};

use super::desk::Room;
use super::enqueue::{self, Claims};
use super::fault::Fault;
use super::key_take::{self, TakeCall, WordCall};
use super::line::Line;
use super::memory::{self, learn_lanes};
use super::operation::{BeginCall, EnqueueCall, LeaseCall, Op, RenewCall, SettleCall};
use super::parked::Interest;
use super::settle;
use super::take::{self, Taken};
use super::tx::{Isolation, Tx};
use crate::time::Timestamp;

/// What goes into one transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) enqueues: Vec<EnqueueCall>,
    pub(super) leases: Vec<LeaseCall>,
    pub(super) begins: Vec<BeginCall>,
    pub(super) renews: Vec<RenewCall>,
    pub(super) settles: Vec<SettleCall>,
    pub(super) takes: Vec<TakeCall>,
    pub(super) words: Vec<WordCall>,
    /// Those who wait for whom the store is looked into.
    pub(super) looking: Vec<Interest>,
    /// What had been heard by then.
    pub(super) heard: u64,
}

/// What the desk has to know about a group that was committed.
#[derive(Debug)]
pub(super) struct Committed {
    /// The clock that decided.
    pub(super) now: Timestamp,
    /// When the first of the jobs that were made ready is due.
    pub(super) soonest: Option<Timestamp>,
    /// The same for the last of them.
    pub(super) latest: Option<Timestamp>,
    /// Lanes in which nothing more is due.
    pub(super) idle: Vec<i64>,
}

/// How a transaction failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// The transaction's number, if its commit may have happened all the same.
    pub(super) maybe: Option<i64>,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed { fault, maybe: None }
    }
}

impl Group {
    pub(super) fn push(&mut self, op: Op) {
        match op {
            Op::Enqueue(call) => self.enqueues.push(call),
            Op::Lease(call) => self.leases.push(call),
            Op::Begin(call) => self.begins.push(call),
            Op::Renew(call) => self.renews.push(call),
            Op::Settle(call) => self.settles.push(call),
            Op::Take(call) => self.takes.push(call),
            Op::Word(call) => self.words.push(call),
        }
    }

    pub(super) fn len(&self) -> usize {
        let jobs = self.enqueues.len() + self.leases.len() + self.begins.len() + self.renews.len();
        jobs + self.settles.len() + self.takes.len() + self.words.len()
    }

    /// How much it is going to write, roughly.
    pub(super) fn weight(&self) -> usize {
        let jobs: usize = self.enqueues.iter().map(|call| call.ask.len()).sum();
        let settled: usize = self.settles.iter().map(|call| call.ask.len()).sum();
        let answers: usize = self.words.iter().map(|call| call.ask.weight()).sum();
        let wanted: usize = self.leases.iter().map(|call| call.request.max).sum();
        jobs + settled + answers + wanted + self.len()
    }

    /// Everything in it, one by one.
    pub(super) fn into_ops(self) -> impl Iterator<Item = Op> {
        let enqueues = self.enqueues.into_iter().map(Op::Enqueue);
        let settles = self.settles.into_iter().map(Op::Settle);
        let begins = self.begins.into_iter().map(Op::Begin);
        let renews = self.renews.into_iter().map(Op::Renew);
        let keys = self.takes.into_iter().map(Op::Take).chain(self.words.into_iter().map(Op::Word));
        enqueues
            .chain(settles)
            .chain(begins)
            .chain(renews)
            .chain(keys)
            .chain(self.leases.into_iter().map(Op::Lease))
    }

    /// Nothing has come of it so far.
    fn forget(&mut self) {
        for call in &mut self.leases {
            call.leased.clear();
            call.bytes = 0;
        }
    }

    /// Does everything and commits. What came of it is in the calls.
    pub(super) async fn run(
        &mut self,
        room: &Room,
        line: &Line,
        operation: &str,
    ) -> Result<Committed, Failed> {
        self.forget();
        let needs = enqueue::needs(enqueue::jobs(&self.enqueues));
        let lacking = room.memory.borrow().lacks(needs.chain(key_take::needs(&self.takes, &self.words)));
        memory::learn(line, &room.memory, &lacking).await?;
        // Whoever does not wait gets no second look, so it looks into lanes that others have just made, too.
        let impatient = self.leases.iter().any(|call| call.request.wait.is_zero());
        if (room.lanes_are_stale.replace(false) || impatient)
            && let Err(fault) = learn_lanes(line, &room.memory).await
        {
            room.lanes_are_stale.set(true);
            return Err(fault.into());
        }
        let reads = async {
            join(
                take::renew(line, room.clock, &self.renews),
                join5(
                    settle::fetch(line, &self.settles),
                    take::read_begins(line, &self.begins),
                    take::take(line, &room.memory, room.clock, &self.leases),
                    enqueue::claim(line, &room.memory, enqueue::jobs(&self.enqueues)),
                    // Last, since here one waits for others: whoever comes this far waits for nobody who waits for it.
                    Box::pin(key_take::fetch(line, room.clock, &self.takes, &self.words)),
                ),
            )
            .await
        };
        let begun =
            Box::pin(Tx::begin(line, &room.memory, &room.keeper, room.clock, Isolation::Taking, reads)).await;
        let (mut tx, (renewed, (held, begins, taken, claims, keys))) = begun?;
        // The first in the order in which they went out says what is wrong.
        let read = (|| Ok((renewed?, held?, begins?, taken?, claims?, keys?)))();
        let applied = match read {
            Err(fault) => Err(fault),
            Ok((renewed, held, begins, taken, mut claims, keys)) => {
                let read = Read { renewed, held, begins, taken: &taken, claims: &mut claims, keys };
                self.apply(&mut tx, read).await.map(|()| taken)
            }
        };
        let taken = match applied {
            Ok(taken) => taken,
            Err(fault) => {
                tx.abandon().await;
                return Err(fault.into());
            }
        };
        let (now, number) = (tx.now_of_database(), tx.number());
        let (soonest, latest) = (tx.batch.soonest, tx.batch.latest);
        let idle = taken.iter().flat_map(|taken| taken.idle.iter().copied()).collect();
        match tx.commit(operation).await {
            Ok(()) => Ok(Committed { now, soonest, latest, idle }),
            Err(fault @ Fault::Lost(_)) => Err(Failed { fault, maybe: Some(number) }),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn apply(&mut self, tx: &mut Tx<'_>, read: Read<'_>) -> Result<(), Fault> {
        // The first numbers of the transaction are those of new keys.
        tx.batch.give_away(read.keys.numbers());
        take::renewed(&read.renewed, &mut self.renews)?;
        take::begin(tx, &read.begins, &mut self.begins)?;
        settle::apply(tx, &read.held, &mut self.settles).await?;
        take::hand_out(tx, read.taken, &mut self.leases).await?;
        let mut fresh = Vec::new();
        let wanted = self.leases.iter().any(|call| call.room() > 0);
        enqueue::apply(tx, read.claims, &mut self.enqueues, wanted, &mut fresh)?;
        take::hand_over(tx, fresh, &mut self.leases)?;
        key_take::apply(tx, read.keys, &mut self.takes, &mut self.words)
    }
}

/// What was read and taken.
struct Read<'a> {
    renewed: Vec<tokio_postgres::Row>,
    held: Vec<tokio_postgres::Row>,
    begins: Vec<tokio_postgres::Row>,
    taken: &'a [Taken],
    claims: &'a mut Claims,
    keys: key_take::Fetched,
}
