//! `redrive ID… | --all`: dead letters go back into their queues, with a fresh budget.

use redrive::engine::Engine;
use redrive_store::{LetterFilter, Redriven};

use super::confirm;
use super::opened::{self, Opened};
use crate::args::RedriveArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::redriven::{RedriveResult, RedrivenItem, RedrivenView};
use crate::{Exit, Stage};

pub(super) fn run(
    args: &RedriveArgs,
    stage: &mut Stage<'_>,
) -> Result<(Option<RedrivenView>, Exit), Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let view = if args.all {
        let dead = opened.wait(opened.store.status(opened.now))?.dead_letters;
        if dead == 0 {
            return Err(Trouble::NoLetters { store: opened.store.location() });
        }
        let what = text(stage.settings.lang, "ask.all", &[("n", &dead)]);
        if !args.yes && !confirm(&what, "redrive redrive --all", stage)? {
            return Ok((None, Exit::Done));
        }
        let (redriven, failed) = opened.runtime.block_on(engine.redrive_all(LetterFilter::default()))?;
        RedrivenView::counted(redriven, failed)
    } else {
        RedrivenView::new(some(args, &opened, &engine)?)
    };
    let exit = match (view.redriven, view.failed) {
        (_, 0) => Exit::Done,
        (0, _) => Exit::Nothing,
        _ => Exit::Partly,
    };
    Ok((Some(view), exit))
}

fn some(args: &RedriveArgs, opened: &Opened, engine: &Engine) -> Result<Vec<RedrivenItem>, Trouble> {
    let mut items = Vec::with_capacity(args.ids.len());
    for id in &args.ids {
        let record = match opened.job(id) {
            Ok(record) => record,
            Err(Trouble::NoJob { id, .. }) => {
                items.push(RedrivenItem { id, result: RedriveResult::NotFound });
                continue;
            }
            Err(trouble) => return Err(trouble),
        };
        let redriven = opened.runtime.block_on(engine.redrive(vec![record.id]))?;
        let result = match redriven.first() {
            Some(Redriven::Ready) => RedriveResult::Redriven,
            Some(Redriven::Duplicate { .. }) => RedriveResult::Duplicate,
            Some(Redriven::NotDead) | None => RedriveResult::NotDead,
        };
        items.push(RedrivenItem { id: record.id.to_string(), result });
    }
    Ok(items)
}
