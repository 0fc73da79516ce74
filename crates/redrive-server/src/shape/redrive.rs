//! Redrives as JSON: what one would do, and how far one is. The command line writes the same.

use std::collections::BTreeMap;

use redrive::engine::{EndedWhy, RedrivePreview, RedriveRun, Tally, Which};
use redrive_policy::Cause;
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::letter::SampleLetter;
use super::{Time, name};

/// Which letters a redrive takes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// These.
    Ids(Vec<String>),
    /// Those of the group with this fingerprint.
    Group(String),
    /// Those that match this filter.
    Where(String),
    /// All there are.
    All,
}

impl Takes {
    fn new(which: &Which, most_ids: usize) -> Takes {
        match which {
            Which::Ids(ids) => Takes::Ids(ids.iter().take(most_ids).map(ToString::to_string).collect()),
            Which::Group(fingerprint) => Takes::Group(fingerprint.clone()),
            Which::Where(filter) => Takes::Where(filter.clone()),
            Which::All => Takes::All,
        }
    }
}

/// Why a redrive was over before everything was put back.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ended {
    /// Too many first attempts failed.
    Failures {
        /// So many.
        failed: u64,
        /// Of so many.
        of: u64,
    },
    /// Something failed in a way in which it had not failed before.
    NewKind {
        /// The group of that failure.
        fingerprint: String,
        /// So many first attempts.
        failed: u64,
    },
    /// Somebody ended it.
    Cancelled {
        /// In their words.
        said: Option<String>,
    },
}

impl From<EndedWhy> for Ended {
    fn from(why: EndedWhy) -> Ended {
        match why {
            EndedWhy::Failures { failed, of } => Ended::Failures { failed, of },
            EndedWhy::NewKind { fingerprint, failed } => Ended::NewKind { fingerprint, failed },
            EndedWhy::Cancelled { said } => Ended::Cancelled { said },
        }
    }
}

/// How a canary goes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CanaryProgress {
    /// From 1 to 4.
    pub step: u32,
    /// Whether it waits for first attempts to end.
    pub judging: bool,
    /// The share of first attempts that may fail.
    pub max_failure_rate: f64,
    /// First attempts that succeeded.
    pub succeeded: u64,
    /// First attempts that failed.
    pub failed: u64,
    /// Jobs whose first attempt has not ended.
    pub unknown: u64,
}

/// A redrive.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Redrive {
    /// Its id.
    pub id: String,
    /// Where it stands.
    #[schemars(with = "name::RedriveState")]
    pub state: &'static str,
    /// Who wanted it.
    pub wanted_by: String,
    /// When it was started.
    #[schemars(with = "Time")]
    pub created_at: Timestamp,
    /// When it was over.
    #[schemars(with = "Option<Time>")]
    pub ended_at: Option<Timestamp>,
    /// Which letters it takes.
    pub which: Takes,
    /// How many in a second; null: as fast as the store can.
    pub rate: Option<f64>,
    /// How many at the most.
    pub limit: Option<u64>,
    /// How many there were to put back when it began.
    pub total: u64,
    /// Letters that it has put back.
    pub moved: u64,
    /// Letters that it found and left: they were none any more, or their unique key is taken.
    pub skipped: u64,
    /// How the canary goes, if it is one.
    pub canary: Option<CanaryProgress>,
    /// Why it was over early.
    pub why: Option<Ended>,
    /// What a rule names and leaves to people, by cause.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub left_alone: BTreeMap<String, u64>,
}

impl Redrive {
    /// This run with how its first attempts went; of letters that were named one by one, at most so many.
    pub fn new(run: &RedriveRun, tally: Option<Tally>, most_ids: usize) -> Redrive {
        let tally = tally.unwrap_or_default();
        let canary = run.plan.canary.map(|canary| CanaryProgress {
            step: run.step().unwrap_or(1),
            judging: run.is_judging(),
            max_failure_rate: canary.max_failure_rate,
            succeeded: tally.succeeded,
            failed: tally.failed,
            unknown: tally.unknown,
        });
        Redrive {
            id: run.id.to_string(),
            state: run.state.name(),
            wanted_by: run.wanted_by.clone(),
            created_at: run.created_at,
            ended_at: run.ended_at,
            which: Takes::new(&run.plan.which, most_ids),
            rate: run.plan.rate,
            limit: run.plan.limit,
            total: run.plan.total,
            moved: run.moved,
            skipped: run.skipped,
            canary,
            why: run.why.clone().map(Ended::from),
            left_alone: run.plan.left_alone.clone(),
        }
    }
}

/// What a redrive would do.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Preview {
    /// How many letters match.
    pub matching: u64,
    /// How many of them would be put back.
    pub count: u64,
    /// Whether in steps that are judged.
    pub canary: bool,
    /// How many in a second.
    pub rate: Option<f64>,
    /// The oldest of them.
    pub sample: Vec<SampleLetter>,
    /// What the policy would do if they failed again as before.
    pub would: Vec<Would>,
    /// Queues and kinds among them whose work nobody takes at the moment.
    pub nobody_takes: Vec<Lane>,
    /// Queues among them that are paused.
    pub paused: Vec<String>,
}

/// What a policy would do about a failure.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Would {
    /// The failure.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// The policy.
    pub policy: String,
    /// How often it would retry; 0: it would be a letter again at once.
    pub max_retries: u32,
}

/// A queue and a kind of work.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Lane {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
}

impl Preview {
    /// What the engine found out.
    pub fn new(preview: RedrivePreview, canary: bool, rate: Option<f64>) -> Preview {
        let would = preview.would.into_iter().map(|would| Would {
            cause: would.cause,
            policy: would.policy,
            max_retries: would.max_retries,
        });
        let lanes = preview.nobody_takes.into_iter().map(|(queue, kind)| Lane { queue, kind });
        Preview {
            matching: preview.matching,
            count: preview.count,
            canary,
            rate,
            sample: preview.sample.into_iter().map(SampleLetter::from).collect(),
            would: would.collect(),
            nobody_takes: lanes.collect(),
            paused: preview.paused,
        }
    }
}
