//! The trouble of those who send later.

use redrive::BadCall;
use redrive_idempotency::client::{KeyError, MAX_KEY_BYTES};
use redrive_idempotency::outbox::{ItemId, OutboxError};
use redrive_policy::Lang;

use super::{Trouble, call_in_words};
use crate::exit::Exit;
use crate::text::{say, text};

/// What goes wrong with the outbox.
#[derive(Debug)]
pub(crate) enum OutboxTrouble {
    /// No such item.
    NoItem { id: ItemId, store: String },
    /// Nothing has failed.
    NothingFailed { store: String },
    /// The key, or the name of a save, belongs to another call.
    KeyTaken { item: ItemId, key: String },
    /// A key that cannot be sent.
    BadKey,
    /// A call that nobody can make.
    BadCall(BadCall),
    /// A call that is larger than is kept.
    TooLarge { most: usize },
    /// The system gives no random numbers.
    NoChance(String),
    /// What this build does not know.
    Other(String),
}

impl From<OutboxError> for Trouble {
    fn from(error: OutboxError) -> Trouble {
        match error {
            OutboxError::Store(error) | OutboxError::Key(KeyError::Store(error)) => error.into(),
            OutboxError::Engine(error) => error.into(),
            OutboxError::Call(error) => Trouble::Outbox(OutboxTrouble::BadCall(error)),
            OutboxError::Key(KeyError::BadKey) => Trouble::Outbox(OutboxTrouble::BadKey),
            OutboxError::Key(KeyError::NoChance(error)) => {
                Trouble::Outbox(OutboxTrouble::NoChance(error.to_string()))
            }
            OutboxError::KeyTaken { item, key } => Trouble::Outbox(OutboxTrouble::KeyTaken { item, key }),
            other => Trouble::Outbox(OutboxTrouble::Other(other.to_string())),
        }
    }
}

impl OutboxTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            OutboxTrouble::NoItem { .. } | OutboxTrouble::NothingFailed { .. } => Exit::Nothing,
            OutboxTrouble::BadKey | OutboxTrouble::BadCall(_) => Exit::Usage,
            OutboxTrouble::KeyTaken { .. }
            | OutboxTrouble::TooLarge { .. }
            | OutboxTrouble::NoChance(_)
            | OutboxTrouble::Other(_) => Exit::Failed,
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        let key = format!("trouble.outbox.{}", self.key());
        match self {
            OutboxTrouble::NoItem { id, store } => text(lang, &key, &[("id", id), ("store", store)]),
            OutboxTrouble::NothingFailed { store } => text(lang, &key, &[("store", store)]),
            OutboxTrouble::KeyTaken { item, key: taken } => text(lang, &key, &[("id", item), ("key", taken)]),
            OutboxTrouble::BadKey => text(lang, &key, &[("most", &MAX_KEY_BYTES)]),
            OutboxTrouble::BadCall(error) => call_in_words(error, lang),
            OutboxTrouble::TooLarge { most } => text(lang, &key, &[("most", most)]),
            OutboxTrouble::NoChance(why) | OutboxTrouble::Other(why) => text(lang, &key, &[("why", why)]),
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> Option<String> {
        let key = format!("trouble.hint.outbox.{}", self.key());
        match self {
            OutboxTrouble::NoItem { .. }
            | OutboxTrouble::NothingFailed { .. }
            | OutboxTrouble::BadCall(_)
            | OutboxTrouble::TooLarge { .. } => Some(say(lang, &key)),
            OutboxTrouble::KeyTaken { item, .. } => Some(text(lang, &key, &[("id", item)])),
            OutboxTrouble::BadKey | OutboxTrouble::NoChance(_) | OutboxTrouble::Other(_) => None,
        }
    }

    const fn key(&self) -> &'static str {
        match self {
            OutboxTrouble::NoItem { .. } => "no-item",
            OutboxTrouble::NothingFailed { .. } => "nothing-failed",
            OutboxTrouble::KeyTaken { .. } => "key-taken",
            OutboxTrouble::BadKey => "bad-key",
            OutboxTrouble::BadCall(_) => "bad-call",
            OutboxTrouble::TooLarge { .. } => "too-large",
            OutboxTrouble::NoChance(_) => "no-chance",
            OutboxTrouble::Other(_) => "other",
        }
    }
}
