//! Mending letters: other payloads for them, and letters from elsewhere.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use tokio_postgres::Row;

use super::batch::{JobRow, LetterRow, ReportRow};
use super::event::seqs_of;
use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use crate::dead_letter::{Edited, ImportedLetter, PayloadVersion};
use crate::effects::Seen;
use crate::event::EventStatus;
use crate::id::JobId;
use crate::job::Enqueued;
use crate::row::{EventRow, count};
use crate::seal::{Cell, Seals};
use crate::time::{Timestamp, whole_millis};
use crate::told;

/// Replaces the payload of a letter.
pub(super) struct EditPayload {
    pub(super) now: Timestamp,
    pub(super) id: JobId,
    pub(super) edits: u32,
    pub(super) payload: Vec<u8>,
    pub(super) edited_by: String,
}

impl Verb for EditPayload {
    type Answer = Edited;

    fn needs(&self) -> Vec<Need> {
        vec![Need::Name(told::SOURCE.to_owned()), Need::Name("payload_edited".to_owned())]
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Edited, Fault> {
        let (now, id) = (tx.now(self.now), self.id);
        let Some(row) = tx.line.first(sql!("letter_edit"), args![id.0]).await? else {
            return Ok(Edited::NotDead);
        };
        let edits = count(column(&row, 2)?);
        if edits != self.edits {
            return Ok(Edited::Changed { edits });
        }
        let before = tx.seals.open_bytes(Cell::JobPayload, id.0, column(&row, 0)?)?;
        let version = edits + 1;
        let number = tx.batch.next_event()?;
        let kept = tx.seals.seal_bytes(Cell::VersionPayload, number, &before)?;
        let edited_by = storable(&self.edited_by);
        let (at, as_number, kept): (i64, i64, &[u8]) = (now.millis(), i64::from(version), &kept);
        let rows = args![number, id.0, as_number, at, edited_by, kept];
        tx.line.run(sql!("payload_version_insert"), rows).await?;
        let payload = tx.seals.seal_bytes(Cell::JobPayload, id.0, &self.payload)?;
        exactly(1, tx.line.run(sql!("job_payload_put"), args![id.0, &*payload]).await?)?;
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        let row = told::payload_edited(source_id, id, column(&row, 1)?, version, &self.edited_by);
        tx.batch.event(now, row)?;
        Ok(Edited::Done { version })
    }
}

/// Payloads that were replaced.
pub(super) struct VersionsOf {
    pub(super) id: JobId,
}

impl Question for VersionsOf {
    type Answer = Vec<PayloadVersion>;

    async fn ask(
        &self,
        line: &Line,
        _: &RefCell<Memory>,
        seals: &Seals,
    ) -> Result<Vec<PayloadVersion>, Fault> {
        let read = |row: &Row| {
            Ok(PayloadVersion {
                version: count(column(row, 1)?),
                at: Timestamp::from_millis(column(row, 2)?),
                edited_by: column(row, 3)?,
                payload: seals.open_bytes(Cell::VersionPayload, column(row, 0)?, column(row, 4)?)?,
            })
        };
        line.all(sql!("payload_version_list"), args![self.id.0]).await?.iter().map(read).collect()
    }
}

/// Takes in letters from elsewhere.
pub(super) struct ImportLetters {
    pub(super) now: Timestamp,
    pub(super) letters: Vec<ImportedLetter>,
}

impl Verb for ImportLetters {
    type Answer = Vec<Enqueued>;

    fn needs(&self) -> Vec<Need> {
        let mut needs = vec![Need::Name("letter_imported".to_owned())];
        for ImportedLetter { job, .. } in &self.letters {
            needs.push(Need::Lane { queue: job.queue().to_owned(), kind: job.kind.clone() });
            needs.push(Need::Name(job.source().to_owned()));
        }
        needs
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Enqueued>, Fault> {
        let now = tx.now(self.now);
        let ids: Vec<String> =
            self.letters.iter().flat_map(|one| [one.event_id.clone(), told::beside(&one.event_id)]).collect();
        let mut known = jobs_of(tx.line, &ids).await?;
        let new = i64::try_from(self.letters.len()).unwrap_or(i64::MAX);
        let numbers = tx.line.all(sql!("job_number"), args![new]).await?;
        let (mut added, mut seqs, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (letter, number) in self.letters.iter().zip(&numbers) {
            let (plain, marked) = (letter.event_id.clone(), told::beside(&letter.event_id));
            let here = [&plain, &marked].into_iter().find_map(|id| known.get(id).copied().flatten());
            if let Some(id) = here {
                answers.push(Enqueued { id, existing: true });
                continue;
            }
            let id = JobId(column(number, 0)?);
            let alias = if known.contains_key(&plain) { marked } else { plain };
            seqs.push(self.take_in(tx, now, id, letter)?);
            known.insert(alias.clone(), Some(id));
            added.push(alias);
            answers.push(Enqueued { id, existing: false });
        }
        if !added.is_empty() {
            let written = tx.line.run(sql!("event_alias_insert"), args![added, seqs]).await?;
            exactly(added.len() as u64, written)?;
        }
        Ok(answers)
    }
}

/// The events known by these ids, each with its job if it has one.
async fn jobs_of(line: &Line, ids: &[String]) -> Result<HashMap<String, Option<JobId>>, Fault> {
    let places = seqs_of(line, ids.iter().map(String::as_str)).await?;
    let seqs: Vec<i64> = places.values().map(|seq| seq.0).collect();
    let mut jobs: HashMap<i64, Option<i64>> = HashMap::new();
    for row in line.all(sql!("event_job"), args![seqs]).await? {
        jobs.insert(column(&row, 0)?, column(&row, 1)?);
    }
    let job = |seq: i64| jobs.get(&seq).copied().flatten().map(JobId);
    Ok(places.into_iter().map(|(id, seq)| (id.to_owned(), job(seq.0))).collect())
}

impl ImportLetters {
    /// A job that is a letter from the beginning; answers its event.
    fn take_in(
        &self,
        tx: &mut Tx<'_>,
        now: Timestamp,
        id: JobId,
        letter: &ImportedLetter,
    ) -> Result<i64, Fault> {
        let job = &letter.job;
        let (lane, source_id) = {
            let memory = tx.memory.borrow();
            let lane = memory.lane(job.queue(), &job.kind).map(|lane| lane.id);
            let lane = lane.ok_or_else(|| Fault::Again(format!("the lane of {} is gone", job.kind)))?;
            (lane, memory.name(job.source())?)
        };
        // A fact of the past, told by a file: no clock of today has a say in it.
        let died_at = letter.died_at;
        let row = EventRow {
            event_type: "letter_imported",
            source_id,
            status: Some(EventStatus::DeadLetter),
            job: Some(id),
            lane_id: Some(lane),
            attempt: Some(i64::from(letter.attempts)),
            retries: Some(i64::from(letter.retries)),
            max_retries: Some(i64::from(letter.max_retries)),
            importance: Some(5),
            caller_id: job.caller_id.as_deref(),
            imported_at: Some(now.millis()),
            detail: Some(told::letter_imported(letter)),
            ..EventRow::default()
        };
        let event = tx.batch.event(died_at, row)?;
        let enqueued_at = died_at.min(now).millis();
        let overrides = tx.seals.seal_some(Cell::JobOverrides, id.0, job.overrides.as_deref())?;
        let job_row = JobRow {
            id: id.0,
            lane_id: lane,
            payload: tx.seals.seal_bytes(Cell::JobPayload, id.0, &job.payload)?.into_owned(),
            enqueued_at,
            run_at: enqueued_at,
            rank: -i64::from(job.priority),
            source_id,
            event,
            policy: job.policy.clone(),
            overrides: overrides.map(Cow::into_owned),
            caller_id: job.caller_id.clone(),
            idempotency_key: job.idempotency_key.clone(),
            unique_key: job.unique_key.clone(),
            timeout_ms: job.timeout.map(whole_millis),
            deadline_at: job.deadline_at.map(|deadline| tx.by_our_clock(deadline, self.now).millis()),
            origin: job.origin as i64,
            inline: false,
            target: job.target.clone(),
        };
        tx.batch.job(job_row);
        let seal = |cell, text: &str| tx.seals.seal_text(cell, id.0, text).map(Cow::into_owned);
        let fingerprint = storable(&letter.fingerprint);
        let error_message = storable(&letter.error_message);
        let letter_row = LetterRow {
            job_id: id.0,
            lane_id: lane,
            died_at: died_at.millis(),
            event,
            reason: letter.reason.name().to_owned(),
            cause: letter.cause.name().to_owned(),
            retryable: letter.retryable,
            rule: storable(&letter.rule),
            fingerprint: fingerprint.clone(),
            error_type: storable(&letter.error_type),
            error_message: seal(Cell::LetterMessage, &error_message)?,
            attempts: i64::from(letter.attempts),
            retries: i64::from(letter.retries),
            crashes: 0,
            max_retries: i64::from(letter.max_retries),
            fence: 0,
            caller_id: job.caller_id.clone(),
            redrives: Some(i64::from(letter.redrives)),
        };
        let report_row = ReportRow {
            job_id: id.0,
            context: seal(Cell::LetterContext, &letter.context.to_string())?,
            report: seal(Cell::LetterReport, &letter.report.to_string())?,
        };
        tx.batch.letter(letter_row, report_row);
        tx.batch.count(lane, |delta| delta.dead += 1);
        tx.batch.count_letters(letter.cause, 1);
        let seen =
            Seen { at: died_at, cause: letter.cause, error_type: &letter.error_type, sample: &error_message };
        tx.batch.groups.died(now, &fingerprint, seen);
        Ok(event)
    }
}
