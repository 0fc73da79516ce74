//! `anyhow::Error`: its whole chain, as far as its parts can be recognised.

use redrive_policy::Report;

use crate::chain::{chain_was_never_sent, report_chain};
use crate::into_failure::IntoFailure;

impl IntoFailure for anyhow::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self.as_ref())
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self.as_ref())
    }
}
