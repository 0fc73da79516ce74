//! `dlq list` and `dlq show`: the dead letters, and one of them.

use redrive::engine::called_by;
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{DeadLetter, JobState, LetterFilter, Timestamp};

use super::opened::{self, Opened};
use super::paging::NextPage;
use crate::Stage;
use crate::args::{DlqListArgs, JobRef, LetterPlace};
use crate::trouble::Trouble;
use crate::view::dead_letter::{About, DeadLetterView, DeadLettersView, LetterView};
use crate::view::story::Attempt;

/// How many letters are listed unless a person says.
const DEFAULT_LIMIT: u32 = 20;

/// Letters, and where the next ones begin.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) letters: Vec<DeadLetter>,
    pub(super) next: Option<LetterPlace>,
}

/// One page of letters.
pub(super) fn page(
    opened: &Opened,
    among: LetterFilter,
    filter: Option<&Filter<LetterField>>,
    after: Option<LetterPlace>,
    limit: Option<u32>,
) -> Result<Listed, Trouble> {
    let mut which = match filter {
        Some(filter) => filter.letters_among(among, opened.now),
        None => among,
    };
    if let Some(after) = after {
        let died_at = match after.died_at {
            Some(at) => at,
            None => died_at(opened, &JobRef::Job(after.id))?,
        };
        which.after = Some((died_at, after.id));
    }
    let engine = opened.looker()?;
    let page = opened.runtime.block_on(engine.find_letters(which, limit.unwrap_or(DEFAULT_LIMIT)))?;
    let (letters, next) = (page.letters, page.next);
    Ok(Listed { letters, next: next.map(|(at, id)| LetterPlace { id, died_at: Some(at) }) })
}

fn died_at(opened: &Opened, id: &JobRef) -> Result<Timestamp, Trouble> {
    match opened.job(id)?.state {
        JobState::Dead(letter) => Ok(letter.died_at),
        _ => Err(Trouble::NoLetter { id: id.to_string(), store: opened.store.location() }),
    }
}

pub(super) fn list(args: &DlqListArgs, stage: &mut Stage<'_>) -> Result<DeadLettersView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let listed = match opened::if_there(stage)? {
        Some(opened) => {
            let which = LetterFilter {
                queue: args.queue.clone(),
                cause: args.cause,
                caller_id: args.caller_id.clone(),
                fingerprint: match &args.group {
                    Some(group) => Some(opened.group(group, &opened.looker()?)?.fingerprint),
                    None => None,
                },
                ..LetterFilter::default()
            };
            page(&opened, which, args.filter.as_ref(), args.after, args.limit)?
        }
        None => Listed::default(),
    };
    let next_page = listed.next.as_ref().map(|next| {
        NextPage::new("dlq list")
            .flag("--limit", args.limit.as_ref().map(|limit| limit as _))
            .flag("--queue", args.queue.as_ref().map(|queue| queue as _))
            .flag("--cause", args.cause.as_ref().map(|cause| cause as _))
            .flag("--caller-id", args.caller_id.as_ref().map(|id| id as _))
            .flag("--group", args.group.as_ref().map(|group| group as _))
            .flag("--where", args.filter.as_ref().map(|filter| filter as _))
            .flag("--after", Some(next))
            .command()
    });
    let narrowed = args.queue.is_some() || args.cause.is_some() || args.caller_id.is_some();
    Ok(DeadLettersView {
        schema: "redrive/dead_letters.v1",
        items: listed.letters.iter().map(|letter| LetterView::new(letter, args.with_payload)).collect(),
        next: listed.next.map(|next| next.to_string()),
        next_page,
        about: About::Letters {
            narrowed: narrowed || args.group.is_some() || args.filter.is_some() || args.after.is_some(),
        },
        now,
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
        calls: called_by(&letter.kind, &letter.payload),
        letter: LetterView::new(letter, with_payload),
        report: letter.report.clone(),
        history: Attempt::all(&opened.story(&record)?),
        now: opened.now,
    })
}
