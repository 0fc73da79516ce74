//! The trouble of those who want to be told, or not to be told.

use redrive::engine::AlertProblem;
use redrive_policy::Lang;

use crate::exit::Exit;
use crate::text::{say, text};

pub(super) fn exit(problem: &AlertProblem) -> Exit {
    match problem {
        AlertProblem::NoReceiver { .. }
        | AlertProblem::NotSilenceable { .. }
        | AlertProblem::NoSilence(_) => Exit::Nothing,
        _ => Exit::Failed,
    }
}

pub(super) fn message(problem: &AlertProblem, lang: Lang) -> String {
    let key = |key: &str| format!("trouble.alert.{key}");
    match problem {
        AlertProblem::OwnServer(name) => text(lang, &key("own-server"), &[("name", name)]),
        AlertProblem::NoReceivers => say(lang, &key("nobody")),
        AlertProblem::NoReceiver { name, .. } => text(lang, &key("no-receiver"), &[("name", name)]),
        AlertProblem::NotSilenceable { name, .. } => text(lang, &key("not-silenceable"), &[("name", name)]),
        AlertProblem::NoSilence(id) => text(lang, &key("no-silence"), &[("id", id)]),
        AlertProblem::TooManySilences(most) => text(lang, &key("too-many"), &[("most", most)]),
        other => text(lang, &key("other"), &[("why", other)]),
    }
}

pub(super) fn hint(problem: &AlertProblem, lang: Lang) -> Option<String> {
    let key = |key: &str| format!("trouble.hint.alert.{key}");
    match problem {
        AlertProblem::OwnServer(_) => Some(say(lang, &key("own-server"))),
        AlertProblem::NoReceivers => Some(say(lang, &key("nobody"))),
        AlertProblem::NoReceiver { known, .. } | AlertProblem::NotSilenceable { known, .. } => {
            Some(text(lang, &key("known"), &[("names", &known.join(", "))]))
        }
        AlertProblem::NoSilence(_) => Some(say(lang, &key("no-silence"))),
        _ => None,
    }
}
