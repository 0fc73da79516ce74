//! `retry ID`: a waiting job runs now, a dead one is put back.

use redrive_policy::Class;
use redrive_store::{JobState, RunNow};

use super::{confirm, opened, redrive};
use crate::args::RetryArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::redriven::{RedriveResult, RedrivenItem, RedrivenView};
use crate::{Exit, Stage};

pub(super) fn run(args: &RetryArgs, stage: &mut Stage<'_>) -> Result<(Option<RedrivenView>, Exit), Trouble> {
    let opened = opened::to_read(stage)?;
    let record = opened.job(&args.id)?;
    let id = record.id;
    if let JobState::Dead(letter) = &record.state {
        // What a retry alone does not heal is put back only by somebody who means it.
        if letter.cause.class() == Class::Permanent && !letter.retryable && !args.yes {
            let question =
                text(stage.settings.lang, "ask.permanent", &[("id", &id), ("cause", &letter.cause.name())]);
            if !confirm(&question, &format!("redrive retry {id}"), stage)? {
                return Ok((None, Exit::Done));
            }
        }
        let items = redrive::put_back(&opened, vec![id], "manual_retry")?;
        let exit = if items.iter().all(|item| item.result.is_good()) { Exit::Done } else { Exit::Failed };
        return Ok((Some(RedrivenView::new(items)), exit));
    }
    let result = match opened.wait(opened.store.run_now(opened.now, id))? {
        RunNow::Due => RedriveResult::Due,
        RunNow::Running => RedriveResult::Running,
        // It died, ended or went between the two looks.
        RunNow::Dead | RunNow::Ended => RedriveResult::NotDead,
        RunNow::Unknown => RedriveResult::NotFound,
    };
    if !result.is_good() {
        return Err(Trouble::NoLetter { id: id.to_string(), store: opened.store.location() });
    }
    Ok((Some(RedrivenView::new(vec![RedrivenItem { id: id.to_string(), result }])), Exit::Done))
}
