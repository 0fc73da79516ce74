//! `dlq list` and `dlq show`: the dead letters, and one of them.

use redrive_store::{JobState, LetterFilter, Timestamp};

use super::opened;
use crate::Stage;
use crate::args::{DlqListArgs, JobRef};
use crate::trouble::Trouble;
use crate::view::dead_letter::{DeadLetterView, DeadLettersView, LetterView};
use crate::view::story::Attempt;

/// How many letters are listed unless a person says.
const DEFAULT_LIMIT: u32 = 20;

pub(super) fn list(args: &DlqListArgs, stage: &mut Stage<'_>) -> Result<DeadLettersView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut letters = match opened::if_there(stage)? {
        Some(opened) => {
            let filter = LetterFilter {
                queue: args.queue.clone(),
                cause: args.cause,
                caller_id: args.caller_id.clone(),
                ..LetterFilter::default()
            };
            // One more than is shown tells whether there are more.
            opened.wait(opened.store.letters(filter, limit.saturating_add(1)))?
        }
        None => Vec::new(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = letters.len() > limit;
    letters.truncate(limit);
    Ok(DeadLettersView {
        schema: "redrive/dead_letters.v1",
        items: letters.iter().map(|letter| LetterView::new(letter, args.with_payload)).collect(),
        now,
        more,
    })
}

pub(super) fn show(id: &JobRef, with_payload: bool, stage: &Stage<'_>) -> Result<DeadLetterView, Trouble> {
    let opened = opened::to_read(stage)?;
    let record = opened.job(id)?;
    let JobState::Dead(letter) = &record.state else {
        return Err(Trouble::NoLetter { id: record.id.to_string(), store: opened.store.location() });
    };
    Ok(DeadLetterView {
        schema: "redrive/dead_letter.v1",
        letter: LetterView::new(letter, with_payload),
        report: letter.report.clone(),
        history: Attempt::all(&opened.story(&record)?),
        now: opened.now,
    })
}
