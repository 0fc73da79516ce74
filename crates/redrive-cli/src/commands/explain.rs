//! `explain ID`: the whole story of a job.

use super::opened;
use crate::Stage;
use crate::args::JobRef;
use crate::trouble::Trouble;
use crate::view::story::StoryView;

pub(super) fn run(id: &JobRef, stage: &Stage<'_>) -> Result<StoryView, Trouble> {
    let opened = opened::to_read(stage)?;
    let record = opened.job(id)?;
    let events = opened.story(&record)?;
    Ok(StoryView::new(&record, events, opened.now))
}
