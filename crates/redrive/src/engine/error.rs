//! What can go wrong with the engine itself. The trouble of a job is never here: that is a failure, and data.

use redrive_policy::ConfigError;
use redrive_store::StoreError;

/// Our own trouble.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store cannot do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A policy that nobody has defined.
    #[error("there is no policy called {name:?}; known: {}", .known.join(", "))]
    UnknownPolicy {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// What a job overrides in its policy cannot be read.
    #[error("the overrides of the policy cannot be read: {0}")]
    BadOverrides(#[from] ConfigError),
    /// The same, when it is not even JSON.
    #[error("the overrides of the policy are no JSON object: {0}")]
    OverridesNotJson(String),
    /// A payload that cannot be written as JSON.
    #[error("the payload cannot be written as JSON: {0}")]
    Payload(#[source] serde_json::Error),
    /// A store of a kind that this build does not know.
    #[error(
        "no store can be opened at {0:?}; sqlite:PATH is known here, and Engine::connect opens postgres://HOST/DATABASE (feature `postgres`)"
    )]
    UnknownStore(String),
    /// A worker without a single handler would lease nothing.
    #[error("a worker needs at least one handler or executor")]
    NothingToRun,
    /// A filter that cannot be read.
    #[error("the filter cannot be read: {0}")]
    BadFilter(#[from] redrive_store::filter::FilterError),
    /// More letters by id than one redrive takes.
    #[error("one redrive takes at most {most} letters by their ids; {count} are too many")]
    TooManyIds {
        /// So many.
        count: usize,
        /// The most.
        most: usize,
    },
    /// A task that nobody knows.
    #[error("there is no {0}")]
    UnknownTask(redrive_store::TaskId),
    /// A plan that was stored, and is none.
    #[error("the plan of {0} cannot be followed: {1}")]
    BadPlan(redrive_store::TaskId, String),
    /// A subtask whose HTTP call cannot be made.
    #[error("the subtask {0} cannot be made: {1}")]
    BadCall(String, String),
    /// A text that names no target.
    #[error("{0:?} names no target; write host:NAME, queue:NAME or key:NAME")]
    BadTarget(String),
    /// Others change the same thing all the time.
    #[error("{0} is being changed by others all the time; try again")]
    Outrun(String),
    /// A redrive that nobody knows.
    #[error("there is no {0}")]
    UnknownRun(redrive_store::RunId),
    /// What is kept with a redrive was written by a redrive that this one does not understand.
    #[error("{0} cannot be read: {1}")]
    UnreadableRun(redrive_store::RunId, String),
    /// A rule of automatic recovery that cannot be obeyed.
    #[error("the rule {rule:?} of automatic recovery cannot be obeyed: {why}")]
    BadRecoveryRule {
        /// Its name.
        rule: String,
        /// Why not.
        #[source]
        why: RuleProblem,
    },
    /// Alerts that cannot be had.
    #[cfg(feature = "alerts")]
    #[error(transparent)]
    Alert(#[from] super::AlertProblem),
    /// A token that cannot be made.
    #[cfg(feature = "tokens")]
    #[error(transparent)]
    BadToken(#[from] super::TokenProblem),
    /// A schedule that cannot be had.
    #[cfg(feature = "schedules")]
    #[error(transparent)]
    Schedule(#[from] super::ScheduleProblem),
    /// A push endpoint that cannot be had.
    #[cfg(feature = "push")]
    #[error(transparent)]
    Push(#[from] super::PushProblem),
    /// An event that nobody knows.
    #[error("there is no event {0}")]
    UnknownEvent(String),
    /// No client for HTTP calls can be made.
    #[cfg(feature = "http-call")]
    #[error("no client for HTTP calls can be made")]
    HttpClient(#[source] reqwest::Error),
    /// What is imported cannot be read, or what is exported cannot be written.
    #[error("reading or writing the events failed")]
    Io(#[from] std::io::Error),
}

/// Why a rule of automatic recovery cannot be obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// Its filter cannot be read.
    #[error("its filter cannot be read: {0}")]
    Filter(#[source] redrive_store::filter::FilterError),
    /// Its rate is none.
    #[error("{0:?} is no rate such as 10/s, 30/m or 100/h")]
    Rate(String),
}
