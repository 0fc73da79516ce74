//! What waits for a person: tasks that are partial or cannot go on, and letters that belong to no task, the newest
//! first; and that somebody has seen one of them (R-T7).
//!
//! A page looks at a bounded number of them, whatever is there; where it ends without being full, it says where to
//! look on.

use std::fmt;
use std::str::FromStr;

use redrive_policy::{EscalationLevel, EscalationReport, ReasonType};
use redrive_store::{Acknowledged, DeadLetter, JobId, LetterFilter, TaskId, TaskState, Timestamp, ToldTask};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::engine::{Engine, EngineError};
use crate::secrets::redact;

/// How many are looked at in one go, and how often for one page.
const AT_A_TIME: u32 = 200;
const TIMES: usize = 10;
/// The most that is kept of a note, in characters.
const NOTE_CHARS: usize = 1_000;

/// What was escalated: a task, or a job that was set aside. Written as their ids are: `task-7`, `job_9`.
///
/// ```
/// use redrive::engine::EscalationId;
/// use redrive::engine::store::{JobId, TaskId};
///
/// assert_eq!("task-7".parse(), Ok(EscalationId::Task(TaskId(7))));
/// assert_eq!("job_9".parse(), Ok(EscalationId::Letter(JobId(9))));
/// assert_eq!(EscalationId::Task(TaskId(7)).to_string(), "task-7");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EscalationId {
    /// A task.
    Task(TaskId),
    /// A letter.
    Letter(JobId),
}

impl fmt::Display for EscalationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EscalationId::Task(id) => id.fmt(f),
            EscalationId::Letter(id) => id.fmt(f),
        }
    }
}

impl FromStr for EscalationId {
    type Err = <JobId as FromStr>::Err;

    fn from_str(text: &str) -> Result<EscalationId, Self::Err> {
        text.parse().map(EscalationId::Task).or_else(|_| text.parse().map(EscalationId::Letter))
    }
}

impl Serialize for EscalationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a page of escalations ended.
pub type EscalationPlace = (Timestamp, EscalationId);

/// One escalation.
#[derive(Debug, Clone, PartialEq)]
pub struct EscalationItem {
    /// What was escalated.
    pub id: EscalationId,
    /// What people call it.
    pub name: String,
    /// The queue of a letter; of a task nothing is said here.
    pub queue: Option<String>,
    /// When.
    pub escalated_at: Timestamp,
    /// How the task ended; absent for a letter.
    pub task_state: Option<TaskState>,
    /// Who has to deal with it.
    pub level: EscalationLevel,
    /// The kind of reason, where the report is known.
    pub reason_type: Option<ReasonType>,
    /// What a person is told.
    pub user_message: String,
    /// The whole report, where there is one that can be read.
    pub report: Option<EscalationReport>,
    /// That somebody has seen it. What was seen before it happened does not count.
    pub acknowledged: Option<Acknowledged>,
}

/// Some escalations, and where to look on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EscalationPage {
    /// The newest first.
    pub items: Vec<EscalationItem>,
    /// Where the next page begins, if there may be one.
    pub next: Option<EscalationPlace>,
}

/// What may be an escalation.
struct Candidate {
    at: Timestamp,
    id: EscalationId,
    task: Option<ToldTask>,
    caller_id: Option<String>,
}

impl Engine {
    /// What waits for a person, the newest first, at most `limit`; with what somebody has seen already, or without.
    pub async fn escalations(
        &self,
        open_only: bool,
        after: Option<EscalationPlace>,
        limit: u32,
    ) -> Result<EscalationPage, EngineError> {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut found: Vec<(Candidate, Option<Acknowledged>)> = Vec::new();
        let mut place = after;
        // One more than is wanted tells whether there are more.
        let mut more = true;
        for _ in 0..TIMES {
            let candidates = self.escalation_candidates(place).await?;
            more = candidates.len() >= AT_A_TIME as usize;
            place = candidates.last().map(|last| (last.at, last.id)).or(place);
            found.extend(self.standing(candidates, open_only).await?);
            if !more || found.len() > wanted {
                break;
            }
        }
        if found.len() > wanted {
            found.truncate(wanted);
            more = true;
            place = found.last().map(|(last, _)| (last.at, last.id)).or(after);
        }
        let items = self.told(found).await?;
        Ok(EscalationPage { items, next: place.filter(|_| more) })
    }

    /// The escalation of a task or a letter; nothing when it is none, or no more.
    pub async fn escalation(&self, id: EscalationId) -> Result<Option<EscalationItem>, EngineError> {
        let candidate = match id {
            EscalationId::Task(task) => self.store().task(task).await?.and_then(|task| {
                let told = matches!(task.state, TaskState::Partial | TaskState::Escalated);
                let ended_at = task.ended_at.filter(|_| told)?;
                let (id, name, state) = (task.id, task.name, task.state);
                let task = ToldTask { id, name, state, ended_at, why: task.why, report: task.report };
                Some(Candidate {
                    at: ended_at,
                    id: EscalationId::Task(id),
                    task: Some(task),
                    caller_id: None,
                })
            }),
            EscalationId::Letter(job) => self.letter(job).await?.map(|letter| Candidate {
                at: letter.died_at,
                id: EscalationId::Letter(job),
                task: None,
                caller_id: None,
            }),
        };
        let Some(candidate) = candidate else { return Ok(None) };
        let standing = self.standing(vec![candidate], false).await?;
        Ok(self.told(standing).await?.pop())
    }

    /// Writes that somebody has seen the escalation; `false` when there is none.
    pub async fn acknowledge_escalation(
        &self,
        id: EscalationId,
        note: Option<&str>,
    ) -> Result<bool, EngineError> {
        let Some(found) = self.escalation(id).await? else { return Ok(false) };
        // Whoever was first, and what they said, stays.
        if found.acknowledged.is_some() && note.is_none() {
            return Ok(true);
        }
        let note = note.map(|note| redact(&note.chars().take(NOTE_CHARS).collect::<String>()));
        self.store().acknowledge(self.now(), id.to_string(), note).await?;
        Ok(true)
    }

    /// The next ones behind this place, letters before tasks of the same time.
    async fn escalation_candidates(
        &self,
        place: Option<EscalationPlace>,
    ) -> Result<Vec<Candidate>, EngineError> {
        let (after_task, after_letter) = match place {
            None => (None, None),
            Some((at, EscalationId::Task(id))) => (Some((at, id)), Some((at, JobId(i64::MIN)))),
            Some((at, EscalationId::Letter(id))) => (Some((at, TaskId(i64::MAX))), Some((at, id))),
        };
        let tasks = self.store().told_tasks(after_task, AT_A_TIME).await?;
        let filter = LetterFilter { after: after_letter, ..LetterFilter::default() };
        let letters = self.store().letter_heads(filter, AT_A_TIME, AT_A_TIME).await?;
        let letters = letters.heads.into_iter().map(|head| Candidate {
            at: head.died_at,
            id: EscalationId::Letter(head.id),
            task: None,
            caller_id: head.caller_id,
        });
        let tasks = tasks.into_iter().map(|task| Candidate {
            at: task.ended_at,
            id: EscalationId::Task(task.id),
            task: Some(task),
            caller_id: None,
        });
        let mut candidates: Vec<Candidate> = letters.chain(tasks).collect();
        candidates.sort_by_key(|candidate| std::cmp::Reverse((candidate.at, candidate.id)));
        // Behind the last of a full page of either, the other one may have something that belongs before it.
        candidates.truncate(AT_A_TIME as usize);
        Ok(candidates)
    }

    /// Those that are escalations of their own, with what is known of their being seen.
    async fn standing(
        &self,
        candidates: Vec<Candidate>,
        open_only: bool,
    ) -> Result<Vec<(Candidate, Option<Acknowledged>)>, EngineError> {
        let mut own = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            // A task speaks for its subtasks. A caller may call its own things by such a name.
            let of_task = candidate.caller_id.as_deref().is_some_and(|id| id.parse::<TaskId>().is_ok());
            match candidate.id {
                EscalationId::Letter(job) if of_task && self.store().subtask_of(job).await?.is_some() => {}
                EscalationId::Letter(_) | EscalationId::Task(_) => own.push(candidate),
            }
        }
        let subjects: Vec<String> = own.iter().map(|candidate| candidate.id.to_string()).collect();
        let seen = self.store().acknowledged(subjects).await?;
        let standing = own.into_iter().filter_map(|candidate| {
            let subject = candidate.id.to_string();
            let seen = seen.iter().find(|seen| seen.subject == subject && seen.at >= candidate.at).cloned();
            (!(open_only && seen.is_some())).then_some((candidate, seen))
        });
        Ok(standing.collect())
    }

    /// What there is to say about each. A letter that went meanwhile is left out.
    async fn told(
        &self,
        found: Vec<(Candidate, Option<Acknowledged>)>,
    ) -> Result<Vec<EscalationItem>, EngineError> {
        let mut letters = std::collections::HashMap::new();
        let ids: Vec<JobId> = found
            .iter()
            .filter_map(|(candidate, _)| match candidate.id {
                EscalationId::Letter(id) => Some(id),
                EscalationId::Task(_) => None,
            })
            .collect();
        for some in ids.chunks(AT_A_TIME as usize) {
            let these = LetterFilter { ids: Some(some.to_vec()), ..LetterFilter::default() };
            let read = self.store().letters(these, AT_A_TIME).await?;
            letters.extend(read.into_iter().map(|letter| (letter.id, letter)));
        }
        let items = found.into_iter().filter_map(|(candidate, acknowledged)| {
            let item = match (candidate.id, candidate.task) {
                (_, Some(task)) => of_task(task),
                (EscalationId::Letter(id), None) => of_letter(letters.remove(&id)?),
                (EscalationId::Task(_), None) => return None,
            };
            Some(EscalationItem { acknowledged, ..item })
        });
        Ok(items.collect())
    }
}

fn of_task(task: ToldTask) -> EscalationItem {
    let report = task.report.and_then(readable);
    let said = report.as_ref().map(|report| report.user_message.clone());
    EscalationItem {
        id: EscalationId::Task(task.id),
        name: task.name,
        queue: None,
        escalated_at: task.ended_at,
        task_state: Some(task.state),
        level: report.as_ref().map_or(EscalationLevel::Analysis, |report| report.level),
        reason_type: report.as_ref().map(|report| report.reason.reason_type),
        user_message: said.or(task.why).unwrap_or_default(),
        report,
        acknowledged: None,
    }
}

fn of_letter(letter: DeadLetter) -> EscalationItem {
    let level = EscalationLevel::of(letter.cause, letter.retryable);
    let report = readable(letter.report);
    let said = report.as_ref().map(|report| report.user_message.clone());
    EscalationItem {
        id: EscalationId::Letter(letter.id),
        // What it is called says more than its kind.
        name: letter.context["action"].as_str().map_or(letter.kind, str::to_owned),
        queue: Some(letter.queue),
        escalated_at: letter.died_at,
        task_state: None,
        level,
        reason_type: report.as_ref().map(|report| report.reason.reason_type),
        user_message: said.unwrap_or(letter.error_message),
        report,
        acknowledged: None,
    }
}

/// A letter that came from elsewhere may have a report of another form, or none.
fn readable(report: Value) -> Option<EscalationReport> {
    serde_json::from_value(report).ok()
}
