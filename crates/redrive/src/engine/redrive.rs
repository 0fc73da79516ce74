//! Putting work back: letters that somebody has fixed, and jobs that somebody will not wait for.

mod canary;
mod drive;
mod plan;
mod preview;
mod turns;

use redrive_policy::{Cause, Class};
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{
    DeadLetter, Group, GroupState, JobId, JobState, LetterFilter, Redriven, RunNow, Timestamp,
};

pub use canary::{Canary, EndedWhy, Tally, step_size};
pub use drive::Turn;
pub use plan::{MOST_IDS, RedrivePlan, RedriveRequest, RedriveRun, Which, parse_rate};
pub use preview::{RedrivePreview, Would};

use super::settle::bounded_why;
use super::{Engine, EngineError};

/// The event of a redrive.
const REDRIVEN: &str = "redrive";
/// The event of a retry by hand.
const MANUAL_RETRY: &str = "manual_retry";

/// What came of asking for a job to be tried now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RetryNow {
    /// It waited, and is due now.
    Due,
    /// It was a letter, and is ready again with a fresh budget.
    Redriven,
    /// It is running already.
    Running,
    /// It is a letter whose cause time does not heal: nothing was done. Ask first, then force it.
    Permanent {
        /// Its cause.
        cause: Cause,
        /// The letter.
        letter: Box<DeadLetter>,
    },
    /// Unfinished work has its unique key.
    Duplicate {
        /// That work.
        of: JobId,
    },
    /// It is over.
    Ended,
    /// There is no such job.
    Unknown,
}

impl Engine {
    /// A waiting job runs now, a dead one is redriven, with a `manual_retry` event. A letter with a permanent cause is
    /// answered as [`RetryNow::Permanent`] and left alone unless `even_if_permanent`.
    pub async fn retry_now(&self, id: JobId, even_if_permanent: bool) -> Result<RetryNow, EngineError> {
        match self.store().run_now(self.now(), id).await? {
            RunNow::Due => return Ok(RetryNow::Due),
            RunNow::Running => return Ok(RetryNow::Running),
            RunNow::Ended => return Ok(RetryNow::Ended),
            RunNow::Unknown => return Ok(RetryNow::Unknown),
            RunNow::Dead => {}
        }
        if !even_if_permanent
            && let Some(letter) = self.letter(id).await?
            && letter.cause.class() == Class::Permanent
            && !letter.retryable
        {
            return Ok(RetryNow::Permanent { cause: letter.cause, letter: Box::new(letter) });
        }
        let redriven = self.store().redrive(self.now(), vec![id], MANUAL_RETRY).await?;
        Ok(match redriven.first() {
            Some(Redriven::Ready) => RetryNow::Redriven,
            Some(Redriven::Duplicate { of }) => RetryNow::Duplicate { of: *of },
            // Somebody was faster.
            Some(Redriven::NotDead) | None => RetryNow::Due,
        })
    }

    /// Puts letters back, each with a fresh budget and its story going on; an answer for each.
    pub async fn redrive(&self, ids: Vec<JobId>) -> Result<Vec<Redriven>, EngineError> {
        let mut answers = Vec::with_capacity(ids.len());
        for some in ids.chunks(redrive_store::MAX_BATCH) {
            answers.extend(self.store().redrive(self.now(), some.to_vec(), REDRIVEN).await?);
        }
        Ok(answers)
    }

    /// A person says where a group stands; what they say is redacted. Nothing when there is no such group.
    pub async fn set_group_state(
        &self,
        fingerprint: String,
        state: GroupState,
        note: Option<String>,
    ) -> Result<Option<Group>, EngineError> {
        let note = note.map(|note| bounded_why(&note));
        Ok(self.store().set_group_state(self.now(), fingerprint, state, note).await?)
    }

    /// The letters that a filter asks for, whose ages are counted up to then.
    pub fn letters_where(&self, text: &str, as_of: Timestamp) -> Result<LetterFilter, EngineError> {
        Ok(Filter::<LetterField>::parse_own(text)?.letters(as_of))
    }

    /// The letter of that job, if it is one.
    pub async fn letter(&self, id: JobId) -> Result<Option<DeadLetter>, EngineError> {
        Ok(self.store().job(id).await?.and_then(|record| match record.state {
            JobState::Dead(letter) => Some(*letter),
            JobState::Ready { .. } | JobState::Leased { .. } | JobState::Ended => None,
        }))
    }

    /// Ends a waiting job without a letter, or asks the worker that has it to stop. Nothing when there is no such job;
    /// otherwise whether it is over.
    pub async fn cancel(&self, id: JobId, why: impl Into<String>) -> Result<Option<bool>, EngineError> {
        Ok(self.store().cancel(self.now(), id, bounded_why(&why.into())).await?)
    }
}
