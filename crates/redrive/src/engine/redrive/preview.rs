//! What a redrive would do, before it does anything: how many, which, what the policy says to them, and whether anybody
//! would run them.

use std::collections::BTreeSet;

use redrive_policy::{Cause, Failure, History, decide};
use redrive_store::{LetterFilter, LetterHead};

use super::plan::RedriveRequest;
use crate::engine::{Engine, EngineError};

/// How many letters are looked at to say what a redrive would do.
const LOOKED_AT: u32 = 200;
/// How many of them are shown.
const SHOWN: usize = 5;

/// What a redrive would do.
#[derive(Debug, Clone, PartialEq)]
pub struct RedrivePreview {
    /// How many letters match.
    pub matching: u64,
    /// How many of them would be put back.
    pub count: u64,
    /// The first of them: the oldest.
    pub sample: Vec<LetterHead>,
    /// What the policy would do if they failed again as before.
    pub would: Vec<Would>,
    /// Queues and kinds among them whose work nobody takes at the moment.
    pub nobody_takes: Vec<(String, String)>,
    /// Queues among them that are paused.
    pub paused: Vec<String>,
}

/// What the policy says to a failure of this kind, the first time.
#[derive(Debug, Clone, PartialEq)]
pub struct Would {
    /// The failure.
    pub cause: Cause,
    /// The policy.
    pub policy: String,
    /// How many of those that were looked at.
    pub letters: u64,
    /// How often it would be retried; 0: it would be a letter again at once.
    pub max_retries: u32,
}

impl Engine {
    /// What a redrive would do. Nothing is written.
    pub async fn preview_redrive(&self, request: &RedriveRequest) -> Result<RedrivePreview, EngineError> {
        let filter =
            self.letters_of(&request.which, self.now(), request.max_redrives, request.only_retryable)?;
        let filter = LetterFilter { oldest_first: true, ..filter };
        let matching = self.store().count_letters(filter.clone()).await?;
        let mut heads = Vec::new();
        let mut looking = filter;
        // A test that few pass is asked until some have.
        while heads.is_empty() {
            let found = self.store().letter_heads(looking.clone(), LOOKED_AT, 20_000).await?;
            heads = found.heads;
            let Some(next) = found.next else { break };
            looking.after = Some(next);
        }
        let lanes: BTreeSet<(String, String)> =
            heads.iter().map(|head| (head.queue.clone(), head.kind.clone())).collect();
        let workers = self.store().workers(self.now()).await?;
        let queues = self.store().queues().await?;
        let paused = queues
            .into_iter()
            .filter(|queue| queue.paused_at.is_some() && lanes.iter().any(|(name, _)| *name == queue.name))
            .map(|queue| queue.name)
            .collect();
        let nobody_takes = lanes
            .into_iter()
            .filter(|(queue, kind)| {
                !workers
                    .iter()
                    .any(|worker| worker.takes.as_ref().is_some_and(|takes| takes.takes(queue, kind)))
            })
            .collect();
        let would = self.would(&heads).await?;
        let count = matching.min(request.limit.unwrap_or(u64::MAX));
        heads.truncate(SHOWN.min(usize::try_from(count).unwrap_or(SHOWN)));
        Ok(RedrivePreview { matching, count, sample: heads, would, nobody_takes, paused })
    }

    /// By cause, the most frequent first: what the policy of the first such letter says.
    async fn would(&self, heads: &[LetterHead]) -> Result<Vec<Would>, EngineError> {
        let mut would: Vec<Would> = Vec::new();
        for head in heads {
            if let Some(known) = would.iter_mut().find(|would| would.cause == head.cause) {
                known.letters += 1;
                continue;
            }
            let record = self.store().job(head.id).await?;
            let Some(job) = record.and_then(|record| record.job) else { continue };
            let policy = self.policies().of_job(&job).policy;
            let failure = Failure::of(head.cause);
            let decision = decide(&policy, &failure, &History::default(), &mut self.rng());
            // Of what is not retried the decision says 0.
            let max_retries = decision.max_retries;
            would.push(Would { cause: head.cause, policy: policy.name.clone(), letters: 1, max_retries });
        }
        would.sort_by_key(|would| std::cmp::Reverse(would.letters));
        Ok(would)
    }
}
