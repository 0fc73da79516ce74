//! `failed`: work that finally failed without a letter, the newest first.

use redrive_store::{EventFilter, EventStatus, Timestamp};

use super::opened;
use super::paging::NextPage;
use crate::Stage;
use crate::args::FailedArgs;
use crate::trouble::Trouble;
use crate::view::failed::FailedView;

/// How many are listed unless a person says.
const DEFAULT_LIMIT: u32 = 20;

pub(super) fn run(args: &FailedArgs, stage: &mut Stage<'_>) -> Result<FailedView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let Some(opened) = opened::if_there(stage)? else {
        return Ok(FailedView::new(Vec::new(), None, None, now));
    };
    let before = match &args.after {
        Some(id) => {
            let unknown = || Trouble::NothingNamed { id: id.clone(), store: opened.store.location() };
            Some(opened.event(id)?.ok_or_else(unknown)?.seq)
        }
        None => None,
    };
    let filter = EventFilter { statuses: vec![EventStatus::Failed], before, ..EventFilter::default() };
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut search = opened.looker()?.search_events(filter, args.filter.clone());
    // One more than is shown tells whether there are more.
    let mut events = opened.runtime.block_on(search.next(limit.saturating_add(1)))?;
    let more = events.len() > limit as usize;
    events.truncate(limit as usize);
    let next = events.last().filter(|_| more).map(|event| event.event_id.clone());
    let next_page = next.as_ref().map(|next| {
        NextPage::new("failed")
            .flag("--limit", args.limit.as_ref().map(|limit| limit as _))
            .flag("--where", args.filter.as_ref().map(|filter| filter as _))
            .flag("--after", Some(next))
            .command()
    });
    Ok(FailedView::new(events, next, next_page, now))
}
