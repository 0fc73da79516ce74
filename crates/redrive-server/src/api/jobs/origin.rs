//! What a job from outside may be: the kinds that redrive runs itself have a shape, and a guard.

use redrive::engine::{ALERT_KIND, ALERT_QUEUE, NotListed, is_readable_name, may_run};
use redrive::{BadCall, CommandSpec, HttpSpec};
use redrive_store::NewJob;

use crate::Server;
use crate::problem::{Code, Problem};

/// Whether a job that comes through the API may be added: its payload must be one that its kind can run.
pub(in crate::api) fn check_origin(server: &Server, job: &NewJob) -> Result<(), Problem> {
    fillable(job.queue(), "queue")?;
    match &*job.kind {
        ALERT_KIND => Err(Problem::new(Code::Forbidden, "jobs.alerts").at("kind")),
        "exec" => {
            let spec = CommandSpec::from_payload(&job.payload);
            let spec = spec.map_err(|_| Problem::new(Code::Invalid, "call.command").at("payload"))?;
            may_run(job.origin, &spec, &server.settings().commands).map_err(|refused| not_listed(&refused))
        }
        "http" => HttpSpec::from_payload(&job.payload).map(drop).map_err(|bad| no_call(&bad)),
        _ => Ok(()),
    }
}

/// Whether a queue may be filled from outside. A name that looks like another one is not made here: a person could not tell them apart.
pub(in crate::api) fn fillable(queue: &str, field: &'static str) -> Result<(), Problem> {
    not_alerts(queue, field)?;
    if !is_readable_name(queue) {
        return Err(Problem::new(Code::Invalid, "jobs.invisible").at(field));
    }
    Ok(())
}

/// Whether a queue may be filled or emptied from outside: messages of alerts are redrive's own, and nobody makes them up or takes
/// them away.
pub(in crate::api) fn not_alerts(queue: &str, field: &'static str) -> Result<(), Problem> {
    if queue == ALERT_QUEUE { Err(Problem::new(Code::Forbidden, "jobs.alerts").at(field)) } else { Ok(()) }
}

fn no_call(bad: &BadCall) -> Problem {
    let (key, place) = match bad {
        BadCall::Form(_) => ("call.form", "payload"),
        BadCall::Method(_) => ("call.method", "payload.method"),
        BadCall::Url(_) => ("call.url", "payload.url"),
        BadCall::HeaderName(_) => ("call.header_name", "payload.headers"),
        BadCall::HeaderValue(_) => ("call.header_value", "payload.headers"),
        BadCall::NotYours(_) => ("call.not_yours", "payload.headers"),
        BadCall::Base64(_) => ("call.base64", "payload.body"),
    };
    Problem::new(Code::Invalid, key).at(place)
}

fn not_listed(refused: &NotListed) -> Problem {
    match refused {
        NotListed::Program(program) => {
            Problem::new(Code::Forbidden, "call.program").with("program", program).at("payload.argv[0]")
        }
        NotListed::Setting(setting) => Problem::new(Code::Forbidden, "call.setting")
            .with("setting", setting)
            .at(format!("payload.{setting}")),
        _ => Problem::of(Code::Forbidden),
    }
}
