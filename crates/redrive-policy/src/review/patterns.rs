//! Patterns that are part of the program.

use regex::Regex;

/// A pattern of ours. Every one is compiled by a test, so that none fails in front of a user.
pub(super) fn regex(pattern: &str) -> Regex {
    match Regex::new(pattern) {
        Ok(regex) => regex,
        Err(error) => panic!("a pattern of the review does not compile: {error}"),
    }
}
