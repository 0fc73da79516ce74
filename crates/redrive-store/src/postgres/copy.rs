//! A database as one end of a copy.
//!
//! Others' writes are kept out by a lock on the two tables that every transaction writes to, in the order in which it does.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::check;
use super::fault::Fault;
use super::letter_group::Pending;
use super::line::{Arg, Line, Typed, args, column};
use super::migrate;
use super::open::Address;
use super::texts::{Texts, sql, storable};
use crate::check::CheckReport;
use crate::copy::{Column, End, Facts, Kind, Letters, Record, Sink, Standing, State, TABLES, Table, Value};
use crate::error::{StoreError, Trouble};
use crate::time::whole_millis;

/// How many rows are fetched at once, of small ones and of those that hold whatever people put into them.
const FEW: usize = 50;
/// Of those that hold plans, which may be as large as many others together.
const FEWEST: usize = 4;
const MANY: usize = 2_000;

/// What every transaction writes to.
const GUARDED: &[&str] = &["delta", "operation", "idempotency_keys"];

pub(crate) struct PostgresEnd {
    address: Address,
    // The connection's task lives in here, so the line goes first.
    line: Line,
    tasks: LocalSet,
    runtime: Runtime,
}

impl PostgresEnd {
    pub(crate) fn open(url: &str, create: bool) -> Result<PostgresEnd, StoreError> {
        PostgresEnd::connect(Address::parse(url, None)?, create)
    }

    pub(super) fn connect(address: Address, create: bool) -> Result<PostgresEnd, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::Database(error.to_string()))?;
        let tasks = LocalSet::new();
        let texts = Rc::new(Texts::new(address.schema()));
        let line = tasks.block_on(&runtime, async {
            let line = address.connect(&texts).await?;
            migrate::run(&line, &address, create).await?;
            Ok::<Line, Fault>(line)
        });
        let line = line.map_err(Fault::into_error)?;
        Ok(PostgresEnd { address, line, tasks, runtime })
    }

    fn wait<T>(&self, what: impl Future<Output = Result<T, Fault>>) -> Result<T, StoreError> {
        self.tasks.block_on(&self.runtime, what).map_err(Fault::into_error)
    }

    fn say(&self, words: &str) -> Result<(), StoreError> {
        let words = super::texts::adapt(words, self.address.schema());
        self.wait(self.line.say(&words))
    }

    fn run(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, StoreError> {
        self.wait(self.line.run(sql, args))
    }

    fn row(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Row, StoreError> {
        let row = self.wait(self.line.first(sql, args))?;
        row.ok_or_else(|| Trouble::Corrupt("a question without an answer".to_owned()).into())
    }

    fn number(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<i64, StoreError> {
        column(&self.row(sql, args)?, 0).map_err(Fault::into_error)
    }

    /// Refuses every write from now on.
    fn close_doors(&self, state: State, place: &str) -> Result<(), StoreError> {
        self.run(sql!("moving_put"), args![state.name(), place, None::<i64>])?;
        let place = place.replace('\'', "''");
        for table in GUARDED {
            self.say(&format!(
                "CREATE TRIGGER refuse_to_write BEFORE INSERT OR UPDATE OR DELETE ON redrive.{table}
                 FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_to_write('{}', '{place}')",
                state.name()
            ))?;
        }
        Ok(())
    }

    fn remove_triggers(&self) -> Result<(), StoreError> {
        GUARDED.iter().try_for_each(|table| {
            self.say(&format!("DROP TRIGGER IF EXISTS refuse_to_write ON redrive.{table}"))
        })
    }

    fn empty(&self) -> Result<(), StoreError> {
        self.remove_triggers()?;
        for table in
            TABLES.iter().map(|table| table.name).chain(["dead_count", "delta", "group_delta", "moving"])
        {
            self.say(&format!("DELETE FROM redrive.{table}"))?;
        }
        self.run(sql!("lane_zero"), args![])?;
        Ok(())
    }
}

/// A column as it is read: truths are numbers on their way.
fn selected(column: &Column) -> String {
    match column.kind {
        Kind::Truth => format!("{}::integer::bigint", column.name),
        Kind::Int => format!("{}::bigint", column.name),
        Kind::Text | Kind::Bytes => column.name.to_owned(),
    }
}

fn read_value(row: &Row, at: usize, kind: Kind) -> Result<Value, Fault> {
    Ok(match kind {
        Kind::Int | Kind::Truth => column::<Option<i64>>(row, at)?.map_or(Value::Null, Value::Int),
        Kind::Text => column::<Option<String>>(row, at)?.map_or(Value::Null, Value::Text),
        Kind::Bytes => column::<Option<Vec<u8>>>(row, at)?.map_or(Value::Null, Value::Bytes),
    })
}

/// A table whose changes are not all added up yet, as a query that adds them.
fn whole(table: &Table) -> Option<&'static str> {
    match table.name {
        "lane" => Some(sql!("lane_whole").trim_end()),
        "hour_count" => Some(sql!("hour_whole").trim_end()),
        _ => None,
    }
}

/// One column of many rows, as an array.
enum Array {
    Ints(Vec<Option<i64>>),
    Truths(Vec<bool>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Array {
    fn of(kind: Kind) -> Array {
        match kind {
            Kind::Int => Array::Ints(Vec::new()),
            Kind::Truth => Array::Truths(Vec::new()),
            Kind::Text => Array::Texts(Vec::new()),
            Kind::Bytes => Array::Bytes(Vec::new()),
        }
    }

    fn push(&mut self, column: &Column, value: Value) -> Result<(), StoreError> {
        match (self, value) {
            (Array::Ints(values), Value::Int(number)) => values.push(Some(number)),
            (Array::Ints(values), Value::Null) => values.push(None),
            (Array::Truths(values), Value::Int(number)) => values.push(number != 0),
            (Array::Texts(values), Value::Text(text)) if column.name == "tags" => {
                values.push(Some(storable_tags(text)));
            }
            (Array::Texts(values), Value::Text(text)) => values.push(Some(storable(&text))),
            (Array::Texts(values), Value::Null) => values.push(None),
            (Array::Bytes(values), Value::Bytes(bytes)) => values.push(Some(bytes)),
            (Array::Bytes(values), Value::Null) => values.push(None),
            _ => return Err(Trouble::Corrupt(format!("{} holds something else", column.name)).into()),
        }
        Ok(())
    }

    fn arg(&self) -> Arg<'_> {
        fn of<T: Typed>(values: &T) -> Arg<'_> {
            (values as &(dyn ToSql + Sync), T::TYPE)
        }
        match self {
            Array::Ints(values) => of(values),
            Array::Truths(values) => of(values),
            Array::Texts(values) => of(values),
            Array::Bytes(values) => of(values),
        }
    }
}

/// Tags as the database can look into them.
fn storable_tags(text: String) -> String {
    match serde_json::from_str::<Vec<String>>(&text) {
        Ok(tags) if tags.iter().any(|tag| tag.contains('\0')) => {
            let tags: Vec<String> = tags.iter().map(|tag| storable(tag)).collect();
            crate::row::tags(&tags).unwrap_or(text)
        }
        _ => text,
    }
}

const fn array_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "bigint[]",
        Kind::Truth => "boolean[]",
        Kind::Text => "text[]",
        Kind::Bytes => "bytea[]",
    }
}

impl End for PostgresEnd {
    fn location(&self) -> String {
        self.address.location()
    }

    fn standing(&mut self) -> Result<Standing, StoreError> {
        let row = self.row(sql!("store_standing"), args![])?;
        let read = || {
            let state: Option<String> = column(&row, 1)?;
            let place: Option<String> = column(&row, 2)?;
            let state = state.zip(place);
            Ok(Standing {
                store_id: column(&row, 0)?,
                state: state.and_then(|(state, place)| Some((State::from_name(&state)?, place))),
                is_empty: column(&row, 3)?,
            })
        };
        read().map_err(Fault::into_error)
    }

    fn drain(&mut self, wait: Option<Duration>, to: &str) -> Result<(), StoreError> {
        if let Some(wait) = wait {
            let wait = Some(whole_millis(wait));
            self.run(sql!("moving_put"), args![State::Draining.name(), to, wait])?;
        } else {
            self.run(sql!("moving_end"), args![State::Draining.name()])?;
        }
        Ok(())
    }

    fn running(&mut self) -> Result<u64, StoreError> {
        Ok(self.number(sql!("running_count"), args![])?.unsigned_abs())
    }

    fn freeze(&mut self, alone: bool) -> Result<(), StoreError> {
        self.say(if alone {
            "BEGIN ISOLATION LEVEL REPEATABLE READ"
        } else {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        })?;
        if !alone {
            return Ok(());
        }
        // Locked before anything is read: the moment is the one in which everybody else has finished.
        let locks = GUARDED.iter().try_for_each(|table| {
            self.say(&format!(
                "SET LOCAL lock_timeout = '5s'; LOCK TABLE redrive.{table} IN SHARE ROW EXCLUSIVE MODE"
            ))
        });
        if locks.is_err() {
            self.say("ROLLBACK")?;
        }
        locks
    }

    fn facts(&mut self) -> Result<Facts, StoreError> {
        let row = self.row(sql!("store_facts"), args![])?;
        let read = || {
            Ok(Facts {
                store_id: column(&row, 0)?,
                next_job: column(&row, 1)?,
                next_event: column(&row, 2)?,
                next_worker: column(&row, 3)?,
                events: column(&row, 4)?,
                failed_events: column(&row, 5)?,
                pruned_to: column(&row, 6)?,
                key_epoch: column(&row, 7)?,
            })
        };
        read().map_err(Fault::into_error)
    }

    fn counts(&mut self) -> Result<Vec<(&'static str, u64)>, StoreError> {
        let mut counts = Vec::with_capacity(TABLES.len());
        for table in TABLES {
            let text = match whole(table) {
                Some(whole) => format!("SELECT count(*) FROM ({whole}) x"),
                None => format!("SELECT count(*) FROM redrive.{}", table.name),
            };
            let text = super::texts::adapt(&text, self.address.schema());
            let rows = self.wait(async {
                let rows = self.line.all_of(&text, args![]).await?;
                rows.first().map_or(Ok(0), |row| column::<i64>(row, 0))
            })?;
            counts.push((table.name, rows.unsigned_abs()));
        }
        Ok(counts)
    }

    fn read(&mut self, table: &Table, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        let columns: Vec<String> = table.columns.iter().map(selected).collect();
        let from = match whole(table) {
            Some(whole) => whole.to_owned(),
            None => format!("SELECT {} FROM redrive.{}", columns.join(", "), table.name),
        };
        let pending = match table.name {
            "letter_group" => Some(self.wait(Pending::read(&self.line))?),
            _ => None,
        };
        self.say(&format!("DECLARE copied NO SCROLL CURSOR FOR {from}"))?;
        let is_large = table.columns.iter().any(|column| column.kind == Kind::Bytes) || table.name == "event";
        let most = match table.name {
            "task" | "task_plan" | "idempotency_keys" | "outbox" | "notice" => FEWEST,
            _ if is_large => FEW,
            _ => MANY,
        };
        let fetch = format!("FETCH {most} FROM copied");
        loop {
            let mut chunk = self.wait(async {
                let rows = self.line.all_of(&fetch, args![]).await?;
                let read = |row: &Row| {
                    let values = table.columns.iter().enumerate();
                    values.map(|(at, column)| read_value(row, at, column.kind)).collect()
                };
                rows.iter().map(read).collect::<Result<Vec<Record>, Fault>>()
            })?;
            if chunk.is_empty() {
                return self.say("CLOSE copied");
            }
            if let Some(pending) = &pending {
                for record in &mut chunk {
                    pending.add_to(table, record);
                }
            }
            sink(chunk)?;
        }
    }

    fn leave(&mut self, to: &str) -> Result<(), StoreError> {
        self.close_doors(State::Moved, to)?;
        self.say("COMMIT")
    }

    fn thaw(&mut self) -> Result<(), StoreError> {
        // Outside of a transaction it only warns.
        self.say("ROLLBACK")
    }

    fn receive(&mut self) -> Result<(), StoreError> {
        self.say("BEGIN")?;
        self.empty()
    }

    fn name(&mut self, text: &str) -> Result<i64, StoreError> {
        self.run(sql!("name_intern"), args![text])?;
        self.number(sql!("name_find"), args![text])
    }

    fn queue(&mut self, name: &str, paused: Option<(i64, Option<&str>)>) -> Result<i64, StoreError> {
        self.run(sql!("queue_intern"), args![name])?;
        let id = self.number(sql!("queue_find"), args![name])?;
        if let Some((at, why)) = paused {
            self.run(sql!("queue_pause"), args![id, at, why])?;
        }
        Ok(id)
    }

    fn lane(&mut self, queue_id: i64, kind: &str, counters: &[i64]) -> Result<i64, StoreError> {
        self.number(sql!("lane_put"), args![queue_id, kind, counters])
    }

    fn put(&mut self, table: &Table, rows: Vec<Record>) -> Result<(), StoreError> {
        let mut arrays: Vec<Array> = table.columns.iter().map(|column| Array::of(column.kind)).collect();
        for record in rows {
            for ((column, array), value) in table.columns.iter().zip(&mut arrays).zip(record) {
                array.push(column, value)?;
            }
        }
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let typed = |(at, column): (usize, &Column)| format!("${}::{}", at + 1, array_type(column.kind));
        let marks: Vec<String> = table.columns.iter().enumerate().map(typed).collect();
        let text = format!(
            "INSERT INTO redrive.{} ({}) SELECT * FROM unnest({})",
            table.name,
            columns.join(", "),
            marks.join(", ")
        );
        let text = super::texts::adapt(&text, self.address.schema());
        let args: Vec<Arg<'_>> = arrays.iter().map(Array::arg).collect();
        self.wait(self.line.all_of(&text, &args))?;
        Ok(())
    }

    fn keep(&mut self, facts: &Facts, letters: &Letters, from: Option<&str>) -> Result<(), StoreError> {
        for (cause, count) in letters {
            self.run(sql!("dead_count_put"), args![cause.as_str(), *count])?;
        }
        let Facts {
            store_id,
            next_job,
            next_event,
            next_worker,
            events,
            failed_events,
            pruned_to,
            key_epoch,
        } = *facts;
        self.run(sql!("store_facts_put"), args![store_id, next_event, events, failed_events, pruned_to])?;
        self.run(sql!("seal_epoch_put"), args![key_epoch])?;
        self.row(sql!("sequences_put"), args![next_job, next_worker])?;
        self.row(sql!("identities_put"), args![])?;
        if let Some(from) = from {
            self.close_doors(State::Arriving, from)?;
        }
        self.say("COMMIT")
    }

    fn check(&mut self) -> Result<CheckReport, StoreError> {
        self.say("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let report = self.wait(check::invariants(&self.line));
        self.say("ROLLBACK")?;
        report
    }

    fn open_doors(&mut self) -> Result<(), StoreError> {
        self.say("BEGIN")?;
        self.remove_triggers()?;
        self.run(sql!("moving_end"), args![State::Arriving.name()])?;
        self.say("COMMIT")
    }

    fn discard(&mut self) -> Result<(), StoreError> {
        self.thaw()?;
        self.receive()?;
        self.say("COMMIT")
    }
}
