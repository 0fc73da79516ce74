//! `redrive`: dead letters go back into their queues, with a fresh budget. A few by their ids at once; many as a durable
//! run that is shown before it begins, watched while it goes, and goes on without us.

use redrive::engine::{Canary, Engine, RedriveRequest, Which};
use redrive_store::{JobState, Redriven, RunId, RunState};

use super::opened::{self, Opened};
use super::{act, ask, ids, redrive_watch, shown};
use crate::args::{JobRef, RedriveArgs};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::Page;
use crate::view::redrive_preview::RedrivePreviewView;
use crate::view::redrive_run::{RedriveRunView, RedriveRunsView, run_line};
use crate::view::redriven::{RedriveResult, RedrivenItem, RedrivenView};
use crate::{Exit, Stage, render};

/// How many redrives are listed.
const LISTED: u32 = 50;

pub(super) fn run(args: &RedriveArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    if args.runs {
        return list(&opened, &engine, stage);
    }
    if let Some(id) = args.resume {
        return redrive_watch::watch(id, &opened, &engine, stage);
    }
    if let Some(id) = args.cancel {
        return cancel(id, args, &opened, &engine, stage);
    }
    let plain = !args.canary && args.rate.is_none() && args.limit.is_none() && !args.dry_run && !args.detach;
    let ids = if args.ids.is_empty() { Vec::new() } else { ids::given(&args.ids, stage)? };
    if !ids.is_empty() && plain {
        let view = RedrivenView::new(some(&ids, args.why.as_deref(), &opened, &engine, stage)?);
        let exit = match (view.redriven, view.failed) {
            (_, 0) => Exit::Done,
            // It is there, but unfinished work stands in its way.
            (0, _) if view.items.iter().any(|item| item.result == RedriveResult::Duplicate) => Exit::Failed,
            (0, _) => Exit::Nothing,
            _ => Exit::Partly,
        };
        return shown(&view, exit, stage);
    }
    many(args, &ids, &opened, &engine, stage)
}

/// Shows what would be done, asks, and does it as a run.
fn many(
    args: &RedriveArgs,
    ids: &[JobRef],
    opened: &Opened,
    engine: &Engine,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let canary = args.canary.then(|| {
        let canary = Canary::default();
        Canary { max_failure_rate: args.max_failures.unwrap_or(canary.max_failure_rate) }
    });
    let request = RedriveRequest {
        rate: args.rate,
        limit: args.limit,
        canary,
        ..RedriveRequest::new(which(args, ids, opened, engine)?)
    };
    let preview = opened.runtime.block_on(engine.preview_redrive(&request))?;
    if preview.count == 0 {
        let store = opened.store.location();
        return Err(match request.which {
            Which::All => Trouble::NoLetters { store },
            Which::Group(group) => Trouble::NothingMatches { asked: format!("group={group}"), store },
            Which::Where(filter) => Trouble::NothingMatches { asked: filter, store },
            Which::Ids(ids) => {
                let ids: Vec<String> = ids.iter().take(5).map(ToString::to_string).collect();
                Trouble::NothingMatches { asked: format!("id in ({})", ids.join(", ")), store }
            }
        });
    }
    let (count, now) = (preview.count, opened.now);
    let view = RedrivePreviewView::new(preview, args.canary, args.rate, now);
    let can_ask = stage.stdin_is_terminal && stage.settings.form != Form::Json;
    if args.dry_run || args.yes || can_ask {
        for warning in view.warnings(stage.settings.reader()) {
            stage.talk.warning(&warning);
        }
    }
    if args.dry_run {
        return shown(&view, Exit::Done, stage);
    }
    if !args.yes {
        let what = text(stage.settings.lang, "redrive.about-to", &[("n", &count)]);
        if can_ask {
            let page = render::page(&view.blocks(stage.settings.reader()), stage);
            stage.talk.page(&page);
        }
        if !ask(&what, "redrive.go-on", &typed(args), stage)? {
            stage.talk.note(&say(stage.settings.lang, "ask.cancelled"));
            return Ok(Exit::Done);
        }
    }
    act::record(
        opened,
        engine,
        "redrive.begin",
        format!("{count} letters: {}", typed(args)),
        args.why.as_deref(),
        stage,
    )?;
    let id = opened.runtime.block_on(engine.start_redrive(request))?;
    if args.detach {
        let run = opened.runtime.block_on(engine.redrive_run(id))?.ok_or_else(|| unknown(id, opened))?;
        return shown(&RedriveRunView::new(run_line(&run, None)), Exit::Done, stage);
    }
    redrive_watch::watch(id, opened, engine, stage)
}

/// The command as it was typed, as far as it says which letters.
fn typed(args: &RedriveArgs) -> String {
    let which = match (&args.group, &args.filter, args.all) {
        (Some(group), ..) => format!("--group {group}"),
        (None, Some(_), _) => "--where …".to_owned(),
        (None, None, true) => "--all".to_owned(),
        (None, None, false) => "ID…".to_owned(),
    };
    format!("redrive redrive {which}{}", if args.canary { " --canary" } else { "" })
}

/// Which letters are meant.
fn which(args: &RedriveArgs, ids: &[JobRef], opened: &Opened, engine: &Engine) -> Result<Which, Trouble> {
    if let Some(prefix) = &args.group {
        return Ok(Which::Group(opened.group(prefix, engine)?.fingerprint));
    }
    if let Some(filter) = &args.filter {
        return Ok(Which::Where(filter.to_string()));
    }
    if args.all {
        return Ok(Which::All);
    }
    let ids = ids.iter().map(|id| opened.job(id).map(|record| record.id)).collect::<Result<_, _>>()?;
    Ok(Which::Ids(ids))
}

fn some(
    ids: &[JobRef],
    why: Option<&str>,
    opened: &Opened,
    engine: &Engine,
    stage: &Stage<'_>,
) -> Result<Vec<RedrivenItem>, Trouble> {
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        let record = match opened.job(id) {
            Ok(record) => record,
            Err(Trouble::NoJob { id, .. }) => {
                items.push(RedrivenItem { id, result: RedriveResult::NotFound });
                continue;
            }
            Err(trouble) => return Err(trouble),
        };
        if !matches!(record.state, JobState::Dead(_)) {
            act::refused(opened, engine, "letter.redrive", record.id.to_string(), why, stage)?;
            items.push(RedrivenItem { id: record.id.to_string(), result: RedriveResult::NotDead });
            continue;
        }
        act::record(opened, engine, "letter.redrive", record.id.to_string(), why, stage)?;
        let redriven = opened.runtime.block_on(engine.redrive(vec![record.id]))?;
        let result = match redriven.first() {
            Some(Redriven::Ready) => RedriveResult::Redriven,
            Some(Redriven::Duplicate { .. }) => RedriveResult::Duplicate,
            Some(Redriven::NotDead) | None => RedriveResult::NotDead,
        };
        if result != RedriveResult::Redriven {
            act::refused(opened, engine, "letter.redrive", record.id.to_string(), why, stage)?;
        }
        items.push(RedrivenItem { id: record.id.to_string(), result });
    }
    Ok(items)
}

fn list(opened: &Opened, engine: &Engine, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let runs = opened.runtime.block_on(engine.redrive_runs(false, LISTED))?;
    let mut items = Vec::with_capacity(runs.len());
    for run in &runs {
        items.push(run_line(run, opened.runtime.block_on(engine.tally(run))?));
    }
    shown(&RedriveRunsView::new(items, opened.now), Exit::Done, stage)
}

fn cancel(
    id: RunId,
    args: &RedriveArgs,
    opened: &Opened,
    engine: &Engine,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let run = opened.runtime.block_on(engine.redrive_run(id))?.ok_or_else(|| unknown(id, opened))?;
    if run.state == RunState::Running {
        act::record(opened, engine, "redrive.cancel", id.to_string(), args.why.as_deref(), stage)?;
    } else {
        act::refused(opened, engine, "redrive.cancel", id.to_string(), args.why.as_deref(), stage)?;
    }
    let was_under_way = opened.runtime.block_on(engine.cancel_redrive(id, args.why.clone()))?;
    let run = opened.runtime.block_on(engine.redrive_run(id))?.ok_or_else(|| unknown(id, opened))?;
    let tally = opened.runtime.block_on(engine.tally(&run))?;
    let exit = if was_under_way {
        Exit::Done
    } else {
        stage.talk.note(&text(stage.settings.lang, "redrive.over-already", &[("id", &id)]));
        Exit::Failed
    };
    shown(&RedriveRunView::new(run_line(&run, tally)), exit, stage)
}

pub(super) fn unknown(id: RunId, opened: &Opened) -> Trouble {
    Trouble::NoRun { id, store: opened.store.location() }
}
