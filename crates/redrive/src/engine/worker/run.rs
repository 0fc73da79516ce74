//! What a worker does, in one loop: ask for work, start it, settle what has ended, keep the leases, tidy up, leave.
//!
//! The loop runs no work itself; every attempt is a task of its own that reports back. What ended is sent to the store
//! before work for the freed slots is asked for, so that both share a commit. One request for work is outstanding at a
//! time, and one heartbeat covers every lease.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use redrive_store::{Ending, EventSeq, LeaseRequest, LeasedJob, Renewal, Settled, Settlement, StoreError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, Sleep, sleep};

use super::slots::{Slot, Slots};
use super::under_way::{
    Asking, Sifting, counter, is_last, is_over, next_leased, next_settled, next_sifted, passing, poll_some,
    wait_for_more,
};
use super::{Plan, Route, Until, Worker, WorkerReport};
use crate::engine::executor::{Boxed, Running, Wish, Work};
use crate::engine::target::MadeBy;
use crate::engine::{AttemptReport, EngineError, Shutdown, attempt, batch};
use crate::hooks::guarded;

/// How often a worker that waits for an end looks whether it has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often, at the least, expired leases are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// How long attempts that were asked to end, and settlements of a worker that ends now, are waited for.
const LAST_WAIT: Duration = Duration::from_secs(6);
/// How long tasks that were ended may take to go; one that blocks its thread does not.
const TO_GO: Duration = Duration::from_secs(1);
/// How long to wait before the store is asked again after trouble that may pass.
const TROUBLE_WAIT: Duration = Duration::from_millis(100);

/// An attempt that is over, or a task that went away without one.
pub(in crate::engine) struct Finished {
    pub(in crate::engine) slot: usize,
    pub(in crate::engine) ended: Option<Ending>,
}

/// Sends word when an attempt is over, whatever becomes of its task.
pub(in crate::engine) struct Word {
    sender: UnboundedSender<Finished>,
    slot: Option<usize>,
}

impl Word {
    pub(in crate::engine) fn send(mut self, ended: Ending) {
        if let Some(slot) = self.slot.take() {
            // A worker that is gone wants to hear of nothing.
            let _ = self.sender.send(Finished { slot, ended: Some(ended) });
        }
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let _ = self.sender.send(Finished { slot, ended: None });
        }
    }
}

/// A settlement that was sent: whose it is, and how it ended if somebody wants to hear it.
pub(super) struct Sent {
    running: Running,
    last: bool,
    /// Where it is counted once it is written down.
    counter: Counter,
    ending: Option<Ending>,
}

pub(super) type Counter = fn(&mut WorkerReport) -> &mut u64;
pub(super) type Settling<'a> = Boxed<'a, (Vec<Sent>, Result<Vec<Settled>, StoreError>)>;

/// How far a worker is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    Working,
    /// Nothing new is taken; what runs may finish.
    Draining,
    /// What runs was asked to end.
    Asked,
    /// What runs was ended; it is given back as it goes, so that nobody else begins it before.
    Ended,
    /// What would not go was given back; only settlements are waited for.
    Over,
}

struct Run<'a> {
    worker: &'a Worker,
    until: Until,
    stage: Stage,
    slots: Slots,
    sender: UnboundedSender<Finished>,
    settling: Vec<Settling<'a>>,
    /// What was leased and stands at the gate of its target.
    sifting: Vec<Sifting<'a>>,
    report: WorkerReport,
    /// What was waited for has happened.
    reached: bool,
}

pub(super) async fn run(
    worker: Worker,
    until: Until,
    shutdown: &Shutdown,
) -> Result<WorkerReport, EngineError> {
    let (sender, receiver) = unbounded_channel();
    let mut run = Run {
        worker: &worker,
        until,
        stage: Stage::Working,
        slots: Slots::default(),
        sender,
        settling: Vec::new(),
        sifting: Vec::new(),
        report: WorkerReport::default(),
        reached: false,
    };
    let beside = worker.plan.tends && !worker.plan.keeps_its_own;
    let holder = beside.then_some(worker.id().0);
    let ended = worker.engine.drive_beside(holder, run.work(receiver, shutdown)).await;
    let report = run.report;
    drop(run);
    worker.engine.tell_the_rest();
    let store = worker.engine.store();
    if let Err(error) = store.unregister(worker.engine.now(), worker.id()).await {
        tracing::warn!(worker = %worker.id(), %error, "the worker could not sign off; its presence lapses by itself");
    }
    ended.map(|()| report)
}

impl<'a> Run<'a> {
    async fn work(
        &mut self,
        mut receiver: UnboundedReceiver<Finished>,
        shutdown: &Shutdown,
    ) -> Result<(), EngineError> {
        let worker = self.worker;
        let (engine, plan) = (&worker.engine, &worker.plan);
        let tidy_every = (plan.lease_for / 3).min(TIDY_EVERY);
        let mut finished = Vec::new();
        let mut leasing: Vec<Asking<'_>> = Vec::new();
        let mut beating: Option<Boxed<'_, Beat>> = None;
        let mut tidying: Option<Boxed<'_, Result<(), EngineError>>> = None;
        let mut looking: Option<Boxed<'_, Result<bool, StoreError>>> = None;
        let mut next_beat = pin!(sleep(plan.beat_every()));
        let first_tidy = if plan.reserved_only { tidy_every } else { Duration::ZERO };
        let mut next_tidy = pin!(sleep(first_tidy));
        let mut patience = pin!(sleep(Duration::ZERO));
        let mut calm_at = pin!(sleep(Duration::ZERO));
        let mut troubled = false;
        let mut wanted = pin!(worker.incarnation.beat_wanted());
        let mut draining = pin!(shutdown.draining());
        let mut ending_now = pin!(shutdown.ending_now());

        loop {
            let asked: usize = leasing.iter().map(|asking| asking.max).sum();
            let at_the_gate: usize = self.sifting.iter().map(|sifting| sifting.count).sum();
            let free = plan.concurrency.saturating_sub(self.slots.len() + asked + at_the_gate);
            // Another request does not wait for the first one's answer, once it is worth its way.
            let worth_it = match leasing.len() {
                0 => free > 0,
                1 | 2 => free > 1 && free >= plan.concurrency.div_ceil(8),
                _ => false,
            };
            if self.stage == Stage::Working && worth_it && !troubled && !self.reached {
                leasing.push(Asking { max: free, answer: self.ask_for(free) });
            }
            if self.reached || self.stage != Stage::Working {
                // Whatever these requests would bring is given back, uncounted.
                leasing.clear();
                if self.is_idle() {
                    return Ok(());
                }
            }
            tokio::select! {
                biased;
                _ = receiver.recv_many(&mut finished, redrive_store::MAX_BATCH) => {
                    wait_for_more(self.slots.len(), &mut receiver, &mut finished).await;
                    self.settle(&mut finished);
                }
                (sent, settled) = next_settled(&mut self.settling), if !self.settling.is_empty() => {
                    self.settled(&sent, &settled?);
                    if self.is_idle() && looking.is_none() {
                        looking = self.look();
                    }
                }
                leased = next_leased(&mut leasing), if !leasing.is_empty() => {
                    let leased = passing(leased.map_err(EngineError::from), "asking for work")?;
                    troubled = leased.is_none();
                    if troubled {
                        calm_at.as_mut().reset(Instant::now() + TROUBLE_WAIT);
                    }
                    self.sift(leased.unwrap_or_default());
                    if self.is_idle() && looking.is_none() {
                        looking = self.look();
                    }
                }
                (leased, endings) = next_sifted(&mut self.sifting), if !self.sifting.is_empty() => {
                    self.sifted(leased, endings)?;
                }
                () = &mut calm_at, if troubled => troubled = false,
                beat = poll_some(&mut beating), if beating.is_some() => {
                    beating = None;
                    let wait = if self.beaten(beat)? { plan.beat_every() } else { plan.beat_every() / 4 };
                    next_beat.as_mut().reset(Instant::now() + wait);
                }
                () = &mut next_beat, if beating.is_none() => beating = Some(self.beat()),
                () = &mut wanted, if beating.is_none() => {
                    wanted.set(worker.incarnation.beat_wanted());
                    beating = Some(self.beat());
                }
                answer = poll_some(&mut looking), if looking.is_some() => {
                    looking = None;
                    self.reached |= answer? && self.slots.len() == 0;
                }
                tidied = poll_some(&mut tidying), if tidying.is_some() => {
                    tidying = None;
                    next_tidy.as_mut().reset(Instant::now() + tidy_every);
                    passing(tidied, "tidying")?;
                }
                () = &mut next_tidy, if plan.tends && tidying.is_none() && self.stage == Stage::Working => {
                    tidying = Some(Box::pin(async move { engine.maintain(worker.id()).await.map(drop) }));
                }
                () = &mut draining, if self.stage == Stage::Working => {
                    self.stage = Stage::Draining;
                    patience.as_mut().reset(Instant::now() + plan.grace);
                }
                () = &mut ending_now, if self.stage < Stage::Ended => self.end_all(patience.as_mut()),
                () = &mut patience, if self.stage != Stage::Working => match self.stage {
                    Stage::Draining => self.ask_to_end(patience.as_mut()),
                    Stage::Asked => self.end_all(patience.as_mut()),
                    Stage::Ended => self.give_back(patience.as_mut()),
                    Stage::Working | Stage::Over => return Ok(()),
                },
            }
        }
    }

    /// Nothing runs, and everything that ran is settled.
    fn is_idle(&self) -> bool {
        self.slots.len() == 0 && self.settling.is_empty() && self.sifting.is_empty()
    }

    fn ask_for(&self, free: usize) -> Boxed<'a, Result<Vec<LeasedJob>, StoreError>> {
        let Plan { queues, lease_for, wait, reserved_only, .. } = &self.worker.plan;
        let Some(kinds) = self.worker.plan.kinds_now(&self.worker.engine) else {
            // That may change with the configuration.
            return Box::pin(async {
                tokio::time::sleep(LOOK_EVERY).await;
                Ok(Vec::new())
            });
        };
        let request = LeaseRequest {
            worker: self.worker.id(),
            queues: queues.clone(),
            kinds,
            reserved_only: *reserved_only,
            max: free.min(redrive_store::MAX_BATCH),
            lease_for: *lease_for,
            begin: true,
            wait: if self.until == Until::Shutdown { *wait } else { (*wait).min(LOOK_EVERY) },
        };
        self.worker.engine.store().lease(self.worker.engine.now(), request)
    }

    /// Starts what is not protected; the rest waits at the gate of its target, and the loop does not.
    fn sift(&mut self, leased: Vec<LeasedJob>) {
        let worker = self.worker;
        let by = MadeBy::Us(worker.plan.goes_to.as_deref());
        if leased.is_empty() || worker.engine.passes_freely(&leased, by) {
            return self.start(leased);
        }
        let count = leased.len();
        let answer = Box::pin(async move {
            let held_for = worker.incarnation.held_for();
            let endings = worker.engine.gate(&leased, by, held_for).await;
            (leased, endings)
        });
        self.sifting.push(Sifting { count, answer });
    }

    /// Starts what may go. What may not is settled as everything else is, and so is what nobody could be asked about.
    fn sifted(
        &mut self,
        leased: Vec<LeasedJob>,
        endings: Result<Vec<Option<Ending>>, EngineError>,
    ) -> Result<(), EngineError> {
        let given_back = |why: &str| Some(Ending::Released { why: why.to_owned() });
        let unknown = |leased: &[LeasedJob]| {
            leased.iter().map(|_| given_back("the state of its target could not be read")).collect()
        };
        let endings = passing(endings, "the gate")?.unwrap_or_else(|| unknown(&leased));
        let mut goes = Vec::with_capacity(leased.len());
        for (leased, ending) in leased.into_iter().zip(endings) {
            let leaves = self.stage != Stage::Working || self.reached;
            match ending.or_else(|| if leaves { given_back("its worker leaves") } else { None }) {
                Some(ending) => self.occupy(leased, false).0.send(ending),
                None => goes.push(leased),
            }
        }
        self.start(goes);
        Ok(())
    }

    /// Starts what was leased, each in a task of its own, except that the items of a batch share one.
    fn start(&mut self, leased: Vec<LeasedJob>) {
        let mut gathered: Vec<(&'a str, Vec<LeasedJob>)> = Vec::new();
        for leased in leased {
            match self.worker.plan.routes.get_key_value(leased.job.kind.as_str()) {
                Some((kind, Route::Many { .. })) => match gathered.iter_mut().find(|(of, _)| of == kind) {
                    Some((_, items)) => items.push(leased),
                    None => gathered.push((kind, vec![leased])),
                },
                Some((_, Route::One(work))) => self.start_one(leased, work),
                None => match &self.worker.plan.otherwise {
                    Some(Route::One(work)) => self.start_one(leased, work),
                    Some(Route::Many { .. }) | None => self.refuse(leased),
                },
            }
        }
        for (kind, items) in gathered {
            let Some(Route::Many { max, batch }) = self.worker.plan.routes.get(kind) else { continue };
            let mut items = items.into_iter();
            loop {
                let some: Vec<LeasedJob> = items.by_ref().take(*max).collect();
                if some.is_empty() {
                    break;
                }
                let (words, running): (Vec<Word>, Vec<Running>) =
                    some.into_iter().map(|leased| self.occupy(leased, true)).unzip();
                let numbers: Vec<usize> = words.iter().filter_map(|word| word.slot).collect();
                let task = tokio::spawn(batch::run(Arc::clone(batch), running, words)).abort_handle();
                for number in numbers {
                    if let Some(slot) = self.slots.get_mut(number) {
                        slot.task = Some(task.clone());
                    }
                }
            }
        }
    }

    fn start_one(&mut self, leased: LeasedJob, work: &Arc<dyn Work>) {
        let (report, running) = self.occupy(leased, false);
        let number = report.slot;
        let work = Arc::clone(work);
        let task = tokio::spawn(async move {
            let ended = attempt::run(&running, &*work).await;
            report.send(ended);
        });
        if let Some(slot) = number.and_then(|number| self.slots.get_mut(number)) {
            slot.task = Some(task.abort_handle());
        }
    }

    fn occupy(&mut self, leased: LeasedJob, shared: bool) -> (Word, Running) {
        let incarnation = Arc::clone(&self.worker.incarnation);
        let running = Running::new(self.worker.engine.clone(), leased, incarnation);
        let slot = Slot { running: running.clone(), task: None, shared, lost: false };
        let number = self.slots.take(slot);
        (Word { sender: self.sender.clone(), slot: Some(number) }, running)
    }

    /// A job of a kind that this worker cannot run: it was held for it, or the store gave too much.
    fn refuse(&mut self, leased: LeasedJob) {
        let (word, _) = self.occupy(leased, false);
        word.send(Ending::Released { why: "this worker cannot run its kind".to_owned() });
    }

    /// Sends what has ended to the store, without waiting for the answer.
    fn settle(&mut self, finished: &mut Vec<Finished>) {
        let mut settlements = Vec::with_capacity(finished.len());
        let mut sent = Vec::with_capacity(finished.len());
        for Finished { slot, ended } in finished.drain(..) {
            let Some(slot) = self.slots.free(slot) else { continue };
            // A task that we ended ourselves says nothing, and is gone now.
            let leaves = || Ending::Released { why: "its worker leaves at once".to_owned() };
            let ended = ended.or_else(|| (self.stage >= Stage::Ended).then(leaves));
            match ended {
                Some(ending) if !slot.lost => self.put_down(slot, ending, &mut settlements, &mut sent),
                Some(_) | None => self.report.lost += 1,
            }
        }
        self.send(settlements, sent);
    }

    fn put_down(&self, slot: Slot, ending: Ending, settlements: &mut Vec<Settlement>, sent: &mut Vec<Sent>) {
        let (last, counter) = (is_last(&ending), counter(&ending));
        let heard = self.worker.plan.observer.is_some() || self.until != Until::Shutdown;
        let kept = heard.then(|| ending.clone());
        settlements.push(Settlement { token: slot.running.token, ending });
        sent.push(Sent { running: slot.running, last, counter, ending: kept });
    }

    fn send(&mut self, settlements: Vec<Settlement>, sent: Vec<Sent>) {
        if settlements.is_empty() {
            return;
        }
        let engine = &self.worker.engine;
        self.settling.push(Box::pin(async move { (sent, engine.settle(settlements).await) }));
    }

    fn settled(&mut self, sent: &[Sent], settled: &[Settled]) {
        for (sent, settled) in sent.iter().zip(settled) {
            let leased: &LeasedJob = &sent.running;
            match *settled {
                Settled::Stale => {
                    self.report.lost += 1;
                    tracing::warn!(
                        job = %leased.job.id, attempt = leased.attempt,
                        "the lease was lost; what the attempt came to does not count"
                    );
                }
                Settled::Done { event } => {
                    *(sent.counter)(&mut self.report) += 1;
                    self.observe(leased, sent.ending.as_ref(), event);
                    self.worker.engine.task_moved(leased.job.caller_id.as_deref());
                    if sent.last && self.until == Until::JobIsOver(leased.job.id) {
                        self.reached = true;
                    }
                }
                Settled::Cancelled { event } => {
                    self.report.cancelled += 1;
                    let exit_code = sent.ending.as_ref().and_then(Ending::exit_code);
                    let ending = Ending::Cancelled { why: "somebody asked for it".to_owned(), exit_code };
                    self.observe(leased, Some(&ending), event);
                    self.worker.engine.task_moved(leased.job.caller_id.as_deref());
                    self.reached |= self.until == Until::JobIsOver(leased.job.id);
                }
            }
        }
    }

    fn observe(&self, leased: &LeasedJob, ending: Option<&Ending>, event: EventSeq) {
        if let (Some(observer), Some(ending)) = (&self.worker.plan.observer, ending) {
            guarded("observe", || observer(&AttemptReport { leased, ending, event }));
        }
    }

    fn beat(&self) -> Boxed<'a, Beat> {
        let worker = self.worker;
        let (slots, tokens) = self.slots.tokens();
        Box::pin(async move {
            let sent_at = worker.engine.clock().steady();
            let presence_for = worker.incarnation.presence_for;
            let now = worker.engine.now();
            let renewed = worker.engine.store().renew(now, worker.id(), presence_for, tokens).await;
            Beat { slots, sent_at, renewed }
        })
    }

    /// Takes in a heartbeat's answer: whether it came through.
    fn beaten(&mut self, beat: Beat) -> Result<bool, EngineError> {
        let Some(renewals) = passing(beat.renewed.map_err(EngineError::from), "a heartbeat")? else {
            return Ok(false);
        };
        for ((number, token), renewal) in beat.slots.into_iter().zip(renewals) {
            // The slot may have been freed, and taken by another job, since the heartbeat was sent.
            let Some(slot) = self.slots.get_mut(number).filter(|slot| slot.running.token == token) else {
                continue;
            };
            match renewal {
                Renewal::Extended => {}
                Renewal::CancelRequested => slot.running.ask_to_end(Wish::Cancelled),
                Renewal::Lost => {
                    tracing::warn!(job = %token.job, "the lease is lost; the attempt is stopped");
                    slot.lost = true;
                    slot.running.cancel().cancel();
                    if let Some(task) = slot.task.as_ref().filter(|_| !slot.shared) {
                        task.abort();
                    }
                }
            }
        }
        for task in self.slots.batches_without_a_lease() {
            task.abort();
        }
        // After the lost ones were stopped: what waits for certainty goes on now.
        self.worker.incarnation.beat(beat.sent_at);
        Ok(true)
    }

    /// Looks whether what is waited for has come about without this worker.
    fn look(&self) -> Option<Boxed<'a, Result<bool, StoreError>>> {
        let store = self.worker.engine.store();
        match self.until {
            Until::Shutdown => None,
            Until::Empty => {
                let Plan { queues, .. } = &self.worker.plan;
                let engine = &self.worker.engine;
                let (queues, kinds) = (queues.clone(), self.worker.plan.kinds_now(engine));
                Some(Box::pin(async move {
                    let unfinished = match kinds {
                        Some(kinds) => store.unfinished(queues, kinds).await?,
                        None => false,
                    };
                    Ok(!unfinished && !engine.tasks_go_on().await?)
                }))
            }
            Until::JobIsOver(job) => Some(Box::pin(async move { is_over(store, job).await })),
        }
    }

    /// The grace is over.
    fn ask_to_end(&mut self, mut patience: Pin<&mut Sleep>) {
        self.stage = Stage::Asked;
        for (_, slot) in self.slots.iter() {
            slot.running.ask_to_end(Wish::Released);
        }
        patience.as_mut().reset(Instant::now() + LAST_WAIT);
    }

    /// Ends everything at once. What has ended by itself in this very moment keeps its end; the rest is given back as its
    /// task goes.
    fn end_all(&mut self, mut patience: Pin<&mut Sleep>) {
        self.stage = Stage::Ended;
        for (_, slot) in self.slots.iter() {
            slot.running.ask_to_end(Wish::Released);
            if let Some(task) = &slot.task {
                task.abort();
            }
        }
        patience.as_mut().reset(Instant::now() + TO_GO);
    }

    /// Lets go of what does not let go by itself: it blocks its thread.
    fn give_back(&mut self, mut patience: Pin<&mut Sleep>) {
        self.stage = Stage::Over;
        let numbers: Vec<usize> = self.slots.iter().map(|(number, _)| number).collect();
        let mut settlements = Vec::new();
        let mut sent = Vec::new();
        for number in numbers {
            let Some(slot) = self.slots.free(number) else { continue };
            if slot.lost {
                self.report.lost += 1;
                continue;
            }
            let ending = Ending::Released { why: "its worker leaves, although it would not end".to_owned() };
            self.put_down(slot, ending, &mut settlements, &mut sent);
        }
        self.send(settlements, sent);
        patience.as_mut().reset(Instant::now() + LAST_WAIT);
    }
}

/// A heartbeat and its answer.
struct Beat {
    slots: Vec<(usize, redrive_store::LeaseToken)>,
    sent_at: Duration,
    renewed: Result<Vec<Renewal>, StoreError>,
}
