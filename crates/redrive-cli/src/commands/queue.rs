//! `queue list`, `queue pause NAME`, `queue resume NAME`: what waits where, and stopping it for a while.

use redrive::redact;
use redrive_store::Timestamp;

use super::{act, opened, shown};
use crate::args::QueueCommand;
use crate::escape::beginning;
use crate::text::text;
use crate::trouble::{DeskTrouble, Trouble};
use crate::view::queue::{QueueChangedView, QueuesView};
use crate::{Exit, Stage};

/// The most that is kept of a reason.
const WHY_CHARS: usize = 1_000;

pub(super) fn run(command: Option<QueueCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(QueueCommand::List) {
        QueueCommand::List => list(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        QueueCommand::Pause { name, why } => {
            pause(name, why.as_deref(), stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        QueueCommand::Resume { name, why } => {
            resume(name, why.as_deref(), stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
    }
}

fn list(stage: &mut Stage<'_>) -> Result<QueuesView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let Some(opened) = opened::if_there(stage)? else { return Ok(QueuesView::new(Vec::new(), now)) };
    let queues = opened.runtime.block_on(opened.looker()?.queue_reports())?;
    Ok(QueuesView::new(queues, now))
}

/// Makes the store when there is none: a queue may be stopped before anything is in it.
fn pause(queue: String, why: Option<&str>, stage: &mut Stage<'_>) -> Result<QueueChangedView, Trouble> {
    let opened = opened::to_write(stage)?;
    if !opened.wait(opened.store.queues())?.iter().any(|known| known.name == queue) {
        stage.talk.note(&text(stage.settings.lang, "queue.new", &[("queue", &queue)]));
    }
    let why = why.map(|why| beginning(&redact(why), WHY_CHARS));
    act::record(&opened, &opened.looker()?, "queue.pause", queue.as_str(), why.as_deref(), stage)?;
    let changed = opened.wait(opened.store.pause_queue(opened.now, queue.clone(), why))?;
    opened.wait(opened.store.close())?;
    Ok(QueueChangedView { schema: "redrive/queue_changed.v1", queue, paused: true, changed })
}

fn resume(queue: String, why: Option<&str>, stage: &Stage<'_>) -> Result<QueueChangedView, Trouble> {
    let opened = opened::to_read(stage)?;
    let unknown = || {
        let (queue, store) = (queue.clone(), opened.store.location());
        Trouble::Desk(DeskTrouble::NoQueue { queue, store })
    };
    // What is not there is not acted on.
    if !opened.wait(opened.store.queues())?.iter().any(|known| known.name == queue) {
        return Err(unknown());
    }
    act::record(&opened, &opened.looker()?, "queue.resume", queue.as_str(), why, stage)?;
    let resumed = opened.wait(opened.store.resume_queue(opened.now, queue.clone()))?;
    let changed = resumed.ok_or_else(unknown)?;
    opened.wait(opened.store.close())?;
    Ok(QueueChangedView { schema: "redrive/queue_changed.v1", queue, paused: false, changed })
}
