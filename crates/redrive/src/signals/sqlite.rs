//! `rusqlite::Error`: the name of its extended result code.

use std::error::Error;

use redrive_policy::Report;

use super::note_code;
use crate::chain::report_chain;
use crate::into_failure::IntoFailure;

impl IntoFailure for rusqlite::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    let number = if let Some(rusqlite::Error::SqliteFailure(error, _)) = link.downcast_ref() {
        error.extended_code
    } else if let Some(error) = link.downcast_ref::<rusqlite::ffi::Error>() {
        error.extended_code
    } else {
        return;
    };
    if let Some(name) = extended_name(number).or_else(|| primary_name(number & 0xff)) {
        note_code(report, name);
    }
}

/// The names that say more than their primary code does. The numbers are promised never to change.
fn extended_name(number: i32) -> Option<&'static str> {
    Some(match number {
        517 => "SQLITE_BUSY_SNAPSHOT",
        262 => "SQLITE_LOCKED_SHAREDCACHE",
        275 => "SQLITE_CONSTRAINT_CHECK",
        787 => "SQLITE_CONSTRAINT_FOREIGNKEY",
        1299 => "SQLITE_CONSTRAINT_NOTNULL",
        1555 => "SQLITE_CONSTRAINT_PRIMARYKEY",
        1811 => "SQLITE_CONSTRAINT_TRIGGER",
        2067 => "SQLITE_CONSTRAINT_UNIQUE",
        2579 => "SQLITE_CONSTRAINT_ROWID",
        _ => return None,
    })
}

fn primary_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SQLITE_ERROR",
        2 => "SQLITE_INTERNAL",
        3 => "SQLITE_PERM",
        4 => "SQLITE_ABORT",
        5 => "SQLITE_BUSY",
        6 => "SQLITE_LOCKED",
        7 => "SQLITE_NOMEM",
        8 => "SQLITE_READONLY",
        9 => "SQLITE_INTERRUPT",
        10 => "SQLITE_IOERR",
        11 => "SQLITE_CORRUPT",
        12 => "SQLITE_NOTFOUND",
        13 => "SQLITE_FULL",
        14 => "SQLITE_CANTOPEN",
        15 => "SQLITE_PROTOCOL",
        17 => "SQLITE_SCHEMA",
        18 => "SQLITE_TOOBIG",
        19 => "SQLITE_CONSTRAINT",
        20 => "SQLITE_MISMATCH",
        21 => "SQLITE_MISUSE",
        23 => "SQLITE_AUTH",
        25 => "SQLITE_RANGE",
        26 => "SQLITE_NOTADB",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_code_without_a_name_of_its_own_has_its_family_name() {
        assert_eq!(extended_name(0x010a), None);
        assert_eq!(primary_name(0x010a & 0xff), Some("SQLITE_IOERR"));
    }
}
