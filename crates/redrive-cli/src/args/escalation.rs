//! `escalations` and whatever else is about a task or a job: `task-7`, `job_9`, the beginning of an event's id, `-`.

use std::fmt;

use redrive::engine::{EscalationId, EscalationPlace};
use redrive_store::TaskId;

use super::id::{self, IdArg};
use super::value::{self, BadValue};

/// Whose id it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubjectArg {
    Task(TaskId),
    Other(IdArg),
}

pub(crate) fn subject(text: &str) -> Result<SubjectArg, BadValue> {
    match text.trim().parse() {
        Ok(task) => Ok(SubjectArg::Task(task)),
        Err(_) => id::id(text).map(SubjectArg::Other),
    }
}

/// The escalation that a page ended with, and when it happened: `task-7@2026-11-15T11:03:32.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) EscalationPlace);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, id) = &self.0;
        write!(f, "{id}@{at}")
    }
}

pub(crate) fn place(text: &str) -> Result<Place, BadValue> {
    let (id, at) = text.trim().split_once('@').ok_or(BadValue::Id)?;
    let id: EscalationId = id.parse().map_err(|_| BadValue::Id)?;
    Ok(Place((at.parse().map_err(|_| BadValue::Id)?, id)))
}

/// Which escalations to list. These flags stand behind `escalations` as well as behind `escalations list`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct EscalationsArgs {
    #[arg(long)]
    pub(crate) all: bool,
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long, value_name = "ID", value_parser = place)]
    pub(crate) after: Option<Place>,
}

impl EscalationsArgs {
    /// What was said here, or else there.
    pub(crate) fn or(self, other: EscalationsArgs) -> EscalationsArgs {
        EscalationsArgs {
            all: self.all || other.all,
            limit: self.limit.or(other.limit),
            after: self.after.or(other.after),
        }
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum EscalationsCommand {
    List(EscalationsArgs),
    Show {
        #[arg(value_name = "ID", value_parser = subject)]
        id: SubjectArg,
    },
    Ack {
        #[arg(value_name = "ID", value_parser = subject, required = true)]
        ids: Vec<SubjectArg>,
        #[arg(long, value_name = "TEXT", alias = "why")]
        note: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::JobRef;
    use redrive_store::JobId;

    /// R-C1: tasks and jobs are told apart by their ids, and a place survives its text.
    #[test]
    fn ids_and_places_are_read() {
        let job = |id| SubjectArg::Other(IdArg::One(JobRef::Job(JobId(id))));
        for (text, expected) in [("task-7", SubjectArg::Task(TaskId(7))), ("job_9", job(9)), (" 9 ", job(9))]
        {
            assert_eq!(subject(text), Ok(expected), "{text}");
        }
        assert_eq!(subject("-"), Ok(SubjectArg::Other(IdArg::Stdin)));
        assert_eq!(subject("task-"), Err(BadValue::Id));
        for text in ["task-7@2026-11-15T11:03:32.123Z", "job_9@2026-11-15T11:03:32.123Z"] {
            assert_eq!(place(text).map(|place| place.to_string()), Ok(text.to_owned()));
        }
        for bad in ["", "task-7", "task-7@noon", "@2026-11-15T11:03:32Z"] {
            assert_eq!(place(bad), Err(BadValue::Id), "{bad}");
        }
    }
}
