//! What one transaction is going to write: rows by table, each written by one statement, and what the counters change by.
//!
//! Every verb reads and takes what it needs first, then says here what follows from it. All of it goes out at once, with
//! the commit behind it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{join_all, try_join};
use redrive_policy::Cause;

use super::fault::Fault;
use super::key_rows::KeyWrites;
use super::line::{Arg, Line, Typed, args};
use super::memory::Memory;
use super::texts::{sql, storable};
use crate::effects::{GroupChanges, Tally, sample_row};
use crate::event::EventStatus;
use crate::id::JobId;
use crate::redrive::{FirstAttempt, RunId};
use crate::row::EventRow;
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

/// A table's rows, as one array per column.
macro_rules! table {
    ($(#[$about:meta])* $row:ident in $columns:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(super) struct $row { $(pub(super) $field: $type),* }

        #[derive(Debug, Default)]
        pub(super) struct $columns { $(pub(super) $field: Vec<$type>),* }

        impl $columns {
            pub(super) fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field);)*
            }

            pub(super) fn args(&self) -> Vec<Arg<'_>> {
                vec![$(self.$field.arg()),*]
            }
        }
    };
}

pub(super) use table;

table! {
    /// A new job.
    JobRow in Jobs {
        id: i64, lane_id: i64, payload: Vec<u8>, enqueued_at: i64, run_at: i64, rank: i64, source_id: i64, event: i64,
        policy: Option<String>, overrides: Option<String>, caller_id: Option<String>, idempotency_key: Option<String>,
        unique_key: Option<String>, timeout_ms: Option<i64>, deadline_at: Option<i64>, origin: i64, inline: bool,
        target: Option<String>,
    }
}
table! {
    /// A job that waits.
    ReadyRow in Readies { lane_id: i64, rank: i64, run_at: i64, job_id: i64 }
}
table! {
    /// A lease.
    LeaseRow in Leases {
        job_id: i64, lane_id: i64, fence: i64, worker_id: i64, leased_at: i64, expires_at: i64, lease_for_ms: i64,
        begun_at: Option<i64>, attempts: i64, retries: i64, crashes: i64, source_id: i64, flags: i64, event: i64,
    }
}
table! {
    /// A lease whose execution begins.
    BegunRow in Beginnings { job_id: i64, attempts: i64, begun_at: i64, event: i64 }
}
table! {
    /// What a job that is put back has been through.
    ProgressRow in Progress {
        job_id: i64, run_at: i64, held_for: Option<i64>, fence: i64, attempts: i64, retries: i64, crashes: i64,
        last_delay_ms: Option<i64>, hint: Option<String>, event: i64,
    }
}
table! {
    /// A letter.
    LetterRow in Letters {
        job_id: i64, lane_id: i64, died_at: i64, event: i64, reason: String, cause: String, retryable: bool, rule: String,
        fingerprint: String, error_type: String, error_message: String, attempts: i64, retries: i64, crashes: i64,
        max_retries: i64, fence: i64, caller_id: Option<String>, redrives: Option<i64>,
    }
}
table! {
    /// What a letter says at length.
    ReportRow in Reports { job_id: i64, context: String, report: String }
}
table! {
    /// The group of a letter.
    GroupRow in GroupRows {
        fingerprint: String, cause: String, error_type: String, sample: String, first_seen: i64, last_seen: i64, since: i64,
    }
}
table! {
    /// A group, added up.
    GroupPutRow in GroupPuts {
        fingerprint: String, letters: i64, failures: i64, under_way: i64, recovered: i64, relapsed: i64, last_seen: i64,
        state: i64, state_since: i64, note: Option<String>,
    }
}
table! {
    /// How much a group's counts move.
    GroupDeltaRow in GroupDeltas {
        fingerprint: String, letters: i64, failures: i64, under_way: i64, recovered: i64, relapsed: i64,
        seen_at: Option<i64>, at: i64,
    }
}
table! {
    /// How a first attempt after a redrive went.
    ItemRow in Items { run_id: i64, job_id: i64, outcome: i64, fingerprint: Option<String> }
}
table! {
    /// The end of a job's story.
    EndedRow in Ended { job_id: i64, event: i64 }
}
table! {
    /// An event that its columns say all about.
    PlainEventRow in PlainEvents {
        seq: i64, at: i64, type_id: i64, source_id: i64, status: i64, job_id: Option<i64>, lane_id: Option<i64>,
        parent: Option<i64>, attempt: Option<i64>, retries: Option<i64>, max_retries: Option<i64>, latency_ms: Option<i64>,
    }
}
table! {
    /// Any other event.
    FullEventRow in FullEvents {
        seq: i64, at: i64, type_id: i64, source_id: i64, status: i64, job_id: Option<i64>, lane_id: Option<i64>,
        parent: Option<i64>, attempt: Option<i64>, retries: Option<i64>, max_retries: Option<i64>, latency_ms: Option<i64>,
        exit_code: Option<i64>, importance: Option<i64>, hypothesis: Option<String>, caller_id: Option<String>,
        tags: Option<String>, imported_at: Option<i64>, detail: Option<String>,
    }
}
table! {
    /// A unique key that is free again.
    UniqueRow in Uniques { queue_id: i64, key: String, job_id: i64 }
}

/// How much one lane's counters move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LaneDelta {
    pub(super) ready: i64,
    pub(super) leased: i64,
    pub(super) dead: i64,
    pub(super) succeeded: i64,
    pub(super) cancelled: i64,
    pub(super) discarded: i64,
}

table! {
    DeltaRow in Deltas {
        lane_id: Option<i64>, ready: i64, leased: i64, dead: i64, succeeded: i64, cancelled: i64, discarded: i64,
        events: i64, failed_events: i64, cause: Option<String>, letters: i64, hours: Option<String>,
    }
}

/// The numbers that a transaction gives to its events: made of its own, so that their order is the order of transactions.
pub(super) const EVENTS_PER_TRANSACTION: i64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Batch {
    memory: Rc<RefCell<Memory>>,
    seals: Arc<Seals>,
    first_event: i64,
    taken: i64,
    jobs: Jobs,
    readies: Readies,
    leases: Leases,
    begun: Beginnings,
    progress: Progress,
    letters: Letters,
    reports: Reports,
    items: Items,
    ended: Ended,
    plain_events: PlainEvents,
    full_events: FullEvents,
    unique_freed: Uniques,
    leases_gone: Vec<i64>,
    progress_gone: Vec<i64>,
    jobs_gone: Vec<i64>,
    reports_gone: Vec<i64>,
    versions_gone: Vec<i64>,
    strangers: Vec<i64>,
    /// What is written about idempotency keys.
    pub(super) keys: KeyWrites,
    /// How groups of letters change.
    pub(super) groups: GroupChanges,
    /// What is counted for the hours.
    pub(super) tally: Tally,
    lanes: Vec<(i64, LaneDelta)>,
    dead: Vec<(Cause, i64)>,
    events: i64,
    failed_events: i64,
    /// When the first of the jobs that were made ready here is due.
    pub(super) soonest: Option<Timestamp>,
    pub(super) latest: Option<Timestamp>,
}

impl Batch {
    pub(super) fn new(memory: Rc<RefCell<Memory>>, seals: Arc<Seals>, first_event: i64) -> Batch {
        Batch {
            memory,
            seals,
            first_event,
            taken: 0,
            jobs: Jobs::default(),
            readies: Readies::default(),
            leases: Leases::default(),
            begun: Beginnings::default(),
            progress: Progress::default(),
            letters: Letters::default(),
            reports: Reports::default(),
            items: Items::default(),
            ended: Ended::default(),
            plain_events: PlainEvents::default(),
            full_events: FullEvents::default(),
            unique_freed: Uniques::default(),
            leases_gone: Vec::new(),
            progress_gone: Vec::new(),
            jobs_gone: Vec::new(),
            reports_gone: Vec::new(),
            versions_gone: Vec::new(),
            strangers: Vec::new(),
            keys: KeyWrites::default(),
            groups: GroupChanges::default(),
            tally: Tally::default(),
            lanes: Vec::new(),
            dead: Vec::new(),
            events: 0,
            failed_events: 0,
            soonest: None,
            latest: None,
        }
    }

    /// Whether every event of this transaction comes after that one.
    pub(super) fn is_after(&self, event: i64) -> bool {
        event < self.first_event
    }

    /// The first of this transaction's numbers.
    pub(super) fn first_event(&self) -> i64 {
        self.first_event
    }

    /// The first numbers are given to something else, which is done before anything else takes one.
    pub(super) fn give_away(&mut self, count: usize) {
        self.taken += i64::try_from(count).unwrap_or(i64::MAX);
    }

    /// A number of its own from this transaction's.
    pub(super) fn next_event(&mut self) -> Result<i64, Fault> {
        if self.taken >= EVENTS_PER_TRANSACTION {
            return Err(Fault::corrupt("one transaction holds at most 1048576 events"));
        }
        self.taken += 1;
        Ok(self.first_event + self.taken - 1)
    }

    /// Appends an event.
    pub(super) fn event(&mut self, at: Timestamp, row: EventRow<'_>) -> Result<i64, Fault> {
        let seq = self.next_event()?;
        self.put_event(seq, at, row)?;
        Ok(seq)
    }

    /// Appends an event under a number taken before.
    pub(super) fn put_event(&mut self, seq: i64, at: Timestamp, row: EventRow<'_>) -> Result<(), Fault> {
        // A story goes forward. What we take over was told by a transaction with a higher number than ours: the next one of
        // ours has one that is higher still.
        let goes_on = row.lane_id.is_some() && row.event_type != "job_enqueued";
        if goes_on && row.parent.is_some_and(|parent| parent >= seq) {
            return Err(Fault::Again(format!("event {seq} would stand before what led to it")));
        }
        let status = row.status.unwrap_or(EventStatus::Pending);
        let type_id = self.memory.borrow().name(row.event_type)?;
        self.events += 1;
        // A letter is counted as a letter; what failed without one is counted here.
        self.failed_events += i64::from(status == EventStatus::Failed);
        let plain = PlainEventRow {
            seq,
            at: at.millis(),
            type_id,
            source_id: row.source_id,
            status: status as i64,
            job_id: row.job.map(|job| job.0),
            lane_id: row.lane_id,
            parent: row.parent,
            attempt: row.attempt,
            retries: row.retries,
            max_retries: row.max_retries,
            latency_ms: row.latency_ms,
        };
        let is_plain = row.detail.is_none()
            && row.exit_code.is_none()
            && row.caller_id.is_none()
            && row.hypothesis.is_none()
            && row.importance.is_none()
            && row.tags.is_none()
            && row.imported_at.is_none();
        if is_plain {
            self.plain_events.push(plain);
            return Ok(());
        }
        let detail =
            self.seals.seal_some(Cell::EventDetail, seq, row.detail.as_deref())?.map(Cow::into_owned);
        self.full_events.push(FullEventRow {
            seq,
            at: plain.at,
            type_id,
            source_id: plain.source_id,
            status: plain.status,
            job_id: plain.job_id,
            lane_id: plain.lane_id,
            parent: plain.parent,
            attempt: plain.attempt,
            retries: plain.retries,
            max_retries: plain.max_retries,
            latency_ms: plain.latency_ms,
            exit_code: row.exit_code.map(i64::from),
            importance: row.importance.map(i64::from),
            hypothesis: row.hypothesis.map(str::to_owned),
            caller_id: row.caller_id.map(str::to_owned),
            tags: row.tags,
            imported_at: row.imported_at,
            detail,
        });
        Ok(())
    }

    /// Events that are no more.
    pub(super) fn events_went(&mut self, count: i64, failed: i64) {
        self.events -= count;
        self.failed_events -= failed;
    }

    /// Moves a lane's counters.
    pub(super) fn count(&mut self, lane: i64, change: impl FnOnce(&mut LaneDelta)) {
        // A handful of lanes per transaction: looking through them beats hashing.
        let at = self.lanes.iter().position(|(id, _)| *id == lane).unwrap_or_else(|| {
            self.lanes.push((lane, LaneDelta::default()));
            self.lanes.len() - 1
        });
        change(&mut self.lanes[at].1);
    }

    /// Moves the number of letters of a cause.
    pub(super) fn count_letters(&mut self, cause: Cause, letters: i64) {
        match self.dead.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += letters,
            None => self.dead.push((cause, letters)),
        }
    }

    pub(super) fn job(&mut self, row: JobRow) {
        self.jobs.push(row);
    }

    /// Puts a job where workers look for it.
    pub(super) fn make_ready(
        &mut self,
        job: JobId,
        lane: i64,
        held_for: Option<i64>,
        rank: i64,
        run_at: Timestamp,
    ) {
        let lane_id = held_for.map_or(lane, |worker| -worker);
        self.strangers.extend(held_for);
        self.readies.push(ReadyRow { lane_id, rank, run_at: run_at.millis(), job_id: job.0 });
        self.count(lane, |delta| delta.ready += 1);
        self.soonest = Some(self.soonest.map_or(run_at, |soonest| soonest.min(run_at)));
        self.latest = self.latest.max(Some(run_at));
    }

    pub(super) fn lease(&mut self, row: LeaseRow) {
        self.leases.push(row);
    }

    pub(super) fn begin(&mut self, row: BegunRow) {
        self.begun.push(row);
    }

    pub(super) fn progress(&mut self, row: ProgressRow) {
        self.progress.push(row);
    }

    pub(super) fn letter(&mut self, row: LetterRow, report: ReportRow) {
        self.letters.push(row);
        self.reports.push(report);
    }

    /// A letter is no more; its row is deleted by who takes it.
    pub(super) fn drop_report(&mut self, job: JobId) {
        self.reports_gone.push(job.0);
    }

    /// The first attempt of a job that a run has put back has ended, or will never be.
    pub(super) fn judge(&mut self, run: RunId, job: JobId, first: FirstAttempt, failed_with: Option<&str>) {
        let fingerprint = failed_with.map(storable);
        self.items.push(ItemRow { run_id: run.0, job_id: job.0, outcome: first.number(), fingerprint });
    }

    /// The job's row goes; its story stays, and ends with this event.
    pub(super) fn end(&mut self, job: JobId, event: i64) {
        self.jobs_gone.push(job.0);
        self.ended.push(EndedRow { job_id: job.0, event });
    }

    /// A job that was a letter once is over: payloads that were replaced go with it.
    pub(super) fn drop_versions(&mut self, job: JobId) {
        self.versions_gone.push(job.0);
    }

    pub(super) fn drop_lease(&mut self, job: JobId) {
        self.leases_gone.push(job.0);
    }

    pub(super) fn drop_progress(&mut self, job: JobId) {
        self.progress_gone.push(job.0);
    }

    pub(super) fn free_key(&mut self, queue_id: i64, key: String, job: JobId) {
        self.unique_freed.push(UniqueRow { queue_id, key, job_id: job.0 });
    }

    /// What groups there must be, and how they change.
    fn group_changes(&mut self) -> Result<(GroupRows, GroupDeltas), Fault> {
        let (mut rows, mut deltas) = (GroupRows::default(), GroupDeltas::default());
        for (fingerprint, change) in self.groups.take() {
            let fingerprint = storable(&fingerprint);
            let seen_at = change.letters.as_ref().map(|letters| letters.last_at.millis());
            let counts = change.counts;
            deltas.push(GroupDeltaRow {
                fingerprint: fingerprint.clone(),
                letters: counts.letters,
                failures: counts.failures,
                under_way: counts.under_way,
                recovered: counts.recovered,
                relapsed: counts.relapsed,
                seen_at,
                at: change.now.millis(),
            });
            let Some(letters) = change.letters else { continue };
            let sample = storable(&letters.sample);
            let sample = self.seals.seal_text(Cell::GroupSample, sample_row(&fingerprint), &sample)?;
            rows.push(GroupRow {
                fingerprint,
                cause: letters.cause.name().to_owned(),
                error_type: storable(&letters.error_type),
                sample: sample.into_owned(),
                first_seen: letters.first_at.millis(),
                last_seen: letters.last_at.millis(),
                since: change.now.millis(),
            });
        }
        Ok((rows, deltas))
    }

    fn deltas(&mut self) -> Deltas {
        let mut deltas = Deltas::default();
        let mut hours: HashMap<i64, Vec<i64>> = HashMap::new();
        for ((hour, lane, what), n) in self.tally.take() {
            hours.entry(lane).or_default().extend([hour, what, n]);
        }
        // What is counted without moving a counter needs a row all the same.
        for lane in hours.keys() {
            self.count(*lane, |_| {});
        }
        let (mut events, mut failed_events) = (self.events, self.failed_events);
        let nothing = DeltaRow {
            lane_id: None,
            ready: 0,
            leased: 0,
            dead: 0,
            succeeded: 0,
            cancelled: 0,
            discarded: 0,
            events: 0,
            failed_events: 0,
            cause: None,
            letters: 0,
            hours: None,
        };
        for (lane, delta) in &self.lanes {
            let hours = hours.get(lane).map(|hours| array(hours));
            if *delta == LaneDelta::default() && hours.is_none() {
                continue;
            }
            let LaneDelta { ready, leased, dead, succeeded, cancelled, discarded } = *delta;
            deltas.push(DeltaRow {
                lane_id: Some(*lane),
                ready,
                leased,
                dead,
                succeeded,
                cancelled,
                discarded,
                events: std::mem::take(&mut events),
                failed_events: std::mem::take(&mut failed_events),
                hours,
                ..nothing.clone()
            });
        }
        for (cause, letters) in self.dead.iter().filter(|(_, letters)| *letters != 0) {
            deltas.push(DeltaRow {
                cause: Some(cause.name().to_owned()),
                letters: *letters,
                ..nothing.clone()
            });
        }
        if events != 0 || failed_events != 0 {
            deltas.push(DeltaRow { events, failed_events, ..nothing });
        }
        deltas
    }

    /// Writes everything. Whoever reads inside the transaction what it has said here does this first.
    pub(super) async fn write(&mut self, line: &Line) -> Result<(), Fault> {
        self.write_and(line, async { Ok(()) }).await
    }

    /// Writes everything, with `last` behind it in the same breath.
    pub(super) async fn write_and(
        &mut self,
        line: &Line,
        last: impl Future<Output = Result<(), Fault>>,
    ) -> Result<(), Fault> {
        let deltas = self.deltas();
        let (groups, group_deltas) = self.group_changes()?;
        let gone = [
            &self.leases_gone,
            &self.progress_gone,
            &self.jobs_gone,
            &self.reports_gone,
            &self.versions_gone,
        ]
        .map(|gone| vec![gone.arg()]);
        let strangers = args![self.strangers].to_vec();
        // In an order in which what is deleted has been read, and what refers to others comes after them.
        let mut statements: Vec<(&'static str, bool, Vec<Arg<'_>>)> = vec![
            (sql!("worker_stranger"), self.strangers.is_empty(), strangers),
            (sql!("lease_delete"), self.leases_gone.is_empty(), gone[0].clone()),
            (sql!("job_insert"), self.jobs.id.is_empty(), self.jobs.args()),
            (sql!("lease_insert"), self.leases.job_id.is_empty(), self.leases.args()),
            (sql!("lease_begin"), self.begun.job_id.is_empty(), self.begun.args()),
            (sql!("letter_insert"), self.letters.job_id.is_empty(), self.letters.args()),
            (sql!("letter_report_delete"), self.reports_gone.is_empty(), gone[3].clone()),
            (sql!("letter_report_insert"), self.reports.job_id.is_empty(), self.reports.args()),
            (sql!("item_judge"), self.items.job_id.is_empty(), self.items.args()),
            (sql!("payload_version_delete"), self.versions_gone.is_empty(), gone[4].clone()),
            (sql!("unique_delete"), self.unique_freed.job_id.is_empty(), self.unique_freed.args()),
            (sql!("progress_delete"), self.progress_gone.is_empty(), gone[1].clone()),
            (sql!("job_delete"), self.jobs_gone.is_empty(), gone[2].clone()),
            (sql!("progress_put"), self.progress.job_id.is_empty(), self.progress.args()),
            (sql!("ready_insert"), self.readies.job_id.is_empty(), self.readies.args()),
            (sql!("ended_insert"), self.ended.job_id.is_empty(), self.ended.args()),
            (sql!("event_insert_plain"), self.plain_events.seq.is_empty(), self.plain_events.args()),
            (sql!("event_insert"), self.full_events.seq.is_empty(), self.full_events.args()),
            (sql!("group_insert"), groups.fingerprint.is_empty(), groups.args()),
            (sql!("group_delta_insert"), group_deltas.fingerprint.is_empty(), group_deltas.args()),
            (sql!("delta_insert"), deltas.letters.is_empty(), deltas.args()),
        ];
        statements.extend(self.keys.statements());
        let writes = statements
            .iter()
            .filter(|(_, is_empty, _)| !is_empty)
            .map(|(sql, _, args)| async { line.run(sql, args).await.map(|_| ()) });
        let writes = async {
            // The first that failed says why; those behind it only say that something did.
            join_all(writes).await.into_iter().collect::<Result<(), Fault>>()
        };
        // Both are polled in this order, so they go out in this order.
        let result = try_join(writes, last).await.map(|_| ());
        let (first_event, taken) = (self.first_event, self.taken);
        let (soonest, latest) = (self.soonest, self.latest);
        *self = Batch {
            taken,
            soonest,
            latest,
            ..Batch::new(Rc::clone(&self.memory), Arc::clone(&self.seals), first_event)
        };
        result
    }
}

/// Numbers as the database writes an array of them.
fn array(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}
