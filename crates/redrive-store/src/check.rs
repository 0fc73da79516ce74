//! `store check`: the invariants, stated in SQL, and what breaks them.

use serde::Serialize;

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: String,
    /// What breaks it.
    pub what: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CheckReport {
    /// The invariants that were looked at.
    pub checked: Vec<String>,
    /// What breaks them; bounded per invariant.
    pub violations: Vec<Violation>,
}

impl CheckReport {
    /// Whether everything is as it must be.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}
