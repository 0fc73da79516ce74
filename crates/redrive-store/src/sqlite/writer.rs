//! The one thread that writes. Callers hand it operations; it takes all that wait, applies them in one transaction, and
//! answers them after the commit is on the disk. That is where the speed comes from.
//!
//! A request for work that finds nothing is parked here and tried again at the end of the very transaction in which
//! something becomes ready, so a job is on its way to a worker with the commit that made it durable.
//!
//! One caller's trouble is its own: when a transaction fails, its operations are tried again one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::batch::{Batch, Memory};
use super::checkpoint::Checkpoints;
use super::parked::{Interest, Parked, Waiting, Watch};
use super::reserve::Reserve;
use super::statements::Statements;
use super::store_file::StoreFile;
use crate::error::{StoreError, Trouble};
use crate::seal::Keeper;

/// The most operations in one transaction.
const MAX_GROUP: usize = 4_096;
/// The most operations that may wait; more are refused, so that memory stays bounded.
const MAX_WAITING: usize = 100_000;
/// The longest that a commit is held back for those who are likely to come: what a commit itself takes.
const LINGER: Duration = Duration::from_micros(300);
/// After so long without anything to do nobody is expected.
const PAUSE: Duration = Duration::from_millis(1);
/// For how many commits nobody is waited for after nobody came.
const NOT_AGAIN_FOR: u32 = 8;
/// How often another process's writes are looked for while somebody waits for them.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// How far an operation came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is done; the commit makes it so.
    Done,
    /// Nothing to do yet.
    Park,
}

/// One caller's wish.
pub(super) trait Operation: Send {
    /// Does it. Called again from the beginning when the transaction has to be repeated.
    fn apply(&mut self, batch: &mut Batch<'_, '_>) -> Result<Step, StoreError>;

    /// The transaction in which it was applied is undone: whatever it got there, it has not.
    fn undo(&mut self) {}

    /// Tells the caller. May leave something to be done because the caller is gone.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) -> Option<Box<dyn Operation>>;

    /// When it stops waiting.
    fn patience(&self) -> Option<Instant> {
        None
    }

    /// Whether it brings work in, which a full disk refuses first.
    fn adds_work(&self) -> bool {
        false
    }

    /// How many operations its answer is likely to bring in a moment.
    fn brings(&self) -> usize {
        0
    }

    /// Whether nobody waits for the answer any more.
    fn abandoned(&self) -> bool {
        false
    }

    /// What it waits for, if it is one that may wait.
    fn waits_for(&self) -> Option<Interest> {
        None
    }

    /// Where it would be seen that something has come; asked after it was applied in vain.
    fn watch(&self) -> Watch {
        Watch::Places { places: Vec::new(), lanes_seen: 0 }
    }

    /// From here on it waits.
    fn waits(&mut self) {}
}

enum Message {
    Do(Box<dyn Operation>),
    Stop,
}

/// The handle to the writing thread.
pub(super) struct Writer {
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    /// Whether it still writes: the first failed sync ends that (ADR 0015).
    writes: Arc<AtomicBool>,
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) counted: Arc<Counted>,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
}

/// How much the thread does, for tests that show how little that is.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// How often it looked around.
    pub(super) turns: AtomicU64,
    /// Transactions, empty ones included.
    pub(super) transactions: AtomicU64,
    /// How often something was looked for on behalf of one who waits.
    pub(super) looks: AtomicU64,
    /// How many wait.
    pub(super) parked: AtomicUsize,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        keeper: Arc<Keeper>,
        file: StoreFile,
        checkpoints: Checkpoints,
        reserve: Reserve,
    ) -> std::io::Result<Writer> {
        let (sender, receiver) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let still_waiting = Arc::clone(&waiting);
        let writes = Arc::new(AtomicBool::new(true));
        let still_writes = Arc::clone(&writes);
        let counted = Arc::new(Counted::default());
        let counts = Arc::clone(&counted);
        let thread = std::thread::Builder::new().name("redrive-writer".to_owned()).spawn(move || {
            let statements = Statements::new(&connection, &keeper);
            let desk = Desk {
                statements: &statements,
                file,
                memory: Memory::default(),
                data_version: None,
                parked: Parked::default(),
                likely: 0,
                receiver,
                waiting: still_waiting,
                counts,
                broken: None,
                writes: still_writes,
                checkpoints,
                reserve,
            };
            desk.run();
            drop(statements);
            if let Err((_, error)) = connection.close() {
                tracing::warn!(%error, "the store was not closed cleanly");
            }
        })?;
        Ok(Writer { sender, waiting, writes, counted, thread: std::sync::Mutex::new(Some(thread)) })
    }

    /// Whether it still writes.
    pub(super) fn writes(&self) -> bool {
        self.writes.load(Ordering::Relaxed)
    }

    /// Hands an operation over. When that cannot be done, the operation is answered at once.
    pub(super) fn submit(&self, operation: Box<dyn Operation>) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            operation.answer(Err(Trouble::Overloaded.into()));
            return;
        }
        if let Err(unsent) = self.sender.send(Message::Do(operation))
            && let Message::Do(operation) = unsent.0
        {
            operation.answer(Err(Trouble::Closed.into()));
        }
    }

    /// Finishes what waits, then ends the thread and closes the connection.
    pub(super) fn stop(&self) {
        // Unsent means that it has ended already.
        drop(self.sender.send(Message::Stop));
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the writing thread panicked");
        }
    }
}

/// Whether a commit is worth holding back for others.
#[derive(Default)]
struct Company {
    /// How many operations the answers after the last commit are likely to bring.
    answered: usize,
    /// For how many commits nobody is waited for, since nobody came.
    alone: u32,
}

/// What a transaction did.
struct Done {
    /// Whether each of the group is done.
    of_the_group: Vec<bool>,
    /// Those who waited, and got something.
    served: Vec<Waiting>,
}

/// What the writing thread has before it.
struct Desk<'s, 'c> {
    statements: &'s Statements<'c>,
    file: StoreFile,
    memory: Memory,
    data_version: Option<i64>,
    parked: Parked,
    /// How many operations the answers given just now are likely to bring.
    likely: usize,
    receiver: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
    counts: Arc<Counted>,
    broken: Option<StoreError>,
    writes: Arc<AtomicBool>,
    checkpoints: Checkpoints,
    reserve: Reserve,
}

impl Desk<'_, '_> {
    fn run(mut self) {
        let mut group: Vec<Box<dyn Operation>> = Vec::new();
        let mut leftovers: VecDeque<Box<dyn Operation>> = VecDeque::new();
        let mut company = Company::default();
        loop {
            let stopping = self.gather(leftovers.drain(..).collect(), &mut group, &mut company);
            self.waiting.fetch_sub(group.len().min(self.waiting.load(Ordering::Relaxed)), Ordering::Relaxed);
            self.likely = 0;
            self.serve(std::mem::take(&mut group), &mut leftovers);
            company.answered = self.likely;
            for operation in self.parked.walk(Instant::now()) {
                // Those whose time is over get what there is: nothing.
                leftovers.extend(operation.answer(Ok(())));
            }
            self.counts.turns.fetch_add(1, Ordering::Relaxed);
            self.counts.parked.store(self.parked.len(), Ordering::Relaxed);
            if stopping {
                self.close(leftovers);
                return;
            }
            self.checkpoints.tidy(self.statements.connection());
            self.reserve.look();
        }
    }

    /// Takes all that waits, or waits for something. Those who were just answered are likely to ask again in a moment, and one
    /// commit for everybody is worth a short wait; but somebody alone never waits, and where nobody came the last time,
    /// nobody is waited for. Answers whether it is time to stop.
    fn gather(
        &self,
        leftovers: Vec<Box<dyn Operation>>,
        group: &mut Vec<Box<dyn Operation>>,
        company: &mut Company,
    ) -> bool {
        group.extend(leftovers);
        if self.take_all(group) {
            return true;
        }
        let mut expected = group.len() + company.answered * 3 / 4;
        if group.is_empty() {
            let began = Instant::now();
            match self.next_message() {
                Some(Message::Do(operation)) => group.push(operation),
                Some(Message::Stop) => return true,
                None => return false,
            }
            // Whoever comes after a pause does not come because of our last answers.
            if began.elapsed() > PAUSE {
                expected = 0;
            }
        }
        if company.alone > 0 {
            company.alone -= 1;
            return self.take_all(group);
        }
        let began = Instant::now();
        let mut stop = self.take_all(group);
        while !stop && group.len() < expected.min(MAX_GROUP) {
            if began.elapsed() >= LINGER {
                company.alone = NOT_AGAIN_FOR;
                break;
            }
            std::thread::yield_now();
            stop = self.take_all(group);
        }
        stop
    }

    /// Takes what is there without waiting. Answers whether it is time to stop.
    fn take_all(&self, group: &mut Vec<Box<dyn Operation>>) -> bool {
        while group.len() < MAX_GROUP {
            match self.receiver.try_recv() {
                Ok(Message::Do(operation)) => group.push(operation),
                Ok(Message::Stop) => return true,
                Err(_) => break,
            }
        }
        false
    }

    /// The next message, or nothing when it is time to look around.
    fn next_message(&self) -> Option<Message> {
        if self.parked.is_empty() {
            // Everybody has let go of the store: that is the end, too.
            return Some(self.receiver.recv().unwrap_or(Message::Stop));
        }
        let now = Instant::now();
        let until = self.parked.next_turn(&self.memory).into_iter().chain([now + LOOK_EVERY]).min();
        let until = until.unwrap_or(now);
        match self.receiver.recv_timeout(until.saturating_duration_since(now)) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
        }
    }

    /// Applies a group of operations and what is parked, and answers them.
    fn serve(&mut self, arrived: Vec<Box<dyn Operation>>, leftovers: &mut VecDeque<Box<dyn Operation>>) {
        let now = Instant::now();
        // Whoever waits, or only looks, must not be told by what we remember from before somebody else wrote.
        let somebody_waits =
            !self.parked.is_empty() || arrived.iter().any(|operation| operation.patience().is_some());
        if somebody_waits && self.others_wrote() {
            self.memory.others_wrote();
        }
        let mut group = Vec::with_capacity(arrived.len());
        for operation in arrived {
            match operation.waits_for() {
                Some(interest) if self.parked.in_vain(&interest, &self.memory) => {
                    self.park(interest, None, operation, leftovers);
                }
                _ => group.push(operation),
            }
        }
        if group.is_empty() && !self.parked.is_anybody_awake(&self.memory, now) {
            return;
        }
        if self.broken.is_none()
            && let Some(error) = self.checkpoints.failure().cloned()
        {
            self.breaks(error);
        }
        if let Some(broken) = &self.broken {
            let broken = broken.clone();
            for operation in group.into_iter().chain(self.parked.drain()) {
                leftovers.extend(operation.answer(Err(broken.clone())));
            }
            return;
        }
        if self.reserve.is_given_up() {
            let (adding, rest) = group.into_iter().partition::<Vec<_>, _>(|operation| operation.adds_work());
            for operation in adding {
                leftovers.extend(operation.answer(Err(Trouble::Full.into())));
            }
            group = rest;
        }
        match self.transact(&mut group) {
            Ok(done) => self.answer(group, done, leftovers),
            Err(error) => self.recover(&error, group, leftovers),
        }
    }

    /// Waits from now on, unless its time is over already.
    fn park(
        &mut self,
        interest: Interest,
        watch: Option<Watch>,
        operation: Box<dyn Operation>,
        leftovers: &mut VecDeque<Box<dyn Operation>>,
    ) {
        if operation.abandoned() || operation.patience().is_none_or(|until| until <= Instant::now()) {
            leftovers.extend(operation.answer(Ok(())));
        } else {
            self.parked.push(interest, watch, operation);
        }
    }

    /// One transaction over the group and, at its end, over who waits.
    fn transact(&mut self, group: &mut [Box<dyn Operation>]) -> Result<Done, StoreError> {
        let mut served = Vec::new();
        let result = self.attempt(group, &mut served);
        self.counts.transactions.fetch_add(1, Ordering::Relaxed);
        if result.is_err() {
            self.memory.forget();
            self.parked.take_back(std::mem::take(&mut served));
            for operation in group.iter_mut() {
                operation.undo();
            }
            let connection = self.statements.connection();
            if !connection.is_autocommit()
                && let Err(error) = connection.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "a transaction could not be rolled back");
            }
        }
        result.map(|of_the_group| Done { of_the_group, served })
    }

    fn attempt(
        &mut self,
        group: &mut [Box<dyn Operation>],
        served: &mut Vec<Waiting>,
    ) -> Result<Vec<bool>, StoreError> {
        self.file.is_still_there()?;
        self.statements.get("BEGIN IMMEDIATE")?.execute([])?;
        if self.others_wrote() {
            self.memory.others_wrote();
        }
        let mut batch = Batch::begin(self.statements, &mut self.memory)?;
        let mut done = Vec::with_capacity(group.len());
        for operation in group.iter_mut() {
            done.push(operation.apply(&mut batch)? == Step::Done);
        }
        for lane in std::mem::take(&mut batch.readied) {
            batch.memory.idle.remove(&lane);
        }
        let now = Instant::now();
        // Those that arrived before what they wait for, in this very group, get it now; those parked before come first.
        let looks = self.parked.serve(&mut batch, now, served)?;
        self.counts.looks.fetch_add(looks, Ordering::Relaxed);
        for (at, operation) in group.iter_mut().enumerate() {
            if !done[at] && !operation.abandoned() && !operation.watch().is_idle(batch.memory, now) {
                done[at] = operation.apply(&mut batch)? == Step::Done;
            }
        }
        batch.finish()?;
        self.statements.get("COMMIT")?.execute([])?;
        Ok(done)
    }

    fn answer(
        &mut self,
        group: Vec<Box<dyn Operation>>,
        done: Done,
        leftovers: &mut VecDeque<Box<dyn Operation>>,
    ) {
        let mut waiting = Vec::new();
        let served = done.served.into_iter().map(|waiting| (waiting.operation, true));
        for (operation, done) in group.into_iter().zip(done.of_the_group).chain(served) {
            if done {
                self.likely += operation.brings();
                leftovers.extend(operation.answer(Ok(())));
            } else {
                waiting.push(operation);
            }
        }
        for operation in waiting {
            match operation.waits_for() {
                Some(interest) => self.park(interest, Some(operation.watch()), operation, leftovers),
                None => leftovers.extend(operation.answer(Ok(()))),
            }
        }
    }

    /// From here on nothing is written: a sync that is tried again may lie.
    fn breaks(&mut self, error: StoreError) {
        tracing::error!(%error, "the store writes no more");
        self.writes.store(false, Ordering::Relaxed);
        self.broken = Some(error);
    }

    /// A transaction failed. If it was one caller's doing, the others must not suffer.
    fn recover(
        &mut self,
        error: &StoreError,
        group: Vec<Box<dyn Operation>>,
        leftovers: &mut VecDeque<Box<dyn Operation>>,
    ) {
        match error.trouble() {
            Trouble::Broken(_) | Trouble::Corrupt(_) => self.breaks(error.clone()),
            Trouble::Busy { .. } | Trouble::ReadOnly(_) => {}
            // What ends work gets the room that was kept for it; what brings work in waits until there is more.
            Trouble::Full if self.reserve.give_up() => {
                tracing::warn!("the disk is full: no new work is taken, what is under way goes on");
                self.serve(group, leftovers);
                return;
            }
            _ if group.len() > 1 => {
                for operation in group {
                    let mut alone = vec![operation];
                    match self.transact(&mut alone) {
                        Ok(done) => self.answer(alone, done, leftovers),
                        Err(error) => {
                            for operation in alone {
                                leftovers.extend(operation.answer(Err(error.clone())));
                            }
                        }
                    }
                }
                return;
            }
            _ => {}
        }
        for operation in group {
            leftovers.extend(operation.answer(Err(error.clone())));
        }
        // Who waits for work need not hear of every bad moment; but nobody waits for ever at a store that is gone.
        if self.broken.is_some() {
            for operation in self.parked.drain() {
                leftovers.extend(operation.answer(Err(error.clone())));
            }
        }
    }

    /// Whether another connection has committed since we last looked.
    fn others_wrote(&mut self) -> bool {
        let read = || -> Result<i64, StoreError> {
            Ok(self.statements.get("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
        };
        let version = read().ok();
        let changed = version.is_none() || version != self.data_version;
        self.data_version = version;
        changed
    }

    fn close(mut self, mut leftovers: VecDeque<Box<dyn Operation>>) {
        for operation in self.parked.drain() {
            leftovers.extend(operation.answer(Ok(())));
        }
        let mut rest = VecDeque::new();
        self.serve(leftovers.into_iter().collect(), &mut rest);
        while let Ok(Message::Do(operation)) = self.receiver.try_recv() {
            operation.answer(Err(Trouble::Closed.into()));
        }
        self.checkpoints.stop();
    }
}
