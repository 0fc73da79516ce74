//! How a store says that it lives elsewhere: triggers refuse every write, with words that are known again here.

use crate::error::Trouble;

/// What the message of a refused write begins with, so that it is known among other errors.
pub(super) const MOVED: &str = "redrive: moved to ";
pub(super) const ARRIVING: &str = "redrive: arriving from ";

/// Whether a write was refused because the store has moved, or has not arrived.
pub(super) fn refused(words: &str) -> Option<Trouble> {
    let behind = |mark| words.split_once(mark).map(|(_, place)| place.to_owned());
    behind(MOVED).map(Trouble::Moved).or_else(|| behind(ARRIVING).map(Trouble::Arriving))
}
