//! The thread that talks to the database: it gathers callers' verbs into transactions and answers them after the commit.
//!
//! A request for work that finds nothing waits here. A job that is enqueued meanwhile is handed to it in the very
//! transaction that makes it durable; what others enqueue is heard of by `NOTIFY`, and found by looking every so often.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;

use super::fault::Fault;
use super::group::{Committed, Failed, Group};
use super::housekeeping::{Fold, Folded};
use super::line::{Line, args, column};
use super::memory::{EVENT_TYPES, Memory, Need, learn, learn_lanes};
use super::migrate;
use super::open::Address;
use super::operation::{LeaseCall, Op};
use super::patience::Patience;
use super::pool::Pool;
use super::take;
use super::texts::{Texts, sql};
use super::tx::{Clock, Isolation, Tx, seals};
use super::verb::{AnyQuestion, AnyVerb};
use crate::error::{StoreError, Trouble};
use crate::id::WorkerId;
use crate::seal::{Keeper, KeyRing};

/// The most rows that one transaction should write.
const MAX_WEIGHT: usize = 8_192;
/// The most verbs that may wait; more are refused, so that memory stays bounded.
const MAX_WAITING: usize = 100_000;
/// How many groups may be under way at once.
const WRITERS: usize = 2;

pub(super) enum Message {
    Hot(Op),
    Verb(Box<dyn AnyVerb>),
    Ask(Box<dyn AnyQuestion>),
    Pause(Duration, oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

/// What the store was opened with.
pub(super) struct Opening {
    pub(super) address: Address,
    pub(super) create: bool,
    pub(super) clock: Clock,
    pub(super) connections: usize,
    pub(super) keys: Option<KeyRing>,
}

/// The way to the thread.
pub(super) struct Handle {
    sender: mpsc::UnboundedSender<Message>,
    waiting: Arc<AtomicUsize>,
    workers: Workers,
}

/// The workers of this process.
pub(super) type Workers = Arc<Mutex<HashSet<WorkerId>>>;

impl Handle {
    /// Starts the thread, which opens the store; answers the store's own number.
    pub(super) async fn open(opening: Opening) -> Result<(Handle, i64), StoreError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (opened, told) = oneshot::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let workers = Workers::default();
        let shared = Shared { waiting: Arc::clone(&waiting), workers: Arc::clone(&workers) };
        let no_thread = |error: std::io::Error| StoreError::from(Trouble::Database(error.to_string()));
        std::thread::Builder::new()
            .name("redrive-postgres".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                match runtime {
                    Ok(runtime) => {
                        LocalSet::new().block_on(&runtime, serve(opening, receiver, shared, opened));
                    }
                    Err(error) => drop(opened.send(Err(no_thread(error)))),
                }
            })
            .map_err(no_thread)?;
        let store_id = told.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))?;
        Ok((Handle { sender, waiting, workers }, store_id))
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, HashSet<WorkerId>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker of this process has come.
    pub(super) fn came(&self, worker: WorkerId) {
        self.workers().insert(worker);
    }

    /// A worker of this process goes.
    pub(super) fn went(&self, worker: WorkerId) {
        self.workers().remove(&worker);
    }

    /// Hands a hot verb over. When that cannot be done, it is answered at once.
    pub(super) fn submit(&self, op: Op) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            op.answer(Err(Trouble::Overloaded.into()));
            return;
        }
        if let Err(unsent) = self.sender.send(Message::Hot(op))
            && let Message::Hot(op) = unsent.0
        {
            op.answer(Err(Trouble::Closed.into()));
        }
    }

    pub(super) fn verb(&self, verb: Box<dyn AnyVerb>) {
        // Unsent, it is dropped, and its caller hears that the store is closed.
        drop(self.sender.send(Message::Verb(verb)));
    }

    pub(super) fn ask(&self, question: Box<dyn AnyQuestion>) {
        drop(self.sender.send(Message::Ask(question)));
    }

    /// Waits for so long, or until the store is closed. The thread has a clock, whoever calls may have none.
    pub(super) async fn pause(&self, wait: Duration) {
        let (over, told) = oneshot::channel();
        if self.sender.send(Message::Pause(wait, over)).is_ok() {
            // Dropped unsent when the store is closed meanwhile.
            drop(told.await);
        }
    }

    /// Finishes what waits, then ends the thread.
    pub(super) async fn close(&self) {
        let (closed, told) = oneshot::channel();
        if self.sender.send(Message::Close(closed)).is_ok() {
            // Dropped unsent when the thread has ended already, which is the same.
            drop(told.await);
        }
    }
}

/// What the thread shares with its handle.
struct Shared {
    waiting: Arc<AtomicUsize>,
    workers: Workers,
}

/// What everybody on the thread shares.
pub(super) struct Room {
    pub(super) memory: Rc<RefCell<Memory>>,
    pub(super) keeper: Keeper,
    pub(super) clock: Clock,
    /// Others may have made lanes that we do not know.
    pub(super) lanes_are_stale: Cell<bool>,
    pub(super) pool: Pool,
    pub(super) store_id: i64,
    hot: RefCell<VecDeque<Op>>,
    pub(super) parked: RefCell<Vec<LeaseCall>>,
    /// Lanes in which nothing was due when we looked, and of which nothing was heard since.
    idle: RefCell<HashSet<i64>>,
    pub(super) next_due: Cell<Option<Instant>>,
    wake_writer: Notify,
    pub(super) wake_watch: Notify,
    pub(super) wake_herald: Notify,
    /// Something became ready that other processes should hear of.
    pub(super) news: Cell<bool>,
    /// Whether other processes have workers, as far as we know.
    pub(super) has_company: Cell<bool>,
    /// Whether counters were changed since they were added up.
    pub(super) to_fold: Cell<bool>,
    busy: Cell<usize>,
    done: Notify,
    closing: Cell<bool>,
    waiting: Arc<AtomicUsize>,
    workers: Workers,
}

async fn serve(
    opening: Opening,
    mut receiver: mpsc::UnboundedReceiver<Message>,
    shared: Shared,
    opened: oneshot::Sender<Result<i64, StoreError>>,
) {
    let room = match open(opening, shared).await {
        Ok(room) => Rc::new(room),
        Err(error) => {
            drop(opened.send(Err(error)));
            return;
        }
    };
    if opened.send(Ok(room.store_id)).is_err() {
        return;
    }
    for _ in 0..WRITERS {
        tokio::task::spawn_local(Rc::clone(&room).write());
    }
    tokio::task::spawn_local(super::watch::watch(Rc::clone(&room)));
    tokio::task::spawn_local(super::watch::herald(Rc::clone(&room)));
    tokio::task::spawn_local(super::watch::fold(Rc::clone(&room)));
    let mut closed = None;
    while let Some(message) = receiver.recv().await {
        match message {
            Message::Hot(op) => {
                room.hot.borrow_mut().push_back(op);
                room.wake_writer.notify_one();
            }
            Message::Verb(verb) => {
                tokio::task::spawn_local(Rc::clone(&room).carry_out(verb));
            }
            Message::Ask(question) => {
                tokio::task::spawn_local(Rc::clone(&room).look_up(question));
            }
            Message::Pause(wait, over) => {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(wait).await;
                    drop(over);
                });
            }
            Message::Close(told) => {
                closed = Some(told);
                break;
            }
        }
    }
    // What came before us is finished; what comes now finds nobody.
    receiver.close();
    room.close().await;
    if let Some(told) = closed {
        // Whoever closed the store need not wait for it.
        let _told = told.send(());
    }
}

/// Connects, brings the schema up to date, and reads what never changes.
async fn open(opening: Opening, shared: Shared) -> Result<Room, StoreError> {
    let texts = Rc::new(Texts::new(opening.address.schema()));
    let memory = Rc::new(RefCell::new(Memory::default()));
    let mut patience = Patience::new(None);
    let (line, store_id, keeper) = loop {
        let trial = async {
            let line = opening.address.connect(&texts).await?;
            migrate::run(&line, &opening.address, opening.create).await?;
            let row = line.first(sql!("store_read"), args![]).await?;
            let row = row.ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
            let store_id: i64 = column(&row, 0)?;
            let types: Vec<Need> = EVENT_TYPES.iter().map(|name| Need::Name((*name).to_owned())).collect();
            learn(&line, &memory, &types).await?;
            learn_lanes(&line, &memory).await?;
            let keeper = Keeper::new(opening.keys.clone(), store_id.cast_unsigned());
            super::reseal::take_keys(&line, &keeper).await?;
            Ok::<_, Fault>((line, store_id, keeper))
        };
        match trial.await {
            Ok(opened) => break opened,
            Err(fault) => match patience.after(&fault) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(refused(&opening.address, fault)),
            },
        }
    };
    Ok(Room {
        memory,
        keeper,
        clock: opening.clock,
        lanes_are_stale: Cell::new(false),
        pool: Pool::new(opening.address, texts, opening.connections, line),
        store_id,
        hot: RefCell::default(),
        parked: RefCell::default(),
        idle: RefCell::default(),
        next_due: Cell::new(None),
        wake_writer: Notify::new(),
        wake_watch: Notify::new(),
        wake_herald: Notify::new(),
        news: Cell::new(false),
        has_company: Cell::new(true),
        to_fold: Cell::new(false),
        busy: Cell::new(0),
        done: Notify::new(),
        closing: Cell::new(false),
        waiting: shared.waiting,
        workers: shared.workers,
    })
}

/// Why a store cannot be opened: what the database says about us is said with where it is.
fn refused(address: &Address, fault: Fault) -> StoreError {
    let error = fault.into_error();
    match error.trouble() {
        Trouble::Database(why) => Trouble::Open { path: address.location().into(), why: why.clone() }.into(),
        Trouble::Unreachable(why) => Trouble::Unreachable(format!("{}: {why}", address.location())).into(),
        _ => error,
    }
}

/// A fresh id for one group of writes.
fn operation_id() -> Result<String, Fault> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Fault::Final(Trouble::Database(error.to_string()).into()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Whether the transaction of this number and operation was committed; nothing while it is under way. In this order, and as two
/// statements: what ended before the second one began is seen by it.
async fn outcome(line: &Line, operation: &str, number: i64) -> Result<Option<bool>, Fault> {
    let row = line.first(sql!("operation_under_way"), args![number]).await?;
    let row = row.ok_or_else(|| Fault::corrupt("a question without an answer"))?;
    if column(&row, 0)? {
        return Ok(None);
    }
    Ok(Some(line.first(sql!("operation_find"), args![operation]).await?.is_some()))
}

/// Counts somebody as busy while it lives.
struct Busy<'a>(&'a Room);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
        self.0.done.notify_waiters();
    }
}

impl Room {
    fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(self)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// How many workers this process has.
    pub(super) fn own_workers(&self) -> usize {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Something may be due that was not, anywhere.
    pub(super) fn look_again(&self) {
        self.idle.borrow_mut().clear();
        self.wake_writer.notify_one();
    }

    /// One writer: takes what waits, and does it.
    async fn write(self: Rc<Room>) {
        loop {
            let Some(group) = self.next_group() else {
                if self.closing.get() {
                    return;
                }
                self.wake_writer.notified().await;
                continue;
            };
            let busy = self.busy();
            self.serve_group(group).await;
            drop(busy);
        }
    }

    /// What is to be done now; nothing when nobody wants anything.
    fn next_group(&self) -> Option<Group> {
        let mut group = Group::default();
        {
            let mut hot = self.hot.borrow_mut();
            while group.weight() < MAX_WEIGHT
                && let Some(op) = hot.pop_front()
            {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                group.push(op);
            }
            if !hot.is_empty() {
                self.wake_writer.notify_one();
            }
        }
        group.leases.retain(|call| !call.abandoned());
        // Those that wait ride along when there may be something for them.
        let (memory, idle) = (self.memory.borrow(), self.idle.borrow());
        let is_idle = |call: &LeaseCall| take::places(&memory, call).iter().all(|place| idle.contains(place));
        let mut parked = self.parked.borrow_mut();
        let new_work = !group.enqueues.is_empty();
        let mut staying = Vec::new();
        for call in parked.drain(..) {
            if !call.abandoned() && !new_work && is_idle(&call) {
                staying.push(call);
            } else if !call.abandoned() {
                group.leases.push(call);
            }
        }
        *parked = staying;
        for call in &mut group.leases {
            // The store is looked into for whoever does not wait, and where something may be due.
            call.looked = call.request.wait.is_zero() || !is_idle(call);
        }
        // Whoever neither looks nor may get new work waits.
        if !new_work {
            let (going, waiting): (Vec<_>, Vec<_>) =
                std::mem::take(&mut group.leases).into_iter().partition(|call| call.looked);
            group.leases = going;
            if !waiting.is_empty() {
                parked.extend(waiting.into_iter().map(LeaseCall::waits));
                self.wake_watch.notify_one();
            }
        }
        (group.len() > 0).then_some(group)
    }

    /// Does a group, however often it takes, and answers it.
    async fn serve_group(&self, mut group: Group) {
        match self.insist(&mut group).await {
            Ok(committed) => self.settle_down(group, &committed),
            Err(error) if group.len() > 1 && !error.may_pass() => {
                // One caller's trouble is its own.
                for op in group.into_ops() {
                    let mut alone = Group::default();
                    alone.push(op);
                    match self.insist(&mut alone).await {
                        Ok(committed) => self.settle_down(alone, &committed),
                        Err(error) => self.refuse(alone, &error),
                    }
                }
            }
            Err(error) => self.refuse(group, &error),
        }
    }

    fn refuse(&self, group: Group, error: &StoreError) {
        for op in group.into_ops() {
            // Nothing was leased, so nothing comes back.
            op.answer(Err(error.clone()));
        }
        self.wake_watch.notify_one();
    }

    /// Answers a group that was committed; those who got no work wait on.
    fn settle_down(&self, group: Group, committed: &Committed) {
        self.to_fold.set(true);
        self.idle.borrow_mut().extend(&committed.idle);
        if let Some(soonest) = committed.soonest {
            self.news.set(true);
            self.wake_herald.notify_one();
            let is_due = self.clock == Clock::Caller || soonest <= committed.now;
            if is_due {
                self.look_again();
            } else {
                let due = Instant::now() + soonest.since(committed.now);
                self.next_due.set(Some(self.next_due.get().map_or(due, |next| next.min(due))));
                self.wake_watch.notify_one();
            }
        }
        let now = Instant::now();
        for op in group.into_ops() {
            match op {
                Op::Lease(call) if call.leased.is_empty() && call.until > now && !call.abandoned() => {
                    self.parked.borrow_mut().push(call.waits());
                    self.wake_watch.notify_one();
                }
                op => {
                    if let Some(rest) = op.answer(Ok(())) {
                        self.waiting.fetch_add(1, Ordering::Relaxed);
                        self.hot.borrow_mut().push_back(rest);
                        self.wake_writer.notify_one();
                    }
                }
            }
        }
    }

    async fn insist(&self, group: &mut Group) -> Result<Committed, StoreError> {
        let operation = operation_id().map_err(Fault::into_error)?;
        let mut patience = Patience::new(self.pool.down_since());
        loop {
            let tried = match self.pool.line().await {
                Err(fault) => Err(Failed::from(fault)),
                Ok(line) => {
                    let tried = Box::pin(group.run(self, &line, &operation)).await;
                    if let Err(Failed { fault: Fault::Lost(_), .. }) = &tried {
                        line.discard();
                    }
                    tried
                }
            };
            match tried {
                Ok(committed) => {
                    self.pool.note(true);
                    return Ok(committed);
                }
                Err(failed) => {
                    if self.overcome(failed, &operation, &mut patience).await? {
                        // It was committed, only the answer was lost. What it read of the clock does not matter.
                        let now = crate::time::Timestamp::default();
                        return Ok(Committed { now, soonest: Some(now), idle: Vec::new() });
                    }
                }
            }
        }
    }

    /// Waits until the same may be tried again. `true` when there is no need: it had been committed.
    async fn overcome(
        &self,
        failed: Failed,
        operation: &str,
        patience: &mut Patience,
    ) -> Result<bool, StoreError> {
        let Failed { fault, maybe } = failed;
        if let Fault::Lost(why) = &fault {
            self.pool.note(false);
            tracing::warn!(%why, "the database does not answer");
        }
        if let Some(number) = maybe
            && self.was_committed(operation, number, patience).await?
        {
            self.pool.note(true);
            return Ok(true);
        }
        match patience.after(&fault) {
            Some(delay) => tokio::time::sleep(delay).await,
            None => return Err(fault.into_error()),
        }
        Ok(false)
    }

    /// Whether a transaction whose answer was lost had been committed. Asks until somebody knows.
    async fn was_committed(
        &self,
        operation: &str,
        number: i64,
        patience: &mut Patience,
    ) -> Result<bool, StoreError> {
        let mut last = String::new();
        loop {
            let asked = async {
                let line = self.pool.line().await?;
                let known = outcome(&line, operation, number).await;
                if let Err(Fault::Lost(_)) = &known {
                    line.discard();
                }
                known
            };
            let fault = match asked.await {
                Ok(Some(committed)) => return Ok(committed),
                // The server has not noticed yet that we are gone.
                Ok(None) => Fault::Lost("a transaction of ours is still under way".to_owned()),
                Err(fault) => fault,
            };
            if let Fault::Lost(words) | Fault::Again(words) = &fault {
                last.clone_from(words);
            }
            match patience.after(&fault) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(Trouble::UnknownOutcome(last).into()),
            }
        }
    }

    /// A verb in a transaction of its own.
    async fn carry_out(self: Rc<Room>, mut verb: Box<dyn AnyVerb>) {
        let _busy = self.busy();
        let outcome = self.insist_on_verb(&mut *verb).await;
        if outcome.is_ok() {
            self.to_fold.set(true);
        }
        verb.answer(outcome);
    }

    /// Adds up the counters' changes, a bounded number at a time.
    pub(super) async fn add_up(&self, forget: bool) {
        let _busy = self.busy();
        loop {
            let (mut verb, folded) = super::verb::verb(Fold { forget });
            let outcome = self.insist_on_verb(&mut *verb).await;
            verb.answer(outcome);
            match folded.await {
                Ok(Ok(Folded { more: true, .. })) if !self.is_closing() => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the counters' changes were not added up");
                    break;
                }
                _ => break,
            }
        }
    }

    async fn insist_on_verb(&self, verb: &mut dyn AnyVerb) -> Result<(), StoreError> {
        let operation = operation_id().map_err(Fault::into_error)?;
        let mut patience = Patience::new(self.pool.down_since());
        loop {
            let tried = match self.pool.line().await {
                Err(fault) => Err(Failed::from(fault)),
                Ok(line) => {
                    let tried = self.try_verb(&line, verb, &operation).await;
                    if let Err(Failed { fault: Fault::Lost(_), .. }) = &tried {
                        line.discard();
                    }
                    tried
                }
            };
            match tried {
                Ok(()) => {
                    self.pool.note(true);
                    return Ok(());
                }
                Err(failed) => {
                    if self.overcome(failed, &operation, &mut patience).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn try_verb(&self, line: &Line, verb: &mut dyn AnyVerb, operation: &str) -> Result<(), Failed> {
        let lacking = self.memory.borrow().lacks(verb.needs());
        learn(line, &self.memory, &lacking).await?;
        let (mut tx, ()) =
            Tx::begin(line, &self.memory, &self.keeper, self.clock, Isolation::Moment, async {}).await?;
        if let Err(fault) = verb.run(&mut tx).await {
            tx.abandon().await;
            return Err(fault.into());
        }
        let number = tx.number();
        let made_ready = tx.batch.soonest.is_some();
        match tx.commit(operation).await {
            Ok(()) => {
                if made_ready {
                    self.news.set(true);
                    self.wake_herald.notify_one();
                    self.look_again();
                }
                Ok(())
            }
            Err(fault @ Fault::Lost(_)) => Err(Failed { fault, maybe: Some(number) }),
            Err(fault) => Err(fault.into()),
        }
    }

    /// A look at one moment of the store.
    async fn look_up(self: Rc<Room>, mut question: Box<dyn AnyQuestion>) {
        let _busy = self.busy();
        let mut patience = Patience::new(self.pool.down_since());
        let outcome = loop {
            if question.abandoned() {
                return;
            }
            let asked = async {
                let line = self.pool.line().await?;
                let asked = async {
                    line.say("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
                    line.allow(question.may_take());
                    let epoch = line.first(sql!("key_epoch_read"), args![]).await?;
                    let epoch = epoch.ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
                    let seals = seals(&line, &self.keeper, column(&epoch, 0)?).await?;
                    let answered = question.ask(&line, &self.memory, &seals).await;
                    line.say("COMMIT").await?;
                    answered
                };
                let asked = asked.await;
                if let Err(Fault::Lost(_)) = &asked {
                    line.discard();
                }
                asked
            };
            match asked.await {
                Ok(()) => {
                    self.pool.note(true);
                    break Ok(());
                }
                Err(fault) => match patience.after(&fault) {
                    Some(delay) => {
                        if let Fault::Lost(_) = fault {
                            self.pool.note(false);
                        }
                        tokio::time::sleep(delay).await;
                    }
                    None => break Err(fault.into_error()),
                },
            }
        };
        question.answer(outcome);
    }

    /// Those whose time is over get what there is: nothing.
    pub(super) fn dismiss_the_impatient(&self) {
        let now = Instant::now();
        let parked = std::mem::take(&mut *self.parked.borrow_mut());
        for call in parked {
            if call.abandoned() || call.until <= now || self.closing.get() {
                // Nothing was leased, so nothing comes back.
                call.answer(Ok(()));
            } else {
                self.parked.borrow_mut().push(call);
            }
        }
    }

    async fn close(&self) {
        self.closing.set(true);
        self.dismiss_the_impatient();
        self.wake_writer.notify_waiters();
        self.wake_writer.notify_one();
        self.wake_watch.notify_one();
        self.wake_herald.notify_one();
        loop {
            let done = self.done.notified();
            self.dismiss_the_impatient();
            if self.busy.get() == 0 && self.hot.borrow().is_empty() {
                break;
            }
            // A writer that was not listening in that very moment is woken by the next.
            if tokio::time::timeout(Duration::from_millis(20), done).await.is_err() {
                self.wake_writer.notify_waiters();
            }
        }
        if self.news.get() {
            super::watch::tell(self).await;
        }
    }
}
