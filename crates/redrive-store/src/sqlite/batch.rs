//! One transaction's worth of work: the connection, the sequences, interned names, and the counters that are brought up
//! to date once at its end.
//!
//! Every verb of this store is a function over a [`Batch`], so the writer runs many callers' verbs in one transaction,
//! and `enqueue_in` runs one inside somebody else's.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use redrive_policy::{Cause, Class};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::statements::{Prepared, Statements};
use super::{letter_group, metric, sql};
use crate::effects::{GroupChanges, Tally};
use crate::error::{StoreError, Trouble};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::row::EventRow;
use crate::seal::{Cell, KeyRow, Seals};
use crate::time::Timestamp;

/// How many plain events are written at once.
const EIGHT: usize = 8;

/// What the writer remembers between transactions. Names and lanes are never deleted, so what is known stays true.
#[derive(Debug, Default)]
pub(super) struct Memory {
    names: HashMap<String, i64>,
    texts: HashMap<i64, String>,
    lanes: HashMap<String, HashMap<String, i64>>,
    by_id: HashMap<i64, Lane>,
    /// Whether all lanes are known; only true while nobody else has written.
    knows_lanes: bool,
    /// Grows when a lane becomes known: who looked before must look again.
    pub(super) lanes_seen: u64,
    /// The sequences after our last commit; only true while nobody else has written.
    sequences: Option<(i64, i64)>,
    /// The keys' epoch at the same moment.
    key_epoch: i64,
    /// Until when no work is handed out, read at the same moment.
    draining_until: i64,
    /// Queues none of whose work is handed out; unknown when somebody else has written.
    pub(super) paused: Option<HashSet<i64>>,
    /// Lanes with nothing due, and when that may change. Only true while nobody else has written.
    pub(super) idle: HashMap<i64, Option<Instant>>,
}

impl Memory {
    /// Somebody else has written: what was concluded from our own writes no longer holds.
    pub(super) fn others_wrote(&mut self) {
        self.sequences = None;
        self.knows_lanes = false;
        self.paused = None;
        self.idle.clear();
    }

    /// The last event, as long as nobody else has written.
    pub(super) fn last_event(&self) -> Option<i64> {
        self.sequences.map(|(_, next)| next - 1)
    }

    /// After a rollback: ids that were given out in it may be given to others.
    pub(super) fn forget(&mut self) {
        *self = Memory { lanes_seen: self.lanes_seen + 1, ..Memory::default() };
    }
}

/// The jobs of one kind in one queue.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) queue_id: i64,
    pub(super) queue: String,
    pub(super) kind: String,
}

/// How much one lane's counters move.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneDelta {
    pub(super) ready: i64,
    pub(super) leased: i64,
    pub(super) dead: i64,
    pub(super) succeeded: i64,
    pub(super) cancelled: i64,
    pub(super) discarded: i64,
}

pub(super) struct Batch<'a, 'c> {
    statements: &'a Statements<'c>,
    pub(super) memory: &'a mut Memory,
    sequences: (i64, i64),
    read: (i64, i64),
    /// The keys that hold in this transaction, and since when.
    pub(super) seals: Arc<Seals>,
    key_epoch: i64,
    lanes: Vec<(i64, LaneDelta)>,
    dead: Vec<(Cause, i64)>,
    /// How groups of letters change.
    pub(super) groups: GroupChanges,
    /// What is counted for the hours.
    pub(super) tally: Tally,
    /// Plain events that are not written yet.
    plain_events: Vec<[Option<i64>; 12]>,
    events: i64,
    failed_events: i64,
    /// Lanes in which something became ready.
    pub(super) readied: Vec<i64>,
}

impl<'a, 'c> Batch<'a, 'c> {
    /// Begins; the transaction is open already.
    pub(super) fn begin(
        statements: &'a Statements<'c>,
        memory: &'a mut Memory,
    ) -> Result<Batch<'a, 'c>, StoreError> {
        let (read, key_epoch) = if let Some(known) = memory.sequences {
            (known, memory.key_epoch)
        } else {
            let mut statement = statements.get(sql!("sequences_read"))?;
            let (read, key_epoch, draining_until, store_id) = statement.query_row([], |row| {
                Ok(((row.get(0)?, row.get(1)?), row.get(2)?, row.get(3)?, row.get::<_, i64>(4)?))
            })?;
            if store_id.cast_unsigned() != statements.keeper().store_id() {
                return Err(Trouble::Replaced.into());
            }
            memory.draining_until = draining_until;
            (read, key_epoch)
        };
        let seals = match statements.keeper().known(key_epoch) {
            Some(seals) => seals,
            None => statements.keeper().learn(key_epoch, &key_rows(statements)?)?,
        };
        Ok(Batch {
            statements,
            memory,
            sequences: read,
            read,
            seals,
            key_epoch,
            lanes: Vec::new(),
            dead: Vec::new(),
            groups: GroupChanges::default(),
            tally: Tally::default(),
            plain_events: Vec::with_capacity(EIGHT),
            events: 0,
            failed_events: 0,
            readied: Vec::new(),
        })
    }

    /// Brings sequences and counters up to date. Nothing may be written afterwards but the commit.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        letter_group::write(&mut self)?;
        metric::write(&mut self)?;
        self.write_events()?;
        for (lane, delta) in std::mem::take(&mut self.lanes) {
            let LaneDelta { ready, leased, dead, succeeded, cancelled, discarded } = delta;
            if [ready, leased, dead, succeeded, cancelled, discarded] != [0; 6] {
                self.run(
                    sql!("lane_count"),
                    params![lane, ready, leased, dead, succeeded, cancelled, discarded],
                )?;
            }
        }
        for (cause, letters) in std::mem::take(&mut self.dead) {
            let transient = cause.class() == Class::Transient;
            self.run(sql!("dead_count_add"), params![cause.name(), transient, letters])?;
        }
        if self.sequences != self.read || self.events != 0 || self.failed_events != 0 {
            let (next_job, next_event) = self.sequences;
            self.run(
                sql!("sequences_write"),
                params![next_job, next_event, self.events, self.failed_events],
            )?;
        }
        self.memory.sequences = Some(self.sequences);
        self.memory.key_epoch = self.key_epoch;
        for lane in &self.readied {
            self.memory.idle.remove(lane);
        }
        Ok(())
    }

    /// Whether no work is to be handed out: the store is about to move.
    pub(super) fn is_draining(&self, now: Timestamp) -> bool {
        now.millis() < self.memory.draining_until
    }

    /// The keys of the store, the oldest first.
    pub(super) fn keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        key_rows(self.statements)
    }

    /// The keys were changed in this transaction: what follows in it is sealed with the newest one, and everybody else looks
    /// again before their next one.
    pub(super) fn change_keys(&mut self) -> Result<(), StoreError> {
        self.run(sql!("key_epoch_next"), [])?;
        self.key_epoch += 1;
        self.seals = Arc::new(self.statements.keeper().seals(&self.keys()?)?);
        Ok(())
    }

    pub(super) fn statement(&self, sql: &'static str) -> Result<Prepared<'a, 'c>, StoreError> {
        self.statements.get(sql)
    }

    pub(super) fn run(&self, sql: &'static str, values: impl rusqlite::Params) -> Result<usize, StoreError> {
        Ok(self.statement(sql)?.execute(values)?)
    }

    /// The first row, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &'static str,
        values: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.statement(sql)?.query_row(values, read).optional()?)
    }

    /// All rows.
    pub(super) fn all<T>(
        &self,
        sql: &'static str,
        values: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.statement(sql)?;
        let rows = statement.query_map(values, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn next_job(&mut self) -> JobId {
        let id = self.sequences.0;
        self.sequences.0 += 1;
        JobId(id)
    }

    /// A number of its own from the sequence of events, in which gaps are allowed.
    pub(super) fn next_event(&mut self) -> i64 {
        let seq = self.sequences.1;
        self.sequences.1 += 1;
        seq
    }

    pub(super) fn last_event(&self) -> EventSeq {
        EventSeq(self.sequences.1 - 1)
    }

    /// Appends an event under a number taken before.
    pub(super) fn put_event(
        &mut self,
        seq: i64,
        at: Timestamp,
        row: &EventRow<'_>,
    ) -> Result<(), StoreError> {
        let status = row.status.unwrap_or(EventStatus::Pending);
        self.events += 1;
        // A letter is counted as a letter; what failed without one is counted here.
        self.failed_events += i64::from(status == EventStatus::Failed);
        let plain = row.detail.is_none()
            && row.tags.is_none()
            && row.imported_at.is_none()
            && row.exit_code.is_none()
            && row.caller_id.is_none()
            && row.hypothesis.is_none()
            && row.importance.is_none();
        let type_id = self.name(row.event_type)?;
        let (job, status) = (row.job.map(|job| job.0), status as i64);
        if plain {
            self.plain_events.push([
                Some(seq),
                Some(at.millis()),
                Some(type_id),
                Some(row.source_id),
                Some(status),
                job,
                row.lane_id,
                row.parent,
                row.attempt,
                row.retries,
                row.max_retries,
                row.latency_ms,
            ]);
            if self.plain_events.len() == EIGHT {
                self.write_events()?;
            }
        } else {
            let detail = self.seals.seal_some(Cell::EventDetail, seq, row.detail.as_deref())?;
            self.run(
                sql!("event_insert"),
                params![
                    seq,
                    at.millis(),
                    type_id,
                    row.source_id,
                    status,
                    job,
                    row.lane_id,
                    row.parent,
                    row.attempt,
                    row.retries,
                    row.max_retries,
                    row.latency_ms,
                    row.exit_code,
                    row.importance,
                    row.hypothesis,
                    row.caller_id,
                    row.tags,
                    row.imported_at,
                    detail
                ],
            )?;
        }
        Ok(())
    }

    /// Writes the plain events that were gathered. Whoever reads the stream inside a transaction does this first.
    pub(super) fn write_events(&mut self) -> Result<(), StoreError> {
        let events = std::mem::take(&mut self.plain_events);
        if events.len() == EIGHT {
            self.statement(sql!("event_insert_eight"))?.execute(params_from_iter(events.as_flattened()))?;
        } else {
            let mut statement = self.statement(sql!("event_insert_plain"))?;
            for event in &events {
                statement.execute(params_from_iter(event))?;
            }
        }
        self.plain_events = events;
        self.plain_events.clear();
        Ok(())
    }

    /// Appends an event.
    pub(super) fn event(&mut self, at: Timestamp, row: &EventRow<'_>) -> Result<i64, StoreError> {
        let seq = self.next_event();
        self.put_event(seq, at, row)?;
        Ok(seq)
    }

    /// Events that are no more.
    pub(super) fn events_went(&mut self, count: i64, failed: i64) {
        self.events -= count;
        self.failed_events -= failed;
    }

    /// The number of a name.
    pub(super) fn name(&mut self, text: &str) -> Result<i64, StoreError> {
        if let Some(id) = self.memory.names.get(text) {
            return Ok(*id);
        }
        let mut id = self.first(sql!("name_find"), [text], |row| row.get(0))?;
        if id.is_none() {
            self.run(sql!("name_intern"), [text])?;
            id = Some(self.connection().last_insert_rowid());
        }
        let id = id.unwrap_or_default();
        // Bounded: a program that invents sources does not fill our memory.
        if self.memory.names.len() >= 10_000 {
            self.memory.names.clear();
        }
        self.memory.names.insert(text.to_owned(), id);
        Ok(id)
    }

    /// The name of a number.
    pub(super) fn name_of(&mut self, id: i64) -> Result<String, StoreError> {
        if let Some(text) = self.memory.texts.get(&id) {
            return Ok(text.clone());
        }
        let text: String = self.first(sql!("name_read"), [id], |row| row.get(0))?.unwrap_or_default();
        if self.memory.texts.len() >= 10_000 {
            self.memory.texts.clear();
        }
        self.memory.texts.insert(id, text.clone());
        Ok(text)
    }

    /// The lane of a kind in a queue, made if need be.
    pub(super) fn lane(&mut self, queue: &str, kind: &str) -> Result<i64, StoreError> {
        if let Some(id) = self.memory.lanes.get(queue).and_then(|kinds| kinds.get(kind)) {
            return Ok(*id);
        }
        let found = self.first(sql!("lane_find"), [queue, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (id, queue_id) = if let Some(found) = found {
            found
        } else {
            self.run(sql!("queue_intern"), [queue])?;
            let queue_id: i64 = self.statement(sql!("queue_find"))?.query_row([queue], |row| row.get(0))?;
            self.run(sql!("lane_insert"), params![queue_id, kind])?;
            (self.connection().last_insert_rowid(), queue_id)
        };
        self.remember(id, queue_id, queue, kind);
        Ok(id)
    }

    fn remember(&mut self, id: i64, queue_id: i64, queue: &str, kind: &str) {
        if !self.memory.by_id.contains_key(&id) {
            self.memory.lanes_seen += 1;
        }
        let lane = Lane { queue_id, queue: queue.to_owned(), kind: kind.to_owned() };
        self.memory.by_id.insert(id, lane);
        self.memory.lanes.entry(queue.to_owned()).or_default().insert(kind.to_owned(), id);
    }

    /// What a lane is.
    pub(super) fn lane_of(&mut self, id: i64) -> Result<&Lane, StoreError> {
        if !self.memory.by_id.contains_key(&id) {
            self.learn_lanes()?;
        }
        self.memory.by_id.get(&id).ok_or_else(|| {
            Trouble::Corrupt(format!("a job belongs to lane {id}, which does not exist")).into()
        })
    }

    fn learn_lanes(&mut self) -> Result<(), StoreError> {
        let lanes = self.all(sql!("lane_list"), [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        })?;
        for (id, queue_id, queue, kind) in lanes {
            self.remember(id, queue_id, &queue, &kind);
        }
        self.memory.knows_lanes = true;
        Ok(())
    }

    /// The lanes of these kinds in these queues (none named: all of them).
    pub(super) fn lanes_of(&mut self, queues: &[String], kinds: &[String]) -> Result<Vec<i64>, StoreError> {
        if !self.memory.knows_lanes {
            self.learn_lanes()?;
        }
        let lanes = &self.memory.lanes;
        let mut ids = Vec::new();
        let mut of_queue = |of: &HashMap<String, i64>| match kinds {
            [] => ids.extend(of.values().copied()),
            kinds => ids.extend(kinds.iter().filter_map(|kind| of.get(kind).copied())),
        };
        match queues {
            [] => lanes.values().for_each(of_queue),
            queues => queues.iter().filter_map(|queue| lanes.get(queue)).for_each(&mut of_queue),
        }
        ids.sort_unstable();
        Ok(ids)
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

    /// Puts a job where workers look for it.
    pub(super) fn make_ready(
        &mut self,
        job: JobId,
        lane: i64,
        held_for: Option<i64>,
        rank: i64,
        run_at: Timestamp,
    ) -> Result<(), StoreError> {
        let place = held_for.map_or(lane, |worker| -worker);
        if let Some(worker) = held_for {
            self.run(sql!("worker_stranger"), [worker])?;
        }
        self.run(sql!("ready_insert"), params![place, rank, run_at.millis(), job.0])?;
        self.count(lane, |delta| delta.ready += 1);
        if self.readied.last() != Some(&place) {
            self.readied.push(place);
        }
        Ok(())
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.statements.connection()
    }
}

/// The keys of the store, the oldest first.
fn key_rows(statements: &Statements<'_>) -> Result<Vec<KeyRow>, StoreError> {
    let mut statement = statements.get(sql!("seal_key_list"))?;
    let rows = statement.query_map([], |row| Ok(KeyRow { key_id: row.get(0)?, proof: row.get(1)? }))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
