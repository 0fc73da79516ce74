//! `redrive ID… | --all`: dead letters go back into their queues, with a fresh budget.

use redrive_store::{JobId, LetterFilter, Redriven};

use super::confirm;
use super::opened::{self, Opened};
use crate::args::RedriveArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::redriven::{RedriveResult, RedrivenItem, RedrivenView};
use crate::{Exit, Stage};

/// How many letters are read, and put back, at once.
const PAGE: u32 = 1_000;

pub(super) fn run(
    args: &RedriveArgs,
    stage: &mut Stage<'_>,
) -> Result<(Option<RedrivenView>, Exit), Trouble> {
    let opened = opened::to_read(stage)?;
    let items = if args.all {
        let dead = opened.wait(opened.store.status(opened.now))?.dead_letters;
        if dead == 0 {
            return Err(Trouble::NoLetters { store: opened.store.location() });
        }
        let question = text(stage.settings.lang, "ask.all", &[("n", &dead)]);
        if !args.yes && !confirm(&question, "redrive redrive --all", stage)? {
            return Ok((None, Exit::Done));
        }
        all(&opened)?
    } else {
        some(args, &opened)?
    };
    let view = RedrivenView::new(items);
    let exit = match (view.redriven, view.failed) {
        (_, 0) => Exit::Done,
        (0, _) => Exit::Nothing,
        _ => Exit::Partly,
    };
    Ok((Some(view), exit))
}

fn some(args: &RedriveArgs, opened: &Opened) -> Result<Vec<RedrivenItem>, Trouble> {
    let mut items = Vec::with_capacity(args.ids.len());
    for id in &args.ids {
        match opened.job(id) {
            Ok(record) => items.extend(put_back(opened, vec![record.id], "job_redriven")?),
            Err(Trouble::NoJob { id, .. }) => {
                items.push(RedrivenItem { id, result: RedriveResult::NotFound });
            }
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(items)
}

/// Every letter that is there now; one that dies again meanwhile stays where it is.
fn all(opened: &Opened) -> Result<Vec<RedrivenItem>, Trouble> {
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let filter = LetterFilter { before: Some(opened.now), after, ..LetterFilter::default() };
        let letters = opened.wait(opened.store.letters(filter, PAGE))?;
        let Some(last) = letters.last() else { return Ok(items) };
        after = Some((last.died_at, last.id));
        items.extend(put_back(opened, letters.iter().map(|letter| letter.id).collect(), "job_redriven")?);
    }
}

pub(super) fn put_back(
    opened: &Opened,
    ids: Vec<JobId>,
    event_type: &'static str,
) -> Result<Vec<RedrivenItem>, Trouble> {
    let results = opened.wait(opened.store.redrive(opened.now, ids.clone(), event_type))?;
    let item = |(id, result): (JobId, Redriven)| RedrivenItem {
        id: id.to_string(),
        result: match result {
            Redriven::Ready => RedriveResult::Redriven,
            Redriven::NotDead => RedriveResult::NotDead,
            Redriven::Duplicate { .. } => RedriveResult::Duplicate,
        },
    };
    Ok(ids.into_iter().zip(results).map(item).collect())
}
