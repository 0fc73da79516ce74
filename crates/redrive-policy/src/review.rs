//! Review of output (R-T4, R-T5): is it whole, is it finished, does it claim only what is there?
//!
//! Pure: what was found on disk and what commands said comes in as facts. The answer names each finding with its line
//! and an excerpt, says which failure it is, and how the next attempt is to be told.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cause::named_enum;

named_enum! {
    /// A criterion of a review.
    Criterion {
        /// Files that are claimed or expected exist.
        Q1 = "Q1",
        /// Nothing is left to be done: TODO, FIXME, TBD, HACK, XXX.
        Q2 = "Q2",
        /// Nothing is left out.
        Q3 = "Q3",
        /// Nothing is broken off or unbalanced.
        Q4 = "Q4",
        /// There is something to show for it.
        Q5 = "Q5",
        /// It is not called done before there is.
        Q6 = "Q6",
        /// The tests pass.
        Q7 = "Q7",
        /// The linter is content.
        Q8 = "Q8",
        /// The types check.
        Q9 = "Q9",
    }
}

impl Criterion {
    /// The criteria that a review judges by itself, without a command.
    pub const OF_OUTPUT: &'static [&'static str] = &["Q1", "Q2", "Q3", "Q4", "Q5", "Q6"];
}

/// What an output has to be like, as a plan or the command line says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ReviewPlan {
    /// Which of Q1 to Q6 are asked; empty: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// Files that must exist afterwards, from where the work runs. They are reviewed like output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A whole file was asked for: a fragment is not enough.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_file: bool,
    /// More markers of something left out, as regular expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omission_patterns: Vec<String>,
    /// More ways to say that it is done, as regular expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub early_termination_patterns: Vec<String>,
    /// More words that mark what is left to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub todo_words: Vec<String>,
    /// What is no finding although it looks like one, as regular expressions over the line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Q7: a command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Vec<String>>,
    /// Q8: a command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lint: Option<Vec<String>>,
    /// Q9: a command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
}

impl fmt::Display for ReviewPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<&str> = self.criteria.iter().copied().map(Criterion::name).collect();
        f.write_str(&if named.is_empty() { "Q1–Q6".to_owned() } else { named.join(", ") })
    }
}
