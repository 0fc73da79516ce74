//! `retry-candidates`: dead letters whose class is transient, which may well succeed when they are put back.

use redrive_store::{LetterFilter, Timestamp};

use super::dlq::{self, Listed};
use super::opened;
use super::paging::NextPage;
use crate::Stage;
use crate::args::CandidatesArgs;
use crate::trouble::Trouble;
use crate::view::dead_letter::{About, DeadLettersView, LetterView};

pub(super) fn run(args: &CandidatesArgs, stage: &mut Stage<'_>) -> Result<DeadLettersView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let page = match opened::if_there(stage)? {
        Some(opened) => {
            let which = LetterFilter { transient_only: true, ..LetterFilter::default() };
            dlq::page(&opened, which, args.filter.as_ref(), args.after, args.limit)?
        }
        None => Listed::default(),
    };
    let next_page = page.next.as_ref().map(|next| {
        NextPage::new("retry-candidates")
            .flag("--limit", args.limit.as_ref().map(|limit| limit as _))
            .flag("--where", args.filter.as_ref().map(|filter| filter as _))
            .flag("--after", Some(next))
            .command()
    });
    Ok(DeadLettersView {
        schema: "redrive/retry_candidates.v1",
        items: page.letters.iter().map(|letter| LetterView::new(letter, false)).collect(),
        next: page.next.map(|next| next.to_string()),
        next_page,
        about: About::Candidates,
        now,
    })
}
