//! What went wrong between us and the database, by what is to be done about it.

use tokio_postgres::error::SqlState;

use crate::error::{StoreError, Trouble};
use crate::id::JobId;

/// Trouble inside a transaction.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The connection is gone, or this server takes no writes: another connection may do better.
    Lost(String),
    /// Undone by the database for others' sake: the same again may work at once.
    Again(String),
    /// Whatever it is, the same again ends the same.
    Final(StoreError),
}

impl Fault {
    /// For callers, when nothing more is tried.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Fault::Lost(words) => Trouble::Unreachable(words).into(),
            Fault::Again(words) => Trouble::Contended(words).into(),
            Fault::Final(error) => error,
        }
    }

    /// What we wrote ourselves and cannot read is not what we wrote.
    pub(super) fn corrupt(what: impl std::fmt::Display) -> Fault {
        Fault::Final(Trouble::Corrupt(what.to_string()).into())
    }

    /// A job that should be somewhere is nowhere.
    pub(super) fn nowhere(id: JobId) -> Fault {
        Fault::corrupt(format_args!("{id} is neither ready nor leased nor dead"))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Final(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        let words = told(&error);
        let Some(state) = error.code() else {
            // Without a word from the server it is the connection, or what we made of its answer.
            let is_ours =
                error.to_string().contains("deserializing") || error.to_string().contains("serializing");
            // What waiting does not heal: a server without TLS, or one that we must not trust.
            let is_final = ["server does not support TLS", "invalid peer certificate", "password missing"];
            return if is_ours {
                Fault::corrupt(words)
            } else if is_final.iter().any(|sure| words.contains(sure)) {
                Fault::Final(Trouble::Database(words).into())
            } else {
                Fault::Lost(words)
            };
        };
        if let Some(place) = error.as_db_error().and_then(tokio_postgres::error::DbError::detail) {
            match state.code() {
                "RD001" => return Fault::Final(Trouble::Moved(place.to_owned()).into()),
                "RD002" => return Fault::Final(Trouble::Arriving(place.to_owned()).into()),
                _ => {}
            }
        }
        let again = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::QUERY_CANCELED,
            // Two that intern the same name in a stricter isolation.
            SqlState::UNIQUE_VIOLATION,
        ];
        let lost = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        if again.contains(state) {
            Fault::Again(words)
        } else if lost.contains(state) || state.code().starts_with("08") {
            Fault::Lost(words)
        } else if *state == SqlState::DISK_FULL {
            Fault::Final(Trouble::Full.into())
        } else if state.code().starts_with("XX") {
            Fault::corrupt(words)
        } else {
            Fault::Final(Trouble::Database(words).into())
        }
    }
}

/// The words of an error with its reason, without what it was about.
fn told(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} ({})", error.message(), error.code().code());
    }
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        words = format!("{words}: {inner}");
        source = inner.source();
    }
    words
}
