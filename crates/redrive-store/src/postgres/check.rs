//! `store check`: every invariant as a query that finds what breaks it.

use std::cell::RefCell;
use std::time::Duration;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::reseal;
use super::texts::sql;
use super::verb::Question;
use crate::check::{CheckReport, Violation};
use crate::error::Trouble;
use crate::seal::Seals;

/// Name and query of each invariant. A query answers one line of text per thing that breaks it.
const INVARIANTS: &[(&str, &str)] = &[
    ("every row can be read", sql!("check_readable")),
    ("a living job is in exactly one place", sql!("check_one_place")),
    ("what is ready, leased or dead is a job", sql!("check_is_a_job")),
    ("an ended job is nowhere else", sql!("check_ended")),
    ("a job that waits stands where its record says", sql!("check_ready_place")),
    ("a unique key belongs to unfinished work", sql!("check_unique")),
    ("a reservation belongs to a worker", sql!("check_reserved")),
    ("every state has its event", sql!("check_events")),
    ("an attempt is counted once", sql!("check_attempts")),
    ("nobody settles twice", sql!("check_settled_once")),
    ("counters are right", sql!("check_counters")),
    ("groups count their letters", sql!("check_groups")),
    ("a letter is whole", sql!("check_letter_parts")),
    ("what was mended belongs to something", sql!("check_mended")),
    ("tasks count their subtasks", sql!("check_tasks")),
    ("a key is held, answered or unknown", sql!("check_idempotency")),
    ("an item of the outbox waits, was sent or failed", sql!("check_outbox")),
    ("a version of a notice is one of its own", sql!("check_board")),
    ("sequences are ahead of everything", sql!("check_sequences")),
];
/// The most that is told about one invariant.
const TOLD: usize = 20;

/// Looks for broken invariants.
pub(super) struct Check;

impl Question for Check {
    type Answer = CheckReport;

    fn may_take(&self) -> Duration {
        // It looks at everything.
        Duration::from_hours(1)
    }

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<CheckReport, Fault> {
        let mut report = invariants(line).await?;
        if seals.current().is_some() {
            let name = "every sealed value opens";
            report.checked.push(name.to_owned());
            for what in reseal::unsealable(line, seals, TOLD).await? {
                report.violations.push(Violation { invariant: name.to_owned(), what });
            }
        }
        Ok(report)
    }
}

/// Everything that can be checked without a key.
pub(super) async fn invariants(line: &Line) -> Result<CheckReport, Fault> {
    let mut report = CheckReport::default();
    for (name, query) in INVARIANTS {
        report.checked.push((*name).to_owned());
        let mut tell =
            |what: String| report.violations.push(Violation { invariant: (*name).to_owned(), what });
        match line.all(query, args![]).await {
            Ok(rows) => {
                for row in rows.iter().take(TOLD) {
                    // A damaged row may have no words for what is wrong with it.
                    let what: Option<String> = column(row, 0)?;
                    tell(what.unwrap_or_else(|| "a row that cannot be read".to_owned()));
                }
            }
            Err(Fault::Final(error)) if matches!(error.trouble(), Trouble::Corrupt(_)) => {
                // The database itself stumbled over it, and says no more in this transaction.
                tell(error.to_string());
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(report)
}
