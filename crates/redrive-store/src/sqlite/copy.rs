//! A file as one end of a copy.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use redrive_policy::{Cause, Class};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::moved::{ARRIVING, MOVED};
use super::{Durability, check, open, sql};
use crate::check::CheckReport;
use crate::copy::{End, Facts, Kind, Letters, Record, Sink, Standing, State, TABLES, Table, Value};
use crate::error::{StoreError, Trouble};
use crate::time::{Timestamp, whole_millis};

/// The most rows and bytes that are held in memory at once.
const CHUNK_ROWS: usize = 1_000;
const CHUNK_BYTES: usize = 4 << 20;

/// What every transaction that is worth anything writes to.
const GUARDED: &[&str] = &[
    "store",
    "job",
    "unique_job",
    "ready",
    "progress",
    "lease",
    "worker",
    "dead_letter",
    "letter_group",
    "redrive_run",
    "payload_version",
    "task",
    "subtask",
    "escalation_ack",
    "idempotency_keys",
    "outbox",
    "outbox_lane",
    "saved_key",
    "notice",
    "hour_count",
    "queue",
    "ended",
    "event",
    "aside",
];

pub(crate) struct SqliteEnd {
    path: PathBuf,
    connection: Connection,
}

impl SqliteEnd {
    pub(crate) fn open(path: &Path, create: bool) -> Result<SqliteEnd, StoreError> {
        let connection = open::open(path, create, Durability::Full)?;
        Ok(SqliteEnd { path: path.to_owned(), connection })
    }

    /// Writes everything into the file itself and lets go of it.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        self.connection.close().map_err(|(_, error)| StoreError::from(error))
    }

    fn count(&self, text: &str) -> Result<i64, StoreError> {
        Ok(self.connection.query_row(text, [], |row| row.get(0))?)
    }

    /// Refuses every write from now on.
    fn close_doors(&self, state: State, place: &str) -> Result<(), StoreError> {
        self.connection.execute(sql!("moving_put"), params![state.name(), place, 0])?;
        let mark = if state == State::Moved { MOVED } else { ARRIVING };
        let words = format!("{mark}{place}").replace('\'', "''");
        for table in GUARDED {
            for verb in ["INSERT", "UPDATE", "DELETE"] {
                self.connection.execute_batch(&format!(
                    "CREATE TRIGGER refuse_{verb}_{table} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{words}'); END"
                ))?;
            }
        }
        Ok(())
    }

    fn remove_triggers(&self) -> Result<(), StoreError> {
        for table in GUARDED {
            for verb in ["INSERT", "UPDATE", "DELETE"] {
                self.connection.execute_batch(&format!("DROP TRIGGER IF EXISTS refuse_{verb}_{table}"))?;
            }
        }
        Ok(())
    }

    fn empty(&self) -> Result<(), StoreError> {
        self.remove_triggers()?;
        for table in TABLES.iter().map(|table| table.name).chain(["dead_count", "moving"]) {
            self.connection.execute_batch(&format!("DELETE FROM {table}"))?;
        }
        self.connection.execute_batch(sql!("lane_zero"))?;
        Ok(())
    }
}

impl End for SqliteEnd {
    fn location(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        format!("sqlite:{}", path.display())
    }

    fn standing(&mut self) -> Result<Standing, StoreError> {
        let state = self
            .connection
            .query_row(sql!("moving_read"), [], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .optional()?;
        let is_empty = self.connection.query_row(sql!("store_is_empty"), [], |row| row.get(0))?;
        Ok(Standing {
            store_id: open::store_id(&self.connection)?.cast_signed(),
            state: state.and_then(|(state, place)| Some((State::from_name(&state)?, place))),
            is_empty,
        })
    }

    fn drain(&mut self, wait: Option<Duration>, to: &str) -> Result<(), StoreError> {
        if let Some(wait) = wait {
            let until = Timestamp::from_system(SystemTime::now()).millis().saturating_add(whole_millis(wait));
            self.connection.execute(sql!("moving_put"), params![State::Draining.name(), to, until])?;
        } else {
            self.connection.execute(sql!("moving_end"), [State::Draining.name()])?;
        }
        Ok(())
    }

    fn running(&mut self) -> Result<u64, StoreError> {
        // Who fell silent is not waited for: whoever asks finds that out over there.
        let now = Timestamp::from_system(SystemTime::now()).millis();
        let running: i64 = self.connection.query_row(sql!("running_count"), [now], |row| row.get(0))?;
        Ok(u64::try_from(running).unwrap_or(0))
    }

    fn freeze(&mut self, alone: bool) -> Result<(), StoreError> {
        self.connection.execute_batch(if alone { "BEGIN IMMEDIATE" } else { "BEGIN" })?;
        // The moment is the one of the first look.
        self.count("SELECT count(*) FROM store")?;
        Ok(())
    }

    fn facts(&mut self) -> Result<Facts, StoreError> {
        Ok(self.connection.query_row(sql!("store_facts"), [], |row| {
            Ok(Facts {
                store_id: row.get(0)?,
                next_job: row.get(1)?,
                next_event: row.get(2)?,
                // Workers have their numbers from the same sequence.
                next_worker: row.get(2)?,
                events: row.get(3)?,
                failed_events: row.get(4)?,
                pruned_to: row.get(5)?,
                key_epoch: row.get(6)?,
            })
        })?)
    }

    fn counts(&mut self) -> Result<Vec<(&'static str, u64)>, StoreError> {
        let count = |table: &Table| {
            let rows = self.count(&format!("SELECT count(*) FROM {}", table.name))?;
            Ok((table.name, u64::try_from(rows).unwrap_or(0)))
        };
        TABLES.iter().map(count).collect()
    }

    fn read(&mut self, table: &Table, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let text = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        let mut statement = self.connection.prepare(&text)?;
        let mut rows = statement.query([])?;
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let mut record = Record::with_capacity(columns.len());
            for (at, column) in table.columns.iter().enumerate() {
                let value = match row.get_ref(at)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(number) => Value::Int(number),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Blob(blob) => Value::Bytes(blob.to_vec()),
                    ValueRef::Real(_) => {
                        let what = format!("{}.{} holds a fraction", table.name, column.name);
                        return Err(Trouble::Corrupt(what).into());
                    }
                };
                bytes += value.bytes();
                record.push(fitting(column.kind, value));
            }
            chunk.push(record);
            if chunk.len() >= CHUNK_ROWS || bytes >= CHUNK_BYTES {
                sink(std::mem::take(&mut chunk))?;
                bytes = 0;
            }
        }
        if chunk.is_empty() { Ok(()) } else { sink(chunk) }
    }

    fn leave(&mut self, to: &str) -> Result<(), StoreError> {
        self.close_doors(State::Moved, to)?;
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn thaw(&mut self) -> Result<(), StoreError> {
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.empty()
    }

    fn name(&mut self, text: &str) -> Result<i64, StoreError> {
        self.connection.execute(sql!("name_intern"), [text])?;
        Ok(self.connection.query_row(sql!("name_find"), [text], |row| row.get(0))?)
    }

    fn queue(&mut self, name: &str, paused: Option<(i64, Option<&str>)>) -> Result<i64, StoreError> {
        self.connection.execute(sql!("queue_intern"), [name])?;
        let id = self.connection.query_row(sql!("queue_find"), [name], |row| row.get(0))?;
        if let Some((at, why)) = paused {
            self.connection.execute(sql!("queue_pause"), params![id, at, why])?;
        }
        Ok(id)
    }

    fn lane(&mut self, queue_id: i64, kind: &str, counters: &[i64]) -> Result<i64, StoreError> {
        let find = |connection: &Connection| {
            connection.query_row(sql!("lane_of"), params![queue_id, kind], |row| row.get(0)).optional()
        };
        let id = if let Some(id) = find(&self.connection)? {
            id
        } else {
            self.connection.execute(sql!("lane_insert"), params![queue_id, kind])?;
            self.connection.last_insert_rowid()
        };
        let values = std::iter::once(id).chain(counters.iter().copied());
        self.connection.execute(sql!("lane_count"), params_from_iter(values))?;
        Ok(id)
    }

    fn put(&mut self, table: &Table, rows: Vec<Record>) -> Result<(), StoreError> {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let marks = vec!["?"; columns.len()].join(", ");
        let text = format!("INSERT INTO {} ({}) VALUES ({marks})", table.name, columns.join(", "));
        let mut statement = self.connection.prepare_cached(&text)?;
        for record in rows {
            let values = record.into_iter().map(|value| match value {
                Value::Null => rusqlite::types::Value::Null,
                Value::Int(number) => number.into(),
                Value::Text(text) => text.into(),
                Value::Bytes(bytes) => bytes.into(),
            });
            statement.execute(params_from_iter(values))?;
        }
        Ok(())
    }

    fn keep(&mut self, facts: &Facts, letters: &Letters, from: Option<&str>) -> Result<(), StoreError> {
        for (cause, count) in letters {
            let transient = cause.parse().unwrap_or(Cause::Unknown).class() == Class::Transient;
            self.connection.execute(sql!("dead_count_add"), params![cause, transient, count])?;
        }
        let next_event = facts.next_event.max(facts.next_worker);
        let Facts { store_id, next_job, events, failed_events, pruned_to, key_epoch, .. } = *facts;
        self.connection.execute(
            sql!("store_facts_put"),
            params![store_id, next_job, next_event, events, failed_events, pruned_to, key_epoch],
        )?;
        if let Some(from) = from {
            self.close_doors(State::Arriving, from)?;
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn check(&mut self) -> Result<CheckReport, StoreError> {
        check::invariants(&self.connection)
    }

    fn open_doors(&mut self) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.remove_triggers()?;
        self.connection.execute(sql!("moving_end"), [State::Arriving.name()])?;
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn discard(&mut self) -> Result<(), StoreError> {
        self.thaw()?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.empty()?;
        Ok(self.connection.execute_batch("COMMIT")?)
    }
}

/// SQLite keeps what it is given; a text in a column of bytes is bytes all the same.
fn fitting(kind: Kind, value: Value) -> Value {
    match (kind, value) {
        (Kind::Bytes, Value::Text(text)) => Value::Bytes(text.into_bytes()),
        (_, value) => value,
    }
}
