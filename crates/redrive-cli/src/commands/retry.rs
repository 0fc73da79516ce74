//! `retry ID`: a waiting job runs now, a dead one is put back.

use redrive::engine::RetryNow;
use redrive_policy::Class;
use redrive_store::JobState;

use super::{act, confirm, opened};
use crate::args::JobRef;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::redriven::{RedriveResult, RedrivenItem, RedrivenView};
use crate::{Exit, Stage};

pub(super) fn run(
    id: &JobRef,
    yes: bool,
    why: Option<&str>,
    stage: &mut Stage<'_>,
) -> Result<(Option<RedrivenView>, Exit), Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let record = opened.job(id)?;
    let id = record.id;
    let no_letter = || Trouble::NoLetter { id: id.to_string(), store: opened.store.location() };
    match &record.state {
        // What a retry alone does not heal is put back only by somebody who means it.
        JobState::Dead(letter) if !yes && letter.cause.class() == Class::Permanent && !letter.retryable => {
            let cause = letter.cause.name();
            let what = text(stage.settings.lang, "ask.permanent", &[("id", &id), ("cause", &cause)]);
            if !confirm(&what, &format!("redrive retry {id}"), stage)? {
                return Ok((None, Exit::Done));
            }
        }
        JobState::Ended => {
            act::refused(&opened, &engine, "job.retry", id.to_string(), why, stage)?;
            return Err(no_letter());
        }
        JobState::Dead(_) | JobState::Ready { .. } | JobState::Leased { .. } => {}
    }
    act::record(&opened, &engine, "job.retry", id.to_string(), why, stage)?;
    let came = opened.runtime.block_on(engine.retry_now(id, true))?;
    if !matches!(came, RetryNow::Due | RetryNow::Redriven) {
        act::refused(&opened, &engine, "job.retry", id.to_string(), why, stage)?;
    }
    let result = match came {
        RetryNow::Due => RedriveResult::Due,
        RetryNow::Redriven => RedriveResult::Redriven,
        RetryNow::Running => RedriveResult::Running,
        RetryNow::Duplicate { .. } => RedriveResult::Duplicate,
        _ => return Err(no_letter()),
    };
    let exit = if result.is_good() { Exit::Done } else { Exit::Failed };
    Ok((Some(RedrivenView::new(vec![RedrivenItem { id: id.to_string(), result }])), exit))
}
