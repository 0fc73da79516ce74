//! What `work` and `task run` tell of an escalation: at once when `escalate.notify_immediately` is on, else how many
//! there were. The engine hands them over on its own threads; whoever holds stderr takes them from here.

use std::sync::{Arc, Mutex, PoisonError};

use redrive::engine::Escalated;
use redrive_policy::EscalateSettings;

use crate::Stage;
use crate::text::text;

/// What was handed over and is not told yet.
#[derive(Debug, Clone)]
pub(super) struct ToTell {
    settings: EscalateSettings,
    waiting: Arc<Mutex<Vec<Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    escalated: Escalated,
    /// Somebody has looked since it came.
    seen: bool,
}

impl ToTell {
    pub(super) fn new(settings: EscalateSettings) -> ToTell {
        ToTell { settings, waiting: Arc::default() }
    }

    /// The listener of the engine.
    pub(super) fn listener(&self) -> impl Fn(&[Escalated]) + Send + Sync + 'static {
        let waiting = Arc::clone(&self.waiting);
        move |told| {
            let new = told.iter().map(|one| Waiting { escalated: one.clone(), seen: false });
            waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        }
    }

    /// Tells what is about this id, which has just been told to be over.
    pub(super) fn about(&self, id: &str, stage: &mut Stage<'_>) {
        if self.settings.notify_immediately {
            let mine = self.take(|waiting| waiting.escalated.id == id);
            self.tell(&mine, stage);
        }
    }

    /// Tells what nobody has spoken of since the last time that somebody looked here: it came from elsewhere.
    pub(super) fn others(&self, stage: &mut Stage<'_>) {
        let old = self.take(|waiting| std::mem::replace(&mut waiting.seen, true));
        self.tell(&old, stage);
    }

    /// Tells what is left.
    pub(super) fn rest(&self, stage: &mut Stage<'_>) {
        let rest = self.take(|_| true);
        self.tell(&rest, stage);
    }

    fn take(&self, which: impl FnMut(&mut Waiting) -> bool) -> Vec<Escalated> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extract_if(.., which).map(|one| one.escalated).collect()
    }

    fn tell(&self, told: &[Escalated], stage: &mut Stage<'_>) {
        let lang = stage.settings.lang;
        if !self.settings.notify_immediately {
            if !told.is_empty() {
                stage.talk.narrate(&text(lang, "escalated.gathered", &[("n", &told.len())]));
            }
            return;
        }
        for Escalated { id, report, .. } in told {
            // A task is told in the words for a person; of a letter, the line before has said what happened.
            if id.starts_with("task-") {
                let lines = report.user_message.lines().filter(|line| !line.is_empty());
                lines.for_each(|line| stage.talk.narrate(line));
                continue;
            }
            let action = report.recommended_actions.first().map_or("", String::as_str);
            let title = report.level.title(lang);
            let key =
                if self.settings.include_trace_link { "escalated.line-traced" } else { "escalated.line" };
            stage.talk.narrate(&text(
                lang,
                key,
                &[("id", id), ("n", &report.level.number()), ("title", &title), ("action", &action)],
            ));
        }
    }
}
