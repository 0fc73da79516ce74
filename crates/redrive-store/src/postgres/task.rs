//! Tasks: each step in one transaction with the jobs that it begins, for who knows the task's version. Of two that move the same
//! task on, the database undoes one, which then sees that it comes too late.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join;
use serde_json::Value;
use tokio_postgres::Row;

use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::open_work::OpenTasks;
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use super::wheres::Wheres;
use super::{Postgres, enqueue, event};
use crate::Answer;
use crate::effects::sample_row;
use crate::id::{EventSeq, JobId};
use crate::job::{NewJob, few_enough};
use crate::row::count;
use crate::seal::{Cell, Seals};
use crate::task::step::{self, Found, Head, Moves, Stored, StoredTold};
use crate::task::{
    Acknowledged, Begun, NewTask, OpenTask, Subtask, SubtaskState, Task, TaskEnd, TaskId, TaskState,
    TaskStep, TaskStepped, Tasks, ToldTask,
};
use crate::time::Timestamp;
use crate::told::{self, Subject};

impl Tasks for Postgres {
    fn start_task(&self, now: Timestamp, task: NewTask) -> Answer<'_, TaskId> {
        Box::pin(async move {
            step::validate_task(&task)?;
            self.write(StartTask { now, task }).await
        })
    }

    fn tasks(&self, open_only: bool, place: Option<&str>, limit: u32) -> Answer<'_, Vec<Task>> {
        let place = place.map(str::to_owned);
        Box::pin(self.read(TasksOf { open_only, place, limit }))
    }

    fn open_tasks(
        &self,
        now: Timestamp,
        holder: i64,
        after: Option<TaskId>,
        limit: u32,
    ) -> Answer<'_, Vec<OpenTask>> {
        Box::pin(self.read(OpenTasks { now: self.time(now), holder, after, limit }))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Option<Task>> {
        Box::pin(self.read(TaskOf { id }))
    }

    fn subtasks(&self, id: TaskId) -> Answer<'_, Vec<Subtask>> {
        Box::pin(self.read(SubtasksOf { id }))
    }

    fn begun(&self, id: TaskId) -> Answer<'_, Vec<Begun>> {
        Box::pin(self.read(BegunOf { id }))
    }

    fn subtask_of(&self, job: JobId) -> Answer<'_, Option<(TaskId, u32)>> {
        Box::pin(self.read(SubtaskOf { job }))
    }

    fn hold_task(
        &self,
        now: Timestamp,
        id: TaskId,
        holder: i64,
        hold_for: Duration,
    ) -> Answer<'_, Option<Task>> {
        Box::pin(self.write(HoldTask { now, id, holder, hold_for }))
    }

    fn advance_task(&self, now: Timestamp, mut step: TaskStep) -> Answer<'_, Option<TaskStepped>> {
        Box::pin(async move {
            step::validate_step(&step)?;
            step::in_the_name_of_the_task(&mut step);
            self.write(AdvanceTask { now, step }).await
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
            self.write(ReopenTask { now, id, version, progress, mark }).await
        })
    }

    fn acknowledge(&self, now: Timestamp, subject: String, note: Option<String>) -> Answer<'_, ()> {
        Box::pin(async move {
            step::validate_ack(&subject, note.as_deref())?;
            self.write(Acknowledge { now, subject, note }).await
        })
    }

    fn told_tasks(&self, after: Option<(Timestamp, TaskId)>, limit: u32) -> Answer<'_, Vec<ToldTask>> {
        Box::pin(self.read(ToldTasks { after, limit }))
    }

    fn acknowledged(&self, subjects: Vec<String>) -> Answer<'_, Vec<Acknowledged>> {
        Box::pin(async move {
            few_enough(subjects.len())?;
            self.read(AcknowledgedOf { subjects }).await
        })
    }
}

fn names(names: &[&str]) -> Vec<Need> {
    names.iter().map(|name| Need::Name((*name).to_owned())).collect()
}

/// A new task.
struct StartTask {
    now: Timestamp,
    task: NewTask,
}

impl Verb for StartTask {
    type Answer = TaskId;

    fn needs(&self) -> Vec<Need> {
        names(&[told::SOURCE, "task_started"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<TaskId, Fault> {
        let (now, new) = (tx.now(self.now), &self.task);
        let row = tx.line.first(sql!("task_number"), args![]).await?;
        let row = row.ok_or_else(|| Fault::corrupt("a task got no number"))?;
        let id = TaskId(column(&row, 0)?);
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        let event = tx.batch.event(now, told::task_started(source_id, &id.to_string(), new))?;
        let (plan, progress) = (new.plan.to_string(), new.progress.to_string());
        let progress = tx.seals.seal_text(Cell::TaskProgress, id.0, &progress)?;
        let plan = tx.seals.seal_text(Cell::TaskPlan, id.0, &plan)?;
        let (name, place) = (storable(&new.name), new.place.as_deref().map(storable));
        let (at, subtasks, progress, plan) = (now.millis(), i64::from(new.subtasks), &*progress, &*plan);
        let row = args![id.0, at, name, place, subtasks, progress, event];
        tx.line.run(sql!("task_insert"), row).await?;
        tx.line.run(sql!("task_plan_insert"), args![id.0, plan]).await?;
        Ok(id)
    }
}

/// Reads the columns of `task_read.sql`.
fn read(row: &Row, seals: &Seals) -> Result<Task, Fault> {
    let stored = Stored {
        id: column(row, 0)?,
        created_at: column(row, 1)?,
        name: column(row, 2)?,
        place: column(row, 3)?,
        plan: column(row, 4)?,
        subtasks: column(row, 5)?,
        counts: counts(row, 6)?,
        progress: column(row, 12)?,
        state: column(row, 13)?,
        why: column(row, 14)?,
        report: column(row, 15)?,
        version: column(row, 16)?,
        held_until: column(row, 17)?,
        ended_at: column(row, 18)?,
        event: column(row, 19)?,
    };
    Ok(stored.into_task(seals)?)
}

/// Six columns, in the order of the states.
fn counts(row: &Row, from: usize) -> Result<[i64; 6], Fault> {
    let mut counts = [0; 6];
    for (at, count) in counts.iter_mut().enumerate() {
        *count = column(row, from + at)?;
    }
    Ok(counts)
}

fn read_subtask(row: &Row) -> Result<Subtask, Fault> {
    let time = |at| column::<Option<i64>>(row, at).map(|at| at.map(Timestamp::from_millis));
    Ok(Subtask {
        number: count(column(row, 0)?),
        state: SubtaskState::from_number(column(row, 1)?),
        job: column::<Option<i64>>(row, 2)?.map(JobId),
        rounds: count(column(row, 3)?),
        started_at: time(4)?,
        ended_at: time(5)?,
    })
}

async fn find(line: &Line, seals: &Seals, id: TaskId) -> Result<Option<Task>, Fault> {
    line.first(sql!("task_read"), args![id.0]).await?.map(|row| read(&row, seals)).transpose()
}

/// Tasks, the newest first.
struct TasksOf {
    open_only: bool,
    place: Option<String>,
    limit: u32,
}

impl Question for TasksOf {
    type Answer = Vec<Task>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Task>, Fault> {
        let mut wheres = Wheres::default();
        if self.open_only {
            wheres.must("t.state = 0");
        }
        if let Some(place) = &self.place {
            wheres.must_with("t.place = {}", storable(place));
        }
        let behind = format!("ORDER BY t.id DESC LIMIT {}", self.limit);
        let text = wheres.query(line.texts().schema(), sql!("task_list"), &behind);
        line.all_of(&text, &wheres.args()).await?.iter().map(|row| read(row, seals)).collect()
    }
}

/// Tasks that a person was told of.
struct ToldTasks {
    after: Option<(Timestamp, TaskId)>,
    limit: u32,
}

impl Question for ToldTasks {
    type Answer = Vec<ToldTask>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<ToldTask>, Fault> {
        let (at, id) = self.after.map_or((i64::MAX, i64::MAX), |(at, id)| (at.millis(), id.0));
        let read = |row: &Row| {
            let stored = StoredTold {
                id: column(row, 0)?,
                name: column(row, 1)?,
                state: column(row, 2)?,
                ended_at: column(row, 3)?,
                why: column(row, 4)?,
                report: column(row, 5)?,
            };
            Ok(stored.into_told(seals)?)
        };
        line.all(sql!("task_told"), args![at, id, i64::from(self.limit)]).await?.iter().map(read).collect()
    }
}

/// One task.
struct TaskOf {
    id: TaskId,
}

impl Question for TaskOf {
    type Answer = Option<Task>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Option<Task>, Fault> {
        find(line, seals, self.id).await
    }
}

/// The subtasks with a row.
struct SubtasksOf {
    id: TaskId,
}

impl Question for SubtasksOf {
    type Answer = Vec<Subtask>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<Subtask>, Fault> {
        line.all(sql!("subtask_list"), args![self.id.0]).await?.iter().map(read_subtask).collect()
    }
}

/// The subtasks that are begun and not over.
struct BegunOf {
    id: TaskId,
}

impl Question for BegunOf {
    type Answer = Vec<Begun>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<Begun>, Fault> {
        let read = |row: &Row| {
            let lease: Option<i64> = column(row, 4)?;
            let found = Found {
                run_at: column(row, 2)?,
                attempts: column(row, 3)?,
                lease: lease.zip(Some(column(row, 5)?)),
                dead: column(row, 6)?,
                ended: column(row, 7)?,
            };
            let (number, job) = (count(column(row, 0)?), JobId(column(row, 1)?));
            Ok(Begun { number, job, standing: found.standing() })
        };
        line.all(sql!("subtask_begun"), args![self.id.0]).await?.iter().map(read).collect()
    }
}

/// The subtask that a job belongs to.
struct SubtaskOf {
    job: JobId,
}

impl Question for SubtaskOf {
    type Answer = Option<(TaskId, u32)>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Option<(TaskId, u32)>, Fault> {
        let Some(row) = line.first(sql!("subtask_of"), args![self.job.0]).await? else { return Ok(None) };
        Ok(Some((TaskId(column(&row, 0)?), count(column(&row, 1)?))))
    }
}

/// Somebody takes a task to move it on.
struct HoldTask {
    now: Timestamp,
    id: TaskId,
    holder: i64,
    hold_for: Duration,
}

impl Verb for HoldTask {
    type Answer = Option<Task>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Task>, Fault> {
        let now = tx.now(self.now);
        let (until, now) = (now.after(self.hold_for).millis(), now.millis());
        if tx.line.run(sql!("task_hold"), args![self.id.0, self.holder, now, until]).await? == 0 {
            return Ok(None);
        }
        find(tx.line, &tx.seals, self.id).await
    }
}

/// What a step must know of its task, which nobody else moves on until the end of this transaction. Its events stand behind
/// the task's last one: otherwise a transaction with a higher number was faster, and the next one of ours has one that is
/// higher still.
async fn head(tx: &Tx<'_>, id: TaskId) -> Result<Option<Head>, Fault> {
    let Some(row) = tx.line.first(sql!("task_head"), args![id.0]).await? else { return Ok(None) };
    let head = Head {
        name: column(&row, 0)?,
        subtasks: count(column(&row, 1)?),
        counts: counts(&row, 2)?,
        state: TaskState::from_number(column(&row, 8)?),
        version: column(&row, 9)?,
        event: column(&row, 10)?,
    };
    if !tx.comes_after(EventSeq(head.event)) {
        return Err(Fault::Again(format!("{id} has an event behind this transaction")));
    }
    Ok(Some(head))
}

/// The subtasks that a step moves, as they are.
async fn found(
    line: &Line,
    id: TaskId,
    head: &Head,
    mark: &[(u32, SubtaskState)],
    begin: &[(u32, NewJob)],
) -> Result<Moves, Fault> {
    let mut moves = Moves::new(head);
    let numbers: Vec<i64> = step::moved(mark, begin).into_iter().map(i64::from).collect();
    if !numbers.is_empty() {
        for row in line.all(sql!("subtask_find"), args![id.0, numbers]).await? {
            moves.found(read_subtask(&row)?);
        }
    }
    Ok(moves)
}

/// One step of a task.
struct AdvanceTask {
    now: Timestamp,
    step: TaskStep,
}

impl Verb for AdvanceTask {
    type Answer = Option<TaskStepped>;

    fn needs(&self) -> Vec<Need> {
        let mut needs = names(&[told::SOURCE, "task_ended"]);
        needs.extend(enqueue::needs(self.step.begin.iter().map(|(_, new)| new)));
        needs.extend(event::needs(self.step.events.iter()));
        needs
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<TaskStepped>, Fault> {
        let (now, step) = (tx.now(self.now), &self.step);
        let head = head(tx, step.task).await?;
        let Some(head) = head.filter(|head| head.version == step.version && head.state == TaskState::Running)
        else {
            return Ok(None);
        };
        let memory = Rc::clone(&tx.memory);
        let new = step.begin.iter().map(|(_, new)| new);
        let (mut moves, mut claims) = try_join(
            found(tx.line, step.task, &head, &step.mark, &step.begin),
            enqueue::claim(tx.line, &memory, new),
        )
        .await?;
        step.mark.iter().try_for_each(|(number, to)| moves.mark(now, *number, *to))?;
        let led_by = Some(EventSeq(head.event));
        let mut jobs = Vec::with_capacity(step.begin.len());
        for (number, new) in &step.begin {
            let parent = new.parent.or(led_by);
            let made = enqueue::apply_one(tx, &mut claims, (self.now, now), new, parent, None)?;
            moves.begin(now, *number, made.id)?;
            jobs.push(made.id);
        }
        let mut last = head.event;
        for event in &step.events {
            last = event::append_led(tx, now, event, last)?;
        }
        if let Some(end) = &step.end {
            let source_id = tx.memory.borrow().name(told::SOURCE)?;
            let caller_id = step.task.to_string();
            last = tx.batch.event(now, told::task_ended(source_id, &caller_id, &head.name, last, end))?;
        }
        put(tx, now, step.task, &moves, step.progress.as_ref(), step.end.as_ref(), last).await?;
        Ok(Some(TaskStepped { version: head.version + 1, jobs }))
    }
}

/// Writes what a step has moved, and how far the task is then.
async fn put(
    tx: &Tx<'_>,
    now: Timestamp,
    id: TaskId,
    moves: &Moves,
    progress: Option<&Value>,
    end: Option<&TaskEnd>,
    event: i64,
) -> Result<(), Fault> {
    let rows: Vec<&Subtask> = moves.rows().collect();
    if !rows.is_empty() {
        let numbers: Vec<i64> = rows.iter().map(|row| i64::from(row.number)).collect();
        let states: Vec<i64> = rows.iter().map(|row| row.state.number()).collect();
        let jobs: Vec<Option<i64>> = rows.iter().map(|row| row.job.map(|job| job.0)).collect();
        let rounds: Vec<i64> = rows.iter().map(|row| i64::from(row.rounds)).collect();
        let times = |time: fn(&Subtask) -> Option<Timestamp>| -> Vec<Option<i64>> {
            rows.iter().map(|row| time(row).map(Timestamp::millis)).collect()
        };
        let (started, ended) = (times(|row| row.started_at), times(|row| row.ended_at));
        let rows = args![id.0, numbers, states, jobs, rounds, started, ended];
        tx.line.run(sql!("subtask_put"), rows).await?;
    }
    let progress = progress.map(Value::to_string);
    let progress = tx.seals.seal_some(Cell::TaskProgress, id.0, progress.as_deref())?;
    let why = end.map(|end| storable(&end.why));
    let why = tx.seals.seal_some(Cell::TaskWhy, id.0, why.as_deref())?;
    let report = end.and_then(|end| end.report.as_ref()).map(Value::to_string);
    let report = tx.seals.seal_some(Cell::TaskReport, id.0, report.as_deref())?;
    let [progress, why, report] = [progress, why, report].map(|text| text.map(Cow::into_owned));
    let state = end.map_or(TaskState::Running, |end| end.state).number();
    let (ended_at, counts) = (end.map(|_| now.millis()), moves.counts.to_vec());
    let row = args![id.0, progress, counts, state, why, report, ended_at, event];
    exactly(1, tx.line.run(sql!("task_step"), row).await?)
}

/// Goes on with a task that is over.
struct ReopenTask {
    now: Timestamp,
    id: TaskId,
    version: i64,
    progress: Value,
    mark: Vec<(u32, SubtaskState)>,
}

impl Verb for ReopenTask {
    type Answer = Option<i64>;

    fn needs(&self) -> Vec<Need> {
        names(&[told::SOURCE, "task_resumed"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<i64>, Fault> {
        let (now, id) = (tx.now(self.now), self.id);
        let over = |head: &Head| {
            head.version == self.version && !matches!(head.state, TaskState::Running | TaskState::Succeeded)
        };
        let Some(head) = head(tx, id).await?.filter(over) else { return Ok(None) };
        let mut moves = found(tx.line, id, &head, &self.mark, &[]).await?;
        self.mark.iter().try_for_each(|(number, to)| moves.mark(now, *number, *to))?;
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        let caller_id = id.to_string();
        let row = told::task_resumed(source_id, &caller_id, &head.name, head.event, head.state);
        let event = tx.batch.event(now, row)?;
        put(tx, now, id, &moves, Some(&self.progress), None, event).await?;
        Ok(Some(self.version + 1))
    }
}

/// Somebody has seen an escalation.
struct Acknowledge {
    now: Timestamp,
    subject: String,
    note: Option<String>,
}

impl Verb for Acknowledge {
    type Answer = ();

    fn needs(&self) -> Vec<Need> {
        names(&[told::SOURCE, "escalation_acknowledged"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let (now, subject) = (tx.now(self.now), self.subject.as_str());
        let parent = match Subject::of(subject) {
            Subject::Task(id) => {
                let row = tx.line.first(sql!("task_event"), args![id.0]).await?;
                row.map(|row| column(&row, 0)).transpose()?
            }
            Subject::Job(id) => {
                let row = tx.line.first(sql!("job_latest"), args![vec![id.0]]).await?;
                row.map(|row| column(&row, 1)).transpose()?
            }
            Subject::Other => None,
        };
        let note = self.note.as_deref().map(storable);
        let sealed = tx.seals.seal_some(Cell::AckNote, sample_row(subject), note.as_deref())?;
        let sealed = sealed.map(Cow::into_owned);
        tx.line.run(sql!("ack_put"), args![subject, now.millis(), sealed]).await?;
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        tx.batch.event(now, told::acknowledged(source_id, subject, parent, note.as_deref()))?;
        Ok(())
    }
}

/// What is known to be seen.
struct AcknowledgedOf {
    subjects: Vec<String>,
}

impl Question for AcknowledgedOf {
    type Answer = Vec<Acknowledged>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Acknowledged>, Fault> {
        let subjects: Vec<&str> =
            self.subjects.iter().map(String::as_str).filter(|subject| !subject.contains('\0')).collect();
        let read = |row: &Row| {
            let subject: String = column(row, 0)?;
            let note = seals.open_some(Cell::AckNote, sample_row(&subject), column(row, 2)?)?;
            Ok(Acknowledged { subject, at: Timestamp::from_millis(column(row, 1)?), note })
        };
        line.all(sql!("ack_list"), args![subjects]).await?.iter().map(read).collect()
    }
}

/// Forgets tasks that ended before, and that escalations were seen then. Answers whether there may be more.
pub(super) async fn prune(
    tx: &Tx<'_>,
    tasks_before: Timestamp,
    acks_before: Timestamp,
    limit: u32,
) -> Result<bool, Fault> {
    let most = i64::from(limit);
    let rows = tx.line.all(sql!("task_old"), args![tasks_before.millis(), most]).await?;
    let read = |row: &Row| Ok((column(row, 0)?, count(column(row, 1)?)));
    let old: Vec<(i64, u32)> = rows.iter().map(read).collect::<Result<_, Fault>>()?;
    let gone = step::few_of(&old, limit);
    if !gone.is_empty() {
        exactly(gone.len() as u64, tx.line.run(sql!("task_delete"), args![gone]).await?)?;
        tx.line.run(sql!("subtask_delete"), args![gone]).await?;
        tx.line.run(sql!("task_plan_delete"), args![gone]).await?;
    }
    let acks = tx.line.run(sql!("ack_old"), args![acks_before.millis(), most]).await?;
    Ok(gone.len() < old.len() || old.len() >= limit as usize || acks >= u64::from(limit))
}
