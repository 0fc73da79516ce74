//! Dead letters that nobody looks after yet: those of groups that nobody has acknowledged. Letters of our own messages are none of
//! them, or an alert would raise the next. Alerts and what Prometheus reads are about the same letters.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use redrive_store::{Group, GroupQuery, GroupState, LetterFilter, LetterTest, Timestamp};

use crate::engine::{Engine, EngineError};

/// The queue of messages. What happens in it counts for no rule.
pub const ALERT_QUEUE: &str = "redrive-alerts";

/// How many letters are looked at in one stretch.
const LETTERS: u32 = 2_000;
/// How many stretches of our own letters are looked at.
const OWN_STRETCHES: u32 = 50;
/// How many groups are asked for their oldest letter, one by one.
const ASKED: usize = 200;

/// Letters that nobody looks after yet.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Unattended {
    pub(in crate::engine) letters: u64,
    /// Their groups, the largest first.
    pub(in crate::engine) groups: Vec<Group>,
    /// When the oldest of them died.
    pub(in crate::engine) oldest: Option<Timestamp>,
}

impl Engine {
    /// Them, as far as they are of the first `most` groups.
    pub(in crate::engine) async fn unattended(&self, most: u32) -> Result<Unattended, EngineError> {
        let own = self.own_letters().await?;
        let mut acknowledged = HashSet::new();
        let mut groups = Vec::new();
        for mut group in self.store().groups(GroupQuery::default(), most).await? {
            let ours = own.get(&group.fingerprint).copied().unwrap_or(0);
            group.counts.letters -= ours;
            if group.counts.letters <= 0 {
                continue;
            }
            if group.state == GroupState::Acknowledged {
                acknowledged.insert(group.fingerprint);
            } else {
                groups.push(group);
            }
        }
        let letters = groups.iter().map(|group| u64::try_from(group.counts.letters).unwrap_or(0)).sum();
        let oldest = if letters == 0 { None } else { self.oldest_but(acknowledged, &groups).await? };
        Ok(Unattended { letters, groups, oldest })
    }

    /// How many letters of our own messages there are, by group.
    async fn own_letters(&self) -> Result<BTreeMap<String, i64>, EngineError> {
        let filter = LetterFilter { queue: Some(ALERT_QUEUE.to_owned()), ..LetterFilter::default() };
        let (mut own, mut after) = (BTreeMap::new(), None);
        for _ in 0..OWN_STRETCHES {
            let filter = LetterFilter { after, ..filter.clone() };
            let found = self.store().letter_heads(filter, LETTERS, LETTERS).await?;
            for head in found.heads {
                *own.entry(head.fingerprint).or_default() += 1;
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        Ok(own)
    }

    /// When the oldest letter died, but for those of these groups. It is most often among the oldest of all. Otherwise the others are
    /// asked group by group: none of a group's letters is older than the group.
    async fn oldest_but(
        &self,
        acknowledged: HashSet<String>,
        others: &[Group],
    ) -> Result<Option<Timestamp>, EngineError> {
        let only = LetterTest(Arc::new(move |head| {
            head.queue != ALERT_QUEUE && !acknowledged.contains(&head.fingerprint)
        }));
        let filter = LetterFilter { only: Some(only), oldest_first: true, ..LetterFilter::default() };
        let found = self.store().letter_heads(filter.clone(), 1, LETTERS).await?;
        if !found.heads.is_empty() || found.next.is_none() {
            return Ok(found.heads.first().map(|head| head.died_at));
        }
        let mut others: Vec<&Group> = others.iter().collect();
        others.sort_unstable_by_key(|group| group.first_seen);
        let mut oldest: Option<Timestamp> = None;
        for group in others.into_iter().take(ASKED) {
            if oldest.is_some_and(|oldest| oldest <= group.first_seen) {
                break;
            }
            let of_group = LetterFilter { fingerprint: Some(group.fingerprint.clone()), ..filter.clone() };
            let found = self.store().letter_heads(of_group, 1, LETTERS).await?;
            oldest = oldest.into_iter().chain(found.heads.first().map(|head| head.died_at)).min();
        }
        Ok(oldest)
    }
}
