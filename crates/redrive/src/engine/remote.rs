//! Workers elsewhere: in another process, of any language, that ask for work and tell how it ended (R-P15, R-D2).
//!
//! [`Remote`] hands jobs out under leases that travel as a text, and takes their ends. Whoever works tells what happened; what
//! follows from it is decided here, by the functions that decide for a worker in this process. A lease may be ended or extended
//! through any process on the store, so that a server may go at any time without taking its workers' work along.

mod asked;
mod text;

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use redrive_policy::protection::CallResult;
use redrive_policy::{KnownSecrets, Verdict};
use redrive_store::{
    Ending, EventSeq, JobId, LeaseRequest, LeaseToken, LeasedJob, LetterReason, Output, Renewal, Settled,
    Settlement, StoreError, Timestamp, Trouble, WorkerId,
};

pub use text::HeldLease;

use super::attempt::late;
use super::executor::Boxed;
use super::settle::{Failing, bounded_why, classified, ending_of, redacted_output, set_aside};
use super::target::{MadeBy, News, result_of};
use super::{Engine, EngineError};
use crate::bounded::both_ends;
use crate::outcome::Evidence;
use crate::secrets::redact;

/// The store's secret under which leases are written.
const KEY: &str = "lease";
/// How long a server counts as present after it was seen last.
const PRESENCE: Duration = Duration::from_secs(30);
/// How long, at the least, other work is looked for when what is due may not go to its target.
const LOOK_FOR: Duration = Duration::from_millis(500);
/// How often it is looked for at the most, in one request.
const MOST_LOOKS: u32 = 1_000;
/// How many jobs are looked at beside each other when a decision about them is due.
const BESIDE: usize = 32;
/// How many bytes of what a worker wrote, or of where an error came from, are stored.
const TEXT_BOUND: usize = 8 * 1024;

/// The place to which workers elsewhere come.
#[derive(Clone)]
pub struct Remote {
    engine: Engine,
    worker: WorkerId,
    sealer: text::Sealer,
    asked: asked::Asked,
}

/// What a worker elsewhere asks for.
#[derive(Debug, Clone)]
pub struct RemoteRequest {
    /// From these queues; empty: all of them.
    pub queues: Vec<String>,
    /// Only these kinds; empty: all of them.
    pub kinds: Vec<String>,
    /// At most so many.
    pub max: usize,
    /// For so long, unless it is extended.
    pub lease_for: Duration,
    /// How long to wait when nothing is due.
    pub wait: Duration,
}

/// A job that was handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct HandedOut {
    /// The lease, as the worker shows it.
    pub lease: String,
    /// The lease, as it is read when it comes back.
    pub held: HeldLease,
    /// The job and its attempt.
    pub leased: LeasedJob,
    /// The key that its effects carry, the same for each attempt.
    pub idempotency_key: String,
}

/// How an attempt elsewhere ended, by the word of whoever made it.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteOutcome {
    /// It is done.
    Succeeded,
    /// It failed: the policy decides.
    Failed {
        /// What is known about it.
        evidence: Box<Evidence>,
        /// What the worker itself says about trying again.
        again: Option<bool>,
        /// Where it came from.
        stack: Option<String>,
    },
    /// Not now: again after so long, and no attempt is used up.
    Snoozed(Duration),
    /// It is over, for this reason: no retry, no letter.
    Cancelled(String),
    /// It is set aside for this reason.
    Dead(String),
    /// It is given back untouched or unfinished; nothing is counted.
    Released(String),
}

/// The end of one attempt elsewhere.
#[derive(Debug, Clone)]
pub struct RemoteEnd {
    /// The lease that it ran under.
    pub held: HeldLease,
    /// How it ended.
    pub outcome: RemoteOutcome,
    /// How long it took; absent: since it was handed out.
    pub latency: Option<Duration>,
    /// What it said.
    pub output: Option<String>,
}

/// What was decided about an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// The job is done.
    Succeeded,
    /// It is tried again.
    Retry {
        /// When.
        run_at: Timestamp,
        /// After which delay.
        delay: Duration,
        /// Why, in a sentence.
        why: String,
    },
    /// It is a dead letter now.
    Dead {
        /// The letter.
        letter: JobId,
        /// Why it is set aside.
        reason: LetterReason,
        /// Why, in a sentence.
        why: String,
    },
    /// It comes again, uncounted.
    Snoozed {
        /// When.
        run_at: Timestamp,
    },
    /// It is over.
    Cancelled,
    /// It was given back.
    Released,
}

/// What became of the end of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteSettled {
    /// It is written down.
    Done {
        /// What follows from it.
        decided: Decided,
        /// Under this event.
        event: EventSeq,
    },
    /// It would have come again, but somebody had asked for its end.
    Cancelled {
        /// Under this event.
        event: EventSeq,
    },
    /// The lease was lost: nothing changed.
    Stale,
}

impl Engine {
    /// The place to which workers elsewhere come; what they have is leased to this worker.
    pub async fn remote(&self, worker: WorkerId) -> Result<Remote, EngineError> {
        let key = self.store_secret(KEY).await?;
        let unusable =
            || StoreError::from(Trouble::Corrupt("the key of the leases has no length".to_owned()));
        let sealer = text::Sealer::new(&key).ok_or_else(unusable)?;
        Ok(Remote { engine: self.clone(), worker, sealer, asked: asked::Asked::default() })
    }
}

impl Remote {
    /// Hands out what is due; its attempts have begun. What is past its deadline is set aside instead. Dropping the answer before
    /// it has come gives everything back, uncounted.
    pub async fn lease(&self, request: RemoteRequest) -> Result<Vec<HandedOut>, EngineError> {
        self.engine.remember_lease_elsewhere(request.lease_for);
        self.asked.note(&self.engine, &request).await;
        let asked_at = self.engine.clock().steady();
        let mut looks = 0;
        loop {
            let wait = request.wait.saturating_sub(self.engine.clock().steady().saturating_sub(asked_at));
            let asked = LeaseRequest {
                worker: self.worker,
                queues: request.queues.clone(),
                kinds: request.kinds.clone(),
                reserved_only: false,
                max: request.max.min(redrive_store::MAX_BATCH),
                lease_for: request.lease_for,
                begin: true,
                wait,
            };
            let leased = self.engine.store().lease(self.engine.now(), asked).await?;
            if leased.is_empty() {
                return Ok(Vec::new());
            }
            let mut kept = Kept { remote: self, leased };
            kept.set_late_aside().await?;
            kept.park().await?;
            let handed_at = self.engine.store_now().await?;
            let handed = kept.hand_out(request.lease_for, handed_at);
            let passed = self.engine.clock().steady().saturating_sub(asked_at);
            // Whoever asked gets an answer in time, however much is parked.
            if !handed.is_empty() || passed >= request.wait.max(LOOK_FOR) || looks == MOST_LOOKS {
                return Ok(handed);
            }
            looks += 1;
        }
    }

    /// The lease that a text is, if a process on this store has made it.
    pub fn read(&self, lease: &str) -> Option<HeldLease> {
        self.sealer.read(lease)
    }

    /// Ends attempts, in one transaction. The answers are in the order of the ends.
    pub async fn settle(&self, ends: Vec<RemoteEnd>) -> Result<Vec<RemoteSettled>, EngineError> {
        let mut settlements = Vec::with_capacity(ends.len());
        let of_tasks: Vec<JobId> =
            ends.iter().filter(|end| end.held.of_task).map(|end| end.held.token.job).collect();
        let protected = self.engine.protected_elsewhere(&ends, |end| end.held.lent()).await;
        let protected =
            protected.into_iter().filter_map(|(place, _)| Some((place, ends.get(place)?.held.clone())));
        let protected: Vec<(usize, HeldLease)> = protected.collect();
        let now = self.engine.store_now().await?;
        let mut ends = ends.into_iter().peekable();
        while ends.peek().is_some() {
            // What ended well needs no look at anything, and many of these cost no more than a few.
            let some = ends.by_ref().take(BESIDE).map(|end| self.ending(end, now)).collect();
            for settlement in all(some).await {
                settlements.push(settlement?);
            }
        }
        let decided: Vec<Decided> = settlements.iter().map(decided).collect();
        let came = protected.iter().map(|(place, held)| {
            let settlement = settlements.get(*place)?;
            Some(result_of(&settlement.ending, held.leased_at.millis()))
        });
        let came: Vec<Option<CallResult>> = came.collect();
        let settled = self.engine.settle(settlements).await?;
        // Of one that was lost nothing is known but that: whoever ended it may not have lived to tell that its place is free.
        let heard = protected.iter().zip(came).map(|((place, held), came)| {
            let ours = settled.get(*place).is_some_and(|settled| *settled != Settled::Stale);
            (held.lent(), News::Over(came.filter(|_| ours)))
        });
        self.engine.hear_of_lent(heard.collect()).await;
        for job in of_tasks {
            self.engine.subtask_moved(job);
        }
        Ok(decided
            .into_iter()
            .zip(settled)
            .map(|(decided, settled)| match settled {
                Settled::Done { event } => RemoteSettled::Done { decided, event },
                Settled::Cancelled { event } => RemoteSettled::Cancelled { event },
                Settled::Stale => RemoteSettled::Stale,
            })
            .collect())
    }

    /// Extends leases, each by the time that it was asked for with, in one transaction.
    pub async fn extend(&self, held: &[HeldLease]) -> Result<Vec<Renewal>, EngineError> {
        let tokens: Vec<LeaseToken> = held.iter().map(|held| held.token).collect();
        let protected = self.engine.protected_elsewhere(held, HeldLease::lent).await;
        let renewed = self.engine.store().renew(self.engine.now(), self.worker, PRESENCE, tokens).await?;
        let heard = protected.into_iter().filter_map(|(place, lent)| match renewed.get(place)? {
            Renewal::Extended | Renewal::CancelRequested => Some((lent, News::Lasts)),
            Renewal::Lost => Some((lent, News::Over(None))),
        });
        self.engine.hear_of_lent(heard.collect()).await;
        Ok(renewed)
    }

    /// Gives back what nobody has got: the worker went away before its answer was sent.
    pub async fn give_back(&self, held: Vec<HeldLease>) -> Result<(), EngineError> {
        let why = "the worker went away before it began";
        let released = |held: &HeldLease| Settlement {
            token: held.token,
            ending: Ending::Released { why: why.to_owned() },
        };
        self.engine.settle(held.iter().map(released).collect()).await?;
        let protected = self.engine.protected_elsewhere(&held, HeldLease::lent).await;
        let over = protected.into_iter().map(|(_, lent)| (lent, News::Over(None)));
        self.engine.hear_of_lent(over.collect()).await;
        Ok(())
    }

    /// What a job was given that is secret: it is known only with the job, and what a worker says may repeat it.
    async fn given_to(&self, job: JobId) -> Result<KnownSecrets, EngineError> {
        let job = self.engine.store().job(job).await?.and_then(|record| record.job);
        Ok(job.map(|job| KnownSecrets::of_payload(&job.payload)).unwrap_or_default())
    }

    /// How an attempt ends, at this time by the store's clock: another server may have handed it out.
    fn ending(&self, end: RemoteEnd, ended_at: Timestamp) -> Boxed<'_, Result<Settlement, EngineError>> {
        let RemoteEnd { held, outcome, latency, output } = end;
        let engine = &self.engine;
        let token = held.token;
        let latency = latency.unwrap_or_else(|| ended_at.since(held.leased_at));
        let output = output.map(|text| both_ends(&redact(&text), TEXT_BOUND).into_owned());
        let output = Output { stdout: output.filter(|text| !text.is_empty()), stderr: None };
        let failing = match outcome {
            RemoteOutcome::Succeeded => {
                let succeeded = move |output| {
                    let max_retries = held.max_retries;
                    Ending::Succeeded { latency, exit_code: None, max_retries, output }
                };
                if output.is_empty() {
                    return ready(token, succeeded(None));
                }
                return Box::pin(async move {
                    let known = self.given_to(token.job).await?;
                    let ending = succeeded(Some(Box::new(redacted_output(output, &known))));
                    Ok(Settlement { token, ending })
                });
            }
            RemoteOutcome::Snoozed(delay) => {
                return ready(token, Ending::Snoozed { run_at: engine.now().after(delay), held_for: None });
            }
            RemoteOutcome::Cancelled(why) => {
                return Box::pin(async move {
                    let why = bounded_why(&self.given_to(token.job).await?.mask(&why));
                    Ok(Settlement { token, ending: Ending::Cancelled { why, exit_code: None } })
                });
            }
            RemoteOutcome::Released(why) => {
                return Box::pin(async move {
                    let why = bounded_why(&self.given_to(token.job).await?.mask(&why));
                    Ok(Settlement { token, ending: Ending::Released { why } })
                });
            }
            RemoteOutcome::Dead(why) => set_aside(engine, &why),
            RemoteOutcome::Failed { evidence, again, stack } => {
                let mut failing = classified(engine, &evidence);
                failing.exit_code = evidence.exit_code;
                failing.stack = stack;
                if let Some(again) = again {
                    failing.failure.verdict = if again { Verdict::Yes } else { Verdict::No };
                }
                failing
            }
        };
        let failing = Failing { latency: Some(latency), output, ..failing };
        Box::pin(async move {
            let ending = match engine.store().job(token.job).await?.and_then(|record| record.job) {
                Some(job) => ending_of(engine, &leased(&held, job), failing, None).await,
                // It is over, and so is the lease: that is what the store will find.
                None => Ending::Released { why: "its job is over".to_owned() },
            };
            Ok(Settlement { token, ending })
        })
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// What was leased and is not handed out yet. Whoever goes away meanwhile has got nothing: it is given back.
struct Kept<'a> {
    remote: &'a Remote,
    leased: Vec<LeasedJob>,
}

impl Kept<'_> {
    /// What is past its deadline is not begun, and nobody can finish it.
    async fn set_late_aside(&mut self) -> Result<(), EngineError> {
        let engine = &self.remote.engine;
        let mut settlements = Vec::new();
        for leased in &self.leased {
            if let Some(late) = late(engine, leased) {
                let ending = ending_of(engine, leased, late, None).await;
                settlements.push(Settlement { token: leased.token, ending });
            }
        }
        if !settlements.is_empty() {
            let tokens: Vec<LeaseToken> = settlements.iter().map(|one| one.token).collect();
            engine.settle(settlements).await?;
            self.leased.retain(|leased| !tokens.contains(&leased.token));
        }
        Ok(())
    }

    /// What may not go to its target now is parked.
    async fn park(&mut self) -> Result<(), EngineError> {
        let engine = &self.remote.engine;
        if engine.passes_freely(&self.leased, MadeBy::Elsewhere) {
            return Ok(());
        }
        let endings = engine.gate(&self.leased, MadeBy::Elsewhere, None).await?;
        let parked = self
            .leased
            .iter()
            .zip(endings)
            .filter_map(|(leased, ending)| Some(Settlement { token: leased.token, ending: ending? }));
        let parked: Vec<Settlement> = parked.collect();
        if !parked.is_empty() {
            let tokens: HashSet<LeaseToken> = parked.iter().map(|one| one.token).collect();
            engine.settle(parked).await?;
            self.leased.retain(|leased| !tokens.contains(&leased.token));
        }
        Ok(())
    }

    fn hand_out(mut self, lease_for: Duration, now: Timestamp) -> Vec<HandedOut> {
        let leased = std::mem::take(&mut self.leased);
        let Remote { engine, sealer, .. } = self.remote;
        let (policies, store_id) = (engine.policies(), engine.store().store_id());
        let hand = |leased: LeasedJob| {
            let max_retries = policies.max_retries_of(&leased.job);
            let held = HeldLease::of(&leased, lease_for, max_retries, now);
            let idempotency_key =
                leased.job.idempotency_key.clone().unwrap_or_else(|| leased.job.id.idempotency_key(store_id));
            HandedOut { lease: sealer.write(&held), held, leased, idempotency_key }
        };
        leased.into_iter().map(hand).collect()
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if self.leased.is_empty() {
            return;
        }
        let remote = self.remote.clone();
        let now = remote.engine.now();
        let held = self.leased.iter().map(|leased| HeldLease::of(leased, Duration::ZERO, 0, now)).collect();
        tokio::spawn(async move {
            if let Err(error) = remote.give_back(held).await {
                tracing::warn!(%error, "jobs that nobody got are not given back; their leases lapse");
            }
        });
    }
}

/// A job as its attempt saw it: what it has been through stood in the lease.
fn leased(held: &HeldLease, job: redrive_store::Job) -> LeasedJob {
    LeasedJob {
        token: held.token,
        job,
        attempt: held.attempt,
        retries: held.retries,
        crashes: held.crashes,
        last_delay: held.last_delay,
        hint: None,
        redriven: false,
        begun: true,
        // By the store's clock: nobody asks an attempt that is over.
        expires_at: held.leased_at.after(held.lease_for),
        event: held.event,
    }
}

fn ready(token: LeaseToken, ending: Ending) -> Boxed<'static, Result<Settlement, EngineError>> {
    Box::pin(std::future::ready(Ok(Settlement { token, ending })))
}

fn decided(settlement: &Settlement) -> Decided {
    match &settlement.ending {
        Ending::Succeeded { .. } => Decided::Succeeded,
        Ending::Retry { run_at, delay, failure, .. } => {
            Decided::Retry { run_at: *run_at, delay: *delay, why: failure.decision.record.reasoning.clone() }
        }
        Ending::Dead { failure, letter } => Decided::Dead {
            letter: settlement.token.job,
            reason: letter.reason,
            why: failure.decision.record.reasoning.clone(),
        },
        Ending::Snoozed { run_at, .. } | Ending::Parked { run_at, .. } => {
            Decided::Snoozed { run_at: *run_at }
        }
        Ending::Cancelled { .. } => Decided::Cancelled,
        Ending::Released { .. } => Decided::Released,
    }
}

/// All of them, beside each other, in their order.
async fn all<T>(mut futures: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut ended: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(move |cx| {
        let mut waiting = false;
        for (future, ended) in futures.iter_mut().zip(&mut ended) {
            if ended.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(answer) => *ended = Some(answer),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(ended.iter_mut().filter_map(Option::take).collect()) }
    })
    .await
}
