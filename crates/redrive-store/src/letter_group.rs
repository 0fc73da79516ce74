//! Groups: dead letters with one fingerprint, so that two thousand failures are three errors (R-D10).
//!
//! A group is open, acknowledged by a person, resolved, or regressed. It follows from what becomes of its letters: when
//! none is dead any more and none is on its way, it is resolved; when something fails again in the same way after that, or
//! after a redrive, it has regressed. [`GroupCounts::after`] says so once, for every store.

use redrive_policy::Cause;
use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::time::Timestamp;

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// Nobody has looked at it yet.
    #[default]
    Open,
    /// Somebody knows of it; it raises no alarm.
    Acknowledged,
    /// Nothing of it is dead or on its way, or a person says that it is mended.
    Resolved,
    /// It failed again after it was resolved, or after a redrive.
    Regressed,
}

impl GroupState {
    /// Every state, in the order of their numbers in the store.
    pub const ALL: [GroupState; 4] =
        [GroupState::Open, GroupState::Acknowledged, GroupState::Resolved, GroupState::Regressed];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            GroupState::Open => "open",
            GroupState::Acknowledged => "acknowledged",
            GroupState::Resolved => "resolved",
            GroupState::Regressed => "regressed",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<GroupState> {
        GroupState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Its number in the store.
    pub(crate) const fn number(self) -> i64 {
        match self {
            GroupState::Open => 0,
            GroupState::Acknowledged => 1,
            GroupState::Resolved => 2,
            GroupState::Regressed => 3,
        }
    }

    /// The state of that number.
    pub(crate) fn from_number(number: i64) -> GroupState {
        GroupState::ALL.into_iter().find(|state| state.number() == number).unwrap_or_default()
    }

    /// The event that tells of it.
    pub(crate) const fn event_type(self) -> &'static str {
        match self {
            GroupState::Open => "group_opened",
            GroupState::Acknowledged => "group_acknowledged",
            GroupState::Resolved => "group_resolved",
            GroupState::Regressed => "group_regressed",
        }
    }
}

/// How many of a group there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GroupCounts {
    /// Dead now.
    pub letters: i64,
    /// Letters ever written.
    pub failures: i64,
    /// Redriven, and not over yet.
    pub under_way: i64,
    /// Redriven, and succeeded.
    pub recovered: i64,
    /// Attempts that failed in the same way after a redrive.
    pub relapsed: i64,
}

impl GroupCounts {
    /// One more letter of the group.
    pub(crate) const DIED: GroupCounts = GroupCounts { letters: 1, failures: 1, ..GroupCounts::NONE };
    /// A letter is put back.
    pub(crate) const REDRIVEN: GroupCounts = GroupCounts { letters: -1, under_way: 1, ..GroupCounts::NONE };
    /// A letter goes for good.
    pub(crate) const DISCARDED: GroupCounts = GroupCounts { letters: -1, ..GroupCounts::NONE };
    /// What was put back is over, and did not succeed.
    pub(crate) const OVER: GroupCounts = GroupCounts { under_way: -1, ..GroupCounts::NONE };
    /// What was put back has succeeded.
    pub(crate) const RECOVERED: GroupCounts =
        GroupCounts { under_way: -1, recovered: 1, ..GroupCounts::NONE };
    /// What was put back failed in the same way.
    pub(crate) const RELAPSED: GroupCounts = GroupCounts { relapsed: 1, ..GroupCounts::NONE };
    const NONE: GroupCounts =
        GroupCounts { letters: 0, failures: 0, under_way: 0, recovered: 0, relapsed: 0 };

    /// Adds a change.
    pub(crate) fn add(&mut self, change: GroupCounts) {
        self.letters += change.letters;
        self.failures += change.failures;
        self.under_way += change.under_way;
        self.recovered += change.recovered;
        self.relapsed += change.relapsed;
    }

    /// Where a group stands that stood so and was changed so. `self` is what the change has led to.
    pub(crate) fn state_after(self, before: GroupState, change: GroupCounts) -> GroupState {
        // Whatever happened before, the last of it has left. Changes come summed up, and so a relapse may be over already.
        let left = change.letters < change.failures || change.under_way < 0;
        if left && self.letters <= 0 && self.under_way <= 0 {
            return GroupState::Resolved;
        }
        if change.relapsed > 0 || (change.failures > 0 && before == GroupState::Resolved) {
            return GroupState::Regressed;
        }
        before
    }
}

/// Dead letters with one fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they share.
    pub fingerprint: String,
    /// What they were found to be.
    pub cause: Cause,
    /// The error's type.
    pub error_type: String,
    /// The words of one of them.
    pub sample: String,
    /// How many.
    #[serde(flatten)]
    pub counts: GroupCounts,
    /// When the first letter was written.
    pub first_seen: Timestamp,
    /// When the last letter was written.
    pub last_seen: Timestamp,
    /// Where it stands.
    pub state: GroupState,
    /// Since when.
    pub state_since: Timestamp,
    /// What the person said who set the state.
    pub note: Option<String>,
}

/// Which groups.
#[derive(Debug, Clone, Default)]
pub struct GroupQuery {
    /// Only in one of these states; empty: all.
    pub states: Vec<GroupState>,
    /// Only with this cause.
    pub cause: Option<Cause>,
    /// Only those whose fingerprint begins so.
    pub prefix: Option<String>,
}

/// Looking at groups, and saying where they stand.
pub trait Groups: Send + Sync {
    /// Groups from the one with the most letters to the one with the fewest, at most `limit`. Those without letters come
    /// last, the latest seen first.
    fn groups(&self, query: GroupQuery, limit: u32) -> Answer<'_, Vec<Group>>;

    /// A person says where a group stands, with an event. Nothing when there is no such group.
    fn set_group_state(
        &self,
        now: Timestamp,
        fingerprint: String,
        state: GroupState,
        note: Option<String>,
    ) -> Answer<'_, Option<Group>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: GroupState, counts: GroupCounts, change: GroupCounts, expected: GroupState) {
        let mut after = counts;
        after.add(change);
        assert_eq!(after.state_after(before, change), expected, "{before:?} {counts:?} {change:?}");
    }

    /// R-D10: a group follows from the outcome of its redrive.
    #[test]
    fn a_group_is_resolved_by_recovery_and_regresses_by_failing_again() {
        use GroupState::{Acknowledged, Open, Regressed, Resolved};
        let counts = |letters, under_way| GroupCounts { letters, under_way, ..GroupCounts::default() };
        check(Open, counts(0, 0), GroupCounts::DIED, Open);
        check(Open, counts(5, 0), GroupCounts::REDRIVEN, Open);
        check(Open, counts(1, 0), GroupCounts::REDRIVEN, Open);
        check(Open, counts(0, 2), GroupCounts::RECOVERED, Open);
        check(Open, counts(0, 1), GroupCounts::RECOVERED, Resolved);
        check(Acknowledged, counts(4, 1), GroupCounts::RECOVERED, Acknowledged);
        check(Acknowledged, counts(0, 1), GroupCounts::RECOVERED, Resolved);
        check(Regressed, counts(0, 1), GroupCounts::RECOVERED, Resolved);
        check(Resolved, counts(0, 0), GroupCounts::DIED, Regressed);
        check(Acknowledged, counts(3, 1), GroupCounts::RELAPSED, Regressed);
        check(Acknowledged, counts(3, 0), GroupCounts::DIED, Acknowledged);
        check(Open, counts(1, 0), GroupCounts::DISCARDED, Resolved);
        let summed = |changes: &[GroupCounts]| {
            changes.iter().fold(GroupCounts::NONE, |mut sum, change| {
                sum.add(*change);
                sum
            })
        };
        check(Open, counts(0, 1), summed(&[GroupCounts::RELAPSED, GroupCounts::RECOVERED]), Resolved);
        check(Open, counts(0, 0), summed(&[GroupCounts::DIED, GroupCounts::DISCARDED]), Resolved);
        let again = summed(&[GroupCounts::RELAPSED, GroupCounts::OVER, GroupCounts::DIED]);
        check(Open, counts(0, 1), again, Regressed);
    }
}
