//! `hyper_util`'s pooled client: whether it ever had a connection.

use std::error::Error;

use hyper_util::client::legacy;
use redrive_policy::Report;

use crate::chain::{chain_was_never_sent, report_chain};
use crate::into_failure::IntoFailure;

impl IntoFailure for legacy::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

pub(super) fn never_sent(link: &(dyn Error + 'static)) -> bool {
    link.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
}
