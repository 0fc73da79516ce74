//! Migrations: numbered files, each applied in one transaction with its number.
//!
//! Where they only add, the binary before a migration goes on beside it: each says which schema a binary must at least
//! know to work with what it leaves. A binary refuses a store only when that is more than it knows.

use std::time::Duration;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::open::Address;
use super::texts::{DEFAULT_SCHEMA, adapt, quoted, sql};
use crate::error::{StoreError, Trouble};

/// Number, name, the oldest schema whose binaries work beside it, and text.
const MIGRATIONS: &[(i64, &str, i64, &str)] = &[
    (1, "jobs", 1, include_str!("../../migrations/postgres/0001_jobs.sql")),
    // What a letter says at length stands elsewhere: a binary that looks for it in the letter finds nothing.
    (2, "recovery", 2, include_str!("../../migrations/postgres/0002_recovery.sql")),
    // A binary that knows no tasks would seal the rest anew and let their key go, and prune the events of those that run.
    (3, "tasks", 3, include_str!("../../migrations/postgres/0003_tasks.sql")),
    // A binary that knows no idempotency keys would seal the rest anew and let the key of their answers go.
    (4, "idempotency", 4, include_str!("../../migrations/postgres/0004_idempotency.sql")),
    // A binary that knows no board would seal the rest anew and let the key of its notices go.
    (5, "server", 5, include_str!("../../migrations/postgres/0005_server.sql")),
    (6, "target", 5, include_str!("../../migrations/postgres/0006_target.sql")),
];

pub(super) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |(number, ..)| *number)
}

/// Brings the schema up to date; several processes may do this at once.
pub(super) async fn run(line: &Line, address: &Address, create: bool) -> Result<(), Fault> {
    let path = || address.location().into();
    let encoding = line.first(sql!("server_encoding"), args![]).await?;
    let encoding: String = encoding.map_or(Ok(String::new()), |row| column(&row, 0))?;
    if !["UTF8", "SQL_ASCII"].contains(&encoding.as_str()) {
        let why = format!("its encoding is {encoding}, which cannot hold every text; UTF8 is needed");
        return Err(StoreError::from(Trouble::Denied { location: address.location(), why }).into());
    }
    let is_there = !line.all(sql!("schema_find"), args![address.schema()]).await?.is_empty();
    if !is_there && !create {
        return Err(StoreError::from(Trouble::Missing(path())).into());
    }
    // What is rebuilt may be large, and so may what somebody else is rebuilding.
    line.allow(Duration::from_hours(1));
    line.say("BEGIN").await?;
    line.run(sql!("migration_lock"), args![address.schema()]).await?;
    let migrated = migrate(line, address, path).await;
    match migrated {
        Ok(()) => line.say("COMMIT").await,
        Err(fault) => {
            line.say("ROLLBACK").await?;
            Err(fault)
        }
    }
}

async fn migrate(line: &Line, address: &Address, path: impl Fn() -> std::path::PathBuf) -> Result<(), Fault> {
    let schema = address.schema();
    // Somebody may have made it while we waited for the lock.
    if line.all(sql!("schema_find"), args![schema]).await?.is_empty() {
        line.say(&format!("CREATE SCHEMA {}", quoted(schema))).await?;
    }
    let tables: Vec<String> = line
        .all(sql!("schema_tables"), args![schema])
        .await?
        .iter()
        .map(|row| column(row, 0))
        .collect::<Result<_, Fault>>()?;
    let (mut found, mut oldest) = (0, 0);
    if tables.iter().any(|table| table == "migration") {
        if let Some(row) = line.first(sql!("migration_read"), args![]).await? {
            (found, oldest) = (column(&row, 0)?, column(&row, 1)?);
        }
    } else if !tables.is_empty() {
        return Err(StoreError::from(Trouble::Foreign(path())).into());
    } else {
        line.say(&adapt(sql!("migration_table"), schema)).await?;
    }
    if oldest > newest() {
        return Err(StoreError::from(Trouble::NewerSchema { path: path(), found, known: newest() }).into());
    }
    for (number, name, oldest, text) in MIGRATIONS.iter().filter(|(number, ..)| *number > found) {
        tracing::info!(number, name, "migrating the store");
        line.say(&adapt(text, schema)).await?;
        line.run(sql!("migration_insert"), args![*number, *name, *oldest]).await?;
    }
    if schema == DEFAULT_SCHEMA && found < newest() {
        // Where every search path finds it, if we may put it there.
        line.say(sql!("enqueue_for_all")).await?;
    }
    // A copy that was restored into a younger server goes on behind what it has.
    line.run(sql!("store_event_base"), args![]).await?;
    Ok(())
}
