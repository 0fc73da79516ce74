//! The trouble of those who have services called for jobs.

use redrive::engine::{BadEndpoint, PushProblem};
use redrive_policy::Lang;

use crate::exit::Exit;
use crate::text::{say, text};

/// What goes wrong with push endpoints.
#[derive(Debug)]
pub(crate) enum PushTrouble {
    /// No such endpoint.
    Unknown { name: String, store: String },
    /// It stands in the configuration, and is changed there.
    Configured { name: String },
    /// A new one needs a queue and an address.
    Incomplete { name: String },
    /// A variable that holds no secret.
    Secret { variable: String },
    /// The engine does not take it.
    Problem(PushProblem),
}

impl PushTrouble {
    pub(super) const fn exit(&self) -> Exit {
        match self {
            PushTrouble::Unknown { .. } => Exit::Nothing,
            PushTrouble::Problem(PushProblem::TooMany(_)) | PushTrouble::Configured { .. } => Exit::Failed,
            PushTrouble::Incomplete { .. } | PushTrouble::Secret { .. } | PushTrouble::Problem(_) => {
                Exit::Usage
            }
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        let key = |key: &str| format!("trouble.push.{key}");
        match self {
            PushTrouble::Unknown { name, store } => {
                text(lang, &key("unknown"), &[("name", name), ("store", store)])
            }
            PushTrouble::Configured { name } => text(lang, &key("configured"), &[("name", name)]),
            PushTrouble::Incomplete { name } => text(lang, &key("incomplete"), &[("name", name)]),
            PushTrouble::Secret { variable } => text(lang, &key("secret"), &[("variable", variable)]),
            PushTrouble::Problem(PushProblem::Bad(BadEndpoint { field, .. })) => {
                say(lang, &key(&format!("bad.{field}")))
            }
            PushTrouble::Problem(PushProblem::TooMany(most)) => {
                text(lang, &key("too-many"), &[("most", most)])
            }
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> String {
        let key = |key: &str| format!("trouble.hint.push.{key}");
        match self {
            PushTrouble::Unknown { .. } => say(lang, &key("unknown")),
            PushTrouble::Configured { .. } => say(lang, "trouble.hint.serve.bad-push"),
            PushTrouble::Incomplete { name } => text(lang, &key("incomplete"), &[("name", name)]),
            PushTrouble::Secret { variable } => {
                text(lang, "trouble.hint.serve.push-secret", &[("variable", variable)])
            }
            PushTrouble::Problem(PushProblem::TooMany(_)) => say(lang, &key("too-many")),
            PushTrouble::Problem(PushProblem::Bad(_)) => say(lang, &key("bad")),
        }
    }
}
