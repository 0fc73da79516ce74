//! How far up a failure has gone (R-T10), in words.

use redrive_policy::{EscalationLevel, Lang};
use redrive_store::{JobRecord, JobState};

use super::Span;
use crate::text::{say, text};

/// The level of a job that was set aside; none for one that was not.
pub(super) fn of_job(record: &JobRecord) -> Option<EscalationLevel> {
    match &record.state {
        JobState::Dead(letter) => Some(EscalationLevel::of(letter.cause, letter.retryable)),
        JobState::Ready { .. } | JobState::Leased { .. } | JobState::Ended => None,
    }
}

/// `2 · dead letter and alert`, under its name.
pub(super) fn field(level: EscalationLevel, lang: Lang) -> (String, Span) {
    (say(lang, "level.heading"), Span::plain(in_words(level, lang)))
}

/// `2 · dead letter and alert`.
pub(super) fn in_words(level: EscalationLevel, lang: Lang) -> String {
    format!("{} · {}", level.number(), level.title(lang))
}

/// The same as a sentence.
pub(super) fn line(level: EscalationLevel, lang: Lang) -> String {
    text(lang, "level.line", &[("n", &level.number()), ("title", &level.title(lang))])
}
