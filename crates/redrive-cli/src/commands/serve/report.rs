//! What the log says of work: attempts that failed, those that succeeded where much is asked for, and what needs a person.

use redrive::engine::{AttemptReport, Escalated};
use redrive_policy::{Lang, human_duration};

use crate::commands::told::{End, Told};
use crate::log::{Level, Log};
use crate::text::text;
use crate::view::moment::rough;

/// Tells of attempts that this process made itself.
pub(super) fn on_attempt(log: Log, lang: Lang) -> impl Fn(&AttemptReport<'_>) + Send + Sync + 'static {
    move |report| {
        let told = Told::of(report);
        let who: [(&str, &dyn std::fmt::Display); 3] =
            [("id", &told.id), ("name", &told.name), ("n", &told.attempt)];
        let (level, message) = match &told.end {
            End::Succeeded { took, .. } => {
                if !log.is_on(Level::Debug) {
                    return;
                }
                let took = rough(*took);
                (Level::Debug, text(lang, "work.succeeded", &[who[0], who[1], who[2], ("took", &took)]))
            }
            End::Retrying { failed, delay, .. } => {
                let (what, cause, delay) = (failed.what(lang), failed.cause(lang), human_duration(*delay));
                let values = [who[0], who[1], who[2], ("what", &what), ("cause", &cause), ("delay", &delay)];
                (Level::Info, text(lang, "work.retrying", &values))
            }
            End::Cancelled { .. } => (Level::Info, text(lang, "work.cancelled", &who)),
            // What died is told by the engine, whoever made the attempt.
            End::Dead { .. } | End::Uncounted => return,
        };
        log.say(level, &message, &[("job", &told.id), ("attempt", &told.attempt)]);
    }
}

/// Tells of what needs a person, whoever made the last attempt.
pub(super) fn on_escalation(log: Log, lang: Lang) -> impl Fn(&[Escalated]) + Send + Sync + 'static {
    move |told| {
        for Escalated { id, report, .. } in told {
            // What it is and why; what to do about it stands in the report, and would not fit.
            let lines = report.user_message.lines().filter(|line| !line.trim().is_empty());
            let words: Vec<&str> = lines.take(2).collect();
            let message = text(lang, "serve.escalated", &[("id", id), ("words", &words.join(" "))]);
            log.warn(&message, &[("id", id)]);
        }
    }
}
