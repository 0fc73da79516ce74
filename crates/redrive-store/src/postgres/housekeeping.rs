//! Keeping the store small: old events and letters go, and what transactions changed in the counters is added up.

use std::time::Duration;

use super::fault::Fault;
use super::line::{args, column};
use super::memory::Need;
use super::texts::sql;
use super::tx::Tx;
use super::verb::Verb;
use super::{dead_letter, event, letter_group, task};
use crate::Pruned;
use crate::metric::hour_of;
use crate::time::{Timestamp, whole_millis};

/// Deletes what is old enough.
pub(super) struct Prune {
    pub(super) now: Timestamp,
    pub(super) events_before: Timestamp,
    pub(super) letters_before: Timestamp,
    pub(super) limit: u32,
}

impl Verb for Prune {
    type Answer = Pruned;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Pruned, Fault> {
        let now = tx.now(self.now);
        let [letters_before, events_before] =
            [self.letters_before, self.events_before].map(|before| tx.by_our_clock(before, self.now));
        let letters = dead_letter::purge(tx, now, letters_before, self.limit).await?;
        let (events, more) = event::prune(tx, events_before, self.limit).await?;
        let oldest_hour = hour_of(Timestamp::from_millis(
            events_before.millis().saturating_sub(whole_millis(HOURS_OUTLAST_EVENTS)),
        ));
        tx.line.run(sql!("hour_old"), args![oldest_hour]).await?;
        let (before, most) = (letters_before.millis(), i64::from(self.limit));
        tx.line.run(sql!("run_old"), args![before, most]).await?;
        tx.line.run(sql!("group_old"), args![before, most]).await?;
        let acks_before = events_before.min(letters_before);
        let more = more | task::prune(tx, events_before, acks_before, self.limit).await?;
        Ok(Pruned { events, letters, more: more || letters >= u64::from(self.limit) })
    }
}

/// What was counted by the hour is kept for so much longer than events.
const HOURS_OUTLAST_EVENTS: Duration = Duration::from_hours(60 * 24);

/// The most changes that are added up by one transaction.
const MOST_DELTAS: i64 = 10_000;
/// The most operations that are forgotten by one transaction.
const MOST_OPERATIONS: i64 = 10_000;
/// For so long somebody may ask what became of an operation.
const REMEMBERED: Duration = Duration::from_hours(1);

/// Adds up what transactions changed in the counters. Nobody waits for it: others only add more changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fold {
    /// Whether old operations are forgotten, too: looking for them reads all of them.
    pub(super) forget: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Folded {
    /// Changes that were added up.
    pub(super) deltas: u64,
    /// Operations that were forgotten.
    pub(super) operations: u64,
    /// Whether there may be more of either.
    pub(super) more: bool,
}

impl Verb for Fold {
    type Answer = Folded;

    fn needs(&self) -> Vec<Need> {
        letter_group::needs()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Folded, Fault> {
        // One process at a time: two would only undo each other.
        let ours = tx.line.first(sql!("delta_turn"), args![]).await?;
        if !ours.map_or(Ok(false), |row| column(&row, 0))? {
            return Ok(Folded::default());
        }
        let row = tx.line.first(sql!("delta_fold"), args![MOST_DELTAS]).await?;
        let deltas: i64 = row.map_or(Ok(0), |row| column(&row, 0))?;
        let mut folded =
            Folded { deltas: deltas.unsigned_abs(), more: deltas >= MOST_DELTAS, ..Folded::default() };
        let changes = letter_group::fold(tx, None, MOST_DELTAS).await?;
        folded.deltas += changes;
        folded.more |= changes >= MOST_DELTAS.unsigned_abs();
        if self.forget {
            let lasts = whole_millis(REMEMBERED);
            folded.operations = tx.line.run(sql!("operation_old"), args![lasts, MOST_OPERATIONS]).await?;
            folded.more |= folded.operations >= MOST_OPERATIONS.unsigned_abs();
        }
        Ok(folded)
    }
}
