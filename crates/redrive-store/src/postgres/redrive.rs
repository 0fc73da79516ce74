//! Redrives of many letters as durable runs. A step is written with the letters that it puts back, for who knows the run's version:
//! of two that move the same run on, the database undoes one, which then sees that it comes too late.

use std::cell::RefCell;
use std::time::Duration;

use tokio_postgres::Row;

use super::dead_letter::put_back;
use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use crate::dead_letter::Redriven;
use crate::redrive::{FirstAttempt, Judged, NewRun, Run, RunId, RunState, RunStep, Stepped};
use crate::row::parse_json;
use crate::seal::Seals;
use crate::time::Timestamp;
use crate::told;

fn names(names: &[&str]) -> Vec<Need> {
    names.iter().map(|name| Need::Name((*name).to_owned())).collect()
}

/// Reads the columns of `run_read.sql`.
fn read(row: &Row) -> Result<Run, Fault> {
    let time = |at| column::<Option<i64>>(row, at).map(|at| at.map(Timestamp::from_millis));
    Ok(Run {
        id: RunId(column(row, 0)?),
        created_at: Timestamp::from_millis(column(row, 1)?),
        wanted_by: column(row, 2)?,
        plan: parse_json(column(row, 3)?),
        progress: parse_json(column(row, 4)?),
        state: RunState::from_number(column(row, 5)?),
        why: column(row, 6)?,
        version: column(row, 7)?,
        held_until: time(8)?,
        ended_at: time(9)?,
        moved: column::<i64>(row, 10)?.unsigned_abs(),
        skipped: column::<i64>(row, 11)?.unsigned_abs(),
    })
}

async fn find(line: &Line, id: RunId) -> Result<Option<Run>, Fault> {
    line.first(sql!("run_read"), args![id.0]).await?.as_ref().map(read).transpose()
}

/// A new run.
pub(super) struct StartRun {
    pub(super) now: Timestamp,
    pub(super) run: NewRun,
}

impl Verb for StartRun {
    type Answer = RunId;

    fn needs(&self) -> Vec<Need> {
        names(&[told::SOURCE, "redrive_started"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<RunId, Fault> {
        let now = tx.now(self.now);
        let wanted_by = storable(&self.run.wanted_by);
        let (plan, progress) = (self.run.plan.to_string(), self.run.progress.to_string());
        let row = tx.line.first(sql!("run_insert"), args![now.millis(), wanted_by, plan, progress]).await?;
        let row = row.ok_or_else(|| Fault::corrupt("a run got no number"))?;
        let id = RunId(column(&row, 0)?);
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        tx.batch.event(now, told::run_started(source_id, id, &self.run))?;
        Ok(id)
    }
}

/// Runs, the newest first.
pub(super) struct RunsOf {
    pub(super) open_only: bool,
    pub(super) limit: u32,
}

impl Question for RunsOf {
    type Answer = Vec<Run>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<Run>, Fault> {
        let text = if self.open_only { sql!("run_list_open") } else { sql!("run_list") };
        let rows = line.all(text, args![i64::from(self.limit)]).await?;
        rows.iter().map(read).collect()
    }
}

/// One run.
pub(super) struct RunOf {
    pub(super) id: RunId,
}

impl Question for RunOf {
    type Answer = Option<Run>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Option<Run>, Fault> {
        find(line, self.id).await
    }
}

/// Somebody takes a run to move it on.
pub(super) struct HoldRun {
    pub(super) now: Timestamp,
    pub(super) id: RunId,
    pub(super) holder: i64,
    pub(super) hold_for: Duration,
}

impl Verb for HoldRun {
    type Answer = Option<Run>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Run>, Fault> {
        let now = tx.now(self.now);
        let (until, now) = (now.after(self.hold_for).millis(), now.millis());
        let rows = args![self.id.0, self.holder, until, now];
        tx.line.first(sql!("run_hold"), rows).await?.as_ref().map(read).transpose()
    }
}

/// One step of a run.
pub(super) struct AdvanceRun {
    pub(super) now: Timestamp,
    pub(super) step: RunStep,
}

impl Verb for AdvanceRun {
    type Answer = Option<Stepped>;

    fn needs(&self) -> Vec<Need> {
        names(&[told::SOURCE, "redrive", "redrive_ended"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Stepped>, Fault> {
        let (now, step) = (tx.now(self.now), &self.step);
        let Some(run) = find(tx.line, step.run).await? else { return Ok(None) };
        if run.state != RunState::Running || run.version != step.version {
            return Ok(None);
        }
        // First the run itself: whoever else moves it on waits here, and is undone.
        put(tx, now, &run, &step.progress, step.state, step.why.as_deref()).await?;
        let redriven = put_back(tx, now, &step.ids, "redrive", Some(step.run)).await?;
        let back = step.ids.iter().zip(&redriven).filter(|(_, what)| **what == Redriven::Ready);
        let back: Vec<i64> = back.map(|(id, _)| id.0).collect();
        if !redriven.is_empty() {
            let [moved, all] =
                [back.len(), redriven.len()].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
            tx.line.run(sql!("run_count"), args![step.run.0, moved, all - moved]).await?;
        }
        if let Some(number) = step.judged_in {
            tx.line.run(sql!("item_insert"), args![step.run.0, back, i64::from(number)]).await?;
        }
        Ok(Some(Stepped { redriven, version: run.version + 1 }))
    }
}

/// Writes how far a run is; if it is over, with its event.
async fn put(
    tx: &mut Tx<'_>,
    now: Timestamp,
    run: &Run,
    progress: &serde_json::Value,
    state: RunState,
    why: Option<&str>,
) -> Result<(), Fault> {
    let over = state != RunState::Running;
    let (text, words, number) = (progress.to_string(), why.map(storable), state.number());
    let ended_at = over.then_some(now.millis());
    let row = args![run.id.0, run.version, text, number, words, ended_at];
    exactly(1, tx.line.run(sql!("run_step"), row).await?)?;
    if over {
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        tx.batch.event(now, told::run_ended(source_id, run, state, why, progress))?;
    }
    Ok(())
}

/// Ends a run.
pub(super) struct CancelRun {
    pub(super) now: Timestamp,
    pub(super) id: RunId,
    pub(super) why: String,
}

impl Verb for CancelRun {
    type Answer = bool;

    fn needs(&self) -> Vec<Need> {
        names(&[told::SOURCE, "redrive_ended"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let now = tx.now(self.now);
        let Some(run) = find(tx.line, self.id).await? else { return Ok(false) };
        if run.state != RunState::Running {
            return Ok(false);
        }
        put(tx, now, &run, &run.progress, RunState::Cancelled, Some(&self.why)).await?;
        Ok(true)
    }
}

/// How first attempts went.
pub(super) struct JudgedOf {
    pub(super) id: RunId,
    pub(super) step: Option<u32>,
}

impl Question for JudgedOf {
    type Answer = Vec<Judged>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<Judged>, Fault> {
        let rows = line.all(sql!("item_counts"), args![self.id.0, self.step.map(i64::from)]).await?;
        let read = |row: &Row| {
            Ok(Judged {
                first_attempt: FirstAttempt::from_number(column(row, 0)?),
                fingerprint: column(row, 1)?,
                jobs: column::<i64>(row, 2)?.unsigned_abs(),
            })
        };
        rows.iter().map(read).collect()
    }
}
