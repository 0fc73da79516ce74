//! What a step changes, said once for every store: where subtasks stand, how they are counted, and what is too much.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    MAX_PLACE_BYTES, MAX_PLAN_BYTES, NewTask, Subtask, SubtaskState, Task, TaskEnd, TaskId, TaskState,
    TaskStep, ToldTask,
};
use crate::error::{Refusal, StoreError, Trouble};
use crate::event::{EventStatus, NewEvent, must_be_name};
use crate::id::{EventSeq, JobId};
use crate::job::{NewJob, few_enough, fits};
use crate::row::{count, parse_json};
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

/// A task as its columns say it.
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) created_at: i64,
    pub(crate) name: String,
    pub(crate) place: Option<String>,
    pub(crate) plan: String,
    pub(crate) subtasks: i64,
    pub(crate) counts: [i64; 6],
    pub(crate) progress: String,
    pub(crate) state: i64,
    pub(crate) why: Option<String>,
    pub(crate) report: Option<String>,
    pub(crate) version: i64,
    pub(crate) held_until: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) event: i64,
}

impl Stored {
    /// The task, with what is sealed opened.
    pub(crate) fn into_task(self, seals: &Seals) -> Result<Task, StoreError> {
        let id = self.id;
        let report = seals.open_some(Cell::TaskReport, id, self.report)?;
        Ok(Task {
            id: TaskId(id),
            created_at: Timestamp::from_millis(self.created_at),
            name: self.name,
            place: self.place,
            plan: parse_json(&seals.open_text(Cell::TaskPlan, id, self.plan)?),
            subtasks: count(self.subtasks),
            counts: self.counts.map(count),
            progress: parse_json(&seals.open_text(Cell::TaskProgress, id, self.progress)?),
            state: TaskState::from_number(self.state),
            why: seals.open_some(Cell::TaskWhy, id, self.why)?,
            report: report.as_deref().map(parse_json),
            version: self.version,
            held_until: self.held_until.map(Timestamp::from_millis),
            ended_at: self.ended_at.map(Timestamp::from_millis),
            event: EventSeq(self.event),
        })
    }
}

/// A row of `task_told.sql`, before what is sealed in it was opened.
pub(crate) struct StoredTold {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) state: i64,
    pub(crate) ended_at: i64,
    pub(crate) why: Option<String>,
    pub(crate) report: Option<String>,
}

impl StoredTold {
    /// The task, with what is sealed opened.
    pub(crate) fn into_told(self, seals: &Seals) -> Result<ToldTask, StoreError> {
        let report = seals.open_some(Cell::TaskReport, self.id, self.report)?;
        Ok(ToldTask {
            id: TaskId(self.id),
            name: self.name,
            state: TaskState::from_number(self.state),
            ended_at: Timestamp::from_millis(self.ended_at),
            why: seals.open_some(Cell::TaskWhy, self.id, self.why)?,
            report: report.as_deref().map(parse_json),
        })
    }
}

/// What a step must know of its task: nothing that may be long.
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) subtasks: u32,
    pub(crate) counts: [i64; 6],
    pub(crate) state: TaskState,
    pub(crate) version: i64,
    pub(crate) event: i64,
}

/// The subtasks that a step moves, as it finds and as it leaves them.
pub(crate) struct Moves {
    subtasks: u32,
    /// How many stand where, in the order of [`SubtaskState::ALL`].
    pub(crate) counts: [i64; 6],
    rows: BTreeMap<u32, Subtask>,
}

impl Moves {
    pub(crate) fn new(head: &Head) -> Moves {
        Moves { subtasks: head.subtasks, counts: head.counts, rows: BTreeMap::new() }
    }

    /// A row as it was found. Those that were not found have never moved.
    pub(crate) fn found(&mut self, row: Subtask) {
        self.rows.insert(row.number, row);
    }

    /// A subtask stands elsewhere now. What is over has its time; what counts again has none until it is over again.
    pub(crate) fn mark(&mut self, now: Timestamp, number: u32, to: SubtaskState) -> Result<(), StoreError> {
        let row = self.row(number, to)?;
        match to {
            SubtaskState::Waiting => {}
            SubtaskState::Started if row.job.is_none() => {
                return Err(Trouble::Refused(Refusal::NothingBegun(number)).into());
            }
            SubtaskState::Started => row.ended_at = None,
            SubtaskState::Succeeded
            | SubtaskState::Failed
            | SubtaskState::Skipped
            | SubtaskState::Cancelled => row.ended_at = Some(now),
        }
        Ok(())
    }

    /// A subtask has a job.
    pub(crate) fn begin(&mut self, now: Timestamp, number: u32, job: JobId) -> Result<(), StoreError> {
        let row = self.row(number, SubtaskState::Started)?;
        row.job = Some(job);
        row.rounds = row.rounds.saturating_add(1);
        row.started_at = Some(now);
        row.ended_at = None;
        Ok(())
    }

    /// The row of a subtask, moved and counted.
    fn row(&mut self, number: u32, to: SubtaskState) -> Result<&mut Subtask, StoreError> {
        if number >= self.subtasks {
            let subtasks = self.subtasks;
            return Err(Trouble::Refused(Refusal::NoSuchSubtask { number, subtasks }).into());
        }
        let row = self.rows.entry(number).or_insert(Subtask {
            number,
            state: SubtaskState::Waiting,
            job: None,
            rounds: 0,
            started_at: None,
            ended_at: None,
        });
        self.counts[row.state as usize] -= 1;
        self.counts[to as usize] += 1;
        row.state = to;
        Ok(row)
    }

    /// The rows that are written, by number.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Subtask> {
        self.rows.values()
    }
}

/// The numbers of the subtasks that a step moves, each once.
pub(crate) fn moved(mark: &[(u32, SubtaskState)], begin: &[(u32, NewJob)]) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        mark.iter().map(|(number, _)| *number).chain(begin.iter().map(|(number, _)| *number)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Whether a task can be stored at all.
pub(crate) fn validate_task(task: &NewTask) -> Result<(), StoreError> {
    must_be_name("task", &task.name)?;
    at_most("the place of the plan", task.place.as_ref().map_or(0, String::len), MAX_PLACE_BYTES)?;
    json_fits("the plan", &task.plan)?;
    json_fits("the progress", &task.progress)
}

/// Whether a step can be stored at all.
pub(crate) fn validate_step(step: &TaskStep) -> Result<(), StoreError> {
    few_enough(step.begin.len())?;
    few_enough(step.events.len())?;
    step.begin.iter().try_for_each(|(_, job)| job.validate())?;
    step.events.iter().try_for_each(NewEvent::validate)?;
    if let Some(progress) = &step.progress {
        json_fits("the progress", progress)?;
    }
    match &step.end {
        Some(TaskEnd { state: TaskState::Running, .. }) => Err(Trouble::Refused(Refusal::EndsRunning).into()),
        Some(end) => {
            fits(end.why.as_bytes())?;
            end.report.as_ref().map_or(Ok(()), |report| json_fits("the report", report))
        }
        None => Ok(()),
    }
}

/// What a step tells and begins belongs to its task: it is found by the task's id.
pub(crate) fn in_the_name_of_the_task(step: &mut TaskStep) {
    let caller_id = step.task.to_string();
    for (_, job) in &mut step.begin {
        job.caller_id.get_or_insert_with(|| caller_id.clone());
    }
    for event in &mut step.events {
        event.caller_id = Some(caller_id.clone());
    }
}

/// Whether a subject can be acknowledged with these words.
pub(crate) fn validate_ack(subject: &str, note: Option<&str>) -> Result<(), StoreError> {
    must_be_name("subject", subject)?;
    fits(note.unwrap_or_default().as_bytes())
}

/// Whether what the engine keeps of a task can be stored.
pub(crate) fn json_fits(what: &'static str, value: &Value) -> Result<(), StoreError> {
    at_most(what, value.to_string().len(), MAX_PLAN_BYTES)
}

fn at_most(what: &'static str, bytes: usize, most: usize) -> Result<(), StoreError> {
    if bytes > most {
        return Err(Trouble::Refused(Refusal::TooLarge { what, bytes, most }).into());
    }
    Ok(())
}

/// Of these tasks, each with the number of its subtasks, those that go in one round: whole tasks, one at least, and no more
/// subtasks than the limit otherwise.
pub(crate) fn few_of(old: &[(i64, u32)], limit: u32) -> Vec<i64> {
    let mut rows = 0_u64;
    let fits = |(at, (_, subtasks)): &(usize, &(i64, u32))| {
        rows += u64::from(*subtasks);
        *at == 0 || rows <= u64::from(limit)
    };
    old.iter().enumerate().take_while(fits).map(|(_, (id, _))| *id).collect()
}

/// How a job stands, by where it was found.
pub(crate) struct Found {
    /// When it is due, if it lives.
    pub(crate) run_at: Option<i64>,
    /// Attempts so far, as far as they are kept outside of a lease.
    pub(crate) attempts: i64,
    /// Attempts of its lease, and whether this one has begun.
    pub(crate) lease: Option<(i64, bool)>,
    pub(crate) dead: bool,
    /// The status of its last event, if it is over.
    pub(crate) ended: Option<i64>,
}

impl Found {
    pub(crate) fn standing(&self) -> super::JobStanding {
        use super::JobStanding::{Cancelled, Dead, Gone, Leased, Ready, Succeeded};
        match (self.dead, self.lease, self.run_at, self.ended) {
            (true, ..) => Dead,
            (_, Some((attempts, begun)), ..) => {
                Leased { attempt: count(if begun { attempts } else { attempts + 1 }) }
            }
            (.., Some(run_at), _) => {
                Ready { attempts: count(self.attempts), run_at: Timestamp::from_millis(run_at) }
            }
            (.., Some(status)) if status == EventStatus::Success as i64 => Succeeded,
            (.., Some(_)) => Cancelled,
            (.., None) => Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::JobStanding;

    fn moves(counts: [i64; 6]) -> Moves {
        Moves::new(&Head {
            name: "t".to_owned(),
            subtasks: 3,
            counts,
            state: TaskState::Running,
            version: 1,
            event: 1,
        })
    }

    /// R-T1: each move takes a subtask out of one count and into another, however often it moves in a step.
    #[test]
    fn moves_are_counted() {
        let now = Timestamp::from_millis(7);
        let mut moves = moves([3, 0, 0, 0, 0, 0]);
        moves.begin(now, 0, JobId(1)).unwrap();
        moves.mark(now, 1, SubtaskState::Skipped).unwrap();
        assert_eq!(moves.counts, [1, 1, 0, 0, 1, 0]);
        moves.mark(now, 0, SubtaskState::Failed).unwrap();
        moves.mark(now, 0, SubtaskState::Waiting).unwrap();
        moves.begin(now, 0, JobId(2)).unwrap();
        assert_eq!(moves.counts, [1, 1, 0, 0, 1, 0]);
        let first = moves.rows().next().unwrap();
        assert_eq!((first.job, first.rounds, first.ended_at), (Some(JobId(2)), 2, None));
    }

    /// R-T1: what the plan does not have, or has never begun, is not moved.
    #[test]
    fn what_cannot_be_is_refused() {
        let now = Timestamp::from_millis(7);
        let mut moves = moves([3, 0, 0, 0, 0, 0]);
        assert!(moves.mark(now, 3, SubtaskState::Skipped).is_err());
        assert!(moves.mark(now, 0, SubtaskState::Started).is_err());
    }

    /// R-T1: a round of forgetting is bounded by what tasks hold, and gets on all the same.
    #[test]
    fn a_round_takes_few() {
        assert_eq!(few_of(&[(1, 900), (2, 1)], 100), [1]);
        assert_eq!(few_of(&[(1, 50), (2, 50), (3, 1)], 100), [1, 2]);
        assert!(few_of(&[], 100).is_empty());
    }

    /// R-T1: a letter counts as one although its job waits nowhere else, and an attempt that has not begun is the next one.
    #[test]
    fn a_job_stands_where_it_was_found() {
        let found = Found { run_at: Some(5), attempts: 2, lease: None, dead: false, ended: None };
        let ready = JobStanding::Ready { attempts: 2, run_at: Timestamp::from_millis(5) };
        assert_eq!(found.standing(), ready);
        assert_eq!(Found { lease: Some((2, false)), ..found }.standing(), JobStanding::Leased { attempt: 3 });
        let over = |ended| Found { run_at: None, attempts: 0, lease: None, dead: false, ended }.standing();
        assert_eq!(over(Some(EventStatus::Success as i64)), JobStanding::Succeeded);
        assert_eq!(over(Some(EventStatus::Failed as i64)), JobStanding::Cancelled);
        assert_eq!(over(None), JobStanding::Gone);
    }
}
