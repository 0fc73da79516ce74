//! `detail ID`: everything that is known about an event, or about the last one of a job.

use redrive_store::{Event, EventFilter, JobRecord};

use super::opened::{self, Opened};
use crate::Stage;
use crate::args::JobRef;
use crate::trouble::Trouble;
use crate::view::detail::DetailView;

pub(super) fn run(id: &JobRef, stage: &Stage<'_>) -> Result<DetailView, Trouble> {
    let opened = opened::to_read(stage)?;
    let unknown = || Trouble::NothingNamed { id: id.to_string(), store: opened.store.location() };
    let (event, job) = match id {
        JobRef::Event(written) => {
            let event = opened.event(written)?.ok_or_else(unknown)?;
            let job = match event.job {
                Some(job) => opened.wait(opened.store.job(job))?,
                None => None,
            };
            (event, job)
        }
        JobRef::Job(job) => {
            let record = opened.wait(opened.store.job(*job))?.ok_or_else(unknown)?;
            (last_of(&opened, &record)?.ok_or_else(unknown)?, Some(record))
        }
    };
    Ok(DetailView::new(event, job.as_ref(), opened.now))
}

/// The last event of a job's own story.
fn last_of(opened: &Opened, record: &JobRecord) -> Result<Option<Event>, Trouble> {
    let chain = opened.wait(opened.store.causality(record.event, 1))?;
    if let Some(last) = chain.into_iter().next_back() {
        return Ok(Some(last));
    }
    let filter = EventFilter { job: Some(record.id), ..EventFilter::default() };
    Ok(opened.wait(opened.store.events(filter, 1))?.into_iter().next())
}
