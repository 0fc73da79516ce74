//! `tokio_postgres::Error`: its SQLSTATE.

use std::error::Error;

use redrive_policy::Report;
use tokio_postgres::error::DbError;

use super::note_code;
use crate::chain::{chain_was_never_sent, report_chain};
use crate::into_failure::IntoFailure;

/// `connection_failure`: what the server would say if the line were still there.
const CONNECTION_FAILURE: &str = "08006";

impl IntoFailure for tokio_postgres::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    if let Some(error) = link.downcast_ref::<tokio_postgres::Error>() {
        if let Some(state) = error.code() {
            note_code(report, state.code());
        } else if error.is_closed() {
            note_code(report, CONNECTION_FAILURE);
        }
    } else if let Some(error) = link.downcast_ref::<DbError>() {
        note_code(report, error.code().code());
    }
}
