//! `store check`: every invariant as a query that finds what breaks it.

use rusqlite::Connection;

use super::batch::Batch;
use super::reseal;
use crate::check::{CheckReport, Violation};
use crate::error::StoreError;

/// Name and query of each invariant. A query answers one line of text per thing that breaks it.
const INVARIANTS: &[(&str, &str)] = &[
    ("a living job is in exactly one place", include_str!("sql/check_one_place.sql")),
    ("what is ready, leased or dead is a job", include_str!("sql/check_is_a_job.sql")),
    ("an ended job is nowhere else", include_str!("sql/check_ended.sql")),
    ("a job that waits stands where its record says", include_str!("sql/check_ready_place.sql")),
    ("a unique key belongs to unfinished work", include_str!("sql/check_unique.sql")),
    ("a reservation belongs to a worker", include_str!("sql/check_reserved.sql")),
    ("every state has its event", include_str!("sql/check_events.sql")),
    ("an attempt is counted once", include_str!("sql/check_attempts.sql")),
    ("nobody settles twice", include_str!("sql/check_settled_once.sql")),
    ("counters are right", include_str!("sql/check_counters.sql")),
    ("groups count their letters", include_str!("sql/check_groups.sql")),
    ("a letter is whole", include_str!("sql/check_letter_parts.sql")),
    ("what was mended belongs to something", include_str!("sql/check_mended.sql")),
    ("tasks count their subtasks", include_str!("sql/check_tasks.sql")),
    ("a key is held, answered or unknown", include_str!("sql/check_idempotency.sql")),
    ("an item of the outbox waits, was sent or failed", include_str!("sql/check_outbox.sql")),
    ("a version of a notice is one of its own", include_str!("sql/check_board.sql")),
    ("sequences are ahead of everything", include_str!("sql/check_sequences.sql")),
];
/// The most that is told about one invariant.
const TOLD: usize = 20;

pub(super) fn check(batch: &Batch<'_, '_>) -> Result<CheckReport, StoreError> {
    let mut report = invariants(batch.connection())?;
    if batch.seals.current().is_some() {
        let invariant = "every sealed value opens";
        report.checked.push(invariant.to_owned());
        for what in reseal::unsealable(batch, TOLD)? {
            report.violations.push(Violation { invariant: invariant.to_owned(), what });
        }
    }
    Ok(report)
}

/// Everything that can be checked without a key.
pub(super) fn invariants(connection: &Connection) -> Result<CheckReport, StoreError> {
    let mut report = CheckReport::default();
    let mut look = |name: &str, query: &str| -> Result<(), StoreError> {
        report.checked.push(name.to_owned());
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        let mut told = 0;
        while let Some(row) = rows.next()? {
            // A damaged row may have no words for what is wrong with it.
            let what = row.get::<_, Option<String>>(0).ok().flatten();
            let what = what.unwrap_or_else(|| "a row that cannot be read".to_owned());
            if what == "ok" {
                continue;
            }
            told += 1;
            if told > TOLD {
                break;
            }
            report.violations.push(Violation { invariant: name.to_owned(), what });
        }
        Ok(())
    };
    look("the file is whole", "PRAGMA integrity_check(20)")?;
    for (name, query) in INVARIANTS {
        look(name, query)?;
    }
    Ok(report)
}
