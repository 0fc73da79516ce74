//! What a transaction writes about idempotency keys, each kind of change by one statement. No record is in two of them: what
//! somebody has changed in a group is left alone by the others in it.

use super::batch::table;
use super::line::{Arg, Typed};
use super::texts::sql;

table! {
    /// A record with a new holder.
    KeyTakeRow in KeyTakes {
        id: i64, new_id: i64, endpoint: String, request_hash: String, incarnation: i64, leased_until: i64, job_id: Option<i64>,
        created_at: i64,
    }
}
table! {
    /// A holder that is still there.
    KeyRenewRow in KeyRenewals { id: i64, leased_until: i64 }
}
table! {
    /// A record of which nobody knows how it ended.
    KeyUnknownRow in KeyUnknowns { id: i64, ended_at: i64, expires_at: i64 }
}
table! {
    /// A record with its answer, sealed where there is a key.
    KeyAnswerRow in KeyAnswers {
        id: i64, status: i64, head: Vec<u8>, body: Option<Vec<u8>>, ended_at: i64, expires_at: i64,
    }
}

#[derive(Debug, Default)]
pub(super) struct KeyWrites {
    pub(super) takes: KeyTakes,
    pub(super) renewals: KeyRenewals,
    pub(super) unknowns: KeyUnknowns,
    pub(super) answers: KeyAnswers,
    /// Records that are no more.
    pub(super) gone: Vec<i64>,
}

impl KeyWrites {
    /// Each statement, whether it has nothing to do, and its values.
    pub(super) fn statements(&self) -> [(&'static str, bool, Vec<Arg<'_>>); 5] {
        [
            (sql!("idempotency_take"), self.takes.id.is_empty(), self.takes.args()),
            (sql!("idempotency_renew"), self.renewals.id.is_empty(), self.renewals.args()),
            (sql!("idempotency_unknown"), self.unknowns.id.is_empty(), self.unknowns.args()),
            (sql!("idempotency_complete"), self.answers.id.is_empty(), self.answers.args()),
            (sql!("idempotency_delete"), self.gone.is_empty(), vec![self.gone.arg()]),
        ]
    }
}
