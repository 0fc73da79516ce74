//! `trace ID`: the retries, escalations and recoveries of a job or a task, in the words of 002 §6.

use redrive::engine::{TraceEntry, latest_iteration};
use redrive_store::TaskId;

use super::{opened, shown};
use crate::args::JobRef;
use crate::render::json;
use crate::settings::Form;
use crate::text::text;
use crate::trouble::{TaskTrouble, Trouble};
use crate::view::trace::TraceView;
use crate::{Exit, Stage};

pub(super) fn run(id: &JobRef, latest: bool, raw: bool, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let job = opened.job(id)?.id;
    let entries = opened.runtime.block_on(opened.looker()?.trace(job, stage.settings.lang))?;
    let unknown = || Trouble::NoJob { id: id.to_string(), store: opened.store.location() };
    told(job.to_string(), entries.ok_or_else(unknown)?, latest, raw, stage)
}

pub(super) fn run_task(
    task: TaskId,
    latest: bool,
    raw: bool,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let entries = opened.runtime.block_on(opened.looker()?.trace_task(task, stage.settings.lang))?;
    let (which, store) = (task.to_string(), opened.store.location());
    let entries = entries.ok_or(Trouble::Task(TaskTrouble::Unknown { which, store }))?;
    told(task.to_string(), entries, latest, raw, stage)
}

fn told(
    id: String,
    entries: Vec<TraceEntry>,
    latest: bool,
    raw: bool,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let entries = if latest { latest_iteration(entries) } else { entries };
    if raw {
        for entry in &entries {
            json::write(entry, stage.stdout, false).map_err(|error| Trouble::Output(error.into()))?;
            stage.stdout.write_all(b"\n").map_err(Trouble::Output)?;
        }
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        let note = text(stage.settings.lang, "trace.empty", &[("id", &id)]);
        stage.talk.note(&note);
    }
    let columns = (stage.settings.form == Form::Rich).then_some(stage.settings.width);
    shown(&TraceView::new(id, entries, columns), Exit::Done, stage)
}
