//! `anyhow::Error`: its whole chain, as far as its parts can be recognised.

use redrive_policy::Report;

use crate::chain::{chain_was_never_sent, report_chain};
use crate::fail::Fail;
use crate::into_failure::IntoFailure;

impl IntoFailure for anyhow::Error {
    fn report(&self) -> Report<'_> {
        let mut report = report_chain(self.as_ref());
        // A handler's word that was given as context is no link of the chain, and it is outside of all that are.
        if let Some(fail) = self.downcast_ref::<Fail>() {
            fail.say(&mut report);
        }
        report
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self.as_ref())
    }
}
