//! Tasks: each step in one transaction with the jobs that it begins, for who knows the task's version.

use std::time::Duration;

use rusqlite::types::Value as Sql;
use rusqlite::{Row, params, params_from_iter};
use serde_json::Value;

use super::batch::Batch;
use super::wheres::Wheres;
use super::{Sqlite, event, job, millis, sql};
use crate::Answer;
use crate::effects::sample_row;
use crate::error::{StoreError, Trouble};
use crate::id::{EventSeq, JobId};
use crate::job::{NewJob, few_enough};
use crate::row::count;
use crate::seal::Cell;
use crate::task::step::{self, Found, Head, Moves, Stored, StoredTold};
use crate::task::{
    Acknowledged, Begun, NewTask, OpenTask, Subtask, SubtaskState, Task, TaskEnd, TaskId, TaskState,
    TaskStep, TaskStepped, Tasks, ToldTask,
};
use crate::time::Timestamp;
use crate::told::{self, Subject};

impl Tasks for Sqlite {
    fn start_task(&self, now: Timestamp, task: NewTask) -> Answer<'_, TaskId> {
        Box::pin(async move {
            step::validate_task(&task)?;
            self.add(move |batch| start(batch, now, &task)).await
        })
    }

    fn tasks(&self, open_only: bool, place: Option<&str>, limit: u32) -> Answer<'_, Vec<Task>> {
        let place = place.map(str::to_owned);
        Box::pin(self.readers.read(move |batch| tasks(batch, open_only, place, limit)))
    }

    fn open_tasks(
        &self,
        now: Timestamp,
        holder: i64,
        after: Option<TaskId>,
        limit: u32,
    ) -> Answer<'_, Vec<OpenTask>> {
        let after = after.map_or(0, |after| after.0);
        Box::pin(self.readers.read(move |batch| {
            batch.all(sql!("task_open"), params![now.millis(), holder, after, limit], |row| {
                let (id, version) = (TaskId(row.get(0)?), row.get(1)?);
                Ok(OpenTask { id, version, held: row.get(2)?, waits: row.get(3)? })
            })
        }))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Option<Task>> {
        Box::pin(self.readers.read(move |batch| task(batch, id)))
    }

    fn subtasks(&self, id: TaskId) -> Answer<'_, Vec<Subtask>> {
        Box::pin(self.readers.read(move |batch| batch.all(sql!("subtask_list"), [id.0], read_subtask)))
    }

    fn begun(&self, id: TaskId) -> Answer<'_, Vec<Begun>> {
        Box::pin(self.readers.read(move |batch| begun(batch, id)))
    }

    fn subtask_of(&self, job: JobId) -> Answer<'_, Option<(TaskId, u32)>> {
        Box::pin(self.readers.read(move |batch| {
            batch.first(sql!("subtask_of"), [job.0], |row| Ok((TaskId(row.get(0)?), count(row.get(1)?))))
        }))
    }

    fn hold_task(
        &self,
        now: Timestamp,
        id: TaskId,
        holder: i64,
        hold_for: Duration,
    ) -> Answer<'_, Option<Task>> {
        Box::pin(self.write(move |batch| {
            let until = now.millis().saturating_add(millis(hold_for));
            let held = batch.run(sql!("task_hold"), params![id.0, holder, now.millis(), until])?;
            if held == 0 { Ok(None) } else { task(batch, id) }
        }))
    }

    fn advance_task(&self, now: Timestamp, mut step: TaskStep) -> Answer<'_, Option<TaskStepped>> {
        Box::pin(async move {
            step::validate_step(&step)?;
            step::in_the_name_of_the_task(&mut step);
            self.hand_over(!step.begin.is_empty(), move |batch| advance(batch, now, &step)).await
        })
    }

    fn reopen_task(
        &self,
        now: Timestamp,
        id: TaskId,
        version: i64,
        progress: Value,
        mark: Vec<(u32, SubtaskState)>,
    ) -> Answer<'_, Option<i64>> {
        Box::pin(async move {
            step::json_fits("the progress", &progress)?;
            self.write(move |batch| reopen(batch, now, id, version, &progress, &mark)).await
        })
    }

    fn acknowledge(&self, now: Timestamp, subject: String, note: Option<String>) -> Answer<'_, ()> {
        Box::pin(async move {
            step::validate_ack(&subject, note.as_deref())?;
            self.write(move |batch| acknowledge(batch, now, &subject, note.as_deref())).await
        })
    }

    fn told_tasks(&self, after: Option<(Timestamp, TaskId)>, limit: u32) -> Answer<'_, Vec<ToldTask>> {
        Box::pin(self.readers.read(move |batch| told_tasks(batch, after, limit)))
    }

    fn acknowledged(&self, mut subjects: Vec<String>) -> Answer<'_, Vec<Acknowledged>> {
        Box::pin(async move {
            few_enough(subjects.len())?;
            subjects.sort_unstable();
            subjects.dedup();
            self.readers.read(move |batch| acknowledged(batch, &subjects)).await
        })
    }
}

fn start(batch: &mut Batch<'_, '_>, now: Timestamp, new: &NewTask) -> Result<TaskId, StoreError> {
    let id = batch.first(sql!("task_number"), [], |row| row.get(0))?;
    let id = TaskId(id.ok_or_else(|| Trouble::Corrupt("a task got no number".to_owned()))?);
    let source_id = batch.name(told::SOURCE)?;
    let event = batch.event(now, &told::task_started(source_id, &id.to_string(), new))?;
    let (plan, progress) = (new.plan.to_string(), new.progress.to_string());
    let progress = batch.seals.seal_text(Cell::TaskProgress, id.0, &progress)?;
    batch.run(
        sql!("task_insert"),
        params![id.0, now.millis(), new.name, new.place, new.subtasks, progress, event],
    )?;
    let plan = batch.seals.seal_text(Cell::TaskPlan, id.0, &plan)?;
    batch.run(sql!("task_plan_insert"), params![id.0, plan])?;
    Ok(id)
}

/// Reads the columns of `task_read.sql`.
fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        id: row.get(0)?,
        created_at: row.get(1)?,
        name: row.get(2)?,
        place: row.get(3)?,
        plan: row.get(4)?,
        subtasks: row.get(5)?,
        counts: counts(row, 6)?,
        progress: row.get(12)?,
        state: row.get(13)?,
        why: row.get(14)?,
        report: row.get(15)?,
        version: row.get(16)?,
        held_until: row.get(17)?,
        ended_at: row.get(18)?,
        event: row.get(19)?,
    })
}

/// Six columns, in the order of the states.
fn counts(row: &Row<'_>, from: usize) -> rusqlite::Result<[i64; 6]> {
    let mut counts = [0; 6];
    for (at, count) in counts.iter_mut().enumerate() {
        *count = row.get(from + at)?;
    }
    Ok(counts)
}

fn read_subtask(row: &Row<'_>) -> rusqlite::Result<Subtask> {
    let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_millis));
    Ok(Subtask {
        number: count(row.get(0)?),
        state: SubtaskState::from_number(row.get(1)?),
        job: row.get::<_, Option<i64>>(2)?.map(JobId),
        rounds: count(row.get(3)?),
        started_at: time(4)?,
        ended_at: time(5)?,
    })
}

fn task(batch: &Batch<'_, '_>, id: TaskId) -> Result<Option<Task>, StoreError> {
    batch.first(sql!("task_read"), [id.0], read)?.map(|stored| stored.into_task(&batch.seals)).transpose()
}

fn tasks(
    batch: &Batch<'_, '_>,
    open_only: bool,
    place: Option<String>,
    limit: u32,
) -> Result<Vec<Task>, StoreError> {
    let mut wheres = Wheres::default();
    if open_only {
        wheres.must("t.state = 0", []);
    }
    if let Some(place) = place {
        // Few tasks go on, but one place may have had many: then those that go on are looked through.
        wheres.must(if open_only { "+t.place = ?" } else { "t.place = ?" }, [Sql::from(place)]);
    }
    let (conditions, values) = wheres.finish();
    let text = format!("{}{conditions} ORDER BY t.id DESC LIMIT {limit}", sql!("task_list").trim_end());
    let mut statement = batch.connection().prepare_cached(&text)?;
    let rows =
        statement.query_and_then(params_from_iter(values), |row| read(row)?.into_task(&batch.seals))?;
    rows.collect()
}

fn told_tasks(
    batch: &Batch<'_, '_>,
    after: Option<(Timestamp, TaskId)>,
    limit: u32,
) -> Result<Vec<ToldTask>, StoreError> {
    let (at, id) = after.map_or((i64::MAX, i64::MAX), |(at, id)| (at.millis(), id.0));
    let rows = batch.all(sql!("task_told"), params![at, id, limit], |row| {
        Ok(StoredTold {
            id: row.get(0)?,
            name: row.get(1)?,
            state: row.get(2)?,
            ended_at: row.get(3)?,
            why: row.get(4)?,
            report: row.get(5)?,
        })
    })?;
    rows.into_iter().map(|row| row.into_told(&batch.seals)).collect()
}

fn begun(batch: &Batch<'_, '_>, id: TaskId) -> Result<Vec<Begun>, StoreError> {
    batch.all(sql!("subtask_begun"), [id.0], |row| {
        let lease: Option<i64> = row.get(4)?;
        let found = Found {
            run_at: row.get(2)?,
            attempts: row.get(3)?,
            lease: lease.zip(Some(row.get(5)?)),
            dead: row.get(6)?,
            ended: row.get(7)?,
        };
        Ok(Begun { number: count(row.get(0)?), job: JobId(row.get(1)?), standing: found.standing() })
    })
}

fn head(batch: &Batch<'_, '_>, id: TaskId) -> Result<Option<Head>, StoreError> {
    batch.first(sql!("task_head"), [id.0], |row| {
        Ok(Head {
            name: row.get(0)?,
            subtasks: count(row.get(1)?),
            counts: counts(row, 2)?,
            state: TaskState::from_number(row.get(8)?),
            version: row.get(9)?,
            event: row.get(10)?,
        })
    })
}

fn advance(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    step: &TaskStep,
) -> Result<Option<TaskStepped>, StoreError> {
    let head = head(batch, step.task)?;
    let Some(head) = head.filter(|head| head.version == step.version && head.state == TaskState::Running)
    else {
        return Ok(None);
    };
    let mut moves = marked(batch, now, step.task, &head, &step.mark, &step.begin)?;
    let led_by = Some(EventSeq(head.event));
    let mut jobs = Vec::with_capacity(step.begin.len());
    for (number, new) in &step.begin {
        let enqueued = job::enqueue_one(batch, now, new, new.parent.or(led_by))?;
        moves.begin(now, *number, enqueued.id)?;
        jobs.push(enqueued.id);
    }
    let mut last = head.event;
    for event in &step.events {
        last = event::append_led(batch, now, event, last)?;
    }
    if let Some(end) = &step.end {
        let source_id = batch.name(told::SOURCE)?;
        let caller_id = step.task.to_string();
        last = batch.event(now, &told::task_ended(source_id, &caller_id, &head.name, last, end))?;
    }
    put(batch, now, step.task, &moves, step.progress.as_ref(), step.end.as_ref(), last)?;
    Ok(Some(TaskStepped { version: head.version + 1, jobs }))
}

/// Finds the subtasks that a step moves, and marks those that it marks.
fn marked(
    batch: &Batch<'_, '_>,
    now: Timestamp,
    id: TaskId,
    head: &Head,
    mark: &[(u32, SubtaskState)],
    begin: &[(u32, NewJob)],
) -> Result<Moves, StoreError> {
    let mut moves = Moves::new(head);
    for number in step::moved(mark, begin) {
        let row = batch.first(sql!("subtask_find"), params![id.0, number], read_subtask)?;
        if let Some(row) = row {
            moves.found(row);
        }
    }
    mark.iter().try_for_each(|(number, to)| moves.mark(now, *number, *to))?;
    Ok(moves)
}

/// Writes what a step has moved, and how far the task is then.
fn put(
    batch: &Batch<'_, '_>,
    now: Timestamp,
    id: TaskId,
    moves: &Moves,
    progress: Option<&Value>,
    end: Option<&TaskEnd>,
    event: i64,
) -> Result<(), StoreError> {
    let mut statement = batch.statement(sql!("subtask_put"))?;
    for row in moves.rows() {
        let (job, started_at, ended_at) = (row.job.map(|job| job.0), row.started_at, row.ended_at);
        let [started_at, ended_at] = [started_at, ended_at].map(|at| at.map(Timestamp::millis));
        statement.execute(params![
            id.0,
            row.number,
            row.state.number(),
            job,
            row.rounds,
            started_at,
            ended_at
        ])?;
    }
    let progress = progress.map(Value::to_string);
    let progress = batch.seals.seal_some(Cell::TaskProgress, id.0, progress.as_deref())?;
    let why = batch.seals.seal_some(Cell::TaskWhy, id.0, end.map(|end| &*end.why))?;
    let report = end.and_then(|end| end.report.as_ref()).map(Value::to_string);
    let report = batch.seals.seal_some(Cell::TaskReport, id.0, report.as_deref())?;
    let state = end.map_or(TaskState::Running, |end| end.state).number();
    let ended_at = end.map(|_| now.millis());
    let [waiting, started, succeeded, failed, skipped, cancelled] = moves.counts;
    batch.run(
        sql!("task_step"),
        params![
            id.0, progress, waiting, started, succeeded, failed, skipped, cancelled, state, why, report,
            ended_at, event
        ],
    )?;
    Ok(())
}

fn reopen(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: TaskId,
    version: i64,
    progress: &Value,
    mark: &[(u32, SubtaskState)],
) -> Result<Option<i64>, StoreError> {
    let over = |head: &Head| {
        head.version == version && !matches!(head.state, TaskState::Running | TaskState::Succeeded)
    };
    let Some(head) = head(batch, id)?.filter(over) else { return Ok(None) };
    let moves = marked(batch, now, id, &head, mark, &[])?;
    let source_id = batch.name(told::SOURCE)?;
    let caller_id = id.to_string();
    let row = told::task_resumed(source_id, &caller_id, &head.name, head.event, head.state);
    let event = batch.event(now, &row)?;
    put(batch, now, id, &moves, Some(progress), None, event)?;
    Ok(Some(version + 1))
}

fn acknowledge(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    subject: &str,
    note: Option<&str>,
) -> Result<(), StoreError> {
    let parent: Option<i64> = match Subject::of(subject) {
        Subject::Task(id) => batch.first(sql!("task_event"), [id.0], |row| row.get(0))?,
        Subject::Job(id) => batch.first(sql!("job_latest"), [id.0], |row| row.get(0))?.flatten(),
        Subject::Other => None,
    };
    let sealed = batch.seals.seal_some(Cell::AckNote, sample_row(subject), note)?;
    batch.run(sql!("ack_put"), params![subject, now.millis(), sealed])?;
    let source_id = batch.name(told::SOURCE)?;
    batch.event(now, &told::acknowledged(source_id, subject, parent, note))?;
    Ok(())
}

fn acknowledged(batch: &Batch<'_, '_>, subjects: &[String]) -> Result<Vec<Acknowledged>, StoreError> {
    let mut statement = batch.statement(sql!("ack_list"))?;
    let read = |row: &Row<'_>| {
        let subject: String = row.get(0)?;
        let note = batch.seals.open_some(Cell::AckNote, sample_row(&subject), row.get(2)?)?;
        Ok(Acknowledged { subject, at: Timestamp::from_millis(row.get(1)?), note })
    };
    statement.query_and_then([Value::from(subjects).to_string()], read)?.collect()
}

/// Forgets tasks that ended before, and that escalations were seen then. Answers whether there may be more.
pub(super) fn prune(
    batch: &Batch<'_, '_>,
    tasks_before: Timestamp,
    acks_before: Timestamp,
    limit: u32,
) -> Result<bool, StoreError> {
    let old = batch.all(sql!("task_old"), params![tasks_before.millis(), limit], |row| {
        Ok((row.get(0)?, count(row.get(1)?)))
    })?;
    let gone = step::few_of(&old, limit);
    for task in &gone {
        batch.run(sql!("subtask_delete"), [task])?;
        batch.run(sql!("task_plan_delete"), [task])?;
        batch.run(sql!("task_delete"), [task])?;
    }
    let acks = batch.run(sql!("ack_old"), params![acks_before.millis(), limit])?;
    Ok(gone.len() < old.len() || old.len() >= limit as usize || acks >= limit as usize)
}
