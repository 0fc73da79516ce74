//! The trouble of those who run tasks.

use std::io;
use std::path::PathBuf;

use redrive_policy::{ConfigError, Lang, Problem};
use redrive_store::TaskId;

use super::system_error;
use crate::exit::Exit;
use crate::text::text;

/// What goes wrong with a task before it runs.
#[derive(Debug)]
pub(crate) enum TaskTrouble {
    /// The plan cannot be read.
    Unreadable { path: PathBuf, source: io::Error },
    /// The plan is wrong.
    BadPlan(ConfigError),
    /// A part of the plan cannot be done here.
    Unfit { plan: PathBuf, subtask: String, why: String },
    /// A task of this plan is not over yet.
    UnderWay { id: TaskId, plan: PathBuf },
    /// No such task.
    Unknown { which: String, store: String },
}

impl TaskTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            TaskTrouble::Unreadable { .. }
            | TaskTrouble::BadPlan(_)
            | TaskTrouble::Unfit { .. }
            | TaskTrouble::UnderWay { .. } => Exit::Usage,
            TaskTrouble::Unknown { .. } => Exit::Nothing,
        }
    }

    /// Each thing that is wrong.
    pub(super) fn messages(&self, lang: Lang) -> Vec<String> {
        match self {
            TaskTrouble::BadPlan(ConfigError { file, problems }) => {
                problems.iter().map(|problem| placed(file, problem, lang)).collect()
            }
            _ => vec![self.message(lang)],
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        match self {
            TaskTrouble::BadPlan(error) => error.describe(lang),
            TaskTrouble::Unreadable { path, source } => text(
                lang,
                "trouble.task.unreadable",
                &[("path", &path.display()), ("why", &system_error(source, lang))],
            ),
            TaskTrouble::Unfit { plan, subtask, why } => text(
                lang,
                "trouble.task.unfit",
                &[("plan", &plan.display()), ("subtask", subtask), ("why", why)],
            ),
            TaskTrouble::UnderWay { id, .. } => text(lang, "trouble.task.under-way", &[("id", id)]),
            TaskTrouble::Unknown { which, store } => {
                text(lang, "trouble.task.unknown", &[("which", which), ("store", store)])
            }
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> String {
        match self {
            TaskTrouble::Unreadable { .. } => text(lang, "trouble.hint.task.unreadable", &[]),
            TaskTrouble::BadPlan(_) | TaskTrouble::Unfit { .. } => {
                text(lang, "trouble.hint.task.bad-plan", &[])
            }
            TaskTrouble::UnderWay { plan, .. } => {
                text(lang, "trouble.hint.task.under-way", &[("plan", &plan.display())])
            }
            TaskTrouble::Unknown { .. } => text(lang, "trouble.hint.task.unknown", &[]),
        }
    }
}

/// A problem, with the place where an editor finds it.
pub(crate) fn placed(file: &str, problem: &Problem, lang: Lang) -> String {
    match problem.place {
        Some(place) => format!("{file}:{}:{}: {}", place.line, place.column, problem.describe(lang)),
        None => format!("{file}: {}", problem.describe(lang)),
    }
}
