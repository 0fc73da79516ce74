//! Patterns that are part of the program.

use aho_corasick::AhoCorasick;
use regex::Regex;

/// A pattern of ours. Every one is compiled by a test, so that none fails in front of a user.
///
/// `\b` is the edge of an ASCII word: between `TODO` and `を` there is one, and only so are patterns fast over Japanese.
pub(super) fn regex(pattern: &str) -> Regex {
    match Regex::new(&pattern.replace(r"\b", r"(?-u:\b)")) {
        Ok(regex) => regex,
        Err(error) => panic!("a pattern of the review does not compile: {error}"),
    }
}

/// Words of ours, in any case: a line without any of them need not be read more closely.
pub(super) fn words(words: &[&str]) -> AhoCorasick {
    match AhoCorasick::builder().ascii_case_insensitive(true).build(words) {
        Ok(found) => found,
        Err(error) => panic!("the words of the review do not compile: {error}"),
    }
}
