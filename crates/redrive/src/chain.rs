//! The walk through an error's sources, from what was seen to what was behind it.
//!
//! Every link is asked for typed signals; of two that speak the outer one is kept, because it knows the
//! context. The walk is bounded: a chain may be a cycle.

use std::error::Error;
use std::io;

use redrive_policy::Report;

use crate::fail::Fail;
use crate::record::on_record;
use crate::signals;

/// Links beyond this depth are not looked at.
const MAX_LINKS: usize = 64;

/// A report on an error: every typed signal in its whole source chain, and its words.
///
/// Signals are those of [`Fail`], `std::io`, tokio's timeouts, and of every crate whose feature is on.
///
/// ```
/// use redrive::report_chain;
/// use std::io::{Error, ErrorKind};
///
/// let refused = Error::from(ErrorKind::ConnectionRefused);
/// let wrapped = Error::other(Error::other(refused));
/// assert_eq!(report_chain(&wrapped).code.as_deref(), Some("ECONNREFUSED"));
/// ```
pub fn report_chain<'a>(error: &'a (dyn Error + 'static)) -> Report<'a> {
    let mut report = Report::chain(error);
    for link in links(error) {
        if let Some(fail) = link.downcast_ref::<Fail>() {
            // The outermost word counts: who wrapped a failure and said more about it knew of the inner one.
            if report.said.is_none() {
                fail.say(&mut report);
            }
        } else {
            signals::note(link, &mut report);
        }
        // A retry that has ended was judged by those who saw its error; what is behind it is part of that.
        if let Some(record) = on_record(link) {
            record.enter(&mut report);
            break;
        }
    }
    report
}

/// Whether some link proves that no connection came about.
pub(crate) fn chain_was_never_sent(error: &(dyn Error + 'static)) -> bool {
    for link in links(error) {
        if let Some(record) = on_record(link) {
            return record.never_sent();
        }
        if signals::never_sent(link) {
            return true;
        }
    }
    false
}

/// An error and everything behind it.
pub(crate) fn links<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |link| behind(*link)).take(MAX_LINKS)
}

/// The next link. An `io::Error` hides the error it was made from, which its `source` skips.
fn behind<'a>(link: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match link.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => link.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_policy::{Cause, Verdict};
    use std::fmt;

    #[derive(Debug)]
    struct Ouroboros;
    impl fmt::Display for Ouroboros {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("again")
        }
    }
    impl Error for Ouroboros {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }

    /// R-P3: a chain without an end is looked at up to a bound.
    #[test]
    fn a_chain_that_bites_its_tail_ends() {
        assert_eq!(links(&Ouroboros).count(), MAX_LINKS);
        assert_eq!(report_chain(&Ouroboros).code, None);
    }

    /// R-P3: the handler's own word is heard through wrappers, and the outer of two words counts.
    #[test]
    fn a_handlers_word_is_heard_from_inside_the_chain() {
        let inner = crate::fail(Cause::NotFound, "no such row");
        let outer = crate::fail(Cause::Contention, "replica behind").worth_a_retry().because(inner);
        let wrapped = io::Error::other(io::Error::other(outer));
        assert_eq!(report_chain(&wrapped).said, Some((Cause::Contention, Verdict::Yes)));
    }
}
