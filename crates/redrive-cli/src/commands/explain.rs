//! `explain ID`: the whole story of a job.

use std::collections::BTreeMap;

use redrive_store::RunId;

use super::opened;
use crate::Stage;
use crate::args::JobRef;
use crate::trouble::Trouble;
use crate::view::story::{StoryView, run_in};

pub(super) fn run(id: &JobRef, stage: &Stage<'_>) -> Result<StoryView, Trouble> {
    let opened = opened::to_read(stage)?;
    let job = opened.job(id)?.id;
    let unknown = || Trouble::NoJob { id: id.to_string(), store: opened.store.location() };
    let story = opened.runtime.block_on(opened.looker()?.story(job))?.ok_or_else(unknown)?;
    let mut wanted = BTreeMap::new();
    for name in story.events.iter().filter_map(run_in) {
        let Some(run) = name.parse::<RunId>().ok().filter(|_| !wanted.contains_key(name)) else { continue };
        // Runs are forgotten before jobs are.
        if let Some(run) = opened.wait(opened.store.run(run))? {
            wanted.insert(name.to_owned(), run.wanted_by);
        }
    }
    Ok(StoryView::new(story, wanted, opened.now))
}
