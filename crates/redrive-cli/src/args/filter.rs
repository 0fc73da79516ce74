//! Filters on the command line: read once, with their place in the text when they cannot be.

use std::error::Error;
use std::fmt;

use redrive_store::filter::{EventField, Field, Filter, FilterError, LetterField};

/// A filter that cannot be read, and what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadFilter {
    pub(crate) text: String,
    pub(crate) error: FilterError,
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for BadFilter {}

/// Which letters.
pub(crate) fn letters(text: &str) -> Result<Filter<LetterField>, BadFilter> {
    read(text)
}

/// Which events.
pub(crate) fn events(text: &str) -> Result<Filter<EventField>, BadFilter> {
    read(text)
}

fn read<F: Field>(text: &str) -> Result<Filter<F>, BadFilter> {
    Filter::parse(text).map_err(|error| BadFilter { text: text.to_owned(), error })
}
