//! Migrations: numbered files, each applied in one transaction with its number.

use rusqlite::Connection;

use super::open::APPLICATION_ID;
use crate::error::StoreError;

/// Every migration, in order. The number of the last one is the schema's.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "jobs", include_str!("../../migrations/sqlite/0001_jobs.sql")),
    (2, "recovery", include_str!("../../migrations/sqlite/0002_recovery.sql")),
    (3, "tasks", include_str!("../../migrations/sqlite/0003_tasks.sql")),
    (4, "idempotency", include_str!("../../migrations/sqlite/0004_idempotency.sql")),
    (5, "server", include_str!("../../migrations/sqlite/0005_server.sql")),
    (6, "target", include_str!("../../migrations/sqlite/0006_target.sql")),
];

pub(super) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |(number, ..)| *number)
}

/// Applies what is missing. Several processes may do this at once: the first one does it.
pub(super) fn run(connection: &mut Connection) -> Result<(), StoreError> {
    for (number, name, sql) in MIGRATIONS {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found >= *number {
            continue;
        }
        tracing::info!(number, name, "migrating the store");
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}
