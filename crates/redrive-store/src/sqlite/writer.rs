//! The one thread that writes. Callers hand it operations; it takes all that wait, applies them in one transaction, and
//! answers them after the commit is on the disk. That is where the speed comes from.
//!
//! A request for work that finds nothing is parked here and tried again at the end of the very transaction in which
//! something becomes ready, so a job is on its way to a worker with the commit that made it durable.
//!
//! One caller's trouble is its own: when a transaction fails, its operations are tried again one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::batch::{Batch, Memory};
use super::checkpoint::Checkpoints;
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

    /// Whether there is certainly nothing to do, without looking into the database.
    fn certainly_idle(&self, _: &Memory, _: Instant) -> bool {
        false
    }

    /// When there may be something to do, as far as is known.
    fn due(&self, _: &Memory) -> Option<Instant> {
        None
    }
}

enum Message {
    Do(Box<dyn Operation>),
    Stop,
}

/// The handle to the writing thread.
pub(super) struct Writer {
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
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
        let counted = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("redrive-writer".to_owned()).spawn(move || {
            let statements = Statements::new(&connection, &keeper);
            let desk = Desk {
                statements: &statements,
                file,
                memory: Memory::default(),
                data_version: None,
                parked: Vec::new(),
                likely: 0,
                receiver,
                waiting: counted,
                broken: None,
                checkpoints,
                reserve,
            };
            desk.run();
            drop(statements);
            if let Err((_, error)) = connection.close() {
                tracing::warn!(%error, "the store was not closed cleanly");
            }
        })?;
        Ok(Writer { sender, waiting, thread: std::sync::Mutex::new(Some(thread)) })
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

/// What the writing thread has before it.
struct Desk<'s, 'c> {
    statements: &'s Statements<'c>,
    file: StoreFile,
    memory: Memory,
    data_version: Option<i64>,
    parked: Vec<Box<dyn Operation>>,
    /// How many operations the answers given just now are likely to bring.
    likely: usize,
    receiver: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
    broken: Option<StoreError>,
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
            self.dismiss_the_impatient(&mut leftovers);
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
        let soonest = self.parked.iter().filter_map(|operation| {
            let due = operation.due(&self.memory);
            operation.patience().into_iter().chain(due).min()
        });
        let until = soonest.chain([now + LOOK_EVERY]).min().unwrap_or(now);
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
            arrived.iter().chain(&self.parked).any(|operation| operation.patience().is_some());
        if somebody_waits && self.others_wrote() {
            self.memory.others_wrote();
        }
        let mut group = Vec::with_capacity(arrived.len());
        for operation in arrived {
            if operation.certainly_idle(&self.memory, now) {
                self.parked.push(operation);
            } else {
                group.push(operation);
            }
        }
        let awake = self.parked.iter().any(|operation| !operation.certainly_idle(&self.memory, now));
        if group.is_empty() && !awake {
            return;
        }
        if self.broken.is_none()
            && let Some(error) = self.checkpoints.failure()
        {
            tracing::error!(%error, "the store writes no more");
            self.broken = Some(error.clone());
        }
        if let Some(broken) = &self.broken {
            let broken = broken.clone();
            for operation in group.into_iter().chain(self.parked.drain(..)) {
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

    /// One transaction over the group and, at its end, over what is parked. Answers which of them are done; parked
    /// ones come last.
    fn transact(&mut self, group: &mut [Box<dyn Operation>]) -> Result<Vec<bool>, StoreError> {
        let result = self.attempt(group);
        if result.is_err() {
            self.memory.forget();
            for operation in group.iter_mut().chain(&mut self.parked) {
                operation.undo();
            }
            let connection = self.statements.connection();
            if !connection.is_autocommit()
                && let Err(error) = connection.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "a transaction could not be rolled back");
            }
        }
        result
    }

    fn attempt(&mut self, group: &mut [Box<dyn Operation>]) -> Result<Vec<bool>, StoreError> {
        self.file.is_still_there()?;
        self.statements.get("BEGIN IMMEDIATE")?.execute([])?;
        if self.others_wrote() {
            self.memory.others_wrote();
        }
        let mut batch = Batch::begin(self.statements, &mut self.memory)?;
        let mut done = Vec::with_capacity(group.len() + self.parked.len());
        for operation in group.iter_mut() {
            done.push(operation.apply(&mut batch)? == Step::Done);
        }
        for lane in std::mem::take(&mut batch.readied) {
            batch.memory.idle.remove(&lane);
        }
        let now = Instant::now();
        // Those that arrived before what they wait for, in this very group, get it now; those parked before come first.
        for operation in &mut self.parked {
            let idle = operation.abandoned() || operation.certainly_idle(batch.memory, now);
            done.push(!idle && operation.apply(&mut batch)? == Step::Done);
        }
        for (at, operation) in group.iter_mut().enumerate() {
            if !done[at] && !operation.abandoned() && !operation.certainly_idle(batch.memory, now) {
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
        done: Vec<bool>,
        leftovers: &mut VecDeque<Box<dyn Operation>>,
    ) {
        let parked = std::mem::take(&mut self.parked);
        let arrived = group.len();
        let mut all = group.into_iter().chain(parked).zip(done).enumerate();
        let mut waiting: (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for (at, (operation, done)) in all.by_ref() {
            if done {
                self.likely += operation.brings();
                leftovers.extend(operation.answer(Ok(())));
            } else if at < arrived {
                waiting.1.push(operation);
            } else {
                waiting.0.push(operation);
            }
        }
        self.parked = waiting.0;
        self.parked.extend(waiting.1);
    }

    /// A transaction failed. If it was one caller's doing, the others must not suffer.
    fn recover(
        &mut self,
        error: &StoreError,
        group: Vec<Box<dyn Operation>>,
        leftovers: &mut VecDeque<Box<dyn Operation>>,
    ) {
        match error.trouble() {
            Trouble::Broken(_) | Trouble::Corrupt(_) => {
                tracing::error!(%error, "the store writes no more");
                self.broken = Some(error.clone());
            }
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
            for operation in std::mem::take(&mut self.parked) {
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

    /// Those whose time is over get what there is: nothing.
    fn dismiss_the_impatient(&mut self, leftovers: &mut VecDeque<Box<dyn Operation>>) {
        let now = Instant::now();
        let is_over = |operation: &dyn Operation| {
            operation.abandoned() || operation.patience().is_none_or(|until| until <= now)
        };
        if self.parked.iter().any(|operation| is_over(&**operation)) {
            let (over, waiting) = std::mem::take(&mut self.parked)
                .into_iter()
                .partition::<Vec<_>, _>(|operation| is_over(&**operation));
            self.parked = waiting;
            for operation in over {
                leftovers.extend(operation.answer(Ok(())));
            }
        }
    }

    fn close(mut self, mut leftovers: VecDeque<Box<dyn Operation>>) {
        for operation in std::mem::take(&mut self.parked) {
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
