//! The trouble of those who run tasks.

use std::io;
use std::path::PathBuf;

use redrive_policy::Lang;
use redrive_store::TaskId;

use super::system_error;
use crate::exit::Exit;
use crate::text::text;

/// What goes wrong with a task before it runs.
#[derive(Debug)]
pub(crate) enum TaskTrouble {
    /// The plan cannot be read.
    Unreadable { path: PathBuf, source: io::Error },
    /// A task of this plan is not over yet.
    UnderWay { id: TaskId, plan: PathBuf },
    /// No such task.
    Unknown { which: String, store: String },
}

impl TaskTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            TaskTrouble::Unreadable { .. } | TaskTrouble::UnderWay { .. } => Exit::Usage,
            TaskTrouble::Unknown { .. } => Exit::Nothing,
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        match self {
            TaskTrouble::Unreadable { path, source } => text(
                lang,
                "trouble.task.unreadable",
                &[("path", &path.display()), ("why", &system_error(source, lang))],
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
            TaskTrouble::UnderWay { plan, .. } => {
                text(lang, "trouble.hint.task.under-way", &[("plan", &plan.display())])
            }
            TaskTrouble::Unknown { .. } => text(lang, "trouble.hint.task.unknown", &[]),
        }
    }
}
