//! The trouble of those who operate: editors, payloads, queues.

use std::io;
use std::path::PathBuf;

use redrive_policy::Lang;

use super::{Trouble, system_error};
use crate::exit::Exit;
use crate::text::{own, say, text};

/// What goes wrong while something is mended.
#[derive(Debug)]
pub(crate) enum DeskTrouble {
    /// No such queue.
    NoQueue { queue: String, store: String },
    /// Nothing is known of such a target.
    NoTarget { target: String, store: String },
    /// No such token.
    NoToken { id: String, store: String },
    /// Nothing that waits for a person has this id.
    NoEscalation { id: String, store: String },
    /// No idempotency key is called so.
    NoKey { written: String, store: String },
    /// No idempotency key is called so from beginning to end.
    NoWholeKey { written: String, store: String },
    /// Several keys are called so, or begin so.
    SeveralKeys { written: String, named: Vec<String> },
    /// There are too many keys to find one by its beginning.
    TooManyKeys { written: String, n: usize },
    /// The key was used meanwhile, or somebody else was faster.
    KeyChanged { id: String },
    /// No editor is named, and there is no usual one.
    NoEditor,
    /// What names the editor is no command.
    BadEditor { written: String },
    /// The editor cannot be started.
    NoSuchEditor { editor: String, source: io::Error },
    /// The editor ended with a code that says that it failed.
    EditorFailed { editor: String, code: i32 },
    /// The editor was killed.
    EditorKilled { editor: String, signal: i32 },
    /// The editor left no file behind.
    FileGone,
    /// What was JSON is none any more.
    NotJson(serde_json::Error),
    /// `--set` on a payload that is no JSON.
    NotJsonToSet { id: String },
    /// A payload that no editor can show.
    NotText { id: String },
    /// A path that leads nowhere.
    BadPath { path: String, key: &'static str, place: String, len: usize },
    /// Nobody who runs this kind could do anything with the payload.
    BadForKind { kind: String, why: String },
    /// Somebody else was faster.
    EditedMeanwhile { id: String },
    /// The job is over, and nobody keeps payloads of that.
    PayloadsGone { id: String },
    /// What a person typed could not be stored, and is kept.
    Kept { trouble: Box<Trouble>, file: PathBuf },
}

impl DeskTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            DeskTrouble::NoQueue { .. }
            | DeskTrouble::NoTarget { .. }
            | DeskTrouble::NoToken { .. }
            | DeskTrouble::NoEscalation { .. }
            | DeskTrouble::NoKey { .. }
            | DeskTrouble::NoWholeKey { .. }
            | DeskTrouble::PayloadsGone { .. }
            | DeskTrouble::TooManyKeys { .. } => Exit::Nothing,
            DeskTrouble::BadPath { .. }
            | DeskTrouble::SeveralKeys { .. }
            | DeskTrouble::NotJsonToSet { .. }
            | DeskTrouble::BadForKind { .. } => Exit::Usage,
            DeskTrouble::NoEditor
            | DeskTrouble::BadEditor { .. }
            | DeskTrouble::NoSuchEditor { .. }
            | DeskTrouble::EditorFailed { .. }
            | DeskTrouble::EditorKilled { .. }
            | DeskTrouble::FileGone
            | DeskTrouble::NotJson(_)
            | DeskTrouble::NotText { .. }
            | DeskTrouble::EditedMeanwhile { .. }
            | DeskTrouble::KeyChanged { .. }
            | DeskTrouble::Kept { .. } => Exit::Failed,
        }
    }

    pub(super) fn messages(&self, lang: Lang) -> Vec<String> {
        match self {
            DeskTrouble::Kept { trouble, file } => {
                let mut messages = trouble.messages(lang);
                messages.push(text(lang, "trouble.desk.kept", &[("file", &file.display())]));
                messages
            }
            _ => vec![self.message(lang)],
        }
    }

    fn message(&self, lang: Lang) -> String {
        let key = format!("trouble.desk.{}", self.key());
        match self {
            DeskTrouble::NoQueue { queue, store } => text(lang, &key, &[("queue", queue), ("store", store)]),
            DeskTrouble::NoTarget { target, store } => {
                text(lang, &key, &[("target", target), ("store", store)])
            }
            DeskTrouble::NoToken { id, store } | DeskTrouble::NoEscalation { id, store } => {
                text(lang, &key, &[("id", id), ("store", store)])
            }
            DeskTrouble::NoKey { written, store } | DeskTrouble::NoWholeKey { written, store } => {
                text(lang, &key, &[("key", written), ("store", store)])
            }
            DeskTrouble::SeveralKeys { written, named } => {
                text(lang, &key, &[("key", written), ("names", &named.join(", "))])
            }
            DeskTrouble::TooManyKeys { written, n } => text(lang, &key, &[("key", written), ("n", n)]),
            DeskTrouble::BadEditor { written } => text(lang, &key, &[("editor", written)]),
            DeskTrouble::NoSuchEditor { editor, source } => {
                text(lang, &key, &[("editor", editor), ("error", &system_error(source, lang))])
            }
            DeskTrouble::EditorFailed { editor, code } => {
                text(lang, &key, &[("editor", editor), ("code", code)])
            }
            DeskTrouble::EditorKilled { editor, signal } => {
                text(lang, &key, &[("editor", editor), ("signal", signal)])
            }
            DeskTrouble::NotJson(error) => text(lang, &key, &[("error", error)]),
            DeskTrouble::NotJsonToSet { id }
            | DeskTrouble::NotText { id }
            | DeskTrouble::EditedMeanwhile { id }
            | DeskTrouble::PayloadsGone { id }
            | DeskTrouble::KeyChanged { id } => text(lang, &key, &[("id", id)]),
            DeskTrouble::BadPath { path, key: why, place, len } => {
                let values: [(&str, &dyn std::fmt::Display); 3] =
                    [("path", path), ("place", place), ("len", len)];
                text(lang, &format!("trouble.desk.path.{why}"), &values)
            }
            DeskTrouble::BadForKind { kind, why } => {
                text(lang, &key, &[("kind", kind), ("why", &own(lang, why))])
            }
            DeskTrouble::NoEditor | DeskTrouble::FileGone | DeskTrouble::Kept { .. } => say(lang, &key),
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> Option<String> {
        match self {
            DeskTrouble::Kept { trouble, .. } => trouble.hint(lang),
            DeskTrouble::EditedMeanwhile { id }
            | DeskTrouble::PayloadsGone { id }
            | DeskTrouble::KeyChanged { id }
            | DeskTrouble::NotText { id }
            | DeskTrouble::NotJsonToSet { id } => {
                Some(text(lang, &format!("trouble.hint.desk.{}", self.key()), &[("id", id)]))
            }
            _ => Some(say(lang, &format!("trouble.hint.desk.{}", self.key()))),
        }
    }

    const fn key(&self) -> &'static str {
        match self {
            DeskTrouble::NoQueue { .. } => "no-queue",
            DeskTrouble::NoTarget { .. } => "no-target",
            DeskTrouble::NoToken { .. } => "no-token",
            DeskTrouble::NoEscalation { .. } => "no-escalation",
            DeskTrouble::NoKey { .. } => "no-key",
            DeskTrouble::NoWholeKey { .. } => "no-whole-key",
            DeskTrouble::SeveralKeys { .. } => "several-keys",
            DeskTrouble::TooManyKeys { .. } => "too-many-keys",
            DeskTrouble::KeyChanged { .. } => "key-changed",
            DeskTrouble::NoEditor => "no-editor",
            DeskTrouble::BadEditor { .. } => "bad-editor",
            DeskTrouble::NoSuchEditor { .. } => "no-such-editor",
            DeskTrouble::EditorFailed { .. } => "editor-failed",
            DeskTrouble::EditorKilled { .. } => "editor-killed",
            DeskTrouble::FileGone => "file-gone",
            DeskTrouble::NotJson(_) => "not-json",
            DeskTrouble::NotJsonToSet { .. } => "not-json-to-set",
            DeskTrouble::NotText { .. } => "not-text",
            DeskTrouble::BadPath { .. } => "bad-path",
            DeskTrouble::BadForKind { .. } => "bad-for-kind",
            DeskTrouble::EditedMeanwhile { .. } => "edited-meanwhile",
            DeskTrouble::PayloadsGone { .. } => "payloads-gone",
            DeskTrouble::Kept { .. } => "kept",
        }
    }
}
