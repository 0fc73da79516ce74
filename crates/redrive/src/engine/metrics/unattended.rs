//! Dead letters that nobody looks after yet: those of groups that nobody has acknowledged. Letters of our own messages are none of
//! them, or an alert would raise the next. Alerts and what Prometheus reads are about the same letters.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use redrive_store::{Group, GroupQuery, GroupState, LetterFilter, LetterTest, Timestamp};

use crate::engine::{Engine, EngineError};

/// The queue of messages. What happens in it counts for no rule.
pub const ALERT_QUEUE: &str = "redrive-alerts";

/// How many letters are looked at.
const LETTERS: u32 = 2_000;

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
        let oldest = if letters == 0 { None } else { self.oldest_but(acknowledged).await? };
        Ok(Unattended { letters, groups, oldest })
    }

    /// How many letters of our own messages there are, by group.
    async fn own_letters(&self) -> Result<BTreeMap<String, i64>, EngineError> {
        let filter = LetterFilter { queue: Some(ALERT_QUEUE.to_owned()), ..LetterFilter::default() };
        let mut own = BTreeMap::new();
        for head in self.store().letter_heads(filter, LETTERS, LETTERS).await?.heads {
            *own.entry(head.fingerprint).or_default() += 1;
        }
        Ok(own)
    }

    async fn oldest_but(&self, acknowledged: HashSet<String>) -> Result<Option<Timestamp>, EngineError> {
        let only = LetterTest(Arc::new(move |head| {
            head.queue != ALERT_QUEUE && !acknowledged.contains(&head.fingerprint)
        }));
        let filter = LetterFilter { only: Some(only), oldest_first: true, ..LetterFilter::default() };
        Ok(self.store().letter_heads(filter, 1, LETTERS).await?.heads.first().map(|head| head.died_at))
    }
}
