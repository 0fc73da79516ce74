//! The thread that talks to the database: it gathers callers' verbs into transactions and answers them after the commit.
//!
//! A request for work that finds nothing waits here. A job that is enqueued meanwhile is handed to it in the very
//! transaction that makes it durable; what others enqueue is heard of by `NOTIFY`, and found by looking every so often.

mod opening;

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;

use super::enqueue;
use super::follow::Follow;
use super::group::{Committed, Group};
use super::key_look::LookCall;
use super::memory::Memory;
use super::open::Address;
use super::operation::Op;
use super::parked::{Counted, Parked};
use super::pool::Pool;
use super::timeline::Last;
use super::tx::Clock;
use super::verb::{AnyQuestion, AnyVerb};
use crate::error::{StoreError, Trouble};
use crate::id::WorkerId;
use crate::seal::{Keeper, KeyRing};

/// The most rows that one transaction should write.
const MAX_WEIGHT: usize = 8_192;
/// The most verbs that may wait; more are refused, so that memory stays bounded.
const MAX_WAITING: usize = 100_000;
/// The longest that a group is held back for those who are likely to come: less than what it costs to go without them.
const LINGER: Duration = Duration::from_micros(300);
/// After so long nobody is expected back.
const SOON: Duration = Duration::from_millis(2);
/// How many groups may be under way at once.
const WRITERS: usize = 2;

pub(super) enum Message {
    Hot(Op),
    Look(LookCall),
    Verb(Box<dyn AnyVerb>),
    Ask(Box<dyn AnyQuestion>),
    Follow(Follow),
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
    pub(super) within: Duration,
    pub(super) encrypt: bool,
}

/// The way to the thread.
pub(super) struct Handle {
    sender: mpsc::UnboundedSender<Message>,
    waiting: Arc<AtomicUsize>,
    workers: Workers,
    answers: Arc<AtomicBool>,
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) counted: Arc<Counted>,
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
        let answers = Arc::new(AtomicBool::new(true));
        let counted = Arc::new(Counted::default());
        let shared = Shared {
            waiting: Arc::clone(&waiting),
            workers: Arc::clone(&workers),
            answers: Arc::clone(&answers),
            counted: Arc::clone(&counted),
        };
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
        Ok((Handle { sender, waiting, workers, answers, counted }, store_id))
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, HashSet<WorkerId>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the database answers, as far as is known.
    pub(super) fn answers(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
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

    /// Hands a look at a key over. When that cannot be done, it is answered at once.
    pub(super) fn look(&self, call: LookCall) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            call.answer(Err(Trouble::Overloaded.into()));
            return;
        }
        // Unsent, it is dropped, and its caller hears that the store is closed.
        drop(self.sender.send(Message::Look(call)));
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

    pub(super) fn follow(&self, follow: Follow) {
        drop(self.sender.send(Message::Follow(follow)));
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
    answers: Arc<AtomicBool>,
    counted: Arc<Counted>,
}

/// What everybody on the thread shares.
pub(super) struct Room {
    pub(super) memory: Rc<RefCell<Memory>>,
    pub(super) keeper: Keeper,
    pub(super) clock: Clock,
    /// Others may have made lanes that we do not know.
    pub(super) lanes_are_stale: Cell<bool>,
    pub(super) pool: Pool,
    /// What this process committed last.
    pub(super) last: RefCell<Option<Last>>,
    /// The connection was lost: whether what was committed is still there is to be seen.
    pub(super) doubts: Cell<bool>,
    pub(super) store_id: i64,
    hot: RefCell<VecDeque<Op>>,
    looks: RefCell<VecDeque<LookCall>>,
    /// Who follows the stream, and was not looked for yet.
    pub(super) followers: RefCell<Vec<Follow>>,
    pub(super) parked: RefCell<Parked>,
    /// Lanes in which nothing was due when we looked, and of which nothing was heard since.
    idle: RefCell<HashSet<i64>>,
    /// How often something was heard of that may be due.
    heard: Cell<u64>,
    /// When somebody was answered last, and how many.
    answered: Cell<(Option<Instant>, usize)>,
    pub(super) next_due: Cell<Option<Instant>>,
    wake_writer: Notify,
    pub(super) wake_looker: Notify,
    pub(super) wake_follower: Notify,
    pub(super) wake_watch: Notify,
    pub(super) wake_herald: Notify,
    /// Something became ready that other processes should hear of.
    pub(super) news: Cell<bool>,
    /// Until when we believe that no other process has workers.
    pub(super) alone_until: Cell<Option<Instant>>,
    /// Something may be due later that is not known yet.
    pub(super) look_soon: Cell<bool>,
    /// Whether counters were changed since they were added up.
    pub(super) to_fold: Cell<bool>,
    busy: Cell<usize>,
    done: Notify,
    closing: Cell<bool>,
    waiting: Arc<AtomicUsize>,
    workers: Workers,
    pub(super) counted: Arc<Counted>,
    itself: std::rc::Weak<Room>,
}

async fn serve(
    opening: Opening,
    mut receiver: mpsc::UnboundedReceiver<Message>,
    shared: Shared,
    opened: oneshot::Sender<Result<i64, StoreError>>,
) {
    let room = match opening::open(opening, shared).await {
        Ok(room) => Rc::new_cyclic(|itself| Room { itself: itself.clone(), ..room }),
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
    tokio::task::spawn_local(super::key_look::look(Rc::clone(&room)));
    tokio::task::spawn_local(super::follow::follow(Rc::clone(&room)));
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
            Message::Look(call) => {
                room.looks.borrow_mut().push_back(call);
                room.wake_looker.notify_one();
            }
            Message::Verb(verb) => {
                tokio::task::spawn_local(Rc::clone(&room).carry_out(verb));
            }
            Message::Ask(question) => {
                tokio::task::spawn_local(Rc::clone(&room).look_up(question));
            }
            Message::Follow(follow) => {
                room.followers.borrow_mut().push(follow);
                room.wake_follower.notify_one();
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

/// Counts somebody as busy while it lives.
pub(super) struct Busy<'a>(&'a Room);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
        self.0.done.notify_waiters();
    }
}

impl Room {
    pub(super) fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(self)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// For what goes on by itself.
    pub(super) fn itself(&self) -> Option<Rc<Room>> {
        self.itself.upgrade()
    }

    /// How many workers this process has.
    pub(super) fn own_workers(&self) -> usize {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Something may be due that was not, anywhere.
    pub(super) fn look_again(&self) {
        self.idle.borrow_mut().clear();
        self.heard.set(self.heard.get().wrapping_add(1));
        self.wake_writer.notify_one();
    }

    /// Something may be due later that was not known.
    pub(super) fn look_soon(&self) {
        self.look_soon.set(true);
        self.wake_watch.notify_one();
    }

    /// The keys that somebody wants to know of, at most so many.
    pub(super) fn next_looks(&self, most: usize) -> Vec<LookCall> {
        let mut looks = self.looks.borrow_mut();
        let many = looks.len().min(most);
        self.waiting.fetch_sub(many, Ordering::Relaxed);
        looks.drain(..many).collect()
    }

    /// One writer: takes what waits, and does it.
    async fn write(self: Rc<Room>) {
        loop {
            self.gather().await;
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

    /// Whoever was just answered is likely to come back at once, and one transaction for all of them is cheaper than several. A
    /// timer is too coarse for so short a wait: others on this thread have their turns instead. A worker is not kept waiting: its
    /// slots stand empty meanwhile.
    async fn gather(&self) {
        let (at, answered) = self.answered.get();
        let began = Instant::now();
        let only_new = || self.hot.borrow().iter().all(|op| matches!(op, Op::Enqueue(_)));
        while at.is_some_and(|at| at.elapsed() < SOON)
            && !self.hot.borrow().is_empty()
            && self.hot.borrow().len() < answered
            && began.elapsed() < LINGER
            && only_new()
            && !self.closing.get()
        {
            tokio::task::yield_now().await;
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
        let mut arrived = std::mem::take(&mut group.leases);
        arrived.retain(|call| !call.abandoned());
        // Whoever does not wait does not hear of new lanes either.
        if arrived.iter().any(|call| call.request.wait.is_zero()) {
            self.lanes_are_stale.set(true);
        }
        let (memory, idle, mut parked) = (self.memory.borrow(), self.idle.borrow(), self.parked.borrow_mut());
        for call in &mut arrived {
            // The store is looked into for whoever does not wait, and where something may be due.
            call.looked =
                call.request.wait.is_zero() || !parked.waits_like_others(&call.request, &memory, &idle);
        }
        // Those that wait ride along when there may be something for them, and come first.
        group.heard = self.heard.get();
        (group.leases, group.looking) = parked.awake(enqueue::jobs(&group.enqueues), &memory, &idle);
        self.counted.rides.fetch_add(group.leases.len() as u64, Ordering::Relaxed);
        // Whoever neither looks nor may get new work waits.
        let new_work = !group.enqueues.is_empty();
        let (going, waiting): (Vec<_>, Vec<_>) =
            arrived.into_iter().partition(|call| new_work || call.looked);
        group.leases.extend(going);
        if !waiting.is_empty() {
            for call in waiting {
                parked.push(call.waits());
            }
            self.wake_watch.notify_one();
        }
        self.counted.groups.fetch_add(u64::from(group.len() > 0), Ordering::Relaxed);
        (group.len() > 0).then_some(group)
    }

    /// Does a group, however often it takes, and answers it.
    async fn serve_group(&self, mut group: Group) {
        let looking = std::mem::take(&mut group.looking);
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
        self.parked.borrow_mut().looked(&looking);
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
        // What was heard of since then may be due where this group saw nothing.
        if group.heard == self.heard.get() {
            self.idle.borrow_mut().extend(&committed.idle);
        }
        if let Some(soonest) = committed.soonest {
            self.news.set(true);
            self.wake_herald.notify_one();
            let is_due = self.clock == Clock::Caller || soonest <= committed.now;
            if is_due {
                self.look_again();
                // Of the rest of the group nobody knows when it is due.
                if committed.latest > Some(committed.now) {
                    self.look_soon();
                }
            } else {
                let due = Instant::now() + soonest.since(committed.now);
                self.next_due.set(Some(self.next_due.get().map_or(due, |next| next.min(due))));
                self.wake_watch.notify_one();
            }
        }
        let now = Instant::now();
        self.answered.set((Some(now), group.enqueues.len()));
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

    /// Those whose time is over get what there is: nothing.
    pub(super) fn dismiss_the_impatient(&self) {
        let mut parked = self.parked.borrow_mut();
        let over = if self.closing.get() { parked.drain() } else { parked.walk(Instant::now()) };
        self.counted.parked.store(parked.len(), Ordering::Relaxed);
        drop(parked);
        for call in over {
            // Nothing was leased, so nothing comes back.
            call.answer(Ok(()));
        }
    }

    async fn close(&self) {
        self.closing.set(true);
        self.dismiss_the_impatient();
        self.wake_writer.notify_waiters();
        self.wake_writer.notify_one();
        self.wake_looker.notify_one();
        self.wake_follower.notify_one();
        self.wake_watch.notify_one();
        self.wake_herald.notify_one();
        loop {
            let done = self.done.notified();
            self.dismiss_the_impatient();
            if self.busy.get() == 0 && self.hot.borrow().is_empty() && self.looks.borrow().is_empty() {
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
