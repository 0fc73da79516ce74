//! What a redrive takes, how fast, and how far it is. Both are kept with the run as JSON, so that whoever finds it there
//! can go on with it.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_store::{JobId, LetterFilter, Run, RunId, RunState, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::canary::{Canary, EndedWhy, LAST_STEP, step_size};
use crate::engine::{Engine, EngineError};

/// The most letters that one redrive takes by their ids.
pub const MOST_IDS: usize = 100_000;

/// Which letters a redrive takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// These.
    Ids(Vec<JobId>),
    /// Those of the group with this fingerprint.
    Group(String),
    /// Those that match this filter.
    Where(String),
    /// All there are.
    All,
}

/// A redrive that somebody wants.
#[derive(Debug, Clone, PartialEq)]
pub struct RedriveRequest {
    /// Which letters.
    pub which: Which,
    /// How many in a second; absent: as fast as the store can.
    pub rate: Option<f64>,
    /// How many at the most.
    pub limit: Option<u64>,
    /// In steps that are judged.
    pub canary: Option<Canary>,
    /// Letters that were put back so often before stay where they are.
    pub max_redrives: Option<u32>,
    /// Letters whose cause time does not heal stay where they are.
    pub only_retryable: bool,
    /// Who wants it.
    pub wanted_by: String,
    /// What a rule names and leaves to people, by cause: kept with the run as its report.
    pub left_alone: BTreeMap<String, u64>,
}

impl RedriveRequest {
    /// All at once, as fast as the store can.
    ///
    /// ```
    /// use redrive::engine::{RedriveRequest, Which};
    ///
    /// let slowly = RedriveRequest { rate: Some(10.0), ..RedriveRequest::new(Which::All) };
    /// assert_eq!(slowly.canary, None);
    /// ```
    pub fn new(which: Which) -> RedriveRequest {
        RedriveRequest {
            which,
            rate: None,
            limit: None,
            canary: None,
            max_redrives: None,
            only_retryable: false,
            wanted_by: "person".to_owned(),
            left_alone: BTreeMap::new(),
        }
    }
}

/// How many in a second, from `10/s`, `30/m` or `100/h`; nothing when it is no such text or no time at all.
///
/// ```
/// use redrive::engine::parse_rate;
///
/// assert_eq!(parse_rate("10/s"), Some(10.0));
/// assert_eq!(parse_rate("30/m"), Some(0.5));
/// assert_eq!(parse_rate("0/s"), None);
/// assert_eq!(parse_rate("fast"), None);
/// ```
pub fn parse_rate(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once('/')?;
    let number: f64 = number.trim().parse().ok()?;
    let seconds = match unit.trim() {
        "s" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3_600.0,
        _ => return None,
    };
    let rate = number / seconds;
    (rate.is_finite() && (1e-6..=1e9).contains(&rate)).then_some(rate)
}

/// What is kept of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedrivePlan {
    /// Which letters.
    pub which: Which,
    /// How many in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How many at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// In steps that are judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Letters that were put back so often before stay where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_redrives: Option<u32>,
    /// Letters whose cause time does not heal stay where they are.
    #[serde(default)]
    pub only_retryable: bool,
    /// What a rule names and leaves to people, by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_alone: BTreeMap<String, u64>,
    /// How many there were when it began, the limit applied.
    pub total: u64,
    /// What a filter that speaks of ages calls now.
    pub as_of: Timestamp,
    /// Letters that died later than this are none of its business: what fails again is not taken again.
    pub died_up_to: Timestamp,
}

/// How far a redrive is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    /// The letter up to which it has looked.
    pub(super) place: Option<(Timestamp, JobId)>,
    /// How many of its ids it has taken.
    pub(super) taken: usize,
    /// Which step of a canary it is in.
    pub(super) step: u32,
    /// How many were back when that step began.
    pub(super) step_began_with: u64,
    /// Whether it waits for the first attempts of the step.
    pub(super) judging: bool,
    /// How many it may put back at once, by its rate.
    pub(super) allowance: f64,
    /// When that was worked out.
    pub(super) allowance_at: Option<Timestamp>,
}

impl Progress {
    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Works out how many may be put back now; never more than one second's worth at once.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn allow(&mut self, rate: Option<f64>, now: Timestamp) -> u64 {
        let Some(rate) = rate else { return u64::MAX };
        let passed = self.allowance_at.map_or(0, |last| now.millis().saturating_sub(last.millis()).max(0));
        let first = if self.allowance_at.is_none() { 1.0 } else { 0.0 };
        self.allowance = (self.allowance + first + rate * passed as f64 / 1000.0).min(rate.max(1.0));
        self.allowance_at = Some(now);
        self.allowance as u64
    }

    /// So many were put back.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn spend(&mut self, rate: Option<f64>, count: usize) {
        if rate.is_some() {
            self.allowance -= count as f64;
        }
    }

    /// How long until one more may be put back.
    pub(super) fn allowed_in(&self, rate: f64) -> Duration {
        let missing = (1.0 - self.allowance).max(0.0);
        Duration::try_from_secs_f64(missing / rate).unwrap_or(Duration::from_hours(1))
    }
}

/// A redrive as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RedriveRun {
    /// Its number.
    pub id: RunId,
    /// When it was started.
    pub created_at: Timestamp,
    /// By whom.
    pub wanted_by: String,
    /// What it takes, how fast, in which steps.
    pub plan: RedrivePlan,
    /// Where it stands.
    pub state: RunState,
    /// Letters that it has put back.
    pub moved: u64,
    /// Letters that it found and left, since they were none any more or their unique key is taken.
    pub skipped: u64,
    /// Why it was over early.
    pub why: Option<EndedWhy>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// Until when somebody moves it on.
    pub held_until: Option<Timestamp>,
    pub(super) progress: Progress,
    pub(super) version: i64,
}

impl RedriveRun {
    /// Reads a run as the store keeps it.
    pub(super) fn read(run: Run) -> Result<RedriveRun, EngineError> {
        let unreadable = |error: serde_json::Error| EngineError::UnreadableRun(run.id, error.to_string());
        Ok(RedriveRun {
            plan: serde_json::from_value(run.plan).map_err(unreadable)?,
            progress: serde_json::from_value(run.progress).map_err(unreadable)?,
            id: run.id,
            created_at: run.created_at,
            wanted_by: run.wanted_by,
            state: run.state,
            moved: run.moved,
            skipped: run.skipped,
            why: run.why.as_deref().map(EndedWhy::from_text),
            ended_at: run.ended_at,
            held_until: run.held_until,
            version: run.version,
        })
    }

    /// The step of a canary that it is in, from 1, of four.
    pub fn step(&self) -> Option<u32> {
        self.plan.canary.map(|_| self.progress.step + 1)
    }

    /// Whether it waits for first attempts to end before it goes on.
    pub fn is_judging(&self) -> bool {
        self.progress.judging
    }

    /// How many more may be put back before the step, or the whole, is over.
    pub(super) fn left_in_step(&self) -> u64 {
        let in_all = self.plan.limit.unwrap_or(u64::MAX).saturating_sub(self.moved);
        if self.plan.canary.is_none() || self.progress.step >= LAST_STEP {
            return in_all;
        }
        let moved = self.moved.saturating_sub(self.progress.step_began_with);
        step_size(self.progress.step, self.plan.total).saturating_sub(moved).min(in_all)
    }
}

impl Engine {
    /// The letters that a redrive may take, without bounds of place.
    pub(in crate::engine) fn letters_of(
        &self,
        which: &Which,
        as_of: Timestamp,
        max_redrives: Option<u32>,
        only_retryable: bool,
    ) -> Result<LetterFilter, EngineError> {
        let mut filter = match which {
            Which::Ids(ids) => LetterFilter { ids: Some(ids.clone()), ..LetterFilter::default() },
            Which::Group(fingerprint) => {
                LetterFilter { fingerprint: Some(fingerprint.clone()), ..LetterFilter::default() }
            }
            Which::Where(text) => self.letters_where(text, as_of)?,
            Which::All => LetterFilter::default(),
        };
        if max_redrives.is_some() || only_retryable {
            let most = max_redrives.unwrap_or(u32::MAX);
            let before = filter.only.take();
            filter.only = Some(redrive_store::LetterTest(std::sync::Arc::new(move |head| {
                head.redrives < most
                    && (head.retryable || !only_retryable)
                    && before.as_ref().is_none_or(|test| (test.0)(head))
            })));
        }
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D8: a rate is kept to, however seldom somebody looks.
    #[test]
    fn a_rate_allows_so_many_and_no_heap_of_them() {
        let at = |millis| Timestamp::from_millis(millis);
        let mut progress = Progress::default();
        assert_eq!(progress.allow(Some(10.0), at(0)), 1);
        progress.spend(Some(10.0), 1);
        assert_eq!(progress.allow(Some(10.0), at(50)), 0);
        assert_eq!(progress.allowed_in(10.0).as_millis(), 50);
        assert_eq!(progress.allow(Some(10.0), at(100)), 1);
        progress.spend(Some(10.0), 1);
        // An hour later there is one second's worth, not an hour's.
        assert_eq!(progress.allow(Some(10.0), at(3_600_000)), 10);
        // A clock that was set back gives nothing and takes nothing.
        assert_eq!(progress.allow(Some(10.0), at(0)), 10);
        let mut slow = Progress::default();
        assert_eq!((slow.allow(Some(0.1), at(0)), slow.allow(None, at(0))), (1, u64::MAX));
        slow.spend(Some(0.1), 1);
        assert_eq!(slow.allow(Some(0.1), at(9_999)), 0);
        assert_eq!(slow.allow(Some(0.1), at(10_000)), 1);
    }
}
