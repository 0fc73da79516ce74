//! `detail ID`: everything that is known about an event, or about the last one of a job.

use super::opened;
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
            let found = opened.runtime.block_on(opened.looker()?.job_and_last(*job))?;
            let (record, last) = found.ok_or_else(unknown)?;
            (last.ok_or_else(unknown)?, Some(record))
        }
    };
    Ok(DetailView::new(event, job.as_ref(), opened.now))
}
