//! Which targets matter, among however many there are; and forgetting those that nobody needs any more.
//!
//! A state on the board is due as long as there is trouble with its target, and otherwise when it may be forgotten. So trouble is found
//! without a look at all the others, whatever they are called.

use std::collections::{BTreeMap, HashSet};

use redrive_policy::protection::{Phase, TargetState};
use redrive_store::{Notice, NoticeChange, Posted, Timestamp};

use super::show::TargetView;
use super::swap::look_at;
use super::{FORGET_AFTER, STATES};
use crate::engine::{Engine, EngineError};

/// How many states are looked at in one transaction.
const PAGE: u32 = 500;
/// How many are looked at in one round of forgetting.
const MOST_FORGOTTEN: usize = 100_000;
/// How many that are due are looked at for trouble.
const MOST_DUE: u32 = 10_000;
/// How many that somebody has named are looked up one by one.
const MOST_NAMED: usize = 200;

impl Engine {
    /// The targets that matter most, at most so many: first those that nobody calls, then those that few call, then those with the most
    /// parked work, then those that somebody has set something for.
    pub async fn targets_that_matter(&self, limit: u32) -> Result<Vec<TargetView>, EngineError> {
        self.read_limits(true).await?;
        let now = self.store_now().await?;
        let mut found: BTreeMap<String, Option<(TargetState, Timestamp)>> = BTreeMap::new();
        let due = self.store().due_notices(now, STATES.to_owned(), MOST_DUE).await?;
        let due = due.into_iter().map(|notice| (read(&notice), notice));
        let troubled = due.filter(|(state, _)| state.is_troubled(now.millis()));
        let by_name = self.store().notices(STATES.to_owned(), None, limit).await?;
        let by_name = by_name.into_iter().map(|notice| (read(&notice), notice));
        for (state, notice) in troubled.chain(by_name) {
            found.insert(notice.name, Some((state, notice.changed_at)));
        }
        let rules = self.targets_known().rules();
        let named: Vec<&String> = rules.config.named.keys().chain(rules.limits.keys()).collect();
        for name in named.iter().take(MOST_NAMED) {
            if !found.contains_key(*name) {
                let notice = self.store().notice(STATES.to_owned(), (*name).clone()).await?;
                let state = notice.map(|notice| (read(&notice), notice.changed_at));
                found.insert((*name).clone(), state);
            }
        }
        let named: HashSet<&String> = named.into_iter().collect();
        let mut views: Vec<(bool, TargetView)> = found
            .into_iter()
            .map(|(name, state)| (named.contains(&name), self.target_view(name, state, now)))
            .collect();
        views.sort_by_key(|(named, view)| {
            let phase = match view.phase {
                Phase::Open { .. } => 0,
                Phase::HalfOpen { .. } => 1,
                Phase::Ramp { .. } => 2,
                Phase::Closed => 3,
            };
            let most_first = |number: u64| std::cmp::Reverse(number);
            let parked = most_first(view.standing.parked.into());
            (phase, parked, most_first(view.parked_total), most_first(view.opened_total), !named)
        });
        views.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(views.into_iter().map(|(_, view)| view).collect())
    }

    /// States that nobody needs any more go, all of them that are due.
    pub(super) async fn forget_targets(&self) -> Result<(), EngineError> {
        let now = self.store_now().await?;
        // What is put off to this very moment is not met again.
        let before = Timestamp::from_millis(now.millis().saturating_sub(1));
        let mut looked_at = 0;
        while looked_at < MOST_FORGOTTEN {
            let due = self.store().due_notices(before, STATES.to_owned(), PAGE).await?;
            if due.is_empty() {
                return Ok(());
            }
            looked_at += due.len();
            let changes: Vec<NoticeChange> =
                due.into_iter().map(|notice| self.forgotten(notice, now)).collect();
            let posted = self.store().post(now, changes.clone(), Vec::new(), Vec::new()).await?;
            if matches!(posted, Posted::Done { .. }) {
                continue;
            }
            // Somebody has something to say about one of them: that one is looked at again in its time.
            let mut done = false;
            for change in changes {
                let posted = self.store().post(now, vec![change], Vec::new(), Vec::new()).await?;
                done |= matches!(posted, Posted::Done { .. });
            }
            if !done {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A state without which nobody is worse off goes; another is looked at again.
    fn forgotten(&self, notice: Notice, now: Timestamp) -> NoticeChange {
        let state = read(&notice);
        let idle = state.is_idle(&self.targets_known().rules().of(&notice.name), now.millis())
            || state.is_left_alone(now.millis(), i64::try_from(FORGET_AFTER.as_millis()).unwrap_or(i64::MAX));
        NoticeChange {
            space: notice.space,
            name: notice.name,
            seen: Some(notice.version),
            value: (!idle).then_some(notice.value),
            due_at: (!idle).then(|| look_at(&state, now)),
        }
    }
}

/// One that cannot be read is as none: whoever writes next mends it.
fn read(notice: &Notice) -> TargetState {
    serde_json::from_str(&notice.value).unwrap_or_default()
}
