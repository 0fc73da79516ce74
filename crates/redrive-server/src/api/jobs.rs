//! Jobs: enqueuing one or many, looking at one and at its story, cancelling it and trying it now.

mod enqueue;
mod list;
mod look;
mod operate;
mod origin;
mod shapes;

use crate::act::Why;
use crate::caller::Scope;
use crate::problem::Code;
use crate::route::Route;
use crate::shape;
use enqueue::EnqueueBody;
pub(super) use enqueue::{allowed, named};
use list::{Head, JobsQuery};
use look::{LookQuery, Story, Trace};
use operate::{Cancelled, Retried, RetryBody};
pub(super) use origin::{check_origin, fillable, not_alerts};
use shapes::{AddedOneOrMany, Job};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/jobs",
            Scope::Produce,
            "enqueue",
            "Adds a job, or many: all of them or none.",
            enqueue::enqueue,
        )
        .takes::<EnqueueBody>()
        .completes_its_key()
        .answers::<AddedOneOrMany>(201, "They are stored.")
        .answers::<AddedOneOrMany>(200, "All of them were there already, under their unique keys."),
        Route::get("/v1/jobs", Scope::Read, "list_jobs", "The jobs that live, the newest first.", list::jobs)
            .asks::<JobsQuery>()
            .answers::<shape::Page<Head>>(200, "Jobs, without their payloads."),
        Route::get(
            "/v1/jobs/{id}",
            Scope::Read,
            "get_job",
            "Everything that is known about a job.",
            look::job,
        )
        .place::<shape::JobId>("id")
        .asks::<LookQuery>()
        .answers::<Job>(200, "The job."),
        Route::get(
            "/v1/jobs/{id}/explain",
            Scope::Read,
            "explain_job",
            "Why a job is where it is.",
            look::explain,
        )
        .place::<shape::JobId>("id")
        .answers::<Story>(200, "Its story: the contract redrive/story.v1."),
        Route::get(
            "/v1/jobs/{id}/trace",
            Scope::Read,
            "trace_job",
            "Its retries and recoveries.",
            look::trace,
        )
        .place::<shape::JobId>("id")
        .answers::<Trace>(200, "The oldest first."),
        Route::post("/v1/jobs/{id}/cancel", Scope::Operate, "cancel_job", "Ends a job.", operate::cancel)
            .place::<shape::JobId>("id")
            .may_take::<Why>()
            .answers::<Cancelled>(200, "It is over, or its worker is asked to stop."),
        Route::post("/v1/jobs/{id}/retry", Scope::Operate, "retry_job", "Tries a job now.", operate::retry)
            .place::<shape::JobId>("id")
            .may_take::<RetryBody>()
            .answers::<Retried>(200, "It is due.")
            .problems(&[Code::Permanent]),
    ]
}
