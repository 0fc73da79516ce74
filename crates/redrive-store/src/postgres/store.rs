//! What the store promises, each verb by its noun.

use std::future::Future;
use std::time::Duration;

use super::follow::Follow;
use super::operation::{Call, Heartbeat, LeaseAnswer, LeaseCall, Op};
use super::tx::Clock;
use super::verb::{Answered, Question, Verb, question, verb};
use super::{Postgres, check, event, housekeeping, job, job_list, lease, reseal, status, worker};
use crate::error::{StoreError, Trouble};
use crate::event::{Aside, Event, EventFilter, EventId, Events, ImportedEvent, NewEvent, Scrap};
use crate::id::{EventSeq, JobId, WorkerId};
use crate::job::list::{JobPage, JobQuery};
use crate::job::{Enqueued, JobRecord, Jobs, MAX_BATCH, NewJob, RunNow, few_enough, validate};
use crate::lease::{LeaseRequest, LeaseToken, LeasedJob, Leases, Renewal, Seized};
use crate::settle::{Settled, Settlement};
use crate::status::StoreStatus;
use crate::time::Timestamp;
use crate::worker::{Takes, WorkerPresence, Workers};
use crate::{Answer, CheckReport, Housekeeping, Pruned, Resealed};

async fn answered<T>(answer: Answered<T>) -> Result<T, StoreError> {
    answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))
}

impl Postgres {
    pub(super) fn call<A, T>(
        &self,
        now: Timestamp,
        ask: A,
        op: fn(Call<A, T>) -> Op,
    ) -> impl Future<Output = Result<T, StoreError>> + use<A, T> {
        let (call, answer) = Call::new(now, ask);
        self.desk.submit(op(call));
        answered(answer)
    }

    pub(super) fn write<V: Verb>(
        &self,
        what: V,
    ) -> impl Future<Output = Result<V::Answer, StoreError>> + use<V> {
        let (verb, answer) = verb(what);
        self.desk.verb(verb);
        answered(answer)
    }

    pub(super) fn read<Q: Question>(
        &self,
        what: Q,
    ) -> impl Future<Output = Result<Q::Answer, StoreError>> + use<Q> {
        let (question, answer) = question(what);
        self.desk.ask(question);
        answered(answer)
    }

    /// A caller's time for a question, unless the database's decides.
    pub(super) fn time(&self, now: Timestamp) -> Option<i64> {
        (self.clock == Clock::Caller).then(|| now.millis())
    }
}

impl Jobs for Postgres {
    fn enqueue(&self, now: Timestamp, jobs: Vec<NewJob>) -> Answer<'_, Vec<Enqueued>> {
        Box::pin(async move {
            validate(&jobs)?;
            self.call(now, jobs, Op::Enqueue).await
        })
    }

    fn job(&self, id: JobId) -> Answer<'_, Option<JobRecord>> {
        Box::pin(self.read(job::JobOf { id }))
    }

    fn list_jobs(&self, now: Timestamp, query: JobQuery) -> Answer<'_, JobPage> {
        Box::pin(self.read(job_list::ListJobs { now: self.time(now), query }))
    }

    fn run_now(&self, now: Timestamp, id: JobId) -> Answer<'_, RunNow> {
        Box::pin(self.write(job::RunNow { now, id }))
    }

    fn cancel(&self, now: Timestamp, id: JobId, why: String) -> Answer<'_, Option<bool>> {
        Box::pin(self.write(job::Cancel { now, id, why }))
    }

    fn unfinished(&self, queues: Vec<String>, kinds: Vec<String>) -> Answer<'_, bool> {
        Box::pin(self.read(job::Unfinished { queues, kinds }))
    }
}

impl Leases for Postgres {
    fn lease(&self, now: Timestamp, mut request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>> {
        request.max = request.max.min(MAX_BATCH);
        Box::pin(async move {
            let (call, answer) = LeaseCall::new(now, request);
            self.desk.submit(Op::Lease(call));
            LeaseAnswer::new(&self.desk, now, answer).await
        })
    }

    fn begin(&self, now: Timestamp, tokens: Vec<LeaseToken>) -> Answer<'_, Vec<bool>> {
        Box::pin(async move {
            few_enough(tokens.len())?;
            self.call(now, tokens, Op::Begin).await
        })
    }

    fn renew(
        &self,
        now: Timestamp,
        worker: WorkerId,
        presence_for: Duration,
        tokens: Vec<LeaseToken>,
    ) -> Answer<'_, Vec<Renewal>> {
        Box::pin(async move {
            few_enough(tokens.len())?;
            self.call(now, Heartbeat { worker, presence_for, tokens }, Op::Renew).await
        })
    }

    fn settle(&self, now: Timestamp, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>> {
        Box::pin(async move {
            few_enough(settlements.len())?;
            self.call(now, settlements, Op::Settle).await
        })
    }

    fn seize_expired(
        &self,
        now: Timestamp,
        reaper: WorkerId,
        lease_for: Duration,
        max: usize,
    ) -> Answer<'_, Vec<Seized>> {
        let max = max.min(MAX_BATCH);
        Box::pin(async move {
            // Mostly there is nothing, and nobody need write that down.
            if !self.read(lease::ReaperWanted { now: self.time(now) }).await? {
                return Ok(Vec::new());
            }
            self.write(lease::SeizeExpired { now, reaper, lease_for, max }).await
        })
    }
}

impl Events for Postgres {
    fn append(&self, now: Timestamp, events: Vec<NewEvent>) -> Answer<'_, Vec<(EventSeq, EventId)>> {
        Box::pin(async move {
            few_enough(events.len())?;
            events.iter().try_for_each(NewEvent::validate)?;
            self.write(event::Append { now, events }).await
        })
    }

    fn import(&self, now: Timestamp, events: Vec<ImportedEvent>, scraps: Vec<Scrap>) -> Answer<'_, u64> {
        Box::pin(async move {
            few_enough(events.len().saturating_add(scraps.len()))?;
            events.iter().try_for_each(ImportedEvent::validate)?;
            self.write(event::Import { now, events, scraps }).await
        })
    }

    fn events(&self, filter: EventFilter, limit: u32) -> Answer<'_, Vec<Event>> {
        Box::pin(self.read(event::EventsOf { filter, limit }))
    }

    fn event(&self, id: String) -> Answer<'_, Option<Event>> {
        Box::pin(self.read(event::EventOf { id }))
    }

    fn causality(&self, seq: EventSeq, limit: u32) -> Answer<'_, Vec<Event>> {
        Box::pin(self.read(event::Causality { seq, limit }))
    }

    fn wait_for_events(&self, after: EventSeq, wait: Duration) -> Answer<'_, EventSeq> {
        Box::pin(async move {
            let (follow, answer) = Follow::new(after, wait);
            self.desk.follow(follow);
            answered(answer).await
        })
    }

    fn asides(&self, after: i64, limit: u32) -> Answer<'_, Vec<Aside>> {
        Box::pin(self.read(event::Asides { after, limit }))
    }
}

impl Workers for Postgres {
    fn register(&self, now: Timestamp, label: String, presence_for: Duration) -> Answer<'_, WorkerId> {
        Box::pin(async move {
            let worker = self.write(worker::Register { now, label, presence_for }).await?;
            self.desk.came(worker);
            Ok(worker)
        })
    }

    fn takes(&self, worker: WorkerId, takes: Takes) -> Answer<'_, ()> {
        Box::pin(self.write(worker::TakesOnly { worker, takes }))
    }

    fn unregister(&self, _: Timestamp, worker: WorkerId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.desk.went(worker);
            self.write(lease::Unregister { worker }).await
        })
    }

    fn workers(&self, now: Timestamp) -> Answer<'_, Vec<WorkerPresence>> {
        Box::pin(self.read(worker::WorkersOf { now: self.time(now) }))
    }
}

impl Housekeeping for Postgres {
    fn store_id(&self) -> u64 {
        self.store_id
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn answers(&self) -> bool {
        self.desk.answers()
    }

    fn clock(&self) -> Answer<'_, Option<Timestamp>> {
        match self.clock {
            Clock::Database => Box::pin(async { Ok(Some(self.read(status::ClockOf).await?)) }),
            Clock::Caller => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn status(&self, now: Timestamp) -> Answer<'_, StoreStatus> {
        Box::pin(self.read(status::StatusOf { now: self.time(now) }))
    }

    fn check(&self) -> Answer<'_, CheckReport> {
        Box::pin(self.read(check::Check))
    }

    fn backup<'a>(&'a self, to: &'a std::path::Path) -> Answer<'a, ()> {
        let (address, to) = (self.address.clone(), to.to_owned());
        Box::pin(async move {
            let (reply, answer) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || drop(reply.send(super::backup::copy(&address, &to))));
            answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))
        })
    }

    fn prune(
        &self,
        now: Timestamp,
        events_before: Timestamp,
        letters_before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Pruned> {
        Box::pin(self.write(housekeeping::Prune { now, events_before, letters_before, limit }))
    }

    fn reseal(&self, now: Timestamp, limit: u32) -> Answer<'_, Resealed> {
        Box::pin(self.write(reseal::Reseal { now, limit }))
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.desk.close().await;
            Ok(())
        })
    }
}
