//! Redrives of many letters as durable runs (R-D8, R-D9): killed half-way, a run goes on where it was.
//!
//! The engine decides what a run takes, how fast and in which steps; the store writes each step together with the letters
//! that it puts back, and only for whoever knows the run's version. So no letter is put back twice by one run, whoever
//! moves it on and whenever one of them dies.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Answer;
use crate::dead_letter::Redriven;
use crate::id::{BadId, JobId};
use crate::time::Timestamp;

/// A run. Written `redrive_3`.
///
/// ```
/// use redrive_store::RunId;
/// assert_eq!("redrive_3".parse(), Ok(RunId(3)));
/// assert_eq!(RunId(3).to_string(), "redrive_3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redrive_{}", self.0)
    }
}

impl FromStr for RunId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<RunId, BadId> {
        let digits = text.strip_prefix("redrive_").unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadId);
        }
        digits.parse().map(RunId).map_err(|_| BadId)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It goes on.
    Running,
    /// Everything it was to put back is back.
    Done,
    /// Somebody ended it; what it had not touched stays dead.
    Cancelled,
    /// It ended itself, since what it had put back failed again; what it had not touched stays dead.
    Stopped,
}

impl RunState {
    /// Every state.
    pub const ALL: [RunState; 4] =
        [RunState::Running, RunState::Done, RunState::Cancelled, RunState::Stopped];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Done => "done",
            RunState::Cancelled => "cancelled",
            RunState::Stopped => "stopped",
        }
    }

    /// Its number in the store.
    pub(crate) const fn number(self) -> i64 {
        match self {
            RunState::Running => 0,
            RunState::Done => 1,
            RunState::Cancelled => 2,
            RunState::Stopped => 3,
        }
    }

    /// The state of that number.
    pub(crate) fn from_number(number: i64) -> RunState {
        RunState::ALL.into_iter().find(|state| state.number() == number).unwrap_or(RunState::Stopped)
    }
}

/// A run to be started.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Who wants it: a person's command, or the name of a rule.
    pub wanted_by: String,
    /// What it takes, how fast, in which steps.
    pub plan: Value,
    /// How far it is, which is nowhere.
    pub progress: Value,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// When it was started.
    pub created_at: Timestamp,
    /// By whom.
    pub wanted_by: String,
    /// What it takes, how fast, in which steps.
    pub plan: Value,
    /// How far it is.
    pub progress: Value,
    /// Letters that it has put back.
    pub moved: u64,
    /// Letters that were none any more, or whose unique key somebody else has by now.
    pub skipped: u64,
    /// Where it stands.
    pub state: RunState,
    /// Why it is over.
    pub why: Option<String>,
    /// Grows with each change.
    pub version: i64,
    /// Until when somebody moves it on.
    pub held_until: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// One step of a run: what is put back, and how far the run is then.
#[derive(Debug, Clone)]
pub struct RunStep {
    /// The run.
    pub run: RunId,
    /// The version that this step was thought out for.
    pub version: i64,
    /// The letters to put back, at most [`crate::MAX_BATCH`]. A letter that this run has put back before stays where it is.
    pub ids: Vec<JobId>,
    /// The number of the step that they belong to, if their first attempts are judged.
    pub judged_in: Option<u32>,
    /// How far the run is with them. What became of them is added to the run's counts by the store.
    pub progress: Value,
    /// Where it stands then.
    pub state: RunState,
    /// Why it is over, if it is.
    pub why: Option<String>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    /// What became of each letter.
    pub redriven: Vec<Redriven>,
    /// The run's version now.
    pub version: i64,
}

/// How first attempts went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FirstAttempt {
    /// It has not ended yet.
    Unknown,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// The job was over without one.
    None,
}

impl FirstAttempt {
    /// Its number in the store.
    pub(crate) const fn number(self) -> i64 {
        match self {
            FirstAttempt::Unknown => 0,
            FirstAttempt::Succeeded => 1,
            FirstAttempt::Failed => 2,
            FirstAttempt::None => 3,
        }
    }

    /// The one of that number.
    pub(crate) const fn from_number(number: i64) -> FirstAttempt {
        match number {
            0 => FirstAttempt::Unknown,
            1 => FirstAttempt::Succeeded,
            2 => FirstAttempt::Failed,
            _ => FirstAttempt::None,
        }
    }
}

/// How many first attempts of a step went so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// How.
    pub first_attempt: FirstAttempt,
    /// The group of those that failed.
    pub fingerprint: Option<String>,
    /// How many.
    pub jobs: u64,
}

/// A run that goes on, as it looks to who might move it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRun {
    /// Which.
    pub id: RunId,
    /// Its version.
    pub version: i64,
    /// Whether somebody else has it.
    pub held: bool,
}

/// Redrives as durable runs.
pub trait Redrives: Send + Sync {
    /// A new run, with a `redrive_started` event. Nothing is put back by this.
    fn start_run(&self, now: Timestamp, run: NewRun) -> Answer<'_, RunId>;

    /// Runs, the newest first; only those that go on, if asked.
    fn runs(&self, open_only: bool, limit: u32) -> Answer<'_, Vec<Run>>;

    /// A page of the runs that go on, by id, behind this one: this is asked often, and costs what the page holds.
    fn open_runs(
        &self,
        now: Timestamp,
        holder: i64,
        after: Option<RunId>,
        limit: u32,
    ) -> Answer<'_, Vec<OpenRun>>;

    /// One run.
    fn run(&self, id: RunId) -> Answer<'_, Option<Run>>;

    /// Takes the run to move it on, for so long; nothing when it is over or somebody else (another `holder`) has it.
    /// Whoever has it may take it again, which lengthens the time.
    fn hold_run(&self, now: Timestamp, id: RunId, holder: i64, hold_for: Duration)
    -> Answer<'_, Option<Run>>;

    /// One step: puts letters back (event type `redrive`, the run named in its data) and writes how far the run is, in one
    /// transaction. Nothing happens, and nothing is answered, when the version is another one or the run is over. When the run
    /// is over with this step, a `redrive_ended` event tells so.
    fn advance_run(&self, now: Timestamp, step: RunStep) -> Answer<'_, Option<Stepped>>;

    /// Ends a run, with an event; what it has not touched stays dead. Answers whether it was under way.
    fn cancel_run(&self, now: Timestamp, id: RunId, why: String) -> Answer<'_, bool>;

    /// How the first attempts of a step went; absent: of all steps.
    fn judged(&self, id: RunId, step: Option<u32>) -> Answer<'_, Vec<Judged>>;
}
