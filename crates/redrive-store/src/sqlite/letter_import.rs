//! Letters from elsewhere: each becomes a job that is dead, with the event that it came with.

use rusqlite::params;

use super::batch::Batch;
use super::{dead_letter, event, job, sql};
use crate::dead_letter::ImportedLetter;
use crate::effects::Seen;
use crate::error::StoreError;
use crate::event::EventStatus;
use crate::id::JobId;
use crate::job::Enqueued;
use crate::protocol::Standing;
use crate::row::EventRow;
use crate::time::Timestamp;
use crate::told;

pub(super) fn import(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    letters: &[ImportedLetter],
) -> Result<Vec<Enqueued>, StoreError> {
    batch.write_events()?;
    letters.iter().map(|letter| import_one(batch, now, letter)).collect()
}

fn import_one(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    letter: &ImportedLetter,
) -> Result<Enqueued, StoreError> {
    let beside = told::beside(&letter.event_id);
    let mut alias = &letter.event_id;
    for id in [&letter.event_id, &beside] {
        let Some(seq) = event::seq_of(batch, id)? else { continue };
        if let Some(job) = batch.first(sql!("event_job"), [seq.0], |row| row.get(0))?.flatten() {
            return Ok(Enqueued { id: JobId(job), existing: true });
        }
        // An event of that id came before, without the letter.
        alias = &beside;
    }
    let new = &letter.job;
    let lane = batch.lane(new.queue(), &new.kind)?;
    let (id, event) = (batch.next_job(), batch.next_event());
    let source_id = batch.name(new.source())?;
    let enqueued_at = letter.died_at.min(now);
    job::insert(batch, enqueued_at, new, &job::Numbers { id, event, lane, source_id })?;
    let attempts = i64::from(letter.attempts);
    let row = EventRow {
        event_type: "letter_imported",
        source_id,
        status: Some(EventStatus::DeadLetter),
        job: Some(id),
        lane_id: Some(lane),
        parent: new.parent.map(|parent| parent.0),
        attempt: Some(attempts),
        retries: Some(i64::from(letter.retries)),
        max_retries: Some(i64::from(letter.max_retries)),
        importance: Some(5),
        caller_id: new.caller_id.as_deref(),
        imported_at: Some(now.millis()),
        detail: Some(told::letter_imported(letter)),
        ..EventRow::default()
    };
    batch.put_event(event, letter.died_at, &row)?;
    batch.run(sql!("event_alias_insert"), params![alias, event])?;
    dead_letter::write(
        batch,
        &dead_letter::Written {
            id,
            lane,
            died_at: letter.died_at,
            event,
            reason: letter.reason,
            cause: letter.cause,
            retryable: letter.retryable,
            rule: &letter.rule,
            fingerprint: &letter.fingerprint,
            error_type: &letter.error_type,
            error_message: &letter.error_message,
            standing: Standing { fence: 0, attempts, retries: i64::from(letter.retries), crashes: 0 },
            max_retries: letter.max_retries,
            redrives: Some(letter.redrives),
            caller_id: new.caller_id.as_deref(),
            context: &letter.context,
            report: &letter.report,
        },
    )?;
    let seen = Seen {
        at: letter.died_at,
        cause: letter.cause,
        error_type: &letter.error_type,
        sample: &letter.error_message,
    };
    batch.groups.died(now, &letter.fingerprint, seen);
    Ok(Enqueued { id, existing: false })
}
