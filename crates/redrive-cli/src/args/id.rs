//! Ids on the command line: of a job, of an event, the beginning of an event's, or `-` for those that stdin names.

use std::fmt;

use redrive_store::{JobId, Timestamp};

use super::value::{self, BadValue, JobRef};

/// Whose id it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IdArg {
    One(JobRef),
    /// Those that stdin names, one per line.
    Stdin,
}

pub(crate) fn id(text: &str) -> Result<IdArg, BadValue> {
    if text.trim() == "-" { Ok(IdArg::Stdin) } else { value::job_ref(text).map(IdArg::One) }
}

/// The letter that a page ended with: `job_17`, or with the time of its death, so that the next page begins in the same
/// place when the letter is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LetterPlace {
    pub(crate) id: JobId,
    pub(crate) died_at: Option<Timestamp>,
}

impl fmt::Display for LetterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.died_at {
            Some(at) => write!(f, "{}@{at}", self.id),
            None => self.id.fmt(f),
        }
    }
}

pub(crate) fn letter_place(text: &str) -> Result<LetterPlace, BadValue> {
    let (id, died_at) = match text.trim().split_once('@') {
        Some((id, at)) => (id, Some(at.parse().map_err(|_| BadValue::Id)?)),
        None => (text.trim(), None),
    };
    Ok(LetterPlace { id: id.parse().map_err(|_| BadValue::Id)?, died_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C1: a place is written so that it can be read again.
    #[test]
    fn a_place_survives_its_text() {
        for text in ["job_17", "job_17@2026-11-15T11:03:32.123Z"] {
            assert_eq!(letter_place(text).map(|place| place.to_string()), Ok(text.to_owned()));
        }
        for bad in ["", "job", "job_1@", "job_1@noon", "@2026-11-15"] {
            assert_eq!(letter_place(bad), Err(BadValue::Id), "{bad}");
        }
        assert_eq!(id(" - "), Ok(IdArg::Stdin));
        assert_eq!(id("EVT-2026"), Ok(IdArg::One(JobRef::Event("EVT-2026".into()))));
    }
}
