//! Groups: bringing their counts up to date, looking at them, and saying where they stand.

use redrive_policy::Cause;
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};

use super::batch::Batch;
use super::sql;
use super::wheres::Wheres;
use crate::effects::{self, GroupChange, NewLetters};
use crate::error::StoreError;
use crate::letter_group::{Group, GroupCounts, GroupQuery, GroupState};
use crate::seal::Cell;
use crate::time::Timestamp;
use crate::told;

/// Writes what changed in this transaction.
pub(super) fn write(batch: &mut Batch<'_, '_>) -> Result<(), StoreError> {
    for (fingerprint, change) in batch.groups.take() {
        let changed = match (add(batch, &fingerprint, &change)?, &change.letters) {
            (None, Some(letters)) => {
                insert(batch, &fingerprint, letters)?;
                add(batch, &fingerprint, &change)?
            }
            (changed, _) => changed,
        };
        let Some((counts, from)) = changed else {
            tracing::warn!(fingerprint, "a group of letters is not there");
            continue;
        };
        let to = counts.state_after(from, change.counts);
        if to != from {
            move_to(batch, change.now, &fingerprint, (from, to), counts.letters, None)?;
        }
    }
    Ok(())
}

fn insert(batch: &Batch<'_, '_>, fingerprint: &str, letters: &NewLetters) -> Result<(), StoreError> {
    let row = effects::sample_row(fingerprint);
    let sample = batch.seals.seal_text(Cell::GroupSample, row, &letters.sample)?;
    batch.run(
        sql!("group_insert"),
        params![fingerprint, letters.cause.name(), letters.error_type, sample, letters.first_at.millis()],
    )?;
    Ok(())
}

fn add(
    batch: &Batch<'_, '_>,
    fingerprint: &str,
    change: &GroupChange,
) -> Result<Option<(GroupCounts, GroupState)>, StoreError> {
    let GroupCounts { letters, failures, under_way, recovered, relapsed } = change.counts;
    let first_at = change.letters.as_ref().map(|letters| letters.first_at.millis());
    let last_at = change.letters.as_ref().map(|letters| letters.last_at.millis());
    batch.first(
        sql!("group_add"),
        params![fingerprint, letters, failures, under_way, recovered, relapsed, first_at, last_at],
        |row| Ok((counts(row, 0)?, GroupState::from_number(row.get(5)?))),
    )
}

fn counts(row: &Row<'_>, from: usize) -> rusqlite::Result<GroupCounts> {
    Ok(GroupCounts {
        letters: row.get(from)?,
        failures: row.get(from + 1)?,
        under_way: row.get(from + 2)?,
        recovered: row.get(from + 3)?,
        relapsed: row.get(from + 4)?,
    })
}

fn move_to(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    fingerprint: &str,
    (from, to): (GroupState, GroupState),
    letters: i64,
    note: Option<&str>,
) -> Result<(), StoreError> {
    batch.run(sql!("group_state"), params![fingerprint, to.number(), now.millis(), note])?;
    let source_id = batch.name(told::SOURCE)?;
    batch.event(now, &effects::group_moved(source_id, fingerprint, from, to, letters, note))?;
    Ok(())
}

fn read(batch: &Batch<'_, '_>, row: &Row<'_>) -> Result<Group, StoreError> {
    let fingerprint: String = row.get(1)?;
    let sample = match row.get::<_, Option<String>>(4)? {
        Some(sample) => {
            batch.seals.open_text(Cell::GroupSample, effects::sample_row(&fingerprint), sample)?
        }
        None => words_of_a_letter(batch, &fingerprint)?,
    };
    Ok(Group {
        cause: row.get::<_, String>(2)?.parse().unwrap_or(Cause::Unknown),
        error_type: row.get(3)?,
        sample,
        counts: counts(row, 5)?,
        first_seen: Timestamp::from_millis(row.get(10)?),
        last_seen: Timestamp::from_millis(row.get(11)?),
        state: GroupState::from_number(row.get(12)?),
        state_since: Timestamp::from_millis(row.get(13)?),
        note: row.get(14)?,
        fingerprint,
    })
}

/// A group that is older than groups are has no words of its own.
fn words_of_a_letter(batch: &Batch<'_, '_>, fingerprint: &str) -> Result<String, StoreError> {
    let found = batch.first(sql!("group_sample"), [fingerprint], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((id, words)) = found else { return Ok(String::new()) };
    batch.seals.open_text(Cell::LetterMessage, id, words)
}

pub(super) fn groups(
    batch: &Batch<'_, '_>,
    query: &GroupQuery,
    limit: u32,
) -> Result<Vec<Group>, StoreError> {
    let mut wheres = Wheres::default();
    if !query.states.is_empty() {
        wheres.one_of("state", query.states.iter().map(|state| Value::from(state.number())));
    }
    if let Some(cause) = query.cause {
        wheres.must("cause = ?", [cause.name().to_owned().into()]);
    }
    if let Some(prefix) = &query.prefix {
        wheres.must("fingerprint >= ?", [prefix.clone().into()]);
        wheres.must("fingerprint < ?", [beyond(prefix).into()]);
    }
    let (conditions, values) = wheres.finish();
    let text = format!(
        "{}{conditions} ORDER BY letters DESC, last_seen DESC, id LIMIT {limit}",
        sql!("group_list").trim_end()
    );
    let mut statement = batch.connection().prepare_cached(&text)?;
    statement.query_and_then(params_from_iter(values), |row| read(batch, row))?.collect()
}

/// A text that no text which begins so reaches.
pub(super) fn beyond(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}

pub(super) fn set_state(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    fingerprint: &str,
    state: GroupState,
    note: Option<&str>,
) -> Result<Option<Group>, StoreError> {
    write(batch)?;
    let Some(before) = find(batch, fingerprint)? else { return Ok(None) };
    move_to(batch, now, fingerprint, (before.state, state), before.counts.letters, note)?;
    find(batch, fingerprint)
}

fn find(batch: &Batch<'_, '_>, fingerprint: &str) -> Result<Option<Group>, StoreError> {
    let mut statement = batch.statement(sql!("group_read"))?;
    let mut rows = statement.query([fingerprint])?;
    rows.next()?.map(|row| read(batch, row)).transpose()
}

/// Forgets groups of which nothing is left, for long. Answers whether there may be more.
pub(super) fn prune(batch: &mut Batch<'_, '_>, before: Timestamp, limit: u32) -> Result<bool, StoreError> {
    write(batch)?;
    Ok(batch.run(sql!("group_old"), params![before.millis(), limit])? >= limit as usize)
}
